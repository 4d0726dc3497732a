import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.training.schedules import learning_rate, warmup_steps

ARGUMENTS = {"steps": 100, "peak": 1.0, "warmup": 10, "min_frac": 0.1, "decay": 0.2}


def rates(schedule, **changes):
    arguments = ARGUMENTS | changes
    return [learning_rate(step, schedule=schedule, **arguments) for step in range(arguments["steps"])]


def test_warmup_rises_in_equal_steps_and_starts_above_zero():
    for schedule in ("cosine", "wsd"):
        assert rates(schedule)[:10] == pytest.approx([0.1 * i for i in range(1, 11)])


def test_cosine_has_its_values():
    cosine = rates("cosine")
    assert cosine[9] == 1.0
    assert cosine[99] == pytest.approx(0.1)
    for step in (10, 25, 54, 80):
        assert cosine[step] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi * (step - 9) / 90)) / 2)


def test_wsd_stays_and_then_falls_in_equal_steps():
    wsd = rates("wsd")
    assert set(wsd[9:80]) == {1.0}
    assert wsd[99] == pytest.approx(0.1)
    falls = [a - b for a, b in itertools.pairwise(wsd[79:])]
    assert falls == pytest.approx([0.9 / 20] * 20)


@pytest.mark.parametrize(
    ("warmup", "steps", "expected"), [(0.06, 200, 12), (0, 200, 0), (1, 200, 1), (300, 200, 200), (0.5, 1, 0)]
)
def test_warmup_is_a_share_or_a_number(warmup, steps, expected):
    assert warmup_steps(warmup, steps) == expected


@given(
    steps=st.integers(1, 400),
    warmup=st.integers(0, 400),
    decay=st.floats(0.001, 1.0),
    min_frac=st.floats(0, 1),
    schedule=st.sampled_from(["cosine", "wsd"]),
)
def test_rates_rise_then_never_rise_again_and_stay_in_bounds(steps, warmup, decay, min_frac, schedule):
    warmup = min(warmup, steps)
    values = rates(schedule, steps=steps, warmup=warmup, decay=decay, min_frac=min_frac)
    assert all(0 <= rate <= 1.0 + 1e-12 for rate in values)
    assert values[:warmup] == sorted(values[:warmup])
    assert values[warmup:] == sorted(values[warmup:], reverse=True)
    if warmup < steps:
        assert values[-1] == pytest.approx(min_frac)
