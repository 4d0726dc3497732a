"""The chain of pairs: from two texts to an encoder-decoder, what is left out on the way, kills and several starts."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import wordpipe
from tests.conftest import TINY
from tests.support.results import manifest
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.errors import InputError
from wordpipe.training import PairWriter, open_pairs

SMALL = TINY | {"threads": 1, "dtype": "float32", "batch_size": 8, "steps": 4, "device": "cpu", "seq_len": 32}
WORDS = ["sea", "tide", "moon", "coast", "water", "north", "south", "ship", "light", "stone"]


def pair(i):
    words = [WORDS[(i * k + k) % len(WORDS)] for k in range(1, 3 + i % 5)]
    return {"text": f"{i} " + " ".join(words), "text_b": " ".join(reversed(words)) + f" {i}"}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    wordpipe.ingest([pair(i) for i in range(120)], output=folder / "corpus", text_b="text_b", valid=0.2)
    wordpipe.tokenize(folder / "corpus", output=folder / "tokens", vocab_size=400)
    return folder / "tokens"


def trained(tokens, output, run=None, **settings):
    return wordpipe.train_seq2seq(tokens, output=output, run=run, **SMALL | settings)


@pytest.mark.landing
@pytest.mark.parametrize(
    ("style", "kind"),
    [("t5", "T5ForConditionalGeneration"), ("bart", "BartForConditionalGeneration"), ("vaswani", "MarianMTModel")],
)
def test_pairs_become_a_model_that_transformers_loads(tokens, tmp_path, style, kind):
    from transformers import AutoModelForSeq2SeqLM

    made = trained(tokens, tmp_path / "model", style=style)
    assert made.counts["pairs_train"] + made.counts["pairs_valid"] == 120
    assert made.counts["pairs_valid"] > 5
    assert made.metrics["valid_loss"] > 0
    assert manifest(tmp_path / "model")["facts"]["transformers"] == kind
    assert type(AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")).__name__ == kind


@pytest.mark.slow
@pytest.mark.parametrize("style", ["t5", "bart", "vaswani"])
def test_transformers_writes_by_the_folder_alone_what_ours_writes(tokens, tmp_path, style):
    """`generation_config.json` says where a target begins and ends, what never comes: greedy, with beams, and cut."""

    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

    path = tmp_path / "model"
    trained(tokens, path, style=style, steps=150, lr=5e-3, label_smoothing=0.0)
    known, opened = GenerationConfig.from_pretrained(path), wordpipe.open_model(path)
    assert (known.eos_token_id, known.pad_token_id, known.bos_token_id) == (6, 0, 5)
    assert known.decoder_start_token_id == opened.model.config.start_id == (6 if style == "bart" else 0)
    assert (known.max_length, known.num_beams) == (opened.max_len + 1, 5)
    may_come = opened.tokens_that_come("eos")
    assert known.suppress_tokens == (~may_come).nonzero()[:, 0].tolist()
    theirs, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)
    texts, cut, written = [pair(i)["text"] for i in range(8)], 0, set()
    asked = tokenizer(texts, return_tensors="pt", padding=True)
    for beams, most in ((1, opened.max_len), (None, opened.max_len), (1, 3), (4, 3)):
        options = {} if beams is None else {"num_beams": beams, "max_length": most + 1}
        want = tokenizer.batch_decode(theirs.generate(**asked, **options), skip_special_tokens=True)
        found = [
            wordpipe.generate(opened, text, beams=beams, max_tokens=most, threads=1, device="cpu")[0] for text in texts
        ]
        assert [one.text for one in found] == want
        cut += sum(one.stopped == "length" for one in found)
        written |= {*want}
    assert cut, "some were cut, and nothing forced an end"
    assert len(written) > 5, "they depend on their sources"


@pytest.mark.landing
@pytest.mark.parametrize("train", [wordpipe.train_seq2seq, wordpipe.train_denoising])
@pytest.mark.parametrize("style", ["t5", "bart"])
def test_losses_are_compared_with_knowing_frequencies(tokens, tmp_path, train, style):
    """A model that learns nothing else comes to just that loss, smoothed as the labels are."""
    said = StopAt(9999)
    made = train(
        tokens, output=tmp_path / "model", run=RunOptions(report=said),
        **SMALL | {"style": style, "steps": 30, "lr": 1e-5, "label_smoothing": 0.1, "patience": 20, "warmup": 0},
    )  # fmt: skip
    entropy = manifest(tmp_path / "model")["facts"]["unigram_entropy"]
    assert 2.0 < entropy < made.metrics["loss"]
    assert any(f"the frequency of each token has a loss of {entropy:.3f}" in note for note in said.notes)
    assert any("with label smoothing" in note for note in said.notes)
    assert any("but a model that knows only the frequency of each token has a loss of" in note for note in said.notes)


def test_label_counts_are_those_of_the_labels(tokens, tmp_path):
    with Artifact(tokens) as artifact:
        rows = [row for batch in read_batches(artifact, "tokens") for row in batch.to_pylist()]
    writer = PairWriter(tmp_path / "x", vocab_size=400, before=(), after=(6,), end=(6,), max_len=500)
    for row in rows:
        writer.add(np.array(row["ids"]), np.array(row["ids_b"]))
    writer.close()
    want = np.bincount([number for row in rows for number in (*row["ids_b"], 6)], minlength=400)
    assert open_pairs(tmp_path / "x", 400).label_counts(400).tolist() == want.tolist()


@pytest.mark.landing
def test_the_same_settings_give_the_same_bytes_and_another_seed_others(tokens, tmp_path):
    one, same, other = (
        trained(tokens, tmp_path / name, seed=seed).digest for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    assert one == same != other


class StopAt:
    """Breaks a training off after a step."""

    def __init__(self, step):
        self.step, self.notes = step, []

    def __call__(self, progress):
        if progress.note is not None:
            self.notes.append(progress.note)
        if progress.phase == "training" and progress.done == self.step:
            raise KeyboardInterrupt


@pytest.mark.landing
def test_a_run_that_broke_off_goes_on_to_the_same_bytes(tokens, tmp_path):
    values = {"steps": 6, "checkpoint_steps": 1, "average": 0.8, "dropout": 0.2}
    want = trained(tokens, tmp_path / "whole", **values).digest
    with pytest.raises(KeyboardInterrupt):
        trained(tokens, tmp_path / "stopped", run=RunOptions(report=StopAt(4)), **values)
    assert not (tmp_path / "stopped").exists()
    said = StopAt(99)
    assert trained(tokens, tmp_path / "stopped", run=RunOptions(report=said), **values).digest == want
    assert any("continuing a stopped run at step" in note for note in said.notes)


@pytest.mark.landing
def test_an_extended_training_has_the_mean_of_its_own_last_weights(tokens, tmp_path):
    values = {"average": 0.5, "style": "t5", "lr": 1e-4, "warmup": 0}
    trained(tokens, tmp_path / "model", **values)
    made = trained(tokens, tmp_path / "more", extend=tmp_path / "model", **values | {"steps": 8})
    assert made.counts["weights_averaged"] == 4
    weights = load_file(tmp_path / "more" / "model.safetensors")
    norms = torch.cat([one for name, one in weights.items() if name.endswith("layer_norm.weight")])
    assert float(norms.mean()) == pytest.approx(1, abs=0.01)  # half of it where another's sets are counted


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """A few pairs are so long that a batch has one of them alone."""
    folder, long = tmp_path_factory.mktemp("uneven"), " ".join(WORDS * 4)
    texts = [f"{i} {long if i % 10 == 0 else WORDS[i % 7]}" for i in range(40)]
    wordpipe.ingest(
        [{"text": one, "text_b": one} for one in texts], output=folder / "corpus", text_b="text_b", valid=0.0
    )
    wordpipe.tokenize(folder / "corpus", output=folder / "tokens", vocab_size=400)
    return folder / "tokens"


@pytest.mark.slow
@pytest.mark.parametrize("given", ["tokens", "uneven"])
def test_two_processes_learn_what_one_learns(request, given, tmp_path):
    tokens = request.getfixturevalue(given)
    values = {name: value for name, value in SMALL.items() if name != "device"} | {"dropout": 0.0, "optimiser": "adamw"}
    values |= {"seq_len": 200}
    (tmp_path / "small.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2",
                 "LOCAL_WORLD_SIZE": "2"}  # fmt: skip
    command = [sys.executable, "-m", "wordpipe", "train", "seq2seq", str(tokens), "-o", str(tmp_path / "two"),
               "--device", "cpu", "--config", str(tmp_path / "small.toml")]  # fmt: skip
    both = [
        subprocess.Popen(
            command, env={**os.environ, **world, "RANK": rank, "LOCAL_RANK": rank}, stderr=subprocess.PIPE, text=True
        )
        for rank in "01"
    ]
    said = [process.communicate(timeout=200)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert "2 processes" in said[0]
    trained(tokens, tmp_path / "one", **values)
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, weight in two.items():
        torch.testing.assert_close(weight, one[name], atol=3e-4, rtol=1e-3)


def test_long_pairs_are_left_out_counted_and_said(tokens, tmp_path):
    said = StopAt(99)
    made = trained(tokens, tmp_path / "model", seq_len=8, run=RunOptions(report=said))
    left = made.counts["pairs_left_out_long_source"] + made.counts.get("pairs_left_out_long_target", 0)
    assert left == 120 - made.counts["pairs_train"] - made.counts["pairs_valid"] > 0
    assert any(f"pairs that are left out: {left}." in note and "--seq-len" in note for note in said.notes)


def test_a_prefix_stands_before_every_source(tokens, tmp_path):
    plain = trained(tokens, tmp_path / "plain")
    with_prefix = trained(tokens, tmp_path / "prefix", prefix="turn round: ")
    added = with_prefix.counts["tokens_train"] - plain.counts["tokens_train"]
    assert added % plain.counts["pairs_train"] == 0
    assert added > 0
    assert manifest(tmp_path / "prefix")["settings"]["prefix"] == "turn round: "


def test_nothing_to_train_on_is_an_error(tokens, tmp_path):
    with pytest.raises(InputError, match="no pair of texts for the training"):
        trained(tokens, tmp_path / "x", prefix="a " * 40)


def test_it_starts_from_a_denoised_model(tokens, tmp_path):
    wordpipe.train_denoising(tokens, output=tmp_path / "denoiser", **SMALL)
    values = {
        name: value for name, value in SMALL.items() if name not in ("dim", "n_layers", "n_heads", "ffn_dim", "preset")
    }
    made = wordpipe.train_seq2seq(tokens, output=tmp_path / "model", init=tmp_path / "denoiser", **values)
    assert made.counts["steps"] == 4
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("denoiser", "model"))
    assert {name: one.shape for name, one in before.items()} == {name: one.shape for name, one in after.items()}


@pytest.mark.landing
def test_a_given_model_reads_as_much_as_is_asked_for(tokens, tmp_path):
    """Its own length is only the most."""
    values = {name: value for name, value in SMALL.items() if name not in ("dim", "n_layers", "n_heads", "ffn_dim")}
    long = trained(tokens, tmp_path / "long", seq_len=64)
    short = trained(tokens, tmp_path / "short", seq_len=8)
    given = wordpipe.train_seq2seq(tokens, output=tmp_path / "given", init=tmp_path / "long", **values | {"seq_len": 8})
    assert given.counts["pairs_train"] == short.counts["pairs_train"] < long.counts["pairs_train"]
    assert wordpipe.open_model(tmp_path / "given").model.config.max_len == 64
    more = wordpipe.train_seq2seq(
        tokens, output=tmp_path / "more", extend=tmp_path / "given", **values | {"seq_len": 8, "steps": 6}
    )
    assert more.counts["pairs_train"] == short.counts["pairs_train"]
    denoisers = [
        wordpipe.train_denoising(tokens, output=tmp_path / f"denoiser{n}", **SMALL | {"seq_len": n}) for n in (64, 16)
    ]
    again = wordpipe.train_denoising(
        tokens, output=tmp_path / "again", init=tmp_path / "denoiser64", **values | {"seq_len": 16}
    )
    assert again.counts["sequences"] == denoisers[1].counts["sequences"] > denoisers[0].counts["sequences"]
