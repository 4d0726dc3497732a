"""Texts to vectors by word vectors alone: fast, no neural network, good where words carry the meaning."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.errors import ConfigError, DivergedError
from wordpipe.sentences.encoder import ENCODER_FILE, TRANSFORM_FILE, EncodedBatch, Read, Write, in_pieces
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.sif import sif_weights, sum_segments
from wordpipe.sentences.transforms import Transform, unit_rows
from wordpipe.words.table import WordVectors

__all__ = ["WORDS_FILE", "WordEncoder", "WordSplit"]

WORDS_FILE = "words.parquet"
_WINDOW = 128  # words per passage where none is asked for

WordSplit = Callable[[str], list[str]]
"""Text to words, exactly as the words of the table were made."""


class WordEncoder:
    """The weighted mean of a text's word vectors, transformed. Words without a vector are left out and named.

    Args:
        table: the word vectors and counts.
        split: text to words.
        settings: pooling (sif or mean), sif_a, window and overlap are looked at.
        transform: what is applied to every vector; nothing where None.
        identity: what the caller wants to find again in the saved file (digests, how words are split), JSON values.

    Raises:
        ConfigError: a pooling that word vectors do not have.
    """

    kind: Literal["words", "transformer"] = "words"

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
        self._weighted_VD = table.vectors
        if self.pooling == "sif":
            self._weighted_VD = table.vectors * sif_weights(table.counts, settings.sif_a)[:, None]

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
        unknown: list[list[str]] = []
        rows: list[int] = []
        lengths_N = np.zeros(len(texts), dtype=np.int64)
        for number, text in enumerate(texts):
            before = len(rows)
            unknown.append(self._known_rows(text, rows))
            lengths_N[number] = len(rows) - before
        sums_ND = sum_segments(self._weighted_VD, np.array(rows, dtype=np.int64), lengths_N)
        if not np.isfinite(sums_ND).all():
            raise DivergedError("a text's vector is not finite", where="word vectors", hint="train the words again")
        # the mean and the sum have the same direction, which is all that is kept
        vectors_ND, empty_N = self.transform.apply(unit_rows(sums_ND)[0])
        return EncodedBatch(vectors_ND, empty_N, unknown, (lengths_N > 0).astype(np.int64))

    def _known_rows(self, text: str, rows: list[int]) -> list[str]:
        """Append the rows of a text's known words to `rows`; give the unknown words."""
        words = self._split(text)
        found = [*map(self._table.row_of.get, words)]
        if None in found:
            rows += [row for row in found if row is not None]
            return [word for word, row in zip(words, found, strict=True) if row is None]
        rows += cast("list[int]", found)
        return []

    def suggest(self, word: str) -> list[str]:
        """Known words that are spelled most like `word`."""
        return self._table.suggest(word)

    def lengths(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Words of each text, unknown ones included."""
        return np.array([len(self._split(text)) for text in texts], dtype=np.int64)

    def save(self, write: Write) -> None:
        """Write encoder.json, words.parquet and transform.safetensors."""
        about = {
            "kind": self.kind,
            "pooling": self.pooling,
            "dim": self.dim,
            "transform": self.transform.kind,
            "settings": self._settings.model_dump(mode="json", exclude={"device", "threads"}),
            "identity": self.identity,
        }
        write(ENCODER_FILE, json.dumps(about, indent=2, sort_keys=True).encode())
        write(TRANSFORM_FILE, self.transform.to_bytes())
        buffer = io.BytesIO()
        table = pa.Table.from_batches(self._table.to_batches())
        pq.write_table(table, buffer, compression="zstd", use_dictionary=False)
        write(WORDS_FILE, buffer.getvalue())

    @classmethod
    def load(cls, about: Mapping[str, Any], read: Read, split: WordSplit) -> "WordEncoder":
        """Load what `save` wrote; `about` is the content of its encoder.json."""
        table = WordVectors.from_batches(pq.read_table(io.BytesIO(read(WORDS_FILE))).to_batches())
        transform = Transform.from_bytes(read(TRANSFORM_FILE), about["transform"], where=TRANSFORM_FILE)
        return cls(table, split, EmbedSettings.make(about["settings"]), transform, about["identity"])
