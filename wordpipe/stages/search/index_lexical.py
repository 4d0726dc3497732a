"""The lexical half of an index, built from the same rows and bundled in the same folder; and the measured hybrid weight.

The weight is the share of a hybrid score that the vectors get. It is measured on the index's own rows when it is built.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import Artifact, BundledFiles, RowReader, RowVectors, matrix_of, read_batches
from wordpipe.search import (
    LEXICAL,
    MAX_QUERIES,
    MIN_QUERIES,
    UNMEASURED,
    LexicalIndex,
    PseudoQueries,
    VectorStream,
    draw_queries,
    measure_weight,
)
from wordpipe.search.settings import LexicalSettings
from wordpipe.sentences import learned_from_pairs
from wordpipe.stages.encoders import bundled_encoder
from wordpipe.stages.job import Job
from wordpipe.stages.search.open_index import document_numbers

_STREAM = 0x3E16  # separates these draws from every other use of a seed
_MAX_SIBLINGS = 100  # of a document with more rows, such as a book in one file, the others are about anything
_DRAWN = 4 * MAX_QUERIES  # rows read, as some are too short


def bundle_lexical(
    job: Job,
    source: Artifact,
    settings: LexicalSettings,
    previous: Artifact | None = None,
    old_rows: npt.NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Put a lexical index over the rows of `source` into the index artifact that `job` makes.

    Args:
        job: the index in the making.
        source: a sentences artifact; of words nothing is written.
        settings: language, k1 and b; settings that inherit from them do too.
        previous: the index at the output: where its lexical settings are the same, its rows are taken over, with language and
            weight.
        old_rows: (N,) for each row of `source` its row in `previous`, -1 for a new one.

    Returns:
        What belongs into the index's facts as `lexical`: language, terms, weight (share of the dense score in a hybrid
        one), mode (which found best) and how that was measured. Empty for words.
    """
    if source.kind != "sentences":
        return {}
    job.report("counting words")
    known = None if previous is None else _same_settings(previous, settings)
    if previous is not None and known is not None and old_rows is not None:
        lexical = known.updated(old_rows, _texts(source, old_rows < 0))
        facts = {name: previous.manifest.facts["lexical"][name] for name in ("weight", "mode", "measured")}
    else:
        lexical = LexicalIndex.build(_texts(source), settings)
        facts = measured_weight(job, source, lexical)
    for name, data in lexical.files():
        job.write(LEXICAL + name, data)
    return {"language": lexical.settings.language, "terms": len(lexical.terms), **facts}


def reads_titles(source: Artifact) -> bool:
    """Whether a sentences artifact's rows were embedded with their titles before them, so that these words count too."""
    settings = source.manifest.settings
    return bool(settings.get("with_title", False)) and settings.get("unit", "sentence") != "sentence"


def _same_settings(previous: Artifact, settings: LexicalSettings) -> LexicalIndex | None:
    """The lexical index of a previous index, if it was built with these settings."""
    if not previous.names(LEXICAL):
        return None
    found = LexicalIndex.load(BundledFiles(previous, LEXICAL))
    language = found.settings.language if settings.language == "auto" else settings.language
    wanted = LexicalSettings(language=language, k1=settings.k1, b=settings.b)
    return found if found.settings == wanted else None


def _texts(source: Artifact, wanted: npt.NDArray[np.bool_] | None = None) -> Iterator[str]:
    """What is found by its words: the text as it was embedded, its title before it where that was read too."""
    titled = reads_titles(source)
    first = 0
    for batch in read_batches(source, "sentences", ["title", "text"] if titled else ["text"]):
        rows = range(len(batch)) if wanted is None else np.flatnonzero(wanted[first : first + len(batch)]).tolist()
        first += len(batch)
        texts = _some(batch.column("text"), rows)
        if titled:
            titles = _some(batch.column("title"), rows)
            texts = [f"{title}\n{text}" if title else text for title, text in zip(titles, texts, strict=True)]
        yield from texts


def _some(column: pa.Array, rows: Sequence[int]) -> list[str]:
    """The values of some rows; `take` would import pyarrow.compute, which takes 0.17 s."""
    return column.to_pylist() if len(rows) == len(column) else [column[row].as_py() for row in rows]


def measured_weight(job: Job, source: Artifact, lexical: LexicalIndex) -> dict[str, Any]:
    """The share of the dense score that finds best, and which mode does.

    Returns:
        weight; mode: hybrid where it found more than vectors alone, else dense; measured: how, on how many queries, and the
        nDCG@10 of each mode, or None where there was too little to measure.
    """
    drawn = _pseudo_queries(source)
    if drawn is None:
        return {"weight": UNMEASURED, "mode": "dense", "measured": None}
    job.report("weighing words and vectors", 0, len(drawn.texts), "queries")
    encoder = bundled_encoder(source)
    queries_QD = encoder.encode(drawn.texts).vectors
    rests_QD = encoder.encode(drawn.rests).vectors if drawn.rests else queries_QD[:0]

    def blocks() -> Iterator[npt.NDArray[np.float32]]:
        return (matrix_of(batch.column("vector")) for batch in read_batches(source, "sentences", ["vector"]))

    dense = VectorStream(blocks, RowVectors(source, "sentences"))  # there is no index yet
    found = measure_weight(drawn, queries_QD, rests_QD, dense, lexical, trained=learned_from_pairs(encoder))
    mode = "hybrid" if found.ndcg_at_10["hybrid"] > found.ndcg_at_10["dense"] else "dense"
    return {"weight": found.weight, "mode": mode, "measured": measured_facts(drawn, found.ndcg_at_10)}


def measured_facts(drawn: PseudoQueries, ndcg_at_10: Mapping[str, float]) -> dict[str, Any]:
    """How a weight was measured: by what, on how many queries, and the nDCG@10 of each mode."""
    rounded = {name: round(value, 4) for name, value in ndcg_at_10.items()}
    return {"by": drawn.how, "queries": len(drawn.texts), "ndcg_at_10": rounded}


def _pseudo_queries(source: Artifact) -> PseudoQueries | None:
    """Pseudo-queries drawn from the rows; None where there are too few."""
    documents_N = document_numbers(source, "sentences")
    rows_N = np.bincount(documents_N)[documents_N]  # how many rows the document of each row has
    rng = np.random.default_rng(_STREAM)
    siblings = np.flatnonzero((rows_N > 1) & (rows_N <= _MAX_SIBLINGS))
    if len(siblings) >= MIN_QUERIES:
        return _of_rows(source, documents_N, rng.permutation(siblings)[:MAX_QUERIES])
    alone = np.flatnonzero((rows_N == 1) | (rows_N > _MAX_SIBLINGS))
    drawn = _read(source, rng.permutation(alone)[:_DRAWN].tolist())
    titles = [title if rows_N[row] == 1 else "" for row, title, _ in drawn]
    queries = draw_queries(titles, [text for _, _, text in drawn])
    return None if queries is None else queries.of_rows([row for row, _, _ in drawn])


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
