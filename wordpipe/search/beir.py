"""A collection for judging search, in the layout of BEIR: documents, queries, and which documents answer which query.

    corpus.jsonl     {"_id": …, "title": …, "text": …} a line
    queries.jsonl    {"_id": …, "text": …} a line
    qrels.tsv        query-id, corpus-id, score, parted by tabs, below a header; or TREC's query, 0, document, grade

A document's text is its title, a blank and its text, as BEIR and MTEB join them. Every system answers each query with rows of
documents and their scores, best first. Shapes: N documents, Q queries, M measures.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError
from wordpipe.metrics.ranking import MEASURES, judge_ranking, table_of, trec_order
from wordpipe.metrics.statistics import mean_interval, paired_difference
from wordpipe.runtime import Progress, Report
from wordpipe.search.exact import nearest_of
from wordpipe.search.hits import Hits, best_of
from wordpipe.search.lexical import Analyser, LexicalIndex
from wordpipe.search.tfidf import LatentSpace, Tfidf

__all__ = [
    "Collection",
    "CollectionFile",
    "baselines",
    "differences",
    "figures",
    "judge",
    "rankings",
    "read_collection",
]

_SHOWN = 60  # characters of a wrong line

Grades = dict[str, dict[str, int]]
"""Query → judged document → grade."""
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Collection:
    """N documents and the Q queries that were judged.

    Attributes:
        documents: their ids, all different.
        titles: empty where a document has none.
        texts: without the title.
        queries: ids, in the order of the file.
        questions: their texts.
        grades: for each of these queries, judged document → grade; 1 and more is relevant.
        counts: documents, documents_empty, queries, queries_unjudged (left out), queries_without_relevant (they count as 0),
            queries_unknown (judged, but not among the queries: they count as 0), judgements, judged_documents_unknown.
    """

    documents: list[str]
    titles: list[str]
    texts: list[str]
    queries: list[str]
    questions: list[str]
    grades: Grades
    counts: dict[str, int]

    @property
    def passages(self) -> list[str]:
        """Title and text of every document."""
        return [f"{title} {text}".strip() for title, text in zip(self.titles, self.texts, strict=True)]


@dataclass(frozen=True, slots=True)
class CollectionFile:
    """One file of a collection: its content and its name for messages."""

    data: bytes
    where: str


def read_collection(corpus: CollectionFile, queries: CollectionFile, judgements: CollectionFile) -> Collection:
    """Read the three files.

    Raises:
        InputError: one is no such file, has nothing in it, or names something twice; or no judgement fits query and document.
    """
    documents = _records(corpus)
    questions = _records(queries)
    grades = _grades(judgements)
    unknown = {name for judged in grades.values() for name in judged} - documents.keys()
    asked = [name for name in questions if name in grades]
    _refuse_strangers(asked, documents, grades, judgements)
    missing = [name for name in grades if name not in questions]
    counts = {
        "documents": len(documents),
        "documents_empty": sum(not f"{title}{text}".strip() for title, text in documents.values()),
        "queries": len(asked) + len(missing),
        "queries_unjudged": len(questions) - len(asked),
        "queries_without_relevant": sum(not any(grade > 0 for grade in judged.values()) for judged in grades.values()),
        "queries_unknown": len(missing),
        "judgements": sum(map(len, grades.values())),
        "judged_documents_unknown": len(unknown),
    }
    return Collection(
        documents=[*documents],
        titles=[title for title, _ in documents.values()],
        texts=[text for _, text in documents.values()],
        queries=asked + missing,
        questions=[questions[name][1] for name in asked] + [""] * len(missing),
        grades=grades,
        counts=counts,
    )


def _refuse_strangers(
    asked: list[str], documents: Mapping[str, Any], grades: Grades, judgements: CollectionFile
) -> None:
    """Ids that do not meet give figures near 0 that look like a bad system."""
    if not asked:
        raise InputError(
            "no query of the judgements is among the queries",
            where=judgements.where,
            hint="compare the ids of both files",
        )
    if not any(name in documents for query in asked for name in grades[query]):
        raise InputError(
            "no judged document is in the corpus", where=judgements.where, hint="compare the ids of both files"
        )


def _records(file: CollectionFile) -> dict[str, tuple[str, str]]:
    """Id → title and text of every line."""
    found: dict[str, tuple[str, str]] = {}
    for number, line in _lines(file):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError("not a line of JSON", where=f"{file.where}:{number}", got=error) from None
        if not isinstance(record, dict) or not isinstance(record.get("_id"), str | int) or "text" not in record:
            _wrong(file, number, line, "an object with _id and text")
        title, body = record.get("title") or "", record["text"] or ""
        if not isinstance(title, str) or not isinstance(body, str):
            _wrong(file, number, line, "title and text that are strings")
        name = str(record["_id"])
        if name in found:
            raise InputError("the same id twice", where=f"{file.where}:{number}", got=name)
        found[name] = (title, body)
    if not found:
        raise InputError("there is nothing in it", where=file.where, expected="one object of JSON a line")
    return found


def _grades(file: CollectionFile) -> Grades:
    grades: Grades = {}
    for place, (number, line) in enumerate(_lines(file)):
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) == 4:  # TREC's layout, whose second column says nothing
            cells = [cells[0], *cells[2:]]
        if len(cells) != 3:
            _wrong(file, number, line, "query, document and grade")
        query, document, grade = (cell.strip() for cell in cells)
        if not grade.removeprefix("-").isdecimal():
            if place:
                _wrong(file, number, line, "a whole number as the grade")
            continue  # the header
        judged = grades.setdefault(query, {})
        if judged.setdefault(document, int(grade)) != int(grade):
            raise InputError(
                "the same document judged twice", where=f"{file.where}:{number}", got=f"{query} {document}"
            )
    if not grades:
        raise InputError("there is no judgement in it", where=file.where, expected="query, document and grade a line")
    return grades


def _lines(file: CollectionFile) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers from 1."""
    for number, raw in enumerate(file.data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            line = raw.decode().rstrip("\r")
        except UnicodeDecodeError as error:
            raise InputError("not UTF-8 text", where=f"{file.where}:{number}", got=error.reason) from None
        if line.strip():
            yield number, line


def _wrong(file: CollectionFile, number: int, line: str, expected: str) -> NoReturn:
    shown = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
    raise InputError("this line does not belong", where=f"{file.where}:{number}", got=repr(shown), expected=expected)


def baselines(
    collection: Collection, lexical: LexicalIndex, lsi_dim: int, depth: int, report: Report
) -> dict[str, list[Hits]]:
    """What systems that need no training answer: bm25, tfidf and lsi, which see the same terms.

    Args:
        collection: documents and queries.
        lexical: the index of the documents' words; BM25 is Lucene's.
        lsi_dim: directions of latent semantic indexing.
        depth: answers to each query.
        report: told what is done.
    """
    passages, questions = collection.passages, collection.questions
    answers = {"bm25": lexical.search(questions, depth)}
    tfidf = Tfidf.fit(passages, Analyser(lexical.settings.language))
    sparse_NV, asked_QV = tfidf.vectors(passages), tfidf.vectors(questions)
    products = (asked_QV @ sparse_NV.T).tocsr()
    answers["tfidf"] = [
        best_of(products.indices[start:end], products.data[start:end], depth)
        for start, end in zip(products.indptr, products.indptr[1:], strict=False)
    ]
    report(Progress("latent semantic indexing"))
    latent = LatentSpace.fit(sparse_NV, lsi_dim)
    answers["lsi"] = nearest_of(latent.vectors(asked_QV), latent.vectors(sparse_NV), depth)
    return answers


def rankings(collection: Collection, answers: Sequence[Hits], *, drop_identical: bool) -> list[list[str]]:
    """The answers to each query by the ids of documents, in the order in which trec_eval reads them.

    Args:
        collection: N documents, Q queries.
        answers: one for each query.
        drop_identical: leave out a document of the same id as the query.
    """
    found = []
    for query, hits in zip(collection.queries, answers, strict=True):
        names = [collection.documents[row] for row in hits.rows.tolist()]
        order = trec_order(names, hits.scores)
        found.append([names[at] for at in order if not (drop_identical and names[at] == query)])
    return found


def judge(collection: Collection, found: Sequence[Sequence[str]]) -> Array:
    """The figures of every query, (Q, M) float64; a query that is not answered has 0 in all of them."""
    return table_of(
        [judge_ranking(names, collection.grades[query]) for query, names in zip(collection.queries, found, strict=True)]
    )


def figures(table_QM: Array, draws: int) -> dict[str, Any]:
    """Means over the queries, and where 95 % of draws of as many queries have them."""
    metrics, intervals = {}, {}
    for name, values_Q in zip(MEASURES, table_QM.T, strict=True):
        metrics[name] = round(float(values_Q.mean()), 6)
        found = mean_interval(values_Q, draws=draws) if draws else None
        intervals[name] = None if found is None else np.round(found, 6).tolist()
    return {"metrics": metrics, "intervals": intervals}


def differences(table_QM: Array, other_QM: Array, draws: int) -> Mapping[str, Any] | None:
    """How a system differs from another on the same queries: difference, interval and p of every measure."""
    if not draws:
        return None
    found = {}
    for name, one_Q, other_Q in zip(MEASURES, table_QM.T, other_QM.T, strict=True):
        apart = paired_difference(one_Q, other_Q, draws=draws)
        found[name] = apart and {
            "difference": round(apart.mean, 6), "interval": np.round(apart.interval, 6).tolist(), "p": round(apart.p, 6),
        }  # fmt: skip
    return found
