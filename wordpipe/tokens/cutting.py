"""Rows of text to spans: normalised as the tokenizer does it, then cut into pre-tokens; or cut into words."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.compiled import kernel, read_only
from wordpipe.tokens.kernels.codepoints import code_point_classes
from wordpipe.tokens.kernels.normalize import Normaliser
from wordpipe.tokens.kernels.scan import SCANNERS
from wordpipe.tokens.ragged import I32, I64, U8
from wordpipe.tokens.schemes import Scheme


@dataclass(frozen=True)
class Spans:
    """Where the pre-tokens or words of a batch of rows are.

    Attributes:
        data: uint8, the text they lie in.
        starts, ends: int32 [spans], positions in `data`.
        row_ends: int64 [rows], the number of spans up to and including each row.
    """

    data: U8
    starts: I32
    ends: I32
    row_ends: I64


Cut = Callable[[pa.Array], Spans]


def cut_pretokens(tokenizer: Tokenizer, scheme: Scheme) -> Cut:
    """A function that normalises rows and cuts them into pre-tokens as the tokenizer does. Threads may share it."""
    normalise, scan, classes = Normaliser(tokenizer, scheme).rows, SCANNERS[scheme.pretokenizer], code_point_classes()
    return lambda rows: _scan(scan, classes, *normalise(*row_buffers(rows)))


def cut_words() -> Cut:
    """A function that cuts rows into words, as written. Threads may share it."""
    scan, classes = SCANNERS["words"], code_point_classes()
    return lambda rows: _scan(scan, classes, *row_buffers(rows))


def row_buffers(rows: pa.Array) -> tuple[U8, I64]:
    """The bytes of an array of strings without nulls, and where each row begins and ends: int64 [rows + 1]."""
    kind = np.int64 if pa.types.is_large_string(rows.type) else np.int32
    _, offsets_buffer, data_buffer = rows.buffers()
    if data_buffer is None or not len(rows):
        return np.zeros(0, np.uint8), np.zeros(len(rows) + 1, np.int64)
    offsets = np.frombuffer(offsets_buffer, kind)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]


def split_long(spans: Spans, limit: int) -> tuple[Spans, int]:
    """Cut spans of more than `limit` bytes into pieces, between characters.

    Returns:
        The spans, of which `row_ends` is left empty, and how many were cut.
    """
    long = int(np.count_nonzero(spans.ends - spans.starts > limit))
    if not long:
        return spans, 0
    room = len(spans.starts) + int(np.sum((spans.ends - spans.starts) // (limit - 3)))
    starts, ends = np.empty(room, np.int32), np.empty(room, np.int32)
    count = _split(read_only(spans.data), spans.starts, spans.ends, limit, starts, ends)
    return Spans(spans.data, starts[:count], ends[:count], np.zeros(0, np.int64)), long


def _scan(scan: Callable[..., int], classes: U8, data: U8, offsets: I64) -> Spans:
    starts, ends = np.empty(len(data) + 1, np.int32), np.empty(len(data) + 1, np.int32)
    row_ends = np.empty(len(offsets) - 1, np.int64)
    count = scan(read_only(data), offsets, classes, starts, ends, row_ends)
    return Spans(data, starts[:count], ends[:count], row_ends)


@kernel
def _split(data: U8, starts: I32, ends: I32, limit: int, new_starts: I32, new_ends: I32) -> int:
    count = 0
    for span in range(len(starts)):
        start = starts[span]
        while ends[span] - start > limit:
            end = start + limit
            while data[end] & 0xC0 == 0x80:
                end -= 1
            new_starts[count], new_ends[count] = start, end
            count += 1
            start = end
        new_starts[count], new_ends[count] = start, ends[span]
        count += 1
    return count
