"""`train denoising` and `train seq2seq`: what they make, what they leave out and say, what they start from."""

import json

import pytest
import torch
from safetensors.torch import load_file

import wordpipe
from tests.conftest import TINY
from tests.support.results import manifest
from wordpipe import RunOptions
from wordpipe.errors import ArtifactError, ConfigError

SMALL = TINY | {"threads": 1, "dtype": "float32", "batch_size": 8, "steps": 3, "device": "cpu"}
SHAPE = ("dim", "n_layers", "n_heads", "ffn_dim", "preset")


def denoised(built, output, **settings):
    values = {name: value for name, value in SMALL.items() if "init" not in settings or name not in SHAPE}
    return wordpipe.train_denoising(built / "tokens", output=output, **values | settings)


@pytest.fixture(scope="module")
def denoisers(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("denoisers")
    for style in ("t5", "bart"):
        denoised(built, folder / style, style=style)
    return folder


@pytest.mark.landing
@pytest.mark.parametrize(
    ("style", "kind"), [("t5", "T5ForConditionalGeneration"), ("bart", "BartForConditionalGeneration")]
)
def test_a_denoiser_is_a_folder_of_transformers(denoisers, style, kind):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    facts = manifest(denoisers / style)["facts"]
    assert (facts["transformers"], facts["architecture"]) == (kind, "encoder-decoder")
    theirs = AutoModelForSeq2SeqLM.from_pretrained(denoisers / style)
    assert type(theirs).__name__ == kind
    tokenizer = AutoTokenizer.from_pretrained(denoisers / style)
    ids = tokenizer("The sea has tides.").input_ids
    ends, begins = tokenizer.convert_tokens_to_ids(["</s>", "<s>"])
    assert ids[-1] == ends
    assert (ids[0] == begins) == (style == "bart")
    assert len(tokenizer) <= theirs.config.vocab_size


@pytest.mark.landing
def test_sentinels_descend_from_the_end_of_the_tokenizer(denoisers, built):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(denoisers / "t5")
    known = json.loads((built / "tokens" / "tokenizer.json").read_text())
    n_tokens = len(known["model"]["vocab"])
    sentinels = tokenizer.convert_tokens_to_ids([f"<extra_id_{i}>" for i in range(100)])
    assert sentinels == list(range(n_tokens + 99, n_tokens - 1, -1))


@pytest.mark.landing
@pytest.mark.parametrize("style", ["t5", "bart"])
def test_transformers_lets_a_denoiser_write_sentinels_and_no_other_special_token(denoisers, style):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

    tokenizer, known = (
        AutoTokenizer.from_pretrained(denoisers / style),
        GenerationConfig.from_pretrained(denoisers / style),
    )
    n_rows = AutoModelForSeq2SeqLM.from_pretrained(denoisers / style).config.vocab_size
    suppressed, special = {*known.suppress_tokens}, {*tokenizer.all_special_ids}
    sentinels = {number for token, number in tokenizer.get_vocab().items() if token.startswith("<extra_id_")}
    assert len(sentinels) == (100 if style == "t5" else 0)
    assert not suppressed & sentinels
    assert tokenizer.eos_token_id not in suppressed
    assert (special | {*range(len(tokenizer), n_rows)}) - sentinels - {tokenizer.eos_token_id} <= suppressed
    assert len(suppressed) < 80


@pytest.mark.parametrize("style", ["t5", "bart"])
def test_the_same_settings_give_the_same_bytes(denoisers, built, tmp_path, style):
    denoised(built, tmp_path / "again", style=style)
    assert manifest(tmp_path / "again")["digest"] == manifest(denoisers / style)["digest"]


@pytest.mark.parametrize("style", ["t5", "bart"])
def test_a_denoiser_goes_on_from_another_and_is_extended(denoisers, built, tmp_path, style):
    denoised(built, tmp_path / "next", init=denoisers / style)
    before, after = (load_file(folder / "model.safetensors") for folder in (denoisers / style, tmp_path / "next"))
    assert before.keys() == after.keys()
    assert not any(torch.equal(before[name], after[name]) for name in before if "norm" not in name)
    longer = denoised(built, tmp_path / "longer", style=style, extend=denoisers / style, steps=5)
    assert longer.counts["steps"] == 5
    assert manifest(tmp_path / "longer")["facts"]["extended_from"] == 3


def test_too_long_sequences_for_the_sentinels_are_refused(built, tmp_path):
    with pytest.raises(ConfigError, match="need more sentinel tokens") as caught:
        denoised(built, tmp_path / "x", seq_len=4096)
    assert caught.value.where == "seq_len"


@pytest.mark.parametrize(
    "setting", [{"window": 4}, {"attention": "linear"}, {"mixers": "ssm"}, {"init_embeddings": "run/words"}]
)
def test_what_no_encoder_decoder_has_is_refused(built, tmp_path, setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        denoised(built, tmp_path / "x", **setting)


def test_a_model_of_one_stack_is_no_start(built, tmp_path):
    with pytest.raises(ArtifactError, match="this kind of model"):
        denoised(built, tmp_path / "x", init=built / "model")


def test_tokens_without_pairs_are_refused(built, tmp_path):
    with pytest.raises(ArtifactError, match="no second text") as caught:
        wordpipe.train_seq2seq(built / "tokens", output=tmp_path / "x", **SMALL)
    assert "--text-b" in caught.value.hint


def test_the_averaged_weights_are_counted_and_measured(built, tmp_path):
    said = []
    made = wordpipe.train_denoising(
        built / "tokens", output=tmp_path / "x", run=RunOptions(report=lambda one: said.append(one.note)),
        **SMALL | {"steps": 6, "average": 0.5},
    )  # fmt: skip
    assert made.counts["weights_averaged"] == 3
    assert any(note and "mean of 3 sets" in note for note in said)
    assert made.metrics["valid_loss"] > 0


def test_of_one_set_of_weights_no_mean_is_said(built, tmp_path):
    said = []
    made = wordpipe.train_denoising(
        built / "tokens", output=tmp_path / "x", run=RunOptions(report=lambda one: said.append(one.note)),
        **SMALL | {"steps": 2},
    )  # fmt: skip
    assert "weights_averaged" not in made.counts
    assert not any(note and "the mean of" in note for note in said)
    assert made.metrics["valid_loss"] > 0
