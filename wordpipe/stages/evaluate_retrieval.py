"""`wordpipe evaluate retrieval`: how well encoders find the documents that people judged relevant, beside plain words.

Shapes: N documents, Q queries, D numbers of a vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import Progress
from wordpipe.search.beir import (
    Collection,
    CollectionFile,
    baselines,
    differences,
    figures,
    judge,
    rankings,
    read_collection,
)
from wordpipe.search.exact import nearest_of
from wordpipe.search.hits import Hits
from wordpipe.search.hybrid import FEEDBACK, Retriever, towards_answers
from wordpipe.search.hybrid_weight import UNMEASURED, Space, draw_queries, measured_mix
from wordpipe.search.lexical import LexicalIndex, LexicalSettings
from wordpipe.sentences.encoder import learned_from_pairs
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transforms import Transform
from wordpipe.stages.inputs import as_list, refuse_artifacts
from wordpipe.stages.judged_encoders import JudgedEncoder, Texts, first_words, open_judged
from wordpipe.stages.judged_files import find_file, read_whole
from wordpipe.stages.making import PathLike, RunOptions, storage_errors

__all__ = ["evaluate_retrieval", "open_collection"]

_LAYOUT = "corpus.jsonl, queries.jsonl and qrels.tsv or qrels/test.tsv"
_UNKNOWN_SHOWN = 20

Floats = npt.NDArray[np.float32]


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
    """Judge encoders on a collection of documents, queries and judgements, beside BM25, TF-IDF and LSI.

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

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    run, chosen = run or RunOptions(), EmbedSettings.make(settings)
    lexical = LexicalSettings.make({"language": language})
    norms = _Norms(depth, weight, lsi_dim, drop_identical, draws, feedback)
    with storage_errors():
        judging = _Judging(open_collection(data, split), norms, run)
        collection, reach = judging.collection, judging.reach
        run.report(Progress("indexing the words"))
        index = LexicalIndex.build(collection.passages, lexical)
        for name, answers in baselines(collection, index, lsi_dim, reach, run.report).items():
            judging.add(name, name, answers, {})
        if (plain := words or first_words(as_list(encoders))) is not None:
            with open_judged(plain, chosen.model_copy(update={"pooling": "mean"}), run) as judged:
                encoded = _encode(judged, collection)
            judging.add("words_mean", str(plain), encoded.answers(reach), {"transform": encoded.kind})
        for path in as_list(encoders):
            _judge_encoder(judging, index, str(path), chosen)
    return {
        "evaluated": "retrieval",
        "data": str(data),
        "split": split,
        "language": index.settings.language,
        **asdict(norms),
        "counts": collection.counts,
        "metrics": _metrics(judging.systems),
        "systems": judging.systems,
    }


@dataclass(frozen=True)
class _Norms:
    """How to judge, as `evaluate_retrieval` takes it.

    Raises:
        ConfigError: a number out of its bounds.
    """

    depth: int
    weight: float | None
    lsi_dim: int
    drop_identical: bool
    draws: int
    feedback: int

    def __post_init__(self) -> None:
        for name, least in (("depth", 1), ("lsi_dim", 1), ("draws", 0), ("feedback", 0)):
            if getattr(self, name) < least:
                raise ConfigError("no such number", where=name, got=getattr(self, name), expected=f"{least} or more")
        if self.weight is not None and not 0 <= self.weight <= 1:
            raise ConfigError("not a share", where="weight", got=self.weight, expected="0 to 1")


@dataclass
class _Judging:
    """Judges one system after the other; the first, BM25, is what the others are compared with.

    Attributes:
        collection: documents, queries, judgements.
        norms: how to judge.
        run: progress, verification.
        systems: what was found, one for each system.
    """

    collection: Collection
    norms: _Norms
    run: RunOptions
    systems: list[dict[str, Any]] = field(default_factory=list)
    _first: npt.NDArray[np.float64] | None = None

    @property
    def reach(self) -> int:
        """How many documents a system has to find, so that `depth` are left when the query's own is dropped."""
        return self.norms.depth + self.norms.drop_identical

    def add(self, system: str, name: str, answers: Sequence[Hits], facts: Mapping[str, Any]) -> None:
        """Judge a system's answers."""
        self.run.report(Progress(f"judging {system}"))
        found = rankings(self.collection, answers, drop_identical=self.norms.drop_identical)
        found = [ranking[: self.norms.depth] for ranking in found]
        table_QM = judge(self.collection, found)
        self._first = table_QM if self._first is None else self._first
        self.systems.append(
            {
                "system": system,
                "name": name,
                **figures(table_QM, self.norms.draws),
                "unanswered": sum(not ranking for ranking in found),
                "against_bm25": differences(table_QM, self._first, self.norms.draws) if self.systems else None,
                "facts": dict(facts),
            }
        )


@dataclass(frozen=True)
class _Encoded:
    """A collection as an encoder sees it.

    Attributes:
        documents: their texts as vectors.
        questions: the queries as vectors.
        transform: what was fitted on the documents and applied to both.
        kind: in one word, what the encoder carries counted in.
    """

    documents: Texts
    questions: Texts
    transform: Transform
    kind: str

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


def _encode(judged: JudgedEncoder, collection: Collection) -> _Encoded:
    """Encode documents and queries; a transform that the settings call for is fitted on the documents alone."""
    documents = judged.encode(collection.passages)
    transform = judged.fitted(documents)
    questions = judged.encode(collection.questions)
    kind = judged.encoder.transform.kind if judged.carries else transform.kind
    return _Encoded(documents.transformed(transform), questions.transformed(transform), transform, kind)


def _judge_encoder(judging: _Judging, index: LexicalIndex, path: str, settings: EmbedSettings) -> None:
    """An encoder alone and mixed with BM25; it is out of memory before the next one is read."""
    collection, norms = judging.collection, judging.norms
    with open_judged(path, settings, judging.run) as judged:
        encoded = _encode(judged, collection)
        mixing = {"weight": norms.weight} if norms.weight is not None else _weigh(judged, encoded, index, collection)
    unknown = encoded.questions.unknown
    facts = {
        "transform": encoded.kind,
        "documents_without_vector": int(encoded.documents.empty.sum()),
        "unknown_words": {"count": len(unknown), "first": [*dict.fromkeys(unknown)][:_UNKNOWN_SHOWN]},
    }
    judging.add("dense", path, encoded.answers(judging.reach), facts)
    found = _Hybrid(encoded, index, mixing["weight"], norms.feedback).find(collection.questions, judging.reach)
    judging.add("hybrid", path, [one.hits for one in found], {**mixing, "feedback": norms.feedback})


def _weigh(judged: JudgedEncoder, encoded: _Encoded, index: LexicalIndex, collection: Collection) -> dict[str, Any]:
    """The share of the dense score in hybrid, found by queries made of the documents themselves.

    Returns:
        weight, and measured: by what, queries and the nDCG@10 of dense, hybrid and lexical search for them; None where there
        were too few documents to measure on.
    """
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
    rounded = {name: round(value, 4) for name, value in tuned.ndcg_at_10.items()}
    return {"weight": tuned.weight, "measured": {"by": asked.how, "queries": len(asked.texts), "ndcg_at_10": rounded}}


def _metrics(systems: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Those of the main system, and of every system by its name."""
    by_name = {one["system"]: one["metrics"] for one in reversed(systems)}
    main = next(name for name in ("hybrid", "dense", "bm25") if name in by_name)
    return {**by_name[main], **dict(reversed(by_name.items()))}


def open_collection(data: PathLike, split: str | None = None) -> Collection:
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
    return read_collection(
        _file(folder, ["corpus.jsonl"]), _file(folder, ["queries.jsonl"]), _file(folder, named)
    )  # fmt: skip


def _file(folder: Path, names: list[str]) -> CollectionFile:
    found = find_file(folder, names)
    if found is None:
        there = sorted(path.stem for path in folder.glob("qrels/*.tsv*"))
        hint = f"there are the splits {', '.join(there)}: --split" if there and "qrels/" in names[0] else None
        raise InputError(f"{' or '.join(names)} is missing", where=folder, expected=_LAYOUT, hint=hint)
    return CollectionFile(read_whole(found), str(found))
