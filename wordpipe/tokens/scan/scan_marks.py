r"""The scanner of the `marks` pattern: that of `digits` in which marks (vowel signs, accents) count as letters.

Thai, Lao, Khmer, Burmese and the scripts of India write vowels as marks; a pattern that ends a word at each of them cuts it to
bits. tokenizers itself is asked once per process what `\p{M}` is.
"""

from functools import cache

import numpy as np
from tokenizers import Regex, pre_tokenizers

from wordpipe.compiled import read_only
from wordpipe.tokens.scan.codepoints import LETTER, code_point_classes
from wordpipe.tokens.scan.scan_patterns import digits
from wordpipe.tokens.scan.scan_steps import Bytes, Counts, Positions

__all__ = ["scan_marks"]

_SURROGATES = range(0xD800, 0xE000)


def scan_marks(
    data: Bytes, offsets: Counts, classes: Bytes, starts: Positions, ends: Positions, row_ends: Counts
) -> int:
    """As the scanners in `scanning`; `classes` must be `code_point_classes()`."""
    return digits(data, offsets, _with_marks(), starts, ends, row_ends)


@cache
def _with_marks() -> Bytes:
    """The classes of code points, marks being letters: uint8 [0x110000]."""
    classes = code_point_classes().copy()
    points = np.array([point for point in range(0x110000) if point not in _SURROGATES])
    text = "".join(map(chr, points))
    for _, (start, end) in pre_tokenizers.Split(Regex(r"\p{M}+"), "removed", invert=True).pre_tokenize_str(text):
        classes[points[start:end]] |= LETTER
    return read_only(classes)
