import faiss
import numpy as np
import pytest

from tests.search.vectors import unit
from wordpipe.search.kinds import KINDS
from wordpipe.search.learning import learn
from wordpipe.search.settings import IndexSettings
from wordpipe.search.vectors import faiss_threads


@pytest.mark.parametrize("kind", ["ivf", "panorama", "ivf-pq", "rabitq"])
def test_what_is_learned_in_two_steps_is_what_faiss_learns_in_one(kind: str) -> None:
    training_TD = unit(2_000, 16, 1, clusters=20)
    settings = IndexSettings(type=kind)  # type: ignore[arg-type]
    ours, theirs = (KINDS[kind].make(16, 2_000, settings) for _ in range(2))
    with faiss_threads(1):
        learn(ours, training_TD)
        theirs.train(training_TD)
    assert ours.is_trained
    np.testing.assert_array_equal(faiss.serialize_index(ours), faiss.serialize_index(theirs))


def test_what_has_nothing_to_learn_is_left_alone_and_the_threads_are_as_before() -> None:
    training_TD = unit(2_000, 16, 1)
    graph = KINDS["hnsw"].make(16, 2_000, IndexSettings(type="hnsw"))
    learn(graph, training_TD)
    assert graph.ntotal == 0
    with faiss_threads(2):
        learn(KINDS["ivf-pq"].make(16, 2_000, IndexSettings(type="ivf-pq")), training_TD)
        assert faiss.omp_get_max_threads() == 2
