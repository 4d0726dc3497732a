"""A collection to evaluate search on, in the layout of BEIR: documents, queries, and which documents answer which query.

    corpus.jsonl     {"_id": …, "title": …, "text": …} a line
    queries.jsonl    {"_id": …, "text": …} a line
    qrels.tsv        query-id, corpus-id, score, parted by tabs, below a header; or TREC's query, 0, document, grade

A document's text is its title, a blank and its text, as BEIR and MTEB join them. Every system answers each query with rows of
documents and their scores, best first. The baselines need no training: BM25, and the plain measures of likeness that anything
learned has to beat, RM3, TF-IDF and latent semantic indexing.

Shapes: N documents (texts), Q queries, M measures, V terms, K directions.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import parse_json
from wordpipe.errors import InputError, wrong_line
from wordpipe.metrics import score_ranking, trec_order, unit_rows
from wordpipe.runtime import Progress, Report, one_thread_a_product
from wordpipe.search.hits import Hits, best_of
from wordpipe.search.lexical.analysis import Analyser
from wordpipe.search.lexical.bm25 import LexicalIndex
from wordpipe.search.lexical.postings import QueryTerms
from wordpipe.search.vectors.knn import VectorTable
from wordpipe.sparse import SparseRows

_RM3_TEXTS, _RM3_TERMS = 10, 10  # as Anserini expands
_BLOCK, _BASIS = 0.1, 3.84  # columns of a block, and vectors of a basis, for each direction that is wanted
_LEAST, _SMALL = 4, 1_000  # columns of a block; columns of a matrix that is decomposed as a whole
_NOISE = 1e-5  # of the largest singular value
_STREAM = 0x151  # separates this draw from every other use of a seed

Grades = dict[str, dict[str, int]]
"""Query → judged document → grade."""
Array = npt.NDArray[np.float64]
Analyse = Callable[[Any], list[str]]
"""The terms of a text, or of whatever stands for one, in order, each as often as it stands there."""


@dataclass(frozen=True)
class Collection:
    """A collection in BEIR's layout: N documents and the Q queries that were judged."""

    documents: list[str]  # their ids, all different
    titles: list[str]  # empty where a document has none
    texts: list[str]  # without the title
    queries: list[str]  # ids, in the order of the file
    questions: list[str]  # their texts
    grades: Grades  # for each of these queries, judged document → grade; 1 and more is relevant
    # documents, documents_empty, queries, queries_unjudged (left out), queries_without_relevant (they count as 0),
    # queries_unknown (judged, but not among the queries: they count as 0), judgements, judged_documents_unknown
    counts: dict[str, int]

    @property
    def passages(self) -> list[str]:
        """Title and text of every document."""
        return [f"{title} {text}".strip() for title, text in zip(self.titles, self.texts, strict=True)]


File = tuple[bytes, str]
"""One file of a collection: its content and its name for messages."""


def read_collection(corpus: File, queries: File, judgements: File) -> Collection:
    """Read the three files of a collection: documents, queries, judgements.

    Raises:
        InputError: one is no such file, has nothing in it, or names something twice; or no judgement fits query and document.
    """
    # the three files, and the ids that they have in common
    documents = _records(corpus)
    questions = _records(queries)
    grades = _grades(judgements)
    unknown = {name for graded in grades.values() for name in graded} - documents.keys()
    known = [name for name in questions if name in grades]
    strangers = "" if known else "the queries file contains no query of the judgements"
    if known and not any(name in documents for query in known for name in grades[query]):
        strangers = "the corpus contains no document of the judgements"
    if strangers:  # ids that do not meet give figures near 0 that look like a bad system
        raise InputError(strangers, where=judgements[1], hint="compare the ids in the two files")
    # counts of what is left out, or counts as 0
    missing = [name for name in grades if name not in questions]
    counts = {
        "documents": len(documents),
        "documents_empty": sum(not f"{title}{text}".strip() for title, text in documents.values()),
        "queries": len(known) + len(missing),
        "queries_unjudged": len(questions) - len(known),
        "queries_without_relevant": sum(not any(grade > 0 for grade in graded.values()) for graded in grades.values()),
        "queries_unknown": len(missing),
        "judgements": sum(map(len, grades.values())),
        "judged_documents_unknown": len(unknown),
    }
    # judged queries alone, in the order of their file
    return Collection(
        documents=[*documents],
        titles=[title for title, _ in documents.values()],
        texts=[text for _, text in documents.values()],
        queries=known + missing,
        questions=[questions[name][1] for name in known] + [""] * len(missing),
        grades=grades,
        counts=counts,
    )


def _records(file: File) -> dict[str, tuple[str, str]]:
    """Return id → title and text of every line of a file of a BEIR collection's documents or queries."""
    found: dict[str, tuple[str, str]] = {}
    for place, line in _lines(file):
        record = parse_json(line, place, what="not a line of JSON", error=InputError)
        if not isinstance(record, dict) or not isinstance(record.get("_id"), str | int) or "text" not in record:
            raise wrong_line(place, line, "a JSON object with _id and text")
        title, body = record.get("title") or "", record["text"] or ""
        if not isinstance(title, str) or not isinstance(body, str):
            raise wrong_line(place, line, "a string in title and in text")
        name = str(record["_id"])
        if name in found:
            raise InputError("an id occurs twice", where=place, got=name)
        found[name] = (title, body)
    if not found:
        raise InputError("the file is empty", where=file[1], expected="one JSON object per line")
    return found


def _grades(file: File) -> Grades:
    """Return the judgements of a BEIR collection's file: query → document → grade."""
    grades: Grades = {}
    for number, (place, line) in enumerate(_lines(file)):
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) == 4:  # TREC's layout, whose second column says nothing
            cells = [cells[0], *cells[2:]]
        if len(cells) != 3:
            raise wrong_line(place, line, "a query id, a document id and a grade")
        query, document, grade = (cell.strip() for cell in cells)
        if not grade.removeprefix("-").isdecimal():
            if number:
                raise wrong_line(place, line, "a grade that is a whole number")
            continue  # the header
        graded = grades.setdefault(query, {})
        if graded.setdefault(document, int(grade)) != int(grade):
            raise InputError(
                "a document has two different grades for one query", where=place, got=f"{query} {document}"
            )
    if not grades:
        raise InputError(
            "the file contains no judgements",
            where=file[1],
            expected="a query id, a document id and a grade on each line",
        )
    return grades


def _lines(file: File) -> Iterator[tuple[str, str]]:
    """Yield each line of a file of the collection that is not empty, with its place for messages."""
    data, name = file
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            line = raw.decode().rstrip("\r")
        except UnicodeDecodeError as error:
            raise InputError("not UTF-8 text", where=f"{name}:{number}", got=error.reason) from None
        if line.strip():
            yield f"{name}:{number}", line


def baselines(
    collection: Collection, lexical: LexicalIndex, lsi_dim: int, depth: int, report: Report
) -> dict[str, list[Hits]]:
    """Return what BEIR's baselines find: bm25 and rm3 (Lucene's), tfidf and lsi, which see the same terms."""
    passages, questions = collection.passages, collection.questions
    found = {"bm25": lexical.search(questions, depth)}
    pairs = zip(questions, found["bm25"], strict=True)
    expanded = [relevance_model(lexical, lexical.read(question), hits.first(_RM3_TEXTS)) for question, hits in pairs]
    found["rm3"] = lexical.best(expanded, depth)
    tfidf = Tfidf.fit(passages, Analyser(lexical.settings.language))
    sparse_NV, queries_QV = tfidf.vectors(passages), tfidf.vectors(questions)
    found["tfidf"] = _nearest_texts(queries_QV, sparse_NV.turned(), depth)
    report(Progress("latent semantic indexing"))
    latent = LatentSpace.fit(sparse_NV, lsi_dim)
    found["lsi"] = VectorTable(latent.vectors(sparse_NV)).search(latent.vectors(queries_QV), depth)
    return found


def _nearest_texts(queries_QV: SparseRows, texts_VN: SparseRows, depth: int) -> list[Hits]:
    """Return for each query the texts with the highest products, among those that share a term."""
    found = []
    for first, end in pairwise(queries_QV.bounds.tolist()):
        held = texts_VN.picked(queries_QV.columns[first:end])
        weights = held.values * np.repeat(queries_QV.values[first:end], np.diff(held.bounds))
        rows, at = np.unique(held.columns, return_inverse=True)
        scores = np.bincount(at, weights=weights, minlength=len(rows)).astype(np.float32)
        found.append(best_of(rows, scores, depth))
    return found


def rankings(collection: Collection, found: Sequence[Hits], *, drop_identical: bool) -> list[list[str]]:
    """Return a baseline's ranking for each query: the ids of documents in trec_eval's order.

    A document of the same id as the query is left out where `drop_identical` is set.
    """
    ranked = []
    for query, hits in zip(collection.queries, found, strict=True):
        names = [collection.documents[row] for row in hits.rows.tolist()]
        order = trec_order(names, hits.scores)
        ranked.append([names[at] for at in order if not (drop_identical and names[at] == query)])
    return ranked


def scores(collection: Collection, ranked: Sequence[Sequence[str]]) -> Array:
    """Return the figures of every query, (Q, M) float64; all figures of a query that is not answered are 0."""
    pairs = zip(collection.queries, ranked, strict=True)
    return np.array([score_ranking(names, collection.grades[query]) for query, names in pairs], dtype=np.float64)


def relevance_model(index: LexicalIndex, query: QueryTerms, found: Hits) -> QueryTerms:
    """Mix the query half and half with the likeliest terms of the texts found: the baseline RM3, as in Anserini.

    Args:
        index: of the texts.
        query: its own terms.
        found: texts with their scores.

    Source: Lavrenko and Croft 2001, "Relevance-based language models"; Abdul-Jaleel et al. 2004, "UMass at TREC 2004".
    """
    if not len(found) or not query.length:
        return query
    texts = index.texts(found.rows)
    model_V = np.bincount(texts.numbers, weights=found.scores[texts.at] * texts.counts / texts.lengths[texts.at])
    best = np.sort(np.lexsort((np.arange(len(model_V)), -model_V))[: min(_RM3_TERMS, np.count_nonzero(model_V))])
    both, places = np.unique(np.concatenate([query.numbers, best]), return_inverse=True)
    halves = np.concatenate([query.weights / query.length, model_V[best] / model_V[best].sum()]) / 2
    return QueryTerms(both, np.bincount(places, weights=halves, minlength=len(both)).astype(np.float32))


@dataclass(frozen=True)
class Tfidf:
    """Terms weighted by (1 + ln tf) · (1 + ln((1 + N) / (1 + df))), for a term tf times in the text and in df of N texts.

    Source: Salton and Buckley 1988, "Term-weighting approaches in automatic text retrieval" (ltc, the df smoothed by one
    text that holds every term).
    """

    analyse: Analyse
    column_of: dict[str, int]  # of a term
    idf: npt.NDArray[np.float32]  # (V,)

    @classmethod
    def fit(cls, texts: Sequence[Any], analyse: Analyse) -> "Tfidf":
        """Learn the terms of a collection's N texts and how rare they are, for the baseline TF-IDF.

        Columns are in the order in which terms first come.
        """
        df: Counter[str] = Counter()  # which keeps the order in which terms first come
        for text in texts:
            df.update(dict.fromkeys(analyse(text), 1))
        idf = 1 + np.log((1 + len(texts)) / (1 + np.array([*df.values()], dtype=np.float64)))
        return cls(analyse, {term: column for column, term in enumerate(df)}, idf.astype(np.float32))

    def vectors(self, texts: Sequence[Any]) -> SparseRows:
        """Return TF-IDF vectors of a collection's texts, (N, V) float32, rows of length 1; empty without terms.

        Empty without known terms.
        """
        starts = [0]
        columns: list[int] = []
        for text in texts:
            columns += (column for term in self.analyse(text) if (column := self.column_of.get(term)) is not None)
            starts.append(len(columns))
        counts_NV = SparseRows.counted(np.array(columns, dtype=np.int32), starts, len(self.idf))
        weights_NV = counts_NV.with_values(
            (1 + np.log(counts_NV.values.astype(np.float64))) * self.idf[counts_NV.columns]
        )
        lengths_N = np.sqrt(weights_NV.squares())
        return weights_NV.with_values((weights_NV.values / lengths_N[weights_NV.row_of]).astype(np.float32))


@dataclass(frozen=True)
class LatentSpace:
    """Latent semantic indexing: the K leading right singular vectors of a matrix of texts and terms.

    Source: Deerwester et al. 1990, "Indexing by Latent Semantic Analysis"; a text is folded in as the projection of its
    terms, query and document alike.
    """

    directions: npt.NDArray[
        np.float32
    ]  # (V, K), orthonormal columns, the strongest first; zero where the texts have no more

    @classmethod
    def fit(cls, texts_NV: SparseRows, dim: int) -> "LatentSpace":
        """Find `dim` latent directions of a collection (the baseline LSI); fewer where the matrix is not so large.

        The same matrix gives the same directions, as the iteration starts at fixed vectors.
        """
        k = min(dim, min(texts_NV.shape) - 1)
        if k < 1:
            return cls(np.zeros((texts_NV.shape[1], 0), dtype=np.float32))
        # on the shorter side; from there to the terms
        of_texts = texts_NV.shape[0] < texts_NV.shape[1]
        texts_NV = texts_NV.with_values(texts_NV.values.astype(np.float32, copy=False))
        matrix, turned = (texts_NV.turned(), texts_NV) if of_texts else (texts_NV, texts_NV.turned())
        with one_thread_a_product():
            vectors_SK = _leading(matrix, turned, k)
        if of_texts:
            vectors_SK = matrix @ vectors_SK
            values_K = np.linalg.norm(vectors_SK, axis=0)
            values_K[values_K < _NOISE * values_K.max()] = np.inf  # of a direction that the texts lack
            vectors_SK /= values_K
        return cls(np.ascontiguousarray(vectors_SK, dtype=np.float32))

    def vectors(self, texts_NV: SparseRows) -> npt.NDArray[np.float32]:
        """Return vectors of texts in the latent space, (N, K) float32 of length 1; zero for texts that have none."""
        return unit_rows(texts_NV @ self.directions, least=1e-6)[0]


def _leading(matrix: SparseRows, turned: SparseRows, k: int) -> npt.NDArray[np.float32]:
    """Return the k leading right singular vectors of a matrix of the latent space, (S, k) float32, the strongest first.

    By block Lanczos: the space of X, A'A X, (A'A)^2 X, … for random X of few columns, orthogonalised against all blocks
    before it, and in that space the eigenvectors of A'A. On 38,000 short texts ARPACK, which orthogonalises one vector at a
    time, takes five times as long for 0.1 % more of the length of the texts; on the four collections nDCG@10 is the same.

    Args:
        matrix: A, float32, of S columns.
        turned: A', likewise.
        k: less than S.

    Source: Golub and Underwood 1977, "The block Lanczos method for computing eigenvalues"; Musco and Musco 2015, "Randomized
    block Krylov methods for stronger and faster approximate singular value decomposition".
    """
    size, wide = matrix.shape[1], max(_LEAST, round(_BLOCK * k))
    basis = math.ceil(_BASIS * k / wide) * wide
    if size <= max(basis, _SMALL):  # then the exact ones take no longer
        return _eigenvectors(matrix.gram().astype(np.float64), k)
    basis_SM, gram_MM = np.empty((size, basis), np.float32), np.zeros((basis, basis))
    rng, largest = np.random.default_rng(_STREAM), 0.0
    block_SB = np.linalg.qr(rng.standard_normal((size, wide), dtype=np.float32))[0]
    for end in range(wide, basis + 1, wide):
        basis_SM[:, end - wide : end] = block_SB
        so_far = basis_SM[:, :end]
        block_SB = turned @ (matrix @ block_SB)
        gram_MM[:end, end - wide : end] = along = so_far.T @ block_SB
        largest = max(largest, float(np.linalg.norm(block_SB, axis=0).max()))
        block_SB, left_BB = np.linalg.qr(block_SB - so_far @ along)
        # once more, for what float32 has left; where nothing is left but noise, the space goes on with random columns
        is_noise = np.abs(left_BB.diagonal()) < _NOISE * largest
        block_SB[:, is_noise] = rng.standard_normal((size, wide), dtype=np.float32)[:, is_noise]
        for _ in range(1 + bool(is_noise.any())):
            block_SB = np.linalg.qr(block_SB - so_far @ (so_far.T @ block_SB))[0]
    upper = np.triu(gram_MM)
    return basis_SM @ _eigenvectors(upper + np.triu(upper, 1).T, k)


def _eigenvectors(gram_SS: Array, k: int) -> npt.NDArray[np.float32]:
    """Return the k leading eigenvectors of a symmetric matrix of the latent space, (S, k) float32, the strongest first."""
    return np.linalg.eigh(gram_SS)[1][:, : -k - 1 : -1].astype(np.float32)
