import math

import pytest
import torch
from torch.nn import functional as F

from tests.model.shapes import small_config
from wordpipe.model import PRESETS, STYLES, ModelConfig, new_model, seed_of


@pytest.mark.parametrize("style", ["modern", "classic"])
@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize(
    "preset",
    ["tiny", "mini", pytest.param("small", marks=pytest.mark.slow), pytest.param("base", marks=pytest.mark.slow)],
)
def test_loss_of_a_fresh_model_is_near_that_of_guessing(architecture, preset, style):
    size = PRESETS[preset]
    V = 4000
    config = ModelConfig(
        architecture=architecture, vocab_size=V, dim=size.dim, n_layers=size.n_layers, n_heads=size.n_heads,
        n_kv_heads=size.n_kv_heads, ffn_dim=size.ffn_dim, max_len=64, **STYLES[architecture, style],
    )  # fmt: skip
    model = new_model(config, 0).eval()
    generator = torch.Generator().manual_seed(1)
    ids_BT, labels_BT = torch.randint(0, V, (2, 2, 64), generator=generator)
    with torch.no_grad():
        loss = F.cross_entropy(model(ids_BT).flatten(0, 1), labels_BT.flatten())
    assert abs(float(loss) - math.log(V)) < 0.25


def test_weights_depend_on_the_seed_and_the_name_alone():
    before = torch.random.get_rng_state()
    one, same, other = (dict(new_model(small_config("encoder"), seed).named_parameters()) for seed in (7, 7, 8))
    deeper = dict(new_model(small_config("encoder", n_layers=4), 7).named_parameters())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["embedding"], other["embedding"])
    assert torch.equal(one["blocks.2.attention.qkv.weight"], deeper["blocks.2.attention.qkv.weight"])
    assert not torch.equal(one["blocks.1.attention.qkv.weight"], one["blocks.2.attention.qkv.weight"])


def test_deviations_and_cut_off():
    config = small_config("decoder", dim=128, ffn_dim=320, vocab_size=4096)
    weights = {name: weight.detach() for name, weight in new_model(config, 0).named_parameters()}
    inner = math.sqrt(2 / (5 * 128))
    expected = {
        "embedding": 0.02,
        "blocks.0.attention.qkv.weight": inner,
        "blocks.1.feedforward.up.weight": inner,
        "blocks.0.attention.out.weight": inner / math.sqrt(6),
        "blocks.2.feedforward.down.weight": inner / math.sqrt(6),
    }
    for name, deviation in expected.items():
        assert float(weights[name].std()) == pytest.approx(deviation, rel=0.03), name
        assert float(weights[name].abs().max()) <= 3 * deviation * 1.0001, name
    assert bool((weights["final_norm.weight"] == 1).all())


def test_seeds_tell_their_parts_apart():
    seeds = {seed_of(1, "a"), seed_of("1", "a"), seed_of(1, "a", 0), seed_of(11, "a"), seed_of("a", 1)}
    assert len(seeds) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(1, "masks", 200) == 1788921215378489524  # the same for ever: a checkpoint is continued by it
