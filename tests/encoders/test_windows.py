"""Windows of tokens and of sentences, batches and runs."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tiny_encoder import token_windows
from wordpipe.encoders import frame, gathered, pack_sentences, padded, runs_of, token_batches


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
@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=30), st.integers(1, 20), st.integers(0, 9))
def test_a_full_passage_ends_with_a_paragraph_of_its_second_half(
    sentences: list[tuple[int, bool]], size: int, overlap: int
) -> None:
    lengths, ends = (
        np.array([one for one, _ in sentences], dtype=np.int64),
        np.array([end for _, end in sentences], bool),
    )
    passages = pack_sentences(lengths, size, overlap, ends)
    covered = {number for first, stop in passages for number in range(first, stop)}
    assert covered == set(range(len(lengths)))
    for first, stop in passages:
        assert lengths[first:stop].sum() <= size or stop - first == 1
    for (begun, stop), (first, end) in pairwise(passages):
        assert first <= stop < end
        assert lengths[begun : stop + 1].sum() > size or ends[stop - 1]  # it is full, or a paragraph ends
        if ends[stop - 1] and 2 * lengths[begun:stop].sum() >= size:
            assert first == stop  # the next one begins with a paragraph
        else:  # no paragraph ends in its second half
            held = np.cumsum(lengths[begun:stop])
            assert not any(ends[begun + n] and 2 * held[n] >= size for n in range(stop - begun))


def test_paragraphs_by_hand() -> None:
    lengths, ends = np.array([4, 3, 2, 5, 30, 1]), np.array([False, True, False, True, False, False])
    assert pack_sentences(lengths, 10, 5, ends) == [(0, 2), (2, 4), (4, 5), (5, 6)]


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


LENGTHS = st.lists(st.integers(0, 30), max_size=12)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 12), st.integers(0, 11), st.integers(0, 2), st.integers(0, 2))
def test_windows_are_those_of_each_text_by_itself(lengths, size, overlap, n_before, n_after):
    overlap = min(overlap, size - 1)
    ids = np.arange(100, 100 + sum(lengths))
    before, after = [1, 2][:n_before], [3, 4][:n_after]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    found = frame(ids, offsets, size=size, overlap=overlap, before=before, after=after)
    windows, firsts, counts = [], [], []
    for start, length in zip(offsets, lengths, strict=False):
        spans = token_windows(length, size, overlap)
        windows += [[*before, *ids[start + one : start + stop].tolist(), *after] for one, stop in spans]
        firsts += [one for one, _ in spans]
        counts.append(len(spans))
    assert found.counts.tolist() == counts
    assert found.firsts.tolist() == firsts
    assert found.lengths.tolist() == [len(window) for window in windows]
    assert found.tokens.tolist() == [len(window) - n_before - n_after for window in windows]
    assert [found.ids[a : a + n].tolist() for a, n in zip(found.starts, found.lengths, strict=True)] == windows


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), max_size=30), st.integers(1, 100))
def test_batches_hold_every_sequence_once_within_the_budget(lengths, budget):
    lengths = np.array(lengths, dtype=np.int64)
    groups = [*token_batches(lengths, budget)]
    assert sorted(number for group in groups for number in group) == [*range(len(lengths))]
    for group in groups:
        assert len(group) == 1 or len(group) * lengths[group].max() <= budget
        runs = runs_of(lengths[group])
        assert [length for count, length in runs for _ in range(count)] == lengths[group].tolist()
        assert len(runs) == len({length for _, length in runs})


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=9))
def test_pieces_are_gathered_and_padded(pieces):
    starts, lengths = (np.array(numbers, dtype=np.int64) for numbers in zip(*pieces, strict=True))
    values = np.arange(1, 40)
    ids_N = gathered(values, starts, lengths)
    ids_ST, real_ST = padded(ids_N, lengths)
    for number, (start, length) in enumerate(pieces):
        piece = values[start : start + length]
        assert ids_ST[number, :length].tolist() == piece.tolist()
        assert not ids_ST[number, length:].any()
        assert real_ST[number].sum() == length
    assert runs_of(np.zeros(0, np.int64)) == []
