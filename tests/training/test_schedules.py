import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import optimization as twins

from wordpipe.training import learning_rate, warmup_steps

ARGUMENTS = {"steps": 100, "peak": 1.0, "warmup": 10, "min_frac": 0.1, "decay": 0.2}
SCHEDULES = ["cosine", "linear", "wsd", "noam", "constant"]


def rates(schedule, **changes):
    arguments = ARGUMENTS | changes
    return [learning_rate(step, schedule=schedule, **arguments) for step in range(arguments["steps"])]


def rates_of_twin(make, peak=0.5, steps=100):
    """Rates of a scheduler object. Theirs begin at 0; ours with what is their second, so that no step is for nothing."""
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=peak)
    scheduler = make(optimiser)
    found = []
    for _ in range(steps):
        optimiser.step()
        scheduler.step()
        found.append(optimiser.param_groups[0]["lr"])
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warmup_rises_in_equal_steps_and_starts_above_zero(schedule):
    assert rates(schedule)[:10] == pytest.approx([0.1 * i for i in range(1, 11)])


def test_cosine_has_its_values():
    cosine = rates("cosine")
    assert cosine[9] == 1.0
    assert cosine[99] == pytest.approx(0.1)
    for step in (10, 25, 54, 80):
        assert cosine[step] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi * (step - 9) / 90)) / 2)


def test_linear_falls_in_equal_steps():
    linear = rates("linear")
    falls = [a - b for a, b in itertools.pairwise(linear[9:])]
    assert falls == pytest.approx([0.9 / 90] * 90)
    assert linear[99] == pytest.approx(0.1)


def test_wsd_stays_and_then_falls_in_equal_steps():
    wsd = rates("wsd")
    assert set(wsd[9:80]) == {1.0}
    assert wsd[99] == pytest.approx(0.1)
    falls = [a - b for a, b in itertools.pairwise(wsd[79:])]
    assert falls == pytest.approx([0.9 / 20] * 20)


def test_constant_stays():
    assert set(rates("constant")[9:]) == {1.0}


@pytest.mark.parametrize(("width", "warmup", "factor"), [(512, 40, 1.0), (256, 10, 2.0), (64, 1, 1.0)])
def test_noam_is_the_formula_of_the_paper(width, warmup, factor):
    paper = [factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5) for step in range(1, 201)]
    peak = factor * (width * warmup) ** -0.5
    assert rates("noam", steps=200, warmup=warmup, peak=peak, min_frac=0.0) == pytest.approx(paper)
    assert max(paper) == pytest.approx(peak)


def test_noam_has_a_floor_and_needs_no_warmup():
    assert rates("noam", warmup=0, min_frac=0.0)[:4] == pytest.approx([1.0, 2**-0.5, 3**-0.5, 0.5])
    assert min(rates("noam", warmup=4, min_frac=0.25, steps=1000)) == 0.25


def test_the_shapes_are_those_of_transformers():
    wsd = rates_of_twin(
        lambda optimiser: twins.get_wsd_schedule(
            optimiser,
            num_warmup_steps=0,
            num_stable_steps=80,
            num_decay_steps=20,
            decay_type="linear",
            min_lr_ratio=0.1,
        )
    )
    assert rates("wsd", peak=0.5, warmup=0) == pytest.approx(wsd)
    wsd = rates_of_twin(lambda optimiser: twins.get_wsd_schedule(optimiser, 10, 20, 100, decay_type="linear"))
    assert rates("wsd", peak=0.5, min_frac=0.0) == pytest.approx(wsd)
    linear = rates_of_twin(lambda optimiser: twins.get_linear_schedule_with_warmup(optimiser, 10, 100))
    assert rates("linear", peak=0.5, min_frac=0.0) == pytest.approx(linear)
    cosine = rates_of_twin(lambda optimiser: twins.get_cosine_schedule_with_warmup(optimiser, 10, 100))
    assert rates("cosine", peak=0.5, min_frac=0.0) == pytest.approx(cosine)
    constant = rates_of_twin(lambda optimiser: twins.get_constant_schedule_with_warmup(optimiser, 10))
    assert rates("constant", peak=0.5) == pytest.approx(constant)


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
    schedule=st.sampled_from(SCHEDULES),
)
def test_rates_rise_then_never_rise_again_and_stay_in_bounds(steps, warmup, decay, min_frac, schedule):
    warmup = min(warmup, steps)
    values = rates(schedule, steps=steps, warmup=warmup, decay=decay, min_frac=min_frac)
    assert all(0 <= rate <= 1.0 + 1e-12 for rate in values)
    assert values[:warmup] == sorted(values[:warmup])
    assert values[warmup:] == sorted(values[warmup:], reverse=True)
    assert all(rate >= min_frac * (1 - 1e-12) for rate in values[warmup:])
    if warmup < steps and schedule in ("cosine", "linear", "wsd"):
        assert values[-1] == pytest.approx(min_frac)
