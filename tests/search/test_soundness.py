"""FAISS files that somebody changed: refused when they are read, or searched without harm."""

import io

import faiss
import numpy as np
import pytest

from wordpipe.artifacts import unit_vectors
from wordpipe.errors import ArtifactError
from wordpipe.search import VectorIndex, read_index, write_index

N, DIM = 1200, 16
RECIPES = {"flat": "Flat", "hnsw": "HNSW8", "ivf-pq": "IVF16,PQ8x4fs,RFlat"}


def vectors() -> np.ndarray:
    return unit_vectors(np.random.default_rng(3).normal(size=(N, DIM)).astype(np.float32))


@pytest.fixture(scope="module", params=RECIPES)
def built(request) -> bytes:
    index = faiss.index_factory(DIM, RECIPES[request.param], faiss.METRIC_INNER_PRODUCT)
    index.train(vectors())
    index.add(vectors())
    return written(index)


def written(index: object) -> bytes:
    write_index(index, buffer := io.BytesIO())
    return buffer.getvalue()


def read(data: bytes) -> object:
    return read_index(io.BytesIO(data), size=len(data), where="run/index/index.faiss")


def test_sound_indexes_are_read_and_searched(built):
    found = VectorIndex(read(built)).search(vectors()[:3], 5)
    assert [hits.rows[0] for hits in found] == [0, 1, 2]


def test_a_changed_file_gives_an_error_of_ours_or_rows_that_exist(built):
    rng = np.random.default_rng(len(built))
    for _ in range(60):
        data = bytearray(built)
        at = int(rng.integers(len(data) if rng.random() < 0.5 else 400))
        data[at : at + 4] = rng.bytes(4) if rng.random() < 0.7 else b"\xff\xff\xff\x7f"
        try:
            found = VectorIndex(read(bytes(data))).search(vectors()[:2], 5)
        except ArtifactError as error:
            assert error.hint  # noqa: PT017  (either this or rows)
        else:
            assert all((hits.rows >= 0).all() and (hits.rows < N).all() for hits in found)


def changed_lists(change) -> bytes:
    index = faiss.index_factory(DIM, RECIPES["ivf-pq"], faiss.METRIC_INNER_PRODUCT)
    index.train(vectors())
    index.add(vectors())
    change(index, faiss.downcast_index(index.base_index))
    return written(index)


def _row_out_of_range(_, lists):
    size = next(number for number in range(16) if lists.invlists.list_size(number))
    faiss.rev_swig_ptr(lists.invlists.get_ids(size), 1)[:] = N


def _negative_row(_, lists):
    size = next(number for number in range(16) if lists.invlists.list_size(number))
    faiss.rev_swig_ptr(lists.invlists.get_ids(size), 1)[:] = -7


def _no_lists_searched(_, lists):
    lists.nprobe = 0


def _endless_candidates(index, _):
    index.k_factor = 1e30


def _more_rows(index, _):
    index.ntotal = 2 * N


@pytest.mark.parametrize(
    "change", [_row_out_of_range, _negative_row, _no_lists_searched, _endless_candidates, _more_rows]
)
def test_lists_that_lead_nowhere_are_refused(change):
    with pytest.raises(
        ArtifactError, match=r"run/index/index\.faiss: (the FAISS index cannot be read|the FAISS index is damaged)"
    ):
        read(changed_lists(change))


def changed_graph(change) -> bytes:
    index = faiss.IndexHNSWFlat(DIM, 8, faiss.METRIC_INNER_PRODUCT)
    index.add(vectors())
    change(index.hnsw, numbers(index.hnsw.neighbors), numbers(index.hnsw.levels))
    return written(index)


def numbers(vector) -> np.ndarray:
    vector = getattr(vector, "owned", vector)
    return faiss.rev_swig_ptr(vector.data(), vector.size())


def _far_link(graph, links, levels):
    links[5] = N


def _link_to_a_row_below(graph, links, levels):
    top = int(np.flatnonzero(levels > 1)[0])
    links[int(graph.offsets.at(top)) + graph.cum_nb_neighbors(1)] = int(np.flatnonzero(levels == 1)[0])


def _entry(graph, links, levels):
    graph.entry_point = N + 3


def _low_entry(graph, links, levels):
    graph.entry_point = int(np.flatnonzero(levels == 1)[0])


def _levels(graph, links, levels):
    levels[9] = 60


def _width(graph, links, levels):
    graph.efSearch = 1 << 30


@pytest.mark.parametrize("change", [_far_link, _link_to_a_row_below, _entry, _low_entry, _levels, _width])
def test_graphs_that_lead_nowhere_are_refused(change):
    with pytest.raises(ArtifactError, match=r"the FAISS index cannot be read|the FAISS index is damaged"):
        read(changed_graph(change))
