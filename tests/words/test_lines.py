import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.words.texts import Doc, batches, documents
from wordpipe.words.lines import LineCutter, Lines, read_lines
from wordpipe.words.vocabulary import Vocabulary


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
@given(st.lists(st.lists(st.integers(0, 9), max_size=11), max_size=6), st.integers(1, 4), st.randoms())
def test_cutter_matches_the_slow_twin(texts: list[list[int]], size: int, random: object) -> None:
    words = [word for text in texts for word in text]
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    cutter, pieces, first = LineCutter(size), [], 0
    pending = list(starts)
    while first < len(words) or pending:
        stop = min(len(words), first + random.randint(0, 5))  # type: ignore[attr-defined]
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


@pytest.mark.parametrize("context", ["sentence", "document"])
@settings(deadline=None)
@given(docs=documents(), rows=st.integers(1, 4), dropped=st.sets(st.integers(1, 11)))
def test_lines_are_the_kept_words_of_each_text(context: str, docs: list[Doc], rows: int, dropped: set[int]) -> None:
    counts = np.array([0 if i in dropped else 20 - i for i in range(12)])
    vocabulary = Vocabulary.keep(counts, 1)
    rows_of_text = batches(docs, rows=rows)
    lines = read_lines(rows_of_text, vocabulary, column="word_ids", context=context, split="train")  # type: ignore[arg-type]
    texts = [[w for s in doc for w in s] for doc in docs] if context == "document" else [s for doc in docs for s in doc]
    expected = [[int(vocabulary.row_of_id[w]) for w in text if w not in dropped] for text in texts]
    assert as_lists(list(lines)) == [line for line in expected if line]


def test_only_the_split_asked_for_is_read() -> None:
    docs, splits = [[[0, 1]], [[2]], [[3, 4]]], ["train", "valid", "train"]
    vocabulary = Vocabulary.keep(np.array([9, 8, 7, 6, 5]), 1)
    read = read_lines(batches(docs, splits=splits), vocabulary, column="word_ids", context="document", split="valid")
    assert as_lists(list(read)) == [[2]]
