"""From the rows of a tokens artifact to one flat file of ids per split: documents joined, nothing padded, nothing cut.

The file is raw little-endian uint16 or uint32 and is read through a memory map, so a corpus need not fit in memory. Where
words are to be known, a second file has one byte for each id: 1 where a word begins.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from wordpipe.artifacts import DocumentStarts
from wordpipe.errors import ArtifactError
from wordpipe.tokens import is_byte_level, offsets_of, token_bytes, vocabulary_of

T = TypeVar("T", bound=np.generic)
Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]
FindStarts = Callable[[npt.NDArray[np.unsignedinteger], npt.NDArray[np.int64]], Flags]
"""Ids of rows and the rows' lengths → which ids begin a word; see `WordStarts`."""


@dataclass(frozen=True)
class Stream:
    """A split as one sequence of ids.

    Attributes:
        path: the file of ids.
        n_ids: ids in the file, boundary tokens included.
        n_documents: documents in it.
        n_empty: rows without any id, which left nothing.
        counts: how often each id occurs in the rows, boundary tokens not counted, (V,), int64.
    """

    path: Path
    n_ids: int
    n_documents: int
    n_empty: int
    counts: npt.NDArray[np.int64]

    @property
    def n_tokens(self) -> int:
        """Ids that came from the rows."""
        return int(self.counts.sum())

    def open(self) -> Ids:
        """The ids, see `open_ids`."""
        return open_ids(self.path, len(self.counts))


def open_ids(path: Path, vocab_size: int) -> Ids:
    """The ids that `write_streams` wrote to a file, memory-mapped, read-only.

    Args:
        path: the file.
        vocab_size: as it was written.
    """
    return mapped(path, dtype_of(vocab_size))


def open_starts(path: Path) -> Flags:
    """Whether a word begins at each id of the file, memory-mapped, read-only; boundary tokens are words of their own."""
    return mapped(starts_path(path), "?")


def mapped(path: Path, dtype: str) -> npt.NDArray[Any]:
    """The numbers in a file, memory-mapped, read-only."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="r")


def dtype_of(vocab_size: int) -> str:
    """Of the ids in a file, little-endian."""
    return "<u2" if vocab_size <= 1 << 16 else "<u4"


def starts_path(path: Path) -> Path:
    """The file beside a file of ids that says where something begins in it."""
    return path.with_name(f"{path.name}.starts")


def write_streams(
    batches: Iterable[pa.RecordBatch], paths: Mapping[str, Path], *, vocab_size: int, before: Sequence[int] = (),
    after: Sequence[int] = (), find_starts: FindStarts | None = None,
) -> dict[str, Stream]:  # fmt: skip
    """Write the ids of each wanted split to its file, in one pass over the rows.

    Word starts go to `PATH.starts`.

    Args:
        batches: rows of the `tokens` schema, in order.
        paths: the file for each split; rows of other splits are passed over.
        vocab_size: tokens of the tokenizer; every id must be below.
        before: boundary ids put before each document.
        after: boundary ids put after each document.
        find_starts: which ids begin a word; None: nobody wants to know.

    Raises:
        ArtifactError: an id outside the vocabulary.
    """
    with contextlib.ExitStack() as stack:
        writers = {
            split: _Writer(stack, path, vocab_size, before, after, find_starts) for split, path in sorted(paths.items())
        }
        for batch in batches:
            for split, writer in writers.items():
                writer.add(batch.filter(pc.equal(batch["split"], split)))
        return {split: writer.finish() for split, writer in writers.items()}


def unigram_entropy(counts_V: npt.NDArray[np.number], label_smoothing: float = 0.0) -> float:
    """Entropy of single tokens, in nats: the loss of a model that knows frequencies and nothing else.

    A model whose loss stays here has learned no more than that.

    >>> round(unigram_entropy(np.array([2, 1, 1, 0])) / np.log(2), 3)
    1.5
    >>> unigram_entropy(np.array([8, 0]), label_smoothing=0.5) == unigram_entropy(np.array([3, 1]))
    True
    """
    share = (1.0 - label_smoothing) * counts_V / max(1, counts_V.sum()) + label_smoothing / len(counts_V)
    share = share[share > 0.0]
    return float(-(share * np.log(share)).sum())


class _Writer:
    """One split's files, and where in its documents it is."""

    def __init__(
        self, stack: contextlib.ExitStack, path: Path, vocab_size: int, before: Sequence[int], after: Sequence[int],
        find_starts: FindStarts | None,
    ) -> None:  # fmt: skip
        self._dtype, self._find_starts = dtype_of(vocab_size), find_starts
        self._after, self._between = (np.array(ids, dtype=self._dtype) for ids in (after, [*after, *before]))
        self._paths = [path] if find_starts is None else [path, starts_path(path)]
        self._files = [stack.enter_context(one.open("wb")) for one in self._paths]
        self._counts = np.zeros(vocab_size, dtype=np.int64)
        self._starts = DocumentStarts()  # of the rows that had ids
        self._n_ids = self._n_documents = self._n_empty = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows, with boundary ids where a document ends and the next begins."""
        lengths = pc.list_value_length(rows["ids"]).to_numpy(zero_copy_only=False)
        self._n_empty += int((lengths == 0).sum())
        rows = rows.filter(pa.array(lengths > 0))
        if rows.num_rows == 0:
            return
        ids = rows["ids"].flatten().to_numpy(zero_copy_only=False)
        self._count(ids)
        lengths, find, between = lengths[lengths > 0].astype(np.int64), self._find_starts, self._between
        opens = self._starts.of(rows)
        self._n_documents += int(opens.sum())
        at = np.concatenate(([0], np.cumsum(lengths)[:-1]))[opens]
        columns = [_insert(ids.astype(self._dtype), at, between)]
        if find is not None:
            columns.append(_insert(find(ids, lengths), at, np.ones(len(between), dtype=np.bool_)))
        self._write(columns)

    def finish(self) -> Stream:
        """Close the last document, and the files."""
        if self._n_documents:
            self._write([self._after, np.ones(len(self._after), dtype=np.bool_)][: len(self._files)])
        for file in self._files:
            file.close()
        return Stream(self._paths[0], self._n_ids, self._n_documents, self._n_empty, self._counts)

    def _count(self, ids: npt.NDArray[np.unsignedinteger]) -> None:
        counts = np.bincount(ids, minlength=len(self._counts))
        if len(counts) > len(self._counts):
            raise ArtifactError(
                "a token id lies outside the tokenizer's vocabulary", got=len(counts) - 1,
                expected=f"0 to {len(self._counts) - 1}", hint="tokenize the corpus again",
            )  # fmt: skip
        self._counts += counts

    def _write(self, columns: Sequence[npt.NDArray[Any]]) -> None:
        unopened = len(self._after) if self._n_ids == 0 else 0  # nothing ends before the first document
        for file, column in zip(self._files, columns, strict=True):
            file.write(column[unopened:].tobytes())
        self._n_ids += len(columns[0]) - unopened


def _insert(values: npt.NDArray[T], at: npt.NDArray[np.int64], between: npt.NDArray[T]) -> npt.NDArray[T]:
    """`values` with `between` put in before each position in `at`."""
    out = np.empty(len(values) + len(at) * len(between), dtype=values.dtype)
    places = at + np.arange(len(at)) * len(between)
    is_boundary = np.zeros(len(out), dtype=bool)
    is_boundary[(places[:, None] + np.arange(len(between))).ravel()] = True
    out[is_boundary] = np.tile(between, len(at))
    out[~is_boundary] = values
    return out


def row_starts(ids: npt.NDArray[np.unsignedinteger], lengths: npt.NDArray[np.int64]) -> Flags:
    """For `write_streams`: where rows begin, which are sentences."""
    starts_N = np.zeros(len(ids), dtype=np.bool_)
    starts_N[np.cumsum(lengths) - lengths] = True
    return starts_N


_SPACE_MARK = "▁"
_BREAK = b"\n"  # special and unknown tokens: no word goes on across them
_NO_LETTER = b"\x00" * 4  # behind the last row: the scanner may look there if a row ends inside a character


class WordStarts:
    """Finds the tokens that begin a word.

    Args:
        tokenizer: what made the ids.

    Raises:
        ArtifactError: its tokens do not tell where spaces were.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        from wordpipe.tokens import SCANNERS, UNSPACED, code_point_classes  # numba, which single tokens do without

        self._scan, self._no_spaces = SCANNERS["words"], UNSPACED
        spelled = _spelled(tokenizer)
        self._bytes = np.frombuffer(b"".join(spelled), np.uint8)
        self._offsets = offsets_of([len(text) for text in spelled])
        self._classes = np.zeros(1 << 21, np.uint8)  # room for what four broken bytes may come to, too
        self._classes[: len(code_point_classes())] = code_point_classes()
        self._classes.flags.writeable = False

    def __call__(self, ids: npt.NDArray[np.unsignedinteger], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each token begins a word or belongs to none.

        Args:
            ids: of all rows, one after the other, (N,).
            lengths: of the rows; no word goes on from one to the next.

        Returns:
            bool, (N,).
        """
        begins_N, text = self._spell(ids)
        rows = begins_N[offsets_of(lengths)]
        starts, ends = (np.empty(len(text) + 1, np.int32) for _ in range(2))
        count = self._scan(text, rows, self._classes, starts, ends, np.empty(len(lengths), np.int64))
        starts, ends = starts[:count], ends[:count]
        at_N = begins_N[:-1]
        word_N = np.searchsorted(starts, at_N, side="left") - 1  # the last word that begins before the token does
        goes_on_N = (word_N >= 0) & (at_N < np.append(ends, 0)[word_N])
        is_letter_start_N = text[at_N] & 0xC0 != 0x80
        unspaced = np.append(self._is_unspaced(text, starts), False)
        is_start_N: npt.NDArray[np.bool_] = ~goes_on_N | (unspaced[word_N] & is_letter_start_N)
        return is_start_N

    def _spell(self, ids: npt.NDArray[np.unsignedinteger]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Where each token begins in the text, and where the last one ends, (N + 1,); the text and some room behind it."""
        first_N = self._offsets[ids]
        begins_N = offsets_of(self._offsets[ids.astype(np.int64) + 1] - first_N)
        text = np.zeros(int(begins_N[-1]) + len(_NO_LETTER), np.uint8)
        places = np.arange(begins_N[-1]) + np.repeat(first_N - begins_N[:-1], np.diff(begins_N))
        text[: begins_N[-1]] = self._bytes[places]
        text.flags.writeable = False  # as what the kernel was compiled for
        return begins_N, text

    def _is_unspaced(self, text: npt.NDArray[np.uint8], starts: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Which words begin with a letter of a script without spaces; such letters have three bytes or four."""
        first, second, third, fourth = (text[starts + k].astype(np.int64) & 0x3F for k in range(4))
        three = (first & 0x0F) << 12 | second << 6 | third
        four = (first & 0x07) << 18 | second << 12 | third << 6 | fourth
        lead = text[starts]
        classes = self._classes[np.where(lead >= 0xF0, four, three)]
        is_unspaced: npt.NDArray[np.bool_] = (lead >= 0xE0) & (classes & self._no_spaces != 0)
        return is_unspaced


def _spelled(tokenizer: Tokenizer) -> list[bytes]:
    """The text of each id."""
    vocabulary, byte_level = vocabulary_of(tokenizer), is_byte_level(tokenizer)
    tokens = [
        token if ordinary else None for token, ordinary in zip(vocabulary.tokens, vocabulary.ordinary, strict=True)
    ]
    model = json.loads(tokenizer.to_str())["model"]
    prefix, suffix = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    has_spaces = byte_level or any(token and (" " in token or _SPACE_MARK in token) for token in tokens)
    if not (has_spaces or prefix or suffix or model["type"] == "WordLevel"):
        raise ArtifactError(
            "the tokenizer's tokens do not tell where words begin",
            expected="tokens with a mark for spaces (Ġ, ▁) or for what goes on (##)",
            hint="give --mask-unit token, or tokenize with --pretokenizer auto",
        )
    return [_spell(token, prefix, suffix, byte_level=byte_level, has_spaces=has_spaces) for token in tokens]


def _spell(token: str | None, prefix: str, suffix: str, *, byte_level: bool, has_spaces: bool) -> bytes:
    if token is None:
        return _BREAK
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">") and not byte_level:  # byte fallback
        return bytes([int(token[3:5], 16)])
    goes_on = bool(prefix) and token.startswith(prefix) and len(token) > len(prefix)
    token = token[len(prefix) :] if goes_on else token
    ends = bool(suffix) and token.endswith(suffix)
    token = token[: -len(suffix)] if ends else token
    before = b"" if goes_on or has_spaces or suffix else b" "
    text = token_bytes(token if byte_level else token.replace(_SPACE_MARK, " "), byte_level=byte_level)
    return before + (_BREAK if text is None else text) + (b" " if ends else b"")
