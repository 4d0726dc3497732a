"""Texts to vectors by word vectors alone: fast, no neural network, good where words carry the meaning."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts.widths import leaf_paths
from wordpipe.errors import ConfigError, DivergedError
from wordpipe.metrics.directions import unit_rows
from wordpipe.sentences.encoder import (
    TRANSFORM_FILE,
    EncodedBatch,
    EncoderKind,
    Read,
    TextParts,
    Write,
    in_pieces,
)
from wordpipe.sentences.saving import save_facts
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.shares import shares
from wordpipe.sentences.sif import sif_weights, sum_segments
from wordpipe.sentences.transforms import Transform
from wordpipe.sentences.word_spans import word_spans
from wordpipe.words.lookup import KnownPhrases
from wordpipe.words.table import WordVectors

__all__ = ["NGRAMS_FILE", "WORDS_FILE", "WordEncoder", "WordSplit"]

WORDS_FILE = "words.parquet"
NGRAMS_FILE = "ngrams.parquet"
_WINDOW = 128  # words per passage where none is asked for
_FEW = 16  # words of a query, looked up one by one: in 94,000 words 2 ms, where the import of numba takes 0.4 s

WordSplit = Callable[[str], list[str]]
"""Text to words, exactly as the words of the table were made."""


class WordEncoder:
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
                "not a pooling of word vectors", where="pooling", got=settings.pooling, expected="sif or mean"
            )
        self.pooling = "sif" if settings.pooling == "auto" else settings.pooling
        self.dim = table.dim
        self.window = settings.window or _WINDOW
        self.overlap = min(settings.overlap, self.window // 2)
        self.transform = transform or Transform.none(self.dim)
        self.identity = dict(identity or {})
        self._table, self._split, self._settings = table, split, settings
        # a token with an underscore in it is no phrase
        self._phrases = table.phrases if self.identity.get("unit") != "token" else KnownPhrases(())
        self._weighted_VD, self._guess_weight = table.vectors, np.float32(1)
        if self.pooling == "sif":
            weights_V = sif_weights(table.counts, settings.sif_a)
            self._weighted_VD, self._guess_weight = table.vectors * weights_V[:, None], weights_V.max()

    @property
    def assumes_zipf(self) -> bool:
        """Whether the words are weighted by how common they are, and nobody counted them."""
        return self.pooling == "sif" and not self._table.counts.any()

    def with_transform(self, transform: Transform) -> "WordEncoder":
        """The same encoder with another transform."""
        return WordEncoder(self._table, self._split, self._settings, transform, self.identity)

    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode texts.

        Raises:
            DivergedError: a word vector is not finite.
        """
        return in_pieces(texts, self._encode)

    def _encode(self, texts: Sequence[str]) -> EncodedBatch:
        words = [self._words(text) for text in texts]
        text_of = np.repeat(np.arange(len(texts)), [len(some) for some in words])
        flat = [*chain.from_iterable(words)]
        rows = self._rows_of(flat)
        there = rows >= 0
        lengths_N = np.bincount(text_of[there], minlength=len(texts))
        sums_ND = sum_segments(self._weighted_VD, rows[there].astype(np.int64), lengths_N)
        unknown: list[list[str]] = [[] for _ in texts]
        absent = np.flatnonzero(~there)
        guessed = self._add_guesses(sums_ND, [flat[at] for at in absent], text_of[absent])
        for at in absent[~guessed]:
            unknown[text_of[at]].append(flat[at])
        if not np.isfinite(sums_ND).all():
            raise DivergedError("a text's vector is not finite", where="word vectors", hint="train the words again")
        # the mean and the sum have the same direction, which is all that is kept
        vectors_ND, empty_N = self.transform.apply(unit_rows(sums_ND)[0])
        filled_N = lengths_N + np.bincount(text_of[absent[guessed]], minlength=len(texts)) > 0
        return EncodedBatch(vectors_ND, empty_N, unknown, filled_N.astype(np.int64))

    def _rows_of(self, words: Sequence[str]) -> npt.NDArray[np.int32]:
        """The rows of words, (N,) int32, -1 for unknown ones."""
        if len(words) > _FEW:
            return self._table.words.rows_of(words)
        found = (self._table.words.row_of(word) for word in words)
        return np.array([-1 if row is None else row for row in found], dtype=np.int32)

    def _add_guesses(
        self, sums_ND: npt.NDArray[np.float32], words: Sequence[str], text_of: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Add what n-grams say of words that are not in the table to the sums of their texts; for which words they say any."""
        if self._table.ngrams is None or not words:
            return np.zeros(len(words), dtype=np.bool_)
        number_of = {word: number for number, word in enumerate(dict.fromkeys(words))}
        vectors_UD, known_U = self._table.ngrams.vectors_of([*number_of])
        numbers = np.array([number_of[word] for word in words])
        known: npt.NDArray[np.bool_] = known_U[numbers]
        np.add.at(sums_ND, text_of[known], self._guess_weight * vectors_UD[numbers[known]])
        return known

    def _words(self, text: str) -> list[str]:
        """The words of a text, those of phrases that have a vector joined."""
        words = self._split(text)
        return self._phrases.join(words) if len(self._phrases) else words

    def suggest(self, word: str) -> list[str]:
        """Known words that are spelled most like `word`."""
        return self._table.suggest(word)

    def lengths(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Words of each text, unknown ones included."""
        return np.array([len(self._words(text)) for text in texts], dtype=np.int64)

    def parts(self, text: str) -> TextParts:
        """The words of a text that have a vector, each with its share of the text's vector.

        Raises:
            InputError: the text has no vector.
        """
        words = self._words(text)
        rows = self._rows_of(words)
        vectors_PD = np.zeros((len(words), self._weighted_VD.shape[1]), dtype=np.float32)
        vectors_PD[rows >= 0] = self._weighted_VD[rows[rows >= 0]]
        absent = np.flatnonzero(rows < 0)
        guesses = np.zeros_like(vectors_PD)
        guessed = self._add_guesses(guesses, [words[at] for at in absent], absent)
        vectors_PD += guesses
        known = np.union1d(np.flatnonzero(rows >= 0), absent[guessed])
        spans = word_spans(text, words)
        return TextParts([spans[at] for at in known], shares(vectors_PD[known], self.transform, text))

    def save(self, write: Write) -> None:
        """Write encoder.json, words.parquet, ngrams.parquet where there are n-grams, and transform.safetensors."""
        ngrams, own = self._table.ngrams, {}
        if ngrams is not None:
            own["ngrams"] = {"min_n": ngrams.min_n, "max_n": ngrams.max_n}
            write(NGRAMS_FILE, _parquet(ngrams.to_batches()))
        save_facts(write, self, self._settings, **own)
        write(WORDS_FILE, _parquet(self._table.to_batches()))

    @classmethod
    def load(cls, about: Mapping[str, Any], read: Read, split: WordSplit) -> "WordEncoder":
        """Load what `save` wrote; `about` is the content of its encoder.json."""
        sizes = about.get("ngrams")
        table = WordVectors.from_batches(
            _batches(read(WORDS_FILE)), _batches(read(NGRAMS_FILE)) if sizes else None, **(sizes or {})
        )
        transform = Transform.from_bytes(read(TRANSFORM_FILE), about["transform"], where=TRANSFORM_FILE)
        return cls(table, split, EmbedSettings.make(about["settings"]), transform, about["identity"])


def _parquet(batches: Iterable[pa.RecordBatch]) -> bytes:
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
    batches: list[pa.RecordBatch] = pq.ParquetFile(io.BytesIO(parquet)).read().to_batches()
    return batches
