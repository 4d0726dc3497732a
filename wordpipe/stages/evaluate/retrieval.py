"""`wordpipe evaluate retrieval`: how well encoders find documents that people judged relevant, compared with words.

Shapes: N documents, Q queries, D numbers of a vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.encoders import Transform, learned_elsewhere, learned_from_pairs
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import SIGNIFICANT, Evaluation, Measured, QueryFigures, System, in_json, side_by_side
from wordpipe.runtime import Progress
from wordpipe.search import (
    CANDIDATES,
    ELSEWHERE_UNMEASURED,
    FEEDBACK,
    LEARNED_ELSEWHERE,
    ChanceVectors,
    Hits,
    LexicalIndex,
    PseudoQueries,
    Retriever,
    VectorTable,
    beir,
    chance_vectors,
    draw_queries,
    measure,
    measured_by,
)
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages.evaluate import inputs
from wordpipe.stages.evaluate.inputs import PLAIN, EvaluatedEncoder, Texts, open_evaluated
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import as_list, refuse_artifacts
from wordpipe.wording import short_name

_DEPTH = 1_000  # documents that are kept for each query, as trec_eval does
_LSI_DIM = 300
_QUERIES = 2**40  # the stream of queries drawn by chance, beyond those of documents
_FLOORS = ("bm25", "bm25_twice", "rm3", "lsi")  # every later system is compared with, query by query
_FIRST, _NAME_WIDTH = "ndcg_at_10", 24
_MISSING = {
    "queries_unjudged": "queries have no judgement and are left out",
    "queries_unknown": "judged queries have no text and count as 0",
    "queries_without_relevant": "queries have no relevant document and count as 0",
    "judged_documents_unknown": "judged documents are not in the corpus and cannot be found",
    "documents_empty": "documents have no text",
}
_LEGEND = {
    "bm25_twice": "BM25, 2 searches: the second search adds words from the first results, as in hybrid; no vectors",
    "words_mean": "mean of words: cosine of the mean word vectors, without the weights and the transform of dense",
    "dense": "dense: cosine of the encoder's vectors only; hybrid: dense combined with BM25, in 2 searches",
    "random": "random vectors: hybrid with random vectors instead of the encoder's vectors",
}
_LAYOUT = "corpus.jsonl, queries.jsonl and qrels.tsv or qrels/test.tsv"


@public(EmbedSettings)
def evaluate_retrieval(
    encoders: PathLike | Sequence[PathLike],
    data: PathLike,
    *,
    split: str | None = None,
    words: PathLike | None = None,
    weight: float | None = None,
    drop_identical: bool = False,
    draws: int = 10_000,
    feedback: int = FEEDBACK,
    language: str = "auto",
    run: RunOptions | None = None,
    **settings: Any,
) -> Evaluation:
    r"""Evaluate encoders on a collection of documents, queries and judgements, beside BM25, RM3, TF-IDF and LSI.

    Every system searches for every query: bm25, rm3 (BM25 of expanded queries), tfidf, lsi, words_mean, and for each encoder
    dense (cosines, every document compared) and hybrid (bm25 and dense together, as `wordpipe query --mode hybrid` does).
    Two controls say what of hybrid's gain comes without its vectors: bm25_twice, the words alone with the same feedback (left
    out without feedback), and random, hybrid with the same share for vectors drawn by chance. The figures are trec_eval's (see
    `metrics/scores.py`); a query without an answer counts as 0.

    Args:
        encoders: model or words artifacts; or sentences or index artifacts, whose encoder is evaluated with the transform
            that it carries. An empty list evaluates the baselines only.
        data: a folder in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels.tsv or qrels/SPLIT.tsv.
        split: name of the file in the folder qrels; None: test.
        words: a words artifact; the mean of its vectors is one more baseline. None: the first words artifact among the
            encoders.
        weight: weight of the dense score in hybrid, 0 to 1; None: measured without labels.
        drop_identical: leave out a document that has the same id as the query, as BEIR does with ArguAna.
        draws: number of bootstrap samples for intervals and p; 0: no intervals and no p.
        feedback: number of first results that hybrid search uses for a second search; 0: one search only.
        language: language whose endings are cut off words (Snowball), none, or auto.
        run: progress, verification.
        settings: fields of `EmbedSettings` for model and words artifacts; a transform is fitted on the documents.

    Returns:
        evaluated ("retrieval"), data, counts, norms (weight, feedback, …), metrics and systems.

        systems is a list of system, name, metrics (ndcg_at_10, map, recall_at_100, mrr, from 0 to 1), intervals (95 %, low and
        high), unanswered (queries), against_bm25 (difference, interval and p of every measure), against_bm25_twice,
        against_rm3, against_lsi and facts (of hybrid the mean weight, agreement and feedback; of dense transform, whether the
        encoder learned_from_pairs, unknown words and documents without a vector).

        metrics are by the name of each system those of its first, and beside them those of the last of hybrid, dense, bm25
        that there is.

    Example:
        >>> import json
        >>> folder = Path("collection")
        >>> folder.mkdir()
        >>> texts = {"1": "the moon pulls the sea", "2": "bread rises in the oven", "3": "bees dance"}
        >>> rows = [json.dumps({"_id": id, "title": "", "text": text}) for id, text in texts.items()]
        >>> _ = (folder / "corpus.jsonl").write_text("\n".join(rows))
        >>> _ = (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "why does the sea rise"}))
        >>> _ = (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
        >>> found = wordpipe.evaluate_retrieval("run/words", folder, draws=0)
        >>> [system["system"] for system in found["systems"]][:2]
        ['bm25', 'bm25_twice']
    """
    # settings that cannot be are refused before anything is read
    run, chosen = run or RunOptions(), EmbedSettings.make(settings)
    language_settings = LexicalSettings.make({"language": language})
    for name, given in {"draws": draws, "feedback": feedback}.items():
        if given < 0:
            raise ConfigError("the number is too small", where=name, got=given, expected="0 or more")
    if weight is not None and not 0 <= weight <= 1:
        raise ConfigError("the weight is out of bounds", where="weight", got=weight, expected="0 to 1")
    # every system searches, and is compared with the baselines before it
    reach = _DEPTH + drop_identical  # so that enough documents are left when the query's own is dropped
    systems, measured = list[System](), dict[str, dict[str, Measured]]()
    with storage_errors():
        collection = open_collection(data, split)
        lexical = LexicalIndex.build(_reported(collection.passages, run), language_settings)
        searches = _Searches(collection, lexical, chosen, weight, feedback, reach, run)
        for system, name, found, facts in searches.of_all(as_list(encoders), words):
            run.report(Progress(f"evaluating {system}"))
            # its figures, query by query
            ranked = [ranking[:_DEPTH] for ranking in beir.rankings(collection, found, drop_identical=drop_identical)]
            scores_MQ = beir.scores(collection, ranked).T
            own = {key: Measured(one_Q) for key, one_Q in zip(QueryFigures._fields, scores_MQ, strict=True)}
            unanswered = sum(not ranking for ranking in ranked)
            about = {"system": system, "name": name, "unanswered": unanswered, "facts": facts}
            systems.append(_system(own, measured, draws, about))
            measured.setdefault(system, own)
    # the report
    main = next(name for name in ("hybrid", "dense", "bm25") if name in measured)
    return inputs.evaluation_of(
        "retrieval", str(data), systems, main=main, split=split, language=lexical.settings.language, weight=weight,
        drop_identical=drop_identical, draws=draws, feedback=feedback, counts=collection.counts,
        parts=[side_by_side(systems, corner="x 100")],
        remarks=[*_remarks(systems, collection.counts, drop_identical=drop_identical), *_advice(systems)],
    )  # fmt: skip


# ---- the report


def _system(
    own: Mapping[str, Measured], others: Mapping[str, Mapping[str, Measured]], draws: int, facts: dict[str, Any]
) -> System:
    """Return a system of `evaluate retrieval` in the report, compared with the earlier baselines."""
    figures = [one.figure(key, draws) for key, one in own.items()]
    against = {
        floor: {key: one.against(others[floor][key], draws) for key, one in own.items()} if floor in others and draws else None
        for floor in _FLOORS
    }  # fmt: skip
    facts |= {f"against_{floor}": None if some is None else in_json(some) for floor, some in against.items()}
    # what a draw may change is shown of the first figure alone
    below = {"above BM25": (against["bm25"] or {}).get(_FIRST)}
    if facts["system"] == "hybrid":
        below["above BM25 twice"] = (against["bm25_twice"] or {}).get(_FIRST)
    first, *rest = figures
    shown = [replace(first, below=below), *(replace(one, interval=None) for one in rest)]
    return System(_head(facts), figures, facts, shown)


def _head(facts: Mapping[str, Any]) -> str:
    """Return the head of a column: the system, and its encoder."""
    system, name = facts["system"], facts["name"]
    said = f"hybrid, {facts['facts']['weight']:.2f} dense" if system == "hybrid" else PLAIN.get(system, system)
    return said if system == name else f"{short_name(name, _NAME_WIDTH)}\n{said}"


def _remarks(systems: Sequence[System], counts: Mapping[str, int], *, drop_identical: bool) -> Iterator[str]:
    """Yield remarks of `evaluate retrieval`: on how much the table stands, what is missing."""
    yield f"{counts['documents']:,} documents, {counts['queries']:,} judged queries, {counts['judgements']:,} judgements"
    yield from (f"{counts[name]:,} {text}" for name, text in _MISSING.items() if counts[name])
    for one in systems:
        if (unanswered := one.facts["unanswered"]) > counts["queries_unknown"]:
            name = ", ".join(one.head.splitlines())
            yield f"{name} found nothing for {unanswered:,} queries, which count as 0"
    if drop_identical:
        yield "documents with the same id as their query are left out"
    there = {one.facts["system"] for one in systems}
    yield from (text for name, text in _LEGEND.items() if name in there)


def _advice(systems: Sequence[System]) -> Iterator[str]:
    """Yield what the vectors of each encoder add to retrieval by BM25, and the next step."""
    for one in systems:
        gain = (one.facts.get("against_bm25_twice") or {}).get(_FIRST)
        if one.facts["system"] == "hybrid" and gain:
            sure = "" if gain["p"] < SIGNIFICANT else "; this difference may be chance"
            points = f"{100 * gain['difference']:+.2f} points (p {gain['p']:.4f})"
            yield f"{short_name(one.facts['name'], _NAME_WIDTH)}: compared with BM25, 2 searches, nDCG@10 is {points}{sure}"
    untrained = [
        short_name(one.facts["name"], _NAME_WIDTH)
        for one in systems if one.facts["system"] == "dense" and not one.facts["facts"]["learned_from_pairs"]
    ]  # fmt: skip
    if untrained:
        yield (
            f"not trained for search: {', '.join(untrained)}; to train an encoder on these documents, without labels: "
            "wordpipe train static --goal search"
        )


# ---- the systems


def _reported(passages: Sequence[str], run: RunOptions) -> Iterator[str]:
    """Yield the passages of the retrieval, as they are indexed."""
    for number, passage in enumerate(passages):
        if number % 1_000 == 0:
            run.report(Progress("indexing the words", number, len(passages), "texts"))
        yield passage


class _Found(NamedTuple):
    """The hits of one system."""

    system: str  # bm25, bm25_twice, rm3, tfidf, lsi, words_mean, dense, hybrid or random
    name: str  # its own, or the path of its encoder
    found: list[Hits]  # of each query
    facts: dict[str, Any]


class _Encoded(NamedTuple):
    """The vectors of a collection by one encoder."""

    documents: Texts  # their texts as vectors
    questions: Texts  # the queries as vectors
    transform: Transform  # what was fitted on the documents and applied to both
    kind: str  # of transform, what the encoder carries counted in


@dataclass(frozen=True, slots=True)
class _Searches:
    """All systems on one collection."""

    collection: beir.Collection
    lexical: LexicalIndex  # of the documents
    settings: EmbedSettings  # how texts become vectors, where an artifact does not say
    weight: float | None  # share of the dense score in hybrid; None: to be found
    feedback: int  # hits that a hybrid query is moved towards
    reach: int  # documents that each finds
    run: RunOptions

    def of_all(self, encoders: Sequence[PathLike], words: PathLike | None) -> Iterator[_Found]:
        """Yield the rankings of retrieval system by system: the baselines, the mean of word vectors, each encoder."""
        baselines = beir.baselines(self.collection, self.lexical, _LSI_DIM, self.reach, self.run.report)
        for name, found in baselines.items():
            yield _Found(name, name, found, {})
            if name == "bm25" and self.feedback:
                yield _Found("bm25_twice", "bm25_twice", self._twice(), {"feedback": self.feedback})
        if (plain := words or inputs.first_words(encoders)) is not None:
            with open_evaluated(plain, self.settings.model_copy(update={"pooling": "mean"}), self.run) as opened:
                encoded = self._encoded(opened)
            found = VectorTable(encoded.documents.vectors).search(encoded.questions.vectors, self.reach)
            yield _Found("words_mean", str(plain), found, {"transform": encoded.kind})
        for path in encoders:  # one is out of memory before the next is read
            yield from self._of_encoder(str(path))

    def _twice(self) -> list[Hits]:
        """Retrieve by BM25 twice: the second time with words from the first results."""
        control = Retriever(None, self.lexical, feedback=self.feedback)
        words = [self.lexical.read(question) for question in self.collection.questions]
        worded = control.worded(words, max(self.reach, CANDIDATES))
        return [result.hits.first(self.reach) for result in control.asked_twice(words, worded)]

    def _of_encoder(self, path: str) -> Iterator[_Found]:
        """Retrieve by vectors alone, every document compared, and as `--mode hybrid` does."""
        # vectors of all texts, and the share of the dense score
        with open_evaluated(path, self.settings, self.run) as opened:
            encoded = self._encoded(opened)
            dense = VectorTable(encoded.documents.vectors)
            weight = self.weight
            if weight is None and learned_elsewhere(opened.encoder):
                weight = ELSEWHERE_UNMEASURED if self._cuts is None else LEARNED_ELSEWHERE
            measured = {} if self.weight is not None else self._measured(opened, encoded, dense, weight)
            learned = learned_from_pairs(opened.encoder)
        facts = {
            "transform": encoded.kind,
            "learned_from_pairs": learned,
            "documents_without_vector": int(encoded.documents.empty.sum()),
            "unknown_words": inputs.shown_words(encoded.questions.unknown),
        }
        # by vectors alone, then mixed with words
        queries_QD = encoded.questions.vectors
        yield _Found("dense", path, dense.search(queries_QD, self.reach), facts)
        retriever = Retriever(dense, self.lexical, measured.get("agreement", 1.0), weight, self.feedback)
        results = retriever.find(self.collection.questions, queries_QD, self.reach)
        weights = [result.weight for result in results if result.weight is not None]
        mixed = {"weight": round(sum(weights) / max(len(weights), 1), 4), **measured, "feedback": self.feedback}
        yield _Found("hybrid", path, [result.hits for result in results], mixed)
        # the control: vectors drawn by chance in their place
        n, dim = encoded.documents.vectors.shape
        drawn_QD = chance_vectors(len(queries_QD), dim, _QUERIES) * queries_QD.any(axis=1, keepdims=True)
        by_chance = replace(retriever, dense=ChanceVectors(n, dim))
        results = by_chance.find(self.collection.questions, drawn_QD, self.reach)
        yield _Found(
            "random", path, [result.hits for result in results], {"weight": mixed["weight"], "feedback": self.feedback}
        )

    def _encoded(self, opened: EvaluatedEncoder) -> _Encoded:
        """Return documents and queries encoded for retrieval; a transform is fitted on the documents alone."""
        documents = opened.encode(self.collection.passages)
        transform = opened.fitted(documents)
        questions = opened.for_queries.encode(self.collection.questions)
        kind = opened.encoder.transform.kind if opened.carries else transform.kind
        return _Encoded(documents.transformed(transform), questions.transformed(transform), transform, kind)

    @property
    def _cuts(self) -> PseudoQueries | None:
        """Pieces of the documents as queries; None where there are too few."""
        return draw_queries([""] * len(self.collection.texts), self.collection.texts)

    def _measured(
        self, opened: EvaluatedEncoder, encoded: _Encoded, dense: VectorTable, weight: float | None
    ) -> dict[str, Any]:
        """Measure the agreement of vectors and words by queries made of the retrieval's documents."""
        drawn = draw_queries(self.collection.titles, self.collection.texts)

        def encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
            return opened.for_queries.encode(texts).transformed(encoded.transform).vectors

        agreement, found = measure(drawn, self._cuts, encode, dense, self.lexical, weight)
        return {"agreement": agreement, "measured": measured_by(drawn, found)}


def open_collection(data: PathLike, split: str | None = None) -> beir.Collection:
    """Read a collection for retrieval: corpus.jsonl, queries.jsonl, and qrels; each may be packed.

    Raises:
        ArtifactError: an artifact is named.
        InputError: no such folder or file, or a file that cannot be read; names file and line.
    """
    folder = Path(data)
    refuse_artifacts([str(folder)])
    if not folder.is_dir():
        raise InputError("the folder does not exist", where=folder, expected=f"a folder with {_LAYOUT}")
    named = [f"qrels/{split or 'test'}.tsv", *([] if split else ["qrels.tsv"])]
    return beir.read_collection(*(_file(folder, names) for names in (["corpus.jsonl"], ["queries.jsonl"], named)))


def _file(folder: Path, names: list[str]) -> tuple[bytes, str]:
    """Return content and path of the first file of a retrieval collection that is there."""
    places = (folder / (name + packed) for name in names for packed in inputs.PACKED)
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        there = sorted(path.stem for path in folder.glob("qrels/*.tsv*"))
        hint = f"choose a split with --split: {', '.join(there)}" if there and "qrels/" in names[0] else None
        raise InputError(f"{' or '.join(names)} is missing", where=folder, expected=_LAYOUT, hint=hint)
    return inputs.read_whole(found), str(found)
