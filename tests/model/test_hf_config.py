"""Which class a model is saved as, why it has none, and what is refused in a config, by key."""

import json
import re

import pytest
import torch

from tests.support.models import KINDS, XLNET, each_kind, edited, files_of, kind_config, shaken, small_config, without
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import FAMILIES, ModelConfig, load_hf, new_model, transformers_class, why_no_class

NATIVE = {
    "encoder modern": "ModernBertForMaskedLM",
    "encoder classic": "BertForMaskedLM",
    "encoder sinusoidal": "BertForMaskedLM",
    "encoder windows": "ModernBertForMaskedLM",
    "encoder untied": "ModernBertForMaskedLM",
    "decoder modern": "LlamaForCausalLM",
    "decoder classic": "GPT2LMHeadModel",
    "decoder grouped queries": "LlamaForCausalLM",
    "decoder wide heads": "LlamaForCausalLM",
    "decoder sinusoidal": "GPT2LMHeadModel",
    "decoder untied": "LlamaForCausalLM",
}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_of_model_has_its_class_or_a_reason(name):
    config = kind_config(name)
    assert transformers_class(config) == NATIVE.get(name)
    if name in NATIVE:
        with pytest.raises(ConfigError, match=NATIVE[name]):
            why_no_class(config)
    else:
        assert "only wordpipe can load the folder" in why_no_class(config)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "encoder alibi",
            "encoder with positions = alibi (the most similar class, ModernBertForMaskedLM, has positions = rope)",
        ),
        (
            "encoder performer",
            "attention = performer (the most similar class, ModernBertForMaskedLM, has attention = dot)",
        ),
        (
            "encoder fourier",
            "mixers = [fourier, fourier, fourier] (the most similar class, ModernBertForMaskedLM, has mixers = none)",
        ),
        (
            "decoder state spaces",
            "mixers = [ssm, ssm, ssm] (the most similar class, LlamaForCausalLM, has mixers = none)",
        ),
        (
            "encoder fourier, norm after",
            "embedding_dim = 0 (the most similar class, FNetForMaskedLM, has embedding_dim = 32)",
        ),
        (
            "encoder additive",
            "attention = additive (the most similar class, ModernBertForMaskedLM, has attention = dot)",
        ),
        (
            "encoder global tokens",
            "global_tokens = 2 (the most similar class, ModernBertForMaskedLM, has global_tokens = 0)",
        ),
        (
            "encoder grouped queries",
            "n_kv_heads = 2 (the most similar class, ModernBertForMaskedLM, has n_kv_heads = 4)",
        ),
        (
            "decoder linear",
            "decoder with attention = linear (the most similar class, LlamaForCausalLM, has attention = dot)",
        ),
        ("decoder windows", "windows = [0, 3, 3] (the most similar class, LlamaForCausalLM, has windows = [0, 0, 0])"),
    ],
)
def test_the_reason_says_what_the_nearest_class_lacks(name, reason):
    assert reason in why_no_class(kind_config(name))


@pytest.mark.parametrize(
    ("style", "changes", "named"),
    [
        ("modern", {"windows": (0, 2, 5)}, r"windows = \[0, 2, 5\] .* windows = \[0, 5, 5\]"),
        ("modern", {"positions": "learned"}, "positions = learned"),
        ("classic", {"segments": 0, "norm_eps": 1e-3}, "segments = 0"),
        ("classic", {"feedforward": "swiglu"}, "feedforward = swiglu"),
        ("classic", {"output_bias": False}, "output_bias = False"),
        ("classic", {"norm_place": "pre", "embedding_norm": False}, "norm_place = pre"),
    ],
)
def test_a_part_that_does_not_fit_is_named(style, changes, named):
    config = small_config("encoder", style, **changes)
    assert transformers_class(config) is None
    assert re.search(named, why_no_class(config))


@pytest.mark.parametrize(("style", "named"), [("modern", " and "), ("classic", "norm_eps = 1e-12, so")])
def test_of_an_encoder_with_a_decoder_the_reason_is_short_and_says_what_loads(style, named):
    config = small_config("encoder", style).with_decoder(2, start_id=1)
    said = why_no_class(config)
    assert said.startswith("transformers has no class for this encoder-decoder with ")
    assert named in said
    assert said.count(" = ") <= 3
    assert len(said) < 300
    assert "transformers can load models of `train seq2seq` with an unchanged --style, or with an --init" in said


def test_decoders_fall_to_their_nearest_class():
    """Each of them has one part that the plainer class lacks."""
    shapes = {
        "MistralForCausalLM": {"windows": (4, 4, 4)},
        None: {"windows": (0, 4, 4)},
    }
    assert {name: transformers_class(small_config("decoder", **changes)) for name, changes in shapes.items()} == {
        name: name for name in shapes
    }


def test_transformers_refuses_a_llama_whose_heads_do_not_divide_the_width():
    odd = {"dim": 36, "n_heads": 8, "n_kv_heads": 8, "head_dim": 8}
    assert transformers_class(small_config("decoder", **odd)) == "MistralForCausalLM"
    config = small_config("decoder", **odd, bias=True)
    assert "n_heads = 8 (the most similar class, LlamaForCausalLM, has n_heads = 4)" in why_no_class(config)


@pytest.mark.parametrize("name", each_kind(rest=pytest.mark.landing))
def test_every_kind_comes_back_bit_by_bit(name):
    model = shaken(new_model(kind_config(name), 3))
    files = files_of(model)
    loaded = load_hf(files.__getitem__)
    assert loaded.config == model.config
    assert loaded.notes == ()
    assert files_of(loaded.model) == files
    ids_BT = torch.randint(7, 96, (2, 20), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(model(ids_BT), loaded.model(ids_BT))


def test_our_own_format_keeps_every_field():
    config = small_config("encoder", positions="t5", windows=(0, 3, 2), global_tokens=1, pad_id=None, rope_theta=77.5)
    config = ModelConfig(**({name: getattr(config, name) for name in config.__dataclass_fields__} | {"dropout": 0.1}))
    files = files_of(new_model(config, 0))
    values = json.loads(files["config.json"])
    assert values["model_type"] == "wordpipe"
    assert values["architectures"] == ["WordpipeLanguageModel"]
    assert "dropout" not in values
    assert load_hf(files.__getitem__).config == ModelConfig(
        **({name: getattr(config, name) for name in config.__dataclass_fields__} | {"dropout": 0.0})
    )


MODELS = {
    "modernbert": ("encoder", "modern", {}),
    "bert": ("encoder", "classic", {}),
    "bert, sinusoidal": ("encoder", "classic", {"positions": "sinusoidal"}),
    "fnet": ("encoder", "classic", {"mixers": ("fourier",) * 3, "embedding_dim": 32}),
    "llama": ("decoder", "modern", {}),
    "mistral": ("decoder", "modern", {"windows": (3, 3, 3)}),
    "gpt2": ("decoder", "classic", {}),
    "wordpipe": ("encoder", "modern", {"positions": "alibi"}),
    "distilbert": ("encoder", "classic", {"segments": 0}),
    "albert": ("encoder", "classic", {"shared_layers": True, "embedding_dim": 12}),
    "electra": ("encoder", "classic", {"head": False, "output_bias": False, "replaced_head": True}),
    "xlnet": ("encoder", "classic", XLNET),
    "mpnet": ("encoder", "classic", {"segments": 0, "positions": "learned-t5"}),
}  # fmt: skip


def test_every_family_is_among_these_models():
    kinds = {
        json.loads(files_of(new_model(small_config(a, s, **c), 0))["config.json"])["model_type"]
        for a, s, c in MODELS.values()
    }
    of_pairs = {family.model_type for family in FAMILIES if family.architecture == "encoder-decoder"}
    as_bert = {"roberta", "xlm-roberta", "camembert"}  # read only: the same model with other names is written
    assert kinds == {family.model_type for family in FAMILIES} - of_pairs - as_bert | {"wordpipe"}
    assert of_pairs == {"t5", "bart", "marian"}  # see test_encoder_decoder.py


@pytest.mark.parametrize(
    ("model", "values", "named"),
    [
        (
            "llama",
            {"model_type": "deberta"},
            "this value of model_type; got 'deberta'; expected modernbert, bert, roberta, xlm-roberta, camembert, mpnet, ",
        ),
        ("llama", {"model_type": "eurobert", "transformers_version": "5"}, "this value of model_type; got 'eurobert'"),
        ("llama", {"model_type": "mpt", "transformers_version": "5"}, "this value of model_type; got 'mpt'"),
        ("llama", {"model_type": None}, "model_type"),
        ("xlnet", {"attn_type": "uni"}, "this value of attn_type; got 'uni'; expected 'bi'"),
        ("xlnet", {"clamp_len": 400}, "this value of clamp_len; got 400; expected -1"),
        ("xlnet", {"bi_data": True}, "bi_data"),
        ("xlnet", {"same_length": True}, "same_length"),
        ("llama", {"model_type": ["llama"]}, "model_type"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantization_config"),
        ("llama", {"vocab_size": None}, "vocab_size"),
        ("llama", {"eos_token_id": "x"}, "eos_token_id"),
        ("llama", {"bos_token_id": 4096}, "bos_id"),
        ("llama", {"hidden_act": "relu"}, "this value of hidden_act; got 'relu'; expected silu or gelu"),
        (
            "llama",
            {"attention_bias": True},
            "this value of mlp_bias; .* expected True, the same value as attention_bias",
        ),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "this value of rope_type; got 'yarn'"),
        ("llama", {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ("llama", {"rope_parameters": []}, "rope_parameters"),
        ("llama", {"rope_parameters": {"rope_theta": float("nan")}}, "rope_theta"),
        ("llama", {"rms_norm_eps": 0}, "rms_norm_eps"),
        ("llama", {"head_dim": 7}, "head_dim"),
        ("llama", {"num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": None}, "n_heads"),
        ("llama", {"num_key_value_heads": 3}, "n_kv_heads"),
        ("llama", {"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ("mistral", {"sliding_window": 1}, "sliding_window"),
        ("mistral", {"sliding_window": True}, "sliding_window"),
        ("modernbert", {"hidden_activation": "relu"}, "hidden_activation"),
        ("modernbert", {"classifier_activation": "silu"}, "classifier_activation"),
        ("modernbert", {"norm_bias": 1}, "norm_bias"),
        ("modernbert", {"mlp_bias": True}, "mlp_bias"),
        ("modernbert", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ("modernbert", {"layer_types": [["full_attention"]] * 3}, "layer_types"),
        ("modernbert", {"layer_types": ["sliding_attention"] * 3, "local_attention": 1}, "local_attention"),
        ("modernbert", {"rope_parameters": 5}, "rope_parameters"),
        ("modernbert", {"hidden_size": "32"}, "hidden_size"),
        (
            "bert",
            {"position_embedding_type": "relative_key"},
            "this value of position_embedding_type; got 'relative_key'",
        ),
        ("bert", {"is_decoder": True}, "is_decoder"),
        ("bert", {"hidden_act": "silu"}, "hidden_act"),
        ("bert", {"wordpipe": {"positions": "alibi"}}, "wordpipe"),
        ("fnet", {"use_tpu_fourier_optimizations": True}, "use_tpu_fourier_optimizations"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights"),
        ("gpt2", {"activation_function": "swish"}, "activation_function"),
        ("gpt2", {"n_embd": 0}, "n_embd"),
        ("wordpipe", {"positions": "rotary"}, "this value of positions; .* expected rope or learned"),
        ("wordpipe", {"windows": [0, 0.5, 1]}, "windows"),
        ("wordpipe", {"windows": [0]}, "one number for each layer"),
        ("wordpipe", {"mixers": ["dot", "waves", "dot"]}, "this value of mixers; .* expected dot or .* or ssm"),
        ("wordpipe", {"mixers": "ssm"}, "this value of mixers; .* a list"),
        ("wordpipe", {"tied": 1}, "this value of tied; .* expected bool"),
        ("wordpipe", {"dim": True}, "this value of dim; .* expected int"),
        ("wordpipe", {"dim": None}, "this value of dim; got None"),
        ("wordpipe", {"new_part": 1}, "this value of new_part; .* newer version"),
    ],
)
def test_a_config_that_we_do_not_compute_is_refused_by_key(model, values, named):
    architecture, style, changes = MODELS[model]
    files = files_of(new_model(small_config(architecture, style, **changes), 1))
    load_hf(files.__getitem__)
    with pytest.raises(ArtifactError, match=named) as caught:
        load_hf(edited(files, **values).__getitem__)
    assert caught.value.where == "config.json"


def test_old_transformers_stop_at_layers_that_their_key_cannot_say():
    """Every so-many-th layer sees all: 0 makes a release that knows nothing else divide by zero, not compute another model."""
    for windows, every in (((0, 3, 3), 3), ((0, 3, 0), 2), ((0, 0, 0), 1), ((3, 3, 3), 0), ((3, 0, 3), 0)):
        files = files_of(new_model(small_config("encoder", windows=windows), 0))
        assert json.loads(files["config.json"])["global_attn_every_n_layers"] == every
        old = load_hf(without(files, "layer_types").__getitem__).config.windows if every else windows
        assert old == windows


def test_keys_that_are_missing_mean_what_transformers_takes_them_for():
    files = files_of(
        new_model(small_config("encoder", windows=(0, 64, 64), rope_theta=160_000.0, local_rope_theta=10_000.0), 0)
    )
    keys = ["layer_types", "global_attn_every_n_layers", "rope_parameters", "local_attention", "global_rope_theta"]
    bare = without(files, *keys, "local_rope_theta", "norm_eps", "hidden_activation", "tie_word_embeddings")
    assert load_hf(bare.__getitem__).config == load_hf(files.__getitem__).config
    same = load_hf(edited(bare, local_rope_theta=None).__getitem__).config  # null: as the global layers
    assert same.theta_of(1) == same.theta_of(0) == 160_000.0
    files = files_of(new_model(small_config("decoder", rope_theta=10_000.0, norm_eps=1e-6, tied=False), 0))
    keys = ["rope_parameters", "rope_theta", "rms_norm_eps", "tie_word_embeddings", "head_dim"]
    bare = without(files, *keys, "num_key_value_heads", "hidden_act")
    assert load_hf(bare.__getitem__).config == load_hf(files.__getitem__).config


def test_several_tokens_may_end_a_text():
    files = files_of(new_model(small_config("decoder"), 0))
    assert load_hf(edited(files, eos_token_id=[6, 7]).__getitem__).config.eos_id == 6
    assert load_hf(edited(files, eos_token_id=[], pad_token_id=-1).__getitem__).config.pad_id is None
