"""The file of an index: written, read, and refused where it is damaged."""

import io

import faiss
import numpy as np
import pytest

from tests.support.search_vectors import built, unit
from wordpipe.errors import ArtifactError
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
