"""Measures of classifiers and taggers: accuracy, precision, recall and F1 of each label and in the mean, confusion."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelScore:
    """How well one label is found.

    Attributes:
        precision: share of what was given this label that has it; 0 where nothing was.
        recall: share of what has it that was given it; 0 where nothing has.
        f1: their harmonic mean.
        support: how many have it.
    """

    precision: float
    recall: float
    f1: float
    support: int


def label_score(right: int, given: int, there: int) -> LabelScore:
    """Of numbers: given and true, given at all, true at all."""
    precision, recall = (right / number if number else 0.0 for number in (given, there))
    f1 = 2.0 * right / (given + there) if given + there else 0.0
    return LabelScore(precision, recall, f1, there)


def accuracy(found_N: Sequence[object], wanted_N: Sequence[object]) -> float:
    """Share of equal pairs; 0 of none."""
    return sum(a == b for a, b in zip(found_N, wanted_N, strict=True)) / max(1, len(wanted_N))


def confusion(found_N: Sequence[str], wanted_N: Sequence[str], labels: Sequence[str]) -> npt.NDArray[np.int64]:
    """How often each true label (row) was given each label (column), in the order of `labels`, (V, V)."""
    place = {label: number for number, label in enumerate(labels)}
    table_VV = np.zeros((len(labels), len(labels)), np.int64)
    for found, wanted in zip(found_N, wanted_N, strict=True):
        table_VV[place[wanted], place[found]] += 1
    return table_VV


def micro_score(found_N: Sequence[Iterable[object]], wanted_N: Sequence[Iterable[object]]) -> LabelScore:
    """Over all labels, or spans, of all texts together."""
    right = given = there = 0
    for found, wanted in zip(found_N, wanted_N, strict=True):
        one, other = {*found}, {*wanted}
        right, given, there = right + len(one & other), given + len(one), there + len(other)
    return label_score(right, given, there)


# ---- figures as sums over texts, for the bootstrap: what each text adds, and the score of the sum


def right_given_there(found_N: Sequence[Iterable[object]], wanted_N: Sequence[Iterable[object]]) -> Numbers:
    """What each text adds to a micro score: things that are given and true, given at all, true at all, (N, 3)."""
    rows = []
    for found, wanted in zip(found_N, wanted_N, strict=True):
        one, other = {*found}, {*wanted}
        rows.append((len(one & other), len(one), len(other)))
    return np.array(rows, np.float64).reshape(-1, 3)


def label_statistics(
    found_N: Sequence[Iterable[str]], wanted_N: Sequence[Iterable[str]], labels: Sequence[str]
) -> npt.NDArray[np.int8]:
    """The same for each label of texts that have sets of labels, (N, 3 V): V right, V given, V there."""
    place, V = {label: number for number, label in enumerate(labels)}, len(labels)
    table_N3V = np.zeros((len(wanted_N), 3, V), np.int8)
    for row, (found, wanted) in enumerate(zip(found_N, wanted_N, strict=True)):
        one, other = {*found}, {*wanted}
        for part, some in enumerate((one & other, one, other)):
            table_N3V[row, part, [place[label] for label in some]] = 1
    return table_N3V.reshape(len(wanted_N), 3 * V)


def f1_of(sums: npt.NDArray[np.number]) -> Numbers:
    """F1 of such sums, (...) of (..., 3); 0 where nothing is given and nothing there."""
    both = sums[..., 1] + sums[..., 2]
    found: Numbers = 2.0 * sums[..., 0] / np.maximum(both, 1)
    return found


def macro_f1_of(sums: npt.NDArray[np.number]) -> Numbers:
    """The mean F1 of the labels that come or were given, (...) of (..., 3 V), as in scikit-learn."""
    right, given, there = np.split(np.asarray(sums), 3, axis=-1)
    both = given + there
    f1 = 2.0 * right / np.maximum(both, 1)
    found: Numbers = f1.sum(-1) / np.maximum(1, (both > 0).sum(-1))
    return found


def ratio_of(sums: npt.NDArray[np.number]) -> Numbers:
    """The first of two sums divided by the other, (...) of (..., 2): a mean, an accuracy."""
    found: Numbers = sums[..., 0] / np.maximum(sums[..., 1], np.finfo(np.float64).tiny)
    return found


def most_confused(found_N: Sequence[str], wanted_N: Sequence[str], most: int) -> list[tuple[str, str, int]]:
    """True label, given label and how often, of the pairs that differ, the most frequent first; equals by name."""
    pairs = Counter((wanted, found) for found, wanted in zip(found_N, wanted_N, strict=True) if found != wanted)
    ranked = sorted(pairs.items(), key=lambda one: (-one[1], one[0]))
    return [(wanted, found, count) for (wanted, found), count in ranked[:most]]
