"""Attention weights by the exact path: transformers' eager ones, slow twins, and heads and layers left out."""

import numpy as np
import pytest
import torch

from tests.support.models import KINDS, files_of, kind_config, pair_config, shaken, small_config
from wordpipe.errors import ConfigError
from wordpipe.model import (
    HeadConfig,
    attend_exactly,
    attention_of,
    feedforwards_observed,
    heads_off,
    load_hf,
    new_encoder_decoder,
    new_model,
    pack,
    start_headed,
)

WEIGHED = [name for name in KINDS if kind_config(name).kinds <= {"dot", "additive"}]


def ids_of(n=14, seed=3):
    return np.random.default_rng(seed).integers(7, 96, n)


def fast(model, ids):
    with torch.inference_mode():
        return model.encode(torch.from_numpy(ids)[None])[0].numpy()


def folder_of(model, path):
    for name, data in files_of(model).items():
        (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize("name", WEIGHED)
def test_hidden_states_made_of_the_weights_are_those_of_the_fast_path(name):
    model = shaken(new_model(kind_config(name), 1))
    found = attend_exactly(model, ids_of())
    (maps,) = found.maps.values()
    assert maps.weights.shape == maps.norms.shape == (3, model.config.n_heads, 14, 14)
    assert maps.weights.dtype == np.float32
    assert maps.weights.sum(-1) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(found.hidden, fast(model, ids_of()), atol=1e-5, rtol=1e-5)
    if model.config.causal:
        assert np.abs(np.triu(maps.weights, 1)).max() == 0


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_long_texts_in_bands_have_the_weights_of_their_windows(architecture):
    """The fast path computes them in blocks."""
    changes = {"windows": (0, 16, 16), "max_len": 600, "n_layers": 3, "global_tokens": 2}
    model = shaken(new_model(small_config(architecture, **changes), 1))
    ids = ids_of(520)
    found = attend_exactly(model, ids)
    np.testing.assert_allclose(found.hidden, fast(model, ids), atol=1e-5, rtol=1e-5)
    (maps,) = found.maps.values()
    distance = np.abs(np.arange(520) - np.arange(520)[:, None])
    far = (distance > 16) & (np.arange(520) >= 2) & (np.arange(520)[:, None] >= 2)
    assert maps.weights[1, :, far].max() == 0
    assert maps.weights[0].sum(-1) == pytest.approx(1.0, abs=1e-5)


THEIRS = {
    "BertModel": ("encoder", "classic", {}),
    "ModernBertModel": ("encoder", "modern", {"windows": (0, 3, 3), "local_rope_theta": 40.0}),
    "LlamaModel": ("decoder", "modern", {"n_kv_heads": 2}),
    "MistralModel": ("decoder", "modern", {"windows": (3, 3, 3), "n_kv_heads": 2}),
    "GPT2Model": ("decoder", "classic", {}),
}


@pytest.mark.landing
@pytest.mark.parametrize("name", THEIRS)
def test_weights_are_those_of_eager_transformers(name, tmp_path):
    import transformers

    architecture, style, changes = THEIRS[name]
    model = shaken(new_model(small_config(architecture, style, **changes), 5))
    theirs = transformers.AutoModel.from_pretrained(folder_of(model, tmp_path), attn_implementation="eager").eval()
    assert type(theirs).__name__ == name
    with torch.inference_mode():
        want = theirs(input_ids=torch.from_numpy(ids_of())[None], output_attentions=True)
    found = attend_exactly(model, ids_of())
    (maps,) = found.maps.values()
    np.testing.assert_allclose(maps.weights, torch.cat(want.attentions).numpy(), atol=1e-6)
    np.testing.assert_allclose(found.hidden, want.last_hidden_state[0].numpy(), atol=1e-4)
    assert maps.weights.std() > 0.01


@pytest.mark.landing
@pytest.mark.parametrize("style", ["t5", "bart", "vaswani"])
def test_all_three_kinds_of_an_encoder_decoder_are_theirs(style, tmp_path):
    import transformers

    model = shaken(new_encoder_decoder(pair_config(style), 5))
    path = folder_of(model, tmp_path)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(path, attn_implementation="eager").eval()
    target = np.concatenate(([model.config.start_id], ids_of(9, seed=4)))
    with torch.inference_mode():
        want = theirs(
            input_ids=torch.from_numpy(ids_of())[None], decoder_input_ids=torch.from_numpy(target)[None],
            output_attentions=True,
        )  # fmt: skip
        source = model.read(torch.from_numpy(ids_of())[None])
        hidden = model.write(torch.from_numpy(target)[None], source)[0].numpy()
    found = attend_exactly(model, ids_of(), target_ids=target)
    for kind, given in (
        ("encoder", want.encoder_attentions),
        ("decoder", want.decoder_attentions),
        ("cross", want.cross_attentions),
    ):
        np.testing.assert_allclose(found.maps[kind].weights, torch.cat(given).numpy(), atol=1e-6, err_msg=kind)
    np.testing.assert_allclose(found.hidden, hidden, atol=1e-5)


def test_segments_of_a_pair_count():
    model = shaken(new_model(small_config("encoder", "classic"), 5))
    segments = (np.arange(14) > 6).astype(np.int64)
    found = attend_exactly(model, ids_of(), segments_T=segments)
    with torch.inference_mode():
        want = model.encode(torch.from_numpy(ids_of())[None], segments_BT=torch.from_numpy(segments)[None])[0].numpy()
    np.testing.assert_allclose(found.hidden, want, atol=1e-5)


@pytest.mark.parametrize("kind", ["encoder modern", "decoder grouped queries", "encoder wide heads"])
def test_norms_are_those_of_what_each_position_brings(kind):
    """A slow twin for the first layer: the vectors α f(v) one by one; their sum is what the attention writes."""
    model = shaken(new_model(kind_config(kind), 1))
    block, config = model.blocks[0], model.config
    written = []
    hook = block.attention.register_forward_hook(lambda _module, args, out: written.append((args[0], out)))
    (maps,) = attend_exactly(model, ids_of()).maps.values()
    hook.remove()
    x, out = written[0]
    _, _, v = torch.split(
        block.attention.qkv(x)[0].view(14, -1, config.head_dim),
        [config.n_heads, config.n_kv_heads, config.n_kv_heads],
        1,
    )
    total = np.zeros((14, config.dim))
    for h in range(config.n_heads):
        matrix = block.attention.out.weight[:, h * config.head_dim : (h + 1) * config.head_dim]
        brought = (v[:, h * config.n_kv_heads // config.n_heads] @ matrix.T).detach().numpy()
        for t in range(14):
            parts = maps.weights[0, h, t][:, None] * brought
            np.testing.assert_allclose(maps.norms[0, h, t], np.linalg.norm(parts, axis=1), rtol=1e-4, atol=1e-6)
            total[t] += parts.sum(0)
    offset = 0 if block.attention.out.bias is None else block.attention.out.bias
    np.testing.assert_allclose(total, (out[0] - offset).detach().numpy(), atol=1e-4)


def test_linear_attention_has_no_weights():
    with pytest.raises(ConfigError, match="linear attention has no attention weights"):
        attend_exactly(new_model(kind_config("encoder linear"), 1), ids_of())


@pytest.mark.parametrize("kind", ["encoder modern", "decoder windows", "encoder linear", "decoder one key head"])
def test_a_head_switched_off_is_one_whose_part_of_the_output_matrix_is_zero(kind):
    model, twin = (shaken(new_model(kind_config(kind), 1)) for _ in range(2))
    before = fast(model, ids_of())
    width = model.config.head_dim
    with torch.no_grad():
        twin.blocks[1].attention.out.weight[:, 2 * width : 3 * width] = 0
    kept = np.ones((3, model.config.n_heads))
    kept[1, 2] = 0
    with heads_off(model, {model.config.architecture: kept}):
        np.testing.assert_allclose(fast(model, ids_of()), fast(twin, ids_of()), atol=1e-5)
        packed = pack(ids_of(), np.array([9, 5]))
        with torch.inference_mode():
            np.testing.assert_allclose(model.encode_packed(packed), twin.encode_packed(packed), atol=1e-5)
        if "linear" not in kind:
            np.testing.assert_allclose(attend_exactly(model, ids_of()).hidden, fast(twin, ids_of()), atol=1e-5)
    np.testing.assert_array_equal(fast(model, ids_of()), before)
    assert not np.allclose(before, fast(twin, ids_of()), atol=1e-3)


def test_cross_heads_are_switched_off_alone():
    model, twin = (shaken(new_encoder_decoder(pair_config("bart"), 5)) for _ in range(2))
    with torch.no_grad():
        for block in twin.decoder.blocks:
            block.cross.out.weight.zero_()
    target = np.concatenate(([6], ids_of(5)))
    with heads_off(model, {"cross": np.zeros((3, 4))}):
        found = attend_exactly(model, ids_of(), target_ids=target).hidden
    np.testing.assert_allclose(found, attend_exactly(twin, ids_of(), target_ids=target).hidden, atol=1e-5)
    assert [len(some) for some in attention_of(model).values()] == [2, 3, 3]


def test_heads_that_are_not_there_are_refused():
    model = new_model(small_config("encoder"), 1)
    for kept in ({"decoder": np.ones((3, 4))}, {"encoder": np.ones((3, 5))}):
        with pytest.raises(ConfigError, match="factors do not match the layers and heads"), heads_off(model, kept):
            pass


def test_a_model_with_a_head_is_looked_into_like_its_body():
    model = shaken(new_model(small_config("encoder"), 1))
    headed = start_headed(model, HeadConfig("sequence", ("a", "b")), 1).eval()
    one, other = (attend_exactly(each, ids_of()).maps["encoder"].weights for each in (model, headed))
    np.testing.assert_array_equal(one, other)


def test_feedforwards_are_observed():
    model = shaken(new_model(small_config("encoder", "classic", feedforward="relu"), 1))
    seen = {}
    with feedforwards_observed(model, lambda name, layer, inner: seen.update({(name, layer): inner})):
        fast(model, ids_of())
    assert sorted(seen) == [("encoder", 0), ("encoder", 1), ("encoder", 2)]
    assert seen["encoder", 0].shape[-1] == 48
    assert float(seen["encoder", 0].min()) == 0.0


def test_a_folder_read_again_looks_alike(tmp_path):
    model = shaken(new_model(small_config("encoder"), 5))
    again = load_hf(files_of(model).__getitem__).model
    one, other = (attend_exactly(each, ids_of()).maps["encoder"] for each in (model, again))
    np.testing.assert_array_equal(one.norms, other.norms)
