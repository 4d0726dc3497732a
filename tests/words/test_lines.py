from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.words.lines import LineCutter, Lines, cut_lines
from wordpipe.words.text import Words


def as_lists(pieces: list[Lines]) -> list[list[int]]:
    lines = []
    for piece in pieces:
        assert piece.lengths.sum() == len(piece.rows)
        ends = np.cumsum(piece.lengths)
        lines += [part.tolist() for part in np.split(piece.rows, ends[:-1]) if len(part)]
    return lines


def cut(texts: list[list[int]], size: int) -> list[list[int]]:
    """The slow twin: every text cut after every `size` words."""
    return [text[i : i + size] for text in texts for i in range(0, len(text), size)]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=11), max_size=6),
    st.integers(1, 4),
    st.builds(Random, st.integers(0, 999)),
)
def test_cutter_matches_the_slow_twin(texts: list[list[int]], size: int, random: Random) -> None:
    words = [word for text in texts for word in text]
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    cutter, pieces, first = LineCutter(size), [], 0
    pending = list(starts)
    while first < len(words) or pending:
        stop = min(len(words), first + random.randint(0, 5))
        if stop == first == len(words):
            stop = first
        here = [s for s in pending if s < stop or (stop == len(words) and s <= stop)]
        pending = pending[len(here) :]
        pieces.append(cutter.feed(np.array(words[first:stop], dtype=np.int32), np.array(here, dtype=np.int64) - first))
        first = stop
    pieces.append(cutter.finish())
    assert as_lists(pieces) == cut(texts, size)
    assert sum(piece.texts for piece in pieces) == sum(bool(text) for text in texts)
    assert cutter.finish().texts == 0


def test_lines_of_a_text_in_blocks() -> None:
    blocks = [Words(np.arange(3, dtype=np.int32), np.array([0])), Words(np.arange(3, 6, dtype=np.int32), np.array([1]))]
    assert as_lists(list(cut_lines(blocks))) == [[0, 1, 2, 3], [4, 5]]
