"""The file of an index, written, read, and refused where it is damaged; its search: real rows with real scores."""

import io

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.search_vectors import built, exact, unit
from wordpipe.errors import ArtifactError, DamageError, InputError
from wordpipe.search import VectorIndex, read_index, write_index


def test_an_error_of_the_writer_arrives_as_it_is() -> None:
    class Full:
        def write(self, data: bytes, /) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left on device") as error:
        write_index(built(unit(50, 4, 1)).index, Full())
    assert error.value.errno == 28


def test_the_reason_is_told_without_the_place_in_faiss() -> None:
    with pytest.raises(ArtifactError, match=r"; got Index type .* not recognized\n"):
        read_index(io.BytesIO(b"ABCD" * 99), size=396, where="run/index/index.faiss")


def test_a_header_that_claims_more_than_the_file_is_refused() -> None:
    file = io.BytesIO()
    write_index(built(unit(300, 12, 1)).index, file)
    data = bytearray(file.getvalue())
    at = data.index((300 * 12).to_bytes(8, "little"))  # the number of floats that follow
    data[at : at + 8] = (1 << 33).to_bytes(8, "little")
    before = faiss.get_deserialization_vector_byte_limit()
    with pytest.raises(ArtifactError):
        read_index(io.BytesIO(bytes(data)), size=len(data))
    assert faiss.get_deserialization_vector_byte_limit() == before


@pytest.mark.parametrize("recipe", ["NSG16,Flat", "IVF12,Flat", "IVF12,RaBitQfs,RFlat"])
def test_kinds_that_are_not_built_are_refused(recipe: str) -> None:
    index = faiss.index_factory(16, recipe, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors_ND := unit(1_000, 16, 1))
    index.add(vectors_ND)
    data = faiss.serialize_index(index).tobytes()
    with pytest.raises(ArtifactError, match="an unsupported kind of index"):
        read_index(io.BytesIO(data), size=len(data))


@settings(deadline=None)
@given(seed=st.integers(0, 9_999), n=st.integers(1, 60), k=st.integers(1, 80))
def test_flat_answers_are_those_of_brute_force(seed: int, n: int, k: int) -> None:
    vectors_ND, queries_QD = unit(n, 7, seed), unit(4, 7, seed + 1)
    index = faiss.IndexFlatIP(7)
    index.add(vectors_ND)
    for query_D, hit in zip(queries_QD, VectorIndex(index).search(queries_QD * 3, k), strict=True):
        scores = vectors_ND @ query_D
        assert len(hit) == min(n, k)
        assert len({*hit.rows.tolist()}) == len(hit)
        np.testing.assert_allclose(hit.scores, np.sort(scores)[::-1][:k], atol=1e-6)
        np.testing.assert_allclose(scores[hit.rows], hit.scores, atol=1e-6)
        best = exact(vectors_ND, query_D, 1)[0]
        assert scores[hit.rows[0]] == pytest.approx(scores[best], abs=1e-6)


def test_ties_come_in_the_order_of_rows_and_cosines_stay_in_their_range() -> None:
    index = faiss.IndexFlatIP(3)
    vectors_ND = np.tile(np.float32([0.57735026, 0.57735026, 0.5773503]), (6, 1))
    index.add(vectors_ND)
    (hit,) = VectorIndex(index).search(vectors_ND[:1] * 5, 6)
    assert hit.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert (np.abs(hit.scores) <= 1).all()


def test_what_was_not_found_is_left_out() -> None:
    vectors_ND = unit(200, 6, 1)
    index = built(np.tile(vectors_ND, (5, 1)), type="ivf-pq", nlist=50, nprobe=1).index
    hits = VectorIndex(index).search(vectors_ND[:20], 500)
    assert all(0 < len(hit) < 500 for hit in hits)
    assert all((hit.rows >= 0).all() and np.isfinite(hit.scores).all() for hit in hits)


def test_an_empty_index_and_no_query_give_no_answer() -> None:
    index = faiss.IndexFlatIP(4)
    assert [len(hit) for hit in VectorIndex(index).search(unit(2, 4, 1), 5)] == [0, 0]
    index.add(unit(3, 4, 2))
    assert VectorIndex(index).search(np.zeros((0, 4), np.float32), 5) == []
    assert [len(hit) for hit in VectorIndex(index).search(unit(2, 4, 1), 0)] == [0, 0]


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_query_that_is_not_finite_is_refused_by_row_and_one_of_zeros_finds_nothing(poison: float) -> None:
    index = faiss.IndexFlatIP(4)
    index.add(unit(3, 4, 2))
    queries_QD = unit(3, 4, 1)
    queries_QD[1] = poison
    with pytest.raises(InputError, match="row 1"):
        VectorIndex(index).search(queries_QD, 2)
    queries_QD[1] = 0
    one, none, other = VectorIndex(index).search(queries_QD, 2)
    assert (len(one), len(none), len(other)) == (2, 0, 2)
    np.testing.assert_array_equal(other.rows, VectorIndex(index).search(queries_QD[2:], 2)[0].rows)


def test_a_query_of_another_width_is_refused() -> None:
    with pytest.raises(InputError, match="got 5; expected 4"):
        VectorIndex(faiss.IndexFlatIP(4)).search(unit(1, 5, 1), 2)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 9_999), share=st.sampled_from([0.0, 0.03, 0.4, 1.0]), k=st.integers(1, 30))
def test_a_filtered_search_is_the_search_among_those_rows(seed: int, share: float, k: int) -> None:
    vectors_ND, queries_QD = unit(300, 7, seed), unit(3, 7, seed + 1)
    allowed = np.random.default_rng(seed).random(300) < share
    rows = np.flatnonzero(allowed)
    for index in (faiss.IndexFlatIP(7), faiss.IndexHNSWFlat(7, 16, faiss.METRIC_INNER_PRODUCT)):
        index.add(vectors_ND)
        hits = VectorIndex(index, allowed).search(queries_QD, k)
        for query_D, hit in zip(queries_QD, hits, strict=True):
            assert allowed[hit.rows].all()
            scores = np.sort(vectors_ND[rows] @ query_D)[::-1][:k]
            if isinstance(index, faiss.IndexFlat) or share < 1:
                np.testing.assert_allclose(hit.scores, scores, atol=1e-6)
            else:
                assert len(hit) <= len(scores)


@pytest.mark.parametrize("copied", [0, 1 << 21])
@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("kind", ["flat", "ivf-pq", "hnsw"])
def test_few_allowed_rows_are_compared_exactly_by_an_index_of_any_kind(
    kind: str, queries: int, copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their place, or copied."""
    monkeypatch.setattr("wordpipe.search.vectors.faiss_index._COPIED", copied)
    vectors_ND, queries_QD = unit(1_200, 8, 1), unit(queries, 8, 2)
    index = faiss.deserialize_index(faiss.serialize_index(built(vectors_ND, type=kind, ef_construction=20).index))
    rows = np.arange(0, 1_200, 3)
    allowed = np.zeros(1_200, dtype=np.bool_)
    allowed[rows] = True
    for query_D, hit in zip(queries_QD, VectorIndex(index, allowed).search(queries_QD, 12), strict=True):
        best = rows[np.argsort(-(vectors_ND[rows] @ query_D))[:12]]
        assert hit.rows.tolist() == best.tolist()
        np.testing.assert_allclose(hit.scores, vectors_ND[best] @ query_D, atol=1e-6)


def test_a_filter_digs_as_deep_as_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """The allowed rows are the farthest of all, and too many to be compared one by one."""
    monkeypatch.setattr("wordpipe.search.vectors.faiss_index.EXACT_BELOW", 4)
    vectors_ND = unit(2_000, 6, 1)
    index = built(vectors_ND, type="ivf-pq", nlist=4, nprobe=4).index
    far = np.argsort(vectors_ND @ vectors_ND[0])[:5]
    allowed = np.zeros(2_000, dtype=np.bool_)
    allowed[far] = True
    (hit,) = VectorIndex(index, allowed).search(vectors_ND[:1], 3)
    assert hit.rows.tolist() == far[::-1][:3].tolist()


@pytest.mark.parametrize("kind", ["flat", "ivf-pq", "hnsw"])
def test_the_vectors_of_rows_come_from_the_index_as_they_were_added(kind: str) -> None:
    vectors_ND, rows_R = unit(1_200, 16, 9), np.array([0, 5, 1_199])
    index = faiss.deserialize_index(faiss.serialize_index(built(vectors_ND, type=kind, ef_construction=20).index))
    np.testing.assert_array_equal(VectorIndex(index).vectors(rows_R), vectors_ND[rows_R])
    codes = faiss.index_factory(16, "IVF2,PQ4x4fs", faiss.METRIC_INNER_PRODUCT)
    with pytest.raises(DamageError, match="contains no vectors"):
        VectorIndex(codes).vectors(rows_R)
