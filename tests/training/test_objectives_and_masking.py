"""Objectives: inputs, targets and losses; masked tokens, words and spans."""

import math
import signal
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models import small_config
from tests.support.small_trainings import run_to_end, settings_of, training
from wordpipe.model import new_model
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.training import (
    RATE_STEPS,
    Masked,
    Rows,
    SpecialIds,
    choose,
    loss_sum,
    span_lengths,
    span_units,
    take,
    word_numbers,
    word_units,
)
from wordpipe.training.recipes import Causal, Opened, recipe_named

SPECIAL = (0, 1, 2, 3, 4, 5, 6)
UNITS = ["token", "word", "span"]


def masked(rate=0.15, mask_share=0.8, random_share=0.1, n_tokens=90, unit="token"):
    return Masked(
        rate=rate, unit=unit, mask_share=mask_share, random_share=random_share, mask_id=4, special_ids=SPECIAL,
        n_tokens=n_tokens, device=torch.device("cpu"),
    )  # fmt: skip


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(B, T, seed=0, special_share=0.1):
    random = np.random.default_rng(seed)
    ids = random.integers(7, 90, (B, T))
    ids[random.random((B, T)) < special_share] = 3
    ids[:, 0], ids[:, -1] = 2, 3
    starts = (random.random((B, T)) < 0.7) | (ids == 3) | (np.roll(ids, 1, axis=1) < 7)
    return Rows(torch.from_numpy(ids), torch.from_numpy(starts))


def test_random_tokens_are_spread_over_the_ordinary_ones():
    targets = masked(rate=0.9, mask_share=0.0, random_share=1.0).targets(rows(2000, 66), generator(), 0.0)
    drawn = torch.bincount(targets.inputs.gather(1, targets.positions)[targets.weights > 0], minlength=96)
    assert drawn[:7].sum() == 0
    assert drawn[90:].sum() == 0  # padding of the embedding table
    assert float(drawn[7:90].max() / drawn[7:90].min()) < 1.35


def test_single_token_masks_stay_what_they_were():
    """Masks of a seed are part of what a run is: the same inputs as ever."""
    targets = masked(0.5).targets(Rows(torch.arange(7, 27)[None]), generator(3), 0.0)
    assert sorted(targets.positions[0].tolist()) == [4, 6, 7, 8, 9, 11, 17, 18, 19]
    shown = targets.inputs[0].tolist()
    assert [t for t in range(20) if shown[t] == 4] == [4, 6, 7, 8, 9, 11, 17, 19]


def test_causal_shifts_once_and_never_asks_for_a_document_to_begin():
    ids_BT = torch.tensor([[5, 10, 11, 6, 5, 12]])
    targets = Causal(bos_id=5).targets(Rows(ids_BT), generator(), 0.0)
    assert targets.inputs.tolist() == [[5, 10, 11, 6, 5]]
    assert targets.labels.tolist() == [[10, 11, 6, 5, 12]]
    assert targets.weights.tolist() == [[1, 1, 1, 0, 1]]


def objective_of(kind):
    return Causal(bos_id=3) if kind == "clm" else masked(0.5, unit=kind)


def model_of(kind):
    return new_model(small_config("decoder" if kind == "clm" else "encoder"), 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("kind", [*UNITS, "clm"])
def test_loss_is_the_sum_over_targets_alone(kind, smoothing):
    """Twin: logits at every position by the plain forward pass, picked one by one."""
    model = model_of(kind)
    # so many special tokens that some rows have fewer ordinary ones than places
    targets = objective_of(kind).targets(rows(5, 17, special_share=0.6), generator(), 0.0)
    with torch.no_grad():
        log_p_BTV = model(targets.inputs).log_softmax(dim=-1)
        got = float(loss_sum(model, targets, smoothing))
    want, V = 0.0, log_p_BTV.shape[2]
    for b in range(5):
        for k in range(targets.labels.shape[1]):
            t = k if targets.positions is None else int(targets.positions[b, k])
            wanted_V = torch.full((V,), smoothing / V)
            wanted_V[targets.labels[b, k]] += 1.0 - smoothing
            want -= float(targets.weights[b, k]) * float(wanted_V @ log_p_BTV[b, t])
    assert 0 < float(targets.weights.sum()) < targets.weights.numel()
    assert got == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("kind", UNITS)
def test_sequences_of_special_tokens_alone_cost_nothing(kind):
    model = model_of(kind)
    targets = objective_of(kind).targets(rows(2, 12, special_share=1.0), generator(), 0.0)
    loss = loss_sum(model, targets, 0.1)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


def test_segments_reach_the_model_and_are_cut_with_the_batch():
    model = new_model(small_config("encoder", segments=2), 0)
    one = objective_of("token").targets(rows(4, 12), generator(), 0.0)
    other = replace(one, segments=torch.ones_like(one.inputs))
    with torch.no_grad():
        losses = [float(loss_sum(model, targets)) for targets in (one, replace(one, segments=one.inputs * 0), other)]
        parts = [float(loss_sum(model, other.rows(first, first + 2))) for first in (0, 2)]
    assert losses[0] == losses[1] != losses[2]
    assert sum(parts) == pytest.approx(losses[2], rel=1e-6)


def test_one_token_that_begins_and_ends_is_a_target_once_between_documents():
    recipe, some = recipe_named("clm"), Rows(torch.tensor([[7, 8, 5, 9, 10]]), None)
    for special, before, after, weights in (
        (SpecialIds(bos=5, eos=5), (), (5,), [1, 1, 1, 1]), (SpecialIds(bos=5, eos=6), (5,), (6,), [1, 0, 1, 1]),
    ):  # fmt: skip
        opened = Opened(special=special, n_tokens=90)
        data = recipe.data(opened, recipe.settings())
        assert (data.before, data.after) == (before, after)
        objective = recipe.objective(recipe.settings(), opened, torch.device("cpu"))
        assert objective.targets(some, torch.Generator(), 0.0).weights.tolist() == [weights]


def masked_by(unit, rate=0.15, **values):
    shares = {"mask_share": 0.8, "random_share": 0.1} | values
    return Masked(
        rate=rate, unit=unit, mask_id=4, special_ids=SPECIAL, n_tokens=900, device=torch.device("cpu"), **shares
    )


def text(B, T, seed=0, special_share=0.05, starts_share=0.7):
    """Rows of [CLS] … [SEP] with document ends in between; every special token is a word of its own."""
    draw = generator(seed)
    ids = torch.randint(7, 900, (B, T), generator=draw)
    starts = torch.rand(B, T, generator=draw) < starts_share
    special = torch.rand(B, T, generator=draw) < special_share
    special[:, 0] = special[:, -1] = True
    ids[special] = 3
    starts |= special
    starts[:, 1:] |= special[:, :-1]
    return Rows(ids, starts)


def is_special(rows):
    return torch.isin(rows.ids_BT, torch.tensor(SPECIAL))


cases = st.fixed_dictionaries(
    {
        "T": st.integers(3, 50),
        "seed": st.integers(0, 10_000),
        "special_share": st.sampled_from([0.0, 0.1, 0.6, 1.0]),
        "starts_share": st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    }
)
rates = st.floats(0.001, 0.9)


def slow_words(starts, special):
    """The positions of each word, special tokens left out as None to keep the numbers."""
    words = []
    for t, (start, forbidden) in enumerate(zip(starts, special, strict=True)):
        if start or not words:
            words.append([])
        if not forbidden:
            words[-1].append(t)
    return words


def slow_choice(units, n_chosen):
    """Lay units one after the other until a word does not fit. A unit is a list of words, a word a list of positions."""
    chosen = []
    for unit in units:
        for word in unit:
            if len(chosen) + len(word) > n_chosen:
                return chosen or word[:n_chosen]
            chosen += word
    return chosen


def slow_spans(words, priorities, lengths):
    """SpanBERT's loop: the next span goes where nothing lies yet; it ends at a special token (an empty word)."""
    taken, units = set(), {}
    for first in sorted(range(len(words)), key=lambda number: -priorities[number]):
        unit = []
        for number in range(first, min(first + lengths[first], len(words))):
            if not words[number]:
                break
            if number not in taken:
                taken.add(number)
                unit.append(number)
        units[first] = unit
    return units


@given(case=cases, rate=rates, kind=st.sampled_from(["word", "span"]))
def test_chosen_positions_are_those_of_the_loop(case, rate, kind):
    rows, T = text(3, **case), case["T"]
    special, n_chosen = is_special(rows), max(1, round(rate * (T - 2)))
    draw = generator(case["seed"] + 1)
    priority = torch.stack([torch.randperm(T, generator=draw) for _ in range(3)]) / T  # all different
    length = torch.randint(1, 11, (3, T), generator=draw)
    word = word_numbers(rows.word_starts_BT)
    units = word_units(priority, word) if kind == "word" else span_units(priority, length, word, special)
    positions, counted = take(units, special, n_chosen)
    assert positions.shape == (3, n_chosen)
    for b in range(3):
        words = slow_words(rows.word_starts_BT[b].tolist(), special[b].tolist())
        lengths = length[b].tolist() if kind == "span" else [1] * T
        laid = slow_spans(words, priority[b].tolist(), lengths)
        want = slow_choice([[words[number] for number in unit] for unit in laid.values()], n_chosen)
        assert positions[b][counted[b]].tolist() == want  # in this order, too
        first_of = {t: first for first, unit in laid.items() for number in unit for t in words[number]}
        assert [int(units.unit[b, t]) for t in want] == [first_of[t] for t in want]
        assert len(set(positions[b].tolist())) == n_chosen


@given(case=cases, rate=rates, unit=st.sampled_from(UNITS))
def test_words_are_whole_special_tokens_never_chosen_and_the_budget_kept(case, rate, unit):
    rows, T = text(4, **case), case["T"]
    special, n_chosen = is_special(rows), max(1, round(rate * (T - 2)))
    targets = masked_by(unit, rate).targets(rows, generator(case["seed"]), 0.0)
    chosen = torch.zeros_like(special).scatter(1, targets.positions, targets.weights > 0)
    assert targets.labels.shape == (4, n_chosen)
    assert not (chosen & special).any()
    assert torch.equal(targets.inputs[~chosen], rows.ids_BT[~chosen])
    assert torch.equal(targets.labels, rows.ids_BT.gather(1, targets.positions))
    n_ordinary = (~special).sum(dim=1)
    n_targets = targets.weights.sum(dim=1).long()
    assert torch.equal(n_targets > 0, n_ordinary > 0)  # never zero targets where there is anything to guess
    for b in range(4):
        words = [word for word in slow_words(rows.word_starts_BT[b].tolist(), special[b].tolist()) if word]
        cut = [word for word in words if 0 < int(chosen[b, word].sum()) < len(word)]
        longest = max(map(len, words), default=1)
        if unit == "token":
            assert n_targets[b] == min(n_chosen, n_ordinary[b])
        elif cut:  # a single word that is longer than the budget
            assert len(cut) == 1
            assert n_targets[b] == n_chosen < len(cut[0])
        else:
            assert min(n_chosen, int(n_ordinary[b])) - longest < n_targets[b] <= n_chosen


@pytest.mark.parametrize("unit", UNITS)
def test_masks_are_a_function_of_the_generators_seed(unit):
    one, same, other = (masked_by(unit).targets(text(8, 40), generator(seed), 0.0) for seed in (1, 1, 2))
    for a, b in zip(vars(one).values(), vars(same).values(), strict=True):
        assert a is b is None or torch.equal(a, b)
    assert not torch.equal(one.positions, other.positions)


@pytest.mark.parametrize("unit", UNITS)
def test_micro_batches_are_slices_of_the_same_masks(unit):
    targets = masked_by(unit).targets(text(8, 40), generator(), 0.0)
    parts = [targets.rows(first, first + 3) for first in (0, 3, 6)]
    for name in ("inputs", "positions", "labels", "weights"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(targets, name))


@pytest.mark.parametrize("unit", ["word", "span"])
def test_a_word_or_span_is_hidden_in_one_way(unit):
    rows = text(300, 120, special_share=0.02, starts_share=0.5)
    choice = choose(unit, is_special(rows), rows.word_starts_BT, 30, generator())
    word = word_numbers(rows.word_starts_BT).gather(1, choice.positions)
    ways, n_words = Counter(), 0
    for b in range(300):
        draws: dict[int, set[float]] = {}
        for number, draw, counted in zip(word[b].tolist(), choice.draw[b].tolist(), choice.counted[b], strict=True):
            if counted:
                draws.setdefault(number, set()).add(draw)
        assert all(len(seen) == 1 for seen in draws.values())
        alike = Counter(draw for seen in draws.values() for draw in seen)
        n_words += len(draws)
        ways.update("mask" if draw < 0.8 else "random" if draw < 0.9 else "same" for draw in alike)
        assert unit == "span" or len(alike) == len(draws)  # and another word in another one
    n = ways.total()
    assert (n == n_words) == (unit == "word")
    for way, share in (("mask", 0.8), ("random", 0.1), ("same", 0.1)):
        assert abs(ways[way] / n - share) < 4 * math.sqrt(share * (1 - share) / n)


@pytest.mark.parametrize("unit", UNITS)
def test_shares_of_masks_random_tokens_and_unchanged_ones(unit):
    targets = masked_by(unit, 0.3).targets(text(3000, 130, special_share=0.02), generator(), 0.0)
    counted = targets.weights > 0
    shown, labels = targets.inputs.gather(1, targets.positions)[counted], targets.labels[counted]
    n = len(shown)
    assert abs(int((shown == 4).sum()) / n - 0.8) < 0.01
    assert abs(int((shown == labels).sum()) / n - 0.1 - 0.1 / 893) < 0.01
    ordinary = shown[(shown != 4) & (shown != labels)]
    assert abs(len(ordinary) / n - 0.1) < 0.01
    assert 7 <= int(ordinary.min()) <= int(ordinary.max()) < 900
    assert len(ordinary.unique()) == 893


@pytest.mark.parametrize("unit", UNITS)
def test_all_chosen_tokens_may_be_masks(unit):
    targets = masked_by(unit, 0.5, mask_share=1.0, random_share=0.0).targets(text(50, 60), generator(), 0.0)
    counted = targets.weights > 0
    assert (targets.inputs.gather(1, targets.positions)[counted] == 4).all()
    assert int((targets.inputs == 4).sum()) == int(counted.sum())


@pytest.mark.parametrize("unit", ["token", "word"])
def test_no_place_is_preferred(unit):
    rows = text(4000, 66, special_share=0.0, starts_share=0.6)
    targets = masked_by(unit, 0.25).targets(rows, generator(), 0.0)
    places = torch.bincount(targets.positions[targets.weights > 0], minlength=66)[1:65] / 4000
    assert float(places.mean()) == pytest.approx(0.25, abs=0.015)
    assert float((places - places.mean()).abs().max()) < 0.04


def test_lengths_of_spans_are_geometric_and_end_at_ten():
    n = 400_000
    lengths = span_lengths(torch.rand(n, generator=generator()))
    seen = torch.bincount(lengths, minlength=12) / n
    for length in range(1, 11):
        want = 0.2 * 0.8 ** (length - 1) / (1 - 0.8**10)
        assert abs(float(seen[length]) - want) < 4 * math.sqrt(want / n)
    assert float(seen[1:11].sum()) == pytest.approx(1.0)
    assert float(lengths.float().mean()) == pytest.approx(3.8, abs=0.02)  # the paper's figure
    assert span_lengths(torch.tensor([0.0, 1.0 - 2**-24])).tolist() == [1, 10]


def test_spans_lie_together():
    """Runs of hidden words: about one long in words, about as long as a span in spans."""
    rows = text(400, 400, special_share=0.0, starts_share=1.0)
    mean = {}
    for unit in ("word", "span"):
        targets = masked_by(unit, 0.1).targets(rows, generator(), 0.0)
        chosen = torch.zeros(400, 400).scatter(1, targets.positions, targets.weights)
        n_runs = float((chosen[:, 1:] > chosen[:, :-1]).sum())
        mean[unit] = float(chosen.sum()) / n_runs
    assert mean["word"] == pytest.approx(1 / 0.9, abs=0.02)
    assert 3.4 < mean["span"] < 4.4


def test_a_sequence_of_special_tokens_has_no_target():
    rows = text(2, 20, special_share=1.0)
    for unit in UNITS:
        targets = masked_by(unit).targets(rows, generator(), 0.0)
        assert float(targets.weights.sum()) == 0
        assert torch.equal(targets.inputs, rows.ids_BT)


def test_a_moving_rate_takes_few_values_and_half_way_in_the_mean():
    objective = masked_by("token", 0.3, rate_end=0.1)
    steps = 8000
    seen = [objective.rate_at(step / steps) for step in range(steps)]
    assert len(set(seen)) == RATE_STEPS <= 16
    assert seen == sorted(seen, reverse=True)
    assert (seen[0], seen[-1]) == (0.3, pytest.approx(0.1))
    assert sum(seen) / steps == pytest.approx(0.2)
    assert objective.rate_at(1.0) == pytest.approx(0.1)
    shapes = [objective.targets(text(2, 102), generator(), at).labels.shape[1] for at in (0.0, 0.5, 1.0)]
    assert shapes == [30, 19, 10]
    assert {masked_by("token", 0.3).rate_at(step / 10) for step in range(11)} == {0.3}


@pytest.mark.parametrize("unit", UNITS)
def test_masks_cost_next_to_nothing(unit):
    """A step of `mini` takes most of a second on two cores, its masks a thousandth; ten times that on a busy machine."""
    rows, objective = text(32, 128), masked_by(unit, 0.3)
    seconds = []
    for seed in range(20):
        begin = time.perf_counter()
        objective.targets(rows, generator(seed), 0.0)
        seconds.append(time.perf_counter() - begin)
    assert min(seconds) < 0.010


@pytest.mark.parametrize("unit", ["word", "span"])
def test_a_run_in_words_with_a_moving_rate_is_continued_exactly(unit, tmp_path):
    moving = {"mask_unit": unit, "mask_rate": 0.6, "mask_rate_end": 0.15}
    settings = settings_of("mlm", steps=9, report_every=5, label_smoothing=0.1, **moving)
    starts = {"word_starts": np.random.default_rng(1).random(2000) < 0.6}
    want = run_to_end(training(settings, tmp_path / "whole", **starts))
    first = training(settings, tmp_path / "stopped", **starts)
    with pytest.raises(Stopped):
        _stop_at_first_report(first)
    again = training(settings, tmp_path / "stopped", **starts)
    assert again.resumed_from == first.step < 9
    assert run_to_end(again) == want
    assert all(math.isfinite(step.loss) for step in again.history)


def _stop_at_first_report(run):
    flag = StopFlag()
    for _ in run.steps(flag):
        flag.signum = signal.SIGTERM
