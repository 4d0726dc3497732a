"""A stopped training is named by all that meet it, and `finish` makes an artifact of it; minutes are kept."""

import json
import os
import re
import shutil
import signal

import pytest

import wordpipe
from wordpipe import pace
from wordpipe.artifacts import Artifact, Checkpoints, manifest_at, stopped_runs
from wordpipe.errors import ArtifactError, LockedError
from wordpipe.runtime import Stopped, quiet

TINY = {
    "preset": "tiny",
    "dim": 16,
    "n_layers": 1,
    "n_heads": 2,
    "ffn_dim": 32,
    "seq_len": 16,
    "batch_size": 4,
    "threads": 1,
}
SLOW = pytest.mark.slow


def stop(train, source, output, *, after=3, **settings):
    """Train, and press Ctrl-C after so many steps (or epochs)."""

    with pytest.raises(Stopped):
        train(source, output=output, run=wordpipe.RunOptions(report=pressing(after)), **settings)


def pressing(after):
    """Ctrl-C once, when so much is done: the second one would end the tests."""
    pressed = []

    def report(progress):
        if progress.phase == "training" and progress.done >= after and not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    return report


@pytest.fixture
def stopped(chain):
    """A training of a model that was stopped after 3 of 12 steps."""
    stop(wordpipe.train_mlm, chain / "tokens", chain / "half", steps=12, device="cpu", **TINY)
    return chain / "half"


def ending_of(path):
    return manifest_at(path).facts["finished_early"]


@pytest.mark.landing
def test_a_stopped_model_is_finished_and_can_go_on(stopped, cli):
    error = cli("show", stopped, "--json")
    assert json.loads(error.out)["stopped"] | {"seconds": 0} == {
        "output": str(stopped), "command": "train mlm", "at": 3, "of": 12, "stands_at": "step 3 of 12",
        "folder": str(stopped.with_name(".half.partial")), "loss": None, "valid_loss": None, "tokens": 0, "seconds": 0,
    } | {name: json.loads(error.out)["stopped"][name] for name in ("loss", "valid_loss", "tokens")}  # fmt: skip
    found = cli("finish", stopped)
    assert found.code == 0, found.err
    assert "ending a stopped run after step 3 of 12" in found.err
    assert "it starts from the checkpoint" in found.err
    assert ending_of(stopped) == {"at": 3, "of": 12, "cool_down": 0, "unit": "step"}
    manifest = manifest_at(stopped)
    assert manifest.counts["steps"] == 3
    assert manifest.warnings == ["finished early at step 3 of 12, without further training"]
    assert not manifest.bitwise
    Artifact(stopped).close()
    assert "finished early at step 3 of 12" in cli("show", stopped).out
    assert wordpipe.fill(stopped, "the [MASK] sea")
    cooled = wordpipe.finish(stopped, cool_down=True)
    assert ending_of(stopped) == {"at": 3, "of": 12, "cool_down": 1, "unit": "step"}
    assert cooled.counts["steps"] == 4
    whole = wordpipe.train_mlm(stopped.parent / "tokens", output=stopped, steps=12, device="cpu", **TINY)
    want = wordpipe.train_mlm(stopped.parent / "tokens", output=stopped.parent / "w", steps=12, device="cpu", **TINY)
    assert (whole.digest, whole.recipe) == (want.digest, cooled.recipe)
    assert "finished_early" not in manifest_at(stopped).facts
    assert not stopped.with_name(".half.partial").exists()
    with pytest.raises(ArtifactError, match="there is no stopped training here, because the training is finished"):
        wordpipe.finish(stopped)


def test_every_command_names_a_stopped_run(stopped, cli, monkeypatch):
    monkeypatch.chdir(stopped.parent)
    partial = ".half.partial"
    newest = stopped_runs(stopped)[0]
    assert (newest.step, newest.steps, newest.command, str(newest.output)) == (3, 12, "train mlm", str(stopped))
    for args in (
        ("generate", "half", "the"), ("fill", "half", "the [MASK]"), ("predict", "half", "a text"), ("verify", "half"),
        ("embed", "half", "corpus", "-o", "vectors"), ("evaluate", "model", "half", "--data", "corpus"),
        ("train", "mlm", "tokens", "--init", "half", "-o", "more"), ("fill", f"{partial}/step-00000003", "the [MASK]"),
        ("train", "mlm", "tokens", "--init", f"{partial}/step-00000003", "-o", "more"), ("verify", partial),
        ("export", "half", "--to", "numpy", "-o", "out"),
    ):  # fmt: skip
        found = cli(*args)
        assert found.code == 4, (args, found.err)
        assert (
            "half: this is not an artifact yet, because its training was stopped at step 3 of 12, or is still running"
            in found.err
        ), args
        assert re.search(r"to make a model from the last checkpoint: wordpipe finish \S*half\n", found.err), args
    assert "progress" in cli("show", "half").out
    assert [run["steps"] for run in wordpipe.plot(partial)["runs"]] == [
        run["steps"] for run in wordpipe.plot("half")["runs"]
    ]
    with pytest.raises(ArtifactError, match="stopped at step 3 of 12"):
        wordpipe.open("half")


def test_what_cannot_be_finished_says_why(stopped, tmp_path, monkeypatch):
    run = stopped.parent
    with pytest.raises(ArtifactError, match=r"there is no stopped training here\n.*a minute"):
        wordpipe.finish(run / "none")
    # it goes on
    from wordpipe.artifacts import OutputLock

    with OutputLock(stopped), pytest.raises(LockedError, match="another run is writing this output"):
        wordpipe.finish(stopped)
    # its inputs have changed
    shutil.copytree(run / "tokens", tmp_path / "tokens")
    wordpipe.tokenize(run / "corpus", output=run / "tokens", vocab_size=600)
    with pytest.raises(ArtifactError, match="of the stopped run have changed since"):
        wordpipe.finish(stopped)
    shutil.rmtree(run / "tokens")
    shutil.copytree(tmp_path / "tokens", run / "tokens")
    # one file of the newest checkpoint is damaged: there is no other
    partial = stopped.with_name(".half.partial")
    weights = partial / "step-00000003" / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ArtifactError, match="no checkpoint of the stopped run can be used"):
        wordpipe.finish(stopped)
    weights.write_bytes(data)
    # what it says of itself is damaged, or of a version that said nothing
    pointer = json.loads((partial / "LATEST.json").read_bytes())
    for about, expected in (
        ({}, "does not contain the training command"), ({"command": "train mlm"}, "is damaged"),
        ({**pointer["about"], "arguments": [None]}, "memory of a program"),
        ({**pointer["about"], "arguments": []}, "another version"),
        ({**pointer["about"], "arguments": [7]}, "is damaged"), ({**pointer["about"], "command": "ingest"},
         "does not contain the training command"),
    ):  # fmt: skip
        (partial / "LATEST.json").write_text(json.dumps({**pointer, "about": about}))
        with pytest.raises(ArtifactError, match=expected):
            wordpipe.finish(stopped)
    # two stopped runs: the one is to be named
    (partial / "LATEST.json").write_text(json.dumps(pointer))
    stop(wordpipe.train_mlm, run / "tokens", stopped, steps=9, device="cpu", **TINY)
    with pytest.raises(ArtifactError, match="this artifact has several stopped trainings"):
        wordpipe.finish(stopped)
    monkeypatch.chdir(tmp_path)  # paths are seen from wherever one stands
    made = wordpipe.finish(partial)
    assert ending_of(made) == {"at": 3, "of": 12, "cool_down": 0, "unit": "step"}
    assert made.path == str(stopped)


def test_a_folder_that_was_moved_is_finished_too(stopped, tmp_path):
    shutil.copytree(stopped.parent, tmp_path / "elsewhere")
    made = wordpipe.finish(tmp_path / "elsewhere" / "half")
    assert ending_of(made)["at"] == 3


@pytest.mark.parametrize("cool_down", [False, pytest.param(True, marks=SLOW)])
def test_word_vectors_are_finished(chain, cli, cool_down):
    settings = {"dim": 8, "epochs": 2000, "threads": 1, "min_count": 2}
    stop(wordpipe.train_word2vec, chain / "tokens", chain / "half", after=1, **settings)
    made = wordpipe.finish(chain / "half", cool_down=cool_down)
    found = ending_of(made)
    assert (found["cool_down"] > 0) == cool_down
    assert found["at"] < found["of"]
    assert made.metrics["loss"] > 0
    assert f"finished early at word {found['at']:,} of {found['of']:,}" in cli("show", made.path).out
    with wordpipe.open(made) as words:
        assert len(words["water"]) == 8


CASES = {
    "clm": (wordpipe.train_clm, "tokens", TINY | {"steps": 9, "device": "cpu"}),
    "electra": (wordpipe.train_electra, "tokens", TINY | {"steps": 9, "device": "cpu"}),
    "denoising": (wordpipe.train_denoising, "tokens", TINY | {"steps": 9, "device": "cpu", "style": "t5"}),
    "permutation": (wordpipe.train_permutation, "tokens", TINY | {"steps": 9, "device": "cpu"}),
    "static": (wordpipe.train_static, "tokens", {"words": "words", "steps": 9, "threads": 1}),
    "transformer": (
        wordpipe.train_contrastive, "tokens",
        {"init": "model", "steps": 9, "batch_size": 8, "threads": 1, "device": "cpu"},
    ),
    "classifier": (wordpipe.train_classifier, "labelled", {"init": "words", "epochs": 30, "batch_size": 8, "seeds": 2}),
    "tagger": (wordpipe.train_tagger, "labelled", {"init": "words", "epochs": 30, "batch_size": 8, "seeds": 2}),
    "reader": (wordpipe.train_reader, "asked", {"init": "model", "epochs": 9, "batch_size": 8, "device": "cpu"}),
    "seq2seq": (wordpipe.train_seq2seq, "pair-tokens", TINY | {"steps": 9, "device": "cpu"}),
    "head": (wordpipe.train_classifier, "labelled", {"init": "model", "epochs": 9, "batch_size": 8, "device": "cpu"}),
}  # fmt: skip


NAMES = [pytest.param(name, marks=() if name in ("static", "classifier") else SLOW) for name in CASES]


LABELLED = [
    {"text": f"{i} is {colour}", "label": colour, "tags": ["O", "O", "B-colour" if colour == "red" else "O"]}
    for i in range(20) for colour in ("red", "blue")
]  # fmt: skip


def prepared(chain, name):
    """The training, its source, and its settings with paths."""
    train, source, settings = CASES[name]
    if source == "labelled":
        wordpipe.ingest(LABELLED, output=chain / "labelled", label_field="label", tags_field="tags")
    elif source == "asked":
        rows = [
            {"text": f"{i}: {one} is here.", "q": "Who?", "a": [[len(f"{i}: "), len(f"{i}: {one}"), None]]}
            for i, one in enumerate(["Ada", "Ben", "Eve"] * 20)
        ]
        wordpipe.ingest(rows, output=chain / "asked", text_b="q", spans_field="a")
    elif source == "pair-tokens":
        rows = [{"text": f"{i} one two", "text_b": f"two one {i}"} for i in range(60)]
        wordpipe.ingest(rows, output=chain / "pairs", text_b="text_b")
        wordpipe.tokenize(chain / "pairs", output=chain / "pair-tokens", vocab_size=300)
    named = {key: chain / value if key in ("words", "init") else value for key, value in settings.items()}
    return train, chain / source, named


@pytest.mark.parametrize("name", NAMES)
def test_every_training_is_finished(chain, name):
    train, source, settings = prepared(chain, name)
    stop(train, source, chain / "half", **settings)
    made = wordpipe.finish(chain / "half", cool_down=True)
    found = ending_of(made)
    assert found["at"] < found["of"]
    assert found["cool_down"] >= 1
    Artifact(chain / "half").close()


def test_of_several_seeds_those_that_were_begun_are_finished(chain):
    """The best may be whole, and yet not all were made; two stopped runs in one folder are told from each other."""
    train, source, settings = prepared(chain, "classifier")
    settings |= {"epochs": 2, "threads": 1}
    seen = []

    def in_the_second(progress):
        seen.append(progress.note or "")
        if progress.phase == "training" and progress.done == 2 and any("model 2 of 2" in note for note in seen):
            seen.clear()
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped):
        train(source, output=chain / "half", run=wordpipe.RunOptions(report=in_the_second), **settings)
    (run,) = stopped_runs(chain / "half")
    assert run.state.name == "seed-2"
    made = wordpipe.finish(chain / "half")
    found = ending_of(made)
    assert 2 <= found["at"] < found["of"]
    assert (chain / ".half.partial" / "seed-2").exists()
    shutil.rmtree(chain / ".half.partial" / "seed-2")  # as if it had been stopped before
    made = wordpipe.finish(chain / "half")
    whole = ending_of(made)["of"]
    assert 2 * ending_of(made)["at"] == whole
    assert any("no usable checkpoint for seed 2" in text for text in made.warnings)
    stop(train, source, chain / "half", **settings | {"epochs": 30})
    first, second = stopped_runs(chain / "half")
    assert (first.state.name, second.state.name[:7]) == ("seed-1", "seed-1-")
    with pytest.raises(ArtifactError, match=r"this artifact has several stopped trainings.*seed-1-"):
        wordpipe.finish(chain / "half")
    assert ending_of(wordpipe.finish(second.state))["of"] > whole


def test_a_run_that_has_reported_nothing_is_shown(tmp_path, cli):
    about = {"command": "train mlm", "steps": 9}
    Checkpoints(tmp_path / ".half.partial", "key", about).save(1, [("log.json", [b'{"history": []}'])])
    assert "step 1 of 9" in cli("show", tmp_path / "half").out
    assert "no checkpoint with a loss yet" in cli("plot", tmp_path / "half").err


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves on a little whenever somebody asks for the time."""
    seconds = [0.0]

    def now():
        seconds[0] += 0.01
        return seconds[0]

    monkeypatch.setattr(pace, "now", now)
    monkeypatch.setattr("wordpipe.stages.job.now", now)
    return seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_training_keeps_its_time(chain, clock, name):
    train, source, settings = prepared(chain, name)
    settings.pop("steps", None)
    made = train(source, output=chain / "timed", minutes=0.05, **settings)
    manifest = manifest_at(made)
    within = manifest.facts["within"]
    assert within["minutes"] == 0.05
    assert manifest.settings["minutes"] == 0.05
    assert clock[0] <= 3.5
    assert made.counts["steps"] >= 1
    if "epochs" not in settings:
        assert within["made"] == made.counts["steps"]
        assert not manifest.bitwise


@pytest.mark.landing
@pytest.mark.parametrize("backend", ["native", pytest.param("gensim", marks=SLOW)])
def test_word_vectors_keep_their_time(chain, clock, backend, monkeypatch):
    monkeypatch.setattr("wordpipe.words.training._SHOW_SECONDS", 0.0)
    monkeypatch.setattr("wordpipe.stages.train.word2vec._STRETCH", 500)
    settings = {"dim": 8, "threads": 1, "backend": backend, "min_count": 2}
    made = wordpipe.train_word2vec(chain / "tokens", output=chain / "timed", minutes=0.1, epochs=2000, **settings)
    within = manifest_at(made).facts["within"]
    assert within["made"] < within["planned"] * 1.5 < 2000 * made.counts["words_kept"]
    assert clock[0] < 6.5
    few = wordpipe.train_word2vec(chain / "tokens", output=chain / "few", minutes=600, epochs=2, **settings)
    plain = wordpipe.train_word2vec(chain / "tokens", output=chain / "plain", epochs=2, **settings)
    if backend == "native":
        assert few.digest == plain.digest
        assert manifest_at(few).bitwise
    assert few.recipe != plain.recipe


def test_a_pipeline_says_what_was_finished_early(chain, cli, monkeypatch):
    monkeypatch.chdir(chain.parent)
    (chain.parent / "wordpipe.toml").write_text(
        'workdir = "run"\n[stage.half]\ncommand = "train mlm"\ninputs = ["run/tokens"]\n'
        'minutes = 600\nsteps = 12\ndevice = "cpu"\n'
        + "".join(f"{name} = {json.dumps(value)}\n" for name, value in TINY.items())
    )

    with pytest.raises(Stopped):
        wordpipe.run("wordpipe.toml", run=wordpipe.RunOptions(report=pressing(3)))
    assert wordpipe.status("wordpipe.toml")[0].reasons == ("missing",)
    wordpipe.finish(chain / "half", run=wordpipe.RunOptions(report=quiet))
    (state,) = wordpipe.status("wordpipe.toml")
    assert state.fresh
    assert state.notes == ("finished early at step 3 of 12",)
    assert "finished early at step 3 of 12" in cli("status").out
    assert "up to date, finished early at step 3 of 12" in cli("run").err
    options = wordpipe.RunOptions(report=quiet, fresh=True)
    wordpipe.report(chain, chain.parent / "page.html", config="wordpipe.toml", run=options)
    assert (chain.parent / "page.html").read_text().count(
        "finished early at step 3 of 12"
    ) == 2  # warnings and training
    wordpipe.run("wordpipe.toml", run=options)
    (state,) = wordpipe.status("wordpipe.toml")
    assert (state.fresh, state.notes) == (True, ())
    assert manifest_at(chain / "half").facts["within"]["minutes"] == 600


def test_time_that_is_too_short_says_what_is_needed(chain, clock, cli):
    found = cli("train", "mlm", chain / "tokens", "-o", chain / "none", "--minutes", "0.0001", "--preset", "tiny")
    assert found.code == 2
    assert "minutes: " in found.err
    assert "before the training could begin" in found.err
