"""`train mlm` and `train clm`: what they start from, how they are extended, what they say, and several processes."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import wordpipe
from tests.conftest import TINY
from tests.support.results import Said
from wordpipe import RunOptions
from wordpipe.errors import ArtifactError, BudgetError, ConfigError, InputError
from wordpipe.training.settings import SHAPE

SMALL = TINY | {"threads": 1, "dtype": "float32", "report_every": 1, "batch_size": 4, "optimiser": "muon"}


def trained(built, output, objective="mlm", **settings):
    said = Said()
    train = wordpipe.train_mlm if objective == "mlm" else wordpipe.train_clm
    values = {name: value for name, value in SMALL.items() if "init" not in settings or name not in SHAPE}
    made = train(built / "tokens", output=output, run=RunOptions(report=said), **values | settings)
    return made, said


def weights(folder):
    return load_file(folder / "model.safetensors")


def same_weights(a, b):
    one, other = weights(a), weights(b)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def finished(built, tmp_path_factory):
    """A short training that kept its state."""
    folder = tmp_path_factory.mktemp("finished") / "model"
    trained(built, folder, steps=4, schedule="constant", warmup=2)
    return folder


def test_it_says_what_it_does(built, tmp_path):
    made, said = trained(built, tmp_path / "model", steps=3)
    assert "encoder of 1 layers, width 32" in said.about("encoder of")
    assert "in float32" in said.about("encoder of")
    assert said.about("a model that knows only the").endswith(
        f"{json.loads(facts(tmp_path / 'model'))['unigram_entropy']:.3f}"
    )
    assert said[-1].startswith(f"loss {made_losses(tmp_path / 'model')[0]:.3g} ")
    assert made.counts["steps"] == 3
    assert {"optimiser.safetensors", "training.json"} <= {file.name for file in (tmp_path / "model").iterdir()}


def facts(folder):
    return json.dumps(json.loads((folder / "manifest.json").read_text())["facts"])


def made_losses(folder):
    return [row["loss"] for row in pq.read_table(folder / "steps.parquet").to_pylist() if row["split"] == "train"]


def test_the_state_is_kept_only_if_wanted(built, tmp_path):
    trained(built, tmp_path / "model", steps=1, keep_state=False)
    assert not {"optimiser.safetensors", "training.json"} & {file.name for file in (tmp_path / "model").iterdir()}
    with pytest.raises(ArtifactError, match="no saved training state") as caught:
        trained(built, tmp_path / "longer", steps=2, extend=tmp_path / "model", keep_state=False)
    assert "--init" in str(caught.value.hint)


def test_times_do_not_change_the_digest(built, finished, tmp_path):
    again, _ = trained(built, tmp_path / "again", steps=4, schedule="constant", warmup=2)
    assert again.digest == json.loads((finished / "manifest.json").read_text())["digest"]


def test_an_extended_training_is_the_longer_one(built, finished, tmp_path):
    """With a schedule that does not know its end; the log goes on too."""
    made, said = trained(built, tmp_path / "longer", steps=8, schedule="constant", warmup=2, extend=finished)
    trained(built, tmp_path / "straight", steps=8, schedule="constant", warmup=2)
    assert same_weights(tmp_path / "longer", tmp_path / "straight")
    assert made_losses(tmp_path / "longer") == made_losses(tmp_path / "straight")
    assert said.about("training continues after").endswith(
        "the earlier steps used the learning rates of the longer training, so the result equals one long training"
    )
    assert made.counts["steps"] == 8


def test_an_extended_training_says_what_became_of_its_learning_rate(built, tmp_path):
    trained(built, tmp_path / "short", steps=4)
    _, said = trained(built, tmp_path / "longer", steps=8, extend=tmp_path / "short")
    note = said.about("training continues after")
    assert "learning rate changes from" in note
    assert "had another schedule" in note


def test_an_extension_says_which_rates_nobody_gave_again(built, finished, tmp_path):
    _, said = trained(built, tmp_path / "model", steps=8, extend=finished, keep_state=False)
    assert "--warmup 2.0 --schedule constant" in said.about("follows the default settings")


def test_an_extension_keeps_the_length_of_its_sequences(built, finished, tmp_path):
    """Also where the model could read longer ones."""
    settings = {name: value for name, value in SMALL.items() if name not in (*SHAPE, "seq_len")} | {"preset": "tiny"}
    run = RunOptions()
    trained(built, tmp_path / "long", steps=1, seq_len=256)
    short = wordpipe.train_mlm(
        built / "tokens", output=tmp_path / "short", run=run, init=tmp_path / "long", steps=1, **settings
    )
    longer = wordpipe.train_mlm(
        built / "tokens", output=tmp_path / "longer", run=run, extend=tmp_path / "short", steps=2, **settings
    )
    assert short.counts["sequences"] == longer.counts["sequences"]
    assert json.loads(facts(tmp_path / "longer"))["extended_from"] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 4}, r"already trained for this number of steps.*4"),
        ({"steps": 8, "seed": 2}, r"settings as the finished training.*seed 1 → 2.*--seed 1"),
        ({"steps": 8, "mask_rate": 0.2}, r"mask_rate 0\.3 → 0\.2"),
    ],
)
def test_what_cannot_be_extended_is_said(built, finished, tmp_path, changes, message):
    with pytest.raises((ConfigError, ArtifactError)) as caught:
        trained(built, tmp_path / "model", **{"schedule": "constant", "warmup": 2, "extend": finished} | changes)
    text = f"{caught.value.message} {caught.value.hint}"
    assert re.search(message, text), text
    assert not (tmp_path / "model").exists()


def test_other_tokens_are_not_extended(built, finished, handbook, tmp_path):
    wordpipe.tokenize(handbook, output=tmp_path / "tokens", vocab_size=300)
    with pytest.raises(ArtifactError, match="a different tokens artifact"):
        wordpipe.train_mlm(tmp_path / "tokens", output=tmp_path / "model", extend=finished, **SMALL | {"steps": 8})


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_training_starts_from_a_models_weights(built, finished, tmp_path, as_folder):
    given = finished
    if as_folder:  # as any other program would have it
        given = tmp_path / "public"
        given.mkdir()
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(finished / name, given / name)
    made, _ = trained(built, tmp_path / "model", steps=1, lr=1e-12, init=given, dropout=0.1)
    for name, weight in weights(tmp_path / "model").items():
        torch.testing.assert_close(weight, weights(finished)[name], atol=1e-9, rtol=0)
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert [entry["kind"] for entry in manifest["inputs"]] == ["tokens", "file" if as_folder else "model"]
    assert made.counts["steps"] == 1


def test_a_folder_need_not_name_its_special_tokens(built, finished, tmp_path):
    """Public ones often do not; what the sequences were framed with stands in the new folder."""
    public = tmp_path / "public"
    public.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(finished / name, public / name)
    config = json.loads((public / "config.json").read_text())
    for role in ("cls", "sep", "mask", "bos", "eos"):
        config[f"{role}_token_id"] = None
    (public / "config.json").write_text(json.dumps(config))
    trained(built, tmp_path / "model", steps=1, init=public)
    assert wordpipe.open_model(tmp_path / "model").before == wordpipe.open_model(finished).before != ()
    assert wordpipe.fill(tmp_path / "model", "the [MASK] of the sea")


def test_a_decoder_whose_documents_are_parted_by_one_token(handbook, tmp_path):
    """GPT-2's tokenizer has nothing but <|endoftext|>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(handbook.read_text().splitlines(), trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    wordpipe.tokenize(handbook, output=tmp_path / "tokens", tokenizer=tmp_path / "tokenizer.json")
    wordpipe.train_clm(tmp_path / "tokens", output=tmp_path / "model", steps=2, style="classic", **SMALL)
    opened = wordpipe.open_model(tmp_path / "model")
    assert opened.special["eos"] == opened.special["bos"] == 0
    assert wordpipe.generate(tmp_path / "model", "The sea", max_tokens=3)


def test_shorter_sequences_leave_the_models_length(built, finished, tmp_path):
    trained(built, tmp_path / "model", steps=1, init=finished, seq_len=16)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (
        config["max_position_embeddings"]
        == json.loads((finished / "config.json").read_text())["max_position_embeddings"]
    )


def test_a_table_of_positions_does_not_grow(built, tmp_path):
    trained(built, tmp_path / "model", steps=1, style="classic", seq_len=16)
    with pytest.raises(ConfigError, match=r"learned position.*32.*16"):
        wordpipe.train_mlm(
            built / "tokens", output=tmp_path / "longer", init=tmp_path / "model", steps=1, preset="tiny", seq_len=32
        )


def test_a_model_of_another_kind_is_no_start(built, finished, tmp_path):
    with pytest.raises(ArtifactError, match="this kind of model") as caught:
        wordpipe.train_clm(built / "tokens", output=tmp_path / "model", init=finished, steps=1)
    assert "train mlm" in str(caught.value.hint)


def test_a_model_with_another_tokenizer_is_no_start(built, finished, handbook, tmp_path):
    wordpipe.tokenize(handbook, output=tmp_path / "tokens", vocab_size=300)
    with pytest.raises(ArtifactError, match="different tokenizers") as caught:
        wordpipe.train_mlm(tmp_path / "tokens", output=tmp_path / "model", init=finished, steps=1)
    assert "--tokenizer" in str(caught.value.hint)


def test_nothing_to_start_from(built, tmp_path):
    with pytest.raises((InputError, ArtifactError)):
        trained(built, tmp_path / "model", steps=1, init=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises((InputError, ArtifactError)):
        trained(built, tmp_path / "model", steps=1, init=tmp_path / "empty")


def test_the_shape_of_a_given_model_is_not_chosen():
    with pytest.raises(ConfigError, match=r"dim, n_layers cannot be set together with init"):
        wordpipe.train_mlm("tokens", output="model", init="model", dim=64, n_layers=2)


def test_a_model_without_a_class_says_so(built, tmp_path):
    _, said = trained(built, tmp_path / "model", steps=1, positions="alibi")
    assert "only wordpipe can load the folder" in said.about("transformers has no class")
    wordpipe.embed(tmp_path / "model", built / "corpus", output=tmp_path / "sentences", unit="document")


@pytest.mark.parametrize("unit", ["word", "span"])
def test_words_and_spans_are_hidden(built, tmp_path, unit):
    made, _ = trained(built, tmp_path / "model", steps=2, mask_unit=unit, mask_rate_end=0.15)
    assert made.metrics["loss"] > 0


def test_a_pipeline_knows_when_the_model_it_starts_from_has_changed(built, finished, tmp_path):
    start = tmp_path / "start"
    start.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(finished / name, start / name)
    settings = "\n".join(
        f"{name} = {json.dumps(value)}" for name, value in SMALL.items() if name not in ("steps", *SHAPE)
    )
    (tmp_path / "wordpipe.toml").write_text(
        f'workdir = "run"\n[stage.model]\ncommand = "train mlm"\ninputs = ["{built / "tokens"}"]\n'
        f'init = "start"\nsteps = 1\n{settings}\n'
    )
    pipeline = wordpipe.Pipeline(tmp_path / "wordpipe.toml")
    for _ in pipeline.run(RunOptions()):
        pass
    assert [state.fresh for state in pipeline.states()] == [True]
    shutil.copy(finished / "model.safetensors", tmp_path / "other.safetensors")
    changed = weights(finished)
    changed["model.final_norm.weight"] += 1
    from safetensors.torch import save_file

    save_file(changed, start / "model.safetensors", metadata={"format": "pt"})
    [state] = pipeline.states()
    assert not state.fresh
    assert "init" in state.reasons[0]


@pytest.mark.slow
def test_two_processes_make_the_model_of_one(built, tmp_path):
    """The command itself, as torchrun would start it."""
    values = SMALL | {"steps": 5}
    (tmp_path / "small.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
    command = [
        sys.executable,
        "-m",
        "wordpipe",
        "train",
        "mlm",
        str(built / "tokens"),
        "--config",
        str(tmp_path / "small.toml"),
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    both = [
        subprocess.Popen(
            [*command, "-o", str(tmp_path / "two")],
            env={**os.environ, **world, "RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    said = [process.communicate(timeout=200)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert "2 processes" in said[0]
    assert said[1] == ""
    trained(built, tmp_path / "one", steps=5)
    for name, weight in weights(tmp_path / "two").items():
        # sums in another order, five steps long: 1.1e-4 at one of 2,048 numbers has been seen
        torch.testing.assert_close(weight, weights(tmp_path / "one")[name], atol=3e-4, rtol=1e-3)


def test_a_model_that_no_machine_holds_is_refused_at_once(built, tmp_path):
    with pytest.raises(BudgetError, match=r"weights needs more memory.*GB") as caught:
        wordpipe.train_mlm(built / "tokens", output=tmp_path / "model", dim=16_384, n_layers=256, steps=1)
    assert "--dim" in str(caught.value.hint)


def test_what_the_text_does_not_give_is_said(tmp_path):
    (tmp_path / "short.txt").write_text("The bees fly home in the evening. " * 9)
    wordpipe.tokenize(tmp_path / "short.txt", output=tmp_path / "tokens", vocab_size=300)
    said = Said()
    wordpipe.train_mlm(
        tmp_path / "tokens", output=tmp_path / "model", run=RunOptions(report=said),
        **SMALL | {"steps": 2, "seq_len": 512, "warmup": 5},
    )  # fmt: skip
    assert "too short for sequences of 512" in said.about("too short")
    assert "more than once" in said.about("the batch size 4")
    assert "never falls" in said.about("the warm-up of 2")


@pytest.mark.landing
def test_transformers_sees_a_mask_as_training_showed_it(finished):
    """In training the space before a hidden word is hidden with it: none may be left over."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(finished)
    found = tokenizer.convert_ids_to_tokens(tokenizer("the bees fly to the [MASK].")["input_ids"])
    mask = found.index("[MASK]")
    assert found[mask - 1].endswith("the")
    assert found[mask + 1] == "."


def test_a_model_is_trained_on_by_another_order_than_its_own(built, finished, tmp_path):
    """Else the first losses would be those of text and masks that it knows by heart."""
    settings = {"steps": 1, "init": finished, "lr": 1e-9}
    trained(built, tmp_path / "model", **settings)
    first = made_losses(tmp_path / "model")[0]
    trained(built, tmp_path / "again", **settings)
    assert made_losses(tmp_path / "again") == [first]
    trained(built, tmp_path / "other", **settings | {"seed": 2})
    assert made_losses(tmp_path / "other") != [first]
