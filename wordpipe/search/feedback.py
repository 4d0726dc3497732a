"""A query that is asked again after a look at its first answers."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.directions import unit_rows
from wordpipe.search.hits import Hits

__all__ = ["towards_answers"]

Floats = npt.NDArray[np.float32]


def towards_answers(queries_QD: Floats, answers: Sequence[Hits], vectors_ND: Floats, take: int) -> Floats:
    """The sum of each query and the direction of its first answers, at length 1: unit(q + unit(mean of the first answers)).

    Nobody says which answers are right, so it helps where most of the first ones are: they are to come from a search that
    is good already, words and vectors together. A query that is answered by nothing stays as it is, and one without a vector
    becomes the direction of its answers.

    Args:
        queries_QD: of length 1, or zero.
        answers: of each query, the best first.
        vectors_ND: the vectors that they are rows of.
        take: how many answers of each are looked at.

    Returns:
        (Q, D), rows of length 1; zero where there is neither query nor answer.

    Source: Rocchio 1971, "Relevance feedback in information retrieval", with both weights 1 and nothing to move away from.
    """
    means_QD = np.zeros_like(queries_QD)
    for number, hits in enumerate(answers):
        if len(rows := hits.rows[:take]):
            means_QD[number] = vectors_ND[rows].mean(axis=0)
    moved_QD = queries_QD + unit_rows(means_QD, least=1e-6)[0]
    return unit_rows(moved_QD, least=1e-6)[0]
