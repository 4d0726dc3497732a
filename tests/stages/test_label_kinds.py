"""What a column of labels is: scores, or names of classes; and what is no score among scores."""

import math

import pytest

from wordpipe.errors import InputError
from wordpipe.heads.settings import ClassifierSettings
from wordpipe.stages.train import head_tasks

SCORES = [f"{number / 7:.2f}" for number in range(1, 60)]


def task_of(values, **settings):
    task = head_tasks.ClassifierTask(ClassifierSettings(**settings))
    for line, value in enumerate(values, start=1):
        task.look(value, f"in.csv:{line}")
    return task


@pytest.mark.parametrize(
    "odd", [None, math.nan, math.inf, "", " ", "NaN", "nan", "Infinity", "-inf", "n/a", "NA", "null", "-", "<NA>"]
)
def test_what_is_no_score_makes_no_classes_of_scores_and_is_left_out(odd):
    task = task_of([*SCORES[:9], odd, *SCORES])
    assert task.problem == "regression"
    assert task.read(odd, "text", "in.csv:11") is None
    assert task.read("1.25", "text", "in.csv:12") == 1.25


@pytest.mark.parametrize("odd", ["good", "1,5", "10 %"])
def test_a_word_among_scores_is_refused(odd):
    with pytest.raises(
        InputError, match=rf"in\.csv:60: most labels are numbers, but 1 of 60 labels are not numbers; got '{odd}'"
    ):
        _ = task_of([*SCORES, odd]).problem
    assert task_of([*SCORES, odd], problem="single").problem == "single_label"
    with pytest.raises(InputError, match=r"in\.csv:3: a score is not a number"):
        task_of([*SCORES, odd], problem="score").read(odd, "text", "in.csv:3")


@pytest.mark.parametrize(
    "values",
    [
        ["1.5", "2.5", "other", "1.5", "2.5"] * 9,
        ["3.11", "3.12", "beta", "rc"] * 9,
        [*SCORES[:20], *"abcdefghijklmnopqrst"],
        ["1", "2", "3", "n/a"] * 5,
        ["a", "b", "nan"],
    ],
)
def test_classes_stay_classes(values):
    assert task_of(values).problem == "single_label"
