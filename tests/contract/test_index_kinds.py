"""What every kind of index of the table promises: recall, a file that FAISS reads, too, an update like a rebuild."""

import io
from collections.abc import Iterator

import faiss
import numpy as np
import pytest

from tests.support.search_vectors import Vectors, built, exact, unit
from wordpipe.errors import ArtifactError
from wordpipe.search import VectorIndex, kind_of, read_index, update_index, write_index
from wordpipe.search.settings import KINDS, IndexSettings

N, DIM = 1_200, 12
EACH = pytest.mark.parametrize("name", KINDS)
GROWING = [name for name in KINDS if kind_of(name).grows_in_place]


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Name of a kind → the file of an index of it."""
    return {name: written(built(unit(N, DIM, 1), type=name).index) for name in KINDS}


def written(index: object, *, vectors: bool = True) -> bytes:
    write_index(index, file := io.BytesIO(), vectors=vectors)
    return file.getvalue()


@EACH
def test_it_is_what_the_settings_call_it(name: str) -> None:
    kind = kind_of(name)(2_000, 16, IndexSettings(type=name))
    assert kind.name == name
    assert kind.index_bytes >= 2_000 * 16 * 4
    assert kind.is_exact != kind.withholds


@EACH
def test_it_finds_as_many_as_were_asked_for_with_exact_scores(name: str) -> None:
    vectors_ND, queries_QD = np.split(unit(1_400, 16, 3, clusters=20), [1_200])
    result = built(vectors_ND, type=name)
    assert (result.kind, result.recall_met) == (name, True)
    found = 0
    for query_D, hit in zip(queries_QD, VectorIndex(result.index).search(queries_QD, 10), strict=True):
        found += len({*hit.rows.tolist()} & {*exact(vectors_ND, query_D, 10)})
        np.testing.assert_allclose(hit.scores, vectors_ND[hit.rows] @ query_D, atol=1e-6)
    assert found >= (10 if kind_of(name).is_exact else 9.2) * len(queries_QD)


@EACH
def test_the_same_vectors_give_the_same_bytes_again(name: str, files: dict[str, bytes]) -> None:
    assert written(built(unit(N, DIM, 1), type=name).index) == files[name]


@EACH
def test_faiss_and_we_read_back_the_same_index(name: str, files: dict[str, bytes]) -> None:
    ours, theirs = (
        read_index(io.BytesIO(files[name]), size=len(files[name])),
        faiss.deserialize_index(np.frombuffer(files[name], np.uint8)),
    )
    first, second = (VectorIndex(one).search(unit(N, DIM, 1)[:50], 5) for one in (ours, theirs))
    for hit, wanted in zip(first, second, strict=True):
        np.testing.assert_array_equal(hit.rows, wanted.rows)
        np.testing.assert_array_equal(hit.scores, wanted.scores)


@EACH
def test_its_file_needs_no_vectors_where_the_rows_have_them(name: str, files: dict[str, bytes]) -> None:
    vectors_ND = unit(N, DIM, 1)
    data = written(built(vectors_ND, type=name).index, vectors=False)
    assert len(data) < len(files[name]) - vectors_ND.nbytes + 100

    def read(blocks: list[Vectors]) -> object:
        return read_index(io.BytesIO(data), size=len(data), vectors=iter(blocks), n=N)

    assert written(read([vectors_ND[:500], vectors_ND[500:]])) == files[name]
    for blocks in ([vectors_ND[:500]], [vectors_ND, vectors_ND[:1]], [vectors_ND[:, 1:]]):
        with pytest.raises(ArtifactError, match="the FAISS index is damaged"):
            read(blocks)
    # one with its vectors, as they were before, is read as it is
    whole = read_index(io.BytesIO(files[name]), size=len(files[name]), vectors=iter([]), n=N)
    assert written(whole) == files[name]


@EACH
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_refused(name: str, share: float, files: dict[str, bytes]) -> None:
    data = files[name][: int(share * len(files[name]))]
    with pytest.raises(ArtifactError, match=r"index\.faiss: the FAISS index cannot be read"):
        read_index(io.BytesIO(data), size=len(data), where="index.faiss")


@pytest.mark.parametrize("name", GROWING)
def test_it_is_read_to_grow_without_its_vectors_and_whole_when_they_are_filled_in(
    name: str, files: dict[str, bytes]
) -> None:
    data, kind = files[name], kind_of(name)(N, DIM, IndexSettings(type=name))
    found, whole = kind.read_to_grow(io.BytesIO(data), size=len(data)), read_index(io.BytesIO(data), size=len(data))
    assert found.ntotal == 0
    kind.index = found
    kind.begin()
    kind.add(0, unit(N, DIM, 1), np.zeros(N, dtype=bool))
    kind.ready()
    found.k_factor = whole.k_factor
    assert written(found) == data
    for cut in (3, 30, 36, 60, len(data) // 8):
        with pytest.raises(ArtifactError, match="the FAISS index cannot be read"):
            kind.read_to_grow(io.BytesIO(data[:cut]), size=cut)


@pytest.mark.parametrize("name", GROWING)
def test_one_that_grew_answers_as_one_built_anew(name: str) -> None:
    vectors_ND, queries_QD = np.split(unit(1_900, 16, 3, clusters=20), [1_700])
    old = built(vectors_ND[:1_500], type=name)
    old_rows = np.concatenate([np.arange(100, 1_500), np.full(200, -1)])  # a hundred rows went, two hundred came
    table_ND = vectors_ND[100:]

    def blocks() -> Iterator[Vectors]:
        yield from np.array_split(table_ND, 3)

    kind = kind_of(name)(len(table_ND), 16, IndexSettings(type=name, threads=1))
    grown = update_index(kind, old.index, blocks, old_rows, 1_500, old.chosen.width, old.held)
    anew = built(table_ND, type=name)
    assert grown.index.ntotal == anew.index.ntotal == len(table_ND)
    assert (grown.recall_met, anew.recall_met) == (True, True)
    for result in (grown, anew):
        hits = VectorIndex(result.index).search(queries_QD, 10)
        found = [
            len({*hit.rows.tolist()} & {*exact(table_ND, query_D, 10)})
            for query_D, hit in zip(queries_QD, hits, strict=True)
        ]
        assert np.mean(found) >= 9.2
