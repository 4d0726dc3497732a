"""Hybrid search: fused scores, relevance feedback, and how deep each mode searches."""

from threading import Thread, current_thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.errors import DamageError
from wordpipe.search import (
    CANDIDATES,
    Hits,
    LexicalIndex,
    Retriever,
    VectorTable,
    best_of,
    fuse,
    hybrid,
    vector_share,
    with_feedback,
)
from wordpipe.search.settings import LexicalSettings

found = st.dictionaries(st.integers(0, 20), st.integers(-9, 9).map(lambda step: step / 8), max_size=12)


def hits_of(scores: dict[int, float]) -> Hits:
    return best_of(np.array([*scores], dtype=np.int64), np.array([*scores.values()], dtype=np.float32), len(scores))


def normalised(scores: dict[int, float]) -> dict[int, float]:
    low, high = min(scores.values(), default=0), max(scores.values(), default=0)
    return {row: (score - low) / (high - low) if high > low else 1.0 for row, score in scores.items()}


@given(dense=found, lexical=found, weight=st.floats(0.05, 0.95), k=st.integers(1, 30))
def test_a_fusion_is_the_weighted_sum_row_by_row(dense, lexical, weight, k):
    one, other = normalised(dense), normalised(lexical)
    expected = {row: weight * one.get(row, 0) + (1 - weight) * other.get(row, 0) for row in {*one, *other}}
    mixed = fuse(hits_of(dense), hits_of(lexical), weight, k)
    assert len(mixed) == min(k, len(expected))
    np.testing.assert_allclose(mixed.scores, sorted(expected.values(), reverse=True)[:k], atol=1e-5)
    np.testing.assert_allclose(mixed.scores, [expected[row] for row in mixed.rows.tolist()], atol=1e-5)


@given(dense=found, lexical=found)
def test_at_the_ends_one_side_answers_alone(dense, lexical):
    near, worded = hits_of(dense), hits_of(lexical)
    assert fuse(near, worded, 1, 30).rows.tolist() == near.rows.tolist()
    assert fuse(near, worded, 0, 30).rows.tolist() == worded.rows.tolist()


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


@given(agreement=st.floats(0, 1), words=st.integers(1, 200))
def test_the_share_of_the_vectors_grows_with_agreement_and_length(agreement, words):
    share = vector_share(agreement, words)
    assert 0 <= share <= agreement
    assert share <= vector_share(agreement, words + 1)
    assert vector_share(agreement, 8) == pytest.approx(agreement / 2)
    assert vector_share(agreement, 0) == 1  # words have nothing to say


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
TEXTS = [" ".join(f"w{n}" for n in np.random.default_rng([9, row]).integers(0, 60, 12)) for row in range(ROWS)]
TEXTS[::2] = [f"{text} crowded" for text in TEXTS[::2]]
ASKED = ["w1 w2 w3 crowded", "w4 w5 crowded"]


class ByChance:
    """Vectors by chance; remembers how many queries wanted how many rows."""

    def __init__(self) -> None:
        self._table = VectorTable(unit(np.random.default_rng(1).standard_normal((ROWS, D))).astype(np.float32))
        self.calls: list[tuple[int, int]] = []

    def search(self, queries: np.ndarray, k: int) -> list[Hits]:
        self.calls.append((len(queries), k))
        return self._table.search(queries, k)

    def vectors(self, rows_R: np.ndarray) -> np.ndarray:
        return self._table.vectors(rows_R)


@pytest.fixture(scope="module")
def lexical() -> LexicalIndex:
    return LexicalIndex.build(TEXTS, LexicalSettings(language="none"))


def retriever(mode: str, lexical: LexicalIndex, **more) -> tuple[Retriever, ByChance]:
    dense = ByChance()
    more = {"weight": 0.4} | more
    return Retriever(dense if mode != "lexical" else None, lexical if mode != "dense" else None, **more), dense


def queries(n: int) -> np.ndarray:
    return unit(np.random.default_rng(7).standard_normal((n, D))).astype(np.float32)


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
@pytest.mark.parametrize("feedback", [0, 3])
def test_asked_for_more_a_result_begins_with_what_it_was(mode, feedback, lexical):
    made, _ = retriever(mode, lexical, feedback=feedback)
    (longest,) = made.find(ASKED[:1], queries(1), ROWS)
    for k in (1, 10, 200, 201, 350, 700):
        (found,) = made.find(ASKED[:1], queries(1), k)
        assert found.hits.rows.tolist() == longest.hits.rows[:k].tolist()
        np.testing.assert_array_equal(found.hits.scores, longest.hits.scores[:k])
        assert (found.dense is None, found.lexical is None) == (mode == "lexical", mode == "dense")


def test_both_sides_of_a_hybrid_search_ask_again_with_its_first_hits(lexical):
    """By hand: moved vectors, added terms, and the candidates of all searches compared by these."""
    (once, dense), (twice, _) = (retriever("hybrid", lexical, feedback=feedback) for feedback in (0, 3))
    queries_QD = queries(2)
    for k in (5, 300):
        first, found = (made.find(ASKED, queries_QD, k) for made in (once, twice))
        moved_QD, _ = with_feedback(queries_QD, [one.hits for one in first], dense, 3)
        near = dense.search(moved_QD, max(k, CANDIDATES))
        for number, (text, one, before) in enumerate(zip(ASKED, found, first, strict=True)):
            looked_at = before.hits.rows[:3].tolist()
            assert one.feedback.rows.tolist() == looked_at
            terms = lexical.expanded(lexical.read(text), lexical.texts(before.hits.rows[:3]))
            sides = (before.dense.rows, near[number].rows, before.lexical.rows)
            rows = np.unique(np.concatenate([side[:CANDIDATES] for side in sides]))
            worded = best_of(rows, lexical.score_rows(terms, rows), len(rows))
            worded = worded.where(worded.scores > 0)
            expected = fuse(near[number], worded, 0.4, min(k, 100))
            assert one.hits.rows[:100].tolist() == expected.rows.tolist()
            np.testing.assert_allclose(one.hits.scores[:100], expected.scores, atol=1e-6)
            assert (one.weight, before.feedback, before.terms) == (0.4, None, None)
    for weight in (0, 1):
        (one,) = Retriever(dense, lexical, weight=weight).find(ASKED[:1], queries(1), 5)
        assert one.feedback is None


def test_each_query_has_a_weight_of_its_own(lexical):
    made, dense = retriever("hybrid", lexical, agreement=0.6, weight=None)
    some = [*ASKED, "nowhere"]
    found = made.find(some, queries(3), 5)
    assert [one.weight for one in found] == [vector_share(0.6, 4), vector_share(0.6, 3), 1]
    assert found[2].hits.rows.tolist() == dense.search(queries(3)[2:], 5)[0].rows.tolist()
    for number, text in enumerate(some):
        (alone,) = made.find([text], queries(3)[number : number + 1], 5)
        assert alone.hits.rows.tolist() == found[number].hits.rows.tolist()
        np.testing.assert_allclose(alone.hits.scores, found[number].hits.scores, atol=1e-6)


def test_only_allowed_rows_are_found_with_feedback_too(lexical):
    allowed = np.arange(ROWS) % 3 == 0

    class Allowed(ByChance):
        def search(self, queries: np.ndarray, k: int) -> list[Hits]:
            return [hits.where(allowed[hits.rows]).first(k) for hits in super().search(queries, ROWS)]

    found = Retriever(Allowed(), lexical, 0.5, allowed=allowed).find(ASKED, queries(2), 300)
    assert all(allowed[one.hits.rows].all() and allowed[one.feedback.rows].all() for one in found)


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_documents_are_dug_for_until_there_are_enough(mode, lexical):
    """The best 400 rows of one query are all of one document."""
    made, dense = retriever(mode, lexical, feedback=0)
    (everything,) = made.find(ASKED[:1], queries(1), ROWS)
    documents = np.arange(ROWS) + 1
    documents[everything.hits.rows[:400]] = 0
    dense.calls.clear()
    crowded, other = made.find_documents(ASKED, queries(2), 20, documents)
    rows = everything.hits.rows
    assert crowded.hits.rows.tolist() == [rows[0], *rows[400:419]]
    np.testing.assert_array_equal(crowded.hits.scores, everything.hits.scores[[0, *range(400, 419)]])
    assert len(other.hits) == 20
    assert len(dense.calls) > 1


def test_digging_ends_where_there_are_no_more_documents(lexical):
    made, dense = retriever("dense", lexical)
    (found,) = made.find_documents(["a"], queries(1), 5, np.arange(ROWS) % 2)
    assert len(found.hits) == 2
    assert dense.calls[-1][1] >= ROWS


def test_of_many_rows_both_sides_are_searched_at_the_same_time(lexical, monkeypatch):
    made, _ = retriever("hybrid", lexical)
    expected = made.find(ASKED, queries(len(ASKED)), 40)
    monkeypatch.setattr(hybrid, "COMPILED_FROM", ROWS)
    made, dense = retriever("hybrid", lexical)
    seen = []
    search = dense.search
    monkeypatch.setattr(dense, "search", lambda *asked: seen.append(current_thread().name) or search(*asked))
    for one, other in zip(made.find(ASKED, queries(len(ASKED)), 40), expected, strict=True):
        assert one.hits.rows.tolist() == other.hits.rows.tolist()
        np.testing.assert_allclose(
            one.hits.scores, other.hits.scores, rtol=2e-6
        )  # the products here are of all queries at once
    assert len(seen) == 3  # for all queries, then for each half with what was found
    assert all(name.startswith("wordpipe-vectors") for name in seen)

    def fails(*_: object) -> list[Hits]:
        raise DamageError("the FAISS index cannot be searched")

    monkeypatch.setattr(dense, "search", fails)
    with pytest.raises(DamageError, match="cannot be searched"):
        made.find(ASKED, queries(len(ASKED)), 40)


def test_where_no_thread_can_be_had_they_are_searched_one_after_the_other(lexical, monkeypatch):
    monkeypatch.setattr(hybrid, "COMPILED_FROM", ROWS)

    def refused(self: object) -> None:
        raise RuntimeError("can't start new thread")

    hybrid._beside.cache_clear()
    monkeypatch.setattr(Thread, "start", refused)
    made, _ = retriever("hybrid", lexical)
    assert [len(one.hits) for one in made.find(ASKED, queries(len(ASKED)), 5)] == [5] * len(ASKED)
    monkeypatch.undo()
    hybrid._beside.cache_clear()
