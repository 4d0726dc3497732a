"""Measures of a ranking, exactly as trec_eval (and pytrec_eval, BEIR and MTEB) count them: are relevant documents first.

Conventions that published figures depend on, and that are kept here:

- Documents are ordered by their score as a float32, equal scores by their id from the last to the first. What order a
  system found them in does not matter.
- The gain of a document is its grade itself (not 2^grade - 1), discounted by log2(rank + 1); the ideal ranking is made of
  all graded documents, found or not.
- Average precision, recall and reciprocal rank take a document of grade 1 or more for relevant; those without a grade
  are not.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_NDCG_DEPTH = 10
_RECALL_DEPTH = 100


class QueryFigures(NamedTuple):
    """The figures of one query, each from 0 to 1."""

    # normalised discounted cumulative gain of the first ten (trec_eval's ndcg_cut_10). Source: Järvelin and Kekäläinen
    # 2002, "Cumulated gain-based evaluation of IR techniques"
    ndcg_at_10: float = 0.0
    map: float = 0.0  # average precision over all that was found; what was not found counts as precision 0
    recall_at_100: float = 0.0  # the share of the relevant documents among the first hundred
    mrr: float = 0.0  # 1 / rank of the first relevant document, 0 where none was found (trec_eval's recip_rank)


def trec_order(names: Sequence[str], scores: npt.NDArray[np.floating]) -> list[int]:
    """Places of documents in the order in which trec_eval reads them: best score first, of equal ones the last name first.

    >>> trec_order(["a", "b", "c"], np.array([0.5, 0.5, 0.9]))
    [2, 1, 0]
    """
    rounded = np.asarray(scores, dtype=np.float32).tolist()
    by_name = sorted(range(len(names)), key=names.__getitem__, reverse=True)
    return sorted(by_name, key=lambda place: -rounded[place])


def score_ranking(found: Sequence[str], grades: Mapping[str, int]) -> QueryFigures:
    """The figures of one query's results: ids of documents, all different, in the order of `trec_order`, maybe none.

    A document of a grade below 1 is not relevant; where nothing is relevant, all figures are 0.
    """
    relevant = sum(grade > 0 for grade in grades.values())
    if not relevant or not found:
        return QueryFigures()
    grades_K = np.array([max(grades.get(name, 0), 0) for name in found], dtype=np.float64)
    ideal = np.array(sorted((grade for grade in grades.values() if grade > 0), reverse=True), dtype=np.float64)
    ranks_H = np.flatnonzero(grades_K) + 1  # of the relevant documents that were found
    return QueryFigures(
        ndcg_at_10=_discounted(grades_K[:_NDCG_DEPTH]) / _discounted(ideal[:_NDCG_DEPTH]),
        map=float((np.arange(1, len(ranks_H) + 1) / ranks_H).sum()) / relevant,
        recall_at_100=int((ranks_H <= _RECALL_DEPTH).sum()) / relevant,
        mrr=1 / int(ranks_H[0]) if len(ranks_H) else 0.0,
    )


def _discounted(gains_K: npt.NDArray[np.float64]) -> float:
    return float((gains_K / np.log2(np.arange(2, len(gains_K) + 2))).sum())
