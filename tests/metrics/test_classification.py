"""Measures of classifiers equal scikit-learn's."""

import numpy as np
import pytest

from wordpipe.metrics import (
    f1_of,
    label_score,
    label_statistics,
    macro_f1_of,
    micro_score,
    most_confused,
    ratio_of,
    right_given_there,
)

LABELS = ["a", "b", "c", "d"]


@pytest.mark.landing
def test_single_labels():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(1)
    for n in (1, 7, 200):
        found, wanted = (random.choice(LABELS[:3], n).tolist() for _ in range(2))
        there = sorted({*found, *wanted})
        sums = label_statistics([[one] for one in found], [[one] for one in wanted], LABELS).sum(0)
        theirs = sklearn_metrics.precision_recall_fscore_support(wanted, found, labels=LABELS, zero_division=0)
        for place in range(len(LABELS)):
            ours = label_score(*(int(one) for one in sums.reshape(3, -1)[:, place]))
            assert (ours.precision, ours.recall, ours.f1, ours.support) == pytest.approx(
                tuple(values[place] for values in theirs)
            )
        expected = sklearn_metrics.f1_score(wanted, found, labels=there, average="macro", zero_division=0)
        assert macro_f1_of(sums) == pytest.approx(expected)


@pytest.mark.landing
def test_several_labels():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(2)
    found, wanted = (random.integers(0, 2, (50, 4)) for _ in range(2))
    sets = [[[LABELS[place] for place in np.flatnonzero(row)] for row in rows] for rows in (found, wanted)]
    micro = micro_score(*sets)
    for name in ("precision", "recall", "f1"):
        theirs = getattr(sklearn_metrics, f"{name}_score")(wanted, found, average="micro")
        assert getattr(micro, name) == pytest.approx(theirs)
    sums = label_statistics(*sets, LABELS).sum(0)
    assert macro_f1_of(sums) == pytest.approx(sklearn_metrics.f1_score(wanted, found, average="macro"))


def test_of_nothing():
    assert micro_score([], []).f1 == 0.0
    assert macro_f1_of(np.zeros(6)) == 0.0


@pytest.mark.landing
def test_sums_over_texts_are_the_figures_of_all():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(3)
    found, wanted = ([[label] for label in random.choice(LABELS[:3], 90)] for _ in range(2))
    rows = label_statistics(found, wanted, LABELS)
    assert rows.shape == (90, 12)
    flat = [[one[0] for one in some] for some in (wanted, found)]
    assert macro_f1_of(rows.sum(0)) == pytest.approx(sklearn_metrics.f1_score(*flat, average="macro"))
    both = np.stack([rows[:40].sum(0), rows.sum(0)])
    assert macro_f1_of(both)[1] == macro_f1_of(rows.sum(0))
    assert f1_of(right_given_there(found, wanted).sum(0)) == pytest.approx(micro_score(found, wanted).f1)
    assert f1_of(np.zeros(3)) == macro_f1_of(np.zeros(6)) == ratio_of(np.zeros(2)) == 0.0


def test_confused_pairs_are_ranked_by_number_then_name():
    assert most_confused([*"bbcaa"], [*"aabab"], 9) == [("a", "b", 2), ("b", "a", 1), ("b", "c", 1)]
    assert most_confused([*"bbcaa"], [*"aabab"], 1) == [("a", "b", 2)]
