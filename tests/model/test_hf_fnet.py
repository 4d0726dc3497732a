"""The oracle for FNet: transformers loads our folders and computes what we compute, and the other way round.

Its FNet has no mask: a text that is filled up is another text there. So the batches here have no padding.
"""

import pytest
import torch

from tests.model.test_hf_oracle import THEIR_SIZES, batch, folder_of, load_from
from tests.support.models import files_of, shaken, small_config
from wordpipe.model import load_hf, new_model, transformers_class, why_no_class

FNET = {"mixers": ("fourier",) * 3, "embedding_dim": 32, "feedforward": "gelu_tanh"}
SHAPES = [
    {},
    {"segments": 4, "feedforward": "gelu", "norm_eps": 1e-3},
    {"tied": False, "feedforward": "relu"},
    {"positions": "sinusoidal", "pad_id": None},
]
POOLER = {"fnet.pooler.dense.weight", "fnet.pooler.dense.bias"}
SIZES = {name: size for name, size in THEIR_SIZES.items() if name != "num_attention_heads"} | {"type_vocab_size": 2}
THEIRS = {
    "as published": {},
    "by erf, four segments": {"hidden_act": "gelu", "type_vocab_size": 4},
    "untied": {"tie_word_embeddings": False},
}


def ours_of(changes):
    return shaken(new_model(small_config("encoder", "classic", **FNET | changes), 5))


@torch.no_grad()
def assert_equal_outputs(ours, theirs):
    for length in (20, 7, 1):
        ids_BT = batch(length, padded=False)[0][:, :length]
        logits = ours(ids_BT)
        torch.testing.assert_close(logits, theirs(input_ids=ids_BT).logits, atol=1e-4, rtol=1e-4)
        want = theirs.base_model(input_ids=ids_BT).last_hidden_state
        torch.testing.assert_close(ours.encode(ids_BT), want, atol=1e-4, rtol=1e-4)
        assert logits.std() > 0.05  # of numbers that are all near 0, any two are close


@pytest.mark.landing
@pytest.mark.parametrize("changes", SHAPES)
def test_transformers_loads_our_folder(changes, tmp_path):
    import transformers

    model = ours_of(changes)
    assert transformers_class(model.config) == "FNetForMaskedLM"
    auto = transformers.AutoModelForMaskedLM
    theirs, report = auto.from_pretrained(folder_of(model, tmp_path), output_loading_info=True)
    assert type(theirs).__name__ == "FNetForMaskedLM"
    assert set(report["missing_keys"]) <= POOLER  # which no guess needs
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    assert_equal_outputs(model, theirs.eval())


@pytest.mark.parametrize("changes", SHAPES)
def test_our_folder_comes_back_bit_by_bit(changes):
    model = ours_of(changes)
    files = files_of(model)
    loaded = load_hf(files.__getitem__)
    assert loaded.config == model.config
    assert loaded.notes == ()
    assert files_of(loaded.model) == files


@pytest.mark.landing
@pytest.mark.parametrize("name", sorted(THEIRS))
def test_we_load_their_folder(name, tmp_path):
    import transformers

    torch.manual_seed(13)
    config = transformers.FNetConfig(**SIZES | THEIRS[name])
    theirs = shaken(transformers.FNetForMaskedLM(config))
    theirs.save_pretrained(tmp_path)
    loaded = load_from(tmp_path)
    assert [note.partition(":")[0] for note in loaded.notes] == [
        "the language model does not use some weights, so they are left out"
    ]
    assert loaded.config.segments == config.type_vocab_size
    assert loaded.config.mixers == ("fourier",) * 3
    assert_equal_outputs(loaded.model, theirs)


@pytest.mark.landing
def test_two_texts_and_what_transformers_says_of_them(tmp_path):
    import transformers

    model = ours_of({"pair_head": True})
    assert transformers_class(model.config) == "FNetForPreTraining"
    theirs, report = transformers.FNetForPreTraining.from_pretrained(
        folder_of(model, tmp_path), output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids_BT, segments_BT = batch(11, padded=False)[0], (torch.arange(20) > 8).long().expand(4, 20)
    with torch.no_grad():
        want = theirs.eval()(input_ids=ids_BT, token_type_ids=segments_BT)
        hidden_BTD = model.encode(ids_BT, segments_BT=segments_BT)
        torch.testing.assert_close(
            model.pair_logits(hidden_BTD[:, 0]), want.seq_relationship_logits, atol=1e-5, rtol=1e-4
        )
        torch.testing.assert_close(model.logits_at(hidden_BTD), want.prediction_logits, atol=1e-4, rtol=1e-4)
    theirs.save_pretrained(tmp_path / "theirs")
    assert files_of(load_from(tmp_path / "theirs").model) == files_of(model)


def test_a_layer_of_attention_makes_it_ours():
    config = small_config("encoder", "classic", **FNET | {"mixers": ("fourier", "fourier", "dot")})
    assert transformers_class(config) is None
    said = why_no_class(config)
    assert "with mixers = [fourier, fourier, dot] (the most similar class, FNetForMaskedLM, " in said
    assert "has mixers = [fourier, fourier, fourier])" in said
