"""`wordpipe evaluate retrieval`: figures of search in tables for people, or as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import ExampleCommand, Option
from wordpipe.cli.options import chosen_embedding, embedding_options
from wordpipe.cli.output import say
from wordpipe.cli.progress import ProgressDrawer
from wordpipe.cli.tables import short_name, side_by_side

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["retrieval"]

_NAME_WIDTH = 24
_MEASURES = {"ndcg_at_10": "nDCG@10", "map": "MAP", "recall_at_100": "recall@100", "mrr": "MRR"}
_HEADS = {"bm25": "BM25", "tfidf": "TF-IDF", "lsi": "LSI", "words_mean": "mean of words"}


@click.command(
    cls=ExampleCommand,
    params=embedding_options(),
    example="wordpipe evaluate retrieval run/model --data collection/\n"
    "wordpipe evaluate retrieval run/words --data collection/ --json",
    json="Print one JSON object, with all figures.",
    quiet="Print nothing but the table and errors.",
    verify="artifacts'",
)
@click.argument("encoders", nargs=-1, metavar="[MODEL|WORDS|SENTENCES]...", type=click.Path(path_type=Path))
@click.option(
    "--data", required=True, metavar="DIR", help="A folder with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR)."
)
@click.option(
    "--words",
    metavar="WORDS",
    type=click.Path(path_type=Path),
    help="Judge the mean of these vectors too.  [default: the first WORDS named]",
)
@click.option("--split", metavar="NAME", help="Take the judgements in qrels/NAME.tsv.  [default: test, or qrels.tsv]")
@click.option(
    "--weight",
    type=click.FloatRange(0, 1),
    metavar="W",
    help="Share of the dense score in hybrid.  [default: found without labels]",
)
@click.option(
    "--feedback",
    type=click.IntRange(min=0),
    metavar="N",
    help="In hybrid, ask again with the query moved towards its first N answers; 0 asks once.  [default: 3]",
)
@click.option(
    "--language", default="auto", metavar="LANGUAGE", help="Whose endings are cut off words.  [default: auto]"
)
@click.option(
    "--lsi-dim",
    cls=Option,
    expert=True,
    type=click.IntRange(min=1),
    default=300,
    metavar="N",
    help="Directions of LSI.  [default: 300]",
)
@click.option(
    "--depth",
    cls=Option,
    expert=True,
    type=click.IntRange(min=1),
    default=1_000,
    metavar="N",
    help="Documents for each query.  [default: 1000]",
)
@click.option(
    "--drop-identical",
    cls=Option,
    expert=True,
    is_flag=True,
    help="Leave out a document of the same id as its query (ArguAna).",
)
@click.option(
    "--draws",
    cls=Option,
    expert=True,
    type=click.IntRange(min=0),
    default=10_000,
    metavar="N",
    help="Of the bootstrap.  [default: 10000]",
)
def retrieval(
    encoders: tuple[Path, ...],
    data: str,
    verify: bool,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Judge how well encoders find the documents that people judged relevant, side by side with plain words.

    Each encoder is judged alone (dense) and mixed with BM25 (hybrid). The figures are trec_eval's; a query without an answer
    counts as 0. p says how often draws of as many queries turn the difference to BM25 around.
    """
    from wordpipe.stages.evaluate_retrieval import evaluate_retrieval
    from wordpipe.stages.making import RunOptions

    settings = chosen_embedding(given)
    if given["feedback"] is None:
        del given["feedback"]
    with ProgressDrawer(quiet=quiet) as draw:
        run = RunOptions(report=draw, verify=verify)
        found = evaluate_retrieval(encoders, data, run=run, **given, **settings)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    _print(found)
    if not quiet:
        for line in _remarks(found):
            say(line)


def _print(found: dict[str, Any]) -> None:
    from wordpipe.cli.tables import console

    screen = console()
    for table in side_by_side(found["systems"], _table, screen):
        screen.print(table)


def _table(systems: Sequence[dict[str, Any]]) -> "Table":
    """One line per measure, one column per system."""
    from wordpipe.cli.tables import new_table

    table = new_table("x 100", *(_head(one) for one in systems))
    for name, label in _MEASURES.items():
        table.add_row(label, *(f"{100 * one['metrics'][name]:.2f}" for one in systems))
        if name == "ndcg_at_10":
            table.add_row("  95 %", *(_range(one["intervals"][name]) for one in systems))
            table.add_row("  above BM25", *(_above(one["against_bm25"], name) for one in systems))
            table.add_row("  p", *(_p(one["against_bm25"], name) for one in systems))
    return table


def _head(one: dict[str, Any]) -> str:
    if one["system"] == one["name"]:
        return _HEADS[one["system"]]
    name = short_name(one["name"], _NAME_WIDTH)
    if one["system"] == "hybrid":
        return f"{name}\nhybrid, {one['facts']['weight']:.2f} dense"
    return f"{name}\n{_HEADS.get(one['system'], one['system'])}"


def _range(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else " … ".join(f"{100 * bound:.1f}" for bound in interval)


def _above(against: dict[str, Any] | None, measure: str) -> str:
    return f"{100 * against[measure]['difference']:+.2f}" if against and against[measure] else "–"


def _p(against: dict[str, Any] | None, measure: str) -> str:
    return f"{against[measure]['p']:.4f}" if against and against[measure] else "–"


def _remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: on how much it stands, and what is missing."""
    counts = found["counts"]
    lines = [
        f"{counts['documents']:,} documents, {counts['queries']:,} judged queries, {counts['judgements']:,} judgements"
    ]
    said = {
        "queries_unjudged": "queries have no judgement and are left out",
        "queries_unknown": "judged queries have no text and count as 0",
        "queries_without_relevant": "queries have no relevant document and count as 0",
        "judged_documents_unknown": "judged documents are not in the corpus and cannot be found",
        "documents_empty": "documents have no text",
    }
    lines += [f"{counts[name]:,} {text}" for name, text in said.items() if counts[name]]
    lines += [
        f"{_head(one).splitlines()[0]}: {one['unanswered']:,} queries have no answer from {one['system']} and count as 0"
        for one in found["systems"]
        if one["unanswered"] > counts["queries_unknown"]
    ]
    if found["drop_identical"]:
        lines.append("documents of the same id as their query are left out")
    if any(one["system"] == "dense" for one in found["systems"]):
        lines.append(
            "encoders are judged as they are; to train one on these documents first, without labels: "
            "wordpipe train contrastive --goal search"
        )
    return lines
