"""Folders as they are published: the keys and the names of weights that real ones have, with small numbers in them."""

import json

import pytest
import torch
from safetensors.torch import save

from tests.support.models import shaken
from wordpipe.errors import ArtifactError
from wordpipe.model import load_hf

CONFIGS = {
    "bert-base-uncased": {
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 32, "initializer_range": 0.02,
        "intermediate_size": 48, "layer_norm_eps": 1e-12, "max_position_embeddings": 24, "model_type": "bert",
        "num_attention_heads": 4, "num_hidden_layers": 2, "pad_token_id": 0, "position_embedding_type": "absolute",
        "transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": True, "vocab_size": 96,
    },
    "gpt2": {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 95,
        "embd_pdrop": 0.1, "eos_token_id": 95, "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "model_type": "gpt2",
        "n_ctx": 24, "n_embd": 32, "n_head": 4, "n_inner": None, "n_layer": 2, "n_positions": 24,
        "reorder_and_upcast_attn": False, "resid_pdrop": 0.1, "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True, "summary_activation": None, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 96,
    },
    "ModernBERT-base": {
        "architectures": ["ModernBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
        "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0,
        "classifier_pooling": "mean", "cls_token_id": 1, "decoder_bias": True, "deterministic_flash_attn": False,
        "embedding_dropout": 0.0, "eos_token_id": 2, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
        "gradient_checkpointing": False, "hidden_activation": "gelu", "hidden_size": 32, "initializer_cutoff_factor": 2.0,
        "initializer_range": 0.02, "intermediate_size": 48, "layer_norm_eps": 1e-5, "local_attention": 8,
        "local_rope_theta": 10000.0, "max_position_embeddings": 24, "mlp_bias": False, "mlp_dropout": 0.0,
        "model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-5, "num_attention_heads": 4,
        "num_hidden_layers": 4, "pad_token_id": 3, "position_embedding_type": "absolute", "reference_compile": True,
        "repad_logits_with_grad": False, "sep_token_id": 2, "sparse_pred_ignore_index": -100, "sparse_prediction": False,
        "tie_word_embeddings": True, "torch_dtype": "float32", "transformers_version": "4.47.0.dev0", "vocab_size": 96,
    },
    "SmolLM2-135M": {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0,
        "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 36, "initializer_range": 0.041666666666666664,
        "intermediate_size": 48, "is_llama_config": True, "max_position_embeddings": 64, "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": 6, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "pretraining_tp": 1, "rms_norm_eps": 1e-5, "rope_interleaved": False, "rope_scaling": None,
        "rope_theta": 100000, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 96,
    },
    "Mistral-7B-v0.1": {
        "architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48, "max_position_embeddings": 64,
        "model_type": "mistral", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "sliding_window": 6, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 96,
    },
    "EuroBERT-210m": {
        "architectures": ["EuroBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0,
        "auto_map": {"AutoModel": "modeling_eurobert.EuroBertModel"}, "bos_token": "<|begin_of_text|>",
        "bos_token_id": 90, "clf_pooling": "late", "eos_token_id": 91, "head_dim": 8, "hidden_act": "silu",
        "hidden_dropout": 0.0, "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48,
        "mask_token_id": 92, "max_position_embeddings": 64, "mlp_bias": False, "model_type": "eurobert",
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4, "pad_token_id": 91,
        "pretraining_tp": 1, "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 250000,
        "tie_word_embeddings": False, "use_cache": False, "vocab_size": 96,
    },
}  # fmt: skip


def published(name, rename=lambda key: key, kind=None):
    """Their model with this config, and the files of its folder."""

    import transformers

    config = CONFIGS[name]
    model = getattr(transformers, kind or config["architectures"][0])
    torch.manual_seed(17)
    theirs = shaken(model(model.config_class.from_dict(config)))
    tied = {key for key in getattr(theirs, "_tied_weights_keys", None) or {} if theirs.config.tie_word_embeddings}
    weights = {rename(key): weight.clone() for key, weight in theirs.state_dict().items() if key not in tied}
    return theirs, {"config.json": json.dumps(config).encode(), "model.safetensors": save(weights)}


@torch.no_grad()
def assert_equal_logits(ours, theirs):
    ids_BT = torch.randint(7, 90, (3, 20), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(ours(ids_BT), theirs(input_ids=ids_BT).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.landing
@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "EuroBERT-210m"])
def test_the_folder_loads(name):
    theirs, files = published(name)
    loaded = load_hf(files.__getitem__)
    assert loaded.notes == ()
    assert_equal_logits(loaded.model, theirs)


@pytest.mark.landing
def test_code_that_a_folder_brings_is_not_run():
    theirs, files = published("SmolLM2-135M")
    config = json.loads(files["config.json"]) | {"auto_map": {"AutoModel": "modeling_own.OwnModel"}}
    loaded = load_hf((files | {"config.json": json.dumps(config).encode()}).__getitem__)
    assert loaded.notes == (
        "the folder refers to its own program code (auto_map), but wordpipe does not run this code",
    )
    assert_equal_logits(loaded.model, theirs)


@pytest.mark.landing
@pytest.mark.parametrize("version", [{}, {"transformers_version": "5.23.0", "torch_dtype": "float32"}])
def test_a_class_that_is_no_longer_read_is_refused_with_those_that_are(version):
    _, files = published("EuroBERT-210m")
    config = json.loads(files["config.json"]) | version
    with pytest.raises(
        ArtifactError,
        match="got 'eurobert'; expected modernbert, bert, roberta, xlm-roberta, camembert, mpnet, distilbert, albert, "
        "electra, fnet, xlnet, llama, mistral, gpt2, t5, bart, marian, wordpipe",
    ):
        load_hf((files | {"config.json": json.dumps(config).encode()}).__getitem__)


@pytest.mark.landing
def test_what_the_keys_mean():
    local = load_hf(published("ModernBERT-base")[1].__getitem__).config
    assert local.windows == (0, 4, 4, 0)
    assert (local.rope_theta, local.local_rope_theta) == (160_000.0, 10_000.0)
    assert (local.pad_id, local.bos_id, local.eos_id, local.cls_id, local.sep_id, local.mask_id) == (
        3,
        1,
        2,
        1,
        2,
        None,
    )
    assert load_hf(published("Mistral-7B-v0.1")[1].__getitem__).config.windows == (5, 5)
    gpt2 = load_hf(published("gpt2")[1].__getitem__).config
    assert (gpt2.ffn_dim, gpt2.max_len, gpt2.positions, gpt2.feedforward) == (128, 24, "learned", "gelu_tanh")


@pytest.mark.landing
def test_old_bert_with_gamma_and_beta_a_pooler_and_the_next_sentence():
    """Google's folder, converted from TensorFlow: `BertForPreTraining` with the names of 2018."""

    def of_2018(key):
        return key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    theirs, files = published("bert-base-uncased", of_2018, "BertForPreTraining")
    loaded = load_hf(files.__getitem__)
    left = "bert.pooler.dense.bias, bert.pooler.dense.weight, cls.seq_relationship.bias, cls.seq_relationship.weight"
    assert loaded.notes == (f"the language model does not use some weights, so they are left out: {left}",)
    ids_BT = torch.arange(10, 30)[None]
    with torch.no_grad():
        want = theirs(input_ids=ids_BT).prediction_logits
        torch.testing.assert_close(loaded.model(ids_BT), want, atol=1e-4, rtol=1e-4)


@pytest.mark.landing
def test_gpt2_without_a_prefix_and_with_its_causal_mask():
    """OpenAI's folder: names of `GPT2Model`, and the mask that old releases kept as a weight."""
    theirs, files = published("gpt2")
    weights = dict(theirs.transformer.state_dict())
    for layer in range(2):
        weights[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 24, 24).tril()
        weights[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    loaded = load_hf((files | {"model.safetensors": save(weights)}).__getitem__)
    assert loaded.notes == ()
    assert_equal_logits(loaded.model, theirs)


@pytest.mark.landing
def test_buffers_of_old_releases_are_passed_over():
    theirs, files = published("bert-base-uncased")
    weights = {k: w.clone() for k, w in theirs.state_dict().items() if "decoder" not in k}
    weights["bert.embeddings.position_ids"] = torch.arange(24)[None]
    assert_equal_logits(load_hf((files | {"model.safetensors": save(weights)}).__getitem__).model, theirs)
    theirs, files = published("Mistral-7B-v0.1")
    weights = dict(theirs.state_dict()) | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    assert_equal_logits(load_hf((files | {"model.safetensors": save(weights)}).__getitem__).model, theirs)
