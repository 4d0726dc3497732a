"""The file of an index: written, read, and refused where it is damaged."""

import io

import faiss
import numpy as np
import pytest

from tests.support.search_vectors import built, unit
from wordpipe.errors import ArtifactError
from wordpipe.search import Lists, VectorIndex, read_index, read_lists, write_index
from wordpipe.search.settings import IndexSettings


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
def test_faiss_and_we_read_back_the_same_index(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    vectors_ND = unit(800, 12, 1)
    index = built(vectors_ND, type=kind).index
    file = io.BytesIO()
    write_index(index, file)
    data = file.getvalue()
    ours = read_index(io.BytesIO(data), size=len(data))
    path = tmp_path_factory.mktemp("index") / "index.faiss"
    path.write_bytes(data)
    theirs = faiss.read_index(str(path))
    expected = VectorIndex(index).search(vectors_ND[:50], 5)
    for other in (ours, theirs):
        for hit, wanted in zip(VectorIndex(other).search(vectors_ND[:50], 5), expected, strict=True):
            np.testing.assert_array_equal(hit.rows, wanted.rows)
            np.testing.assert_array_equal(hit.scores, wanted.scores)


def test_an_error_of_the_writer_arrives_as_it_is() -> None:
    class Full:
        def write(self, data: bytes, /) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left on device") as error:
        write_index(built(unit(50, 4, 1)).index, Full())
    assert error.value.errno == 28


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf-pq"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_refused(kind: str, share: float) -> None:
    file = io.BytesIO()
    write_index(built(unit(300, 12, 1), type=kind).index, file)
    data = file.getvalue()[: int(share * file.tell())]
    with pytest.raises(ArtifactError, match=r"index\.faiss: not a readable FAISS index"):
        read_index(io.BytesIO(data), size=len(data), where="index.faiss")


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


@pytest.mark.parametrize("kind", ["ivf-pq", "hnsw"])
def test_lists_are_read_without_the_vectors_beside_them_and_are_whole_when_those_are_filled_in(kind: str) -> None:
    vectors_ND = unit(1_000, 12, 1)
    index = built(vectors_ND, type=kind, ef_construction=10).index
    file = io.BytesIO()
    write_index(index, file)
    data = file.getvalue()
    found = read_lists(io.BytesIO(data), size=len(data))
    if kind == "ivf-pq":
        assert found.ntotal == 0
        lists = Lists(1_000, 12, IndexSettings())
        lists.index = found
        lists.begin()
        lists.add(0, vectors_ND, np.zeros(1_000, dtype=bool))
        lists.ready()
        found.k_factor = index.k_factor
    again = io.BytesIO()
    write_index(found, again)
    assert again.getvalue() == data
    for cut in (3, 30, 36, 60, len(data) // 8):
        with pytest.raises(ArtifactError, match="not a readable FAISS index"):
            read_lists(io.BytesIO(data[:cut]), size=cut)


@pytest.mark.parametrize("recipe", ["NSG16,Flat", "IVF12,Flat", "IVF12,FlatPanorama4", "IVF12,RaBitQfs,RFlat"])
def test_kinds_that_are_built_no_more_still_answer(recipe: str) -> None:
    vectors_ND = unit(1_000, 16, 1)
    index = faiss.index_factory(16, recipe, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors_ND)
    index.add(vectors_ND)
    data = faiss.serialize_index(index).tobytes()
    found = read_index(io.BytesIO(data), size=len(data))
    allowed = np.arange(1_000) % 2 == 0
    for hit in VectorIndex(found).search(vectors_ND[:20], 3) + VectorIndex(found, None, allowed).search(
        vectors_ND[:20], 3
    ):
        np.testing.assert_allclose(hit.scores, np.sort(hit.scores)[::-1])
        assert len(hit) > 0
