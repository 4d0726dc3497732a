"""Encoding a corpus: its units, which of them are encoded, in what chunks, and where their vectors are stored.

A unit is what gets a vector: a sentence, a document, or as many sentences as fit a window. `UnitCutter` cuts a corpus into
units, a few thousand rows at a time; `plan_vectors` finds the texts that must be encoded, each once; `chunks_of` groups them;
`StoredVectors` gives their vectors back in any order.

Shapes: U units of the corpus, R rows of the previous artifact, N stored vectors of D numbers.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wordpipe.artifacts import DocumentStarts
from wordpipe.encoders.windows import Ids, WordLengths, gathered, pack_sentences
from wordpipe.errors import StorageError
from wordpipe.search.settings import UnitSettings

_MAX_PLAIN_BYTES = 20_000  # hashed without compiled code: 0.05 s, where the import of numba takes 0.4
_SECRET = np.frombuffer(os.urandom(16), np.uint64)  # so that nobody can write texts that collide
_PARAGRAPH_END = r"\n[ \t]*\n\s*\z"  # of the text of a row
_SPACE = r"\s\p{Z}\x{b}\x{1c}-\x{1f}\x{85}"  # in a class of RE2: white space of Unicode, where \s is that of ASCII
_INDENTED = (
    rf"\A(?:[{_SPACE}]*\n)?[ \t]+[^{_SPACE}][^\n]*\n(?s:.*\n)?[ \t]+[^{_SPACE}]"  # the first with letters, another
)
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_ALL = (1 << 64) - 1
_CHUNK = 4096  # texts encoded at a time; sorted by length within
_CHUNK_BYTES = 16 << 20  # so that a chunk of books needs no more memory than one of sentences
_BLOCK_ROWS = 4096

Keys: TypeAlias = NDArray[np.uint64]  # (N, 2), of N texts


@dataclass(frozen=True, slots=True)
class UnitBatch:
    """U units that follow one another.

    Attributes:
        text: string (U,), the text without white space around it; code keeps the indent of its first line, see `_trimmed`.
        embedded: string (U,), what the encoder reads: the text, after the title where the settings say so.
        rows: the corpus rows that these units are cut from.
        first: int64 (U,), the row of `rows` in which each begins.
    """

    text: pa.StringArray
    embedded: pa.StringArray
    rows: pa.RecordBatch
    first: Ids

    def __len__(self) -> int:
        return len(self.text)

    def column(self, name: str) -> pa.Array:
        """Return a column of the corpus, (U,), from the row in which each unit begins."""
        column = self.rows.column(name)  # no two units begin in one row: as many units as rows begin one in each
        return column if len(self.first) == len(column) else column.take(pa.array(self.first))

    def as_rows(self, schema: pa.Schema, first: int, vectors: pa.FixedSizeListArray | None = None) -> pa.RecordBatch:
        """Return the units as rows of a table: each has its own text and vector, and all else of its first row of the corpus.

        Args:
            schema: of the table, see `sentences_schema`.
            first: the number of the first unit among all of the table.
            vectors: of the units, where the table has some.
        """
        own = {
            "row": pa.array(np.arange(first, first + len(self), dtype=np.int64)),
            "text": self.text,
            "vector": vectors,
        }
        arrays = [own[name] if name in own else self.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Lengths(Protocol):
    """A measure of sentences and windows, in tokens or words: an encoder, or a count of words."""

    window: int
    overlap: int

    def lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens (or words) of each text, (N,)."""
        ...


class UnitCutter:
    """A cutter of a corpus into units; each `read` cuts anew.

    Where windows begin takes a tokenizer to find out, so that is done once and remembered, in 16 bytes for each.

    Args:
        settings: the unit, and whether titles are read.
        encoder: tells how long sentences are, and how long a window is.
        windows: the first row of each window and one more than its last, int64 (2, U), where they are known.

    Attributes:
        windows: likewise, once all has been read.
    """

    def __init__(self, settings: UnitSettings, encoder: Lengths, windows: Ids | None = None) -> None:
        self._unit, self._encoder = settings.unit, encoder
        self._with_title = settings.reads_titles
        self.windows = windows

    @property
    def columns(self) -> list[str]:
        """The columns of the corpus that cutting it into units reads."""
        return ["text"] if self._unit == "sentence" else ["doc_id", "sentence_id", "title", "text"]

    def read(self, batches: Iterable[pa.RecordBatch], first_row: int = 0) -> Iterator[UnitBatch]:
        """Yield the units to encode of the whole corpus in order, or of some of its documents.

        Args:
            batches: corpus rows with `columns` at least, the sentences of a document together and in order. The same
                rows must come each time; how they are cut into batches, and further columns, are free.
            first_row: the number of the first of them; windows are known where it is not 0.
        """
        if self._unit == "sentence":
            for rows in batches:
                yield self._batch(rows, np.arange(len(rows)), np.arange(1, len(rows) + 1))
            return
        done, found = first_row, list[Ids]()
        for rows in _whole_documents(batches):
            bounds = np.append(np.flatnonzero(DocumentStarts().of(rows)), len(rows))
            if self._unit == "window" and self.windows is None:
                first, stop = self._cut_windows(rows, bounds)
                found.append(np.stack([first + done, stop + done]))
            elif self._unit == "window":
                first, stop = self._cut_before(done, done + len(rows))
            else:
                first, stop = bounds[:-1], bounds[1:]
            yield self._batch(rows, first, stop)
            done += len(rows)
        if found:
            self.windows = np.concatenate(found, axis=1)

    def _cut_windows(self, rows: pa.RecordBatch, bounds: Ids) -> tuple[Ids, Ids]:
        """First and last row (exclusive) of each passage of whole sentences that fits a window; `bounds` part documents.

        A document of one sentence is one passage, however long, and a short one is one, too: their words are not counted.
        """
        alone_D = np.diff(bounds) == 1
        if isinstance(self._encoder, WordLengths):
            most_D = np.add.reduceat(self._encoder.most(rows.column("text")), bounds[:-1])
            alone_D |= most_D <= self._encoder.window
        if alone_D.all():
            return bounds[:-1], bounds[1:]
        counted = rows.column("text")
        if alone_D.any():
            counted = counted.filter(pa.array(np.repeat(~alone_D, np.diff(bounds))))
        if isinstance(self._encoder, WordLengths):
            lengths = self._encoder.of_column(counted)
        else:
            lengths = self._encoder.lengths(counted.to_pylist())
        at, spans = 0, list[tuple[int, int]]()
        ends = pc.match_substring_regex(counted, _PARAGRAPH_END).to_numpy(zero_copy_only=False)
        size, overlap = self._encoder.window, self._encoder.overlap
        for start, stop, alone in zip(bounds.tolist(), bounds[1:].tolist(), alone_D.tolist(), strict=False):
            if alone:
                spans.append((start, stop))
                continue
            these = slice(at, at + stop - start)
            found = pack_sentences(lengths[these], size, overlap, ends[these])
            spans += ((start + first, start + last) for first, last in found)
            at += stop - start
        first_U, stop_U = np.array(spans, dtype=np.int64).reshape(-1, 2).T
        return first_U, stop_U

    def _cut_before(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return the windows of the corpus rows start … stop, as they were cut the first time."""
        assert self.windows is not None
        one, end = np.searchsorted(self.windows[0], [start, stop])
        first_U, stop_U = self.windows[:, one:end] - start
        return first_U, stop_U

    def _batch(self, rows: pa.RecordBatch, first: Ids, stop: Ids) -> UnitBatch:
        """Return rows of the corpus as a batch of units."""
        texts = rows.column("text")
        text = _trimmed(texts if self._unit == "sentence" else _joined(texts, first, stop))
        embedded = read_after_title(text, rows.column("title").take(pa.array(first))) if self._with_title else text
        return UnitBatch(text, embedded, rows, first)


def read_after_title(text: pa.StringArray, title: pa.StringArray) -> pa.StringArray:
    """Return each unit's title, a line end and its text, (U,); the text alone where there is no title."""
    titled = pc.greater(pc.fill_null(pc.binary_length(title), 0), 0)
    return pc.if_else(titled, pc.binary_join_element_wise(title, text, "\n"), text)


def _trimmed(texts: pa.StringArray) -> pa.StringArray:
    """Return texts without white space around them, (U,); the first line keeps its indent where a later one is indented, too.

    So code that begins inside a function keeps its shape. The indented first line of a paragraph of prose says nothing.
    """
    trimmed, indented = pc.utf8_trim_whitespace(texts), pc.match_substring_regex(texts, _INDENTED)
    if not pc.any(indented).as_py():
        return trimmed
    shaped = pc.replace_substring_regex(pc.utf8_rtrim_whitespace(texts), rf"\A[{_SPACE}]*\n", "")
    return pc.if_else(indented, shaped, trimmed)


def _joined(texts: pa.StringArray, first: Ids, stop: Ids) -> pa.StringArray:
    """Return the corpus rows of each unit, first … stop, joined to one string, (U,)."""
    sizes_U = stop - first
    rows = texts.take(pa.array(gathered(np.arange(len(texts)), first, sizes_U)))
    offsets = np.concatenate([[0], np.cumsum(sizes_U)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), rows), "")


def _whole_documents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a corpus in batches that never part a document."""
    waiting: list[pa.RecordBatch] = []  # the last document so far
    begins = DocumentStarts()
    for batch in batches:
        if not len(batch):
            continue
        starts = np.flatnonzero(begins.of(batch))
        cut = int(starts[-1]) if len(starts) else -1
        if cut > 0 or (cut == 0 and waiting):
            yield pa.concat_batches([*waiting, batch.slice(0, cut)])
            waiting = []
        waiting.append(batch.slice(max(cut, 0)))
    if waiting:
        yield pa.concat_batches(waiting)


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """The origin of the vector of each of U texts: a previous table, or encoding.

    Attributes:
        previous: int64 (U,), the row of the previous table that has the text, or -1.
        new: int64 (U,), its number among the texts to encode, or -1.
        encode: bool (U,), whether this is the first of the texts to encode that are the same.
        to_encode: texts to encode.
        repeated: texts to encode that came before.
        reused: texts that have a vector already.
        gone: rows of the previous table whose text no longer occurs.
    """

    previous: Ids
    new: Ids
    encode: NDArray[np.bool_]
    to_encode: int
    repeated: int
    reused: int
    gone: int


def no_keys() -> Keys:
    """Return an empty array of text keys."""
    return np.zeros((0, 2), np.uint64)


def text_keys(texts: pa.StringArray, *, compiled: bool | None = None, secret: Keys = _SECRET) -> Keys:
    """Return the keys of N texts of a corpus, (N, 2) uint64, by which texts that are equal are encoded once.

    128 bits, by which equal texts are found without keeping them: two of a billion texts share one once in 10**20 corpora. A
    few are hashed in plain Python, which needs no import of numba; many by compiled code, to the same keys.

    Args:
        texts: string (N,), without nulls.
        compiled: whether compiled code hashes them; None: where it pays. The result is the same.
        secret: (2,) uint64; that of this process.

    Source: Aumasson and Bernstein 2012, "SipHash: a fast short-input PRF": SipHash-2-4, of 128 bits as in the authors' code.
    """
    if not len(texts):
        return no_keys()
    wide = texts.cast(pa.large_string()) if pa.types.is_string(texts.type) else texts
    _, ends, data = wide.buffers()
    starts_N1 = np.frombuffer(ends, np.int64, len(wide) + 1, wide.offset * 8)
    data_B = np.frombuffer(data if data is not None else b"", np.uint8)
    if compiled is None:
        compiled = int(starts_N1[-1] - starts_N1[0]) > _MAX_PLAIN_BYTES
    if not compiled:
        return _hash_plainly(data_B, starts_N1, secret)
    from wordpipe.encoders.kernels import hash_texts

    keys_N2 = np.empty((len(wide), 2), np.uint64)
    hash_texts(data_B, starts_N1, secret, keys_N2)
    return keys_N2


def _hash_plainly(data_B: NDArray[np.uint8], starts_N1: NDArray[np.int64], secret: Keys) -> Keys:
    """Return the keys of a corpus's texts (SipHash), computed in plain Python as in section 2 of the paper."""
    found = []
    for first, stop in zip(starts_N1.tolist(), starts_N1[1:].tolist(), strict=False):
        text = data_B[first:stop].tobytes()
        last = text[len(text) & ~7 :].ljust(7, b"\0") + bytes([len(text) & 255])
        state = [start ^ int(secret[n & 1]) for n, start in enumerate(_START)]
        state[1] ^= 0xEE
        for at in range(0, len(text) & ~7, 8):
            _take(state, int.from_bytes(text[at : at + 8], "little"))
        _take(state, int.from_bytes(last, "little"))
        for number, position in ((0xEE, 2), (0xDD, 1)):
            state[position] ^= number
            for _ in range(4):
                _turn(state)
            found.append(state[0] ^ state[1] ^ state[2] ^ state[3])
    return np.array(found, np.uint64).reshape(-1, 2)


def _take(state: list[int], word: int) -> None:
    """Mix one word of a corpus's text into the four words of SipHash's state."""
    state[3] ^= word
    _turn(state)
    _turn(state)
    state[0] ^= word


def _turn(state: list[int]) -> None:
    """Turn the four words of SipHash's state, for keys of a corpus's texts, by one round."""
    a, b, c, d = state
    a, c = (a + b) & _ALL, (c + d) & _ALL
    b, d = _left(b, 13) ^ a, _left(d, 16) ^ c
    a, c = (_left(a, 32) + d) & _ALL, (c + b) & _ALL
    d, b = _left(d, 21) ^ a, _left(b, 17) ^ c
    state[:] = a, b, _left(c, 32), d


def _left(number: int, bits: int) -> int:
    """Return 64 bits turned to the left."""
    return (number << bits | number >> (64 - bits)) & _ALL


def plan_vectors(previous: Keys, texts: Keys) -> VectorPlan:
    """Find the texts that must be encoded. Takes about 80 bytes of memory for each text.

    Args:
        previous: uint64 (R, 2), keys of the texts that have a vector.
        texts: uint64 (U, 2), keys of the texts that need one.
    """
    # equal keys side by side
    rows, units = len(previous), len(texts)
    keys = np.concatenate([previous, texts])
    order = np.argsort(keys[:, 0])
    opens, differ = _changes(keys[order])
    if differ:  # texts that share half of a key, once in a hundred corpora of a billion: the other half is sorted, too
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        opens, _ = _changes(keys[order])
    # the first of each: a previous row, or the unit that is encoded
    first = np.empty(len(keys), np.int64)
    if len(keys):  # of equal ones the first; previous rows come before all
        first[order] = np.minimum.reduceat(order, np.flatnonzero(opens))[np.cumsum(opens) - 1]
    of_unit = first[rows:]
    # a text is encoded where it comes first, and the others have its number
    encode = of_unit == np.arange(rows, rows + units)
    number = np.cumsum(encode) - 1
    known = of_unit < rows
    # counted
    to_encode, reused = int(encode.sum()), int(known.sum())
    return VectorPlan(
        np.where(known, of_unit, -1),
        np.where(known, -1, number[np.where(known, 0, of_unit - rows)] if units else number),
        encode,
        to_encode,
        repeated=units - to_encode - reused,
        reused=reused,
        gone=int(np.isin(first[:rows], of_unit, invert=True).sum()),
    )


def _changes(keys: Keys) -> tuple[NDArray[np.bool_], bool]:
    """Return which text keys, (N,), differ from the key before, and True if two different keys share their first half."""
    first, second = (keys[1:, half] != keys[:-1, half] for half in (0, 1))
    return np.concatenate([np.ones(min(len(keys), 1), np.bool_), first | second]), bool((second & ~first).any())


def chunks_of(texts: Iterable[pa.StringArray]) -> Iterator[list[str]]:
    """Yield the texts of a corpus in lists of a few thousand; of long texts, fewer."""
    chunk, size = list[str](), 0  # bytes in the chunk
    for array in texts:
        for text, length in zip(array.to_pylist(), pc.binary_length(array).to_pylist(), strict=True):
            if chunk and (len(chunk) == _CHUNK or size + length > _CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(text)
            size += length
    if chunk:
        yield chunk


@dataclass(frozen=True)
class StoredVectors:
    """N vectors in flat files of float32, one after the other, read where they are asked for.

    They are read, not mapped: pages of a map would count as this process's memory.

    Attributes:
        paths: the files.
        counts: how many vectors are in each.
        dim: numbers per vector, D.
        n_empty: how many of them are zero, as their texts have no vector.
    """

    paths: Sequence[Path]
    counts: Sequence[int]
    dim: int
    n_empty: int = 0

    def __len__(self) -> int:
        return sum(self.counts)

    def take(self, numbers: Ids) -> NDArray[np.float32]:
        """Return the encoded vectors of a corpus with these numbers, (len(numbers), D); each is read once.

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
        """Yield all vectors in order, (B, D) at a time; the blocks do not depend on how they were parted into files."""
        for start in range(0, len(self), _BLOCK_ROWS):
            yield self.take(np.arange(start, min(start + _BLOCK_ROWS, len(self))))


def _read_rows(path: Path, rows: Ids, into: NDArray[np.float32]) -> None:
    """Read ascending rows of a flat file of a corpus's vectors; rows side by side at once.

    Those that follow one another at once.
    """
    size = into.shape[1] * into.itemsize
    starts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
    with path.open("rb") as file:
        for one, end in pairwise(starts):
            file.seek(int(rows[one]) * size)
            if file.readinto(into[one:end].data) < (end - one) * size:
                raise StorageError(
                    "the file became shorter while it was read", where=path, hint="run the command again"
                )
