"""The lexical half of an index, built from the same rows and bundled in the same folder; and what is measured of both halves.

How far vectors and words agree, and which of them finds what it should, is measured on the rows themselves: when an index is
built of all, and for `wordpipe doctor` of a sample.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import (
    Artifact,
    BundledFiles,
    RowReader,
    RowVectors,
    has_vectors,
    matrix_of,
    read_batches,
    row_count,
)
from wordpipe.encoders import TextEncoder, Transform, learned_elsewhere, learned_from_pairs
from wordpipe.metrics import paired_difference
from wordpipe.runtime import Progress, Report, quiet
from wordpipe.search import (
    CANDIDATES,
    ELSEWHERE_UNMEASURED,
    FEEDBACK,
    LEARNED_ELSEWHERE,
    LEXICAL,
    MAX_QUERIES,
    MIN_QUERIES,
    LexicalIndex,
    PseudoQueries,
    SearchMode,
    VectorStream,
    VectorTable,
    draw_queries,
    found_by_words,
    measure,
    measured_by,
    recognised_language,
)
from wordpipe.search.settings import IndexSettings, LexicalSettings
from wordpipe.stages.encoders import bundled_encoder
from wordpipe.stages.job import Job
from wordpipe.stages.search.row_facts import (
    FILE_NAMES,
    beside_texts,
    counts_file_names,
    document_numbers,
    reads_titles,
    searched_columns,
    texts_and_fields,
)

_STREAM = 0x3E16  # separates these draws from every other use of a seed
_MAX_SIBLINGS = 100  # of a document with more rows, such as a book in one file, the others are about anything
_DRAWN = 4 * MAX_QUERIES  # rows read, as some are too short
_NOISE = 0.02  # of nDCG@10 by the most queries that are drawn; of fewer more
# facts that an update takes over
_MEASURED = ("agreement", "weight", "mode", "feedback", "measured", "alike", "endings", "seconds")
_LEAST_ROWS, _ENDINGS_ROWS, _ENDINGS_CHARS = 1_000, 10_000, 3_000_000  # in which endings are compared with stems
_TIMED = 64  # queries
_COMPARED = 32  # rows whose vectors are compared with what the encoder gives
QUERIES_MEASURED = {
    "rows": "each row must find its document",
    "titles": "each title must find its text",
    "cuts": "each piece of a text must find the rest of the text",
}
"""What the queries of a measurement are, by its `by`."""
TOO_ALIKE = f"the texts are too similar: fewer than {MIN_QUERIES} titles or texts are unique"
"""Why nothing was measured where there are texts enough."""


def bundle_lexical(
    job: Job,
    source: Artifact,
    settings: IndexSettings,
    previous: Artifact | None = None,
    old_rows: npt.NDArray[np.int64] | None = None,
    counted: LexicalIndex | None = None,
) -> dict[str, Any]:
    """Put a lexical index over the rows of `source` into the index artifact that `job` makes, and its facts into the job's.

    Args:
        job: the index in the making.
        source: a sentences artifact, with vectors or without; of words nothing is written.
        settings: language, endings, k1 and b.
        previous: the index at the output: where its lexical settings are the same, its rows are taken over, with language and
            what was measured.
        old_rows: (N,) for each row of `source` its row in `previous`, -1 for a new one.
        counted: the lexical index, where it was built already, without any measure.

    Returns:
        What is in the index's facts as `lexical`: language, terms, mode (which found best); of vectors agreement (of vectors
        and words), and how that was measured; endings, see `_endings`. Empty for words.
    """
    if source.kind != "sentences":
        return {}
    known = None if previous is None else _same_settings(previous, settings)
    if previous is not None and counts_file_names(previous) != counts_file_names(source):
        known = None
    if previous is not None and known is not None and old_rows is not None:
        is_gone = np.ones(len(known), np.bool_)
        is_gone[old_rows[old_rows >= 0]] = False
        new = _texts(source, old_rows < 0, report=job.run.report)
        lexical = known.updated(old_rows, new, _texts(previous, is_gone, report=quiet))
        of_before = previous.fact("lexical", dict)
        is_measured = bool(of_before.get("measured") or of_before.get("alike")) or not has_vectors(source)
        facts = {
            name: of_before[name] for name in _MEASURED if name in of_before and (is_measured or name == "endings")
        }
        if settings.endings != "auto":
            facts.pop("endings", None)
    else:
        lexical, facts = (counted, {}) if counted is not None else _built(source, settings, job.run.report)
    if not has_vectors(source):
        facts["mode"] = "lexical"
    elif "agreement" not in facts:  # not taken over from the previous index
        facts |= _measured(_Rows(source), lexical, bundled_encoder(source), timed=True, report=job.run.report)
    for name, data in lexical.files():
        job.write(LEXICAL + name, data)
    about = {
        "language": lexical.settings.language,
        "stems": lexical.stems,
        "without": [*lexical.settings.without_rules],
        FILE_NAMES: counts_file_names(source),
    }
    found = {**about, "terms": len(lexical.terms), **facts}
    job.facts |= {"lexical": found, "language": _language_said(found, settings.language)}
    if previous is None:  # which would have handed its own on
        job.note(f"language of the words: {job.facts['language']}")
    return found


def _language_said(lexical: Mapping[str, Any], asked: str) -> str:
    """Return for `index` the language of an index's words, and whether it was recognised; `lexical` is what its facts have."""
    language, stems = str(lexical.get("language", "none")), lexical.get("stems", True)
    if language == "none":
        return (
            "none detected, so word endings are kept (choose a language with --language)" if asked == "auto" else "none"
        )
    how = "word endings are removed" if stems else "word endings are kept"
    if asked != "auto":
        return language if stems else f"{language}, {how}"
    if (found := lexical.get("endings")) is None:
        return f"{language} (detected), {how}"
    figures = f"nDCG@10 {found['stems']:.3f} without endings, {found['words']:.3f} with endings"
    doubt = "" if found["kept"] or found["interval"][1] < 0 else ", no clear difference"
    return f"{language} (detected), {how} ({figures}{doubt})"


def _same_settings(previous: Artifact, settings: IndexSettings) -> LexicalIndex | None:
    """Return the lexical index of a previous index, if it was built with these settings."""
    if not previous.names(LEXICAL):
        return None
    found = LexicalIndex.load(BundledFiles(previous, LEXICAL))
    language = found.settings.language if settings.language == "auto" else settings.language
    is_measured = settings.endings == "auto" and settings.language == "auto"
    same_words = is_measured or found.stems == (settings.endings != "keep")
    return found if found.settings == settings.in_language(language) and same_words else None


def _built(source: Artifact, chosen: IndexSettings, report: Report) -> tuple[LexicalIndex, dict[str, Any]]:
    """Return the lexical index of all rows, and what was measured of endings; a recognised language's are kept if that pays.

    People's questions are answered better by stems: on Cranfield, CISI, CACM and NPL by 2 to 8 points of nDCG@10. Queries made
    of the texts show less of it (-1 to +2 points), so that only what is beyond chance counts against stems: in none of 23
    comparisons, of these and of news in eight languages. Both indexes and all queries take 1 s of 1,400 abstracts.
    """
    recognised = chosen.language == "auto"
    language = _recognised(source) if recognised else chosen.language
    settings = chosen.in_language(language)
    measured: dict[str, Any] = {}
    found = LexicalIndex.build(_texts(source, report=report), settings, stems=chosen.endings != "keep")
    if recognised and language != "none" and chosen.endings == "auto":
        endings, words = _endings(source, found, report)
        measured = {} if endings is None else {"endings": endings}
        if endings is not None and endings["kept"]:
            found = LexicalIndex.build(_texts(source, report=report), settings, stems=False) if words is None else words
    return found, measured


def _endings(
    source: Artifact, stems: LexicalIndex, report: Report
) -> tuple[dict[str, Any] | None, LexicalIndex | None]:
    """Compare words with their endings and their stems on the same queries: which find more; of many rows on a sample.

    `stems` is the index of all rows, without endings.

    Returns:
        kept, whether they find more beyond chance; by, queries (as in `measured_by`); rows; nDCG@10 with endings (`words`) and
        without (`stems`); interval, of 95 %, of words above stems. None where there are too few queries. And the index with
        endings, where these were all rows.
    """
    rows, chosen_N = _Rows(source), None
    whole = (at_most := _compared_rows(source)) >= len(rows.documents)
    if not whole:
        chosen_N = _spread(rows.documents, at_most)
        rows = _Rows(source, rows.documents, np.flatnonzero(chosen_N))
        stems = stems.of_some(chosen_N)
    drawn, _ = _pseudo_queries(rows)
    if drawn is None:
        return None, None
    words = LexicalIndex.build(_texts(source, chosen_N, report=report), stems.settings, stems=False)
    words_Q, stems_Q = (np.array(found_by_words(drawn, one)) for one in (words, stems))
    apart = paired_difference(words_Q, stems_Q)
    assert apart is not None
    least, most = (round(float(value), 4) for value in apart.interval)
    return {
        "kept": least > 0, "by": drawn.how, "queries": len(drawn.texts), "rows": len(words),
        "words": round(float(words_Q.mean()), 4), "stems": round(float(stems_Q.mean()), 4), "interval": [least, most],
    }, words if whole else None  # fmt: skip


def _recognised(source: Artifact, wanted: npt.NDArray[np.bool_] | None = None) -> str:
    """Return the language of the texts of some rows."""
    found = _texts(source, wanted, report=quiet, with_fields=False)
    return recognised_language(text for texts in found for text in texts.to_pylist())


def _compared_rows(source: Artifact) -> int:
    """Return the number of rows that endings are compared on: fewer where the first texts are long."""
    first = next(iter(read_batches(source, source.kind, ["text"])), None)
    chars = 0 if first is None else sum(map(len, first.column("text").to_pylist())) // max(len(first), 1)
    return max(_LEAST_ROWS, min(_ENDINGS_ROWS, _ENDINGS_CHARS // max(chars, 1)))


def _texts(
    source: Artifact, wanted: npt.NDArray[np.bool_] | None = None, *, report: Report, with_fields: bool = True
) -> Iterator[pa.Array]:
    """Yield the texts of rows for a lexical index, a few thousand at a time: with their titles where these were read too.

    With fields that are searched they are structs of the text and its fields.
    """
    from wordpipe.encoders import read_after_title  # Arrow's functions, which opening an index does without

    titled, total = reads_titles(source), row_count(source, source.kind)
    fields, first = searched_columns(source) if with_fields else [], 0
    for batch in read_batches(source, source.kind, ["title", "text", *fields] if titled else ["text", *fields]):
        rows = batch if wanted is None else batch.filter(pa.array(wanted[first : first + len(batch)]))
        first += len(batch)
        text = read_after_title(rows.column("text"), rows.column("title")) if titled else rows.column("text")
        if fields:
            text = texts_and_fields(text, beside_texts(rows, fields))
        yield text
        report(Progress("counting words", first, total, "texts"))


def _with_title(title: str | None, text: str) -> str:
    """Return the text of a row with its title before it, as it was embedded."""
    return f"{title}\n{text}" if title else text


def _some(column: pa.Array, rows: Sequence[int]) -> list[str]:
    """Return the values of some rows; `take` would import pyarrow.compute, which takes 0.17 s."""
    return column.to_pylist() if len(rows) == len(column) else [column[row].as_py() for row in rows]


def measure_some(source: Artifact, at_most: int, report: Report, transform: Transform | None = None) -> dict[str, Any]:
    """Measure vectors against words (the lexical half) in a sentences artifact, or in a sample of its rows.

    Args:
        source: a sentences artifact, or an index over one, that carries its encoder.
        at_most: rows to look at, or a few more: of a larger artifact whole documents, evenly spread.
        report: progress.
        transform: of the vectors of rows and queries, before they are compared.

    Returns:
        rows, how many were looked at; own_cosine, the median cosine of their vectors and those that the encoder gives their
        texts, 1 where they are its own; agreement, mode, measured: as `_measured` gives them.

    Raises:
        ArtifactError: the encoder cannot be read.
    """
    documents_N = document_numbers(source, source.kind)
    chosen_N = _spread(documents_N, at_most)
    settings = LexicalSettings().in_language(_recognised(source, chosen_N))
    lexical = LexicalIndex.build(_texts(source, chosen_N, report=report), settings)
    rows, encoder = _Rows(source, documents_N, np.flatnonzero(chosen_N)), bundled_encoder(source)
    some = np.unique(np.linspace(0, len(lexical), _COMPARED, endpoint=False).astype(np.int64))
    drawn, titled = rows.read(some.tolist()), reads_titles(source)
    given_MD = encoder.encode([_with_title(title if titled else "", text) for _, title, text in drawn]).vectors
    own_MD = rows.dense.vectors(some)
    own_cosine = float(np.median((given_MD * own_MD).sum(axis=1)[own_MD.any(axis=1)])) if own_MD.any() else 0.0
    return {
        "rows": len(lexical),
        "own_cosine": round(own_cosine, 4),
        **_measured(rows, lexical, encoder, timed=False, report=report, transform=transform),
    }


def _spread(documents_N: npt.NDArray[np.int64], at_most: int) -> npt.NDArray[np.bool_]:
    """Return the rows of an even sample to measure the lexical half on, (N,): whole documents."""
    n = len(documents_N)
    order = np.argsort(documents_N, kind="stable")
    starts = np.searchsorted(documents_N[order], documents_N[order])
    runs_N = np.empty(n, dtype=np.int64)
    runs_N[order] = (np.arange(n) - starts) // _MAX_SIBLINGS
    _, pieces_N = np.unique(documents_N * (n + 1) + runs_N, return_inverse=True)
    pieces = int(pieces_N.max(initial=-1)) + 1
    kept = np.zeros(pieces, dtype=np.bool_)
    kept[np.linspace(0, pieces, max(1, pieces * min(at_most, n) // max(n, 1)), endpoint=False).astype(np.int64)] = True
    return kept[pieces_N]


class _Rows:
    """The rows of an artifact in which queries search: all of them, or some, which are then numbered anew.

    Args:
        source: the artifact.
        documents_N: the number of the document of each of its rows, where that is known.
        some: the S rows, ascending; None for all, whose vectors are then read anew for every search.
    """

    def __init__(
        self,
        source: Artifact,
        documents_N: npt.NDArray[np.int64] | None = None,
        some: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.source, self._some = source, some
        documents_N = document_numbers(source, source.kind) if documents_N is None else documents_N
        sizes_N = np.bincount(documents_N)[documents_N]
        self.documents = documents_N if some is None else documents_N[some]  # (S,)
        self.sizes = sizes_N if some is None else sizes_N[some]  # (S,) of each one's document, the rows not chosen too

    @cached_property
    def dense(self) -> VectorStream | VectorTable:
        """The vectors of the rows, to be searched."""
        stored = RowVectors(self.source, self.source.kind)
        return VectorStream(self._blocks, stored) if self._some is None else VectorTable(stored.read(self._some))

    def read(self, rows: Sequence[int]) -> list[tuple[int, str, str]]:
        """Return row, title and text of some rows to measure the lexical half on, ascending."""
        ascending = sorted(rows)
        numbers = ascending if self._some is None else self._some[ascending].tolist()
        found = self._reader.fetch(numbers)
        return [(row, one["title"] or "", one["text"]) for row, one in zip(ascending, found, strict=True)]

    def _blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        return (matrix_of(batch.column("vector")) for batch in read_batches(self.source, self.source.kind, ["vector"]))

    def repeated(self, drawn: Sequence[tuple[int, str, str]]) -> set[str]:
        """Return titles and texts of rows to measure the lexical half on that stand in another row too."""
        wanted = [{row[at] for row in drawn} for at in (1, 2)]
        seen, twice, first = (set[str](), set[str]()), set[str](), 0
        for batch in read_batches(self.source, self.source.kind, ["title", "text"]):
            rows: Sequence[int] = range(len(batch))
            if self._some is not None:
                start, stop = np.searchsorted(self._some, [first, first + len(batch)])
                rows = (self._some[start:stop] - first).tolist()
            first += len(batch)
            for place, name in enumerate(("title", "text")):
                for value in _some(batch.column(name), rows):
                    if value in wanted[place]:
                        (twice if value in seen[place] else seen[place]).add(value)
        return twice

    @cached_property
    def _reader(self) -> RowReader:
        return RowReader(self.source, self.source.kind, ["title", "text"])


def _measured(
    rows: _Rows,
    lexical: LexicalIndex,
    encoder: TextEncoder,
    *,
    timed: bool,
    report: Report,
    transform: Transform | None = None,
) -> dict[str, Any]:
    """Measure how far vectors and the lexical half agree, and which mode of search finds best.

    Args:
        rows: the rows.
        lexical: the index of their words.
        encoder: what gave their vectors.
        timed: whether a query is timed, too.
        report: progress.
        transform: of all vectors; the rows' are then in memory.

    Returns:
        agreement; weight, of an encoder that learned elsewhere; mode: see `best_mode`; feedback, where words alone are asked
        twice: see `pays_twice`; measured: see `measured_by`; alike, True where nothing was measured as too few titles
        and texts are unlike all others; seconds, see `_seconds`, where these were timed.
    """
    # Queries, and how their texts are encoded.
    drawn, cuts = _pseudo_queries(rows)
    texts_of = [] if cuts is None else [cuts.texts]
    texts_of += [] if drawn is None else [drawn.texts, drawn.rests]
    total, done = sum(map(len, texts_of)), 0

    # The transform that is tried goes over all vectors.
    def encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors of queries to compare with the lexical half."""
        nonlocal done
        before, done = done, done + len(texts)
        phase = "comparing words and vectors"
        report(Progress(phase, before, total, "texts"))
        found_QD = encoder.for_queries.encode(
            texts, lambda share: report(Progress(phase, round(before + share * len(texts)), total, "texts"))
        ).vectors
        return found_QD if transform is None else transform.apply(found_QD)[0]

    # What vectors and words find, each alone and together.
    dense = rows.dense
    if transform is not None:
        dense = VectorTable(transform.apply(dense.vectors(np.arange(len(lexical))))[0])
    elsewhere = ELSEWHERE_UNMEASURED if cuts is None else LEARNED_ELSEWHERE
    weight = elsewhere if learned_elsewhere(encoder) else None
    agreement, found = measure(drawn, cuts, encode, dense, lexical, weight)
    # The mode that is chosen, and how long a query then takes.
    trained = learned_from_pairs(encoder)
    means = None if found is None else {name: float(values_Q.mean()) for name, values_Q in found.items()}
    mode, measured = best_mode(means, trained=trained), measured_by(drawn, found)
    again = mode == "lexical" and means is not None and drawn is not None and pays_twice(means, len(drawn.texts))
    twice = {"feedback": FEEDBACK} if again else {}
    measured = measured and measured | {"learned_from_pairs": trained}
    share = {} if weight is None else {"weight": weight}
    facts = {"agreement": agreement, **share, "mode": mode, **twice, "measured": measured}
    if drawn is None and cuts is not None:
        facts["alike"] = True
    if timed and cuts is not None:
        facts["seconds"] = _seconds(encoder, lexical, cuts.texts[:_TIMED])
    return facts


def _seconds(encoder: TextEncoder, lexical: LexicalIndex, queries: Sequence[str]) -> dict[str, float]:
    """Return the seconds of each part of a query but the search by vectors: encoding, words, feedback (of the words)."""
    begun = time.perf_counter()
    encoder.for_queries.encode(queries)
    encoded = time.perf_counter()
    words = [lexical.read(query) for query in queries]
    found = lexical.best(words, CANDIDATES)
    worded = time.perf_counter()
    for own, hits in zip(words, found, strict=True):
        lexical.score_rows(lexical.expanded(own, lexical.texts(hits.rows[:FEEDBACK])), hits.rows)
    times = {"encoding": encoded - begun, "words": worded - encoded, "feedback": time.perf_counter() - worded}
    return {name: round(seconds / len(queries), 6) for name, seconds in times.items()}


def best_mode(ndcg_at_10: Mapping[str, float] | None, *, trained: bool) -> SearchMode:
    """Return the mode (dense, lexical, hybrid) that found most; hybrid where nothing was measured.

    Vectors alone are no choice where the encoder learned from pairs of texts, most likely out of these very ones: it finds
    their titles and spans better than what people ask. On Cranfield and CISI it found more titles than both together, and
    fewer answers by 3 points of nDCG@10.

    Both together are no choice where words alone find more when they are asked twice: what both gain is then the feedback's.
    Nor are they where random vectors find as much in the place of these.
    """
    if not ndcg_at_10:
        return "hybrid"
    modes: list[SearchMode] = ["hybrid", "lexical"] if trained else ["hybrid", "lexical", "dense"]
    words = max(ndcg_at_10["lexical"], ndcg_at_10.get("lexical_twice", 0.0))
    if ndcg_at_10["hybrid"] < words or ndcg_at_10["hybrid"] <= ndcg_at_10.get("random_vectors", 0.0):
        return "dense" if "dense" in modes and ndcg_at_10["dense"] > words else "lexical"
    return max(modes, key=ndcg_at_10.__getitem__)


def pays_twice(ndcg_at_10: Mapping[str, float], queries: int) -> bool:
    """True if words that are asked twice find more than words alone, beyond noise."""
    noise: float = _NOISE * (MAX_QUERIES / queries) ** 0.5
    return bool(ndcg_at_10["lexical_twice"] > ndcg_at_10["lexical"] + noise)


def _pseudo_queries(rows: _Rows) -> tuple[PseudoQueries | None, PseudoQueries | None]:
    """Return queries drawn from the rows to measure the lexical half; None where there are too few."""
    sizes_S = rows.sizes
    rng = np.random.default_rng(_STREAM)
    siblings = np.flatnonzero((sizes_S > 1) & (sizes_S <= _MAX_SIBLINGS))
    some = rng.permutation(siblings)[:MAX_QUERIES]
    alone = np.flatnonzero((sizes_S == 1) | (sizes_S > _MAX_SIBLINGS))
    found = rows.read(rng.permutation(len(sizes_S))[:_DRAWN].tolist())
    cuts = _queries_of([(row, "", text) for row, _, text in found])
    if len(siblings) >= MIN_QUERIES:
        return _of_siblings(rows, some), cuts
    drawn = rows.read(rng.permutation(alone)[:_DRAWN].tolist())
    titled = [(row, title if sizes_S[row] == 1 else "", text) for row, title, text in drawn]
    return _queries_of(titled, rows.repeated(titled) if len(titled) >= MIN_QUERIES else None), cuts


def _queries_of(drawn: Sequence[tuple[int, str, str]], repeated: set[str] | None = None) -> PseudoQueries | None:
    """Return titles as queries for their texts, or cuts where there are no titles; see `draw_queries`."""
    queries = draw_queries([title for _, title, _ in drawn], [text for _, _, text in drawn], repeated)
    return None if queries is None else queries.of_rows([row for row, _, _ in drawn])


def _of_siblings(rows: _Rows, some: npt.NDArray[np.int64]) -> PseudoQueries:
    """Return rows as queries for the others of their document."""
    drawn, documents_S = rows.read(some.tolist()), rows.documents
    others = [{*np.flatnonzero(documents_S == documents_S[row]).tolist()} - {row} for row, _, _ in drawn]
    return PseudoQueries("rows", [text for _, _, text in drawn], [row for row, _, _ in drawn], [], others)
