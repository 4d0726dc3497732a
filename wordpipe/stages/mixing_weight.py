"""How much of a hybrid score the vectors should have, found without labels: rows are looked for by a part of themselves.

Where documents have several rows, a row's text looks for the others of its document. Where each is one row, its title looks
for it, read without its title; and where there are no titles, some words in a row cut out of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.rows import RowReader
from wordpipe.artifacts.tables import read_batches
from wordpipe.artifacts.vectors import matrix_of
from wordpipe.search.exact import nearest
from wordpipe.search.hits import Hits, best_of
from wordpipe.search.lexical import LexicalIndex
from wordpipe.search.mixing import CANDIDATES, tune_weight
from wordpipe.stages.making import Job

__all__ = ["measured_weight"]

_QUERIES = 300  # nDCG@10 is then known to about 0.02
_LEAST = 30  # fewer say nothing
_STREAM = 0x3E16  # of random numbers
_LEAST_WORDS = 12
_MOST_LEXICAL, _MOST_DENSE = 0.05, 0.8
_UNMEASURED = (
    0.3  # the dense share that lost least where it was not measured: vectors of a small corpus are the weaker half
)


@dataclass(frozen=True, slots=True)
class _Questions:
    """Q pseudo-queries.

    Attributes:
        how: what they are: rows, titles or cuts.
        texts: the queries.
        wanted: the rows each should find.
        own: the row each comes from.
        rests: what is left of that row; None where the row itself is no answer.
    """

    how: str
    texts: list[str]
    wanted: list[set[int]]
    own: list[int]
    rests: list[str] | None


def measured_weight(job: Job, source: Artifact, lexical: LexicalIndex) -> dict[str, Any]:
    """The share of the dense score that finds best, and which mode does.

    Returns:
        weight; mode: hybrid where it found more than vectors alone, else dense; measured: how, on how many queries, and the
        nDCG@10 of each mode, or None where there was too little to measure.
    """
    asked = _questions(source)
    if asked is None:
        return {"weight": _UNMEASURED, "mode": "dense", "measured": None}
    job.report("weighing words and vectors", 0, len(asked.texts), "queries")
    tuned = tune_weight(_dense(source, asked), _lexical(lexical, asked), asked.wanted)
    # a cut is in the words of its own text, and vectors that were trained on the text know them: on CACM cuts asked for 0.45
    # where queries of people asked for 0; at 0.8 a mix lost 0.3 on the one collection where vectors alone were best
    weight = tuned.weight / 2 if asked.how == "cuts" else tuned.weight
    weight = min(max(round(weight * 20) / 20, _MOST_LEXICAL), _MOST_DENSE)
    figures = {"dense": tuned.ndcg_at_10[1.0], "hybrid": tuned.ndcg_at_10[weight], "lexical": tuned.ndcg_at_10[0.0]}
    return {
        "weight": weight,
        "mode": "hybrid" if figures["hybrid"] > figures["dense"] else "dense",
        "measured": {
            "by": asked.how,
            "queries": tuned.queries,
            "ndcg_at_10": {name: round(value, 4) for name, value in figures.items()},
        },
    }


def _questions(source: Artifact) -> _Questions | None:
    """Pseudo-queries drawn from the rows; None where there are too few."""
    documents_N, rows_of = _documents(source)
    rng = np.random.default_rng(_STREAM)
    siblings = np.flatnonzero(rows_of[documents_N] > 1)
    if len(siblings) >= _LEAST:
        return _of_rows(source, documents_N, rng.permutation(siblings)[:_QUERIES])
    alone = np.flatnonzero(rows_of[documents_N] == 1)
    drawn = _read(source, rng.permutation(alone)[: 4 * _QUERIES].tolist())
    for asked in (_of_titles(drawn), _of_cuts(drawn, rng)):
        if len(asked.texts) >= _LEAST:
            return asked
    return None


def _documents(source: Artifact) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(N,) the number of each row's document, and how many rows each document has."""
    ids = pa.chunked_array(
        [batch.column("doc_id") for batch in read_batches(source, "sentences", ["doc_id"])], pa.string()
    )
    numbers_N = ids.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    return numbers_N, np.bincount(numbers_N)


def _read(source: Artifact, rows: Sequence[int]) -> list[tuple[int, str, str]]:
    """Row, title and text."""
    reader = RowReader(source, "sentences", ["title", "text"])
    ascending = sorted(rows)  # a row group is read once
    return [
        (row, found["title"] or "", found["text"])
        for row, found in zip(ascending, reader.fetch(ascending), strict=True)
    ]


def _of_rows(source: Artifact, documents_N: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> _Questions:
    drawn = _read(source, rows.tolist())
    wanted = [{*np.flatnonzero(documents_N == documents_N[row]).tolist()} - {row} for row, _, _ in drawn]
    return _Questions("rows", [text for _, _, text in drawn], wanted, [row for row, _, _ in drawn], None)


def _of_titles(drawn: Sequence[tuple[int, str, str]]) -> _Questions:
    usable = [(row, title, text) for row, title, text in drawn if title.strip() and len(text.split()) >= _LEAST_WORDS]
    return _of_parts("titles", usable[:_QUERIES])


def _of_cuts(drawn: Sequence[tuple[int, str, str]], rng: np.random.Generator) -> _Questions:
    """Six to twelve words in a row, but at most half of the text."""
    parts = []
    for row, _, text in drawn:
        words = text.split()
        if len(words) < _LEAST_WORDS:
            continue
        size = min(int(rng.integers(6, 13)), len(words) // 2)
        start = int(rng.integers(len(words) - size + 1))
        parts.append((row, " ".join(words[start : start + size]), " ".join(words[:start] + words[start + size :])))
    return _of_parts("cuts", parts[:_QUERIES])


def _of_parts(how: str, parts: Sequence[tuple[int, str, str]]) -> _Questions:
    rows = [row for row, _, _ in parts]
    return _Questions(
        how, [part for _, part, _ in parts], [{row} for row in rows], rows, [rest for _, _, rest in parts]
    )


def _dense(source: Artifact, asked: _Questions) -> list[Hits]:
    """The candidates of every question by its vector; its own row has the score of what is left of it."""
    from wordpipe.stages.encoders import carried_encoder  # which knows the index, which knows this

    encoder = carried_encoder(source)
    queries_QD = encoder.encode(asked.texts).vectors
    blocks = (matrix_of(batch.column("vector")) for batch in read_batches(source, "sentences", ["vector"]))
    found = nearest(queries_QD, blocks, CANDIDATES + 1)
    rests: Sequence[float] | None = None
    if asked.rests is not None:
        rests = (queries_QD * encoder.encode(asked.rests).vectors).sum(axis=1).tolist()
    return _with_rests(found, asked, rests)


def _lexical(lexical: LexicalIndex, asked: _Questions) -> list[Hits]:
    found = lexical.search(asked.texts, CANDIDATES + 1)
    if asked.rests is None:
        return _with_rests(found, asked, None)
    scores = [lexical.score_of(text, rest) for text, rest in zip(asked.texts, asked.rests, strict=True)]
    return _with_rests(found, asked, scores)


def _with_rests(found: Sequence[Hits], asked: _Questions, scores: Sequence[float] | None) -> list[Hits]:
    """The hits, their own rows left out, or at the score of what is left of them."""
    result = []
    for number, (hits, own) in enumerate(zip(found, asked.own, strict=True)):
        others = hits.where(hits.rows != own)
        rows, values = others.rows, others.scores
        if scores is not None and scores[number] > 0:
            rows, values = np.append(rows, own), np.append(values, np.float32(scores[number]))
        result.append(best_of(rows, values, CANDIDATES))
    return result
