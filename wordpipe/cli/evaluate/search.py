"""`wordpipe evaluate search`: one's own questions put to an index in every way, as a table or as JSON."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH
from wordpipe.cli.evaluate.measures import evaluation, number
from wordpipe.cli.output import counted
from wordpipe.cli.tables import answer, console, new_table

_WAYS = {
    "words": "words alone (BM25)",
    "vectors": "vectors alone",
    "both": "both",
    "words_twice": "words asked twice",
    "both_once": "both, asked once",
}
_HEADS = ("nDCG@10", "95 %", "above words", "p", "MRR", "recall@10")


@evaluation(
    "index", "INDEX", nargs=1, example="wordpipe evaluate search run/index --data questions.tsv", json="all figures",
)  # fmt: skip
@click.option(
    "--data", required=True, metavar="FILE", type=PATH,
    help="Lines of a question, a tab, and the id or title of a right answer; or columns question, and id or title.",
)  # fmt: skip
@number("--draws", 0, 10_000, "Of the bootstrap.", expert=True)
def search(index: Path, data: Path, **given: Any) -> None:
    """Ask an index your own questions, in every way in which it can be asked, and say which finds best.

    Several right answers of a question are several lines; an id goes before a title. The index is asked as it is, by words,
    by vectors, by both, by words asked twice (with what the first answers say, without vectors), by both asked once, and by
    several weights of the vectors. Rows count as query lists them. p says how often draws of as many questions turn the
    difference to words alone around. Exit code 3 when no right answer stands in the index.
    """
    from wordpipe.stages import evaluate_search

    answer(evaluate_search, index, data, show=_show, remarks=_remarks, **given)


def way_shown(name: str) -> str:
    """A way of asking for people."""
    return _WAYS.get(name) or f"both, weight {name.removeprefix('both_')}"


def command_of(options: dict[str, Any]) -> str:
    """The options of `wordpipe query` that ask so."""
    return " ".join(f"--{name} {value}" for name, value in options.items())


def _show(found: dict[str, Any]) -> None:
    table = new_table("x 100", *_HEADS)
    for one in found["systems"]:
        metrics, against = one["metrics"], (one["against_words"] or {}).get("ndcg_at_10")
        table.add_row(
            way_shown(one["system"]),
            f"{100 * metrics['ndcg_at_10']:.1f}",
            _range(one["intervals"]["ndcg_at_10"]),
            f"{100 * against['difference']:+.1f}" if against else "–",
            f"{against['p']:.4f}" if against else "–",
            f"{100 * metrics['mrr']:.1f}",
            f"{100 * metrics['recall_at_10']:.1f}",
        )
    console().print(table)


def _range(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else " … ".join(f"{100 * bound:.1f}" for bound in interval)


def _remarks(found: dict[str, Any]) -> list[str]:
    """On how much the table stands, what could not be asked, and which way is best."""
    counts = found["counts"]
    lines = [f"{counted(counts['questions'], 'questions')}, {counted(counts['answers'], 'right answers')}"]
    if (first := found["unknown_first"]) is not None:
        stand = (
            f"{counts['unknown']:,} of {counted(counts['lines'], 'lines')} name an id or title that is not in the index"
        )
        left_out = f"; {counted(counts['left_out'], 'questions')} left out" if counts["left_out"] else ""
        lines.append(f"{stand}: the first is {first['value']!r} ({first['where']}){left_out}")
    if counts["repeated"]:
        lines.append(f"{counted(counts['repeated'], 'lines')} stand twice and count once")
    nothing = [(way_shown(one["system"]), one["unanswered"]) for one in found["systems"] if one["unanswered"]]
    lines += [f"{name}: {counted(count, 'questions')} without an answer count as 0" for name, count in nothing]
    if (best := found["best"]) is not None:
        lines.append(_verdict(best, counts["questions"], found["index"]))
    return lines


def _verdict(best: dict[str, Any], n: int, index: str) -> str:
    ask = f"wordpipe query {shlex.quote(index)} … {command_of(best['options'])}"
    if best["differs"]:
        return f"best beyond noise: {way_shown(best['system'])}; ask so: {ask}"
    few = f"; {counted(n, 'questions')} are few: more tell more" if n < 100 else ""
    return f"no way finds more than words alone beyond noise; ask so: {ask}{few}"
