"""Word vectors in word2vec's binary format: two sizes in a line, then each word, a space, and its numbers as bytes."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from wordpipe.errors import InputError
from wordpipe.words.formats.rows import WordRows, refuse_other_number, up_to_bad

__all__ = ["read_binary"]

_LONGEST = 1 << 16  # bytes of a word
_AT_ONCE = 4 << 20  # bytes looked at at a time, at least


def read_binary(blocks: Iterator[bytes], dim: int, *, size: int, name: str) -> Iterator[WordRows]:
    """Read words and their numbers, some at a time.

    Args:
        blocks: the file's bytes, behind the header.
        dim: numbers per word, little-endian float32.
        size: words that the header promises.
        name: the file, for errors.

    Raises:
        InputError: the file ends early or goes on, a word does not end, or a number is not finite; names the word.
    """
    found, data = 0, b""
    for more in _gathered(blocks, 4 * dim):
        data += more
        rows, used = _read_chunk(data, dim, found, size, name)
        data = data[used:]
        found += len(rows.words)
        yield from up_to_bad(rows, partial(_not_finite, rows, name))
    if data.strip(b"\n") and found < size:
        raise InputError(
            "the file ends in the middle of a word or its numbers",
            where=f"{name}, word {found + 1}",
            got=f"{len(data):,} bytes",
            expected=f"a word, a space and {4 * dim:,} bytes",
            hint="the file is cut short: fetch or make it again",
        )
    refuse_other_number(found + bool(data.strip(b"\n")), size, f"{name}, word {found + 1}")


def _gathered(blocks: Iterator[bytes], width: int) -> Iterator[bytes]:
    """Larger blocks, so that little is left over at their ends."""
    waiting: list[bytes] = []
    held = 0
    for block in blocks:
        waiting.append(block)
        held += len(block)
        if held >= max(_AT_ONCE, 16 * width):
            yield b"".join(waiting)
            waiting, held = [], 0
    yield b"".join(waiting)


def _read_chunk(data: bytes, dim: int, before: int, size: int, name: str) -> tuple[WordRows, int]:
    """The whole words in `data`, `before` others standing before it; and the bytes that they take."""
    words: list[bytes] = []
    numbers: list[bytes] = []
    used, width = 0, 4 * dim
    while before + len(words) < size:
        space = data.find(b" ", used, used + _LONGEST)
        end = space + 1 + width
        if space < 0 and len(data) - used >= _LONGEST:
            where = f"{name}, word {before + len(words) + 1}"
            raise InputError("the word does not end", where=where, expected=f"a space within {_LONGEST:,} bytes")
        if space < 0 or end > len(data):
            break
        words.append(data[used:space].lstrip(b"\n"))  # the line end behind the numbers before, which some leave out
        numbers.append(data[space + 1 : end])
        used = end
    vectors_RD = np.frombuffer(b"".join(numbers), "<f4").astype(np.float32).reshape(-1, dim)
    return WordRows(words, vectors_RD, before + 1 + np.arange(len(words))), used


def _not_finite(rows: WordRows, name: str, row: int) -> InputError:
    shown = rows.words[row][:40].decode(errors="backslashreplace")
    hint = "a word with a space in it, or another width than the header says, looks like this too"
    return InputError("a number is not finite", where=f"{name}, word {rows.places[row]}", got=repr(shown), hint=hint)
