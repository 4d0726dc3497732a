"""Indexes of every kind: built to a recall target, on vectors of several sorts, within the memory that was predicted."""

import dataclasses
import io
from collections.abc import Iterator
from typing import Any

import faiss
import numpy as np
import pytest

from tests.support.search_vectors import Vectors, built, exact, unit
from wordpipe.errors import ArtifactError, BudgetError, ConfigError, DivergedError, InputError
from wordpipe.runtime import forget_peak_memory, peak_memory_bytes
from wordpipe.search import (
    EncodedPart,
    ExactNeighbours,
    Plan,
    VectorIndex,
    build_index,
    encode_part,
    faiss_threads,
    kind_of,
    resident_bytes,
    write_index,
)
from wordpipe.search.settings import KINDS, IndexSettings
from wordpipe.search.vectors import faiss_index as search_index


def as_bytes(index: Any) -> bytes:
    file = io.BytesIO()
    write_index(index, file)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
@pytest.mark.parametrize("seed", range(2))
def test_every_kind_reaches_its_recall_on_queries_that_are_no_rows(kind: str, seed: int) -> None:
    vectors_ND, queries_QD = np.split(unit(4_300, 24, seed, clusters=30), [4_000])
    result = built(vectors_ND, type=kind, recall=0.97, hnsw_m=8, ef_construction=40)
    assert result.kind == kind
    assert result.index.ntotal == 4_000
    assert result.recall_met
    hits = VectorIndex(result.index).search(queries_QD, 10)
    found = [
        len({*hit.rows.tolist()} & {*exact(vectors_ND, query_D, 10)}) / 10
        for query_D, hit in zip(queries_QD, hits, strict=True)
    ]
    assert np.mean(found) == pytest.approx(result.chosen.recall_at_10, abs=0.02)
    assert np.mean(found) >= 0.96


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
def test_rows_are_numbered_as_they_came_though_some_are_withheld(kind: str) -> None:
    vectors_ND = unit(1_200, 16, 11)
    result = built(vectors_ND, type=kind, recall=0.99)
    assert result.held_out == (kind != "flat")
    hits = VectorIndex(result.index).search(vectors_ND, 10)
    assert np.mean([len(hit) and hit.rows[0] == row for row, hit in enumerate(hits)]) >= 0.98
    scores = np.array([hit.scores[0] for hit in hits])
    np.testing.assert_allclose(scores[scores > 0.9], 1, atol=1e-5)


@pytest.mark.parametrize("kind", ["hnsw", "ivf-pq"])
def test_search_widens_until_the_target(kind: str) -> None:
    vectors_ND = unit(3_000, 24, 5)
    low = built(vectors_ND, type=kind, recall=0.3, hnsw_m=4, ef_construction=20)
    high = built(vectors_ND, type=kind, recall=0.95, hnsw_m=4, ef_construction=20)
    assert low.chosen.width.search < high.chosen.width.search
    assert low.chosen.recall_at_10 < 0.95 <= high.chosen.recall_at_10
    assert high.chosen in high.curve
    width = high.index.hnsw.efSearch if kind == "hnsw" else faiss.extract_index_ivf(high.index).nprobe
    assert width == high.chosen.width.search


def test_a_given_width_is_kept_and_the_miss_is_said() -> None:
    vectors_ND = unit(3_000, 24, 6)
    result = built(vectors_ND, type="ivf-pq", nlist=50, nprobe=1, refine=4)
    assert (result.chosen.width.search, result.recall_met, len(result.curve)) == (1, False, 1)
    assert result.chosen.recall_at_10 < 0.95


def test_auto_is_exact_below_its_bound_and_falls_back_to_exact_when_a_graph_misses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors_ND = unit(500, 16, 7)
    assert built(vectors_ND).kind == "flat"
    monkeypatch.setattr(search_index, "_FLAT_BELOW", 100)
    easy = built(vectors_ND)
    assert (easy.kind, easy.tried) in (("ivf-pq", ()), ("flat", ("ivf-pq",)))
    hard = built(vectors_ND, recall=1.0, nprobe=1, refine=1)
    assert (hard.kind, hard.tried, hard.recall_met) == ("flat", ("ivf-pq",), True)


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
def test_the_seed_decides_and_one_thread_gives_the_same_bytes(kind: str) -> None:
    vectors_ND = unit(1_100, 16, 8)
    first, other = (built(vectors_ND, type=kind, seed=seed) for seed in (3, 4))
    assert first.bitwise
    assert (as_bytes(first.index) != as_bytes(other.index)) == (kind != "flat")
    assert built(vectors_ND, type=kind, threads=2).bitwise == (kind == "flat")


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_small_numbers_of_vectors_work(kind: str, n: int) -> None:
    vectors_ND = unit(n, 5, n)
    result = built(vectors_ND, type=kind)
    assert result.recall_met
    assert [hit.rows[0] for hit in VectorIndex(result.index).search(vectors_ND, 3)] == list(range(n))


def test_equal_vectors_do_not_spoil_the_recall() -> None:
    vectors_ND = np.repeat(unit(40, 8, 1), 50, axis=0)
    for kind in ("hnsw", "ivf-pq"):
        assert built(vectors_ND, type=kind).chosen.recall_at_10 >= 0.95


def test_vectors_are_brought_to_length_one() -> None:
    vectors_ND = unit(300, 8, 2)
    result = built(vectors_ND * 7)
    np.testing.assert_allclose(result.index.reconstruct_n(0, 300), vectors_ND, atol=1e-6)
    kept = built(vectors_ND)
    np.testing.assert_array_equal(kept.index.reconstruct_n(0, 300), vectors_ND)


@pytest.mark.parametrize("poison", [np.nan, np.inf, 0.0])
@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
def test_vectors_without_a_direction_are_refused_by_row(kind: str, poison: float) -> None:
    vectors_ND = unit(900, 8, 3)
    vectors_ND[[750, 801]] = poison
    with pytest.raises(DivergedError, match="row 750, 801"):
        built(vectors_ND, type=kind, block=700)


def test_nothing_to_index_and_a_wrong_count_are_errors() -> None:
    with pytest.raises(InputError, match="no vectors"):
        built(unit(0, 8, 1))
    for n in (6, 8):
        with pytest.raises((ArtifactError, ConfigError), match="got 7"):
            build_index(lambda: iter([unit(7, 8, 1)]), n, 8, IndexSettings(threads=1))
    with pytest.raises(ConfigError, match="nlist is larger than the number of vectors"):
        built(unit(1_000, 8, 1), type="ivf-pq", nlist=1_001)


def test_what_stops_the_work_leaves_the_threads_as_they_were() -> None:
    def blocks() -> Iterator[Vectors]:
        yield unit(10, 8, 1)
        raise KeyboardInterrupt

    threads = faiss.omp_get_max_threads()
    with pytest.raises(KeyboardInterrupt):
        build_index(blocks, 20, 8, IndexSettings(threads=1))
    assert faiss.omp_get_max_threads() == threads


def test_exact_neighbours_over_blocks_are_those_of_brute_force() -> None:
    vectors_ND = unit(400, 6, 4)
    rows = np.array([0, 5, 399])
    truth = ExactNeighbours(vectors_ND[rows], depth=10)
    for some in np.array_split(np.setdiff1d(np.arange(400), rows), 5):
        truth.look_at(some, vectors_ND[some])
    for row, scores in zip(rows, truth.scores, strict=True):
        others = np.delete(vectors_ND @ vectors_ND[row], rows)
        np.testing.assert_allclose(scores, np.sort(others)[::-1][:10], atol=1e-6)


def test_a_result_is_plain_data() -> None:
    result = built(unit(1_000, 4, 1), type="ivf-pq")
    assert dataclasses.asdict(result.curve[0]).keys() == {"width", "recall_at_10", "queries_per_s"}
    assert result.chosen.queries_per_s > 0
    assert result.exact_queries_per_s


def decaying(n: int, dim: int, seed: int) -> Vectors:
    """Few directions carry most, as in sentence vectors."""
    vectors_ND = np.random.default_rng(seed).standard_normal((n, dim)) * np.arange(1, dim + 1) ** -0.7
    return np.ascontiguousarray(vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True), dtype=np.float32)


SPACES = {
    "clusters": lambda: unit(3_200, 32, 1, clusters=25),
    "no structure": lambda: unit(3_200, 32, 2),
    "few directions": lambda: decaying(3_200, 32, 3),
    "a hundred times the same": lambda: np.repeat(unit(32, 32, 4), 100, axis=0),
}


@pytest.mark.parametrize("space", SPACES)
def test_auto_reaches_its_target_on_foreign_queries_of_every_space(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "_FLAT_BELOW", 1_000)
    everything = np.random.default_rng(9).permutation(SPACES[space]())
    vectors_ND, queries_QD = np.split(everything, [3_000])
    result = built(vectors_ND)
    least_Q = np.sort(queries_QD @ vectors_ND.T, axis=1)[:, -10]
    hits = VectorIndex(result.index).search(queries_QD, 10)
    found = np.mean([(hit.scores >= least - 1e-5).sum() / 10 for hit, least in zip(hits, least_Q, strict=True)])
    assert result.recall_met
    assert found >= 0.93  # 200 queries know it to 0.015


def test_the_threads_are_as_before() -> None:
    with faiss_threads(2):
        kind_of("ivf-pq")(2_000, 16, IndexSettings(type="ivf-pq")).learn(unit(2_000, 16, 1))
        assert faiss.omp_get_max_threads() == 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_every_kind_is_foretold(kind: str) -> None:
    vectors_ND = unit(3_000, 64, 1, clusters=20)
    result = built(vectors_ND, type=kind, ef_construction=10, hnsw_m=16, recall=0.5)
    assert result.plan is not None
    assert result.plan.index_bytes == pytest.approx(len(faiss.serialize_index(result.index)), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flat", "ivf-pq", "hnsw"])
def test_the_peak_is_foretold_within_a_fifth(kind: str) -> None:
    vectors_ND = unit(100_000, 256, 1, clusters=200)
    resident = resident_bytes()
    forget_peak_memory()
    result = built(vectors_ND, type=kind, ef_construction=10, hnsw_m=8, block=8192, recall=0.5)
    assert result.plan is not None
    assert result.plan.memory_bytes - resident == pytest.approx(peak_memory_bytes() - resident, rel=0.2, abs=100e6)


def test_what_needs_too_much_is_refused_and_nothing_else() -> None:
    plan = Plan.of_build(kind_of("ivf-pq")(1_000_000, 32, IndexSettings(threads=1)))
    assert plan.memory_bytes > plan.index_bytes > 1_000_000 * 32 * 4
    plan.refuse_above(None)
    plan.refuse_above(plan.memory_bytes)
    with pytest.raises(BudgetError, match=r"memory of the ivf-pq index is above .* at most 100 MB"):
        plan.refuse_above(100_000_000)


def test_what_follows_the_index_counts_where_it_needs_more() -> None:
    kind = kind_of("ivf-pq")(50_000, 32, IndexSettings(threads=1))
    alone = Plan.of_build(kind)
    assert Plan.of_build(kind, 1 << 20).memory_bytes == pytest.approx(alone.memory_bytes, rel=0.05)
    assert Plan.of_build(kind, 1 << 32).memory_bytes > 1 << 32
    assert Plan.of_build(kind, 0, 1 << 20).memory_bytes == pytest.approx(alone.memory_bytes, rel=0.05)
    assert Plan.of_build(kind, 0, 1 << 32).memory_bytes > 1 << 32


def test_an_update_needs_the_index_and_what_is_read() -> None:
    plan = Plan.of_update(kind_of("ivf-pq")(100_000, 64, IndexSettings()))
    assert plan.memory_bytes > plan.index_bytes > 100_000 * 64 * 4


def test_more_vectors_need_more_of_both() -> None:
    for kind in map(kind_of, KINDS):
        plans = [Plan.of_build(kind(n, 32, IndexSettings(threads=1))) for n in (30_000, 300_000)]
        assert plans[0].index_bytes < plans[1].index_bytes
        assert plans[0].memory_bytes < plans[1].memory_bytes


class Apart:
    """The vectors in some parts, encoded in no order; and the lists that were learned before."""

    memory_bytes = 1 << 20

    def __init__(self, vectors_ND: Vectors, seed: int, learned: Any = None) -> None:
        self._vectors_ND, self._learned, self._rng = vectors_ND, learned, np.random.default_rng(seed)

    def learned(self) -> Any:
        return self._learned

    def encoded(self, lists: Any, query_rows: Any, queries_QD: Vectors) -> Iterator[EncodedPart]:
        n = len(self._vectors_ND)
        bounds = [0, *np.sort(self._rng.integers(n, size=5)).tolist(), n]
        found = {}
        for number in self._rng.permutation(len(bounds) - 1).tolist():
            blocks = np.array_split(self._vectors_ND[bounds[number] : bounds[number + 1]], 3)
            with faiss_threads(1):
                found[number] = encode_part(lists, blocks, bounds[number], query_rows, queries_QD)
        return (found[number] for number in sorted(found))


@pytest.mark.parametrize(("n", "dim", "settings"), [(1_000, 6, {}), (3_000, 24, {"nlist": 3}), (2_000, 33, {})])
def test_lists_filled_part_by_part_are_those_of_one_add(n: int, dim: int, settings: dict[str, Any]) -> None:
    seed = int(np.random.default_rng().integers(1 << 30))
    vectors_ND = unit(n, dim, seed, clusters=20)
    whole = built(vectors_ND, type="ivf-pq", **settings)
    for threads in (1, 3):
        ours = built(vectors_ND, type="ivf-pq", threads=threads, parts=Apart(vectors_ND, seed), **settings)
        assert as_bytes(ours.index) == as_bytes(whole.index)
        assert ours.held is not None
        assert whole.held is not None
        np.testing.assert_array_equal(ours.held["near"], whole.held["near"])
        np.testing.assert_allclose(ours.held["score"], whole.held["score"], atol=1e-6)
        assert ours.bitwise
        assert ours.exact_queries_per_s


def test_what_was_learned_before_is_not_learned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_ND = unit(1_500, 16, 21)
    before = kind_of("ivf-pq")(1_500, 16, IndexSettings(type="ivf-pq"))
    with faiss_threads(1):
        before.learn(unit(1_500, 16, 22))  # other vectors
    monkeypatch.setattr(kind_of("ivf-pq"), "learn", None)
    centroids = faiss.downcast_index(before.lists.quantizer).reconstruct_n()
    ours = built(vectors_ND, type="ivf-pq", parts=Apart(vectors_ND, 1, faiss.clone_index(before.lists)))
    assert ours.recall_met
    quantizer = faiss.downcast_index(faiss.extract_index_ivf(ours.index).quantizer)
    np.testing.assert_array_equal(quantizer.reconstruct_n(), centroids)
    assert ours.index.ntotal == 1_500
