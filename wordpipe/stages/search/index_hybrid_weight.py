"""How much of a hybrid score the vectors should have, measured on an index's own rows when it is built."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import Artifact, RowReader, matrix_of, read_batches, row_count
from wordpipe.search import (
    ENOUGH,
    LEAST,
    UNMEASURED,
    Hits,
    LexicalIndex,
    PseudoQueries,
    Space,
    draw_queries,
    measured_mix,
    nearest,
)
from wordpipe.sentences import TextEncoder, learned_from_pairs
from wordpipe.stages.job import Job
from wordpipe.stages.loaders import bundled_encoder
from wordpipe.stages.search.row_vectors import RowVectors

_STREAM = 0x3E16  # of random numbers
_MOST_SIBLINGS = 100  # of a document with more rows, such as a book in one file, the others are about anything
_DRAWN = 4 * ENOUGH  # rows read, as some are too short


def measured_weight(job: Job, source: Artifact, lexical: LexicalIndex) -> dict[str, Any]:
    """The share of the dense score that finds best, and which mode does.

    Returns:
        weight; mode: hybrid where it found more than vectors alone, else dense; measured: how, on how many queries, and the
        nDCG@10 of each mode, or None where there was too little to measure.
    """
    asked = _questions(source)
    if asked is None:
        return {"weight": UNMEASURED, "mode": "dense", "measured": None}
    job.report("weighing words and vectors", 0, len(asked.texts), "queries")
    encoder = bundled_encoder(source)
    space, trained = _space(source, encoder), learned_from_pairs(encoder)
    tuned = measured_mix(asked, space, lexical, trained=trained)
    mode = "hybrid" if tuned.ndcg_at_10["hybrid"] > tuned.ndcg_at_10["dense"] else "dense"
    return {"weight": tuned.weight, "mode": mode, "measured": told_measured(asked, tuned.ndcg_at_10)}


def told_measured(asked: PseudoQueries, ndcg_at_10: Mapping[str, float]) -> dict[str, Any]:
    """How a mix was measured: by what, on how many queries, and the nDCG@10 of each mode."""
    rounded = {name: round(value, 4) for name, value in ndcg_at_10.items()}
    return {"by": asked.how, "queries": len(asked.texts), "ndcg_at_10": rounded}


def _space(source: Artifact, encoder: TextEncoder) -> Space:
    """The sentences as vectors, compared one by one: there is no index yet."""

    def closest(queries_QD: npt.NDArray[np.float32], k: int) -> list[Hits]:
        blocks = (matrix_of(batch.column("vector")) for batch in read_batches(source, "sentences", ["vector"]))
        return nearest(queries_QD, blocks, k)

    rows = row_count(source, "sentences")
    return Space(rows, lambda texts: encoder.encode(texts).vectors, closest, RowVectors(source, "sentences"))


def _questions(source: Artifact) -> PseudoQueries | None:
    """Pseudo-queries drawn from the rows; None where there are too few."""
    documents_N, rows_of = _documents(source)
    rng = np.random.default_rng(_STREAM)
    rows_N = rows_of[documents_N]
    siblings = np.flatnonzero((rows_N > 1) & (rows_N <= _MOST_SIBLINGS))
    if len(siblings) >= LEAST:
        return _of_rows(source, documents_N, rng.permutation(siblings)[:ENOUGH])
    alone = np.flatnonzero((rows_N == 1) | (rows_N > _MOST_SIBLINGS))
    drawn = _read(source, rng.permutation(alone)[:_DRAWN].tolist())
    titles = [title if rows_N[row] == 1 else "" for row, title, _ in drawn]
    asked = draw_queries(titles, [text for _, _, text in drawn])
    return None if asked is None else asked.of_rows([row for row, _, _ in drawn])


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


def _of_rows(source: Artifact, documents_N: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> PseudoQueries:
    """Rows that look for the others of their document."""
    drawn = _read(source, rows.tolist())
    others = [{*np.flatnonzero(documents_N == documents_N[row]).tolist()} - {row} for row, _, _ in drawn]
    return PseudoQueries("rows", [text for _, _, text in drawn], [row for row, _, _ in drawn], [], others)
