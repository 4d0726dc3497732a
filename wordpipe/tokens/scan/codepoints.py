"""What each of Unicode's code points is, in the eyes of the pre-tokenizers and of our words.

Hugging Face tokenizers asks three Unicode tables of different ages (Oniguruma's, the Rust regex crate's and its own of
punctuation), Python's `regex` a fourth. To cut text exactly where they cut it, all four answers were asked of the
libraries themselves, code point by code point, and are carried along as runs; a test asks again. tokenizers 0.22.0 and
0.23.3 give the same answers.
"""

import base64
import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from wordpipe.tokens.scan.code_point_table import RUNS

__all__ = [
    "LETTER",
    "NUMBER",
    "SPACE",
    "WORD",
    "PUNCTUATION",
    "SPOKEN",
    "COUNTED",
    "UNSPACED",
    "code_point_classes",
]

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
