"""BERT's relatives as commands: what is made, what it can do, what is refused."""

import json
from pathlib import Path

import pytest
import torch

import wordpipe
from wordpipe.errors import ArtifactError, ConfigError

TINY = {"preset": "tiny", "dim": 16, "n_layers": 2, "n_heads": 2, "ffn_dim": 32, "seq_len": 24, "batch_size": 8, "steps": 6,
        "threads": 1, "compile": "off", "device": "cpu", "valid_tokens": 256}  # fmt: skip
LENGTH = {name: TINY[name] for name in ("preset", "batch_size", "steps", "seq_len", "threads", "compile", "device")}


@pytest.fixture(scope="module")
def bert(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("relatives") / "bert"
    return wordpipe.train_mlm(built / "tokens", output=folder, style="classic", pair="nsp", **TINY)


@pytest.mark.landing
def test_two_texts_are_learned_and_load_in_transformers(bert):
    from transformers import AutoModelForPreTraining

    assert 0.0 <= bert.metrics["pair_accuracy"] <= 1.0
    assert bert.metrics["valid_loss"] < 9
    theirs, report = AutoModelForPreTraining.from_pretrained(bert.path, output_loading_info=True)
    assert type(theirs).__name__ == "BertForPreTraining"
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))


@pytest.mark.landing
def test_a_student_of_a_bert_is_a_distilbert(bert, built, tmp_path):
    from transformers import AutoModelForMaskedLM

    made = wordpipe.train_mlm(built / "tokens", output=tmp_path / "student", teacher=bert.path, **LENGTH)
    theirs, report = AutoModelForMaskedLM.from_pretrained(made.path, output_loading_info=True)
    assert type(theirs).__name__ == "DistilBertForMaskedLM"
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.config.n_layers == 1
    filled = wordpipe.fill(made.path, "the high [MASK] of the day", top_k=2)
    assert len(filled.masks[0]) == 2


@pytest.mark.landing
def test_an_albert_has_one_layer_of_weights(built, tmp_path):
    from transformers import AutoModelForPreTraining

    made = wordpipe.train_mlm(
        built / "tokens",
        output=tmp_path / "albert",
        style="classic",
        pair="sop",
        shared_layers=True,
        embedding_dim=8,
        **TINY,
    )
    theirs = AutoModelForPreTraining.from_pretrained(made.path)
    assert type(theirs).__name__ == "AlbertForPreTraining"
    assert made.counts["parameters"] == sum(weight.numel() for weight in theirs.parameters())


@pytest.mark.landing
@pytest.mark.parametrize("style", ["classic", "modern"])
def test_an_electra_finds_and_does_not_guess(built, tmp_path, style):
    from transformers import AutoModelForPreTraining

    made = wordpipe.train_electra(built / "tokens", output=tmp_path / "electra", style=style, **TINY)
    assert {"generator_loss", "replaced_accuracy", "replaced_found"} <= made.metrics.keys()
    assert "perplexity" not in made.metrics
    if style == "classic":
        theirs = AutoModelForPreTraining.from_pretrained(made.path)
        assert type(theirs).__name__ == "ElectraForPreTraining"
    with pytest.raises(ArtifactError, match="cannot predict missing tokens"):
        wordpipe.fill(made.path, "the [MASK]")
    vectors = wordpipe.embed(made.path, built / "corpus", output=tmp_path / "sentences", threads=1)
    assert vectors.counts
    # it has no loss that could be measured: its weights and units are looked at alone
    examined = wordpipe.doctor(made.path, sample=600)
    assert (examined["metrics"]["loss"], examined["objective"], examined["start"]) == (None, "positions", "fresh")
    assert examined["counts"]["targets"] == examined["counts"]["positions"] > 0
    assert all(one["moved"] > 0 and 0 <= one["dead_units"] <= 1 for one in examined["layers"])
    assert "loss" not in {one["name"] for one in examined["findings"]}
    assert any(
        str(part).startswith("loss     not measured: an ELECTRA model has no measurable loss")
        for part in examined.parts
    )
    with pytest.raises(ArtifactError, match="an ELECTRA model has no measurable loss"):
        wordpipe.attention(made.path, "the bees", data=built / "corpus", importance=True, sample=600)


@pytest.fixture(scope="module")
def xlnet(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("relatives") / "xlnet"
    return wordpipe.train_permutation(built / "tokens", output=folder, **TINY)


@pytest.mark.landing
def test_an_xlnet_loads_in_transformers_and_is_used_as_other_encoders(xlnet, built, tmp_path):
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    theirs, report = AutoModelForCausalLM.from_pretrained(xlnet.path, output_loading_info=True)
    assert type(theirs).__name__ == "XLNetLMHeadModel"
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert xlnet.metrics["valid_loss"] < 9
    assert wordpipe.embed(xlnet.path, built / "corpus", output=tmp_path / "sentences", threads=1).counts
    loss = wordpipe.evaluate_model(xlnet.path, data=built / "corpus", split="valid", device="cpu")["metrics"]["loss"]
    assert 3 < loss < 9
    words = ("bees", "tide", "moon")
    records = [{"text": f"Number {i}: the {words[i % 3]} of the day.", "label": words[i % 3]} for i in range(60)]
    labelled = wordpipe.ingest(records, output=tmp_path / "labelled", label_field="label").path
    labels = wordpipe.train_classifier(labelled, output=tmp_path / "labels", init=xlnet.path, epochs=1, threads=1)
    named = json.loads((Path(labels.path) / "config.json").read_text())["architectures"]
    assert named == ["XLNetForSequenceClassification"]
    loaded = AutoModelForSequenceClassification.from_pretrained(labels.path, output_loading_info=True)[1]
    assert not any(loaded[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert wordpipe.predict(labels.path, ["the bees"])


def test_an_xlnet_fills_masks(xlnet):
    assert [len(mask) for mask in wordpipe.fill(xlnet.path, "the high [MASK] of the day", top_k=3).masks] == [3]
    assert len(wordpipe.fill(xlnet.path, "the high [MASK] of the [MASK]", top_k=3).masks) == 2


@pytest.mark.landing
def test_a_training_goes_on_from_an_xlnet_and_from_a_folder_of_transformers(xlnet, built, tmp_path):
    from transformers import AutoModelForCausalLM

    on = wordpipe.train_permutation(built / "tokens", output=tmp_path / "on", init=xlnet.path, **LENGTH)
    assert on.counts["steps"] == 6
    theirs = AutoModelForCausalLM.from_pretrained(xlnet.path)
    theirs.save_pretrained(tmp_path / "theirs")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "theirs" / name).write_bytes((Path(xlnet.path) / name).read_bytes())
    same = wordpipe.train_permutation(built / "tokens", output=tmp_path / "same", init=tmp_path / "theirs", **LENGTH)
    assert same.metrics["valid_loss"] == pytest.approx(on.metrics["valid_loss"], abs=0.3)  # another seed of order
    longer = wordpipe.train_permutation(
        built / "tokens", output=tmp_path / "long", extend=xlnet.path, **TINY | {"steps": 8}
    )
    assert longer.counts["steps"] == 8


def test_streams_are_not_mixed_up(xlnet, bert, built, tmp_path):
    with pytest.raises(ArtifactError, match=r"(?s)this kind of model.*train permutation TOKENS --init"):
        wordpipe.train_mlm(built / "tokens", output=tmp_path / "m", init=xlnet.path, **LENGTH)
    with pytest.raises(ArtifactError, match=r"(?s)this kind of model.*train mlm TOKENS --init"):
        wordpipe.train_permutation(built / "tokens", output=tmp_path / "m", init=bert.path, **LENGTH)
    with pytest.raises(ArtifactError, match="this kind of model"):
        wordpipe.train_mlm(built / "tokens", output=tmp_path / "m", teacher=xlnet.path, **LENGTH)
    with pytest.raises(ConfigError, match="unknown setting 'mask_unit'"):
        wordpipe.train_permutation(built / "tokens", output=tmp_path / "m", mask_unit="word", **LENGTH)


def test_a_decoder_with_memory_writes_beyond_its_positions(built, tmp_path):
    made = wordpipe.train_clm(built / "tokens", output=tmp_path / "m", attention="relative", mem_len=8, **TINY)
    assert made.metrics["valid_loss"] < 9
    assert wordpipe.generate(made.path, "the bees " * 20, max_tokens=40, min_tokens=40, threads=1)
    with pytest.raises(ConfigError, match=r"mem_len = 8 has no effect, because the model has no relative layer"):
        wordpipe.train_clm(built / "tokens", output=tmp_path / "n", mem_len=8, **TINY)
    with pytest.raises(ConfigError, match="mem_len needs a decoder with relative attention"):
        wordpipe.train_mlm(built / "tokens", output=tmp_path / "n", attention="relative", mem_len=8, **TINY)


@pytest.mark.landing
def test_the_second_head_stays_behind_where_nobody_asks(bert, built, tmp_path):
    from transformers import AutoModelForMaskedLM

    made = wordpipe.train_mlm(built / "tokens", output=tmp_path / "on", init=bert.path, **LENGTH)
    assert type(AutoModelForMaskedLM.from_pretrained(made.path)).__name__ == "BertForMaskedLM"
    assert "pair_accuracy" not in made.metrics
    other = wordpipe.train_mlm(built / "tokens", output=tmp_path / "other", init=made.path, pair="sop", **LENGTH)
    assert "pair_accuracy" in other.metrics


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pair": "nsp"}, "segments"),
        ({"pair": "nsp", "teacher": "x", "style": "classic"}, "pair = nsp"),
        ({"teacher": "x", "dim": 16}, "cannot be set together with teacher"),
        ({"teacher": "x", "init": "y"}, "each of them sets the initial weights"),
    ],
)
def test_what_does_not_go_together_is_refused(built, tmp_path, given, says):
    with pytest.raises(ConfigError, match=says):
        wordpipe.train_mlm(built / "tokens", output=tmp_path / "m", **LENGTH | given)


def test_a_decoder_has_no_narrow_embeddings(built, tmp_path):
    with pytest.raises(ConfigError, match="cannot have this width of the embeddings"):
        wordpipe.train_clm(built / "tokens", output=tmp_path / "m", embedding_dim=8, **TINY)
    made = wordpipe.train_clm(built / "tokens", output=tmp_path / "shared", shared_layers=True, **TINY)
    text = wordpipe.generate(made.path, "the bees", max_tokens=5)
    assert text
    assert torch.isfinite(torch.tensor(made.metrics["loss"]))
