"""The encoding part of `wordpipe embed`: texts become raw vectors in flat files, in pieces that a killed run finds again."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wordpipe.artifacts.checkpoints import Shelf
from wordpipe.errors import DivergedError, StorageError
from wordpipe.runtime import StopFlag, Stopwatch, stop_signal
from wordpipe.sentences.encoder import EncodedBatch, TextEncoder
from wordpipe.stages.making import Job

__all__ = ["StoredVectors", "encode_texts"]

_CHUNK = 4096  # texts encoded at a time; sorted by length within
_CHUNK_BYTES = 16 << 20  # so that a chunk of books needs no more memory than one of sentences
_BLOCK_ROWS = 4096
_FIGURES = ("texts", "without_vector", "in_windows", "words_unknown")


@dataclass(frozen=True)
class StoredVectors:
    """N vectors in flat files of float32, one after the other, read where they are asked for.

    They are read, not mapped: pages of a map would count as this process's memory.

    Attributes:
        paths: the files.
        counts: how many vectors are in each.
        dim: numbers per vector, D.
        figures: what was counted while they were made.
    """

    paths: Sequence[Path]
    counts: Sequence[int]
    dim: int
    figures: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(self.counts)

    def take(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of these numbers, (len(numbers), D); each is read once.

        Raises:
            StorageError: a file is shorter than it was.
        """
        wanted, back = np.unique(numbers, return_inverse=True)
        taken = np.empty((len(wanted), self.dim), np.float32)
        limits = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)
        bounds = np.searchsorted(wanted, limits)
        for path, start, one, end in zip(self.paths, limits, bounds, bounds[1:], strict=False):
            if one < end:
                _read_rows(path, wanted[one:end] - start, taken[one:end])
        return taken[back]

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """All vectors in order, (B, D) at a time; the blocks do not depend on how they were parted into files."""
        for start in range(0, len(self), _BLOCK_ROWS):
            yield self.take(np.arange(start, min(start + _BLOCK_ROWS, len(self))))


def encode_texts(
    job: Job, shelf: Shelf, raw: TextEncoder, texts: Iterable[pa.StringArray], total: int, seconds: float
) -> StoredVectors:
    """Encode texts, those left over by a killed run of the same recipe.

    The chunks that are encoded together depend on the texts alone, so the bytes do not tell where a run was killed.

    Args:
        job: told how far the work is.
        shelf: where finished pieces are kept.
        raw: the encoder, without a transform.
        texts: all texts, string arrays.
        total: how many they are.
        seconds: how long to work on a piece.

    Returns:
        A vector for each text, zero where it has none.

    Raises:
        DivergedError: a vector is not finite.
        Stopped: a stop signal came; finished pieces are kept.
    """
    pieces = _Pieces(shelf, raw.dim)
    before = pieces.figures["texts"]
    if before:
        job.note(f"continuing a stopped run: {before:,} of {total:,} texts were embedded before")
    chunks, clock = _chunks(texts, before), Stopwatch()

    def told() -> None:
        done = pieces.figures["texts"]
        speed = (done - before) / max(clock.seconds, 1e-9)
        job.report("embedding", done, total, "texts", **{"texts/s": f"{speed:,.0f}"})
        job.rates = {"sentences_per_s": round(speed, 1)}

    with stop_signal(lambda _: job.note("stopping after this chunk, saving (press again to stop now)")) as flag:
        while pieces.figures["texts"] < total:
            for _ in pieces.add(_encoded(raw, chunks), seconds, flag):
                told()
            flag.raise_if_set(
                saved=f"{pieces.figures['texts']:,} of {total:,} texts are embedded; run it again to go on"
            )
    return pieces.stored()


class _Pieces:
    """The vectors on the shelf, in files of whole chunks."""

    def __init__(self, shelf: Shelf, dim: int) -> None:
        self.figures = dict.fromkeys(_FIGURES, 0)
        self._shelf, self._dim = shelf, dim
        self._counts: list[int] = []
        while (found := shelf.figures(self._name(len(self._counts)))) is not None:
            self._count(found)

    def add(self, chunks: Iterator[EncodedBatch], seconds: float, flag: StopFlag) -> Iterator[None]:
        """Write one more piece, and yield after each chunk of it: as many as are encoded in so many seconds."""
        clock, found = Stopwatch(), dict.fromkeys(_FIGURES, 0)
        with self._shelf.piece(self._name(len(self._counts)), found) as file:
            for chunk in chunks:
                file.write(np.ascontiguousarray(chunk.vectors, dtype=np.float32).data)
                for name, count in zip(_FIGURES, _figures_of(chunk), strict=True):
                    found[name] += count
                    self.figures[name] += count
                yield
                if clock.seconds >= seconds or flag.signum is not None:
                    break
        assert found["texts"], "there were fewer texts than were counted"
        self._counts.append(found["texts"])

    def stored(self) -> StoredVectors:
        paths = [self._shelf.path / self._name(number) for number in range(len(self._counts))]
        return StoredVectors(paths, self._counts, self._dim, self.figures)

    def _count(self, found: dict[str, Any]) -> None:
        self._counts.append(found["texts"])
        for name in _FIGURES:
            self.figures[name] += found[name]

    @staticmethod
    def _name(number: int) -> str:
        return f"vectors-{number:05d}.f32"


def _figures_of(chunk: EncodedBatch) -> tuple[int, ...]:
    """What `_FIGURES` counts."""
    empty, windows = int(chunk.empty.sum()), int((chunk.windows > 1).sum())
    return len(chunk.vectors), empty, windows, sum(map(len, chunk.unknown))


def _chunks(texts: Iterable[pa.StringArray], skip: int) -> Iterator[list[str]]:
    """The texts after the first `skip` in lists of a few thousand; of long texts, fewer."""
    chunk: list[str] = []
    size = 0  # bytes in the chunk
    for array in texts:
        left = array.slice(skip)
        skip = max(0, skip - len(array))
        ends = np.cumsum(pc.binary_length(left).to_numpy(zero_copy_only=False), dtype=np.int64)
        found, done = left.to_pylist(), 0
        while done < len(found):
            before = int(ends[done - 1]) if done else 0
            fitting = int(np.searchsorted(ends, before + _CHUNK_BYTES - size, side="right"))
            stop = min(done + _CHUNK - len(chunk), max(fitting, done if chunk else done + 1))
            chunk += found[done:stop]
            if stop == len(found):
                size += int(ends[-1]) - before
                break
            yield chunk
            chunk, size, done = [], 0, stop
    if chunk:
        yield chunk


def _encoded(raw: TextEncoder, chunks: Iterator[list[str]]) -> Iterator[EncodedBatch]:
    for texts in chunks:
        batch = raw.encode(texts)
        bad = np.flatnonzero(~np.isfinite(batch.vectors).all(axis=1))
        if len(bad):
            raise DivergedError(
                f"the encoder gave vectors that are not finite for {len(bad)} of {len(texts)} texts",
                where="; ".join(repr(texts[number][:60]) for number in bad[:3]),
                hint="train it again",
            )
        yield batch


def _read_rows(path: Path, rows: NDArray[np.int64], into: NDArray[np.float32]) -> None:
    """Read ascending rows of a flat file; those that follow one another at once."""
    size = into.shape[1] * into.itemsize
    starts = np.concatenate([[0], np.flatnonzero(np.diff(rows) != 1) + 1, [len(rows)]])
    with path.open("rb", buffering=0) as file:
        for one, end in zip(starts.tolist(), starts[1:].tolist(), strict=False):
            left, place = into[one:end].data.cast("B"), int(rows[one]) * size
            while left:
                read = os.preadv(file.fileno(), [left], place)
                if not read:
                    raise StorageError("the file was cut short while it was in use", where=path, hint="run it again")
                left, place = left[read:], place + read
