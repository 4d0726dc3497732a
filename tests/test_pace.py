"""Trainings within a time, by a clock that the tests move on."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe import pace
from wordpipe.errors import ConfigError
from wordpipe.pace import TimeLimit, shown_minutes


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self, monkeypatch):
        self.seconds = 100.0
        monkeypatch.setattr(pace, "now", lambda: self.seconds)

    def work(self, limit, cost, *, closing=0.0, done=0, until=10**9, aside=()):
        """Work piece by piece until the plan, or `until`, is reached; what was done."""
        while done < until and (limit.total is None or done < limit.total):
            self.seconds += cost(done)
            done += 1
            limit.replanned(done, closing=closing)
            if done in aside:
                with limit.beside("validation"):
                    self.seconds += closing
        return done


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture(scope="module")
def module_clock():
    with pytest.MonkeyPatch.context() as patch:
        yield Clock(patch)


def limit_of(clock, seconds, **more):
    return TimeLimit(seconds, clock.seconds, **more)


def test_an_even_pace_fills_the_time_by_one_plan(clock):
    limit = limit_of(clock, 600)
    clock.seconds += 60  # reading, preparing
    done = clock.work(limit, lambda _: 1.0)
    assert done == limit.total
    assert len(limit.planned) == 1
    assert 0.97 * 600 <= limit.spent <= 600


def test_compiling_is_time_but_no_pace(clock):
    limit = limit_of(clock, 600)
    done = clock.work(limit, lambda step: 90.0 if step == 0 else 0.5)
    assert len(limit.planned) == 1
    assert 0.97 * 600 <= limit.spent <= 600
    assert done == pytest.approx((600 - 90) / 0.5, rel=0.02)


@pytest.mark.parametrize("slower", [0.4, 0.8, 1.3, 3.0])
def test_a_pace_that_changes_is_followed_with_few_plans(clock, slower):
    limit = limit_of(clock, 600)
    done = clock.work(limit, lambda step: 0.5 if step < 300 else 0.5 * slower)
    assert limit.spent <= 601
    assert done == limit.total
    assert limit.spent > 0.9 * 600 or slower < 0.8  # late in a schedule no steps are added
    assert len(limit.planned) < 12


@given(st.lists(st.floats(0.05, 3.0), min_size=10, max_size=30), st.integers(30, 3000))
def test_whatever_the_pace_the_time_is_kept(module_clock, costs, seconds):
    limit = limit_of(module_clock, seconds)
    try:
        done = module_clock.work(limit, lambda step: costs[step % len(costs)])
    except ConfigError:
        assert seconds < 40 * max(costs) + 10
        return
    assert done == limit.total
    assert limit.spent <= seconds + max(costs)
    assert limit.planned == sorted(limit.planned, key=lambda plan: plan[0])


def test_a_stall_ends_the_work(clock):
    limit = limit_of(clock, 100)
    done = clock.work(limit, lambda step: 0.1 if step != 500 else 45.0)
    assert done == limit.total
    assert limit.spent <= 101


def test_other_work_is_no_pace_and_has_its_time(clock):
    limit = limit_of(clock, 100)
    done = clock.work(limit, lambda _: 0.1, closing=5.0, aside=(100, 200, 300))
    assert limit.spent <= 100
    assert done >= 780  # what stood aside of 100 seconds is 20


def test_no_more_than_is_wanted_and_no_less_than_is_worth_it(clock):
    limit = limit_of(clock, 600)
    limit.wanting(50)
    assert clock.work(limit, lambda _: 1.0) == 50 == limit.total
    short = limit_of(clock, 10)
    short.wanting(math.inf)
    with pytest.raises(
        ConfigError,
        match=r"10 seconds, which is enough for \d+ steps .*at least 20 .*; expected at least about 0.4 minutes",
    ):
        clock.work(short, lambda _: 1.0)
    few = limit_of(clock, 10)
    few.wanting(6)  # that is all there is to do
    assert clock.work(few, lambda _: 1.0) == 6
    gone = limit_of(clock, 30)
    clock.seconds += 31
    with pytest.raises(ConfigError, match="31 seconds passed before the training could begin"):
        gone.refuse_past()


@pytest.mark.parametrize("at", [1, 3, 200, 560])
def test_a_run_that_was_stopped_goes_on_to_the_same_end(clock, at):
    whole = limit_of(clock, 600)
    want = clock.work(whole, lambda _: 1.0)
    first = limit_of(clock, 600)
    clock.work(first, lambda _: 1.0, until=at)
    log = json.loads(json.dumps(first.log()))
    clock.seconds += 7_000  # nobody worked
    again = limit_of(clock, 600)
    again.go_on(log)
    clock.seconds += 2
    assert clock.work(again, lambda _: 1.0, done=at) == pytest.approx(want, abs=3)
    assert again.spent <= 600


def test_parts_share_the_time(clock):
    limit = limit_of(clock, 90)
    spent = []
    for number in range(3):
        part = limit.share(3 - number)
        clock.work(part, lambda _: 0.1)
        limit.follow(part)
        spent.append(limit.spent)
    assert [round(one / 10) for one in spent] == [3, 6, 9]
    assert limit.spent <= 90


def test_what_the_manifest_says(clock):
    limit = limit_of(clock, 60)
    done = clock.work(limit, lambda step: 0.1 if step < 200 else 0.2)
    facts = limit.facts(done)
    assert facts["minutes"] == 1
    assert facts["planned"] > facts["made"] == done
    assert facts["corrections"] == len(limit.planned) - 1 > 0


def test_people_are_told_of_what_changes_much(clock):
    limit = limit_of(clock, 60)
    assert not limit.is_news()
    told = []
    for total in (100, 104, 105, 106, 101, 90, 86, 85):
        limit.planned.append((0, total))
        told += [total] if limit.is_news() else []
    assert told == [100, 106, 90, 85]


@pytest.mark.parametrize("seed", range(5))
def test_a_pace_that_flickers_changes_the_plan_seldom(clock, seed):
    draw = random.Random(seed)
    limit = limit_of(clock, 600)
    factors = [draw.choice((1.0, 1.3, 1.8)) for _ in range(200)]  # every one for some 6 seconds
    done = clock.work(limit, lambda step: 0.1 * factors[step // 40])
    assert done == limit.total
    assert len(limit.planned) <= 6  # by a short memory 8 to 15
    assert 0.9 * 600 < limit.spent <= 600


def test_times_in_words():
    assert [shown_minutes(one) for one in (1, 59, 60, 61.5, 5400)] == [
        "1 second", "59 seconds", "1 minute", "1 minute", "90 minutes",
    ]  # fmt: skip
