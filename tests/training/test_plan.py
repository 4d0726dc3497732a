import pytest

from tests.training.parts import SPECIAL
from wordpipe.errors import ConfigError
from wordpipe.model import PRESETS, STYLES, native_class
from wordpipe.training import make_plan, model_config
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
    assert native_class(bare) is native_class(other) is None
