import heapq
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.words.kernels.draws_and_huffman import Tree

Paths = list[list[tuple[int, float]]]


def paths_of(tree: Tree) -> Paths:
    """The turns of every word: node and sign."""
    turns = list(zip(tree.path_nodes.tolist(), tree.path_signs.tolist(), strict=True))
    return [turns[first:stop] for first, stop in zip(tree.path_starts[:-1], tree.path_starts[1:], strict=True)]


def least_cost(counts: list[int]) -> int:
    """Turns of all occurrences in an optimal tree: the sum of the weights of its inner nodes."""
    heap, cost = sorted(counts), 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        cost += joined
        heapq.heappush(heap, joined)
    return cost


descending = st.lists(st.integers(0, 1_000), min_size=1, max_size=60).map(lambda some: sorted(some, reverse=True))


@settings(deadline=None)
@given(descending)
def test_paths_are_the_shortest_there_are_and_end_at_one_word_each(counts: list[int]) -> None:
    tree = Tree.of(np.array(counts))
    paths = paths_of(tree)
    assert sum(count * len(path) for count, path in zip(counts, paths, strict=True)) == least_cost(counts)
    assert len({*map(tuple, paths)}) == len(counts)
    for one in paths:
        assert sum(other[: len(one)] == one for other in paths) == 1  # no word's path begins another's
    children: dict[tuple[int, float], int] = {}
    for path in paths:
        assert path == [] or path[0][0] == 0
        for turn, (node, _) in pairwise(path):
            assert children.setdefault(turn, node) == node  # a turn leads to one place
    assert {node for path in paths for node, _ in path} == set(range(len(counts) - 1))


@settings(deadline=None)
@given(descending, st.integers(0, 1_000))
def test_the_likelihoods_of_all_words_sum_to_one(counts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes_ND, hidden_D = rng.standard_normal((max(len(counts) - 1, 1), 5)) * 2, rng.standard_normal(5)
    tree = Tree.of(np.array(counts))
    total = 0.0
    for path in paths_of(tree):
        total += np.prod([1 / (1 + np.exp(-sign * (hidden_D @ nodes_ND[node]))) for node, sign in path])
    assert total == pytest.approx(1)


def test_one_word_and_two() -> None:
    assert paths_of(Tree.of(np.array([7]))) == [[]]
    assert paths_of(Tree.of(np.array([7, 3]))) == [[(0, -1.0)], [(0, 1.0)]]


def test_equal_counts_give_a_balanced_tree_and_always_the_same() -> None:
    first, again = Tree.of(np.full(13, 4)), Tree.of(np.full(13, 4))
    lengths = np.diff(first.path_starts)
    assert set(lengths.tolist()) == {3, 4}
    np.testing.assert_array_equal(first.path_nodes, again.path_nodes)
    np.testing.assert_array_equal(first.path_signs, again.path_signs)


def test_types_are_those_of_the_trainer() -> None:
    tree = Tree.of(np.arange(9, 0, -1))
    assert [tree.path_starts.dtype, tree.path_nodes.dtype, tree.path_signs.dtype] == [np.int64, np.int32, np.float32]


def test_counts_that_are_not_descending_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="descending"):
        Tree.of(np.array([1, 2]))


def test_a_large_vocabulary_has_paths_within_shannons_bounds() -> None:
    counts = (1e9 / np.arange(1, 300_001)).astype(np.int64)
    tree = Tree.of(counts)
    entropy = -np.sum(counts / counts.sum() * np.log2(counts / counts.sum()))
    mean = float((counts * np.diff(tree.path_starts)).sum() / counts.sum())
    assert entropy <= mean < entropy + 1
