"""Figures of rankings: the oracle is pytrec_eval, which is trec_eval itself."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.metrics import QueryFigures, score_ranking, trec_order

ITS_NAMES = {"ndcg_at_10": "ndcg_cut_10", "map": "map", "recall_at_100": "recall_100", "mrr": "recip_rank"}
DOCUMENTS = [f"d{number}" for number in range(300)]
SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0, -1.0, 1e-9, 0.1, 0.1 + 1e-9])  # many ties, also such as only float32 has


def by_trec(run: dict[str, float], grades: dict[str, int]) -> dict[str, float]:
    evaluator = pytrec_eval.RelevanceEvaluator({"q": grades}, {"ndcg_cut.10", "map", "recall.100", "recip_rank"})
    return evaluator.evaluate({"q": run})["q"]


def ours(run: dict[str, float], grades: dict[str, int]) -> QueryFigures:
    names = list(run)
    order = trec_order(names, np.array([run[name] for name in names]))
    return score_ranking([names[place] for place in order], grades)


@given(
    st.dictionaries(st.sampled_from(DOCUMENTS[:25]), SCORES, min_size=1),
    st.dictionaries(st.sampled_from(DOCUMENTS[:30]), st.integers(-1, 4), min_size=1),
)
def test_every_figure_is_that_of_trec_eval(run, grades):
    expected, found = by_trec(run, grades), ours(run, grades)
    for name in QueryFigures._fields:
        assert getattr(found, name) == pytest.approx(expected[ITS_NAMES[name]], abs=1e-9), name


def test_long_rankings_with_grades_are_those_of_trec_eval():
    rng = np.random.default_rng()
    for _ in range(20):
        size = int(rng.integers(80, 300))
        run = dict(zip(rng.choice(DOCUMENTS, size, replace=False).tolist(), rng.random(size).round(2), strict=True))
        grades = {name: int(rng.integers(0, 4)) for name in rng.choice(DOCUMENTS, 60, replace=False).tolist()}
        expected, found = by_trec(run, grades), ours(run, grades)
        assert [getattr(found, name) for name in QueryFigures._fields] == pytest.approx(
            [expected[ITS_NAMES[n]] for n in QueryFigures._fields]
        )


def test_equal_scores_are_read_from_the_last_name_to_the_first():
    names = ["10", "9", "a", "é", "B"]
    assert [names[place] for place in trec_order(names, np.ones(5))] == ["é", "a", "B", "9", "10"]
    assert trec_order(["a", "b"], np.array([1.0, 1.0 + 1e-12])) == [1, 0]  # equal as float32
    assert trec_order([], np.zeros(0)) == []


def test_nothing_found_and_nothing_relevant_are_zero():
    assert score_ranking([], {"a": 1}) == score_ranking(["a"], {}) == score_ranking(["a"], {"a": 0}) == QueryFigures()
    assert score_ranking(["a"], {"a": 2}) == QueryFigures(1.0, 1.0, 1.0, 1.0)
