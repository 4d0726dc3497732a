"""Pipelines: what is stale, why, and that only that is made."""

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

import wordpipe
from tests.support.configs import small_config
from wordpipe import RunOptions
from wordpipe.artifacts import FORMATS, Artifact
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.pipeline import Pipeline, pipeline_status, run_pipeline, settings_from_file

CONFIG = small_config("words", "corpus", "tokens", corpus={"valid": 0.0})


@pytest.fixture
def project(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("The tide comes in. The tide goes out. Boats wait for the tide.\n" * 3)
    (tmp_path / "p.toml").write_text(CONFIG)
    return tmp_path


def make(project, **options):
    """The names of the stages made."""
    pipeline = Pipeline(project / "p.toml")
    return [state.stage.name for state, made in pipeline.run(RunOptions(), **options) if made is not None]


def reasons(project):
    return {state.stage.name: state.reasons for state in Pipeline(project / "p.toml").states()}


def edit(project, old, new):
    text = (project / "p.toml").read_text()
    assert old in text
    (project / "p.toml").write_text(text.replace(old, new))


def test_stages_are_made_in_order_and_once(project):
    assert [state.stage.name for state in Pipeline(project / "p.toml").states()] == ["corpus", "tokens", "words"]
    assert all("missing" in why for why in reasons(project).values())
    assert make(project) == ["corpus", "tokens", "words"]
    assert set(reasons(project).values()) == {()}
    assert make(project) == []


def test_an_engine_is_for_the_stages_that_have_shards(project):
    made = {
        state.stage.name: result
        for state, result in Pipeline(project / "p.toml").run(RunOptions(workers=3))
        if result is not None
    }
    assert [*made] == ["corpus", "tokens", "words"]
    with Artifact(made["tokens"].path) as tokens:
        assert tokens.manifest.threads == 3
    for wrong in (RunOptions(address="auto"), RunOptions(engine="ray", workers=0)):
        with pytest.raises(ConfigError):
            next(Pipeline(project / "p.toml").run(wrong))


def test_a_touched_file_makes_nothing(project):
    make(project)
    (project / "texts" / "a.txt").touch()
    assert make(project) == []


def test_a_changed_setting_is_named_and_makes_what_follows(project):
    make(project)
    edit(project, "vocab_size = 400", "vocab_size = 400\nlowercase = true")
    assert reasons(project) == {
        "corpus": (),
        "tokens": ("tokens.lowercase False → True",),
        "words": ("tokens will be made",),
    }
    assert make(project) == ["tokens", "words"]


def test_a_setting_that_changes_no_result_makes_nothing(project):
    make(project)
    edit(project, 'command = "train word2vec"', 'command = "train word2vec"\nbackend = "auto"')
    assert make(project) == []


def test_a_changed_source_is_named(project):
    make(project)
    with (project / "texts" / "a.txt").open("a") as file:
        file.write("A new sentence about harbours.\n")
    assert reasons(project)["corpus"] == ("input texts changed",)
    assert make(project) == ["corpus", "tokens", "words"]


def test_the_chain_stops_where_the_bytes_came_out_the_same(project):
    make(project)
    edit(project, "valid = 0.0", "valid = 0.0\nmax_expand = 300")
    assert reasons(project)["corpus"] == ("corpus.max_expand 200 → 300",)
    assert make(project) == ["corpus"]


def test_from_and_to_choose_a_stretch(project):
    assert make(project, last="tokens") == ["corpus", "tokens"]
    assert make(project, first="words") == ["words"]
    with pytest.raises(ConfigError, match="no stage 'wrods'"):
        make(project, first="wrods")


def test_a_dry_run_makes_nothing(project, cli):
    result = cli("run", project / "p.toml", "--dry-run")
    assert result.code == 0
    assert result.out.count("stale") == 3
    assert not (project / "run").exists()


def test_status_speaks_json(project, cli):
    make(project)
    lines = [json.loads(line) for line in cli("status", project / "p.toml", "--json").out.splitlines()]
    assert [line["fresh"] for line in lines] == [True, True, True]


def test_run_says_what_it_does(project, cli):
    first, second = cli("run", project / "p.toml"), cli("run", project / "p.toml")
    assert "── tokens: missing" in first.err
    assert "3 stages made" in first.err
    assert "up to date" in second.err
    assert "nothing to do" in second.err


def test_settings_from_a_flat_file_or_a_stage(project):
    assert settings_from_file(f"{project / 'p.toml'}#tokens", "tokenize") == {"vocab_size": 400}
    assert settings_from_file(str(project / "p.toml"), "tokenize") == {"vocab_size": 400}
    (project / "flat.toml").write_text("vocab_size = 500\n")
    assert settings_from_file(str(project / "flat.toml"), "tokenize") == {"vocab_size": 500}
    with pytest.raises(ConfigError, match="must contain exactly one stage"):
        settings_from_file(str(project / "p.toml"), "embed")


def test_a_stage_that_names_another_in_a_setting_finds_it_from_anywhere(project, tmp_path_factory, monkeypatch):
    with (project / "p.toml").open("a") as file:
        file.write('[stage.again]\ncommand = "tokenize"\ninputs = ["corpus"]\ntokenizer = "tokens"\n')
    assert make(project) == ["corpus", "tokens", "words", "again"]
    assert set(reasons(project).values()) == {()}
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    found = settings_from_file(f"{project / 'p.toml'}#again", "tokenize")
    assert found == {"tokenizer": str(project / "run" / "tokens")}
    assert set(reasons(project).values()) == {()}


def test_a_renamed_source_is_stale(project):
    make(project)
    (project / "texts" / "a.txt").rename(project / "texts" / "b.txt")
    assert reasons(project)["corpus"] == ("input texts changed",)


def test_an_artifact_of_another_format_is_made_again(project, monkeypatch):
    make(project)
    monkeypatch.setitem(FORMATS, "corpus", FORMATS["corpus"] + 1)
    what = "unreadable: the artifact was made by an earlier version of wordpipe"
    assert reasons(project)["corpus"] == (what,)
    make(project)
    assert set(reasons(project).values()) == {()}


def test_what_cannot_be_read_is_said_before_anything_is_made(project):
    make(project)
    (project / "texts" / "a.txt").unlink()
    edit(project, "vocab_size = 400", 'tokenizer = "own.json"')
    with pytest.raises(ConfigError) as raised:
        Pipeline(project / "p.toml").states()
    assert "2 errors were found" in raised.value.what
    assert "[stage.corpus] texts: no text to read" in raised.value.what
    assert "[stage.tokens]: tokenizer names neither a stage nor a file; got own.json" in raised.value.what


@pytest.mark.parametrize(
    ("inputs", "kind", "words"),
    [
        ('["nothing/*.txt"]', InputError, "no file matches"),
        ('["nothing"]', InputError, "the file or folder does not exist"),
        ('["texts", "nothing"]', InputError, "the file or folder does not exist"),
        ('["corpsu"]', ConfigError, "neither a stage nor a file"),
    ],
)
def test_sources_that_are_not_there_are_refused_by_status_and_run(project, inputs, kind, words):
    edit(project, 'inputs = ["texts"]', 'inputs = ["texts"]\n[stage.other]\ncommand = "tokenize"\ninputs = ' + inputs)
    edit(project, "valid = 0.0", "vocab_size = 300")
    with pytest.raises(kind, match=words):
        Pipeline(project / "p.toml").states()
    with pytest.raises(kind, match=words):
        make(project)
    assert not (project / "run").exists()


def test_a_pipe_as_a_source_is_refused_and_not_waited_for(project):
    os.mkfifo(project / "pipe")
    edit(project, 'inputs = ["texts"]', 'inputs = ["texts", "pipe"]')
    with pytest.raises(ConfigError, match="cannot read a pipe"):
        make(project)


def test_only_the_chosen_stages_need_their_inputs(project):
    make(project)
    (project / "texts" / "a.txt").unlink()
    assert make(project, first="tokens") == []


def test_an_artifact_of_a_wrong_kind_is_refused_at_once(project, built):
    edit(project, 'inputs = ["tokens"]', f'inputs = ["tokens"]\ninit = "{built / "corpus"}"')
    with pytest.raises(ArtifactError, match="the artifact is of the wrong kind; got corpus; expected words") as raised:
        Pipeline(project / "p.toml").states()
    assert "[stage.words]" in str(raised.value)


def test_hints_name_keys_of_the_config_and_not_flags(project):
    (project / "texts" / "a.jsonl").write_text('{"body": 1}\n')
    edit(project, "valid = 0.0", 'valid = 0.0\nunreadable = "error"')
    with pytest.raises(InputError) as raised:
        make(project)
    assert (
        raised.value.hint
        == "use text_field in [stage.corpus] to give the name of the field that contains the text (p.toml)"
    )
    (project / "texts" / "a.jsonl").unlink()
    edit(project, "min_count = 1", "min_count = 1000")
    notes = []
    with pytest.raises(InputError) as raised:
        for _ in Pipeline(project / "p.toml").run(RunOptions(report=lambda progress: notes.append(progress.note))):
            pass
    assert "lower min_count in [stage.words]" in raised.value.hint
    assert any("use min_frequency = 1 in [stage.tokens] to get more tokens" in note for note in notes if note)


def test_a_reversed_stretch_is_refused(project):
    with pytest.raises(ConfigError, match="the last stage comes before the first"):
        make(project, first="words", last="corpus")


def test_from_python(project, monkeypatch):
    monkeypatch.chdir(project)
    (project / "p.toml").rename("wordpipe.toml")
    before = pipeline_status()
    assert (before[0].name, before[0].command, before[0].fresh) == ("corpus", "ingest", False)
    assert before[0].reasons == ("missing",)
    assert before[0].output == "run/corpus"
    assert before[2].estimate.seconds[0] < before[2].estimate.seconds[1]
    assert json.loads(json.dumps(before[2].to_json()))["estimate"]["basis"] in ("probed", "earlier runs")
    made = run_pipeline(last="tokens")
    assert [one.kind for one in made] == ["corpus", "tokens"]
    assert run_pipeline(last="tokens") == []
    after = pipeline_status()
    assert [one.fresh for one in after] == [True, True, False]
    assert after[0].estimate is None


def test_a_tokenizer_file_is_an_input(project):
    make(project)
    data = (project / "run" / "tokens" / "tokenizer.json").read_bytes()
    (project / "own.json").write_bytes(data)
    edit(project, "vocab_size = 400", 'tokenizer = "own.json"')
    assert make(project, last="tokens") == ["tokens"]
    assert make(project, last="tokens") == []
    (project / "own.json").write_bytes(data + b" ")
    assert make(project, last="tokens") == ["tokens"]


def test_a_dry_run_agrees_with_the_run(project, cli):
    make(project)
    edit(project, "vocab_size = 400", "vocab_size = 400\nlowercase = true")
    assert "stale  words" not in cli("run", project / "p.toml", "--dry-run", "--from", "words").out
    assert cli("run", project / "p.toml", "--dry-run", "--fresh").out.count("stale") == 3


KEPT = small_config("words", "corpus", "tokens", "sentences", words={"keep": True}, corpus={"valid": 0.0})


@pytest.fixture
def kept(project):
    """A project that has been made, with a kept stage that another one reads, and a new text since."""
    (project / "p.toml").write_text(KEPT)
    assert make(project) == ["corpus", "tokens", "words", "sentences"]
    (project / "texts" / "b.txt").write_text("The harbour has a crane. Boats wait for the tide.\n")
    return project


def test_a_kept_stage_is_not_made_again_for_its_inputs(kept, cli):
    lines = cli("status", kept / "p.toml", "--json").out.splitlines()
    status = {one["stage"]: one for one in map(json.loads, lines) if "stage" in one}
    assert [name for name, one in status.items() if one["fresh"]] == ["tokens", "words"]
    assert (status["words"]["kept"], status["words"]["reasons"]) == ([], [])  # its input stays as it is
    assert status["tokens"]["kept"] == ["corpus will be made"]  # only a kept stage reads it
    assert "kept   tokens" in cli("status", kept / "p.toml").out
    assert make(kept) == ["corpus", "sentences"]
    assert "── tokens: kept, though input corpus changed" in cli("run", kept / "p.toml").err
    assert [one.kept for one in pipeline_status(kept / "p.toml")][1:3] == [("input corpus changed",), ()]
    assert make(kept) == []


def test_settings_of_its_own_make_a_kept_stage_and_what_it_reads(kept):
    edit(kept, "dim = 8", "dim = 16")
    assert reasons(kept)["words"][-1] in ("tokens will be made", "words.dim 8 → 16")
    assert make(kept) == ["corpus", "tokens", "words", "sentences"]
    assert make(kept) == []


def test_settings_of_a_stage_that_only_a_kept_one_reads_make_it_alone(kept):
    edit(kept, "vocab_size = 400", "vocab_size = 300")
    assert make(kept) == ["corpus", "tokens", "sentences"]
    assert make(kept) == []
    states = {state.stage.name: state for state in Pipeline(kept / "p.toml").states()}
    assert states["words"].kept == ("input tokens changed",)


def test_a_kept_stage_that_is_missing_or_forced_is_made(kept):
    shutil.rmtree(kept / "run" / "words")
    assert "missing" in reasons(kept)["words"]
    assert make(kept) == ["corpus", "tokens", "words", "sentences"]
    pipeline = Pipeline(kept / "p.toml")
    forced = pipeline.run(RunOptions(fresh=True), first="words", last="words")
    assert [state.stage.name for state, made in forced if made] == ["words"]


def test_an_artifact_that_a_setting_names_anew_makes_a_kept_stage(kept):
    make(kept)
    edit(kept, "dim = 8", 'init = "words2"\ndim = 8')
    with (kept / "p.toml").open("a") as file:
        file.write(
            '[stage.words2]\ncommand = "train word2vec"\ninputs = ["tokens"]\ndim = 8\nepochs = 1\nmin_count = 1\n'
        )
    assert reasons(kept)["words"]


def test_two_pipelines_of_the_same_names_run_in_two_threads(tmp_path, monkeypatch):
    """The process stays where it is, whatever other threads do with its working folder."""
    for name, text in (("one", "The sea is salt."), ("two", "Bees find home. They dance.")):
        (tmp_path / name / "texts").mkdir(parents=True)
        (tmp_path / name / "texts" / "a.txt").write_text(text * 3)
        (tmp_path / f"{name}.txt").write_text(f"{text} Beside it.")
        toml = (
            f'workdir = "run"\n[stage.corpus]\ncommand = "ingest"\ninputs = ["texts", "../{name}.txt", "texts/*.md"]\n'
        )
        (tmp_path / name / "texts" / "b.md").write_text("# Head\n\nBody.")
        (tmp_path / name / "wordpipe.toml").write_text(toml)
    monkeypatch.chdir(tmp_path)
    here, wandered = Path.cwd(), []
    stop = threading.Event()

    def wander():
        while not stop.is_set():
            wandered.append(Path.cwd())
            os.chdir(tmp_path / "one")
            os.chdir(here)

    def make(name, errors):
        try:
            wordpipe.run(place[name])
        except Exception as error:  # noqa: BLE001  (told in the other thread)
            errors.append(error)

    place = {name: tmp_path / name / "wordpipe.toml" for name in ("one", "two")}
    errors, wanderer = [], threading.Thread(target=wander)
    workers = [threading.Thread(target=make, args=(name, errors)) for name in place]
    for thread in (wanderer, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    wanderer.join()
    assert errors == []
    assert {*wandered} <= {here, tmp_path / "one"}
    for name, word in (("one", "salt"), ("two", "Bees")):
        with wordpipe.open(tmp_path / name / "run" / "corpus") as corpus:
            rows = corpus.batches(["source", "text"]).read_all().to_pylist()
        assert {row["source"] for row in rows} == {"texts/a.txt", f"../{name}.txt", "texts/b.md"}
        assert word in rows[0]["text"]
    assert [one.fresh for one in wordpipe.status(place["one"])] == [True]


def test_a_pipeline_keeps_its_place_when_the_program_goes_elsewhere(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"Of {name}.")
        toml = '[stage.corpus]\ncommand = "ingest"\ninputs = ["a.txt"]\n'
        (tmp_path / name / "wordpipe.toml").write_text(toml)
    monkeypatch.chdir(tmp_path / "one")
    pipeline = Pipeline()
    monkeypatch.chdir(tmp_path / "two")
    assert len(list(pipeline.run(RunOptions()))) == 2
    assert not (tmp_path / "two" / "run").exists()
    assert [state.fresh for state in pipeline.states()] == [True]
    assert [state.fresh for state in Pipeline().states()] == [False]
