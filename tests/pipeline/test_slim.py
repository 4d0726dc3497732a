"""`slim`: what can be deleted of a pipeline, what that frees, and that `run` makes again only what is read."""

import fcntl
import json

import pytest

import wordpipe
from tests.support.configs import small_config
from wordpipe.errors import ConfigError, LockedError, StorageError
from wordpipe.pipeline import Pipeline, run_pipeline, slim_pipeline

CONFIG = small_config("corpus", "tokens", "words", "sentences", "index", corpus={"text_field": "body"})


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A pipeline that has been made, in the working folder."""
    (tmp_path / "texts").mkdir()
    rows = [{"body": f"The tide comes in, boat {n} waits. Then the tide goes out again.", "n": n} for n in range(40)]
    (tmp_path / "texts" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "wordpipe.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    run_pipeline()
    return tmp_path


def made():
    return [one.path.removeprefix("run/") for one in run_pipeline()]


def bytes_there(folder):
    """Bytes of the files of all artifacts, each once; without manifests, which stay."""
    files = (path.stat() for path in folder.glob("run/[!.]*/**/*") if path.is_file() and path.name != "manifest.json")
    return sum({one.st_ino: one.st_size for one in files}.values())


def edit(project, old, new):
    text = (project / "wordpipe.toml").read_text()
    assert old in text
    (project / "wordpipe.toml").write_text(text.replace(old, new))


def test_what_only_others_were_made_of_can_go_and_nothing_is_made_again(project):
    before = bytes_there(project)
    found = slim_pipeline()
    assert [one.stage for one in found.deletable] == ["corpus", "tokens", "words"]
    assert dict(found.kept) == {
        "sentences": "its files are those of artifacts that stay, too", "index": "no stage reads this artifact",
    }  # fmt: skip
    assert (found.bytes, found.deleted, bytes_there(project)) == (before, False, before)
    assert all(one.estimate is not None and one.lost for one in found.deletable)
    lost = {one.stage: one.lost for one in found.deletable}
    said = "query, map and evaluate of these words, further trainings (new texts are embedded with run/index)"
    assert lost["words"] == said
    assert slim_pipeline(delete=True).deletable == found.deletable
    assert bytes_there(project) == before - found.freed_bytes
    assert sorted(path.name for path in project.glob("run/[!.]*")) == ["index", "sentences"]
    assert made() == []
    states = {state.stage.name: state for state in Pipeline().states()}
    assert states["tokens"].notes == ("deleted by slim",)
    assert slim_pipeline(delete=True).deletable == ()
    with wordpipe.open("run/index") as index:
        assert index.query("boat 7", k=1)[0]["text"].startswith("The tide comes in")
    assert wordpipe.verify("run/index")["ok"]


def test_new_texts_are_embedded_and_indexed_after_the_words_are_gone(project, cli):
    before = {one.stage: one for one in slim_pipeline(delete=True).deletable}
    assert "words" in before
    (project / "new.jsonl").write_text('{"body": "Boat 99 goes out with the tide."}\n')
    wordpipe.ingest("new.jsonl", output="new/corpus", text_field="body")
    wordpipe.embed("run/index", "new/corpus", output="new/sentences")
    wordpipe.index("new/sentences", output="new/index")
    with wordpipe.open("run/index") as old, wordpipe.open("new/index") as new:
        assert new.query("boat tide", k=1, mode="dense")[0]["text"].startswith("Boat 99")
        one, other = (each.encoder.encode(["the tide"]).vectors for each in (old, new))
        assert (one == other).all()


def test_words_whose_encoder_no_index_carries_are_needed_to_embed(project):
    text = (project / "wordpipe.toml").read_text().replace('inputs = ["sentences"]', 'inputs = ["corpus"]')
    (project / "wordpipe.toml").write_text(text + '\n[stage.map]\ncommand = "cluster"\ninputs = ["sentences"]\nk = 2\n')
    assert made() == ["index", "map"]
    lost = {one.stage: one.lost for one in slim_pipeline().deletable}
    assert lost["words"].startswith("embed, query")


def test_a_stage_that_is_made_again_has_what_it_reads_made_and_no_more(project):
    slim_pipeline(delete=True)
    edit(project, "dim = 8", "dim = 12")
    reasons = {state.stage.name: state.reasons for state in Pipeline().states()}
    assert reasons["tokens"] == ("deleted, but needed by words",)
    assert reasons["corpus"] == ("deleted, but needed by sentences",)
    assert made() == ["corpus", "tokens", "words", "sentences", "index"]
    assert not [*project.glob("run/.*.deleted")]
    assert made() == []
    # an index with other settings reads its sentences alone
    slim_pipeline(delete=True)
    edit(project, 'inputs = ["sentences"]', 'inputs = ["sentences"]\ntype = "hnsw"')
    assert made() == ["index"]


def test_new_texts_of_kept_words_have_the_corpus_made_alone(project):
    edit(project, "dim = 8", "dim = 8\nkeep = true")
    slim_pipeline(keep=["words"], delete=True)
    (project / "texts" / "b.jsonl").write_text('{"body": "A mast and a sail wait for the tide.", "n": 41}\n')
    assert made() == ["corpus", "sentences", "index"]


def test_what_a_stale_stage_reads_stays(project):
    edit(project, "dim = 8", "dim = 12")
    kept = dict(slim_pipeline().kept)
    assert kept["tokens"] == "needed to make words"
    assert kept["corpus"] == "needed to make sentences"
    assert kept["words"] == "it is stale"


def test_what_an_index_says_of_fields_is_the_same_without_its_corpus(project, cli):
    said = cli("query", "run/index", "tide", "--where", "body = 'x'")
    assert "body" in said.err
    slim_pipeline(delete=True)
    assert cli("query", "run/index", "tide", "--where", "body = 'x'").err == said.err


@pytest.mark.parametrize("place", ["delete.noted", "delete.set_aside", "publish.folder_synced:kill:2"])
def test_killed_half_way_and_called_again(project, nursery, place):
    wanted = slim_pipeline()
    failed = nursery.run("slim", "--yes", WORDPIPE_FAILPOINT=place if ":" in place else f"{place}:kill")
    assert failed.returncode == -9
    assert made() == []  # what is left is whole, or known to be deleted
    slim_pipeline(delete=True)
    assert sorted(path.name for path in project.glob("run/[!.]*")) == ["index", "sentences"]
    assert not [*project.glob("run/.*.tmp")]
    assert {path.name for path in project.glob("run/.*.deleted")} == {
        f".{one.stage}.deleted" for one in wanted.deletable
    }
    assert made() == []


def test_files_of_others_and_runs_that_write_are_respected(project):
    (project / "run" / "corpus" / "own.txt").write_text("mine")
    with pytest.raises(StorageError, match="contains files that wordpipe did not write"):
        slim_pipeline(delete=True)
    assert (project / "run" / "corpus" / "own.txt").exists()
    (project / "run" / "corpus" / "own.txt").unlink()
    with (project / "run" / ".corpus.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LockedError):
            slim_pipeline(delete=True)
    assert (project / "run" / "corpus" / "manifest.json").exists()


def test_a_damaged_note_means_that_the_artifact_is_made(project):
    slim_pipeline(delete=True)
    (project / "run" / ".tokens.deleted").write_text("{}")
    assert made() == ["corpus", "tokens"]


def test_on_the_command_line(project, cli):
    listed = cli("slim")
    assert listed.code == 0
    assert "can go   tokens" in listed.out
    assert "stays    index          no stage reads this artifact" in listed.out
    found = json.loads(cli("slim", "--keep", "tokens", "--yes", "--json").out)
    assert [one["stage"] for one in found["deletable"]] == ["corpus", "words"]
    assert found["deleted"]
    assert {"stage": "tokens", "why": "named by --keep"} in found["kept"]
    assert "note" not in cli("slim", "-q").err
    assert "nothing to do" in cli("run").err
    assert "deleted by slim" in cli("status").out
    with pytest.raises(ConfigError, match="there is no stage 'toknes'"):
        slim_pipeline(keep=["toknes"])
