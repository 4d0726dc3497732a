import tracemalloc

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.search_vectors import unit
from wordpipe.search import (
    ClusterTerms,
    all_links,
    assigned,
    choose_k,
    groups_of,
    index_links,
    simplified_silhouette,
    spherical_centres,
)
from wordpipe.search import clustering as module


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
        patch.setattr(module, "_BLOCK", 7)
        patch.setattr(module, "_LINKS", 5)
        patch.setattr(module, "_NEIGHBOURS", 64)
        seen: list[int] = []
        found = groups_of(all_links(vectors_ND, threshold, seen.append), rows)
        blocks = np.array_split(vectors_ND, 3)
        asked = groups_of(index_links(index, blocks, rows, threshold, seen.append), rows)
    for members, linked in (found, asked):
        assert linked == pairs
        assert {frozenset(group.tolist()) for group in members} == groups
    assert [len(group) for group in found[0]] == sorted(map(len, groups), reverse=True)
    assert not rows or seen[-1] == rows


@pytest.mark.slow
def test_memory_is_that_of_a_block_where_every_row_is_near_every_other(monkeypatch):
    monkeypatch.setattr(module, "_LINKS", 1 << 12)
    vectors_ND = unit(3_000, 4, 1)
    groups_of(all_links(vectors_ND[:8], 0.5, lambda _: None), 8)  # imports
    tracemalloc.start()
    groups, pairs = groups_of(all_links(vectors_ND, -1.0, lambda _: None), 3_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (pairs, len(groups)) == (3_000 * 2_999 // 2, 1)
    assert peak < 80e6  # scores 36 MB, masks 27; all links at once took 765


def planted(n: int, k: int, dim: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around k random directions, and which each is around."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, dim))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    of = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    vectors = centres[of] + noise * rng.standard_normal((n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), of


def slow_spherical(vectors_ND: np.ndarray, k: int, seed: int) -> float:
    """The slow twin: the sum of cosines that k-means reaches in plain NumPy from random rows."""
    centres = vectors_ND[np.random.default_rng(seed).permutation(len(vectors_ND))[:k]].astype(np.float64)
    for _ in range(25):
        own = (vectors_ND @ centres.T).argmax(axis=1)
        for c in range(k):
            if (own == c).any():
                centres[c] = vectors_ND[own == c].sum(axis=0)
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return float((vectors_ND @ centres.T).max(axis=1).sum())


@pytest.mark.parametrize(
    ("n", "k", "noise", "seed"), [(300, 7, 0.1, 1), (500, 12, 0.2, 2), (200, 3, 1.0, 3), (400, 20, 0.5, 4)]
)
def test_centres_are_as_good_as_those_of_plain_k_means(n, k, noise, seed):
    vectors_ND, _ = planted(n, k, 32, noise, seed)
    centres_KD = spherical_centres(vectors_ND, k, seed)
    assert np.linalg.norm(centres_KD, axis=1) == pytest.approx(np.ones(k), abs=1e-5)
    reached = float(assigned(vectors_ND, centres_KD)[1].sum())
    usual = np.mean([slow_spherical(vectors_ND, k, start) for start in range(5)])
    assert reached >= usual * 0.99


@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 1000))
def test_every_vector_has_its_nearest_centre(n, k, seed):
    vectors_ND, centres_KD = unit(n, 8, seed), unit(k, 8, seed + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SCORES", 3 * k)
        centre_N, cosine_N = assigned(vectors_ND, centres_KD)
    for vector, centre, cosine in zip(vectors_ND, centre_N, cosine_N, strict=True):
        all_of_them = [float(vector @ other) for other in centres_KD]
        assert all_of_them[centre] == pytest.approx(max(all_of_them), abs=1e-6)
        assert cosine == pytest.approx(max(all_of_them), abs=1e-6)


def test_the_silhouette_is_that_of_its_definition():
    vectors_ND, centres_KD = unit(50, 6, 1), unit(4, 6, 2)
    found = []
    for vector in vectors_ND.astype(np.float64):
        a, b = sorted(1 - vector @ centre for centre in centres_KD.astype(np.float64))[:2]
        found.append((b - a) / max(a, b))
    assert simplified_silhouette(vectors_ND, centres_KD) == pytest.approx(np.mean(found), abs=1e-5)


@pytest.mark.parametrize(("k", "noise"), [(3, 0.05), (7, 0.05), (12, 0.05), (20, 0.1)])
def test_the_number_of_planted_clusters_is_found(k, noise):
    vectors_ND, of = planted(1_500, k, 48, noise, k)
    order = np.random.default_rng(k).permutation(len(of))
    chosen, tried = choose_k(vectors_ND[order], 1, lambda done, total: None)
    assert abs(chosen - k) <= 1 + k // 10, tried  # a beginning of k-means may part one in two
    assert tried[chosen] == max(tried.values())
    centres_KD = spherical_centres(vectors_ND, k, 1)
    own = assigned(vectors_ND, centres_KD)[0]
    largest = sum(np.bincount(own[of == c]).max() for c in range(k))
    assert largest >= 0.85 * len(of)


def test_few_different_vectors_have_few_centres_and_the_same_bytes_every_time():
    vectors_ND = np.repeat(unit(3, 8, 1), 50, axis=0)
    assert len(spherical_centres(vectors_ND, 10, 1)) == 3
    many_ND = unit(2_000, 16, 5, clusters=9)
    assert spherical_centres(many_ND, 9, 4).tobytes() == spherical_centres(many_ND, 9, 4).tobytes()


def test_the_words_of_a_cluster_are_those_that_it_has_more_than_others():
    terms = ClusterTerms.empty(2)
    for _ in range(10):
        terms.add(0, [("the", "the"), ("bee", "bees"), ("hive", "hive"), ("42", "42")])
        terms.add(1, [("the", "the"), ("tide", "tides"), ("moon", "moon")])
    terms.add(0, [("bee", "bee")])
    assert terms.labels(2) == [["bees", "hive"], ["moon", "tides"]]
    # of two words that are both in one cluster alone, the commoner one weighs more
    terms.add(1, [("tide", "tides")])
    assert terms.labels(1)[1] == ["tides"]
    assert [len(words) for words in ClusterTerms.empty(3).labels(5)] == [0, 0, 0]


def test_a_word_that_is_common_everywhere_names_no_cluster_in_any_language():
    terms = ClusterTerms.empty(2)
    for number in range(40):
        kinds = (["alle"] if number % 4 else []) + (["bienen"] if number % 5 == 0 else [])
        terms.add(0, [(word, word) for word in kinds])
        terms.add(1, [(word, word) for word in (["alle"] if number % 3 else ["gezeiten"])])
    assert terms.labels(1) == [["bienen"], ["gezeiten"]]  # though most texts of both have the other word


def test_what_weighs_is_the_log_likelihood_ratio():
    seen = np.array([[7, 3], [2, 28]])
    expected = seen.sum(axis=1, keepdims=True) * seen.sum(axis=0) / seen.sum()
    assert module._surprise(7, 10, 9, 40) == pytest.approx((seen * np.log(seen / expected)).sum())
    assert module._surprise(1, 10, 9, 40) == 0  # rarer than by chance
    assert module._surprise(5, 5, 5, 5) == 0  # a single cluster: nothing is told


@pytest.mark.parametrize(("n", "dim", "k"), [(2_500, 384, 300), (1_100, 129, 446), (40, 5, 40), (3_000, 31, 7)])
def test_centres_of_lists_have_the_same_bytes_for_any_threads(n, dim, k):
    vectors_ND = unit(n, dim, int(np.random.default_rng().integers(1 << 30)), clusters=30)
    found = {module.list_centres(vectors_ND, k, 1, threads).tobytes() for threads in (1, 2, 3, 5)}
    assert len(found) == 1


@pytest.mark.parametrize("seed", range(3))
def test_centres_of_lists_are_those_of_k_means_by_hand(seed):
    vectors_ND = unit(400, 6, seed, clusters=9)
    rng = np.random.default_rng([module._LISTS, seed])
    centres_KD = vectors_ND[np.sort(rng.choice(400, size=8, replace=False))]
    for _ in range(module._LIST_ROUNDS):
        nearest_N = (vectors_ND @ centres_KD.T).argmax(axis=1)
        assert len({*nearest_N.tolist()}) == 8  # a cluster of none is another test's
        centres_KD = np.array([vectors_ND[nearest_N == number].mean(axis=0) for number in range(8)])
        centres_KD /= np.linalg.norm(centres_KD, axis=1, keepdims=True)
    np.testing.assert_allclose(module.list_centres(vectors_ND, 8, seed, 2), centres_KD, atol=1e-5)


def test_centres_of_lists_are_as_near_as_those_of_faiss():
    vectors_ND = unit(4_000, 24, int(np.random.default_rng().integers(1 << 30)), clusters=50)
    kmeans = faiss.Kmeans(24, 60, niter=10, spherical=True, seed=1, min_points_per_centroid=1)
    kmeans.train(vectors_ND)
    ours = assigned(vectors_ND, module.list_centres(vectors_ND, 60, 1, 2))[1].mean()
    assert ours >= assigned(vectors_ND, kmeans.centroids)[1].mean() - 0.02


def test_a_list_without_vectors_gets_half_of_the_largest():
    vectors_ND = np.repeat(unit(5, 8, 1), [300, 30, 30, 30, 10], axis=0)
    centres_KD = module.list_centres(vectors_ND, 12, 3, 2)
    np.testing.assert_allclose(np.linalg.norm(centres_KD, axis=1), 1, atol=1e-6)
    assert len(np.unique(centres_KD, axis=0)) == 12
    assert assigned(vectors_ND, centres_KD)[1].min() > 0.999
