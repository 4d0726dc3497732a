"""What an index of lists learns before the first row is added: the centroids of its lists, then its codes."""

from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.search.vectors import faiss_threads

__all__ = ["learn"]


def learn(index: Any, training_TD: npt.NDArray[np.float32]) -> None:
    """Learn from a sample of the rows; what has nothing to learn is left as it is.

    The centroids are products of large matrices and take all threads. The codes are hundreds of clusterings of two
    dimensions, too small to share: on two busy cores 192 of them took 35 s of processor time with two threads, most of it
    waiting for each other, and 2.5 s with one.

    Args:
        index: a faiss index of any kind.
        training_TD: unit vectors.
    """
    if index.is_trained:
        return
    held: Any = faiss
    lists = held.extract_index_ivf(index)
    lists.train_q1(len(training_TD), held.swig_ptr(training_TD), False, lists.metric_type)
    with faiss_threads(1):
        index.train(training_TD)
