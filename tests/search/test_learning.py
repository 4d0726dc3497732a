import faiss
import numpy as np

from tests.search.vectors import unit
from wordpipe.search import Lists, faiss_threads
from wordpipe.search.settings import IndexSettings


def test_what_is_learned_in_two_steps_is_what_faiss_learns_in_one() -> None:
    training_TD = unit(2_000, 16, 1, clusters=20)
    kind, other = (Lists(2_000, 16, IndexSettings(type="ivf-pq")) for _ in range(2))
    with faiss_threads(1):
        kind.learn(training_TD)
        other.index.train(training_TD)
    assert kind.index.is_trained
    np.testing.assert_array_equal(faiss.serialize_index(kind.index), faiss.serialize_index(other.index))


def test_the_threads_are_as_before() -> None:
    with faiss_threads(2):
        Lists(2_000, 16, IndexSettings(type="ivf-pq")).learn(unit(2_000, 16, 1))
        assert faiss.omp_get_max_threads() == 2
