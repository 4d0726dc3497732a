"""Rows of text to token ids, exactly as `tokenizers` gives them, many times as fast.

Each distinct pre-token is encoded once; what cannot be proven equal (a row that holds the text of an added token, a
tokenizer with parts we do not know) goes through `tokenizers` itself.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.errors import InputError
from wordpipe.tokens.cutting import cut_pretokens, row_buffers
from wordpipe.tokens.formats.foreign import Foreign
from wordpipe.tokens.gathering import EncodeUnits, Gatherer
from wordpipe.tokens.models.models import UnitModel, model_of
from wordpipe.tokens.normal.added import AddedTokens, added_token_patterns
from wordpipe.tokens.normal.schemes import Scheme, scheme_of
from wordpipe.tokens.ragged import offsets_of
from wordpipe.tokens.threads import in_order

__all__ = ["Encoder", "RowEncoder", "id_type", "list_array"]

_REMEMBERED = 12 << 20  # bytes for the pre-tokens that each thread remembers: a quarter of a million


class RowEncoder(Protocol):
    """Gives the ids of rows; belongs to one thread."""

    def encode(self, rows: pa.Array) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """uint32 [ids] of all rows, int64 [rows + 1] where each row begins and ends."""
        ...


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

    def for_thread(self) -> RowEncoder:
        """An encoder of rows for one thread."""
        if self._parts is None:
            return _ByTokenizers(self._tokenizer)
        return _ByDictionary(self._tokenizer, *self._parts)

    def encode(self, batches: Iterable[pa.Array], *, threads: int = 1) -> Iterator[pa.ListArray]:
        """The ids of every batch of rows, in order."""
        kind = pa.list_(pa.field("item", self.id_type, nullable=False))
        workers = [self.for_thread() for _ in range(threads)]
        return in_order(lambda worker, rows: list_array(*worker.encode(rows), kind), batches, workers)


class _ByTokenizers:
    """Every row through the library."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, rows: pa.Array) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        with Foreign("the tokenizer cannot encode the text", "tokenizer.json"):
            found = [one.ids for one in self._tokenizer.encode_batch_fast(rows.to_pylist(), add_special_tokens=False)]
        offsets = offsets_of([len(ids) for ids in found])
        return np.fromiter((token for ids in found for token in ids), np.uint32, int(offsets[-1])), offsets


class _ByDictionary:
    """Pre-tokens are looked up; rows that hold the text of an added token go through the library."""

    def __init__(self, tokenizer: Tokenizer, scheme: Scheme, model: UnitModel, added: AddedTokens) -> None:
        self._cut = cut_pretokens(tokenizer, scheme)
        self._gatherer = Gatherer(_sure(model), _REMEMBERED, model.ids_per_byte)
        self._added = added
        self._library = _ByTokenizers(tokenizer)

    def encode(self, rows: pa.Array) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        marked = self._added.marked(*row_buffers(rows))
        if not marked.any():
            return self._gatherer.gather(self._cut(rows))
        fast = self._gatherer.gather(self._cut(rows.filter(pa.array(~marked))))
        slow = self._library.encode(rows.filter(pa.array(marked)))
        return _interleaved(marked, slow, fast)


def _sure(model: UnitModel) -> EncodeUnits:
    """The compiled model, which refuses what the library refuses."""

    def encode(
        data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        ids, offsets, unsure = model.encode(data, starts, ends)
        if unsure.any():
            row = int(np.flatnonzero(unsure)[0])
            raise InputError(
                "the tokenizer has no token for a piece of the text, and none that stands for the unknown",
                got=data[starts[row] : ends[row]].tobytes().decode(errors="replace"),
                hint="give another --tokenizer, or train one",
            )
        return ids, offsets

    return encode


Ragged = tuple[NDArray[np.uint32], NDArray[np.int64]]


def _interleaved(marked: NDArray[np.bool_], there: Ragged, elsewhere: Ragged) -> Ragged:
    """Rows in their order again: the marked ones from `there`, the others from `elsewhere`."""
    lengths = np.empty(len(marked), np.int64)
    lengths[marked], lengths[~marked] = np.diff(there[1]), np.diff(elsewhere[1])
    offsets = offsets_of(lengths)
    ids = np.empty(int(offsets[-1]), np.uint32)
    belongs = np.repeat(marked, lengths)
    ids[belongs], ids[~belongs] = there[0], elsewhere[0]
    return ids, offsets


def id_type(tokenizer: Tokenizer) -> pa.DataType:
    """uint16 where every id of the tokenizer fits, else uint32."""
    return pa.uint16() if max(tokenizer.get_vocab().values(), default=0) < 1 << 16 else pa.uint32()


def list_array(ids: NDArray[np.uint32], offsets: NDArray[np.int64], kind: pa.ListType) -> pa.ListArray:
    """Ragged rows as an Arrow array of lists."""
    values = pa.array(ids.astype(kind.value_type.to_pandas_dtype(), copy=False))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=kind)
