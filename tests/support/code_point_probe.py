"""Asks tokenizers and `regex` what they take each code point for; writes the table that the package carries.

python -m tests.support.code_point_probe        after a new release of either has changed its mind
"""

import base64
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import regex
from tokenizers import Regex, pre_tokenizers

from wordpipe.tokens import SPACED_LETTER, UNSPACED_SCRIPTS
from wordpipe.tokens.kernels import scan

CODE_POINTS = scan.CODE_POINTS
EVERY = np.array([point for point in range(CODE_POINTS) if not 0xD800 <= point < 0xE000])  # no surrogates in a text
TEXT = "".join(map(chr, EVERY))
FRAMED = "".join("a" + character for character in TEXT)  # every character between two letters


def _flags(spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Whether each character of TEXT lies in a span: bool[characters]."""
    inside = np.zeros(len(TEXT), dtype=bool)
    for start, end in spans:
        inside[start:end] = True
    return inside


def _matched_by_tokenizers(pattern: str) -> np.ndarray:
    rest = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(TEXT)
    return ~_flags([span for _, span in rest])


def matched_by_regex(pattern: str) -> np.ndarray:
    """Which characters of TEXT `regex` finds the pattern in: bool[characters]."""
    return _flags([found.span() for found in regex.finditer(pattern, TEXT)])


def kept(pre_tokenizer: pre_tokenizers.PreTokenizer) -> np.ndarray:
    """Which characters of TEXT the pre-tokenizer does not drop: bool[characters]."""
    return _flags([span for _, span in pre_tokenizer.pre_tokenize_str(TEXT)])


def _alone_in_bert() -> np.ndarray:
    """Which characters BERT parts from the letter before them: bool[characters]."""
    begins = np.zeros(len(FRAMED), dtype=bool)
    begins[[start for _, (start, _) in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(FRAMED)]] = True
    return begins[1::2]


def _joined_by_whitespace() -> np.ndarray:
    """Which characters Whitespace joins to a letter: bool[characters]. All characters of a run are of one kind."""
    pre_tokenizer = pre_tokenizers.Whitespace()
    runs = [span for _, span in pre_tokenizer.pre_tokenize_str(TEXT)]
    return _flags([span for span in runs if len(pre_tokenizer.pre_tokenize_str("a" + TEXT[span[0]])) == 1])


def probe() -> np.ndarray:
    """The classes of all code points as the installed libraries see them: uint8[0x110000]."""
    members = {
        scan.LETTER: _matched_by_tokenizers(r"\p{L}+"),
        scan.NUMBER: _matched_by_tokenizers(r"\p{N}+"),
        scan.SPACE: _matched_by_tokenizers(r"\s+"),
        scan.WORD: _joined_by_whitespace(),
        scan.PUNCTUATION: _alone_in_bert(),
        scan.SPOKEN: matched_by_regex(rf"(?V1){SPACED_LETTER}+"),
        scan.COUNTED: matched_by_regex(r"\p{N}+"),
        scan.UNSPACED: matched_by_regex(rf"(?V1)[{UNSPACED_SCRIPTS}ー々]+"),
    }
    classes = np.zeros(CODE_POINTS, dtype=np.uint8)
    for flag, member in members.items():
        classes[EVERY[member]] |= flag
    return classes


def packed(classes: np.ndarray) -> str:
    """`classes` as the package carries them (see `scan.code_point_classes`)."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(classes)) + 1])
    lengths = np.diff(np.append(starts, CODE_POINTS)).astype("<u4")
    runs = lengths.tobytes() + classes[starts].tobytes()
    return base64.b85encode(zlib.compress(runs, 9)).decode("ascii")


def _write(text: str, path: Path) -> None:
    """Put the runs in the place of those at the end of the module."""
    lines = [f'    "{text[at : at + 112]}"' for at in range(0, len(text), 112)]
    before = path.read_text(encoding="utf-8").partition("RUNS = (")[0]
    path.write_text("\n".join([f"{before}RUNS = (", *lines, ")", ""]), encoding="utf-8")


if __name__ == "__main__":
    _write(packed(probe()), Path(scan.__file__))
