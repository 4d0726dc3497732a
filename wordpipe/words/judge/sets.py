"""Sets of word pairs that people have scored, and of analogy questions, read from text.

A similarity set has a line per pair: two words and a score, parted by tabs, commas or spaces. What stands between the words
and the first number (a part of speech), or after it, is not looked at, and the first line may be a header of as many fields.
An analogy set begins with a line `: name of a section`, and has four words a line. Empty lines and lines that begin with `#`
say nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError

__all__ = ["Pairs", "Questions", "read_set"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?")
_SHOWN = 60  # characters of a wrong line


@dataclass(frozen=True, slots=True)
class Pairs:
    """P pairs of words.

    Attributes:
        words: the two words of each.
        scores: how alike people found them, float64, in any unit.
    """

    words: list[tuple[str, str]]
    scores: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Questions:
    """Q analogies: the first word is to the second as the third is to the fourth.

    Attributes:
        words: the four words of each.
        section_of: the section of each, a place in `sections`.
        sections: their names, all different.
    """

    words: list[tuple[str, str, str, str]]
    section_of: list[int]
    sections: list[str]


def read_set(data: bytes, where: str) -> Pairs | Questions:
    """Read a set; what it holds says of which kind it is.

    Args:
        data: the file, UTF-8.
        where: its name, for messages.

    Raises:
        InputError: not text, nothing in it, or a line that does not belong; names file and line.
    """
    lines = list(_lines(data, where))
    if lines and lines[0][1].startswith(":"):
        return _questions(lines, where)
    return _pairs(lines, where)


def _lines(data: bytes, where: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, with their numbers from 1."""
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        try:
            line = raw.decode().strip()
        except UnicodeDecodeError as error:
            hint = "convert it first: iconv -f LATIN1 -t UTF-8; or unpack it"
            raise InputError("not UTF-8 text", where=f"{where}:{number}", got=error.reason, hint=hint) from None
        if line and not line.startswith("#"):
            yield number, line


def _questions(lines: list[tuple[int, str]], where: str) -> Questions:
    sections: dict[str, int] = {}
    words: list[tuple[str, str, str, str]] = []
    section_of: list[int] = []
    section = 0
    for number, line in lines:
        if line.startswith(":"):
            section = sections.setdefault(line.removeprefix(":").strip(), len(sections))
            continue
        match line.split():
            case [a, b, c, d]:
                words.append((a, b, c, d))
                section_of.append(section)
            case _:
                raise _wrong(where, number, line, "four words, or a section that begins with a colon")
    if not words:
        raise InputError("there is no question in it", where=where, expected="four words a line")
    return Questions(words, section_of, list(sections))


def _pairs(lines: list[tuple[int, str]], where: str) -> Pairs:
    words: list[tuple[str, str]] = []
    scores: list[float] = []
    for place, (number, line) in enumerate(lines):
        first, second, *rest = [*_fields(line), "", ""]
        score = next((float(text) for text in rest if _NUMBER.fullmatch(text)), None)
        if score is not None and first and second:
            words.append((first, second))
            scores.append(score)
        elif place or not _is_header(lines):
            expected = "two words and a score; analogies begin with a line such as ': family'"
            raise _wrong(where, number, line, expected)
    if not words:
        raise InputError("there is no pair of words in it", where=where, expected="two words and a score a line")
    return Pairs(words, np.array(scores, dtype=np.float64))


def _is_header(lines: list[tuple[int, str]]) -> bool:
    """Whether the first line, which has no score, can name the columns of the next."""
    return len(lines) > 1 and len(_fields(lines[0][1])) == len(_fields(lines[1][1]))


def _fields(line: str) -> list[str]:
    separator = next((one for one in "\t," if one in line), None)
    return [field.strip() for field in line.split(separator)]


def _wrong(where: str, number: int, line: str, expected: str) -> InputError:
    shown = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
    return InputError("this line does not belong", where=f"{where}:{number}", got=repr(shown), expected=expected)
