"""Exact neighbours among vectors that stream by or lie in memory."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.ranking import assert_best
from tests.support.search_vectors import built, exact, unit
from wordpipe.artifacts import vector_column
from wordpipe.errors import DamageError, InputError
from wordpipe.search import ByteVectors, ExactRows, VectorIndex, VectorTable, kind_of, nearest, write_index
from wordpipe.search.vectors import knn


def test_the_nearest_are_those_of_brute_force_and_a_query_without_direction_has_none() -> None:
    vectors_ND, queries_QD = np.split(unit(320, 6, 1), [300])
    queries_QD[[0, 7]] = 0
    found = nearest(queries_QD, np.array_split(vectors_ND, 4), 9)
    for number, (query_D, hits) in enumerate(zip(queries_QD, found, strict=True)):
        assert hits.rows.tolist() == ([] if number in (0, 7) else exact(vectors_ND, query_D, 9))
        np.testing.assert_allclose(hits.scores, vectors_ND[hits.rows] @ query_D, atol=1e-6)
    assert not any(map(len, nearest(queries_QD[:1], [vectors_ND], 9)))


def test_exact_answers_are_those_of_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "_SCORES_AT_ONCE", 40)
    rng = np.random.default_rng()
    documents, queries = rng.standard_normal((60, 8)).astype(np.float32), rng.standard_normal((7, 8)).astype(np.float32)
    documents[[3, 9]], queries[2], documents[20] = 0, 0, documents[21]
    answers = VectorTable(documents).search(queries, 12)
    scores = queries.astype(np.float64) @ documents.T
    scores[:, [3, 9]] = -np.inf
    for number, hits in enumerate(answers):
        if number == 2:
            assert not len(hits)
            continue
        # eight products of numbers below 6: each sum of theirs is rounded by less than 8 · 36 · 2⁻²⁴
        assert_best(hits.rows.tolist(), scores[number], 12, 8 * 36 * 2**-24)
        twins = [row for row in hits.rows.tolist() if row in (20, 21)]
        assert twins in ([], [20], [20, 21])  # of equal ones the first comes first


def stored_as_int8(vectors_ND: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of vectors in a table, and the vectors that they say."""
    stored_NB = np.frombuffer(vector_column(vectors_ND, "int8").buffers()[1], np.uint8).reshape(len(vectors_ND), -1)
    scale_N1 = np.ascontiguousarray(stored_NB[:, :4]).view(np.float32)
    return stored_NB, stored_NB[:, 4:].view(np.int8) * scale_N1


def read(vectors_ND: np.ndarray) -> ByteVectors:
    found = ByteVectors.read(np.array_split(stored_as_int8(vectors_ND)[0], 3), *vectors_ND.shape)
    assert found is not None
    return found


@settings(deadline=None)
@given(
    seed=st.integers(0, 9_999), n=st.integers(1, 70), dim=st.integers(1, 40), k=st.integers(1, 80),
    share=st.sampled_from([None, 0.0, 0.3, 1.0]), has=st.sampled_from([None, 0.5]),
)  # fmt: skip
def test_stored_vectors_answer_as_those_that_they_say(
    seed: int, n: int, dim: int, k: int, share: float | None, has: float | None
) -> None:
    rng = np.random.default_rng(seed)
    vectors_MD, queries_QD = unit(n, dim, seed), unit(5, dim, seed + 1) * 3
    vectors_MD[n // 2] = vectors_MD[0]  # equal ones
    queries_QD[3] = 0
    _, said_MD = stored_as_int8(vectors_MD)
    with_vector = None if has is None else np.sort(rng.choice(2 * n, n, replace=False))
    rows_M = np.arange(n) if with_vector is None else with_vector
    allowed = None if share is None else rng.random(n if has is None else 2 * n) < share
    index, at_once = ExactRows(read(vectors_MD), allowed, with_vector), knn._NUMBERS_AT_ONCE
    knn._NUMBERS_AT_ONCE = 4 * dim  # several runs
    try:
        together = index.search(queries_QD, k)
        alone = [index.search(queries_QD[number : number + 1], k)[0] for number in range(5)]
    finally:
        knn._NUMBERS_AT_ONCE = at_once
    can = np.flatnonzero(np.ones(n, np.bool_) if allowed is None else allowed[rows_M])
    for number, (hits, same) in enumerate(zip(together, alone, strict=True)):
        np.testing.assert_array_equal(hits.rows, same.rows)
        np.testing.assert_array_equal(hits.scores, same.scores)
        if number == 3:
            assert not len(hits)
            continue
        scores = said_MD[can].astype(np.float64) @ queries_QD[number] / np.linalg.norm(queries_QD[number])
        assert len(hits) == min(k, len(can))
        np.testing.assert_allclose(hits.scores, np.sort(scores)[::-1][:k], atol=1e-6)
        at = np.searchsorted(rows_M, hits.rows)
        np.testing.assert_allclose(hits.scores, scores[np.searchsorted(can, at)].clip(-1, 1), atol=1e-6)
        ordered = [*zip(-hits.scores, hits.rows, strict=True)]
        assert ordered == sorted(ordered)
    np.testing.assert_array_equal(index.vectors(rows_M), said_MD)
    if with_vector is not None:
        without = np.setdiff1d(np.arange(2 * n), with_vector)
        assert not index.vectors(without).any()


@settings(deadline=None)
@given(seed=st.integers(0, 9_999), n=st.integers(1, 70), dim=st.integers(1, 400), k=st.integers(1, 80))
def test_the_compiled_loop_answers_as_numpy(seed: int, n: int, dim: int, k: int) -> None:
    vectors_MD, queries_QD = unit(n, dim, seed), unit(5, dim, seed + 1)
    vectors_MD[n // 2] = vectors_MD[0]
    plain, compiled = read(vectors_MD), read(vectors_MD)
    compiled.compile()
    _, said_MD = stored_as_int8(vectors_MD)
    rows_R = np.flatnonzero(np.random.default_rng(seed).random(n) < 0.5)
    for among_R in (None, rows_R):
        expected, together = plain.nearest(queries_QD, k, among_R), compiled.nearest(queries_QD, k, among_R)
        for number, (hits, other) in enumerate(zip(together, expected, strict=True)):
            (alone,) = compiled.nearest(queries_QD[number : number + 1], k, among_R)
            np.testing.assert_array_equal(hits.rows, alone.rows)
            np.testing.assert_array_equal(hits.scores, alone.scores)
            np.testing.assert_allclose(hits.scores, other.scores, atol=1e-6)
            np.testing.assert_allclose(hits.scores, (said_MD[hits.rows] @ queries_QD[number]).clip(-1, 1), atol=1e-6)
            if {0, n // 2} <= {*hits.rows.tolist()}:
                one, twin = (hits.scores[np.flatnonzero(hits.rows == row)[0]] for row in (0, n // 2))
                assert one == twin


@settings(deadline=None)
@given(seed=st.integers(0, 9_999), n=st.integers(1, 70), dim=st.integers(1, 400), k=st.integers(1, 80))
def test_each_query_is_compared_with_vectors_of_its_own(seed: int, n: int, dim: int, k: int) -> None:
    rng, queries_QD = np.random.default_rng(seed), unit(5, dim, seed + 1)
    plain, compiled = read(unit(n, dim, seed)), read(unit(n, dim, seed))
    compiled.compile()
    numbers_QR = np.array([rng.permutation(n) for _ in queries_QD])
    numbers_QR[rng.random(numbers_QR.shape) < 0.3] = -1
    found = compiled.nearest_of_each(queries_QD, k, numbers_QR), plain.nearest_of_each(queries_QD, k, numbers_QR)
    for query_D, numbers_R, hits, other in zip(queries_QD, numbers_QR, *found, strict=True):
        (alone,) = compiled.nearest(query_D[None], k, numbers_R[numbers_R >= 0])
        np.testing.assert_array_equal(hits.rows, alone.rows)
        np.testing.assert_array_equal(hits.scores, alone.scores)
        np.testing.assert_allclose(hits.scores, other.scores, atol=1e-6)


def test_of_many_vectors_the_loop_is_loaded_with_the_next_query(monkeypatch: pytest.MonkeyPatch) -> None:
    few = read(unit(30, 8, 1))
    index = ExactRows(few)
    index.compile_meanwhile()
    index.search(unit(1, 8, 2), 3)
    assert few.loops is None
    monkeypatch.setattr(knn, "COMPILED_FROM", 30)
    index.compile_meanwhile()
    thread = few.__dict__["_compiler"]
    before = index.search(unit(1, 8, 2), 3)[0]
    thread.join()
    assert few.loops is not None
    np.testing.assert_array_equal(index.search(unit(1, 8, 2), 3)[0].rows, before.rows)


@pytest.mark.parametrize("share", [None, 0.2, 0.9])
def test_candidates_of_lists_are_compared_by_stored_vectors_as_by_float32(
    share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wordpipe.search.vectors.faiss_index.EXACT_BELOW", 400)
    vectors_ND, queries_QD = np.split(unit(1_400, 16, 3, clusters=20), [1_350])
    stored_NB, said_ND = stored_as_int8(vectors_ND)
    result, file = built(said_ND, type="ivf-pq"), io.BytesIO()
    write_index(result.index, file)
    allowed = None if share is None else np.random.default_rng(1).random(len(said_ND)) < share
    whole = VectorIndex(result.index, allowed).search(queries_QD, 30)
    size = len(file.getvalue())
    lists = kind_of("ivf-pq").read_candidates(io.BytesIO(file.getvalue()), size=size)
    stored = ByteVectors.read([stored_NB], *said_ND.shape)
    index = VectorIndex(lists, allowed, stored=stored, refine=int(result.index.k_factor))
    for one, other in zip(index.search(queries_QD, 30), whole, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)
        assert len({*one.rows.tolist()} & {*other.rows.tolist()}) >= len(one) - 1  # equal ones, to rounding, at the end
    rows_R = np.array([0, 7, 1_349])
    np.testing.assert_array_equal(index.vectors(rows_R), said_ND[rows_R])


def test_stored_vectors_that_are_damaged_are_refused_and_others_brought_to_length_one() -> None:
    stored_NB, said_ND = stored_as_int8(unit(30, 8, 1))
    for damage in (0, np.nan, np.inf):
        damaged_NB = stored_NB.copy()
        damaged_NB[17, :4] = np.float32([damage]).view(np.uint8)
        with pytest.raises(DamageError, match="row 17"):
            ByteVectors.read([damaged_NB[:10], damaged_NB[10:]], 30, 8)
    longer_NB = stored_NB.copy()
    longer_NB[[3, 20], :4] = (longer_NB[[3, 20], :4].view(np.float32) * np.float32([[2], [-3]])).view(np.uint8)
    found = ByteVectors.read([longer_NB], 30, 8)
    assert found is not None
    wanted_ND = said_ND.copy()
    wanted_ND[20] *= -1
    np.testing.assert_allclose(found.vectors(np.arange(30)), wanted_ND, atol=1e-6)
    for blocks in ([stored_NB[:29]], [stored_NB, stored_NB[:1]], [stored_NB[:, 1:]]):
        with pytest.raises(DamageError):
            ByteVectors.read(blocks, 30, 8)
    assert ByteVectors.read([], 30, 8) is None
    with pytest.raises(InputError, match="got 5; expected 8"):
        ExactRows(found).search(unit(1, 5, 1), 2)
