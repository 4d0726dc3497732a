"""The shards of `wordpipe embed`: texts of a corpus as raw vectors. See `ShardWork` for what they promise.

    vectors-00003.f32    the vectors of the texts of a shard that are encoded, float32, in their order

A shard is a run of whole documents; of sentences any run of rows.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wordpipe.artifacts import CORPUS, Artifact, ResumeCache, read_from
from wordpipe.encoders import EncodedBatch, TextEncoder, UnitCutter, check_finite, chunks_of
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.engines import OnUnits
from wordpipe.stages.encoders import encoder_bytes, open_encoder
from wordpipe.stages.inputs import SentArtifact

LIBRARIES = ("torch", "numpy", "pyarrow", "tokenizers")
LEAST_UNITS = {"transformer": 4096, "static": 1 << 14, "words": 1 << 14}
"""Kind of encoder → units of a shard at least; on a GPU many times as many, so that it seldom waits for the disk."""
_GPU_SHARDS = 16
_MOST_SHARDS = 4096


class ShardCutter:
    """The bounds of the shards of a corpus to embed, found while its units are read for the first time.

    Args:
        encoder: the encoder, whose kind decides how many units a shard has.
        device: where it computes.
        n_rows: rows of the corpus, of which there are as many units at most.

    Attributes:
        least: units of a shard, at least.
    """

    def __init__(self, encoder: TextEncoder, device: str, n_rows: int) -> None:
        least = LEAST_UNITS[encoder.kind] * (1 if device == "cpu" else _GPU_SHARDS)
        self.least = max(least, -(-n_rows // _MOST_SHARDS))
        self._rows, self._units = [0], [0]
        self._row = self._unit = 0

    def add(self, n_rows: int, n_units: int) -> None:
        """Count for the shards so many rows of whole documents that follow, with so many units to embed."""
        self._row, self._unit = self._row + n_rows, self._unit + n_units
        if self._unit - self._units[-1] >= self.least:
            self._rows.append(self._row)
            self._units.append(self._unit)

    def bounds(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the first row and the first unit of each shard to embed, and those after the last.

        Call when all has been read.
        """
        if self._units[-1] < self._unit or len(self._units) == 1:
            self._rows.append(self._row)
            self._units.append(self._unit)
        return tuple(self._rows), tuple(self._units)


class _Rows:
    """The rows of a corpus, shard by shard; one that follows the one before it is read on from there."""

    def __init__(self, corpus: Artifact) -> None:
        self._corpus = corpus
        self._at = -1  # the row that comes next
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._left: pa.RecordBatch | None = None

    def read(self, first: int, last: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the corpus rows `first` to `last - 1` of a shard; the columns are the same at each call."""
        if self._at != first:
            self._batches = read_from(self._corpus, "corpus", first, columns, expected=CORPUS)
            self._at, self._left = first, None
        while self._at < last:
            batch = self._left if self._left is not None else next(self._batches)
            taken = batch.slice(0, last - self._at)
            self._left = batch.slice(len(taken)) if len(taken) < len(batch) else None
            self._at += len(taken)
            yield taken


@dataclass(frozen=True)
class Opened:
    """The encoder and the corpus, open in a process."""

    encoder: TextEncoder
    corpus: Artifact


@dataclass(frozen=True)
class _State:
    """The encoder and reader of a thread that encodes shards, or of several together."""

    encoder: TextEncoder
    rows: _Rows
    cache: ResumeCache
    wanted: NDArray[np.bool_]


@dataclass(frozen=True)
class EmbedShards:
    """The work of `embed` in shards: encoding the texts that have no vector yet.

    Attributes:
        encoder: the artifact of the encoder.
        corpus: that of the texts.
        cache: the folder of the cache.
        recipe: what is kept there.
        settings: how texts become vectors; with the device on which they do.
        rows: the first row of each shard, and one more than the last.
        units: likewise its first unit.
        wanted: a bit for each unit: whether it is encoded.
        texts: how many of each shard are.
        kind: of the encoder.
        model_bytes: of its files.
        windows: the rows of each unit, where units are windows; see `UnitCutter`.
    """

    encoder: SentArtifact
    corpus: SentArtifact
    cache: Path
    recipe: str
    settings: EmbedSettings
    rows: tuple[int, ...]
    units: tuple[int, ...]
    wanted: bytes
    texts: tuple[int, ...]
    kind: str
    model_bytes: int
    windows: NDArray[np.int64] | None = field(default=None, compare=False)  # which follow from all else

    phase, unit = "embedding", "texts"
    in_processes, libraries = False, LIBRARIES

    @classmethod
    def of(
        cls, origin: Artifact, opened: Opened, cache: ResumeCache, settings: EmbedSettings, cutter: ShardCutter,
        encode_U: NDArray[np.bool_], windows: NDArray[np.int64] | None,
    ) -> "EmbedShards":  # fmt: skip
        """Return the shards of a corpus of which these units are embedded."""
        rows, units = cutter.bounds()
        before = np.concatenate([[0], np.cumsum(encode_U)])
        return cls(
            SentArtifact.of(origin), SentArtifact.of(opened.corpus), cache.path.absolute(), cache.recipe, settings, rows,
            units, np.packbits(encode_U).tobytes(), tuple(np.diff(before[list(units)]).tolist()), opened.encoder.kind,
            encoder_bytes(origin), windows,
        )  # fmt: skip

    @property
    def memory_bytes(self) -> int:
        """Bytes that encoding a shard needs: libraries, the encoder as read and as kept, a chunk of texts at work."""
        return 900_000_000 + 3 * self.model_bytes

    @property
    def side_by_side(self) -> bool:
        """True if threads of a process may encode shards at once: torch has one number of threads for all of a process."""
        return self.kind != "transformer"

    @property
    def gpus(self) -> int:
        """GPUs that encoding a shard takes."""
        return int(self.settings.device == "cuda")

    def size_of(self, number: int) -> int:
        """Return the number of texts of a shard."""
        return self.texts[number]

    def prepare(self, threads: int, stack: ExitStack, opened: Opened | None = None) -> _State:
        """Open the encoder and the corpus in a process that encodes shards; raises as `SentArtifact.open`."""
        found = opened or self._open(threads, stack)
        wanted = np.unpackbits(np.frombuffer(self.wanted, np.uint8), count=self.units[-1]).astype(np.bool_)
        cache = ResumeCache(self.cache, self.recipe, shared=True)
        return _State(found.encoder, _Rows(found.corpus), cache, wanted)

    def _open(self, threads: int, stack: ExitStack) -> Opened:
        origin, corpus = self.encoder.open(stack), self.corpus.open(stack)
        encoder = open_encoder(origin, self.settings.model_copy(update={"threads": threads}))
        return Opened(encoder.untransformed, corpus)

    def make(self, number: int, state: _State, on_units: OnUnits) -> None:
        """Encode the texts of a shard and write their vectors to its file."""
        done, figures = 0, Counter[str]()
        with state.cache.create(vectors_name(number), figures) as file:
            for chunk in chunks_of(self._texts(number, state)):
                batch = state.encoder.encode(chunk, partial(_watch, on_units, done, len(chunk)))
                check_finite(batch.vectors, chunk, "encoder", "train the model again")
                file.write(np.ascontiguousarray(batch.vectors, dtype=np.float32).data)
                figures.update(figures_of(batch))
                done += len(chunk)
                on_units(done)

    def _texts(self, number: int, state: _State) -> Iterator[pa.StringArray]:
        """Yield the texts of a shard that are encoded."""
        cutter = UnitCutter(self.settings, state.encoder, self.windows)
        first, last = self.rows[number : number + 2]
        at = self.units[number]
        for units in cutter.read(state.rows.read(first, last, cutter.columns), first):
            yield units.embedded.filter(pa.array(state.wanted[at : at + len(units)]))
            at += len(units)


def _watch(on_units: OnUnits, done: int, of_chunk: int, share: float) -> None:
    """Report the texts encoded: those of earlier chunks, and a share of the chunk at work."""
    on_units(done + int(share * of_chunk))


def vectors_name(number: int) -> str:
    """Return the name of the file of a shard's vectors."""
    return f"vectors-{number:05d}.f32"


def figures_of(batch: EncodedBatch) -> dict[str, int]:
    """Return the counts of a batch of encoded vectors."""
    return {
        "texts": len(batch.vectors),
        "without_vector": int(batch.empty.sum()),
        "in_windows": int((batch.windows > 1).sum()),
        "words_unknown": sum(map(len, batch.unknown)),
    }
