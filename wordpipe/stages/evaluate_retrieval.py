"""`wordpipe evaluate retrieval`: how well encoders find the documents that people judged relevant, beside plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wordpipe.search.feedback import FEEDBACK
from wordpipe.search.lexical import LexicalSettings
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.stages.adapt import adapt
from wordpipe.stages.inputs import as_list
from wordpipe.stages.judged_encoders import first_words, open_judged
from wordpipe.stages.making import PathLike, RunOptions, storage_errors
from wordpipe.stages.retrieval_data import open_collection
from wordpipe.stages.retrieval_judging import Judging, Norms
from wordpipe.stages.retrieval_systems import Floors, encode_collection, hybrid_answers, weigh

__all__ = ["evaluate_retrieval"]

_UNKNOWN_SHOWN = 20


def evaluate_retrieval(
    encoders: PathLike | Sequence[PathLike],
    data: PathLike,
    *,
    split: str | None = None,
    words: PathLike | None = None,
    adapt_with: Mapping[str, Any] | None = None,
    weight: float | None = None,
    depth: int = 1_000,
    lsi_dim: int = 300,
    drop_identical: bool = False,
    draws: int = 10_000,
    feedback: int = FEEDBACK,
    language: str = "auto",
    runs: PathLike | None = None,
    run: RunOptions | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Judge encoders on a collection of documents, queries and judgements, beside BM25, TF-IDF and LSI.

    Every query is asked of every system: bm25, tfidf, lsi, words_mean, and for each encoder dense (cosines, every document
    compared) and hybrid (bm25 and dense together, as `wordpipe query --mode hybrid` asks). The figures are trec_eval's (see
    `metrics/ranking.py`); a query without an answer counts as 0.

    Args:
        encoders: model or words artifacts; or sentences or index artifacts, whose encoder is judged with the transform that
            it carries. None at all judges the floors.
        data: a folder in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels.tsv or qrels/SPLIT.tsv.
        split: which file in the folder qrels; None: test.
        words: a words artifact; the plain mean of its vectors is judged as one more floor. None: the first of the encoders
            that is one.
        adapt_with: train each encoder on the collection's documents first, without labels: settings of `train_contrastive`
            beyond those that `adapt` chooses; None does not. The encoder as it was is judged as dense_given.
        weight: share of the dense score in hybrid; None: found without labels.
        depth: documents that are kept for each query.
        lsi_dim: directions of latent semantic indexing.
        drop_identical: leave out a document that has the same id as the query, as BEIR does with ArguAna.
        draws: of the bootstrap, from which intervals and p come; 0 leaves them out.
        feedback: hybrid search asks again with each query's vector moved towards this many of its first answers; 0 does not.
        language: whose endings are cut off words (Snowball), none, or auto.
        runs: a folder in which each system's answers are written as SYSTEM.trec.
        run: progress, verification.
        settings: fields of `EmbedSettings` for model and words artifacts; a transform is fitted on the documents.

    Returns:
        evaluated ("retrieval"), data, counts, norms (depth, lsi_dim, …), metrics and systems.

        systems is a list of system, name, metrics (ndcg_at_10, map, recall_at_100, mrr, from 0 to 1), intervals (95 %, low and
        high), unanswered (queries), against_bm25 (difference, interval and p of every measure) and facts (of hybrid weight
        and feedback; transform, unknown words and documents without a vector of dense).

        metrics are by the name of each system those of its first, and beside them those of the last of hybrid, dense, bm25
        that there is.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    run, chosen = run or RunOptions(), EmbedSettings.make(settings)
    lexical = LexicalSettings.make({"language": language})
    norms = Norms(depth, weight, lsi_dim, drop_identical, draws, feedback)
    with storage_errors():
        collection = open_collection(data, split)
        judging = Judging(collection, norms, run, None if runs is None else Path(runs))
        floors = Floors.build(collection, lexical, lsi_dim, norms.depth + norms.drop_identical, run.report)
        for name, answers in floors.answers.items():
            judging.add(name, name, answers, {})
        if (plain := words or first_words(as_list(encoders))) is not None:
            judging.encoder("words_mean", str(plain), chosen.model_copy(update={"pooling": "mean"}))
        for path in as_list(encoders):
            _judge_encoder(judging, floors, str(path), chosen, adapt_with)
    return {
        "evaluated": "retrieval",
        "data": str(data),
        "split": split,
        "language": floors.lexical.settings.language,
        **asdict(norms),
        "adapted": adapt_with is not None,
        "counts": collection.counts,
        "metrics": _metrics(judging.systems),
        "systems": judging.systems,
    }


def _judge_encoder(
    judging: Judging, floors: Floors, path: str, settings: EmbedSettings, adapt_with: Mapping[str, Any] | None
) -> None:
    """An encoder as it is, or adapted to the collection; it is out of memory before the next one is read."""
    if adapt_with is None:
        _judge_pair(judging, floors, path, settings)
        return
    judging.encoder("dense_given", path, settings)
    with TemporaryDirectory(prefix="wordpipe-") as folder:
        model = adapt(path, judging.collection, Path(folder), judging.run, **adapt_with)
        _judge_pair(judging, floors, path, settings, adapted=model)


def _judge_pair(
    judging: Judging, floors: Floors, name: str, settings: EmbedSettings, adapted: str | None = None
) -> None:
    """An encoder, or what was made of it, alone and mixed with BM25."""
    collection, norms = judging.collection, judging.norms
    with open_judged(adapted or name, settings, judging.run) as judged:
        encoded = encode_collection(judged, collection)
        if norms.weight is not None:
            mixing: dict[str, Any] = {"weight": norms.weight}
        else:
            mixing = weigh(judged, encoded, floors.lexical, collection)
    unknown = encoded.questions.unknown
    facts = {
        "transform": encoded.kind,
        "documents_without_vector": int(encoded.documents.empty.sum()),
        "unknown_words": {"count": len(unknown), "first": [*dict.fromkeys(unknown)][:_UNKNOWN_SHOWN]},
    }
    judging.add("dense", name, encoded.answers(judging.reach), facts)
    weight, questions = mixing["weight"], collection.questions
    hybrid = hybrid_answers(encoded, floors.lexical, questions, weight, norms.feedback, judging.reach)
    judging.add("hybrid", name, hybrid, {**mixing, "feedback": norms.feedback})


def _metrics(systems: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Those of the main system, and of every system by its name."""
    by_name = {one["system"]: one["metrics"] for one in reversed(systems)}
    main = next(name for name in ("hybrid", "dense", "bm25") if name in by_name)
    return {**by_name[main], **dict(reversed(by_name.items()))}
