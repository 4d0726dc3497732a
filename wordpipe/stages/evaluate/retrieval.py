"""`wordpipe evaluate retrieval`: how well encoders find the documents that people judged relevant, beside plain words.

Shapes: N documents, Q queries, D numbers of a vector.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import Progress
from wordpipe.search import (
    FEEDBACK,
    UNMEASURED,
    Hits,
    LexicalIndex,
    Retriever,
    Space,
    beir,
    draw_queries,
    measured_mix,
    nearest_of,
    towards_answers,
)
from wordpipe.search.settings import LexicalSettings
from wordpipe.sentences import Transform, learned_from_pairs
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.stages.evaluate import inputs as judging
from wordpipe.stages.evaluate.inputs import EvaluatedEncoder, Texts, open_evaluated
from wordpipe.stages.inputs import as_list, refuse_artifacts
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.search.index_hybrid_weight import told_measured

_LAYOUT = "corpus.jsonl, queries.jsonl and qrels.tsv or qrels/test.tsv"


def evaluate_retrieval(
    encoders: PathLike | Sequence[PathLike],
    data: PathLike,
    *,
    split: str | None = None,
    words: PathLike | None = None,
    weight: float | None = None,
    depth: int = 1_000,
    lsi_dim: int = 300,
    drop_identical: bool = False,
    draws: int = 10_000,
    feedback: int = FEEDBACK,
    language: str = "auto",
    run: RunOptions | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Evaluate encoders on a collection of documents, queries and judgements, beside BM25, TF-IDF and LSI.

    Every query is asked of every system: bm25, tfidf, lsi, words_mean, and for each encoder dense (cosines, every document
    compared) and hybrid (bm25 and dense together, as `wordpipe query --mode hybrid` asks). The figures are trec_eval's (see
    `metrics/ranking.py`); a query without an answer counts as 0.

    Args:
        encoders: model or words artifacts; or sentences or index artifacts, whose encoder is judged with the transform that
            it carries. None at all judges the baselines.
        data: a folder in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels.tsv or qrels/SPLIT.tsv.
        split: which file in the folder qrels; None: test.
        words: a words artifact; the plain mean of its vectors is judged as one more baseline. None: the first of the encoders
            that is one.
        weight: share of the dense score in hybrid; None: found without labels.
        depth: documents that are kept for each query.
        lsi_dim: directions of latent semantic indexing.
        drop_identical: leave out a document that has the same id as the query, as BEIR does with ArguAna.
        draws: of the bootstrap, from which intervals and p come; 0 leaves them out.
        feedback: hybrid search asks again with each query's vector moved towards this many of its first answers; 0 does not.
        language: whose endings are cut off words (Snowball), none, or auto.
        run: progress, verification.
        settings: fields of `EmbedSettings` for model and words artifacts; a transform is fitted on the documents.

    Returns:
        evaluated ("retrieval"), data, counts, norms (depth, lsi_dim, …), metrics and systems.

        systems is a list of system, name, metrics (ndcg_at_10, map, recall_at_100, mrr, from 0 to 1), intervals (95 %, low and
        high), unanswered (queries), against_bm25 (difference, interval and p of every measure) and facts (of hybrid weight
        and feedback; transform, unknown words and documents without a vector of dense).

        metrics are by the name of each system those of its first, and beside them those of the last of hybrid, dense, bm25
        that there is.
    """
    run, chosen = run or RunOptions(), EmbedSettings.make(settings)
    lexical = LexicalSettings.make({"language": language})
    numbers = {"depth": (depth, 1), "lsi_dim": (lsi_dim, 1), "draws": (draws, 0), "feedback": (feedback, 0)}
    for name, (given, least) in numbers.items():
        if given < least:
            raise ConfigError("no such number", where=name, got=given, expected=f"{least} or more")
    if weight is not None and not 0 <= weight <= 1:
        raise ConfigError("not a share", where="weight", got=weight, expected="0 to 1")
    reach = depth + drop_identical  # so that `depth` documents are left when the query's own is dropped
    systems, tables = list[dict[str, Any]](), list[beir.Array]()

    def judge_answers(system: str, name: str, answers: Sequence[Hits], facts: dict[str, Any]) -> None:
        run.report(Progress(f"judging {system}"))
        found = [ranking[:depth] for ranking in beir.rankings(collection, answers, drop_identical=drop_identical)]
        tables.append(beir.judge(collection, found))
        systems.append({
            "system": system,
            "name": name,
            **beir.figures(tables[-1], draws),
            "unanswered": sum(not ranking for ranking in found),
            "against_bm25": beir.differences(tables[-1], tables[0], draws) if systems else None,
            "facts": facts,
        })  # fmt: skip

    def judge_encoder(path: str) -> None:
        """Alone and mixed with BM25; it is out of memory before the next one is read."""
        with open_evaluated(path, chosen, run) as judged:
            encoded = _encode(judged, collection)
            mixing = {"weight": weight} if weight is not None else _weigh(judged, encoded, index, collection)
        facts = {
            "transform": encoded.kind,
            "documents_without_vector": int(encoded.documents.empty.sum()),
            "unknown_words": judging.shown_words(encoded.questions.unknown),
        }
        judge_answers("dense", path, encoded.answers(reach), facts)
        found = _Hybrid(encoded, index, mixing["weight"], feedback).find(collection.questions, reach)
        judge_answers("hybrid", path, [one.hits for one in found], {**mixing, "feedback": feedback})

    with storage_errors():
        collection = open_collection(data, split)
        run.report(Progress("indexing the words"))
        index = LexicalIndex.build(collection.passages, lexical)
        for name, answers in beir.baselines(collection, index, lsi_dim, reach, run.report).items():
            judge_answers(name, name, answers, {})
        if (plain := words or judging.first_words(as_list(encoders))) is not None:
            with open_evaluated(plain, chosen.model_copy(update={"pooling": "mean"}), run) as judged:
                encoded = _encode(judged, collection)
            judge_answers("words_mean", str(plain), encoded.answers(reach), {"transform": encoded.kind})
        for path in as_list(encoders):
            judge_encoder(str(path))
    by_name = judging.by_system(systems)
    main = next(name for name in ("hybrid", "dense", "bm25") if name in by_name)
    return judging.told(
        "retrieval", str(data), "systems", systems, split=split, language=index.settings.language, depth=depth,
        weight=weight, lsi_dim=lsi_dim, drop_identical=drop_identical, draws=draws, feedback=feedback,
        counts=collection.counts, metrics={**by_name[main], **by_name},
    )  # fmt: skip


class _Encoded(NamedTuple):
    """A collection as an encoder sees it."""

    documents: Texts  # their texts as vectors
    questions: Texts  # the queries as vectors
    transform: Transform  # what was fitted on the documents and applied to both
    kind: str  # of transform, what the encoder carries counted in

    def answers(self, depth: int) -> list[Hits]:
        """The documents nearest to each query; none for a query without a vector."""
        return nearest_of(self.questions.vectors, self.documents.vectors, depth)


class _Hybrid(Retriever):
    """What `wordpipe query --mode hybrid` would answer to the queries of a collection, every document compared."""

    def __init__(self, encoded: _Encoded, index: LexicalIndex, weight: float, take: int) -> None:
        super().__init__("hybrid", weight, take)
        self._encoded, self._index = encoded, index

    def dense(self, texts: Sequence[str], k: int) -> list[Hits]:
        """By vectors."""
        return self._encoded.answers(k)

    def lexical(self, texts: Sequence[str], k: int) -> list[Hits]:
        """By words."""
        return self._index.search(texts, k)

    def again(self, texts: Sequence[str], first: Sequence[Hits], k: int) -> list[Hits]:
        """By vectors that have moved towards the first answers."""
        vectors_ND = self._encoded.documents.vectors
        moved = towards_answers(self._encoded.questions.vectors, first, vectors_ND.__getitem__, self.take)
        return nearest_of(moved.vectors, vectors_ND, k)


def _encode(judged: EvaluatedEncoder, collection: beir.Collection) -> _Encoded:
    """Encode documents and queries; a transform that the settings call for is fitted on the documents alone."""
    documents = judged.encode(collection.passages)
    transform = judged.fitted(documents)
    questions = judged.encode(collection.questions)
    kind = judged.encoder.transform.kind if judged.carries else transform.kind
    return _Encoded(documents.transformed(transform), questions.transformed(transform), transform, kind)


def _weigh(
    judged: EvaluatedEncoder, encoded: _Encoded, index: LexicalIndex, collection: beir.Collection
) -> dict[str, Any]:
    """The share of the dense score in hybrid, found by queries made of the documents themselves, where there are enough."""
    asked = draw_queries(collection.titles, collection.texts)
    if asked is None:
        return {"weight": UNMEASURED, "measured": None}
    documents_ND = encoded.documents.vectors
    space = Space(
        len(documents_ND),
        lambda texts: judged.encode(texts).transformed(encoded.transform).vectors,
        lambda queries_QD, k: nearest_of(queries_QD, documents_ND, k),
        documents_ND.__getitem__,
    )
    tuned = measured_mix(asked, space, index, trained=learned_from_pairs(judged.encoder))
    return {"weight": tuned.weight, "measured": told_measured(asked, tuned.ndcg_at_10)}


def open_collection(data: PathLike, split: str | None = None) -> beir.Collection:
    """Read a folder with corpus.jsonl, queries.jsonl, and qrels/SPLIT.tsv or qrels.tsv; each may be packed.

    Args:
        data: the folder.
        split: which judgements, where the folder has a folder qrels; None: test, or qrels.tsv beside the other files.

    Raises:
        ArtifactError: an artifact is named.
        InputError: no such folder or file, or a file that cannot be read; names file and line.
    """
    folder = Path(data)
    refuse_artifacts([str(folder)])
    if not folder.is_dir():
        raise InputError("no such folder", where=folder, expected=f"a folder with {_LAYOUT}")
    named = [f"qrels/{split or 'test'}.tsv", *([] if split else ["qrels.tsv"])]
    return beir.read_collection(*(_file(folder, names) for names in (["corpus.jsonl"], ["queries.jsonl"], named)))


def _file(folder: Path, names: list[str]) -> tuple[bytes, str]:
    found = judging.find_file(folder, names)
    if found is None:
        there = sorted(path.stem for path in folder.glob("qrels/*.tsv*"))
        hint = f"there are the splits {', '.join(there)}: --split" if there and "qrels/" in names[0] else None
        raise InputError(f"{' or '.join(names)} is missing", where=folder, expected=_LAYOUT, hint=hint)
    return judging.read_whole(found), str(found)
