"""The oracle: `transformers` loads our folders and computes what we compute, and the other way round."""

from random import Random

import numpy as np
import pytest
import torch

from tests.support.models import files_of, shaken, small_config
from wordpipe.errors import ConfigError
from wordpipe.model import load_hf, new_model, transformers_class, why_no_class

# class → (architecture, style, what is changed)
SHAPES = {
    "ModernBertForMaskedLM": [
        ("encoder", "modern", {}),
        ("encoder", "modern", {"tied": False}),
        ("encoder", "modern", {"n_layers": 1, "rope_theta": 160_000.0, "norm_eps": 1e-3}),
        ("encoder", "modern", {"n_layers": 4, "windows": (0, 3, 3, 0), "rope_theta": 900.0, "local_rope_theta": 40.0}),
        ("encoder", "modern", {"windows": (2, 2, 2)}),
        ("encoder", "modern", {"feedforward": "swiglu", "norm_bias": True, "bias": True}),
        ("encoder", "modern", {"output_bias": False}),
    ],
    "BertForMaskedLM": [
        ("encoder", "classic", {}),
        ("encoder", "classic", {"tied": False, "segments": 1, "feedforward": "relu"}),
        ("encoder", "classic", {"positions": "sinusoidal", "norm_eps": 1e-3, "feedforward": "gelu_tanh"}),
    ],
    "DistilBertForMaskedLM": [
        ("encoder", "classic", {"segments": 0}),
        ("encoder", "classic", {"segments": 0, "tied": False, "feedforward": "relu"}),
        ("encoder", "classic", {"segments": 0, "positions": "sinusoidal"}),
    ],
    "AlbertForMaskedLM": [
        ("encoder", "classic", {"shared_layers": True, "embedding_dim": 12, "feedforward": "gelu_tanh"}),
        ("encoder", "classic", {"shared_layers": True, "embedding_dim": 32}),
        ("encoder", "classic", {"shared_layers": True, "embedding_dim": 20, "tied": False, "norm_eps": 1e-3}),
    ],
    "LlamaForCausalLM": [
        ("decoder", "modern", {}),
        ("decoder", "modern", {"n_kv_heads": 2, "head_dim": 16}),
        ("decoder", "modern", {"n_kv_heads": 1, "tied": False, "feedforward": "geglu"}),
        ("decoder", "modern", {"bos_id": None, "pad_id": None, "rope_theta": 500.0, "norm_eps": 1e-3, "bias": True}),
    ],
    "MistralForCausalLM": [
        ("decoder", "modern", {"windows": (3, 3, 3), "n_kv_heads": 2}),
        ("decoder", "modern", {"windows": (7, 7, 7), "tied": False}),
        ("decoder", "modern", {"dim": 36, "n_heads": 8, "n_kv_heads": 4, "head_dim": 8}),  # a Llama is not allowed this
    ],
    "GPT2LMHeadModel": [
        ("decoder", "classic", {}),
        ("decoder", "classic", {"tied": False, "feedforward": "relu"}),
        ("decoder", "classic", {"positions": "sinusoidal", "feedforward": "gelu", "norm_eps": 1e-3}),
    ],
}
ALL = [
    pytest.param(name, *shape, id=f"{name}-{i}") for name, shapes in SHAPES.items() for i, shape in enumerate(shapes)
]

THEIR_SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 24, "pad_token_id": 0, "bos_token_id": 5, "eos_token_id": 6,
}  # fmt: skip
GPT2_SIZES = {
    "vocab_size": 96,
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 24,
    "bos_token_id": 5,
    "eos_token_id": 6,
}
RMS = {"rms_norm_eps": 1e-4}

# what it is → class, config
THEIRS = {
    "modernbert": ("ModernBertForMaskedLM", THEIR_SIZES | {"norm_eps": 1e-4, "cls_token_id": 2, "sep_token_id": 3}
                   | {"layer_types": ["full_attention"] * 3}),
    "modernbert, local": ("ModernBertForMaskedLM", THEIR_SIZES | {"norm_eps": 1e-4, "cls_token_id": 2, "sep_token_id": 3}
                          | {"local_attention": 6, "global_attn_every_n_layers": 2}),
    "modernbert, offsets, untied": (
        "ModernBertForMaskedLM", THEIR_SIZES | {"norm_eps": 1e-4, "cls_token_id": 2, "sep_token_id": 3, "norm_bias": True}
        | {"attention_bias": True, "mlp_bias": True, "classifier_bias": True, "tie_word_embeddings": False}),
    "bert": ("BertForMaskedLM", THEIR_SIZES | {"layer_norm_eps": 1e-4}),
    "bert, by tanh": ("BertForMaskedLM", THEIR_SIZES | {"layer_norm_eps": 1e-4, "hidden_act": "gelu_pytorch_tanh"}),
    "bert, untied": ("BertForMaskedLM", THEIR_SIZES | {"layer_norm_eps": 1e-4, "tie_word_embeddings": False}),
    "distilbert": ("DistilBertForMaskedLM", {"vocab_size": 96, "dim": 32, "hidden_dim": 48, "n_layers": 3, "n_heads": 4}
                   | {"max_position_embeddings": 24, "pad_token_id": 0}),
    "albert": ("AlbertForMaskedLM", THEIR_SIZES | {"embedding_size": 12, "layer_norm_eps": 1e-4, "hidden_act": "gelu"}),
    "albert, by tanh": ("AlbertForMaskedLM", THEIR_SIZES | {"embedding_size": 32}),
    "llama": ("LlamaForCausalLM", THEIR_SIZES | RMS | {"num_key_value_heads": 4}),
    "llama, shared keys, tied": ("LlamaForCausalLM", THEIR_SIZES | RMS | {"num_key_value_heads": 2, "head_dim": 12}
                                 | {"tie_word_embeddings": True}),
    "mistral": ("MistralForCausalLM", THEIR_SIZES | RMS | {"num_key_value_heads": 2, "sliding_window": 5}),
    "mistral, no window": ("MistralForCausalLM", THEIR_SIZES | RMS | {"num_key_value_heads": 2, "sliding_window": None}),
    "gpt2": ("GPT2LMHeadModel", GPT2_SIZES | {"layer_norm_epsilon": 1e-4}),
    "gpt2, untied, relu": ("GPT2LMHeadModel", GPT2_SIZES | {"layer_norm_epsilon": 1e-4, "activation_function": "relu"}
                           | {"n_inner": 48, "tie_word_embeddings": False}),
}  # fmt: skip


def batch(seed, padded):
    ids_BT = torch.randint(7, 96, (4, 20), generator=torch.Generator().manual_seed(seed))
    mask_BT = torch.ones(4, 20, dtype=torch.long)
    if padded:
        for row, length in enumerate((20, 13, 2, 7)):
            mask_BT[row, length:] = 0
            ids_BT[row, length:] = 0
    return ids_BT, mask_BT


@torch.no_grad()
def assert_equal_outputs(ours, theirs):
    """The same logits and hidden states, without and with padding."""
    for padded in (False, True):
        ids_BT, mask_BT = batch(11, padded)
        real = mask_BT.bool()
        want = theirs(input_ids=ids_BT, attention_mask=mask_BT)
        hidden = theirs.base_model(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state
        logits = ours(ids_BT, mask_BT if padded else None)
        torch.testing.assert_close(logits[real], want.logits[real], atol=1e-4, rtol=1e-4)
        got_hidden = ours.encode(ids_BT, mask_BT if padded else None)
        torch.testing.assert_close(got_hidden[real], hidden[real], atol=1e-4, rtol=1e-4)
        assert logits[real].std() > 0.05  # of numbers that are all near 0, any two are close


def folder_of(model, path):
    path.mkdir(exist_ok=True)
    for name, data in files_of(model).items():
        (path / name).write_bytes(data)
    return path


def load_from(path):
    return load_hf(lambda file: (path / file).read_bytes())


def ours_of(architecture, style, changes):
    return shaken(new_model(small_config(architecture, style, **changes), 5))


@pytest.mark.landing
@pytest.mark.parametrize(("name", "architecture", "style", "changes"), ALL)
def test_transformers_loads_our_folder(name, architecture, style, changes, tmp_path):
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    model = ours_of(architecture, style, changes)
    assert transformers_class(model.config) == name
    auto = AutoModelForMaskedLM if architecture == "encoder" else AutoModelForCausalLM
    theirs, report = auto.from_pretrained(folder_of(model, tmp_path), output_loading_info=True)
    assert type(theirs).__name__ == name
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.dtype is torch.float32
    assert theirs.config.vocab_size == 96
    assert_equal_outputs(model, theirs.eval())


@pytest.mark.landing
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_bare_auto_model_gives_our_hidden_states(name, tmp_path):
    """And takes a model without any special token: some classes have default ids far above a small vocabulary."""

    from transformers import AutoModel

    architecture, style, changes = SHAPES[name][0]
    no_ids = dict.fromkeys(("pad_id", "bos_id", "eos_id", "cls_id", "sep_id", "mask_id"))
    model = ours_of(architecture, style, changes | no_ids)
    theirs = AutoModel.from_pretrained(folder_of(model, tmp_path)).eval()
    ids_BT, _ = batch(2, padded=False)
    with torch.no_grad():
        want = theirs(input_ids=ids_BT).last_hidden_state
        torch.testing.assert_close(model.encode(ids_BT), want, atol=1e-4, rtol=1e-4)


def their_model(name):
    import transformers

    kind, values = THEIRS[name]
    model = getattr(transformers, kind)
    torch.manual_seed(13)
    return shaken(model(model.config_class(**values)))


@pytest.mark.landing
@pytest.mark.parametrize("name", sorted(THEIRS))
def test_we_load_their_folder(name, tmp_path):
    theirs = their_model(name)
    theirs.save_pretrained(tmp_path)
    loaded = load_from(tmp_path)
    assert loaded.notes == ()
    assert loaded.config.norm_eps == {"distilbert": 1e-12, "albert, by tanh": 1e-12}.get(name, 1e-4)
    assert loaded.config.tied == theirs.config.tie_word_embeddings
    assert_equal_outputs(loaded.model, theirs)


@pytest.mark.landing
def test_the_second_segment_is_theirs(tmp_path):
    theirs = their_model("bert")
    theirs.save_pretrained(tmp_path)
    ours = load_from(tmp_path).model
    ids_BT, _ = batch(3, padded=False)
    segments_BT = (torch.arange(20) > 8).long().expand(4, 20)
    with torch.no_grad():
        want = theirs.base_model(input_ids=ids_BT, token_type_ids=segments_BT).last_hidden_state
        torch.testing.assert_close(ours.encode(ids_BT, segments_BT=segments_BT), want, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(ours.encode(ids_BT), want, atol=1e-2)


@pytest.mark.parametrize(("name", "architecture", "style", "changes"), ALL)
def test_our_folder_comes_back_bit_by_bit(name, architecture, style, changes):
    model = ours_of(architecture, style, changes)
    files = files_of(model)
    loaded = load_hf(files.__getitem__)
    assert loaded.config == model.config
    assert loaded.notes == ()
    assert files_of(loaded.model) == files
    for (key, a), (_, b) in zip(model.named_parameters(), loaded.model.named_parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), err_msg=key)


PARTS = {
    "positions": ["rope", "learned", "sinusoidal", "alibi", "t5"],
    "windows": [(), (0, 3, 3), (3, 3, 3), (2, 0, 5), (3, 0, 3)],
    "attention": ["dot", "additive", "linear"],
    "norm": ["layer", "rms"],
    "norm_place": ["pre", "post"],
    "feedforward": ["relu", "gelu", "gelu_tanh", "geglu", "swiglu"],
    "ffn_dim": [48, 128],
    "n_kv_heads": [1, 2, 4],
    "head_dim": [0, 4, 12],
    "local_rope_theta": [0.0, 20.0],
    "global_tokens": [0, 2],
    "segments": [0, 1, 3],
    "embedding_dim": [0, 12, 32],
    "shared_layers": [False, True],
    "max_len": [24, 40],
    "pad_id": [None, 0, 7],
    "mask_id": [None, 4],
    **{name: [False, True] for name in ("norm_bias", "bias", "embedding_norm", "head", "output_bias", "tied")},
}


@pytest.mark.landing
@pytest.mark.parametrize("seed", range(24))
def test_a_mixture_that_is_said_to_have_a_class_has_it(seed, tmp_path):
    """Some of a known shape's parts are exchanged; most mixtures have no class, and none may claim one wrongly."""

    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    random = Random(seed)
    architecture, style, changes = random.choice([shape for shapes in SHAPES.values() for shape in shapes])
    names = random.sample(sorted(PARTS), random.randint(1, 3))
    try:
        config = small_config(architecture, style, **(changes | {"n_layers": 3, "windows": ()})
                              | {name: random.choice(PARTS[name]) for name in names})  # fmt: skip
    except ConfigError:
        return
    model = shaken(new_model(config, 5))
    files = files_of(model)
    assert files_of(load_hf(files.__getitem__).model) == files
    if transformers_class(config) is None:
        assert why_no_class(config)
        return
    auto = AutoModelForMaskedLM if config.architecture == "encoder" else AutoModelForCausalLM
    theirs, report = auto.from_pretrained(folder_of(model, tmp_path), output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert_equal_outputs(model, theirs.eval())


@pytest.mark.landing
def test_a_folder_that_went_through_transformers_is_still_ours(tmp_path):
    """Sinusoidal positions: their table is learned, and the note in the config survives their hands."""

    from transformers import AutoModelForMaskedLM

    model = ours_of("encoder", "classic", {"positions": "sinusoidal"})
    theirs = AutoModelForMaskedLM.from_pretrained(folder_of(model, tmp_path / "ours"))
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = load_from(tmp_path / "theirs")
    assert loaded.config.positions == "sinusoidal"
    assert loaded.notes == ()
    with torch.no_grad():
        theirs.bert.embeddings.position_embeddings.weight[3] += 0.01  # as training would
    theirs.save_pretrained(tmp_path / "trained")
    trained = load_from(tmp_path / "trained")
    assert trained.config.positions == "learned"
    assert "training changed the table of sinusoidal positions" in trained.notes[0]
    assert_equal_outputs(trained.model, theirs.eval())


@pytest.mark.landing
def test_what_transformers_has_no_class_for_is_refused_there(tmp_path):
    from transformers import AutoConfig

    model = ours_of("encoder", "modern", {"positions": "alibi"})
    with pytest.raises(ValueError, match="wordpipe"):
        AutoConfig.from_pretrained(folder_of(model, tmp_path))
