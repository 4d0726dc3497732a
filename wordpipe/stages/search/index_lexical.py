"""The lexical half of an index, built from the same rows and bundled in the same folder; and what is measured of both halves.

How far vectors and words agree, and which of them finds what it should, is measured on the index's own rows when it is built.
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
    LexicalIndex,
    PseudoQueries,
    SearchMode,
    VectorStream,
    draw_queries,
    measure,
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
        What belongs into the index's facts as `lexical`: language, terms, agreement (of vectors and words), mode (which found
        best) and how that was measured. Empty for words.
    """
    if source.kind != "sentences":
        return {}
    job.report("counting words")
    known = None if previous is None else _same_settings(previous, settings)
    if previous is not None and known is not None and old_rows is not None:
        lexical = known.updated(old_rows, _texts(source, old_rows < 0))
        of_before = previous.manifest.facts["lexical"]
        facts = {name: of_before[name] for name in ("agreement", "weight", "mode", "measured") if name in of_before}
    else:
        lexical = LexicalIndex.build(_texts(source), settings)
        facts = measured_facts(job, source, lexical)
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


def measured_facts(job: Job, source: Artifact, lexical: LexicalIndex) -> dict[str, Any]:
    """How far vectors and words agree, and the mode that finds best.

    Returns:
        agreement; mode: see `best_mode`; measured: see `measured_by`.
    """
    job.report("comparing words and vectors")
    drawn, cuts = pseudo_queries(source)
    encoder = bundled_encoder(source)

    def blocks() -> Iterator[npt.NDArray[np.float32]]:
        return (matrix_of(batch.column("vector")) for batch in read_batches(source, "sentences", ["vector"]))

    dense = VectorStream(blocks, RowVectors(source, "sentences"))  # there is no index yet
    agreement, found = measure(drawn, cuts, lambda texts: encoder.encode(texts).vectors, dense, lexical)
    mode = best_mode(found, trained=learned_from_pairs(encoder))
    return {"agreement": agreement, "mode": mode, "measured": measured_by(drawn, found)}


def best_mode(ndcg_at_10: Mapping[str, float] | None, *, trained: bool) -> SearchMode:
    """The mode that found most; hybrid where nothing was measured, as on all collections that people judged.

    Vectors alone are no choice where the encoder learned from pairs of texts, most likely out of these very ones: it finds
    their titles and spans better than what people ask. On Cranfield and CISI it found more titles than both together, and
    fewer answers by 3 points of nDCG@10.
    """
    found = {mode: ndcg for mode, ndcg in (ndcg_at_10 or {}).items() if not (trained and mode == "dense")}
    modes: tuple[SearchMode, ...] = ("hybrid", "lexical", "dense")
    return max(modes, key=lambda mode: found.get(mode, -1.0 if found else float(mode == "hybrid")))


def measured_by(drawn: PseudoQueries | None, ndcg_at_10: Mapping[str, float] | None) -> dict[str, Any] | None:
    """How it was measured: by what, on how many queries, and the nDCG@10 of each mode."""
    if drawn is None or ndcg_at_10 is None:
        return None
    rounded = {name: round(value, 4) for name, value in ndcg_at_10.items()}
    return {"by": drawn.how, "queries": len(drawn.texts), "ndcg_at_10": rounded}


def pseudo_queries(source: Artifact) -> tuple[PseudoQueries | None, PseudoQueries | None]:
    """Queries drawn from the rows, and cuts of rows; None where there are too few."""
    documents_N = document_numbers(source, "sentences")
    rows_N = np.bincount(documents_N)[documents_N]  # how many rows the document of each row has
    rng = np.random.default_rng(_STREAM)
    siblings = np.flatnonzero((rows_N > 1) & (rows_N <= _MAX_SIBLINGS))
    some = rng.permutation(siblings)[:MAX_QUERIES]
    alone = np.flatnonzero((rows_N == 1) | (rows_N > _MAX_SIBLINGS))
    found = _read(source, rng.permutation(len(rows_N))[:_DRAWN].tolist())
    cuts = _queries_of([(row, "", text) for row, _, text in found])
    if len(siblings) >= MIN_QUERIES:
        return _of_rows(source, documents_N, some), cuts
    drawn = _read(source, rng.permutation(alone)[:_DRAWN].tolist())
    return _queries_of([(row, title if rows_N[row] == 1 else "", text) for row, title, text in drawn]), cuts


def _queries_of(drawn: Sequence[tuple[int, str, str]]) -> PseudoQueries | None:
    """Titles that look for their texts, or cuts where there are no titles, of rows, titles and texts."""
    queries = draw_queries([title for _, title, _ in drawn], [text for _, _, text in drawn])
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
