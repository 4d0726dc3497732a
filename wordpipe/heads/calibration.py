"""Probabilities that mean what they say, and the thresholds of several labels; both found on held-out texts.

A trained classifier is too sure of itself. Its logits are divided by one number T, the temperature, that makes the held-out
labels most probable; which label is the most probable one does not change.

Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", sections 2 and 4.2 (arXiv 1706.04599).
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Kind = Literal["single", "several"]

_BINS = 15
_COLDEST, _HOTTEST = 0.05, 20.0
_ROUNDS = 60  # of the golden section: the interval is then 1e-11 of what it was


def probabilities_of(logits_NV: Floats, temperature: float, kind: Kind) -> npt.NDArray[np.float64]:
    """Return calibrated probabilities (N, V) of scores: a softmax over the labels, or a sigmoid of each."""
    scaled_NV = np.asarray(logits_NV, np.float64) / temperature
    if kind == "several":
        return np.exp(-np.logaddexp(0.0, -scaled_NV))
    scaled_NV = scaled_NV - scaled_NV.max(-1, keepdims=True)
    exp_NV = np.exp(scaled_NV)
    probabilities: npt.NDArray[np.float64] = exp_NV / exp_NV.sum(-1, keepdims=True)
    return probabilities


def log_loss(logits_NV: Floats, labels: npt.NDArray[np.integer], temperature: float, kind: Kind) -> float:
    """Return the mean negative log-probability of the true labels, in nats, which calibration lowers.

    Args:
        logits_NV: of the classifier.
        labels: the true label of each text, (N,); of several labels 0 or 1 for each, (N, V).
        temperature: T.
        kind: whether one label is right, or several may be.
    """
    scaled_NV = np.asarray(logits_NV, np.float64) / temperature
    if kind == "several":
        return float(np.logaddexp(0.0, np.where(labels == 1, -scaled_NV, scaled_NV)).mean())
    highest_N = scaled_NV.max(1)
    total_N = highest_N + np.log(np.exp(scaled_NV - highest_N[:, None]).sum(1))
    return float((total_N - scaled_NV[np.arange(len(labels)), labels]).mean())


def choose_temperature(logits_NV: Floats, labels: npt.NDArray[np.integer], kind: Kind) -> float:
    """Return the temperature of the smallest log-loss, between 0.05 and 20; one valley in 1 / T is searched.

    A few texts that are all right would ask for the coldest one, and with it for certainty. So log T is expected to be about
    0, normal with deviation 1: to six texts that says much, to a hundred little.

    Args:
        logits_NV: of held-out texts.
        labels: see `log_loss`.
        kind: likewise.
    """

    def loss_at(log_t: float) -> float:
        return log_loss(logits_NV, labels, float(np.exp(log_t)), kind) + log_t**2 / (2.0 * len(logits_NV))

    low, high, golden = np.log(_COLDEST), np.log(_HOTTEST), (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(_ROUNDS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if loss_at(left) <= loss_at(right):
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2.0))


def choose_thresholds(probabilities_NV: Floats, labels_NV: npt.NDArray[np.integer]) -> list[float]:
    """Return the threshold of the best F1 on held-out texts for each label; a label is given from it on, upwards.

    It lies half-way between two probabilities that occur. 0.5 where a label never comes, or where it is as good.
    """
    found = []
    for probability_N, true_N in zip(np.asarray(probabilities_NV, np.float64).T, labels_NV.T, strict=True):
        order = np.argsort(-probability_N, kind="stable")
        ranked_N, hits_N = probability_N[order], np.cumsum(true_N[order])
        if not hits_N[-1]:
            found.append(0.5)
            continue
        f1_N = 2.0 * hits_N / (np.arange(1, len(order) + 1) + hits_N[-1])
        f1_N[:-1][ranked_N[:-1] == ranked_N[1:]] = -1.0  # no threshold parts equal ones
        best = int(f1_N.argmax())
        at_half = int((probability_N >= 0.5).sum())
        if at_half and f1_N[at_half - 1] >= f1_N[best]:
            found.append(0.5)
        else:
            below = ranked_N[best + 1] if best + 1 < len(ranked_N) else 0.0
            found.append(float((ranked_N[best] + below) / 2.0))
    return found


def choose_no_answer(
    no_answer_N: npt.NDArray[np.float64], f1_N: npt.NDArray[np.float64], none_N: npt.NDArray[np.bool_]
) -> float:
    """Calibrate a reader: return the probability of no answer from which on none is given, by the best mean F1.

    Half-way between two that occur.

    Args:
        no_answer_N: of each question.
        f1_N: of the answer that would be given; of a question without one it is 0.
        none_N: whether there is none.
    """
    order = np.argsort(no_answer_N, kind="stable")
    sure_N, gain_N = no_answer_N[order], (f1_N - none_N)[order]
    total_N = np.concatenate([[0.0], np.cumsum(gain_N)])  # of an answer to the k questions that most likely have one
    total_N[1:-1][sure_N[1:] == sure_N[:-1]] = -np.inf  # no threshold parts equal ones
    best = int(total_N.argmax())
    low = sure_N[best - 1] if best else 0.0
    high = sure_N[best] if best < len(sure_N) else 1.0
    return float((low + high) / 2.0) if best < len(sure_N) else float(np.nextafter(high, 2.0))


def calibration_error(confidence_N: Floats, right_N: npt.NDArray[np.bool_]) -> float:
    """Return the expected calibration error: the mean distance of the given probability from the share of right answers.

    Args:
        confidence_N: the probability of the answer that was given.
        right_N: whether it was right.
    """
    bin_N = np.minimum((np.asarray(confidence_N, np.float64) * _BINS).astype(int), _BINS - 1)
    gaps = 0.0
    for number in np.unique(bin_N):
        here = bin_N == number
        gaps += abs(float(right_N[here].mean()) - float(confidence_N[here].mean())) * float(here.sum())
    return gaps / max(1, len(bin_N))
