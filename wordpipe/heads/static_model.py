"""Static heads: labels of texts and tags of words out of vectors of units alone, computed by NumPy; their folder.

A text is x, the sum of the vectors of its units over the root of their number; the scores are W x + b. Of a pair the
features are (u, v, |u - v|, u · v). Of a word they are the sums of the units of the word and of two words to each side, one
after the other, through one hidden layer. Nothing here needs torch: a text is answered in the time the folder takes to read.

Source: see `static_units`; of pairs Conneau et al. 2017, "Supervised Learning of Universal Sentence Representations from
Natural Language Inference Data", section 3.1 (arXiv 1705.02364).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from wordpipe.artifacts import parse_json_object
from wordpipe.errors import ArtifactError
from wordpipe.heads.predict import Classified, Tagged, Text, classified, tagged
from wordpipe.heads.static_units import Bag, Split, UnitRows, bags_of, windows_of

CONFIG, WEIGHTS = "config.json", "model.safetensors"
MODEL_TYPE = "wordpipe-static"
REACH = 2
"""Words to each side that a word's tag is read from."""

HIDDEN = 128
"""Numbers of a tagger's hidden layer."""

_CLASSES: dict[str, str] = {
    "sequence": "WordpipeStaticForSequenceClassification", "token": "WordpipeStaticForTokenClassification",
}  # fmt: skip
_PROBLEM_TYPES = {
    "single_label": "single_label_classification", "multi_label": "multi_label_classification", "regression": "regression",
}  # fmt: skip
_TABLE = "embedding.weight"
_TEXTS_AT_ONCE = 1024
_BLOCK = 1 << 22  # numbers of vectors that are gathered at a time

Kind = Literal["sequence", "token"]
Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StaticHeadConfig:
    """What a static head says.

    Attributes:
        kind: of a text, or of each word.
        labels: the names of the scores, in their order.
        problem: of a text: `single_label`, `multi_label` or `regression`.
        pairs: the texts are pairs.
        dim: numbers of a unit's vector.
    """

    kind: Kind
    labels: tuple[str, ...]
    problem: str
    pairs: bool
    dim: int

    @property
    def n_features(self) -> int:
        """Numbers that the first matrix reads."""
        return self.dim * (2 * REACH + 1 if self.kind == "token" else 4 if self.pairs else 1)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights beside the table."""
        n_labels, width = len(self.labels), HIDDEN if self.kind == "token" else self.n_features
        hidden = {"hidden.weight": (HIDDEN, self.n_features), "hidden.bias": (HIDDEN,)} if self.kind == "token" else {}
        return {**hidden, "classifier.weight": (n_labels, width), "classifier.bias": (n_labels,)}


@dataclass(frozen=True)
class StaticHead:
    """A static head with its table.

    Attributes:
        config: what it says.
        units: the unit of each row.
        vectors: (V, D) float32.
        weights: the others, by name.
        split: text to words.
    """

    config: StaticHeadConfig
    units: UnitRows
    vectors: Matrix
    weights: Mapping[str, Matrix]
    split: Split

    def scores(self, records: Sequence[Sequence[Bag]]) -> list[Matrix]:
        """Scores of records as bags: (V,) of a text or a pair; (W, V) of the words of a text."""
        sums_ND = self.sums([bag for bags in records for bag in bags])
        if self.config.kind == "sequence":
            found_NV = self._read(pair_features(sums_ND, np) if self.config.pairs else sums_ND)
            return list(found_NV)
        lengths = np.array([len(bags) for bags in records], np.int64)
        around = np.concatenate([sums_ND, np.zeros((1, self.config.dim), np.float32)])
        features = around[windows_of(lengths, REACH)].reshape(len(sums_ND), -1)
        hidden = np.tanh(features @ self.weights["hidden.weight"].T + self.weights["hidden.bias"])
        return np.split(self._read(hidden), np.cumsum(lengths)[:-1])

    def sums(self, bags: Sequence[Bag]) -> Matrix:
        """The vector of each bag, (N, D): the sum of its units' over the root of their number; of an empty one zeros."""
        rows, lengths = self.units.flat_rows(bags)
        sums_ND, ends = np.zeros((len(bags), self.config.dim), np.float32), np.cumsum(lengths)
        first, most = 0, max(1, _BLOCK // self.config.dim)
        while first < len(bags):
            begin = int(ends[first] - lengths[first])
            stop = max(first + 1, int(np.searchsorted(ends, begin + most, side="right")))
            filled = first + np.flatnonzero(lengths[first:stop])
            if len(filled):
                gathered = self.vectors[rows[begin : int(ends[stop - 1])]]
                sums_ND[filled] = np.add.reduceat(gathered, ends[filled] - lengths[filled] - begin, axis=0)
            first = stop
        return sums_ND / divisors(lengths)[:, None]

    def _read(self, features: Matrix) -> Matrix:
        scores: Matrix = features @ self.weights["classifier.weight"].T + self.weights["classifier.bias"]
        return scores


def divisors(lengths: npt.NDArray[np.int64]) -> Matrix:
    """What the sums of bags of so many units are divided by, (N,) float32: the root of their number.

    By their number itself, as in fastText, a long text has a short vector: after 100 labelled questions of TREC, 60 steps,
    54 % of its other training questions were then right and 61 % by the root; after 3,500, 85.1 % and 85.7 %.
    """
    found: Matrix = np.sqrt(np.maximum(lengths, 1)).astype(np.float32)
    return found


def pair_features(sums: Any, library: Any) -> Any:
    """The features (N, 4 D) of N pairs whose vectors follow each other, (2 N, D): u, v, |u - v|, u · v.

    Args:
        sums: an array, or a tensor.
        library: `numpy` or `torch`, which has it.
    """
    one, other = sums[0::2], sums[1::2]
    return library.concatenate([one, other, abs(one - other), one * other], 1)


def is_static_head(values: Mapping[str, Any]) -> bool:
    """Whether a `config.json` is that of a static head."""
    return values.get("model_type") == MODEL_TYPE


def static_head_files(
    config: StaticHeadConfig, vectors: Matrix, weights: Mapping[str, Matrix], about: Mapping[str, Any]
) -> Iterator[tuple[str, bytes]]:
    """`config.json` and `model.safetensors`.

    Args:
        config: what the head says.
        vectors: the table.
        weights: the others, by name.
        about: how texts are cut into words, JSON values that the caller wants to find again under `words`.
    """
    values = {
        "architectures": [_CLASSES[config.kind]], "model_type": MODEL_TYPE, "hidden_size": config.dim,
        "vocab_size": len(vectors), "pairs": config.pairs, "words": dict(about),
        "id2label": {str(place): name for place, name in enumerate(config.labels)},
        "label2id": {name: place for place, name in enumerate(config.labels)},
    }  # fmt: skip
    if config.kind == "sequence":
        values["problem_type"] = _PROBLEM_TYPES[config.problem]
    yield CONFIG, f"{json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()
    stored = {_TABLE: vectors, **weights}
    yield WEIGHTS, safetensors.numpy.save({name: np.ascontiguousarray(one, np.float32) for name, one in stored.items()})


def read_static_config(data: bytes) -> tuple[StaticHeadConfig, dict[str, Any]]:
    """What a `config.json` says, and how its texts are cut into words.

    Raises:
        ArtifactError: it is malformed.
    """
    values = parse_json_object(data, CONFIG)
    kinds: dict[Any, Kind] = {_CLASSES["sequence"]: "sequence", _CLASSES["token"]: "token"}
    problems = {theirs: ours for ours, theirs in _PROBLEM_TYPES.items()}
    try:
        kind = kinds[values["architectures"][0]]
        names = values["id2label"]
        labels = tuple(names[str(place)] for place in range(len(names)))
        problem = problems[values["problem_type"]] if kind == "sequence" else "single_label"
        pairs, dim, about = values["pairs"], values["hidden_size"], values["words"]
        if not (labels and all(isinstance(name, str) for name in labels) and type(pairs) is bool):
            raise ValueError("labels")
        if type(dim) is not int or dim < 1 or not isinstance(about, dict):
            raise ValueError(f"hidden_size {dim}")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ArtifactError("not a config of a static head", where=CONFIG, got=error) from None
    return StaticHeadConfig(kind, labels, problem, pairs, dim), about


def read_static_head(config: StaticHeadConfig, units: UnitRows, data: bytes, split: Split) -> StaticHead:
    """The head whose `model.safetensors` is `data`.

    Raises:
        ArtifactError: a weight is missing, of another shape or type, or not finite.
    """
    try:
        stored = safetensors.numpy.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ArtifactError("not a safetensors file", where=WEIGHTS, got=error) from None
    for name, shape in {_TABLE: (len(units), config.dim), **config.shapes}.items():
        found = stored.get(name)
        if found is None or found.shape != shape or found.dtype != np.float32:
            raise ArtifactError(
                f"{name} does not fit", where=WEIGHTS, got="none" if found is None else f"{found.shape} {found.dtype}",
                expected=f"{shape} float32",
            )  # fmt: skip
        if not np.isfinite(found).all():
            raise ArtifactError(f"{name} is not finite", where=WEIGHTS, hint="train the model again")
    vectors = stored.pop(_TABLE)
    return StaticHead(config, units, vectors, stored, split)


class _StaticPredictor:
    """Records in batches, as bags of units."""

    def __init__(self, head: StaticHead, *, max_words: int | None, temperature: float) -> None:
        self.head, self.temperature, self._most = head, temperature, max_words

    @property
    def labels(self) -> tuple[str, ...]:
        """In the order of the scores."""
        return self.head.config.labels

    def _scored(self, texts: Iterator[Text]) -> Iterator[tuple[Text, Matrix, int]]:
        per_word = self.head.config.kind == "token"
        while some := list(islice(texts, _TEXTS_AT_ONCE)):
            found = [bags_of(one, self.head.split, words=per_word, most=self._most) for one in some]
            scores = self.head.scores([bags for bags, _ in found])
            yield from zip(some, scores, (cut for _, cut in found), strict=True)


class StaticClassifier(_StaticPredictor):
    """Labels of texts, or of pairs; the twin of `Classifier`.

    Args:
        head: for sequences.
        max_words: of a text that are read; None: all.
        temperature: what logits are divided by.
        thresholds: of several labels: the probability from which on each is given; None: 0.5.
    """

    def __init__(
        self, head: StaticHead, *, max_words: int | None = None, temperature: float = 1.0,
        thresholds: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(head, max_words=max_words, temperature=temperature)
        self.thresholds = np.array(thresholds if thresholds is not None else [0.5] * len(self.labels))

    def predict(self, texts: Iterator[Text]) -> Iterator[Classified]:
        """What is said of each text, in their order."""
        for _, scores_V, cut in self._scored(texts):
            yield classified(scores_V, self.labels, self.head.config.problem, self.temperature, self.thresholds, cut)


class StaticTagger(_StaticPredictor):
    """Tags of words; the twin of `Tagger`.

    Args:
        head: for tokens.
        max_words: of a text that are read; None: all.
        temperature: what logits are divided by.
    """

    def __init__(self, head: StaticHead, *, max_words: int | None = None, temperature: float = 1.0) -> None:
        super().__init__(head, max_words=max_words, temperature=temperature)

    def predict(self, texts: Iterator[Text]) -> Iterator[Tagged]:
        """What is said of each text, in their order; sequences of tags are legal ones."""
        for (text, *_), scores_WV, cut in self._scored(texts):
            read = np.arange(len(scores_WV) + cut) < len(scores_WV)
            yield tagged(text, scores_WV, read, self.labels, self.temperature)
