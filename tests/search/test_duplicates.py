import tracemalloc

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.search_vectors import unit
from wordpipe.search import all_links, duplicates, groups_of, index_links


def by_hand(vectors_ND: np.ndarray, threshold: float) -> tuple[int, set[frozenset[int]]]:
    """The slow twin: every pair, and a walk along the links."""
    near = vectors_ND @ vectors_ND.T >= threshold - 1e-6
    pairs = int(np.triu(near, 1).sum())
    groups, left = set(), set(range(len(vectors_ND)))
    while left:
        waiting, group = [left.pop()], set()
        while waiting:
            row = waiting.pop()
            group.add(row)
            new = {int(other) for other in np.flatnonzero(near[row])} & left
            left -= new
            waiting += new
        if len(group) > 1:
            groups.add(frozenset(group))
    return pairs, groups


@settings(max_examples=30)
@given(seed=st.integers(0, 999), rows=st.integers(0, 40), threshold=st.sampled_from([0.3, 0.7, 0.95, 1.0]))
def test_groups_are_those_of_a_walk(seed, rows, threshold):
    vectors_ND = unit(rows, 4, seed)
    vectors_ND[rows // 2 : rows // 2 + 3] = vectors_ND[:3][: len(vectors_ND[rows // 2 : rows // 2 + 3])]
    pairs, groups = by_hand(vectors_ND, threshold)
    index = faiss.IndexFlatIP(4)
    index.add(vectors_ND)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_BLOCK", 7)
        patch.setattr(duplicates, "_LINKS", 5)
        patch.setattr(duplicates, "_NEIGHBOURS", 64)
        seen: list[int] = []
        found = groups_of(all_links(vectors_ND, threshold, seen.append), rows)
        blocks = np.array_split(vectors_ND, 3)
        asked = groups_of(index_links(index, blocks, rows, threshold, seen.append), rows)
    for members, linked in (found, asked):
        assert linked == pairs
        assert {frozenset(group.tolist()) for group in members} == groups
    assert [len(group) for group in found[0]] == sorted(map(len, groups), reverse=True)
    assert not rows or seen[-1] == rows


def test_memory_is_that_of_a_block_where_every_row_is_near_every_other(monkeypatch):
    monkeypatch.setattr(duplicates, "_LINKS", 1 << 12)
    vectors_ND = unit(3_000, 4, 1)
    groups_of(all_links(vectors_ND[:8], 0.5, lambda _: None), 8)  # imports
    tracemalloc.start()
    groups, pairs = groups_of(all_links(vectors_ND, -1.0, lambda _: None), 3_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (pairs, len(groups)) == (3_000 * 2_999 // 2, 1)
    assert peak < 80e6  # scores 36 MB, masks 27; all links at once took 765
