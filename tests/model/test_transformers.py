"""The oracle: `transformers` loads our folders and computes what we compute, and the other way round."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
)

from tests.model.shapes import small_config
from wordpipe.errors import ArtifactError
from wordpipe.model.checkpoint import load_hf, save_hf
from wordpipe.model.initialise import new_model

SHAPES = [
    ("encoder", {}),
    ("encoder", {"tied": False}),
    ("encoder", {"n_layers": 1, "rope_theta": 160_000.0, "norm_eps": 1e-3}),
    ("decoder", {}),
    ("decoder", {"n_kv_heads": 2}),
    ("decoder", {"n_kv_heads": 1, "tied": False}),
    ("decoder", {"bos_id": None, "pad_id": None, "rope_theta": 500.0, "norm_eps": 1e-3}),
]


def shaken(model):
    """A model whose norms and biases are not at 1 and 0, where a missing one would not show."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spread = 0.5 if weight.dim() == 1 else float(weight.std())
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name))) * spread)
    return model.eval()


def batch(seed, padded):
    ids_BT = torch.randint(7, 96, (4, 20), generator=torch.Generator().manual_seed(seed))
    mask_BT = torch.ones(4, 20, dtype=torch.long)
    if padded:
        for row, length in enumerate((20, 13, 2, 7)):
            mask_BT[row, length:] = 0
            ids_BT[row, length:] = 0
    return ids_BT, mask_BT


def assert_equal_outputs(ours, theirs, *, padded):
    ids_BT, mask_BT = batch(11, padded)
    real = mask_BT.bool()
    with torch.no_grad():
        want = theirs(input_ids=ids_BT, attention_mask=mask_BT, output_hidden_states=True)
        hidden = theirs.base_model(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state
        logits = ours(ids_BT, mask_BT if padded else None)
        torch.testing.assert_close(logits[real], want.logits[real], atol=1e-4, rtol=1e-4)
        got_hidden = ours.encode(ids_BT, mask_BT if padded else None)
        torch.testing.assert_close(got_hidden[real], hidden[real], atol=1e-4, rtol=1e-4)


def folder_of(model, path):
    save_hf(model, model.config, lambda name, data: (path / name).write_bytes(data) and None)
    return path


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("architecture", "changes"), SHAPES)
def test_transformers_loads_our_folder(architecture, changes, padded, tmp_path):
    model = shaken(new_model(small_config(architecture, **changes), 5))
    auto = AutoModelForMaskedLM if architecture == "encoder" else AutoModelForCausalLM
    theirs, report = auto.from_pretrained(folder_of(model, tmp_path), output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.dtype is torch.float32
    assert theirs.config.vocab_size == 96
    assert_equal_outputs(model, theirs.eval(), padded=padded)


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_the_bare_auto_model_gives_our_hidden_states(architecture, tmp_path):
    model = shaken(new_model(small_config(architecture), 5))
    theirs = AutoModel.from_pretrained(folder_of(model, tmp_path)).eval()
    ids_BT, _ = batch(2, padded=False)
    with torch.no_grad():
        want = theirs(input_ids=ids_BT).last_hidden_state
        torch.testing.assert_close(model.encode(ids_BT), want, atol=1e-4, rtol=1e-4)


def their_encoder():
    return ModernBertForMaskedLM(
        ModernBertConfig(
            vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            max_position_embeddings=24, layer_types=["full_attention"] * 3, pad_token_id=0, bos_token_id=5,
            eos_token_id=6, cls_token_id=2, sep_token_id=3, norm_eps=1e-4,
        )
    )  # fmt: skip


def their_decoder(**changes):
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            max_position_embeddings=24, rms_norm_eps=1e-4, bos_token_id=5, eos_token_id=6, **changes,
        )
    )  # fmt: skip


THEIRS = {
    "modernbert": their_encoder,
    "llama": lambda: their_decoder(num_key_value_heads=4),
    "llama, shared keys, tied": lambda: their_decoder(num_key_value_heads=2, tie_word_embeddings=True),
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", sorted(THEIRS))
def test_we_load_their_folder(name, padded, tmp_path):
    torch.manual_seed(13)
    theirs = shaken(THEIRS[name]())
    theirs.save_pretrained(tmp_path)
    ours, config = load_hf(lambda file: (tmp_path / file).read_bytes())
    assert config.norm_eps == 1e-4
    assert config.tied == theirs.config.tie_word_embeddings
    assert_equal_outputs(ours, theirs, padded=padded)


@pytest.mark.parametrize(("architecture", "changes"), SHAPES)
def test_our_folder_comes_back_bit_by_bit(architecture, changes, tmp_path):
    model = shaken(new_model(small_config(architecture, **changes), 5))
    first: dict[str, bytes] = {}
    save_hf(model, model.config, first.__setitem__)
    loaded, config = load_hf(first.__getitem__)
    second: dict[str, bytes] = {}
    save_hf(loaded, config, second.__setitem__)
    assert config == model.config
    assert first == second
    for (name, a), (_, b) in zip(model.named_parameters(), loaded.named_parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), err_msg=name)


def saved(architecture, **changes):
    files: dict[str, bytes] = {}
    model = new_model(small_config(architecture, **changes), 1)
    save_hf(model, model.config, files.__setitem__)
    return files


def edited(files, **values):
    config = json.loads(files["config.json"]) | values
    return files | {"config.json": json.dumps(config).encode()}


@pytest.mark.parametrize(
    ("architecture", "values", "named"),
    [
        ("encoder", {"model_type": "bert"}, "model_type"),
        ("encoder", {"hidden_activation": "relu"}, "hidden_activation"),
        ("encoder", {"norm_bias": True}, "norm_bias"),
        ("encoder", {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}, "layer_types"),
        ("encoder", {"hidden_size": "32"}, "hidden_size"),
        ("encoder", {"vocab_size": None}, "vocab_size"),
        ("encoder", {"cls_token_id": 4096}, "cls_id"),
        ("decoder", {"hidden_act": "gelu"}, "hidden_act"),
        ("decoder", {"attention_bias": True}, "attention_bias"),
        ("decoder", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling"),
        ("decoder", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_type"),
        ("decoder", {"head_dim": 16}, "head_dim"),
        ("decoder", {"num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": None}, "n_heads"),
        ("decoder", {"eos_token_id": "x"}, "eos_token_id"),
    ],
)
def test_a_config_that_we_do_not_compute_is_refused_by_name(architecture, values, named):
    files = edited(saved(architecture), **values)
    with pytest.raises(ArtifactError, match=named):
        load_hf(files.__getitem__)


def with_weights(files, change):
    weights = load(files["model.safetensors"])
    change(weights)
    return files | {"model.safetensors": save(weights)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("model.norm.weight"), "1 weights are missing, model.norm.weight first"),
        (lambda w: w.update(extra=torch.ones(1)), "1 weights are unknown, extra first"),
        (lambda w: w.update({"model.norm.weight": torch.ones(31)}), r"model.norm.weight does not fit.*\(31,\)"),
        (lambda w: w.update({"model.norm.weight": torch.ones(32).half()}), "float16.*float32"),
        (lambda w: w["model.embed_tokens.weight"][3].fill_(float("nan")), "embed_tokens.weight is not finite"),
        (lambda w: w.update({"lm_head.weight": torch.ones(96, 32)}), "lm_head.weight differs from the embedding"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(change, message):
    files = with_weights(saved("decoder"), change)
    with pytest.raises(ArtifactError, match=message):
        load_hf(files.__getitem__)


@pytest.mark.parametrize("cut", [0, 4, 200, -1])
def test_a_cut_file_is_refused(cut):
    files = saved("encoder")
    with pytest.raises(ArtifactError, match="safetensors"):
        load_hf((files | {"model.safetensors": files["model.safetensors"][:cut]}).__getitem__)
    with pytest.raises(ArtifactError, match="JSON"):
        load_hf((files | {"config.json": files["config.json"][:-5]}).__getitem__)
    with pytest.raises(ArtifactError, match="JSON object"):
        load_hf((files | {"config.json": b"[]"}).__getitem__)


def test_a_tied_copy_of_the_output_matrix_is_accepted():
    files = saved("decoder")
    with_copy = with_weights(files, lambda w: w.update({"lm_head.weight": w["model.embed_tokens.weight"].clone()}))
    assert load_hf(with_copy.__getitem__)[1].tied
