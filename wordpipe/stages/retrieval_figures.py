"""The figures of a system's answers to the queries of a collection, alone and against BM25."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.ranking import MEASURES, QueryFigures, judge_ranking, table_of, trec_order
from wordpipe.metrics.statistics import mean_interval, paired_difference
from wordpipe.search.collection import Collection
from wordpipe.search.hits import Hits

__all__ = ["Ranking", "differences", "figures", "judge", "rankings", "trec_lines"]

Ranking = list[tuple[str, float]]
"""Document and score, in the order in which trec_eval reads them."""

Array = npt.NDArray[np.float64]


def rankings(collection: Collection, answers: Sequence[Hits], *, drop_identical: bool) -> list[Ranking]:
    """The answers by the ids of documents, in trec_eval's order.

    Args:
        collection: N documents, Q queries.
        answers: one for each query.
        drop_identical: leave out a document of the same id as the query.
    """
    found = []
    for query, hits in zip(collection.queries, answers, strict=True):
        names = [collection.documents[row] for row in hits.rows.tolist()]
        order = [at for at in trec_order(names, hits.scores) if not (drop_identical and names[at] == query)]
        found.append([(names[at], float(hits.scores[at])) for at in order])
    return found


def judge(collection: Collection, found: Sequence[Ranking]) -> Array:
    """The figures of every query, (Q, M) float64; a query that is not answered has 0 in all of them."""
    judged: list[QueryFigures] = [
        judge_ranking([name for name, _ in ranking], collection.grades[query])
        for query, ranking in zip(collection.queries, found, strict=True)
    ]
    return table_of(judged)


def figures(table_QM: Array, draws: int) -> dict[str, Any]:
    """Means over the queries, and where 95 % of draws of as many queries have them."""
    columns = dict(zip(MEASURES, table_QM.T, strict=True))
    intervals = {name: mean_interval(values_Q, draws=draws) if draws else None for name, values_Q in columns.items()}
    return {
        "metrics": {name: round(float(values_Q.mean()), 6) for name, values_Q in columns.items()},
        "intervals": {
            name: None if found is None else np.round(found, 6).tolist() for name, found in intervals.items()
        },
    }


def differences(table_QM: Array, other_QM: Array, draws: int) -> Mapping[str, Any] | None:
    """How a system differs from another on the same queries: difference, interval and p of every measure."""
    if not draws:
        return None
    found = {}
    for name, one_Q, other_Q in zip(MEASURES, table_QM.T, other_QM.T, strict=True):
        apart = paired_difference(one_Q, other_Q, draws=draws)
        found[name] = apart and {
            "difference": round(apart.mean, 6), "interval": np.round(apart.interval, 6).tolist(), "p": round(apart.p, 6),
        }  # fmt: skip
    return found


def trec_lines(collection: Collection, found: Sequence[Ranking], system: str) -> str:
    """A run as trec_eval reads it: query Q0 document rank score system. The scores keep every digit of a float32."""
    lines = [
        f"{query} Q0 {name} {rank} {score:.9g} {system}\n"
        for query, ranking in zip(collection.queries, found, strict=True)
        for rank, (name, score) in enumerate(ranking, start=1)
    ]
    return "".join(lines)
