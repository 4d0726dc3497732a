"""Measures of classifiers equal scikit-learn's."""

import numpy as np
import pytest

from wordpipe.metrics import accuracy, confusion, label_scores, macro_f1, micro_score

sklearn_metrics = pytest.importorskip("sklearn.metrics")
LABELS = ["a", "b", "c", "d"]


def test_single_labels():
    random = np.random.default_rng(1)
    for n in (1, 7, 200):
        found, wanted = (random.choice(LABELS[:3], n).tolist() for _ in range(2))
        there = sorted({*found, *wanted})
        assert accuracy(found, wanted) == pytest.approx(sklearn_metrics.accuracy_score(wanted, found))
        scores = label_scores([[one] for one in found], [[one] for one in wanted], LABELS)
        theirs = sklearn_metrics.precision_recall_fscore_support(wanted, found, labels=LABELS, zero_division=0)
        for place, label in enumerate(LABELS):
            ours = scores[label]
            assert (ours.precision, ours.recall, ours.f1, ours.support) == pytest.approx(
                tuple(values[place] for values in theirs)
            )
        expected = sklearn_metrics.f1_score(wanted, found, labels=there, average="macro", zero_division=0)
        assert macro_f1(scores.values()) == pytest.approx(expected)
        assert (
            confusion(found, wanted, LABELS) == sklearn_metrics.confusion_matrix(wanted, found, labels=LABELS)
        ).all()


def test_several_labels():
    random = np.random.default_rng(2)
    found, wanted = (random.integers(0, 2, (50, 4)) for _ in range(2))
    sets = [[[LABELS[place] for place in np.flatnonzero(row)] for row in rows] for rows in (found, wanted)]
    micro = micro_score(*sets)
    for name in ("precision", "recall", "f1"):
        theirs = getattr(sklearn_metrics, f"{name}_score")(wanted, found, average="micro")
        assert getattr(micro, name) == pytest.approx(theirs)
    scores = label_scores(*sets, LABELS)
    assert macro_f1(scores.values()) == pytest.approx(sklearn_metrics.f1_score(wanted, found, average="macro"))


def test_of_nothing():
    assert accuracy([], []) == 0.0
    assert micro_score([], []).f1 == 0.0
    assert macro_f1([]) == 0.0
