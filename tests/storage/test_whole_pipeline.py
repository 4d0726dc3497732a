"""Stages, commands and pipelines at URLs do what they do in folders, and say URLs; keys are nowhere."""

import json
import random
import signal
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

import wordpipe
from tests.support.configs import small_config
from tests.support.object_stores import KEY_ID, KEYS, SECRET, TOKEN, Answer, environment, keys_in, make_public
from tests.support.waiting import wait_until
from wordpipe.artifacts import Artifact, manifest_at
from wordpipe.errors import ArtifactError, ConfigError, InputError, LockedError, StorageError
from wordpipe.stages.corpus import ingest as ingest_stage
from wordpipe.storage import as_path, open_bucket

STAGES = ("corpus", "tokens", "words", "sentences", "index")
WORDS = {"dim": 8, "epochs": 1, "min_count": 2, "threads": 1}
SETTINGS = {"corpus": {"documents": "block", "first_line_title": True}, "tokens": {"vocab_size": 400}, "words": WORDS}


@pytest.fixture(scope="module")
def texts() -> str:
    """Short documents, other ones each time."""
    rng = random.Random()
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(150)]
    blocks = [
        " ".join(rng.choices(words, k=12)).capitalize() + ".\n" + " ".join(rng.choices(words, k=20)) + "."
        for _ in range(60)
    ]
    return "\n\n".join(blocks)


def make(root: str, text: str, **options) -> dict[str, wordpipe.Made]:
    """The whole chain, in a folder or at a URL; what has shards by the engine of these options."""
    run = wordpipe.RunOptions(**options)
    made = {"corpus": wordpipe.ingest(text, output=f"{root}/corpus", run=run, **SETTINGS["corpus"])}
    made["tokens"] = wordpipe.tokenize(f"{root}/corpus", output=f"{root}/tokens", run=run, **SETTINGS["tokens"])
    made["words"] = wordpipe.train_word2vec(f"{root}/tokens", output=f"{root}/words", **WORDS)
    made["sentences"] = wordpipe.embed(f"{root}/words", f"{root}/corpus", output=f"{root}/sentences", run=run)
    made["index"] = wordpipe.index(f"{root}/sentences", output=f"{root}/index", type="flat")
    return made


def upload(bucket: str, key: str, text: str, folder: Path) -> str:
    (folder / "to-upload").write_text(text)
    open_bucket(bucket).upload(key, folder / "to-upload")
    return f"s3://{bucket}/{key}"


def silent(*texts: str) -> None:
    for text in texts:
        for secret in (KEY_ID, SECRET, TOKEN):
            assert secret not in text


@pytest.mark.landing
def test_the_whole_chain_is_that_of_folders(bucket, texts, tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    source = upload(bucket, "texts/all.txt", texts, tmp_path)
    here, there = make("run", source), make(f"s3://{bucket}/run", source)
    for stage in STAGES:
        assert there[stage].path == f"s3://{bucket}/run/{stage}"
        assert there[stage].digest == here[stage].digest, stage
        one, other = manifest_at(here[stage]), manifest_at(there[stage])
        assert (one.inputs, one.settings, one.counts, one.recipe) == (
            other.inputs,
            other.settings,
            other.counts,
            other.recipe,
        )
    assert [entry.path for entry in one.inputs] == ["sentences"]
    assert wordpipe.show(there["corpus"], rows=1)["rows"][0]["source"] == source

    question = texts.split(".")[0]
    asked = [cli("query", f"{root}/index", question, "--format", "json") for root in ("run", f"s3://{bucket}/run")]
    assert [one.code for one in asked] == [0, 0]
    assert asked[0].out == asked[1].out
    for arguments in (
        ("show", there["tokens"], "--json"), ("verify", *there.values()), ("doctor", there["words"]),
        ("export", there["words"], "--to", "glove", "-o", "glove.txt"),
        ("copy", there["index"], "copied"), ("copy", "copied", f"s3://{bucket}/second/index"),
    ):  # fmt: skip
        result = cli(*arguments)
        assert result.code == 0, result.err
        silent(result.out, result.err)
        assert "s3:/b" not in result.out + result.err
        assert str(tmp_path / "cache") not in result.out + result.err
    assert json.loads(cli("show", there["tokens"], "--json").out)["path"] == there["tokens"].path
    assert manifest_at("copied") == manifest_at(f"s3://{bucket}/second/index") == manifest_at(there["index"])
    silent(*(open_bucket(bucket).read(key)[0].decode("latin-1") for key in keys_in(bucket)))
    silent(*(path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()))


def test_inputs_by_folder_and_pattern(bucket, tmp_path, proxy):
    rng = random.Random()
    names = ["a.txt", "b.md", "sub/c.txt", "sub/deep/d.txt", "sub/.hidden.txt", "e.pdf"]
    texts = {name: f"{rng.random()} of {name}." for name in names}
    for name, text in texts.items():
        upload(bucket, f"texts/{name}", text, tmp_path)
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for pattern in ("", "/", "/*.txt", "/**/*.txt", "/sub", "/sub/[c]*", "/a.txt", "/?.md"):
        made = [
            wordpipe.ingest(f"{root}/texts{pattern}", output=tmp_path / "made" / kind)
            for kind, root in (("here", tmp_path), ("there", f"s3://{bucket}"))
        ]
        rows = [
            [(row["text"], Path(row["source"]).name) for row in wordpipe.show(one, rows=99)["rows"]] for one in made
        ]
        assert rows[0] == rows[1] != [], pattern
        assert made[0].counts == made[1].counts, pattern
        sources = {row["source"] for row in wordpipe.show(made[1], rows=99)["rows"]}
        assert all(source.startswith(f"s3://{bucket}/texts/") for source in sources)
    proxy.seen.clear()
    upload(bucket, "texts/a.txt", "another text.", tmp_path)
    wordpipe.ingest(f"s3://{bucket}/texts/", output=tmp_path / "made" / "there")
    got = [asked.path for asked in proxy.seen if asked.method == "GET" and "range" in asked.headers]
    assert got == [f"/{bucket}/texts/a.txt"]  # of a folder only what changed is fetched
    for missing in (f"s3://{bucket}/nothing", f"s3://{bucket}/texts/*.csv"):
        with pytest.raises(InputError, match="the object or folder does not exist"):
            wordpipe.ingest(missing, output=tmp_path / "x")


def test_a_pipeline_at_urls_is_made_once(bucket, texts, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = upload(bucket, "texts/all.txt", texts, tmp_path)
    (tmp_path / "wordpipe.toml").write_text(
        f'workdir = "s3://{bucket}/made"\n'
        + small_config("corpus", "tokens", "words", corpus={"inputs": [source]}, words={"min_count": 2})
    )
    done = cli("run")
    assert done.code == 0, done.err
    assert f"words → s3://{bucket}/made/words" in done.err
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))  # another machine
    again = cli("run")
    assert "nothing to do" in again.err, again.err
    assert not (tmp_path / "another" / "wordpipe" / "artifacts").exists()  # of artifacts the manifests say enough
    upload(bucket, "texts/all.txt", texts + "\n\nOne more. It is new.", tmp_path)
    states = [json.loads(line) for line in cli("status", "--json").out.splitlines()]
    assert [state["fresh"] for state in states[:3]] == [False, False, False]
    assert states[0]["output"] == f"s3://{bucket}/made/corpus"
    done = cli("run", "--to", "tokens", "--json")
    assert [json.loads(line)["path"] for line in done.out.splitlines()] == [
        f"s3://{bucket}/made/{name}" for name in ("corpus", "tokens")
    ]
    made = cli("tokenize", "--config", "wordpipe.toml#tokens")
    assert made.code == 0, made.err
    assert "nothing to do" not in cli("status").err


def test_an_update_begins_from_what_is_there(bucket, tmp_path):
    rows = [{"id": str(n), "text": f"Text number {n} about things."} for n in range(30)]
    url = f"s3://{bucket}/run/corpus"
    source = upload(bucket, "rows.jsonl", "\n".join(map(json.dumps, rows)), tmp_path)
    wordpipe.ingest(source, output=url)
    second = upload(
        bucket, "rows.jsonl", "\n".join(map(json.dumps, [*rows, {"id": "x", "text": "A new one."}])), tmp_path
    )
    made = wordpipe.ingest(second, output=url, update=True)
    assert made.path == url
    other = wordpipe.ingest(second, output=tmp_path / "corpus")
    assert other.digest == made.digest


def test_killed_while_it_is_sent_and_run_again(bucket, texts, tmp_path, nursery):
    source, url = upload(bucket, "all.txt", texts, tmp_path), f"s3://{bucket}/run/corpus"
    wanted = wordpipe.ingest(source, output=tmp_path / "wanted").digest
    for failpoint in ("publish.before_exchange", "remote.before_file", "remote.before_manifest"):
        child = nursery.command("ingest", source, "-o", url, **environment(), WORDPIPE_FAILPOINT=f"{failpoint}:kill")
        assert child.wait() == -signal.SIGKILL, child.err.read_text()
        with pytest.raises(ArtifactError, match="the artifact does not exist"):
            Artifact(url)
        said = child.err.read_text()
    (kept,) = (tmp_path / "cache" / "wordpipe" / "outputs").glob("*/corpus")
    assert str(kept) in said  # the last one says that one was there
    assert manifest_at(kept).digest == wanted
    said = wordpipe.copy(kept, output=url)
    assert said["digest"] == wanted
    again = nursery.run("ingest", source, "-o", url, **environment())
    assert again.returncode == 0
    assert manifest_at(url).digest == wanted
    silent(again.stdout, again.stderr)


def test_refusals_of_the_whole_command(bucket, texts, tmp_path, cli, proxy, monkeypatch, store_url):
    source, url = upload(bucket, "all.txt", texts, tmp_path), f"s3://{bucket}/run/corpus"
    proxy.rule = lambda asked: Answer(403, "SignatureDoesNotMatch")
    for arguments in (("ingest", source, "-o", "x"), ("ingest", tmp_path / "to-upload", "-o", url), ("show", url)):
        result = cli(*arguments)
        assert (result.code, "with the given keys" in result.err) == (5, True), result.err
        assert "Traceback" not in result.err
        silent(result.out, result.err)
    proxy.rule = lambda asked: Answer(507, "XMinioStorageFull") if asked.is_write else None
    result = cli("ingest", source, "-o", url)
    assert (result.code, "no space left" in result.err) == (5, True), result.err
    silent(result.err)
    proxy.rule = lambda asked: None
    make_public(store_url, bucket, "all.txt")
    for name in KEYS:
        monkeypatch.delenv(name)
    assert cli("ingest", source, "-o", tmp_path / "public").code == 0


def test_a_second_writer_of_a_whole_command(bucket, texts, tmp_path, proxy):
    source, url = upload(bucket, "all.txt", texts, tmp_path), f"s3://{bucket}/run/corpus"

    def rule(asked):
        if asked.method == "PUT" and asked.path.endswith("manifest.json"):
            proxy.rule = lambda asked: None
            wordpipe.copy(wordpipe.ingest([{"text": "Of another run."}], output=tmp_path / "other"), output=url)
        return

    proxy.rule = rule
    with pytest.raises(LockedError, match="another run") as caught:
        wordpipe.ingest(source, output=url)
    assert manifest_at(url) == manifest_at(tmp_path / "other")
    folder = caught.value.hint.partition("wordpipe copy ")[2].split(" ")[0]
    assert (
        wordpipe.copy(folder, output=url)["digest"]
        == manifest_at(url).digest
        == wordpipe.ingest(source, output=tmp_path / "x").digest
    )


def test_rays_processes_read_and_write_at_urls(bucket, texts, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(Path(wordpipe.__file__).parent.parent))
    monkeypatch.setattr(ingest_stage, "PART_BYTES", 2000)  # so that there are shards
    monkeypatch.chdir(tmp_path)
    source = upload(bucket, "texts/all.txt", texts, tmp_path)
    here = make("run", source)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of ray"))  # where nothing is yet
    with ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"):
        there = make(f"s3://{bucket}/run", source, engine="ray")
    assert {name: made.digest for name, made in there.items()} == {name: made.digest for name, made in here.items()}
    assert len([*(tmp_path / "run" / "corpus").glob("corpus-*.parquet")]) > 3
    silent(*keys_in(bucket))


def test_a_server_takes_what_is_published_in_a_bucket(bucket, texts, tmp_path, monkeypatch):
    pytest.importorskip("starlette", reason="starlette is not installed: pip install 'wordpipe[serve]'")
    from wordpipe.web import served_artifacts

    monkeypatch.setattr(served_artifacts, "_POLL_FAR_S", 0.05)
    monkeypatch.chdir(tmp_path)
    made = make("run", upload(bucket, "texts/all.txt", texts, tmp_path))
    other = wordpipe.train_word2vec("run/tokens", output="other", **WORDS | {"dim": 12})
    url = f"s3://{bucket}/words"
    wordpipe.copy("run/words", output=url)
    with wordpipe.serve(url, port=0) as server:

        def state() -> dict[str, object]:
            with urlopen(f"{server.url}/health") as reply:
                return json.load(reply)["artifacts"][0]

        assert state()["digest"] == made["words"].digest
        wordpipe.copy("other", output=url)
        wait_until(lambda: state()["digest"] == other.digest)
        assert (state()["swaps"], state()["error"]) == (1, None)


def test_a_store_that_does_not_answer_is_told_of_once(bucket, proxy, texts, tmp_path, monkeypatch):
    pytest.importorskip("starlette", reason="starlette is not installed: pip install 'wordpipe[serve]'")
    from wordpipe.web import served_artifacts

    monkeypatch.setattr(served_artifacts, "_POLL_FAR_S", 0.02)
    monkeypatch.chdir(tmp_path)
    make("run", upload(bucket, "texts/all.txt", texts, tmp_path))
    wordpipe.copy("run/words", output=(url := f"s3://{bucket}/words"))
    said: list[str] = []
    with wordpipe.serve(url, port=0, report=said.append) as server:

        def wait_for(status: str) -> str | None:
            ends = time.monotonic() + 30
            while True:
                with urlopen(f"{server.url}/health") as reply:
                    found = json.load(reply)
                if found["status"] == status:
                    return found["artifacts"][0]["error"]
                assert time.monotonic() < ends
                time.sleep(0.02)

        proxy.rule = lambda _: Answer(403, "ExpiredToken")
        assert "403" in (wait_for("stale") or "")
        time.sleep(0.3)
        with urlopen(f"{server.url}/neighbours?word={texts.split()[1]}") as reply:
            assert reply.status == 200
        proxy.rule = lambda _: None
        assert wait_for("ok") is None
    assert len(said) == 1
    assert "the storage does not answer, so the server keeps the current version" in said[0]
    silent(*said)


def test_what_does_not_go_together_is_said(bucket, tmp_path, monkeypatch):
    corpus = wordpipe.ingest([{"text": "Of bees and of tides."}], output=tmp_path / "corpus")
    tokens = wordpipe.tokenize(corpus, output=tmp_path / "tokens")
    with pytest.raises(ConfigError, match="several processes"):
        wordpipe.train_mlm(tokens, output=f"s3://{bucket}/model", run=wordpipe.RunOptions(engine="ray"))
    with pytest.raises(ConfigError, match="not an artifact"):
        wordpipe.export(corpus, "npy", f"s3://{bucket}/file.npy")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="several processes"):
        wordpipe.tokenize(corpus, output=f"s3://{bucket}/tokens")


def test_where_the_cache_has_no_room(bucket, texts, tmp_path, monkeypatch):
    source = upload(bucket, "all.txt", texts, tmp_path)
    monkeypatch.setenv("WORDPIPE_FAILPOINT", "copy.range_written:enospc:1")
    from wordpipe.artifacts import publish

    monkeypatch.setattr(publish, "_passed", {})
    with pytest.raises(StorageError, match="space") as caught:
        wordpipe.ingest(source, output=tmp_path / "corpus")
    assert "XDG_CACHE_HOME" in caught.value.hint
    assert as_path(source).name == "all.txt"
