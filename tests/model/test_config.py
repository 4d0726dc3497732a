import pytest

from tests.model.shapes import small_config
from wordpipe.errors import ConfigError
from wordpipe.model.config import pad_vocab
from wordpipe.model.presets import PRESETS


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


def test_an_encoder_shares_no_keys():
    with pytest.raises(ConfigError, match="keys and values of their own"):
        small_config("encoder", n_kv_heads=2)


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
