"""`attention` and `doctor MODEL` end to end: language models, encoder-decoders, heads; what they refuse and say."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import wordpipe
from tests.conftest import TINY
from tests.support.map_page import Page
from tests.support.results import Said
from wordpipe import RunOptions, doctor
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics import join_words

TEXT = "The bees of the valley don't sleep."
SMALL = TINY | {"n_layers": 2, "n_heads": 2}


@pytest.fixture(scope="module")
def models(built, tmp_path_factory):
    """A model of each kind, hardly trained: encoder, decoder, pairs, denoiser, classifier, tagger, reader."""
    folder = tmp_path_factory.mktemp("models")
    wordpipe.train_mlm(built / "tokens", output=folder / "encoder", steps=2, **SMALL)
    wordpipe.train_clm(built / "tokens", output=folder / "decoder", steps=2, **SMALL)
    wordpipe.train_denoising(built / "tokens", output=folder / "denoiser", style="t5", steps=2, **SMALL)
    colours = ["red", "green", "blue"]
    rows = [{"text": f"it is {colours[n % 3]} {n}", "text_b": f"{n} {colours[n % 3]}", "label": colours[n % 3],
             "tags": ["O", "O", "B-COL", "O"]} for n in range(60)]  # fmt: skip
    wordpipe.ingest(rows, output=folder / "rows", text_b="text_b", label_field="label", tags_field="tags", valid=0.2)
    pairs = [{"text": row["text"], "text_b": row["text_b"]} for row in rows]
    wordpipe.ingest(pairs, output=folder / "pairs", text_b="text_b", valid=0.2)
    wordpipe.tokenize(folder / "pairs", output=folder / "pair-tokens", vocab_size=300)
    wordpipe.train_seq2seq(folder / "pair-tokens", output=folder / "seq2seq", style="bart", steps=2, **SMALL)
    texts = [{name: row[name] for name in ("text", "label", "tags")} for row in rows]
    wordpipe.ingest(texts, output=folder / "labelled", label_field="label", tags_field="tags", valid=0.2)
    head = {"init": folder / "encoder", "epochs": 1, "device": "cpu", "dtype": "float32", "threads": 1}
    wordpipe.train_classifier(folder / "labelled", output=folder / "classifier", **head)
    wordpipe.train_tagger(folder / "labelled", output=folder / "tagger", **head)
    asked = [
        {"text": row["text"], "text_b": "which colour", "spans": [[6, 6 + len(row["label"]), None]]} for row in rows
    ]
    wordpipe.ingest(asked, output=folder / "asked", text_b="text_b", spans_field="spans", valid=0.2)
    wordpipe.train_reader(folder / "asked", output=folder / "reader", **head)
    return folder


def test_numbers_and_page_say_the_same(models, tmp_path):
    found = wordpipe.attention(models / "encoder", TEXT, output=tmp_path / "page.html")
    (stack,), side = found["stacks"], found["tokens"]["text"]
    n = len(side["shown"])
    weights = np.array(stack["weights"])
    assert weights.shape == (2, 2, n, n)
    assert weights.sum(-1) == pytest.approx(1.0, abs=1e-4)
    assert side["words"] == ["[CLS]", "The", "bees", "of", "the", "valley", "don't", "sleep", ".", "[SEP]"]
    joined = join_words(weights, np.array(side["number"]), np.array(side["number"]))
    assert np.array(stack["words"]) == pytest.approx(joined, abs=1e-5)
    assert (stack["importance"], found["loss"], found["cut"]) == (None, None, 0)
    page = Page((tmp_path / "page.html").read_bytes())
    data = json.loads(page.texts_of("script")[0])
    assert data["tokens"]["text"]["shown"] == side["shown"]
    assert data["stacks"][0]["names"] == stack["names"]
    assert found["bytes"] == (tmp_path / "page.html").stat().st_size
    again = wordpipe.attention(models / "encoder", TEXT, output=tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "page.html").read_bytes()
    assert again["stacks"] == found["stacks"]


def test_a_pair_of_texts_is_read_as_one(models):
    found = wordpipe.attention(models / "encoder", "bees fly", "bees fly")
    assert found["tokens"]["text"]["words"] == ["[CLS]", "bees", "fly", "[SEP]", "bees", "fly", "[SEP]"]


def test_a_decoder_sees_nothing_that_comes(models):
    (stack,) = wordpipe.attention(models / "decoder", TEXT)["stacks"]
    assert stack["name"] == "decoder"
    assert np.abs(np.triu(np.array(stack["weights"]), 1)).max() == 0


def test_an_encoder_decoder_shows_what_it_writes_or_reads(models):
    own = wordpipe.attention(models / "seq2seq", "it is red 7")
    assert [one["name"] for one in own["stacks"]] == ["encoder", "decoder", "cross"]
    assert "writes" in own["said"]
    given = wordpipe.attention(models / "seq2seq", "it is red 7", "7 red")
    sizes = [len(given["tokens"][side]["ids"]) for side in ("target", "source")]
    assert np.array(given["stacks"][2]["weights"]).shape == (2, 2, *sizes)
    assert given["tokens"]["target"]["words"][1:] == ["7", "red"]
    assert given["tokens"]["source"]["words"][1:-1] == ["it", "is", "red", "7"]
    assert given["stacks"][2]["rollout"] is None


@pytest.mark.parametrize(("name", "says"), [("classifier", "predicts: "), ("tagger", "finds: ")])
def test_models_with_a_head_show_their_body_and_what_they_say(models, name, says):
    found = wordpipe.attention(models / name, "it is red 7")
    assert says in found["said"]
    assert found["stacks"][0]["name"] == "encoder"


@pytest.mark.parametrize(
    ("name", "corpus", "of"),
    [
        ("encoder", None, "masked tokens"),
        ("seq2seq", "pairs", "tokens of targets"),
        ("tagger", "labelled", "tags of words"),
        *(
            pytest.param(*row, marks=pytest.mark.landing)
            for row in (
                ("decoder", None, "next tokens"),
                ("denoiser", None, "damaged tokens"),
                ("classifier", "labelled", "labels of texts"),
                ("reader", "asked", "ends of answers"),
            )
        ),
    ],
)
def test_importance_is_the_rise_of_the_models_own_loss(models, built, name, corpus, of):
    """The slow twin cuts the head's columns out of the output matrix of a copy of the model's folder."""
    data = built / "corpus" if corpus is None else models / corpus
    source = {None: ("bees fly home",), "asked": ("which colour", "it is red 7")}.get(corpus, ("it is red 7",))
    found = wordpipe.attention(models / name, *source, data=data, importance=True, sample=600)
    assert found["loss"]["of"] == of
    assert found["loss"]["targets"] > 0
    for stack in found["stacks"]:
        assert np.isfinite(stack["importance"]).all()
        assert np.array(stack["importance"]).shape == np.array(stack["weights"]).shape[:2]
    assert np.abs(np.concatenate([np.ravel(one["importance"]) for one in found["stacks"]])).max() > 0
    again = wordpipe.attention(models / name, *source, data=data, importance=True, sample=600)
    assert again["stacks"] == found["stacks"]


def test_the_rise_is_the_difference_to_a_model_without_the_head(models, built, tmp_path):
    from safetensors.torch import load_file, save_file

    found = wordpipe.attention(models / "encoder", "bees", data=built / "corpus", importance=True, sample=600)
    folder = tmp_path / "cut"
    shutil.copytree(models / "encoder", folder)
    (folder / "manifest.json").unlink()
    for file in folder.glob("*.parquet"):
        file.unlink()
    for name in ("training.json", "optimiser.safetensors", "COMPLETE"):
        (folder / name).unlink(missing_ok=True)
    weights = load_file(folder / "model.safetensors")
    name = next(one for one in weights if "layers.1" in one and one.endswith("attn.Wo.weight"))
    weights[name][:, 16:] = 0  # the second head of 16 numbers
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    without = doctor(folder, data=built / "corpus", sample=600)
    rise = without["metrics"]["loss"] - found["loss"]["before"]
    assert found["stacks"][0]["importance"][1][1] == pytest.approx(rise, abs=1e-5)


@pytest.mark.parametrize("name", ["encoder", "decoder", "denoiser", "seq2seq", "classifier", "tagger", "reader"])
def test_doctor_examines_a_model_by_what_it_was_made_of(models, name):
    found = doctor(models / name, sample=600)
    layers = {(one["stack"], one["layer"]) for one in found["layers"]}
    stacks = ("encoder", "decoder") if name in ("denoiser", "seq2seq") else (found["architecture"],)
    assert layers == {(stack, layer) for stack in stacks for layer in range(2)}
    assert all(0 <= one["dead_units"] <= 1 for one in found["layers"])
    assert found["metrics"]["loss"] > 0
    assert Path(found["data"]).is_dir()  # what it was made of, by its path
    assert found["start"] == ("fresh" if name not in ("classifier", "tagger", "reader") else str(models / "encoder"))
    assert all(0 < one["moved"] < 0.5 for one in found["layers"]), [one["moved"] for one in found["layers"]]
    assert {one["state"] for one in found["findings"]} <= {"healthy", "weak", "sick", "unknown"}


def test_the_loss_is_that_of_evaluate_model(models, built):
    """Of all of the held-out text: the same sequences and the same masks."""
    want = wordpipe.evaluate_model(models / "decoder", built / "corpus", split="valid")["metrics"]["loss"]
    found = doctor(models / "decoder", data=built / "corpus", sample=100_000)
    assert found["metrics"]["loss"] == pytest.approx(want, rel=0.01)
    assert found["split"] == "valid"


def test_a_model_that_has_learned_nothing_is_sick_and_mended_by_steps(models):
    found = {one["name"]: one for one in doctor(models / "encoder", sample=3000)["findings"]}
    assert found["loss"]["state"] == "sick"
    assert "more --steps" in found["loss"]["mend"]
    assert found["weights"]["state"] == "sick"


def test_dead_units_are_counted(models, tmp_path):
    from wordpipe.stages import inspected_models
    from wordpipe.stages.evaluate import held_out, model_doctor

    opened = inspected_models.inspect_model(models / "encoder")
    with torch.no_grad():
        opened.model.blocks[0].feedforward.up.weight[:16] = 0  # a quarter of the gated half
    with held_out.held_out(opened, None, 300, RunOptions()) as text:
        shares = model_doctor._dead_units(opened, text, RunOptions())
    assert shares["encoder", 0] == pytest.approx(0.25)
    assert shares["encoder", 1] < 0.1


def test_what_is_cut_and_what_flatters_is_said(models, tmp_path):
    said = Said()
    found = wordpipe.attention(models / "encoder", "bees " * 200, run=RunOptions(report=said))
    assert found["cut"] > 0
    assert len(found["tokens"]["text"]["ids"]) == 64
    assert found["tokens"]["text"]["shown"][-1] == "[SEP]"
    assert any("left out" in note for note in said)
    said.clear()
    (tmp_path / "one.txt").write_text("Bees fly home. They sleep there.", encoding="utf-8")
    doctor(models / "encoder", data=tmp_path / "one.txt", sample=128, run=RunOptions(report=said))
    assert any("no held-out part" in note for note in said)


def test_a_text_that_is_gone_is_asked_for(models, tmp_path):
    moved = tmp_path / "elsewhere" / "model"
    shutil.copytree(models / "encoder", moved)
    with pytest.raises(InputError, match="training text of the model was not found") as caught:
        doctor(moved, sample=200)
    assert "--data" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"text": " "}, InputError, "blank"),
        ({"text": "a", "second": ""}, InputError, "blank"),
        ({"text": "a", "importance": True}, ConfigError, "needs a text"),
        ({"text": "a", "output": "."}, ConfigError, "a page must be written to a file"),
        ({"text": "a", "output": "notes.txt"}, ConfigError, "not an HTML page"),
    ],
)
def test_what_cannot_be_shown_is_refused_and_nothing_is_written(models, tmp_path, monkeypatch, given, kind, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("my own notes of bees", encoding="utf-8")
    with pytest.raises(kind, match=says):
        wordpipe.attention(models / "encoder", **given)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_encoders_of_texts_are_looked_into_and_their_loss_is_not_measured(models, built, tmp_path):
    few = {"steps": 1, "false_negatives": "keep", "threads": 1, "batch_size": 8}
    wordpipe.train_static(built / "tokens", output=tmp_path / "static", **few)
    with pytest.raises(ArtifactError, match="no attention"):
        wordpipe.attention(tmp_path / "static", TEXT)
    wordpipe.train_contrastive(built / "tokens", output=tmp_path / "encoder", init=models / "encoder", **few)
    assert wordpipe.attention(tmp_path / "encoder", TEXT)["stacks"][0]["name"] == "encoder"
    with pytest.raises(ArtifactError, match="single texts have no loss") as caught:
        doctor(tmp_path / "encoder")
    assert "wordpipe doctor SENTENCES" in str(caught.value.hint)


def test_data_for_vectors_is_refused(built):
    with pytest.raises(ConfigError, match="with a model only"):
        doctor(built / "sentences", data=built / "corpus")


def test_labels_that_the_head_does_not_know_are_counted(models, tmp_path):
    rows = [{"text": f"it is red {n}", "label": "red" if n % 2 else "mauve"} for n in range(20)]
    wordpipe.ingest(rows, output=tmp_path / "rows", label_field="label")
    found = doctor(models / "classifier", data=tmp_path / "rows", sample=600)
    assert (found["counts"]["targets"], found["counts"]["left_out"]) == (10, 10)


@pytest.mark.landing
def test_the_commands_say_what_they_found(models, built, tmp_path, cli):
    page = tmp_path / "page.html"
    done = cli(
        "attention",
        models / "encoder",
        "bees fly",
        "-o",
        page,
        "--data",
        built / "corpus",
        "--importance",
        "--sample",
        300,
    )
    assert done.code == 0, done.err
    assert "most important heads (layer.head, rise of the loss without the head)" in done.err
    assert "4 tokens of text →" in done.err or "tokens of text →" in done.err
    done = cli("attention", models / "encoder", "bees fly", "--json")
    assert json.loads(done.out)["architecture"] == "encoder"
    done = cli("attention", models / "encoder", "bees fly")
    assert done.code == 2
    assert "-o page.html" in done.err
    done = cli("doctor", models / "encoder", "--sample", 300)
    assert done.code == 0, done.err
    assert "dead units" in done.out
    assert "fix: " in done.out
    done = cli("doctor", models / "classifier", "--json")
    assert json.loads(done.out)["task"] == "classifier"
