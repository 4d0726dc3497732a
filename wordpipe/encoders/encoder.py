"""Encoders of texts: what each offers, the facts with which it is saved, and a vector taken apart into its words.

A vector that is a sum over words makes the cosine a sum over pairs of words: (Σ q) · (Σ t) = ΣΣ q · t.
"""

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import parse_json_object, read_fact
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.encoders.transforms import MIN_TEXTS, Transform, TransformKind
from wordpipe.errors import ArtifactError, DivergedError, InputError

ENCODER_FILE = "encoder.json"
TRANSFORM_FILE = "transform.safetensors"


EncoderKind = Literal["words", "static", "transformer"]
Watch = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """N texts as vectors.

    Attributes:
        vectors: (N, D) float32 of length 1; zero where `empty`.
        empty: (N,) bool: the text has no token or no known word, or nothing beyond what all texts share.
        unknown: per text, its words that have no vector, in order.
        windows: (N,) int64, in how many windows the text was read; 0 for an empty text.
    """

    vectors: npt.NDArray[np.float32]
    empty: npt.NDArray[np.bool_]
    unknown: list[list[str]]
    windows: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TextParts:
    """One text's vector, taken apart.

    Attributes:
        spans: (start, stop) in characters of each of P words or tokens; empty spans for special tokens.
        vectors: (P, D) float32; the rows add up to the text's unit vector.
    """

    spans: list[tuple[int, int]]
    vectors: npt.NDArray[np.float32]


def text_runs(texts: Sequence[str], characters: int = 4_000_000) -> list[Sequence[str]]:
    """Return texts to encode in runs of a few megabytes, so that four thousand books need no more memory than one.

    At least one run.

    Args:
        texts: all texts.
        characters: of a run, at most, unless a single text has more.
    """
    runs, first, size = list[Sequence[str]](), 0, 0
    for number, text in enumerate(texts):
        if size and size + len(text) > characters:
            runs.append(texts[first:number])
            first, size = number, 0
        size += len(text)
    return [*runs, texts[first:]]


def joined(batches: Sequence[EncodedBatch]) -> EncodedBatch:
    """Return batches of encoded texts as one batch; a single batch as it is."""
    if len(batches) == 1:
        return batches[0]
    return EncodedBatch(
        np.concatenate([batch.vectors for batch in batches]),
        np.concatenate([batch.empty for batch in batches]),
        [words for batch in batches for words in batch.unknown],
        np.concatenate([batch.windows for batch in batches]),
    )


def check_finite(vectors_ND: npt.NDArray[np.float32], texts: Sequence[str], giver: str, hint: str) -> None:
    """Refuse vectors of an encoder that are not finite (DivergedError), by their texts.

    `giver` names the source of the vectors.
    """
    bad = np.flatnonzero(~np.isfinite(vectors_ND).all(axis=1))
    if len(bad):
        what = f"the {giver} returned vectors with infinite or NaN numbers for {len(bad)} of {len(texts)} texts"
        raise DivergedError(what, where="; ".join(repr(texts[number][:60]) for number in bad[:3]), hint=hint)


class TextEncoder(ABC):
    """Texts to unit vectors; the same text gives the same vector alone or in any batch, to 1e-5.

    Attributes:
        kind: words (word vectors), static (an embedding table that was trained on texts) or transformer.
        pooling: how the vectors of a text's tokens (or words) become one.
        window: tokens (or words) of a window.
        overlap: tokens that windows share.
        transform: what is applied to every vector.
        identity: what it was made of (kind, digest, …); `pairs` where a contrast has trained it.
    """

    kind: EncoderKind
    pooling: str
    window: int
    overlap: int
    transform: Transform
    identity: dict[str, Any]

    def with_transform(self, transform: Transform) -> Self:
        """Return this encoder with another transform; model and table are shared."""
        other = copy.copy(self)
        other.transform = transform
        return other

    @property
    def untransformed(self) -> Self:
        """This encoder without its transform."""
        return self.with_transform(Transform.none(len(self.transform.mean)))

    @property
    def for_queries(self) -> Self:
        """Return the encoder as it reads queries: another one where a model was taught to know them by a prompt."""
        return self

    @property
    def dim(self) -> int:
        """Width of the vectors, after the transform."""
        return self.transform.dim

    @abstractmethod
    def encode(self, texts: Sequence[str], watch: Watch | None = None) -> EncodedBatch:
        """Encode texts.

        Args:
            texts: the texts.
            watch: called now and then with the share of them that is done; what it raises ends the work. Encoders that take
                no time do not call it.

        Raises:
            DivergedError: a vector is not finite.
        """

    @abstractmethod
    def lengths(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Tokens (or words) of each text, special ones not counted."""

    @abstractmethod
    def parts(self, text: str) -> TextParts:
        """Return the words or tokens of a text, each with its share of the text's vector.

        Raises:
            ConfigError: the pooling is no sum over tokens (cls, max).
            InputError: the text has no vector.
        """

    @abstractmethod
    def files(self) -> Iterator[tuple[str, bytes]]:
        """Return name and content of every file that is needed to load it again."""


class TableEncoder(TextEncoder):
    """An encoder by a table: a text's vector is a sum of rows, one for each of its words or tokens.

    Args:
        dim: width of the table.
        settings: window and overlap are looked at.
        transform: what is applied to every vector; nothing where None.
        identity: what the caller wants to find again in the saved file, JSON values.

    Raises:
        ArtifactError: transform and table are of different widths.
    """

    def __init__(
        self, dim: int, settings: EmbedSettings, transform: Transform | None, identity: Mapping[str, Any] | None
    ) -> None:
        self.window, self.overlap = settings.word_window
        self.transform = transform or Transform.none(dim)
        if (width := len(self.transform.mean)) != dim:
            what = "the transform and the table have different widths"
            raise ArtifactError(what, where=TRANSFORM_FILE, got=f"width {width}", expected=dim)
        self.identity, self._settings = dict(identity or {}), settings


def learned_from_pairs(encoder: TextEncoder) -> bool:
    """True if a contrast has trained the encoder; see `TextEncoder.identity`."""
    return "pairs" in encoder.identity


UNKNOWN_PAIRS = "unknown"
"""What an encoder from elsewhere learned from, among the kinds of `pairs` of its identity."""


def learned_elsewhere(encoder: TextEncoder) -> bool:
    """True if a transformer learned from pairs of other texts, and so knows more of the language than these texts say.

    So did one that was then trained further on these texts.
    """
    return encoder.kind == "transformer" and UNKNOWN_PAIRS in encoder.identity.get("pairs", ())


def transform_kind(settings: EmbedSettings, encoder: TextEncoder, texts: int) -> TransformKind:
    """Return the transform that `auto` means for this encoder and this number of texts.

    A contrastive model was trained to spread its vectors. Another model's lie within a narrow cone and are whitened, or, where
    the texts are too few to know all directions, centred. Two small masked models, 128 and 192 wide, as they are / centred /
    one component removed / whitened on 2,500 texts, mean of STS-B dev and train, STS12 and SICK: 44.2 / 48.8 / 51.6 / 56.2 and
    42.8 / 37.2 / 40.6 / 54.0. Of 128 numbers, whitening on 32, 64, 128 and 1,024 texts gave 48.3, 52.7, 54.9 and 56.0,
    centring 48.5 to 48.8.

    Averages of word vectors are left alone: with vectors of 5 million words of Wikipedia and a = 1e-4, nothing / centre
    / one component scored 68.9 / 66.6 / 65.4 on STS-B dev (Spearman, fitted on Wikipedia) and 15.6 / 15.9 / 14.4 on Cranfield,
    CISI, NPL and CACM (mean nDCG@10, fitted on their documents).
    """
    if settings.transform != "auto":
        return settings.transform
    if encoder.kind != "transformer" or learned_from_pairs(encoder) or texts < MIN_TEXTS:
        return "none"
    return "whiten" if texts >= encoder.dim else "centre"


def encoder_facts(encoder: TextEncoder, settings: EmbedSettings, **own: Any) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of encoder.json and of transform.safetensors.

    Args:
        encoder: gives kind, pooling, width, transform and identity.
        settings: what it was made with.
        own: what else this kind needs to be loaded, or has otherwise than the others, as JSON values.
    """
    about = {
        "kind": encoder.kind,
        "pooling": encoder.pooling,
        "dim": encoder.dim,
        "transform": encoder.transform.kind,
        "settings": settings.bundled(),
        "identity": encoder.identity,
    }
    yield ENCODER_FILE, json.dumps(about | own, indent=2, sort_keys=True).encode()
    yield TRANSFORM_FILE, encoder.transform.to_bytes()


def load_facts(encoder_json: bytes) -> dict[str, Any]:
    """Read the encoder.json of a saved encoder.

    Raises:
        ArtifactError: encoder.json is not one of ours.
    """
    about = parse_json_object(encoder_json, ENCODER_FILE)
    if (kind := about.get("kind")) not in get_args(EncoderKind):
        known = "words, static or transformer"
        raise ArtifactError("unknown kind of encoder", where=ENCODER_FILE, got=repr(kind)[:60], expected=known)
    for name, of in (("identity", dict), ("settings", dict), ("pooling", str), ("transform", str)):
        read_fact(about, name, of, ENCODER_FILE)
    read_fact(about, "dim", int, ENCODER_FILE, least=1)
    return about


_VANISHED = 1e-9  # of a vector whose directions all were taken away nothing can be said
_PAIRS = 20  # that are listed one by one; the others as one sum


def shares(
    vectors_PD: npt.NDArray[np.float32] | npt.NDArray[np.float64], transform: Transform, text: str
) -> npt.NDArray[np.float32]:
    """Return what each of P words adds to an encoder's unit vector of their text, (P, K) float32; the sum is that vector.

    What centring takes away is taken from each piece in the measure in which it makes up the text's vector, which is the
    projection of the piece on the sum of all: taken from all alike, a stop word that weighs next to nothing would be shown as
    the mean turned round.

    Args:
        vectors_PD: the pieces' vectors, whose sum has the direction of the text's vector before the transform.
        transform: what is applied to the unit vector.
        text: for the message.

    Raises:
        InputError: the text has no vector: no pieces, or nothing is left of them.
    """
    wide_PD = vectors_PD.astype(np.float64)
    sum_D = wide_PD.sum(axis=0)
    length = np.linalg.norm(sum_D)
    if length > _VANISHED:
        turned_PK = transform.turn((wide_PD / length).astype(np.float32)).astype(np.float64)
        if transform.kind != "none":
            measure_P = wide_PD @ sum_D / length**2
            turned_PK -= measure_P[:, None] * transform.offset
        left = np.linalg.norm(turned_PK.sum(axis=0))
        if left > _VANISHED:
            return (turned_PK / left).astype(np.float32)
    raise InputError("the text has no vector", got=repr(text[:80]), hint="use at least one word that the encoder knows")


def explained_cosine(
    query: str, parts_q: TextParts, text: str, parts_t: TextParts,
    kept: np.float32 | float = 1.0, pull_D: npt.NDArray[np.float32] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Explain a cosine of two encoded texts as a sum over pairs of words, after relevance feedback too.

    Args:
        query: the query.
        parts_q: its vector, taken apart.
        text: the text.
        parts_t: its vector, taken apart.
        kept: how much of its own vector is in the query's, where feedback has moved it.
        pull_D: what feedback added to that.

    Returns:
        score; pairs: the largest, by size; others: the sum of the rest; query, text: every word with what it brought; answers:
        the pull's score, where there was one.
    """
    # words of both, and what each pair adds
    if pull_D is not None:
        parts_q = TextParts(parts_q.spans, parts_q.vectors * kept)
    words_q, shares_QD = _words(query, parts_q)
    words_t, shares_TD = _words(text, parts_t)
    pairs_QT = shares_QD.astype(np.float64) @ shares_TD.astype(np.float64).T
    # the largest pairs one by one, the others as a sum
    flat = pairs_QT.ravel()
    largest = np.argsort(-np.abs(flat), kind="stable")[:_PAIRS]
    pairs = []
    for at in largest.tolist():
        one, other = divmod(at, len(words_t))
        pairs.append({"query": words_q[one], "text": words_t[other], "score": float(flat[at])})
    # what feedback added, word by word of the text
    pulled_T = np.zeros(len(words_t)) if pull_D is None else shares_TD.astype(np.float64) @ pull_D
    paired = float(flat.sum())
    explained = {
        "score": paired + float(pulled_T.sum()),
        "pairs": pairs,
        "others": paired - sum(float(flat[at]) for at in largest.tolist()),
        "query": _by_word(words_q, pairs_QT.sum(axis=1)),
        "text": _by_word(words_t, pairs_QT.sum(axis=0) + pulled_T),
    }
    return explained if pull_D is None else explained | {"answers": {"score": float(pulled_T.sum())}}


def _words(text: str, parts: TextParts) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Return an encoded text's words and their shares: parts that touch are one word; special tokens one without letters."""
    group_P = np.zeros(len(parts.spans), dtype=np.int64)
    words: list[str] = []
    last = -1
    for number, (start, stop) in enumerate(parts.spans):
        letters = text[start:stop]
        if words and start == last and letters.isalnum() and words[-1][-1:].isalnum() and len(letters) < len(text):
            words[-1] += letters
        else:
            words.append(letters)
        group_P[number], last = len(words) - 1, stop
    shares = np.zeros((len(words), parts.vectors.shape[1]), dtype=np.float32)
    np.add.at(shares, group_P, parts.vectors)
    return words, shares


def _by_word(words: list[str], scores: npt.NDArray[np.float64]) -> list[dict[str, Any]]:
    return [{"word": word, "score": score} for word, score in zip(words, scores.tolist(), strict=True)]
