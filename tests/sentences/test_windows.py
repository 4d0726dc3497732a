from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.sentences.batches import padded, token_batches
from wordpipe.sentences.windows import pack_sentences, token_windows


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(1, 40), st.data())
def test_windows_cover_every_token_and_share_the_overlap(length: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    windows = token_windows(length, size, overlap)
    assert {i for start, stop in windows for i in range(start, stop)} == set(range(length))
    assert all(0 < stop - start <= size for start, stop in windows)
    for (_, stop), (start, _) in pairwise(windows):
        assert stop - start == overlap
    assert all(stop < length for _, stop in windows[:-1])  # none but the last reaches the end


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 20), st.integers(0, 9))
def test_passages_are_whole_sentences_that_fit(lengths: list[int], size: int, overlap: int) -> None:
    passages = pack_sentences(np.array(lengths, dtype=np.int64), size, overlap)
    covered = [number for first, stop in passages for number in range(first, stop)]
    assert sorted(set(covered)) == list(range(len(lengths)))
    for first, stop in passages:
        assert sum(lengths[first:stop]) <= size or stop - first == 1
    for (_, stop), (first, end) in pairwise(passages):
        assert first <= stop < end
        assert sum(lengths[first:stop]) <= overlap
    for first, stop in passages[:-1]:
        assert sum(lengths[first : stop + 1]) > size  # it could not have taken one more


def test_passages_by_hand() -> None:
    lengths = np.array([4, 3, 2, 5, 30, 1])
    assert pack_sentences(lengths, 10, 0) == [(0, 3), (3, 4), (4, 5), (5, 6)]
    assert pack_sentences(lengths, 10, 5) == [(0, 3), (1, 4), (4, 5), (5, 6)]
    assert pack_sentences(lengths[:0], 10, 5) == []


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 100))
def test_batches_hold_every_sequence_within_the_budget(lengths: list[int], budget: int) -> None:
    groups = [group.tolist() for group in token_batches(np.array(lengths, dtype=np.int64), budget)]
    assert sorted(number for group in groups for number in group) == list(range(len(lengths)))
    for group in groups:
        assert max(lengths[number] for number in group) * len(group) <= budget or len(group) == 1


def test_padding() -> None:
    ids_BT, mask_BT = padded(np.array([5, 6, 7, 8]), np.array([3, 1]))
    assert ids_BT.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert mask_BT.tolist() == [[True, True, True], [True, False, False]]
