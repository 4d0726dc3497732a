"""Static heads: labels of texts and tags of words out of vectors of units alone, computed by NumPy; their folder.

A text is a bag of units, the rows of a table: words and pairs of neighbouring words; of a tagger each word by its spelling.

    a text        Who keeps bees     who, keeps, bees, who keeps, keeps bees
    its words     Who                who, shape Xx, prefix who, suffix who
                  keeps              keeps, shape x, prefix kee, suffix eps
                  …

A unit of two words has a space in it, which no word has. Pairs are strings and not numbers of buckets: what labelled texts
have of them is few, and two pairs of one bucket would share what they learn.

A text is x, the sum of the vectors of its units over the root of their number; the scores are W x + b. Of a pair the
features are (u, v, |u - v|, u · v). Of a word they are the sums of the units of the word and of two words to each side, one
after the other, through one hidden layer. Nothing here needs torch: a text is answered in the time the folder takes to read.

Source: Joulin et al. 2016, "Bag of Tricks for Efficient Text Classification", sections 2 and 2.2 (arXiv 1607.01759); Collobert
et al. 2011, "Natural Language Processing (Almost) from Scratch", sections 3.2 and 6.6 (arXiv 1103.0398); of pairs Conneau et
al. 2017, "Supervised Learning of Universal Sentence Representations from Natural Language Inference Data", section 3.1 (arXiv
1705.02364).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice, pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import safetensors.numpy
from safetensors import SafetensorError

from wordpipe.artifacts import parse_json_object
from wordpipe.errors import ArtifactError
from wordpipe.heads.labels import words_of
from wordpipe.heads.predict import Classified, Tagged, Text, classified, tagged
from wordpipe.words import WordList

Split = Callable[[str], list[str]]
"""Text to words (or tokens), as those of the table were made."""

Bag = list[str]

WORD_UNITS = 4
"""Units of a word that is tagged, in this order: the word, its shape, its first and its last three characters."""

_AFFIX = 3
_SHAPE = 6  # runs of a shape that are looked at
_MOST_COUNTED = 2_000_000  # different units that are counted at a time
_FEW = 256  # units looked for without a table of hashes, which would cost the import of numba


def text_units(words: Sequence[str]) -> Bag:
    """Return the units of a text for a static head: its words, then its pairs of neighbours.

    >>> text_units(["who", "keeps", "bees"])
    ['who', 'keeps', 'bees', 'who keeps', 'keeps bees']
    """
    return [*words, *(f"{one} {other}" for one, other in pairwise(words))]


def is_pair(unit: str) -> bool:
    """Return True if a unit of a text is a pair of words."""
    return " " in unit


def word_units(word: str, split: Split) -> Bag:
    """Return the `WORD_UNITS` units by which a static head tags a word.

    What white space parts may hold several words of the table (`bees'`, `mid-1990s`), of which the longest stands for it, or
    none (`--`), which then is a word as it is written.

    >>> word_units("Keeps,", str.lower and (lambda text: [text.lower().strip(",")]))
    ['keeps', 'shape Xx-', 'prefix kee', 'suffix ps,']
    """
    known, small = max(split(word), key=len, default=word), word.lower()
    return [known, f"shape {_shape(word)}", f"prefix {small[:_AFFIX]}", f"suffix {small[-_AFFIX:]}"]


def _shape(word: str) -> str:
    kinds = ("X" if one.isupper() else "x" if one.isalpha() else "9" if one.isdigit() else "-" for one in word)
    return "".join(kind for kind, _ in groupby(kinds))[:_SHAPE]


def bags_of(texts: Sequence[str], split: Split, *, words: bool, most: int | None = None) -> tuple[list[Bag], int]:
    """Return the bags of units that a static head reads of a record, and how many of its words were left out.

    Args:
        texts: its text, or both of a pair.
        split: text to words.
        words: a bag for each word of the one text, as white space parts them; else one for each text.
        most: words of a text that are read; None: all.
    """
    if words:
        (text,) = texts
        spans = words_of(text)
        return [word_units(text[begin:end], split) for begin, end in spans[:most]], len(spans[most:]) if most else 0
    found = [split(text) for text in texts]
    cut = sum(len(some[most:]) for some in found) if most else 0
    return [text_units(some[:most]) for some in found], cut


class UnitCounts:
    """The number of times that units come in the texts that are learned from.

    Attributes:
        counts: of each.
        dropped: units of one occurrence that were forgotten because there were too many different ones.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.dropped = 0

    def add(self, bags: Iterable[Bag]) -> None:
        """Count the units of one more record."""
        self.counts.update(chain.from_iterable(bags))
        if len(self.counts) > _MOST_COUNTED:
            before = len(self.counts)
            self.counts = Counter({unit: count for unit, count in self.counts.items() if count > 1})
            self.dropped += before - len(self.counts)

    def new_units(self, known: "UnitRows", *, least: int, most: int) -> tuple[list[str], int]:
        """Return the units of a static head that have no row yet, the most frequent first; and how many more there are.

        Args:
            known: those that have.
            least: occurrences that a unit needs.
            most: units that are given a row.
        """
        names = sorted(unit for unit, count in self.counts.items() if count >= least)
        there = known.rows_of(names) >= 0
        new = [unit for unit, has_row in zip(names, there, strict=True) if not has_row]
        new.sort(key=lambda unit: (-self.counts[unit], unit))
        return new[:most], len(new[most:]) + self.dropped


class UnitRows:
    """The row of each of V different units."""

    def __init__(self, units: "pa.Array | Sequence[str]") -> None:
        self.units = WordList(units)
        self._asked = False

    def __len__(self) -> int:
        return len(self.units)

    def rows_of(self, units: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the rows of units of a static head, (N,) int32; -1 for those without one."""
        if not units:
            return np.zeros(0, np.int32)
        if len(units) <= _FEW and not self._asked:
            self._asked = True  # a second question is likely to be one of many
            wanted = {*units}  # not by Arrow: an array of Python strings makes it import pandas, a quarter of a second
            row_of = {unit: row for row, unit in enumerate(self.units) if unit in wanted}
            return np.array([row_of.get(unit, -1) for unit in units], np.int32)
        return self.units.rows_of(units)

    def flat_rows(self, bags: Sequence[Bag]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return the rows of bags of units of a static head one after the other, and how many each bag has.

        Units without a row left out.
        """
        rows = self.rows_of([*chain.from_iterable(bags)])
        bag_of = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        there = rows >= 0
        return rows[there], np.bincount(bag_of[there], minlength=len(bags)).astype(np.int64)


def extended(rows: UnitRows, units: Sequence[str]) -> UnitRows:
    """Return rows of units with more units behind those that there are."""
    return UnitRows(pa.concat_arrays([rows.units.array, pa.array(units, pa.string())])) if units else rows


def windows_of(lengths: npt.NDArray[np.int64], reach: int) -> npt.NDArray[np.int64]:
    """Return the places of each word of a tagged text and of its neighbours, (W, 2 · reach + 1); W where there is none.

    Args:
        lengths: words of each text.
        reach: neighbours to each side.

    >>> windows_of(np.array([2, 1]), 1).tolist()
    [[3, 0, 1], [0, 1, 3], [3, 2, 3]]
    """
    total, ends = int(lengths.sum()), np.cumsum(lengths)
    places = np.arange(total)[:, None] + np.arange(-reach, reach + 1)
    first, end = (np.repeat(bound, lengths)[:, None] for bound in (ends - lengths, ends))
    return np.where((places >= first) & (places < end), places, total)


def counted(units: UnitRows, counts: Mapping[str, int], size: int = 16_384) -> Iterator[pa.RecordBatch]:
    """Yield the units as batches of the `VOCABULARY` schema, with how often the texts that were learned from have each."""
    from wordpipe.artifacts import VOCABULARY

    for first in range(0, len(units), size):
        some = units.units.array.slice(first, size)
        numbers = pa.array([counts.get(unit, 0) for unit in some.to_pylist()], pa.int64())
        yield pa.RecordBatch.from_arrays([some, numbers], schema=VOCABULARY)


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
    """The labels of a static head, and its shape.

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
        """Numbers that the first matrix of the static head reads."""
        return self.dim * (2 * REACH + 1 if self.kind == "token" else 4 if self.pairs else 1)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the static head's weights beside the table."""
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
        """Return the static head's scores of records as bags: (V,) of a text or a pair; (W, V) of the words of a text."""
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
        """Return the vector of each bag of units of a static head, (N, D): their sum over the root of their number.

        Of an empty bag zeros.
        """
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
    """Return the divisors of a static head's sums of bags of units, (N,) float32: the root of their number.

    By their number itself, as in fastText, a long text has a short vector: after 100 labelled questions of TREC, 60 steps,
    54 % of its other training questions were then right and 61 % by the root; after 3,500, 85.1 % and 85.7 %.
    """
    found: Matrix = np.sqrt(np.maximum(lengths, 1)).astype(np.float32)
    return found


def pair_features(sums: Any, library: Any) -> Any:
    """Return a static head's features (N, 4 D) of pairs whose vectors follow each other, (2 N, D): u, v, |u - v|, u · v.

    Args:
        sums: an array, or a tensor.
        library: `numpy` or `torch`, which has it.
    """
    one, other = sums[0::2], sums[1::2]
    return library.concatenate([one, other, abs(one - other), one * other], 1)


def is_static_head(values: Mapping[str, Any]) -> bool:
    """Return True if a `config.json` is that of a static head."""
    return values.get("model_type") == MODEL_TYPE


def static_head_files(
    config: StaticHeadConfig, vectors: Matrix, weights: Mapping[str, Matrix], about: Mapping[str, Any]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a static head: `config.json` and `model.safetensors`.

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
    """Read the `config.json` of a static head, and how its texts are cut into words.

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
        raise ArtifactError("the file is not the config of a static head", where=CONFIG, got=error) from None
    return StaticHeadConfig(kind, labels, problem, pairs, dim), about


def read_static_head(config: StaticHeadConfig, units: UnitRows, data: bytes, split: Split) -> StaticHead:
    """Read the static head whose `model.safetensors` is `data`.

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
                f"the weight {name} is missing, or has the wrong shape or type", where=WEIGHTS,
                got="none" if found is None else f"{found.shape} {found.dtype}", expected=f"{shape} float32",
            )  # fmt: skip
        if not np.isfinite(found).all():
            raise ArtifactError(f"the weight {name} is not finite", where=WEIGHTS, hint="train the model again")
    vectors = stored.pop(_TABLE)
    return StaticHead(config, units, vectors, stored, split)


class _StaticPredictor:
    """Predictor by a static head: records in batches, as bags of units."""

    def __init__(self, head: StaticHead, *, max_words: int | None, temperature: float) -> None:
        self.head, self.temperature, self._most = head, temperature, max_words

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the scores."""
        return self.head.config.labels

    def _scored(self, texts: Iterator[Text]) -> Iterator[tuple[Text, Matrix, int]]:
        """Yield the static head's scores of records, in their order."""
        per_word = self.head.config.kind == "token"
        while some := list(islice(texts, _TEXTS_AT_ONCE)):
            found = [bags_of(one, self.head.split, words=per_word, most=self._most) for one in some]
            scores = self.head.scores([bags for bags, _ in found])
            yield from zip(some, scores, (cut for _, cut in found), strict=True)


class StaticClassifier(_StaticPredictor):
    """Predictor of labels of texts, or of pairs, by a static head; the twin of `Classifier`.

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
        """Yield the prediction for each text, in their order."""
        for _, scores_V, cut in self._scored(texts):
            yield classified(scores_V, self.labels, self.head.config.problem, self.temperature, self.thresholds, cut)


class StaticTagger(_StaticPredictor):
    """Predictor of tags of words by a static head; the twin of `Tagger`.

    Args:
        head: for tokens.
        max_words: of a text that are read; None: all.
        temperature: what logits are divided by.
    """

    def __init__(self, head: StaticHead, *, max_words: int | None = None, temperature: float = 1.0) -> None:
        super().__init__(head, max_words=max_words, temperature=temperature)

    def predict(self, texts: Iterator[Text]) -> Iterator[Tagged]:
        """Yield the tags of each text, in their order; sequences of tags are legal ones."""
        for (text, *_), scores_WV, cut in self._scored(texts):
            read = np.arange(len(scores_WV) + cut) < len(scores_WV)
            yield tagged(text, scores_WV, read, self.labels, self.temperature)
