"""`train seq2seq --init` from an encoder: it reads as that one does before the first step; frames, refusals, going on."""

import json

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

import wordpipe
from tests.conftest import TINY
from wordpipe import RunOptions
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.settings import GenerateSettings
from wordpipe.stages import TargetWriter

SHAPE = ("dim", "n_layers", "n_heads", "ffn_dim", "preset")
SMALL = TINY | {"threads": 1, "dtype": "float32", "batch_size": 8, "steps": 1, "device": "cpu", "seq_len": 32}
QUICK = {name: value for name, value in SMALL.items() if name not in SHAPE and name != "seq_len"}
WORDS = ["sea", "tide", "moon", "coast", "water", "north", "south", "ship"]


def pair(i):
    words = [WORDS[(i * k + k) % len(WORDS)] for k in range(1, 3 + i % 5)]
    return {"text": f"{i} " + " ".join(words), "text_b": " ".join(reversed(words)) + f" {i}"}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    wordpipe.ingest([pair(i) for i in range(60)], output=folder / "corpus", text_b="text_b", valid=0.2)
    wordpipe.tokenize(folder / "corpus", output=folder / "tokens", vocab_size=400)
    return folder / "tokens"


def masked(tokens, output, **settings):
    wordpipe.train_mlm(tokens, output=output, **SMALL | settings)
    return output


def started(tokens, output, init, run=None, **settings):
    """A training that changes nothing: what it publishes is what it began with."""
    still = {"lr": 1e-30, "weight_decay": 0.0, "average": 0.0}
    return wordpipe.train_seq2seq(tokens, output=output, init=init, run=run, **QUICK | still | settings)


def hidden_of(path, text):
    """What an encoder makes of a text in the frame of its own tokenizer."""
    opened = wordpipe.open_model(path)
    ids = torch.tensor([[*opened.before, *opened.encode(text), *opened.after]])
    model = opened.model.encoder if opened.writes_targets else opened.model
    with torch.inference_mode():
        return ids.tolist(), model.encode(ids)


@pytest.mark.parametrize(
    ("settings", "saved_as"),
    [
        ({}, None),
        ({"style": "classic"}, None),
        ({"positions": "t5", "norm": "rms", "feedforward": "geglu"}, None),
        ({"n_kv_heads": 1}, None),
        ({"tied": False}, None),
    ],
    ids=["modern", "classic", "t5", "grouped", "untied"],
)
def test_it_reads_as_the_masked_model_does(tokens, tmp_path, settings, saved_as):
    masked(tokens, tmp_path / "mlm", **settings)
    said = []
    made = started(
        tokens, tmp_path / "model", tmp_path / "mlm", run=RunOptions(report=lambda one: said.append(one.note))
    )
    (ids, want), (same, got) = (hidden_of(tmp_path / name, "sea moon north") for name in ("mlm", "model"))
    assert ids == same
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    about = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert about["facts"]["transformers"] == saved_as
    assert any("transformers has no class for this encoder-decoder" in text for text in about["warnings"])
    assert any(note and "the decoder starts with new weights" in note for note in said)
    assert 0 < made.counts["parameters_given"] < made.counts["parameters"]
    assert about["facts"]["n_decoder_layers"] == about["facts"]["n_layers"]


@pytest.mark.landing
def test_parts_of_bart_give_a_folder_of_bart(tokens, tmp_path):
    """What another program made with BART's epsilon: a folder that transformers loads."""

    from transformers import BartForConditionalGeneration, BertConfig, BertForMaskedLM

    size = Tokenizer.from_file(str(tokens / "tokenizer.json")).get_vocab_size()
    torch.manual_seed(0)
    theirs = BertForMaskedLM(
        BertConfig(vocab_size=size, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
                   max_position_embeddings=40, layer_norm_eps=1e-5, type_vocab_size=2)
    ).eval()  # fmt: skip
    theirs.save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "tokenizer.json").write_bytes((tokens / "tokenizer.json").read_bytes())
    started(tokens, tmp_path / "model", tmp_path / "bert", n_decoder_layers=1)
    model = BartForConditionalGeneration.from_pretrained(tmp_path / "model").eval()
    assert len(model.model.decoder.layers) == 1
    ids, got = hidden_of(tmp_path / "model", "sea moon north")
    with torch.inference_mode():
        want = theirs.bert(torch.tensor(ids)).last_hidden_state
        again = model.model.encoder(torch.tensor(ids)).last_hidden_state
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(again, want, rtol=1e-4, atol=1e-5)


def test_sources_have_the_frame_of_the_encoder_at_every_step(tokens, tmp_path, monkeypatch):
    from wordpipe.training.recipes import data as laid_out

    frames, writer = [], laid_out.PairWriter
    monkeypatch.setattr(
        laid_out,
        "PairWriter",
        lambda *args, **given: frames.append((given["before"], given["after"])) or writer(*args, **given),
    )
    masked(tokens, tmp_path / "mlm")
    started(tokens, tmp_path / "model", tmp_path / "mlm")
    opened = wordpipe.open_model(tmp_path / "model")
    own = ((opened.special["cls"],), (opened.special["sep"],))
    assert (opened.before, opened.after) == own
    assert TargetWriter(opened, GenerateSettings())._source(0, "sea").ids[0] == opened.special["cls"]
    started(tokens, tmp_path / "next", tmp_path / "model")
    longer = {"extend": tmp_path / "model", "steps": 2, "lr": 1e-30, "weight_decay": 0.0, "average": 0.0}
    wordpipe.train_seq2seq(tokens, output=tmp_path / "longer", **QUICK | longer)
    assert {*frames} == {own}
    for name in ("next", "longer"):
        opened = wordpipe.open_model(tmp_path / name)
        assert (opened.before, opened.after) == own


def test_a_bart_that_is_extended_keeps_its_frame(tokens, tmp_path):
    values = {name: value for name, value in QUICK.items() if name != "steps"}
    wordpipe.train_denoising(
        tokens, output=tmp_path / "bart", style="bart", steps=1, **values, dim=32, n_layers=1, n_heads=2
    )
    wordpipe.train_seq2seq(tokens, output=tmp_path / "model", init=tmp_path / "bart", steps=1, **values)
    wordpipe.train_seq2seq(tokens, output=tmp_path / "longer", extend=tmp_path / "model", steps=2, **values)
    for name in ("bart", "model", "longer"):
        opened = wordpipe.open_model(tmp_path / name)
        assert (opened.before, opened.after) == ((opened.special["bos"],), (opened.special["eos"],)), name


def test_it_learns_from_there(tokens, tmp_path):
    masked(tokens, tmp_path / "mlm")
    made = wordpipe.train_seq2seq(
        tokens, output=tmp_path / "model", init=tmp_path / "mlm", **QUICK | {"steps": 30, "lr": 1e-2}
    )
    before = load_file(tmp_path / "mlm" / "model.safetensors")["model.embeddings.tok_embeddings.weight"]
    after = load_file(tmp_path / "model" / "model.safetensors")["encoder.embedding"]
    assert not torch.equal(before, after)
    assert made.metrics["valid_loss"] < 6.0
    assert wordpipe.generate(tmp_path / "model", "3 sea moon")[0].text != ""


def test_longer_sequences_than_the_given_model_had(tokens, tmp_path):
    masked(tokens, tmp_path / "rope")
    masked(tokens, tmp_path / "table", style="classic")
    started(tokens, tmp_path / "model", tmp_path / "rope", seq_len=64)
    assert wordpipe.open_model(tmp_path / "model").max_len == 64
    with pytest.raises(ConfigError, match="longer than the learned positions of the model"):
        started(tokens, tmp_path / "x", tmp_path / "table", seq_len=64)


@pytest.mark.parametrize(
    ("settings", "part"),
    [({"window": 4, "n_layers": 2, "global_every": 2}, "windows"), ({"attention": "linear"}, "attention")],
)
def test_an_encoder_with_other_parts_is_refused_by_their_name(tokens, tmp_path, settings, part):
    masked(tokens, tmp_path / "mlm", **settings)
    with pytest.raises(ArtifactError, match=f"cannot start from this encoder, because {part} does not fit") as caught:
        started(tokens, tmp_path / "x", tmp_path / "mlm")
    assert "train mlm" in caught.value.hint


def test_other_kinds_of_models_are_refused(tokens, tmp_path):
    wordpipe.train_clm(tokens, output=tmp_path / "clm", **SMALL)
    with pytest.raises(ArtifactError, match="this kind of model; got decoder; expected encoder-decoder or encoder"):
        started(tokens, tmp_path / "x", tmp_path / "clm")
    masked(tokens, tmp_path / "mlm")
    with pytest.raises(ArtifactError, match="this kind of model; got encoder; expected encoder-decoder"):
        wordpipe.train_denoising(tokens, output=tmp_path / "x", init=tmp_path / "mlm", **QUICK)
    wordpipe.train_seq2seq(tokens, output=tmp_path / "pair", **SMALL)
    with pytest.raises(ConfigError, match="the init model already has a decoder"):
        started(tokens, tmp_path / "x", tmp_path / "pair", n_decoder_layers=5)


def test_another_tokenizer_is_refused(tokens, built, tmp_path):
    with pytest.raises(ArtifactError, match="different tokenizers"):
        started(tokens, tmp_path / "x", built / "model")


def test_an_encoder_of_the_sources_and_targets_in_a_vocabulary_of_their_own(tokens, tmp_path):
    wordpipe.tokenize(tokens.parent / "corpus", output=tmp_path / "two", vocab_size=300, vocabulary="separate")
    masked(tmp_path / "two", tmp_path / "mlm")
    started(tmp_path / "two", tmp_path / "model", tmp_path / "mlm")
    (ids, want), (same, got) = (hidden_of(tmp_path / name, "sea moon north") for name in ("mlm", "model"))
    assert ids == same
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert wordpipe.open_model(tmp_path / "model").target_tokenizer is not None
    assert wordpipe.generate(tmp_path / "model", "sea moon", max_tokens=4)[0].tokens > 0
