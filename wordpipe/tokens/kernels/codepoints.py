"""What each of Unicode's code points is, in the eyes of the pre-tokenizers and of our words.

Hugging Face tokenizers asks three Unicode tables of different ages (Oniguruma's, the Rust regex crate's and its own of
punctuation), Python's `regex` a fourth. To cut text exactly where they cut it, all four answers were asked of the
libraries themselves, code point by code point, and are carried along as runs; a test asks again. tokenizers 0.22.0 and
0.23.3 give the same answers.

All scanners take the same steps: one code point, or a run of one kind.
"""

import base64
import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel, load_eight
from wordpipe.tokens.kernels.code_point_table import RUNS

# as tokenizers sees them
LETTER = 1  # \p{L} of the GPT-2 and cl100k patterns
NUMBER = 2  # \p{N} of them; no code point is two of LETTER, NUMBER and SPACE
SPACE = 4  # \s; all of tokenizers' pre-tokenizers agree on it
WORD = 8  # \w of Whitespace
PUNCTUATION = 16  # stands alone in BertPreTokenizer
# as `words` sees them
SPOKEN = 32  # a letter, mark or number of a script with spaces
COUNTED = 64  # \p{N}
UNSPACED = 128  # of a script without spaces


@cache
def code_point_classes() -> NDArray[np.uint8]:
    """The flags of every code point: uint8[0x110000], read-only. Surrogates, which no text holds, have none."""
    runs = zlib.decompress(base64.b85decode(RUNS))
    count = len(runs) // 5  # a run is four bytes of length and one of flags
    lengths = np.frombuffer(runs, dtype="<u4", count=count)
    flags = np.frombuffer(runs, dtype=np.uint8, offset=4 * count)
    classes = np.repeat(flags, lengths)
    classes.flags.writeable = False
    return classes


Bytes = NDArray[np.uint8]
Positions = NDArray[np.int32]
Counts = NDArray[np.int64]

# eight bytes at once, as numbers of 64 bits
CASE = np.uint64(0x2020202020202020)
HIGH = np.uint64(0x8080808080808080)
LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
FROM_A = np.uint64(0x1F1F1F1F1F1F1F1F)  # added to a byte of 7 bits: the high bit says that it is at least "a"
PAST_Z = np.uint64(0x0505050505050505)  # and this that it is past "z"
PLACES = np.uint64(0x0001020304050607)
ONE, SEVEN, TOP = np.uint64(1), np.uint64(7), np.uint64(56)


@kernel
def wide(data: Bytes, at: int, classes: Bytes) -> tuple[int, int]:
    """The class of the code point of two to four bytes at `at`, and where the next one begins."""
    lead = data[at]
    point = data[at + 1] & 0x3F
    if lead < 0xE0:
        return classes[(lead & 0x1F) << 6 | point], at + 2
    point = point << 6 | data[at + 2] & 0x3F
    if lead < 0xF0:
        return classes[(lead & 0x0F) << 12 | point], at + 3
    return classes[(lead & 0x07) << 18 | point << 6 | data[at + 3] & 0x3F], at + 4


@kernel
def step(data: Bytes, at: int, classes: Bytes) -> tuple[int, int]:
    """The class of the code point at `at`, and where the next one begins."""
    if data[at] < 0x80:
        return classes[data[at]], at + 1
    return wide(data, at, classes)


@kernel
def letters_end(data: Bytes, at: int, stop: int) -> int:
    """Where the letters A to Z and a to z end, as far as eight bytes can be read at once.

    Nearly every word ends in the first eight bytes, so the processor has nothing to guess: byte by byte it guesses wrong
    once a word, which took half of the time on English.
    """
    while at + 8 <= len(data):
        eight = load_eight(data, at)
        folded = (eight | CASE) & LOW
        others = ~((folded + FROM_A) & ~(folded + PAST_Z)) | eight
        others &= HIGH
        if others != 0:
            first = (others & (~others + ONE)) >> SEVEN  # 1 << 8 * place
            at += np.int64(first * PLACES >> TOP)  # type: ignore[assignment]
            return min(at, stop)
        at += 8
        if at >= stop:
            return stop
    return at


@kernel
def run_end(data: Bytes, at: int, stop: int, classes: Bytes, mask: int, kind: int) -> int:
    """Where the code points from `at` on, whose class under `mask` is `kind`, end."""
    while at < stop:
        if data[at] < 0x80:
            if classes[data[at]] & mask != kind:
                return at
            at += 1
        else:
            seen, after = wide(data, at, classes)
            if seen & mask != kind:
                return at
            at = after
    return at


@kernel
def worded_end(data: Bytes, at: int, stop: int, classes: Bytes, mask: int, kind: int) -> int:
    """As `run_end`, for a kind that has the letters A to Z."""
    return run_end(data, letters_end(data, at, stop), stop, classes, mask, kind)
