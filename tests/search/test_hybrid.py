"""Hybrid search: fused scores, relevance feedback, and how deep each mode searches."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.search import Hits, Retriever, VectorTable, best_of, fuse, weight_by_merit, with_feedback

found = st.dictionaries(st.integers(0, 20), st.integers(-9, 9).map(lambda step: step / 8), max_size=12)


def hits_of(scores: dict[int, float]) -> Hits:
    return best_of(np.array([*scores], dtype=np.int64), np.array([*scores.values()], dtype=np.float32), len(scores))


def normalised(scores: dict[int, float]) -> dict[int, float]:
    low, high = min(scores.values(), default=0), max(scores.values(), default=0)
    return {row: (score - low) / (high - low) if high > low else 1.0 for row, score in scores.items()}


@settings(max_examples=40)
@given(dense=found, lexical=found, weight=st.floats(0.05, 0.95), k=st.integers(1, 30))
def test_a_fusion_is_the_weighted_sum_row_by_row(dense, lexical, weight, k):
    one, other = normalised(dense), normalised(lexical)
    expected = {row: weight * one.get(row, 0) + (1 - weight) * other.get(row, 0) for row in {*one, *other}}
    mixed = fuse(hits_of(dense), hits_of(lexical), weight, k)
    assert len(mixed) == min(k, len(expected))
    np.testing.assert_allclose(mixed.scores, sorted(expected.values(), reverse=True)[:k], atol=1e-5)
    np.testing.assert_allclose(mixed.scores, [expected[row] for row in mixed.rows.tolist()], atol=1e-5)


@settings(max_examples=40)
@given(dense=found, lexical=found)
def test_at_the_ends_one_side_answers_alone(dense, lexical):
    near, worded = hits_of(dense), hits_of(lexical)
    assert fuse(near, worded, 1, 30).rows.tolist() == near.rows.tolist()
    assert fuse(near, worded, 0, 30).rows.tolist() == worded.rows.tolist()


@settings(max_examples=60)
@given(
    dense=st.lists(st.floats(-1, 1, width=16), max_size=40),
    lexical=st.lists(st.floats(0, 9, width=16), max_size=40),
    seed=st.integers(0, 99),
    weight=st.floats(0, 1),
    k=st.integers(1, 30),
    more=st.integers(0, 30),
)
def test_asked_for_more_the_fusion_begins_with_what_it_was(dense, lexical, seed, weight, k, more):
    """Sides as they come of a search: the first of one order, as many as are asked for, at least the candidates."""
    rng = np.random.default_rng(seed)
    sides = [hits_of(dict(zip(rng.permutation(60).tolist(), some, strict=False))) for some in (dense, lexical)]

    def mixed(wanted: int) -> Hits:
        return fuse(*(side.first(max(wanted, 8)) for side in sides), weight, wanted, candidates=8)

    few, many = mixed(k), mixed(k + more).first(k)
    assert many.rows.tolist() == few.rows.tolist()
    np.testing.assert_array_equal(many.scores, few.scores)


def test_ties_come_in_the_order_of_rows_also_at_the_border():
    rows, scores = np.array([9, 3, 7, 5]), np.float32([1, 1, 2, 1])
    assert best_of(rows, scores, 2).rows.tolist() == [7, 3]
    assert best_of(rows, scores, 9).rows.tolist() == [7, 3, 5, 9]
    assert len(best_of(rows, scores, 0)) == 0


@given(dense=st.floats(0, 1), lexical=st.floats(0, 1))
def test_the_weight_goes_to_the_side_that_finds(dense, lexical):
    weight = weight_by_merit(dense, lexical)
    assert 0 <= weight <= 1
    assert weight + weight_by_merit(lexical, dense) == pytest.approx(1)
    assert (weight >= 0.5) == (dense**2 >= lexical**2)
    assert weight_by_merit(0.3, 0.4) == pytest.approx(9 / 25)


def hits(*rows: int) -> Hits:
    return Hits(np.array(rows, dtype=np.int64), np.linspace(1, 0.5, len(rows)).astype(np.float32))


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def drawn():
    """Four queries, thirty rows, and six hits of each."""
    rng = np.random.default_rng(0)
    queries, rows = (unit(rng.standard_normal((n, 7))).astype(np.float32) for n in (4, 30))
    return queries, rows, [hits(*rng.permutation(30)[:6].tolist()) for _ in range(4)]


def test_a_query_becomes_the_sum_of_itself_and_the_direction_of_its_first_hits(drawn):
    queries, rows, found = drawn
    vectors, feedback = with_feedback(queries, found, VectorTable(rows), take=3)
    for number, (own, one) in enumerate(zip(found, feedback, strict=True)):
        pull = sum(rows[row].astype(np.float64) / rank for rank, row in enumerate(own.rows[:3].tolist(), start=1))
        assert vectors[number] == pytest.approx(unit(queries[number] + unit(pull)), abs=1e-6)
        np.testing.assert_allclose(one.kept * queries[number] + one.pull, vectors[number], atol=1e-7)
        assert one.rows.tolist() == own.rows[:3].tolist()


def test_alone_a_query_moves_as_it_does_among_others(drawn):
    queries, rows, found = drawn
    together, _ = with_feedback(queries, found, VectorTable(rows))
    for number in range(len(queries)):
        alone, _ = with_feedback(queries[number : number + 1], found[number : number + 1], VectorTable(rows))
        np.testing.assert_array_equal(alone[0], together[number])


def test_without_hits_or_without_a_vector():
    east, north = np.eye(2, dtype=np.float32)
    read = []

    class Read(VectorTable):
        def vectors(self, rows_R):
            read.append(rows_R.tolist())
            return super().vectors(rows_R)

    queries = np.stack([east, np.zeros(2, np.float32), east, east])
    dense = Read(np.stack([north, -north, -east]))
    vectors, feedback = with_feedback(queries, [hits(), hits(0), hits(2), hits(1, 0)], dense, take=1)
    assert read == [[1, 2]]  # ascending, each once; what is not looked at is not read
    np.testing.assert_array_equal(vectors[:3], queries[:3])  # nothing found, no vector, found its contrary
    assert [one.kept for one in feedback[:3]] == [1, 1, 1]
    assert not any(one.pull.any() for one in feedback[:3])
    assert vectors[3] == pytest.approx(unit(np.float32([1, -1])))


def test_no_queries():
    vectors, feedback = with_feedback(np.zeros((0, 3), np.float32), [], VectorTable(np.ones((2, 3), np.float32)))
    assert vectors.shape == (0, 3)
    assert feedback == []


ROWS, D = 900, 4


class ByChance:
    """One side of a search: scores by chance, the same for every depth; remembers how many queries wanted how many rows."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._vectors_ND = unit(np.random.default_rng(seed).standard_normal((ROWS, D))).astype(np.float32)
        self.calls: list[tuple[int, int]] = []

    def search(self, queries: Sequence[str | np.ndarray], k: int, allowed: None = None) -> list[Hits]:
        """By texts or by vectors, each of which has a seed of its own."""
        assert allowed is None
        self.calls.append((len(queries), k))
        keys = [query.encode() if isinstance(query, str) else query.tobytes() for query in queries]
        scores = [np.random.default_rng([self._seed, *key]).random(ROWS, dtype=np.float32) for key in keys]
        return [best_of(np.arange(ROWS), some, k) for some in scores]

    def vectors(self, rows_R: np.ndarray) -> np.ndarray:
        return self._vectors_ND[rows_R]


def retriever(mode: str, **more) -> tuple[Retriever, ByChance]:
    dense, lexical = ByChance(1), ByChance(2)
    return Retriever(dense if mode != "lexical" else None, lexical if mode != "dense" else None, 0.4, **more), dense


def queries(n: int) -> np.ndarray:
    return unit(np.random.default_rng(7).standard_normal((n, D))).astype(np.float32)


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
@pytest.mark.parametrize("feedback", [0, 3])
def test_asked_for_more_a_result_begins_with_what_it_was(mode, feedback):
    made, _ = retriever(mode, feedback=feedback)
    (longest,) = made.find(["a"], queries(1), ROWS)
    for k in (1, 10, 200, 201, 350, 700):
        (found,) = made.find(["a"], queries(1), k)
        assert found.hits.rows.tolist() == longest.hits.rows[:k].tolist()
        np.testing.assert_array_equal(found.hits.scores, longest.hits.scores[:k])
        assert (found.dense is None, found.lexical is None) == (mode == "lexical", mode == "dense")


def test_a_hybrid_search_searches_again_after_a_look_at_its_first_hits():
    (once, dense), (twice, _) = retriever("hybrid", feedback=0), retriever("hybrid", feedback=3)
    texts, queries_QD = ["a", "b"], queries(2)
    looked_at = []
    for k in (5, 300):
        first, found = (made.find(texts, queries_QD, k) for made in (once, twice))
        moved_QD, _ = with_feedback(queries_QD, [one.hits for one in first], dense, 3)
        for one, before, wanted in zip(found, first, once.find(texts, moved_QD, k), strict=True):
            assert one.hits.rows.tolist() == wanted.hits.rows.tolist()
            np.testing.assert_array_equal(one.dense.rows, wanted.dense.rows)
            assert one.feedback.rows.tolist() == before.hits.rows[:3].tolist()
            assert before.feedback is None
        looked_at.append([one.feedback.rows.tolist() for one in found])
    assert looked_at[0] == looked_at[1]  # however many hits are wanted, it is moved towards the same ones
    for weight in (0, 1):
        (one,) = Retriever(dense, ByChance(2), weight).find(["a"], queries(1), 5)
        assert one.feedback is None


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_documents_are_dug_for_until_there_are_enough(mode):
    """The best 500 rows of one query are all of one document."""
    made, dense = retriever(mode, feedback=0)
    (everything,) = made.find(["crowded"], queries(1), ROWS)
    documents = np.arange(ROWS) + 1
    documents[everything.hits.rows[:500]] = 0
    dense.calls.clear()
    crowded, other = made.find_documents(["crowded", "other"], queries(2), 20, documents)
    rows = everything.hits.rows
    assert crowded.hits.rows.tolist() == [rows[0], *rows[500:519]]
    np.testing.assert_array_equal(crowded.hits.scores, everything.hits.scores[[0, *range(500, 519)]])
    assert len(other.hits) == 20
    assert [n for n, _ in dense.calls] == [2, *[1] * (len(dense.calls) - 1)]
    assert len(dense.calls) > 1


def test_digging_ends_where_there_are_no_more_documents():
    made, dense = retriever("dense")
    (found,) = made.find_documents(["a"], queries(1), 5, np.arange(ROWS) % 2)
    assert len(found.hits) == 2
    assert dense.calls[-1] == (1, ROWS)
