"""Measures of classifiers and taggers: accuracy, precision, recall and F1 of each label and in the mean, confusion."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


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


def label_scores(
    found_N: Sequence[Iterable[object]], wanted_N: Sequence[Iterable[object]], labels: Sequence[str]
) -> dict[str, LabelScore]:
    """Each label's, where a text has any number of labels."""
    found, wanted = ([{*one} for one in some] for some in (found_N, wanted_N))
    pairs = list(zip(found, wanted, strict=True))
    return {
        label: label_score(
            sum(label in a and label in b for a, b in pairs),
            sum(label in a for a, _ in pairs),
            sum(label in b for _, b in pairs),
        )
        for label in labels
    }


def macro_f1(scores: Iterable[LabelScore]) -> float:
    """The mean over labels that come or were given."""
    values = [one.f1 for one in scores if one.support or one.f1 or one.precision]
    return sum(values) / max(1, len(values))


def micro_score(found_N: Sequence[Iterable[object]], wanted_N: Sequence[Iterable[object]]) -> LabelScore:
    """Over all labels, or spans, of all texts together."""
    right = given = there = 0
    for found, wanted in zip(found_N, wanted_N, strict=True):
        one, other = {*found}, {*wanted}
        right, given, there = right + len(one & other), given + len(one), there + len(other)
    return label_score(right, given, there)
