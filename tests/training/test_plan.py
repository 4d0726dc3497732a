"""The plan of a training: sizes, steps, and the learning rate of each step."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.small_trainings import SPECIAL
from wordpipe.errors import ConfigError
from wordpipe.model import PRESETS, STYLES, transformers_class
from wordpipe.training import learning_rate, make_plan, model_config, trained_shape, warmup_steps
from wordpipe.training.settings import CausalSettings, MaskedSettings


def config_of(values=None, architecture="encoder"):
    settings = (MaskedSettings if architecture == "encoder" else CausalSettings).make(values or {})
    return model_config(settings, architecture, n_tokens=1000, special=SPECIAL)


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("style", ["modern", "classic"])
def test_the_style_decides_the_parts(architecture, style):
    config = config_of({"style": style}, architecture)
    for name, value in STYLES[architecture, style].items():
        assert getattr(config, name) == value
    assert config.architecture == architecture


@pytest.mark.parametrize(
    "values",
    [
        {"positions": "alibi"}, {"norm": "rms"}, {"norm_place": "post"}, {"feedforward": "relu"}, {"attention": "linear"},
        {"tied": False}, {"n_kv_heads": 2}, {"dropout": 0.1},
    ],
)  # fmt: skip
def test_a_part_that_is_set_wins_over_the_style(values):
    for style in ("modern", "classic"):
        config, plain = config_of({"style": style} | values), config_of({"style": style})
        ((name, value),) = values.items()
        assert getattr(config, name) == value
        follows = {"norm": {"norm_bias"}, "feedforward": {"ffn_dim"}}.get(name, set())
        changed = {key for key in vars(config) if getattr(config, key) != getattr(plain, key)}
        assert changed <= {name} | follows


def test_a_norm_by_root_mean_square_has_no_offset():
    assert config_of({"style": "classic"}).norm_bias
    assert not config_of({"style": "classic", "norm": "rms"}).norm_bias


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_plain_feed_forward_has_as_many_weights_as_a_gated_one(preset):
    gated, plain = (config_of({"preset": preset, "feedforward": kind}) for kind in ("geglu", "gelu"))
    assert gated.ffn_dim == PRESETS[preset].ffn_dim
    assert 3 * gated.ffn_dim == 2 * plain.ffn_dim
    assert config_of({"preset": preset, "style": "classic"}).ffn_dim == plain.ffn_dim
    assert config_of({"feedforward": "gelu", "ffn_dim": 100}).ffn_dim == 100


@pytest.mark.parametrize(
    ("values", "windows"),
    [
        ({}, (0, 0, 0, 0, 0)),
        ({"window": 8}, (0, 8, 8, 0, 8)),  # every third layer sees everything, as in ModernBERT
        ({"window": 8, "global_every": 2}, (0, 8, 0, 8, 0)),
        ({"window": 8, "global_every": 0}, (8, 8, 8, 8, 8)),  # as in Mistral
        ({"window": 8, "global_tokens": 2}, (0, 8, 8, 0, 8)),
    ],
)
def test_local_layers_lie_between_global_ones(values, windows):
    config = config_of({"n_layers": 5} | values)
    assert config.windows == windows
    assert config.global_tokens == values.get("global_tokens", 0)


@pytest.mark.parametrize(
    ("values", "mixers", "windows"),
    [
        ({"mixers": "ssm, dot", "n_layers": 5}, ("ssm", "dot", "ssm", "dot", "ssm"), (0,) * 5),
        (
            {"mixers": "dot,dot,fourier", "n_layers": 5, "window": 7},
            ("dot", "dot", "fourier", "dot", "dot"),
            (0, 7, 0, 0, 7),
        ),
        ({"mixers": "performer", "n_layers": 2}, (), (0, 0)),
        ({"n_layers": 2}, (), (0, 0)),
    ],
)
def test_a_pattern_of_mixers_is_repeated_and_windows_are_for_scores(values, mixers, windows):
    config = config_of(values)
    assert (config.mixers, config.windows) == (mixers, windows)
    assert config.attention == ("performer" if values.get("mixers") == "performer" else "dot")
    assert config.state_dim == (32 if "ssm" in mixers else 0)
    assert config.linformer_dim == 0


def test_a_pattern_fits_the_model_and_its_window():
    with pytest.raises(ConfigError, match=r"the pattern has more mixers than the model has layers.*at most 2"):
        config_of({"mixers": "ssm,ssm,dot", "n_layers": 2})
    with pytest.raises(ConfigError, match="window has no effect, because no layer in mixers uses attention"):
        config_of({"mixers": "dot,ssm", "n_layers": 2, "window": 7})
    with pytest.raises(ConfigError, match="an even number"):
        config_of({"mixers": "ssm", "state_dim": 7})


def test_a_linformer_does_not_grow():
    """It has a column for each position; what knows positions by distance grows with its sequences."""
    longer = MaskedSettings.make({"seq_len": 256})
    short = {"seq_len": 128, "linformer_dim": 16}
    assert trained_shape(longer, config_of({"seq_len": 128}))[0].max_len == 256
    config = config_of(short | {"attention": "linformer"})
    assert config.linformer_dim == 16
    with pytest.raises(ConfigError, match="at most 128"):
        trained_shape(longer, config)


def test_key_heads_must_divide_the_query_heads():
    with pytest.raises(ConfigError, match="multiple of n_kv_heads"):
        config_of({"n_heads": 4, "n_kv_heads": 3})


def plan_of(values, device="cpu"):
    settings = MaskedSettings.make(values)
    config = model_config(settings, "encoder", n_tokens=16_000, special=SPECIAL)
    return make_plan(settings, config, n_blocks=1000, seq_len=128, device=device)


def test_the_plan_takes_the_smoothing_of_labels():
    assert plan_of({}).label_smoothing == 0.0
    assert plan_of({"label_smoothing": 0.1}).label_smoothing == 0.1


def test_the_micro_batch_has_room_for_the_highest_mask_rate():
    low, rising, high = (
        plan_of({"batch_size": 4096, "mask_rate": first, "mask_rate_end": last}, device="mps").micro_batch
        for first, last in ((0.1, None), (0.1, 0.9), (0.9, None))
    )
    assert low > rising == high


def test_an_encoder_of_llamas_blocks_has_no_head():
    bare, other = config_of({"norm": "rms", "feedforward": "swiglu"}), config_of({"norm": "rms"})
    assert (bare.head, bare.embedding_norm, bare.output_bias) == (False, False, False)
    assert (other.head, other.embedding_norm, other.output_bias) == (True, True, True)
    assert transformers_class(bare) is transformers_class(other) is None


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


@pytest.mark.landing
def test_the_shapes_are_those_of_transformers():
    from transformers import optimization as twins

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
