"""Encoding: rows of text to token ids, exactly as `tokenizers` gives them, many times as fast.

Each distinct pre-token is encoded once, by a model that is compiled where it is proven to give the same ids. What cannot be
proven equal (a row that holds the text of an added token, a tokenizer with parts we do not know) goes through `tokenizers`.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.compiled import kernel
from wordpipe.errors import InputError
from wordpipe.tokens.counting import Spans, cut_pretokens, cut_words, row_buffers
from wordpipe.tokens.kernels.bpe_encode import bpe_model
from wordpipe.tokens.kernels.pretoken_models import (
    MAX_BYTES,
    PretokenModel,
    unigram_model,
    word_level_model,
    wordpiece_model,
)
from wordpipe.tokens.kernels.string_table import StringTable
from wordpipe.tokens.normalizers import AddedTokens, added_token_patterns
from wordpipe.tokens.pretokenizers import Scheme, scheme_of
from wordpipe.tokens.read import library_errors
from wordpipe.tokens.vocabulary import I32, I64, U8, U32, T, Vocabulary, interleaved, offsets_of, vocabulary_of
from wordpipe.tokens.words import WordNumbers

_KEYS = {
    "BPE": {
        "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
        "ignore_merges", "vocab", "merges",
    },
    "WordPiece": {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
    "WordLevel": {"unk_token", "vocab"},
    "Unigram": {"unk_id", "vocab", "byte_fallback"},
}  # fmt: skip
_MODELS = {"BPE": bpe_model, "WordPiece": wordpiece_model, "WordLevel": word_level_model, "Unigram": unigram_model}
_MAX_ID = 2**31 - 1


def model_of(tokenizer: Tokenizer, *, byte_level: bool) -> PretokenModel | None:
    """Compile the model of a tokenizer, for encoding.

    Args:
        tokenizer: its normalizer, pre-tokenizer and added tokens play no part here.
        byte_level: its pre-tokenizer turns text into byte letters. The compiled model takes the text itself.

    Returns:
        None where the model has an option that is not proven here: dropout, two tokens of one id, scores that are not
        numbers, or anything that this module has never heard of.
    """
    model = json.loads(tokenizer.to_str())["model"]
    kind = model.pop("type", None)
    if kind not in _KEYS or set(model) != _KEYS[kind] or not _is_plain(model["vocab"], tokenizer):
        return None
    return _MODELS[kind](model, byte_level)


def _is_plain(vocabulary: Mapping[str, int] | list[tuple[str, float | None]], tokenizer: Tokenizer) -> bool:
    """True if a tokenizer's JSON has the whole vocabulary, so that it can be compiled for encoding.

    Of tokens that share an id it has only one.
    """
    if len(vocabulary) != tokenizer.get_vocab_size(with_added_tokens=False):
        return False
    if isinstance(vocabulary, list):
        if any(score is None for _, score in vocabulary):
            return False
        tokens = [token for token, _ in vocabulary]
    else:
        tokens = list(vocabulary)
        if max(vocabulary.values(), default=0) > _MAX_ID:
            return False
    return sum(map(len, tokens)) * 4 < MAX_BYTES


Item = TypeVar("Item")
Result = TypeVar("Result")
State = TypeVar("State")

_AHEAD = 8  # items under way or finished for each thread: memory stays bounded, and no thread waits for the reader


def in_order(work: Callable[[State, Item], Result], items: Iterable[Item], states: Sequence[State]) -> Iterator[Result]:
    """Encode in threads: call `work(state, item)` for every item, each state by one thread; results in order.

    The order of the results is that of the items. When the caller stops early or `work` raises, items that were not begun
    are dropped.
    """
    # each piece of work takes a free state and gives it back
    free: SimpleQueue[State] = SimpleQueue()
    for state in states:
        free.put(state)

    def run(item: Item) -> Result:
        state = free.get()
        try:
            return work(state, item)
        finally:
            free.put(state)

    # a bounded number of items is under way; the oldest is given out first
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(len(states)) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(run, item))
                if len(waiting) > _AHEAD * len(states):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


EncodeStrings = Callable[[U8, I64, I64], tuple[U32, I64]]
"""(data uint8, starts int64 [strings], ends int64 [strings]) → (ids uint32, offsets int64 [strings + 1])"""
_CACHE_BYTES = 12 << 20  # for the strings whose ids each thread keeps: a quarter of a million pre-tokens


class SpanEncoder:
    """Turns spans into ids and keeps the ids of every distinct string, within a bounded memory. For one thread.

    Args:
        encode_new: gives the ids of strings that were not seen before.
        max_bytes: memory for the strings; when it is full they are all forgotten.
        ids_per_byte: a string of n bytes has at most max(1, n * ids_per_byte) ids.
    """

    def __init__(self, encode_new: EncodeStrings, max_bytes: int = _CACHE_BYTES, ids_per_byte: int = 1) -> None:
        self._encode_new, self._ids_per_byte = encode_new, ids_per_byte
        self._table = StringTable(max_bytes)
        self._ids = np.empty(1 << 14, np.uint32)
        self._offsets = np.zeros(1 << 12, np.int64)
        self._known = 0

    def encode(self, spans: Spans) -> tuple[U32, I64]:
        """Return the ids of rows.

        Returns:
            uint32 [ids] of all rows, and int64 [rows + 1]: where each row's ids begin and end.
        """
        numbers = np.empty(len(spans.starts), np.int32)
        row_offsets = np.zeros(len(spans.row_ends) + 1, np.int64)
        parts, done, row, written = [], 0, 0, 0
        while True:
            upto = self._table.look_up(spans.data, spans.starts, spans.ends, numbers, done)
            self._add_new()
            most = upto - done
            if most:
                most += self._ids_per_byte * int(spans.ends[upto - 1] - spans.starts[done])
            ids = np.empty(most, np.uint32)  # memory that is never touched costs nothing
            count, row = _copy(
                numbers, self._ids, self._offsets, done, upto, spans.row_ends, row, written, row_offsets, ids
            )
            parts.append(ids[:count])
            written += count
            if upto == len(spans.starts):
                break
            done = upto
            self._table.clear()
            self._known = 0
        return parts[0] if len(parts) == 1 else np.concatenate(parts), row_offsets

    def _add_new(self) -> None:
        """Encode the strings that come for the first time, and keep their token ids."""
        table, known = self._table, self._known
        if table.size == known:
            return
        limits = np.ascontiguousarray(table.offsets[known:])
        ids, offsets = self._encode_new(table.data, limits[:-1], limits[1:])
        used = int(self._offsets[known]) if known else 0
        self._ids = _with_room(self._ids, used, used + len(ids))
        self._ids[used : used + len(ids)] = ids
        self._offsets = _with_room(self._offsets, known + 1, table.size + 1)
        self._offsets[0] = 0
        self._offsets[known : table.size + 1] = offsets + used
        self._known = table.size


def _with_room(array: NDArray[T], used: int, needed: int) -> NDArray[T]:
    """Return an array with room for more encoded ids, its contents in front."""
    if needed <= len(array):
        return array
    larger: NDArray[T] = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


@kernel
def _copy(
    numbers: I32, ids: U32, offsets: I64, first: int, last: int, row_ends: I64, row: int, written: int,
    row_offsets: I64, out: U32,
) -> tuple[int, int]:  # fmt: skip
    """Write the encoded ids of spans `first` to `last - 1`, and where rows end.

    The row to end next is `row`, and `written` ids come from spans before `first`. Gives the number of ids in `out`, and
    the row to end next.
    """
    place = 0
    for span in range(first, last):
        while row_ends[row] <= span:
            row += 1
            row_offsets[row] = written + place
        number = numbers[span]
        for at in range(offsets[number], offsets[number + 1]):
            out[place] = ids[at]
            place += 1
    while row < len(row_ends) and row_ends[row] <= last:
        row += 1
        row_offsets[row] = written + place
    return place, row


class Encoder:
    """A tokenizer at work on many rows. Special tokens are not added and nothing is cut.

    Args:
        tokenizer: truncation and padding switched off.

    Attributes:
        exact_by: "dictionary" where pre-tokens are looked up, "tokenizers" where every row goes through the library.
        id_type: uint16 where all ids fit, else uint32.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.id_type = id_type(tokenizer)
        self._tokenizer = tokenizer
        scheme = scheme_of(tokenizer)
        model = model_of(tokenizer, byte_level=scheme.byte_level) if scheme is not None else None
        patterns = added_token_patterns(tokenizer)
        self._parts = (
            None if scheme is None or model is None or patterns is None else (scheme, model, AddedTokens(patterns))
        )
        self.exact_by = "tokenizers" if self._parts is None else "dictionary"

    def for_thread(self) -> "RowEncoder":
        """Return an encoder of rows for one thread."""
        if self._parts is None:
            return _ByTokenizers(self._tokenizer)
        return _ByDictionary(self._tokenizer, *self._parts)

    def encode(self, batches: Iterable[pa.Array], *, threads: int = 1) -> Iterator[pa.ListArray]:
        """Yield the ids of every batch of rows, in order."""
        kind = pa.list_(pa.field("item", self.id_type, nullable=False))
        workers = [self.for_thread() for _ in range(threads)]
        return in_order(lambda worker, rows: list_array(*worker.encode(rows), kind), batches, workers)


class _ByTokenizers:
    """An encoder of rows that gives every row to the library tokenizers."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, rows: pa.Array) -> tuple[U32, I64]:
        with library_errors("the tokenizer cannot encode the text", "tokenizer.json"):
            found = [one.ids for one in self._tokenizer.encode_batch_fast(rows.to_pylist(), add_special_tokens=False)]
        offsets = offsets_of([len(ids) for ids in found])
        return np.fromiter((token for ids in found for token in ids), np.uint32, int(offsets[-1])), offsets


class _ByDictionary:
    """An encoder of rows that looks up their pre-tokens; rows with the text of an added token go through the library."""

    def __init__(self, tokenizer: Tokenizer, scheme: Scheme, model: PretokenModel, added: AddedTokens) -> None:
        self._cut = cut_pretokens(tokenizer, scheme)
        self._spans = SpanEncoder(_sure(model), ids_per_byte=model.ids_per_byte)
        self._added = added
        self._library = _ByTokenizers(tokenizer)

    def encode(self, rows: pa.Array) -> tuple[U32, I64]:
        marked = self._added.marked(*row_buffers(rows))
        if not marked.any():
            return self._spans.encode(self._cut(rows))
        fast = self._spans.encode(self._cut(rows.filter(pa.array(~marked))))
        slow = self._library.encode(rows.filter(pa.array(marked)))
        return interleaved(marked, slow, fast)


RowEncoder: TypeAlias = _ByTokenizers | _ByDictionary
"""Gives the ids of rows, uint32 [ids] of all, and int64 [rows + 1] where each begins and ends; belongs to one thread."""


def _sure(model: PretokenModel) -> EncodeStrings:
    """Return the encoding of pre-tokens by the compiled model, which refuses what the library refuses."""

    def encode(data: U8, starts: I64, ends: I64) -> tuple[U32, I64]:
        ids, offsets, unsure = model.encode(data, starts, ends)
        if unsure.any():
            row = int(np.flatnonzero(unsure)[0])
            raise InputError(
                "the tokenizer has no token for this part of the text, and it has no unknown token",
                got=data[starts[row] : ends[row]].tobytes().decode(errors="replace"),
                hint="use another --tokenizer, or train a new one",
            )
        return ids, offsets

    return encode


def id_type(tokenizer: Tokenizer) -> pa.DataType:
    """Return uint16 where every id of the tokenizer fits, else uint32."""
    return pa.uint16() if max(tokenizer.get_vocab().values(), default=0) < 1 << 16 else pa.uint32()


def list_array(ids: U32, offsets: I64, kind: pa.ListType) -> pa.ListArray:
    """Return ragged rows as an Arrow array of lists."""
    values = pa.array(ids.astype(kind.value_type.to_pandas_dtype(), copy=False))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=kind)


FIGURES = ("sentences", "tokens", "tokens_unknown", "tokens_special", "bytes")
FIGURES_OF_PAIRS = (*FIGURES, "tokens_b", "tokens_b_unknown", "tokens_b_special", "bytes_b")


_UNKNOWN, _SPECIAL = 1, 2  # kinds of ids: the unknown token, and other special tokens; 0 is all else


def _kinds(vocabulary: Vocabulary) -> U8:
    """Return the kind of each token id: of text, special, unknown."""
    kinds: U8 = _SPECIAL * vocabulary.special.astype(np.uint8)
    kinds[vocabulary.unknown] = _UNKNOWN
    return kinds


class CorpusEncoder:
    """Turns rows of a corpus into rows of the table of tokens: ids of tokens and numbers of words.

    Args:
        tokenizers: truncation and padding switched off; the second one is that of the second texts, where it is another.
        numbers: numbers the words.
        threads: how many work.

    Attributes:
        exact_by: as of `Encoder`; of two tokenizers the slower way.
        id_type: as of `Encoder`; of two tokenizers the wider type.
        example: a special token that text can spell out; empty where there is none.
    """

    def __init__(self, tokenizers: Sequence[Tokenizer], numbers: WordNumbers, threads: int) -> None:
        encoders = [Encoder(tokenizer) for tokenizer in tokenizers]
        self.exact_by = max(encoder.exact_by for encoder in encoders)  # "tokenizers" is above "dictionary"
        self.id_type = max((encoder.id_type for encoder in encoders), key=lambda kind: kind.bit_width)
        vocabularies = [vocabulary_of(tokenizer) for tokenizer in tokenizers]
        self._kinds = [_kinds(vocabulary) for vocabulary in vocabularies]
        self.example = next(
            (
                str(vocabulary.tokens[number])
                for vocabulary, kinds in zip(vocabularies, self._kinds, strict=True)
                for number in np.flatnonzero(kinds == _SPECIAL)
            ),
            "",
        )
        self._cut_words = cut_words()
        self._encoders = [
            ([encoder.for_thread() for encoder in encoders], SpanEncoder(numbers.encode)) for _ in range(threads)
        ]

    def encode(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[tuple[pa.RecordBatch, tuple[int, ...]]]:
        """Encode batches of rows in order: each as the schema has it, and the figures of `FIGURES`.

        Where the schema has `ids_b`, `text_b` is encoded too, and the figures are those of `FIGURES_OF_PAIRS`.
        """
        pairs, id_lists = "ids_b" in schema.names, schema.field("ids").type

        # a column of texts as ids, with its figures
        def encode_texts(tokens: RowEncoder, kinds: U8, texts: pa.Array) -> tuple[pa.ListArray, tuple[int, ...]]:
            ids, offsets = tokens.encode(texts)
            _, unknown, special = np.bincount(kinds[ids], minlength=3).tolist()
            return list_array(ids, offsets, id_lists), (len(ids), unknown, special, len(row_buffers(texts)[0]))

        def encode(
            encoders: tuple[list[RowEncoder], SpanEncoder], rows: pa.RecordBatch
        ) -> tuple[pa.RecordBatch, tuple[int, ...]]:
            # ids of tokens and numbers of words of the first texts
            tokens, words = encoders
            texts = rows.column("text")
            ids, figures = encode_texts(tokens[0], self._kinds[0], texts)
            columns = [
                *(rows.column(name) for name in ("doc_id", "sentence_id", "split")),
                ids,
                list_array(*words.encode(self._cut_words(texts)), schema.field("word_ids").type),
            ]
            # ids of the second texts
            if pairs:
                ids_b, figures_b = encode_texts(tokens[-1], self._kinds[-1], rows.column("text_b"))
                columns, figures = [*columns, ids_b], figures + figures_b
            figures = (len(rows), *figures)
            return pa.RecordBatch.from_arrays(columns, schema=schema), figures

        return in_order(encode, batches, self._encoders)
