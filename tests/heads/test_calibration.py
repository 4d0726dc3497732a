"""Temperatures and thresholds are the best ones; probabilities then mean what they say."""

import numpy as np
import pytest

from wordpipe.heads import calibration_error, choose_temperature, choose_thresholds, log_loss, probabilities_of


@pytest.mark.slow
@pytest.mark.parametrize("true", [0.4, 1.0, 2.5])
def test_a_temperature_is_found_again(true):
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, (20_000, 4))
    known = probabilities_of(logits, true, "single")
    labels = np.array([random.choice(4, p=row) for row in known])
    found = choose_temperature(logits, labels, "single")
    assert found == pytest.approx(true, rel=0.06)
    assert log_loss(logits, labels, found, "single") <= min(
        log_loss(logits, labels, one, "single") for one in np.linspace(0.1, 5, 200)
    ) + 1e-5  # fmt: skip
    sure = probabilities_of(logits, found, "single")
    assert calibration_error(sure.max(1), sure.argmax(1) == labels) < 0.02


def test_a_temperature_of_several_labels():
    random = np.random.default_rng(2)
    logits = random.normal(0, 2, (5_000, 3))
    labels = (random.random((5_000, 3)) < probabilities_of(logits, 1.7, "several")).astype(int)
    assert choose_temperature(logits, labels, "several") == pytest.approx(1.7, rel=0.1)


def test_few_texts_that_are_right_are_no_reason_to_be_certain():
    """Their loss alone is the smallest at the coldest temperature."""
    logits, labels = np.array([[2.0, 0.0], [0.0, 2.0]] * 3), np.array([0, 1] * 3)
    found = choose_temperature(logits, labels, "single")
    assert 0.4 < found < 0.9
    prior = [log_loss(logits, labels, t, "single") + np.log(t) ** 2 / 12 for t in np.linspace(0.1, 3, 2000)]
    assert found == pytest.approx(np.linspace(0.1, 3, 2000)[int(np.argmin(prior))], abs=2e-3)
    many = choose_temperature(np.repeat(logits, 400, axis=0), np.repeat(labels, 400), "single")
    assert many < found / 2


@pytest.mark.landing
def test_log_loss_equals_that_of_scikit_learn():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(3)
    logits, labels = random.normal(0, 3, (200, 5)), random.integers(0, 5, 200)
    known = probabilities_of(logits, 1.3, "single")
    assert log_loss(logits, labels, 1.3, "single") == pytest.approx(
        sklearn_metrics.log_loss(labels, known, labels=range(5))
    )
    several = random.integers(0, 2, (200, 5))
    sure = probabilities_of(logits, 1.3, "several")
    wanted = np.mean([sklearn_metrics.log_loss(several[:, k], sure[:, k], labels=[0, 1]) for k in range(5)])
    assert log_loss(logits, several, 1.3, "several") == pytest.approx(wanted)


def test_large_logits_stay_finite():
    logits = np.array([[1e4, -1e4], [-1e4, 1e4]])
    assert np.isfinite(probabilities_of(logits, 0.05, "single")).all()
    assert np.isfinite(probabilities_of(logits, 0.05, "several")).all()
    assert np.isfinite(choose_temperature(logits, np.array([0, 0]), "single"))


@pytest.mark.slow
def test_thresholds_have_the_best_f1_of_all():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(4)
    for _ in range(6):
        labels = random.integers(0, 2, (40, 2))
        known = np.round(np.clip(random.normal(0.3 + 0.3 * labels, 0.25), 0, 1), 2)
        for place, threshold in enumerate(choose_thresholds(known, labels)):
            f1 = [
                sklearn_metrics.f1_score(labels[:, place], known[:, place] >= one, zero_division=0)
                for one in [threshold, *np.linspace(-0.01, 1.01, 52)]
            ]
            assert f1[0] == pytest.approx(max(f1))


def test_a_label_that_never_comes_has_the_usual_threshold():
    assert choose_thresholds(np.array([[0.2], [0.7]]), np.array([[0], [0]])) == [0.5]
    assert choose_thresholds(np.array([[0.2], [0.7]]), np.array([[0], [1]])) == [0.5]


def test_the_calibration_error_by_hand():
    sure = np.array([0.95, 0.95, 0.55, 0.55])
    right = np.array([True, False, True, True])
    assert calibration_error(sure, right) == pytest.approx(0.5 * 0.45 + 0.5 * 0.45)
    assert calibration_error(np.ones(3), np.ones(3, bool)) == 0.0
