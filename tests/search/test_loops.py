"""The loops of a search: those by NumPy and the compiled ones give the same bits."""

import os
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.search import Hits, hybrid, kernels, loops
from wordpipe.search.lexical import packed_lists

seeds, shares = st.integers(0, 9_999), st.sampled_from([0.0, 0.3, 0.5, 1.0])


def same(one: Hits, other: Hits) -> None:
    for here, there in ((one.rows, other.rows), (one.scores, other.scores)):
        np.testing.assert_array_equal(here, there)
        assert here.dtype == there.dtype


def some_hits(rng: np.random.Generator, n: int, few: int) -> Hits:
    """Hits as a search gives them; of few different scores, so that many are equal."""
    scores = rng.integers(-1, few, n).astype(np.float32) / np.float32(3)
    rows = rng.permutation(3 * n)[:n]
    order = np.lexsort((rows, -scores))
    return Hits(rows[order].astype(np.int64), scores[order])


@settings(deadline=None)
@given(
    seed=seeds,
    n=st.integers(0, 300),
    k=st.integers(-1, 320),
    few=st.integers(1, 40),
    kind=st.sampled_from(["i4", "i8"]),
)
def test_the_best_come_in_one_order(seed, n, k, few, kind):
    rng = np.random.default_rng(seed)
    rows, scores = rng.permutation(n).astype(kind), rng.integers(-2, few, n).astype(np.float32) / np.float32(7)
    same(kernels.best_of(rows, scores, k), loops.best_of(rows, scores, k))
    order = np.lexsort((rows, -scores))[: max(k, 0)]
    np.testing.assert_array_equal(kernels.best_of(rows, scores, k).rows, rows[order])


@settings(deadline=None)
@given(
    seed=seeds, n=st.integers(0, 120), other=st.integers(0, 120), k=st.integers(0, 250), weight=shares,
    few=st.integers(1, 60), candidates=st.sampled_from([1, 8, 100]),
)  # fmt: skip
def test_two_lists_are_fused_alike(seed, n, other, k, weight, few, candidates):
    rng = np.random.default_rng(seed)
    sides = some_hits(rng, n, few), some_hits(rng, other, few)
    same(kernels.fuse(*sides, weight, k, candidates=candidates), loops.fuse(*sides, weight, k, candidates=candidates))


@settings(deadline=None)
@given(seed=seeds, n=st.integers(0, 300), most=st.integers(1, 400))
def test_rows_are_taken_once(seed, n, most):
    rows = np.random.default_rng(seed).integers(0, most, n)
    assert sorted(kernels.distinct(rows).tolist()) == loops.distinct(rows).tolist()


@settings(deadline=None)
@given(seed=seeds, n=st.integers(0, 300), n_texts=st.integers(1, 12), most=st.integers(1, 90))
def test_terms_bring_the_same(seed, n, n_texts, most):
    rng = np.random.default_rng(seed)
    at, numbers = np.sort(rng.integers(0, n_texts, n)), rng.integers(0, most, n).astype(np.int32)
    counts, damping = rng.integers(0, 4, n).astype(np.float32), rng.random(n_texts, np.float32)
    own, gains = kernels.term_gains(at, numbers, counts, damping)
    expected, theirs = loops.term_gains(at, numbers, counts, damping)
    order = np.argsort(own)
    np.testing.assert_array_equal(own[order], expected)
    np.testing.assert_array_equal(gains[order], theirs)


@settings(deadline=None)
@given(seed=seeds, n=st.integers(1, 30), asked=st.integers(0, 20), most=st.sampled_from([2, 5, 300]))
def test_lists_are_unpacked_alike(seed, n, asked, most):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 40, n)
    numbers = np.concatenate([np.sort(rng.permutation(100_000)[:size]) for size in sizes])
    lists = packed_lists.PackedLists.of(sizes, numbers, rng.integers(0, most, len(numbers)))
    wanted = rng.integers(0, n, asked)
    for one, other in zip(lists.some(wanted, kernels), lists.some(wanted, loops), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_copy_of_the_process_has_threads_of_its_own():
    assert hybrid._beside().submit(lambda: 1).result(10) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, for a process with threads
        child = os.fork()
    if not child:  # in the copy, the threads of the original are not there
        os._exit(0 if hybrid._beside().submit(lambda: 1).result(10) == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
