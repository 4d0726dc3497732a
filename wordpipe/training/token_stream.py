"""From the rows of a tokens artifact to sequences: one flat file of ids per split, and its blocks in a random order.

In a file documents are joined, nothing is padded and nothing cut. It is raw little-endian uint16 or uint32 and is read
through a memory map, so a corpus need not fit in memory. Where words are to be known, a second file has one byte for each
id: 1 where a word begins. Blocks are of equal length, packed to 100 %, in an order that is a function of (seed, step).
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from wordpipe.artifacts import DocumentStarts
from wordpipe.errors import ArtifactError, InputError
from wordpipe.model import seed_of
from wordpipe.tokens import is_byte_level, offsets_of, token_bytes, vocabulary_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

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
        """Return the number of ids that came from the rows."""
        return int(self.counts.sum())

    def open(self) -> Ids:
        """Return the ids of the stream, see `open_ids`."""
        return open_ids(self.path, len(self.counts))


def open_ids(path: Path, vocab_size: int) -> Ids:
    """Return the ids that `write_streams` wrote to a file, memory-mapped, read-only.

    Args:
        path: the file.
        vocab_size: as it was written.
    """
    return mapped(path, dtype_of(vocab_size))


def open_starts(path: Path) -> Flags:
    """Open the flags that say whether a word begins at each id of the file; boundary tokens are words of their own."""
    return mapped(starts_path(path), "?")


def mapped(path: Path, dtype: str) -> npt.NDArray[Any]:
    """Return the numbers in a file as a memory-mapped, read-only array."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="r")


def dtype_of(vocab_size: int) -> str:
    """Return the number format of the ids in a stream's file, little-endian."""
    return "<u2" if vocab_size <= 1 << 16 else "<u4"


def spans(starts_S: npt.NDArray[np.int64], lengths_S: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the places of the token stream start, start + 1, … of every span, one after the other.

    >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before_S = np.cumsum(lengths_S) - lengths_S
    return np.repeat(starts_S - before_S, lengths_S) + np.arange(int(lengths_S.sum()))


def starts_path(path: Path) -> Path:
    """Return the file beside a file of ids that says where words, or sequences, begin."""
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
    """Return the entropy of the token stream's single tokens, in nats.

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
    """The writer of the stream of one split: its files, and where in its documents it is."""

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
        """Append rows to the token stream, with boundary ids where a document ends and the next begins."""
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
                "a token id is outside the vocabulary of the tokenizer", got=len(counts) - 1,
                expected=f"0 to {len(self._counts) - 1}", hint="tokenize the corpus again",
            )  # fmt: skip
        self._counts += counts

    def _write(self, columns: Sequence[npt.NDArray[Any]]) -> None:
        unopened = len(self._after) if self._n_ids == 0 else 0  # nothing ends before the first document
        for file, column in zip(self._files, columns, strict=True):
            file.write(column[unopened:].tobytes())
        self._n_ids += len(columns[0]) - unopened


def _insert(values: npt.NDArray[T], at: npt.NDArray[np.int64], between: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return part of a token stream with boundary ids put in before each position in `at`."""
    out = np.empty(len(values) + len(at) * len(between), dtype=values.dtype)
    places = at + np.arange(len(at)) * len(between)
    is_boundary = np.zeros(len(out), dtype=bool)
    is_boundary[(places[:, None] + np.arange(len(between))).ravel()] = True
    out[is_boundary] = np.tile(between, len(at))
    out[~is_boundary] = values
    return out


def row_starts(ids: npt.NDArray[np.unsignedinteger], lengths: npt.NDArray[np.int64]) -> Flags:
    """Return where rows, which are sentences, begin among their ids; for `write_streams`."""
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
        """Return whether each token begins a word or belongs to none.

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
        """Return where each token of the stream begins in the text, and where the last ends, (N + 1,).

        The text, and some room.
        """
        first_N = self._offsets[ids]
        begins_N = offsets_of(self._offsets[ids.astype(np.int64) + 1] - first_N)
        text = np.zeros(int(begins_N[-1]) + len(_NO_LETTER), np.uint8)
        places = np.arange(begins_N[-1]) + np.repeat(first_N - begins_N[:-1], np.diff(begins_N))
        text[: begins_N[-1]] = self._bytes[places]
        text.flags.writeable = False  # as what the kernel was compiled for
        return begins_N, text

    def _is_unspaced(self, text: npt.NDArray[np.uint8], starts: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Return which words of the token stream begin with a letter of a script without spaces."""
        first, second, third, fourth = (text[starts + k].astype(np.int64) & 0x3F for k in range(4))
        three = (first & 0x0F) << 12 | second << 6 | third
        four = (first & 0x07) << 18 | second << 12 | third << 6 | fourth
        lead = text[starts]
        classes = self._classes[np.where(lead >= 0xF0, four, three)]
        is_unspaced: npt.NDArray[np.bool_] = (lead >= 0xE0) & (classes & self._no_spaces != 0)
        return is_unspaced


def _spelled(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of text of each id of the token stream, in which words are looked for."""
    vocabulary, byte_level = vocabulary_of(tokenizer), is_byte_level(tokenizer)
    tokens = [
        token if ordinary else None for token, ordinary in zip(vocabulary.tokens, vocabulary.ordinary, strict=True)
    ]
    model = json.loads(tokenizer.to_str())["model"]
    prefix, suffix = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    has_spaces = byte_level or any(token and (" " in token or _SPACE_MARK in token) for token in tokens)
    if not (has_spaces or prefix or suffix or model["type"] == "WordLevel"):
        raise ArtifactError(
            "the tokens of this tokenizer do not show where words begin",
            expected="tokens with a mark for a space (Ġ or ▁) or for the continuation of a word (##)",
            hint="use --mask-unit token, or tokenize the corpus with --pretokenizer auto",
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


@dataclass(frozen=True)
class Rows:
    """Some blocks, in the form that an objective takes.

    Attributes:
        ids_BT: int64, special ids of the block included.
        word_starts_BT: whether a word begins here, bool; None where they are not needed. Special ids are words of their
            own, and what a block begins with begins a word, even if the block before it ended inside that word.
    """

    ids_BT: "Tensor"  # noqa: N815
    word_starts_BT: "Tensor | None" = None  # noqa: N815

    def to(self, device: "torch.device") -> "Rows":
        """Return the rows on a device; a copy to a GPU does not wait for the step before."""
        return Rows(
            _sent(self.ids_BT, device), None if self.word_starts_BT is None else _sent(self.word_starts_BT, device)
        )


@dataclass(frozen=True)
class Blocks:
    """The stream of ids cut into blocks of equal length.

    Every id is in at least one block. The last block would be short, so it begins earlier and repeats what the block
    before it ends with; a stream shorter than one block is one shorter block. So there is never any padding.

    Attributes:
        ids: the stream, usually memory-mapped.
        width: ids taken for a block.
        stride: ids from one block's beginning to the next one's.
        opening: special ids put before each block.
        closing: special ids put after each block.
        word_starts: whether a word begins at each id, if that is wanted.
    """

    ids: Ids
    width: int
    stride: int
    opening: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()
    word_starts: Flags | None = None

    def __len__(self) -> int:
        """Blocks in one pass over the stream."""
        return -(-(len(self.ids) - (self.width - self.stride)) // self.stride)

    @property
    def seq_len(self) -> int:
        """Positions that a model sees of a block."""
        return len(self.opening) + self.stride + len(self.closing)

    @property
    def n_repeated(self) -> int:
        """Ids of the last block that the block before it had already."""
        return len(self) * self.stride + (self.width - self.stride) - len(self.ids)

    def order(self, step: int, *, batch_size: int, seed: int) -> npt.NDArray[np.int64]:
        """The numbers of the blocks in a step's batch, see `block_order`."""
        return block_order(step, batch_size=batch_size, n_blocks=len(self), seed=seed)

    def rows(self, index_B: npt.NDArray[np.int64]) -> Rows:
        """Return blocks of the token stream by their number.

        Args:
            index_B: numbers from 0 to len - 1.
        """
        begins_B = np.minimum(index_B * self.stride, len(self.ids) - self.width)
        place_BT = begins_B[:, None] + np.arange(self.width)
        first, last = len(self.opening), len(self.opening) + self.width
        ids_BT = np.empty((len(index_B), last + len(self.closing)), dtype=np.int64)
        ids_BT[:, :first], ids_BT[:, last:] = self.opening, self.closing
        ids_BT[:, first:last] = self.ids[place_BT]
        import torch

        if self.word_starts is None:
            return Rows(torch.from_numpy(ids_BT))
        starts_BT = np.ones(ids_BT.shape, dtype=np.bool_)
        starts_BT[:, first + 1 : last] = self.word_starts[place_BT[:, 1:]]
        return Rows(torch.from_numpy(ids_BT), torch.from_numpy(starts_BT))


def masked_blocks(ids: Ids, *, seq_len: int, cls_id: int, sep_id: int, word_starts: Flags | None = None) -> Blocks:
    """Cut a stream into sequences of `seq_len` positions for an encoder: [CLS], seq_len - 2 ids, [SEP].

    Raises:
        InputError: the stream is empty.
    """
    refuse_short(len(ids), 1)
    width = min(seq_len - 2, len(ids))
    return Blocks(ids, width=width, stride=width, opening=(cls_id,), closing=(sep_id,), word_starts=word_starts)


def pair_blocks(ids: Ids, *, seq_len: int, cls_id: int, sep_id: int, word_starts: Flags | None = None) -> Blocks:
    """Cut a stream into sequences of [CLS], seq_len - 3 ids, and both [SEP] at the end, of which `MaskedPairs` moves one.

    Raises:
        InputError: the stream has fewer than two ids.
    """
    refuse_short(len(ids), 2)
    width = min(seq_len - 3, len(ids))
    return Blocks(ids, width=width, stride=width, opening=(cls_id,), closing=(sep_id, sep_id), word_starts=word_starts)


def document_numbers(ids_BT: "Tensor", end_id: int) -> "Tensor":
    """Number the documents of each sequence, from 0, int64, (B, T); the token that ends a document has its number."""
    is_end_BT = ids_BT == end_id
    return is_end_BT.cumsum(dim=1) - is_end_BT.long()


def causal_blocks(ids: Ids, *, seq_len: int) -> Blocks:
    """Cut a stream into sequences of `seq_len` inputs for a decoder, and one id more, the last one's target.

    The last id of a block is the first of the next one, so every id but the stream's first is a target once.

    Raises:
        InputError: the stream has no id to predict.
    """
    refuse_short(len(ids), 2)
    stride = min(seq_len, len(ids) - 1)
    return Blocks(ids, width=stride + 1, stride=stride)


def block_order(step: int, *, batch_size: int, n_blocks: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the token stream's blocks in a step's batch, in a random order.

    Batches follow each other through epoch after epoch, each in an order of its own; one batch may end an epoch and begin
    the next.

    Args:
        step: from 0.
        batch_size: blocks in every batch.
        n_blocks: blocks in an epoch.
        seed: of the order.

    Returns:
        index_B: int64, from 0 to n_blocks - 1.
    """
    places_B = np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.int64)
    return shuffled(places_B, n_blocks, seed, "order")


def shuffled(places: npt.NDArray[np.int64], n: int, seed: int, purpose: str) -> npt.NDArray[np.int64]:
    """Return the numbers of blocks of a token stream at these places, each pass in an order of its own."""
    passes, out = np.divmod(places, n)
    for number in np.unique(passes):
        here = passes == number
        out[here] = permute(out[here], n, seed_of(seed, purpose, int(number)))
    return out


def spread(n_blocks: int, wanted: int) -> npt.NDArray[np.int64]:
    """Return at most `wanted` of the blocks, evenly spread over all: always the same ones, to compare losses on."""
    count = max(1, min(n_blocks, wanted))
    return np.arange(count, dtype=np.int64) * n_blocks // count


def _sent(tensor: "Tensor", device: "torch.device") -> "Tensor":
    """Return a tensor on the device; a copy to a GPU does not wait."""
    if device.type == "cuda":  # only from pinned memory can it be copied while the GPU works
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def refuse_short(n_ids: int, least: int) -> None:
    """Refuse a token stream of too few ids.

    Raises:
        InputError: it has fewer than `least`.
    """
    if n_ids < least:
        raise InputError(
            "there is no text for the training",
            got=f"{n_ids} tokens",
            hint="check the corpus with wordpipe show, or add more text",
        )


_ROUNDS = 6


def permute(index: npt.NDArray[np.int64], n: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the place of each block of a token stream in a random order of 0 … n-1.

    Args:
        index: numbers from 0 to n-1, int64, any shape.
        n: size of the permutation, at least 1.
        seed: which permutation.

    Returns:
        Numbers from 0 to n-1, different for different indices.
    """
    half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
    keys = [seed_of(seed, "round", i) for i in range(_ROUNDS)]
    out = _feistel(np.asarray(index).astype(np.uint64), half_bits, keys)
    outside = out >= n
    while outside.any():  # fewer than four walks on average, as 2^(2k) is at most 4n
        out[outside] = _feistel(out[outside], half_bits, keys)
        outside = out >= n
    return out.astype(np.int64)


def _feistel(x: npt.NDArray[np.uint64], half_bits: int, keys: list[int]) -> npt.NDArray[np.uint64]:
    """Permute the blocks' numbers of a token stream by a Feistel network with these keys."""
    bits, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = x >> bits, x & mask
    for key in keys:
        left, right = right, left ^ (_mixed_bits(right ^ np.uint64(key)) & mask)
    return (left << bits) | right


def _mixed_bits(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`wordpipe.compiled.mixed_bits`, without numba, which `train mlm` and `train clm` do not load."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
