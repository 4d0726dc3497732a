import pytest

from tests.support.models import small_config
from wordpipe.errors import ConfigError
from wordpipe.model import PRESETS, pad_vocab


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"n_layers": 0}, "n_layers"),
        ({"n_heads": 5}, "n_heads"),
        ({"dim": 36}, "n_heads"),  # 9 numbers per head: no pairs to rotate
        ({"n_kv_heads": 3}, "n_kv_heads"),
        ({"mask_id": 96}, "mask_id"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_name(changes, where):
    with pytest.raises(ConfigError) as caught:
        small_config("decoder", **changes)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"windows": (0, 2)}, "windows"),
        ({"windows": (0, -1, 2)}, "windows"),
        ({"attention": "linear", "positions": "alibi"}, "attention"),
        ({"attention": "linear", "windows": (0, 2, 2)}, "attention"),
        ({"attention": "additive", "n_kv_heads": 2}, "n_kv_heads"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_by_name(changes, where):
    with pytest.raises(ConfigError) as caught:
        small_config("decoder", **changes)
    assert caught.value.where == where


def test_rotary_bases_of_local_and_global_layers():
    config = small_config("encoder", windows=(0, 4, 4), rope_theta=1e5, local_rope_theta=1e4)
    assert [config.theta_of(layer) for layer in range(3)] == [1e5, 1e4, 1e4]
    assert small_config("encoder", windows=(0, 4, 4)).theta_of(1) == 10_000.0


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_are_valid_and_have_heads_of_32_or_64(name):
    preset = PRESETS[name]
    assert preset.dim // preset.n_heads in (32, 64)
    assert preset.dim % preset.n_heads == 0
    assert preset.n_heads % preset.n_kv_heads == 0
    assert preset.ffn_dim % 64 == 0


@pytest.mark.parametrize(("n", "padded"), [(1, 64), (64, 64), (65, 128), (16_000, 16_000), (50_257, 50_304)])
def test_pad_vocab(n, padded):
    assert pad_vocab(n) == padded
