"""Texts to vectors by word vectors alone: fast, no neural network, good where words carry the meaning."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts import leaf_paths
from wordpipe.encoders.encoder import (
    TRANSFORM_FILE,
    EncodedBatch,
    EncoderKind,
    TableEncoder,
    TextParts,
    Watch,
    encoder_facts,
    joined,
    shares,
    text_runs,
)
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.encoders.text_rows import MAX_PLAIN_ROWS, WordRows, WordSplit, few_rows, sum_rows
from wordpipe.encoders.transforms import Transform
from wordpipe.errors import ConfigError, DivergedError
from wordpipe.metrics import unit_rows
from wordpipe.words import PHRASE_SEPARATOR, KnownPhrases, WordVectors

WORDS_FILE = "words.parquet"
NGRAMS_FILE = "ngrams.parquet"
_MARKS = "Ġ▁#"  # of subword tokens: a space before, or none
_MAX_LOOKED_UP_SINGLY = 16  # words of a query: in 94,000 words 2 ms, where the import of numba takes 0.4 s


class WordEncoder(TableEncoder):
    """The weighted mean of a text's word vectors, transformed. Words without a vector are left out and named.

    Where the table has n-grams, a word that is not in it gets the vector that they say, weighted as the rarest word is.

    Args:
        table: the word vectors and counts; without counts, sif takes the words to be as common as Zipf's law says.
        split: text to words.
        settings: pooling (sif or mean), sif_a, window and overlap are looked at.
        transform: what is applied to every vector; nothing where None.
        identity: what the caller wants to find again in the saved file (digests, how words are split), JSON values.

    Raises:
        ConfigError: a pooling that word vectors do not have.
    """

    kind: EncoderKind = "words"

    def __init__(
        self,
        table: WordVectors,
        split: WordSplit,
        settings: EmbedSettings,
        transform: Transform | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        if settings.pooling not in ("auto", "sif", "mean"):
            raise ConfigError(
                "word vectors do not support this pooling",
                where="pooling",
                got=settings.pooling,
                expected="sif or mean",
            )
        self.pooling = "sif" if settings.pooling == "auto" else settings.pooling
        super().__init__(table.dim, settings, transform, identity)
        self._table = table
        # a token with an underscore in it is no phrase
        self._phrases = table.phrases if self.identity.get("unit") != "token" else KnownPhrases(())
        # functions of the table, not of this encoder, which would keep itself in memory
        self._rows_of = partial(_rows_of, table)
        self._words = partial(_words, split, self._phrases)
        self._rows = WordRows(self._words if len(self._phrases) else split, self._rows_of)
        # rare words weigh more, and words that n-grams guess as much as the rarest
        self._weights_V1, self._guess_weight = np.ones((1, 1), np.float32), np.float32(1)
        if self.pooling == "sif":
            self._weights_V1 = sif_weights(table.counts, settings.sif_a)[:, None]
            self._guess_weight = self._weights_V1.max()

    @property
    def assumes_zipf(self) -> bool:
        """True if words are weighted by frequency, but without counts: Zipf's law is assumed."""
        return self.pooling == "sif" and not self._table.counts.any()

    def encode(self, texts: Sequence[str], watch: Watch | None = None) -> EncodedBatch:
        """Encode texts by the weighted mean of their word vectors: see `TextEncoder.encode`."""
        return joined([self._encode(run) for run in text_runs(texts)])

    def _encode(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode some texts by word vectors."""
        found = self._rows.find(texts)
        if len(found.ids) <= MAX_PLAIN_ROWS:  # of a query: their rows alone are weighted
            rows_R, among = few_rows(found)
            sums_ND = sum_rows(self._weighted(rows_R), among)
        else:
            sums_ND = sum_rows(self._whole, found)
        guessed = self._add_guesses(sums_ND, found.unknown)
        unknown: list[list[str]] = [[] for _ in texts]
        for (text, word), has_vector in zip(found.unknown, guessed, strict=True):
            if not has_vector:
                unknown[text].append(word)
        if not np.isfinite(sums_ND).all():
            raise DivergedError(
                "the vector of a text has infinite or NaN numbers",
                where="word vectors",
                hint="train the word vectors again",
            )
        # the mean and the sum have the same direction, which is all that is kept
        vectors_ND, empty_N = self.transform.apply(unit_rows(sums_ND)[0])
        filled_N = np.diff(found.offsets) > np.array([*map(len, unknown)], np.int64)
        return EncodedBatch(vectors_ND, empty_N, unknown, filled_N.astype(np.int64))

    def _weighted(self, rows_R: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float32]:
        """Return weighted word vectors, (R, D)."""
        vectors_RD: npt.NDArray[np.float32] = self._table.vectors[rows_R]
        return vectors_RD * self._weights_V1[rows_R] if self.pooling == "sif" else vectors_RD

    @cached_property
    def _whole(self) -> npt.NDArray[np.float32]:
        """All word vectors, weighted, (V, D), for many texts: a second table in memory, which a query does without."""
        return self._table.vectors * self._weights_V1 if self.pooling == "sif" else self._table.vectors

    def _add_guesses(self, sums_ND: npt.NDArray[np.float32], unknown: Sequence[tuple[int, str]]) -> list[bool]:
        """Add guessed word vectors (n-grams) of unknown words to the sums of their texts; return which words have a guess.

        Args:
            sums_ND: the sums, changed.
            unknown: the text and the word of each.
        """
        if self._table.ngrams is None or not unknown:
            return [False] * len(unknown)
        number_of = {word: number for number, word in enumerate(dict.fromkeys(word for _, word in unknown))}
        vectors_UD, known_U = self._table.ngrams.vectors_of([*number_of])
        numbers = np.array([number_of[word] for _, word in unknown])
        known = known_U[numbers]
        texts = np.array([text for text, _ in unknown])[known]
        np.add.at(sums_ND, texts, self._guess_weight * vectors_UD[numbers[known]])
        return [*known.tolist()]

    def suggest(self, word: str) -> list[str]:
        """Return known words that are spelled most like `word`."""
        return self._table.suggest(word)

    def lengths(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Words of each text, unknown ones included."""
        return np.array([len(self._words(text)) for text in texts], dtype=np.int64)

    def parts(self, text: str) -> TextParts:
        """Return the words of a text that have a word vector, with their shares of the text's vector."""
        words = self._words(text)
        rows = self._rows_of(words)
        there, absent = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
        vectors_PD = np.zeros((len(words), self._table.dim), dtype=np.float32)
        vectors_PD[there] = self._weighted(rows[there])
        guessed = self._add_guesses(vectors_PD, [(at, words[at]) for at in absent.tolist()])
        known = np.union1d(there, absent[guessed])
        spans = word_spans(text, words)
        return TextParts([spans[at] for at in known], shares(vectors_PD[known], self.transform, text))

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a word encoder: facts, words.parquet, and ngrams.parquet where there are n-grams."""
        ngrams, own = self._table.ngrams, dict[str, Any](dim=self._table.dim)
        if ngrams is not None:
            own["ngrams"] = {"min_n": ngrams.min_n, "max_n": ngrams.max_n}
            yield NGRAMS_FILE, _parquet(ngrams.to_batches())
        yield from encoder_facts(self, self._settings, **own)
        yield WORDS_FILE, _parquet(self._table.to_batches())

    @classmethod
    def load(cls, about: Mapping[str, Any], files: Mapping[str, bytes], split: WordSplit) -> "WordEncoder":
        """Load a word encoder from its files; `about` is the content of its encoder.json."""
        sizes = about.get("ngrams")
        table = WordVectors.from_batches(
            _batches(files[WORDS_FILE]), _batches(files[NGRAMS_FILE]) if sizes else None, **(sizes or {})
        )
        transform = Transform.from_bytes(files[TRANSFORM_FILE], about["transform"], where=TRANSFORM_FILE)
        return cls(table, split, EmbedSettings.make(about["settings"]), transform, about["identity"])


def _rows_of(table: WordVectors, words: "pa.Array | Sequence[str]") -> npt.NDArray[np.int32]:
    """Return the rows of words in the table of word vectors, (N,) int32, -1 for unknown ones."""
    if not isinstance(words, Sequence) or len(words) > _MAX_LOOKED_UP_SINGLY:
        return table.words.rows_of(words)
    found = (table.words.row_of(word) for word in words)
    return np.array([-1 if row is None else row for row in found], dtype=np.int32)


def _words(split: WordSplit, phrases: KnownPhrases, text: str) -> list[str]:
    """Return the words of a text for the word encoder; those of phrases that have a vector are joined."""
    words = split(text)
    return phrases.join(words) if len(phrases) else words


def _parquet(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Return batches of word vectors or n-grams of an encoder as the bytes of a Parquet file."""
    table, buffer = pa.Table.from_batches(batches), io.BytesIO()
    # vectors as they are: no codec shrinks them, and of 75 MB a query took 0.3 s to unpack
    packed = {
        path: "NONE" if pa.types.is_fixed_size_list(field.type) else "ZSTD"
        for field in table.schema
        for path in leaf_paths(field)
    }
    pq.write_table(table, buffer, compression=packed, use_dictionary=False)
    return buffer.getvalue()


def _batches(parquet: bytes) -> list[pa.RecordBatch]:
    """Return the batches of a Parquet file of word vectors or n-grams."""
    batches: list[pa.RecordBatch] = pq.ParquetFile(io.BytesIO(parquet)).read().to_batches()
    return batches


def sif_weights(counts_V: npt.NDArray[np.int64], a: float) -> npt.NDArray[np.float32]:
    """Return the weight of each word vector by smooth inverse frequency: a / (a + p).

    Args:
        counts_V: how often each word occurs, the commonest first. Where all are 0 nobody counted, and p follows Zipf's law:
            it falls as 1 / rank.
        a: smoothing.

    Source: Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", equation 3.
    """
    falling_V = counts_V if counts_V.any() else 1 / np.arange(1, len(counts_V) + 1)
    weights: npt.NDArray[np.float32] = (a / (a + falling_V / falling_V.sum())).astype(np.float32)
    return weights


def word_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the characters (start, stop) of each word that a word encoder knows, in order.

    An empty span where one is not found.

    Args:
        text: the text.
        words: its words in order, folded or not; phrases joined by `_`, tokens with their marks.
    """
    folded = "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
    spans, at = [], 0
    for word in words:
        spans.append(found := _span(text, folded, word, at))
        at = found[1]
    return spans


def _span(text: str, folded: str, word: str, at: int) -> tuple[int, int]:
    """Return the span in a text of one word of a word encoder that begins at `at` or later."""
    for parts in ([word], word.split(PHRASE_SEPARATOR), [word.strip(_MARKS)]):
        found = [_run(spelled, parts, at) for spelled in (folded, text)]
        if spans := [span for span in found if span is not None]:
            return min(spans)
    return at, at


def _run(text: str, parts: Sequence[str], at: int) -> tuple[int, int] | None:
    """Return the span of a phrase of a word encoder from the first of its parts to the last; None: one is missing."""
    starts = []
    for part in parts:
        start = text.find(part, at)
        if start < 0 or not part:
            return None
        starts.append(start)
        at = start + len(part)
    return starts[0], at
