"""`wordpipe evaluate search`: your own questions, searched in an index in every possible way.

Rows count as `wordpipe query` lists them: a right answer counts once, at its first row. Figures are
trec_eval's for the first 100 rows, a question without an answer counting as 0.

Shapes: Q questions, M measures.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import Artifact, read_batches, read_schema
from wordpipe.errors import ArtifactError, ConfigError, InputError, wrong_line
from wordpipe.metrics import (
    SIGNIFICANT,
    Evaluation,
    Measured,
    System,
    in_json,
    paired_difference,
    score_ranking,
    side_by_side,
)
from wordpipe.runtime import Progress
from wordpipe.search import CANDIDATES, FEEDBACK
from wordpipe.search.settings import QueryOptions
from wordpipe.stages.evaluate.inputs import decoded, evaluation_of, json_rows, read_whole, refuse_repeats, table_rows
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.opening import open_artifact
from wordpipe.stages.search.query import OpenTextIndex
from wordpipe.stages.sources import refuse_artifacts
from wordpipe.wording import counted

MEASURES = ("ndcg_at_10", "mrr", "recall_at_10")
_WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.9)
_FLOOR = "words"  # every other way is compared with
WAYS: dict[str, dict[str, Any]] = {
    "words": {"mode": "lexical"},
    "vectors": {"mode": "dense"},
    "both": {"mode": "hybrid"},
    "words_twice": {"mode": "lexical", "feedback": FEEDBACK},
    "both_once": {"mode": "hybrid", "feedback": 0},
    **{f"both_{weight}": {"mode": "hybrid", "weight": weight} for weight in _WEIGHTS},
}
"""How an index is asked, the simplest first: the name of a way → options of a query."""
_WAYS = {
    "words": "words alone (BM25)", "vectors": "vectors alone", "both": "both", "words_twice": "words, 2 searches",
    "both_once": "both, 1 search",
}  # fmt: skip
_FEW = 100  # questions
_DEPTH = 10  # of recall
_QUESTION, _RIGHT = ("question", "query"), ("id", "title")
_EXPECTED = "a question, a tab, and the id (or title) of a right answer; or a table with question and id (or title)"
Array = npt.NDArray[np.float64]


@public()
def evaluate_search(
    index: PathLike, data: PathLike, *, draws: int = 10_000, run: RunOptions | None = None
) -> Evaluation:
    r"""Search an index with your own questions by words, by vectors, by both and by several weights, and compare the results.

    Args:
        index: an index over texts.
        data: a file of questions and right answers, one right answer per line: a question, a tab, and the id or the title of
            a record (an id is tried before a title); or a .jsonl, .csv or .tsv file with columns question and id or title.
        draws: number of bootstrap samples for intervals and p; 0: no intervals and no p.
        run: progress, verification.

    Returns:
        evaluated ("search"), data, index, draws, auto (how --mode auto asks), counts (lines, questions, answers, unknown:
        lines whose id or title stands nowhere in the index, left_out: questions of such alone, repeated: lines), unknown_first
        (where and value), best (system, options, differs: whether it finds more than words alone beyond noise), metrics and
        systems.

        systems are words (BM25), vectors, both, words_twice (BM25 with feedback, without vectors), both_once (without
        feedback) and both_0.1 to both_0.9 (the weight of the vectors), of an index of words alone words and words_twice; each
        a list entry of system, options, metrics (ndcg_at_10, mrr, recall_at_10, from 0 to 1), intervals (95 %), unanswered and
        against_words (difference, interval and p of every measure).

    Raises:
        ArtifactError: not an index over texts, or an index that cannot be searched by words.
        InputError: the file cannot be read, or none of its answers is in the index.

    Example:
        >>> with wordpipe.open("run/index") as opened:
        ...     titles = opened.batches(["title"]).read_all()["title"].to_pylist()
        >>> _ = Path("questions.tsv").write_text("".join(f"about {title}\t{title}\n" for title in titles[:20]))
        >>> found = wordpipe.evaluate_search("run/index", "questions.tsv", draws=100)
        >>> [system["system"] for system in found["systems"]][:3]
        ['words', 'vectors', 'both']
    """
    run = run or RunOptions()
    if draws < 0:
        raise ConfigError("the number is too small", where="draws", got=draws, expected="0 or more")
    with storage_errors():
        # the questions that have an answer in the index, asked in every way
        lines = read_questions(data)
        with open_artifact(index, "index", verify=run.verify) as opened:
            if not isinstance(opened, OpenTextIndex):
                hint = "use an index over sentences, or wordpipe evaluate words"
                raise ArtifactError("an index over words cannot answer questions", where=str(index), hint=hint)
            opened.check(QueryOptions(mode="lexical"))
            asked = _answerable_questions(opened.artifact, lines, str(data))
            tables = dict(_figures_of_ways(opened, asked, run))
            auto = opened.artifact.fact("lexical", dict, {}).get("mode", "hybrid")
    # every way beside words alone, and the best of them
    floor_QM = tables[_FLOOR][0]
    systems = [_system(name, *found, floor_QM, draws) for name, found in tables.items()]
    best = _best_way({name: table_QM[:, 0] for name, (table_QM, _) in tables.items()}, draws) if draws else None
    return evaluation_of(
        "search", str(data), systems, index=str(index), draws=draws, auto=auto, counts=asked.counts,
        unknown_first=asked.unknown_first, best=best, parts=[side_by_side(systems).turned("x 100")],
        remarks=[*_remarks(systems, asked), *([] if best is None else [_verdict(best, len(asked.questions), str(index))])],
    )  # fmt: skip


def _system(name: str, table_QM: Array, unanswered: int, floor_QM: Array, draws: int) -> System:
    """Return a way to search in the report, compared with words alone, question by question."""
    measured, floors = ([Measured(column_Q) for column_Q in some_QM.T] for some_QM in (table_QM, floor_QM))
    figures = [one.figure(key, draws) for key, one in zip(MEASURES, measured, strict=True)]
    apart = None if name == _FLOOR else {
        key: one.against(floor, draws) for key, one, floor in zip(MEASURES, measured, floors, strict=True)
    }  # fmt: skip
    against = None if apart is None else in_json(apart)
    facts = {"system": name, "options": WAYS[name], "unanswered": unanswered, "against_words": against}
    # what a draw may change is shown of the first figure alone
    first, *rest = figures
    shown = [
        replace(first, below={"above words": (apart or {}).get(first.key)}),
        *(replace(one, interval=None) for one in rest),
    ]
    return System(_way_in_words(name), figures, facts, shown)


def _way_in_words(name: str) -> str:
    """Return the name of a way of searching, for people."""
    return _WAYS.get(name) or f"both, weight {name.removeprefix('both_')}"


def _remarks(systems: Sequence[System], asked: "_Asked") -> Iterator[str]:
    """Yield remarks of `evaluate search`: on how much the table stands, and what could not be searched."""
    counts, first = asked.counts, asked.unknown_first
    yield f"{counted(counts['questions'], 'questions')}, {counted(counts['answers'], 'right answers')}"
    if first is not None:
        unknown = (
            f"{counts['unknown']:,} of {counted(counts['lines'], 'lines')} have an id or title that is not in the index"
        )
        left_out = f"; left out: {counted(counts['left_out'], 'questions')}" if counts["left_out"] else ""
        yield f"{unknown}; the first line: {first['value']!r} ({first['where']}){left_out}"
    if counts["repeated"]:
        yield f"left out: {counted(counts['repeated'], 'repeated lines')}"
    for one in systems:
        if unanswered := one.facts["unanswered"]:
            yield f"{one.head} found nothing for {counted(unanswered, 'questions')} (score 0)"


def _verdict(best: dict[str, Any], n: int, index: str) -> str:
    """Return a sentence on the best way to search, with its command."""
    options = " ".join(f"--{name} {value}" for name, value in best["options"].items())
    ask = f"wordpipe query {shlex.quote(index)} … {options}"
    if best["differs"]:
        return f"the best search, significantly better than words alone: {_way_in_words(best['system'])}; use: {ask}"
    few = f"; {counted(n, 'questions')} are few, and more questions give a clearer result" if n < _FEW else ""
    return f"no search is significantly better than words alone; use: {ask}{few}"


class _Line(NamedTuple):
    """A question and one right answer."""

    where: str  # file and line
    question: str
    value: str  # the id or title
    by: tuple[str, ...]  # what it is: id or title, or either


def read_questions(data: PathLike) -> list[_Line]:
    """Read the lines of a file of questions to search for, UTF-8, packed or not.

    Raises:
        ArtifactError: an artifact is named.
        InputError: no such file, not text, nothing in it, or a line that does not belong; names file and line.
    """
    refuse_artifacts([str(data)])
    where = str(data)
    text = decoded(read_whole(Path(data)), where)
    lines = [*(_of_json(text, where) if text.lstrip().startswith("{") else _of_table(text, where))]
    if not lines:
        hint = "an example of a line: why is the sea salt⇥sea-17 (⇥ is a tab)"
        raise InputError("the file has no questions", where=where, expected=_EXPECTED, hint=hint)
    return lines


def _of_json(text: str, where: str) -> Iterator[_Line]:
    """Return a question to search for out of a line of JSON."""
    expected = "a JSON object with question, and id or title"
    for number, line, record, (name, right) in json_rows(text, where, _question_columns, expected):
        place, question = f"{where}:{number}", record[name]
        value, by = next(((record[one], (by,)) for one, by in right if record[one] is not None), (None, ()))
        if not isinstance(question, str) or isinstance(value, bool) or not isinstance(value, str | int):
            raise wrong_line(place, line, expected)
        refuse_repeats([*record], [name, *(one for one, _ in right)], place)
        yield _question_line(place, line, question, str(value), by)


def _of_table(text: str, where: str) -> Iterator[_Line]:
    """Yield questions to search for out of cells between tabs, or of a csv file.

    Columns by their names, else by their order.
    """
    places: tuple[int, list[tuple[int, tuple[str, ...]]]] | None = None
    # the first row may name the columns
    for number, cells in table_rows(text, where, lambda cells: _question_columns(cells) is not None):
        if not any(cells):
            continue
        place, shown = f"{where}:{number}", "\t".join(cells)
        if places is None:
            if (named := _question_columns(cells)) is not None:
                question, right = named
                refuse_repeats(cells, [question, *(name for name, _ in right)], place)
                places = cells.index(question), [(cells.index(name), (by,)) for name, by in right]
                continue
            # without names: a question, then an id or title
            if len(cells) == 2 and cells[0].lower() in _QUESTION and cells[1].lower() not in _RIGHT:
                expected = "a column named id or title"
                raise InputError(
                    "there is no column with the right answers", where=place, got=cells[1], expected=expected
                )
            places = 0, [(1, _RIGHT)]
        # a question, and the first of its values that is there
        if len(cells) <= max(places[0], *(at for at, _ in places[1])) or (
            places[1][0][1] == _RIGHT and len(cells) != 2
        ):
            raise wrong_line(place, shown, _EXPECTED)
        value, by = next(((cells[at], by) for at, by in places[1] if cells[at]), ("", _RIGHT))
        yield _question_line(place, shown, cells[places[0]], value, by)


def _question_columns(names: Sequence[str]) -> tuple[str, list[tuple[str, str]]] | None:
    """Return the names of the columns with the question to search for and what is right; or None.

    None where they do not name both.
    """
    small = {name.strip().lower(): name for name in names}
    question = next((small[name] for name in _QUESTION if name in small), None)
    right = [(small[name], name) for name in _RIGHT if name in small]
    return None if question is None or not right else (question, right)


def _question_line(place: str, shown: str, question: str, value: str, by: tuple[str, ...]) -> _Line:
    """Return a line of the file of questions; both the question and the right answer must be filled."""
    if not question.strip() or not value.strip():
        raise wrong_line(place, shown, _EXPECTED)
    return _Line(place, question.strip(), value.strip(), by)


@dataclass(frozen=True)
class _Asked:
    """Q questions with the rows that answer each."""

    questions: list[str]
    right: list[dict[int, str]]  # of each question: row of the index → the answer that it is
    counts: dict[str, int]
    unknown_first: dict[str, str] | None  # where and value of the first line whose answer stands nowhere


def _answerable_questions(artifact: Artifact, lines: Sequence[_Line], where: str) -> _Asked:
    """Return the questions to search for that have an answer in the index. Raises InputError: none has."""
    # rows that answer each question; lines whose answer stands nowhere
    rows_of = _rows_of(artifact, lines)
    right = dict[str, dict[int, str]]()
    unknown, pairs = list[_Line](), Counter[tuple[str, str]]()
    for line in lines:
        rows = next((rows for by in line.by if (rows := rows_of[by].get(line.value))), [])
        pairs[line.question, line.value] += 1
        right.setdefault(line.question, {}).update(dict.fromkeys(rows, line.value))
        unknown += [] if rows else [line]
    # questions without an answer are left out
    known = {question: rows for question, rows in right.items() if rows}
    if not known:
        hint = f"to see ids and titles, use: wordpipe show {artifact.path} --rows 3"
        what = "none of the right answers in the file is in the index"
        raise InputError(
            what,
            where=unknown[0].where,
            got=unknown[0].value,
            expected="an id or a title of a text in the index",
            hint=hint,
        )
    # how much was asked and left out
    counts = {
        "lines": len(lines),
        "questions": len(known),
        "answers": sum(len({*rows.values()}) for rows in known.values()),
        "unknown": len(unknown),
        "left_out": len(right) - len(known),
        "repeated": sum(pairs.values()) - len(pairs),
    }
    first = {"where": unknown[0].where, "value": unknown[0].value} if unknown else None
    return _Asked([*known], [*known.values()], counts, first)


def _rows_of(artifact: Artifact, lines: Sequence[_Line]) -> dict[str, dict[str, list[int]]]:
    """Return, for the ids and titles that questions to search for name → their rows in the index."""
    columns = {"id": "record_id", "title": "title"}
    there = read_schema(artifact, "index").names
    found: dict[str, dict[str, list[int]]] = {by: {} for by in columns}
    for by, column in columns.items():
        wanted = {line.value for line in lines if by in line.by}
        if column not in there or not wanted:
            continue
        first = 0
        for batch in read_batches(artifact, "index", [column]):
            for row, value in enumerate(batch.column(0).to_pylist(), start=first):
                if value is not None and (name := str(value).strip()) in wanted:
                    found[by].setdefault(name, []).append(row)
            first += len(batch)
    return found


def _figures_of_ways(opened: OpenTextIndex, asked: _Asked, run: RunOptions) -> Iterator[tuple[str, tuple[Array, int]]]:
    """For each way its figures, (Q, M), and how many questions found nothing."""
    ways, batch = WAYS, None
    if opened.has_vectors:
        run.report(Progress("embedding the questions"))
        batch = opened.encoder.for_queries.encode(asked.questions)
    else:
        ways = {name: given for name, given in WAYS.items() if given["mode"] == "lexical"}
    for number, (name, given) in enumerate(ways.items()):
        run.report(Progress("searching", number, len(ways), "ways"))
        _, results, _ = opened.found(asked.questions, CANDIDATES, QueryOptions(**given), batch)
        ranked = [result.hits.rows.tolist() for result in results]
        pairs = zip(ranked, asked.right, strict=True)
        yield name, (np.array([score_rows(*pair) for pair in pairs]), sum(not rows for rows in ranked))


def score_rows(rows: Sequence[int], right: Mapping[int, str]) -> tuple[float, float, float]:
    """Return nDCG@10, reciprocal rank and recall@10 of one question's search.

    Args:
        rows: what was found, the best first.
        right: rows of the index → the right answer that each is; the same answer may be several rows, and counts once.
    """
    seen, names = set[str](), list[str]()
    for row in rows:
        answer = right.get(row)
        names.append(f"row {row}" if answer is None or answer in seen else f"={answer}")
        seen |= set() if answer is None else {answer}
    wanted = {f"={answer}": 1 for answer in right.values()}
    found = score_ranking(names, wanted)
    return found.ndcg_at_10, found.mrr, sum(name in wanted for name in names[:_DEPTH]) / len(wanted)


def _best_way(ndcg: Mapping[str, Array], draws: int) -> dict[str, Any]:
    """Return the best way to search: the simplest that no other beats beyond noise, of those measurably above words alone.

    So many ways are tried that one is above words alone by chance: p counts times their number (Bonferroni).
    """
    tried = len(ndcg) - 1
    beyond = []
    for name, values_Q in ndcg.items():
        apart = paired_difference(values_Q, ndcg[_FLOOR], draws=draws)
        if name != _FLOOR and apart and apart.mean > 0 and apart.p * tried < SIGNIFICANT:
            beyond.append(name)
    most = max(beyond, key=lambda name: float(ndcg[name].mean()), default=_FLOOR)
    for name in beyond:
        apart = paired_difference(ndcg[most], ndcg[name], draws=draws)
        if name == most or apart is None or apart.p >= SIGNIFICANT:
            return {"system": name, "options": WAYS[name], "differs": True}
    return {"system": _FLOOR, "options": WAYS[_FLOOR], "differs": False}
