"""Engines make all shards, whatever becomes of the processes, and say what went wrong."""

import io
import json
import os
import random
import signal
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import wordpipe
from tests.support.shard_work import NumberShards
from tests.support.small_shards import SMALL
from tests.support.waiting import wait_until
from tests.support.word_artifacts import changed, texts, words
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, ResumeCache, read_vectors, tables
from wordpipe.engines import EngineOptions, ShardProgress, on_ray, open_engine
from wordpipe.errors import BudgetError, ConfigError, DivergedError, InputError, PeerError, StorageError
from wordpipe.runtime import Progress
from wordpipe.search import build_index, write_index
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.corpus import ingest, tokenize_shards
from wordpipe.stages.encode import embed_shards
from wordpipe.stages.search import index_shards


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.oracle)])
def options(request):
    if request.param == "ray":
        request.getfixturevalue("ray_here")
    return EngineOptions(request.param, workers=2)


def made(options, work, numbers=range(5), total=15):
    """What was reported."""
    told: list[Progress] = []
    with open_engine(options, told.append) as engine:
        engine.make(work, numbers, ShardProgress(work, told.append, total - sum(map(work.size_of, numbers)), total))
    return told


def test_all_shards_are_made_and_counted(options, tmp_path):
    told = made(options, NumberShards(tmp_path), [1, 3, 4])
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == ["1.txt", "3.txt", "4.txt"]
    done = [one.done for one in told if one.phase == "numbering"]
    assert done == sorted(done)
    assert (done[-1], {one.total for one in told}, {one.unit for one in told}) == (15, {15}, {"numbers"})


def test_a_process_prepares_once(options, tmp_path):
    made(options, NumberShards(tmp_path))
    prepared = (tmp_path / "prepared").read_text().split()
    assert len(prepared) == len({*prepared}) <= 2


def test_an_error_of_a_shard_is_the_users(options, tmp_path):
    with pytest.raises(InputError) as caught:
        made(options, NumberShards(tmp_path, wrong=2))
    error = caught.value
    assert (error.what, error.where, error.got, error.hint) == ("no text", "a.txt, line 7", "nothing", "write some")


def test_a_shard_whose_process_dies_is_made_again(ray_here, tmp_path):
    told = made(EngineOptions("ray"), NumberShards(tmp_path, deaths=2))
    assert {path.name: path.read_text() for path in tmp_path.glob("*.txt")} == {f"{n}.txt": str(n) for n in range(5)}
    notes = [one.note for one in told if one.note]
    assert (
        notes
        == [
            "the process for shard 2 of the phase numbering died (WorkerCrashedError), so a new process makes the shard again"
        ]
        * 2
    )


def test_a_shard_that_kills_three_processes_ends_the_work(ray_here, tmp_path):
    with pytest.raises(PeerError, match="the process for shard 2 of the phase numbering died 3 times") as caught:
        made(EngineOptions("ray"), NumberShards(tmp_path, deaths=3))
    assert caught.value.exit_code == 8


def test_a_shard_whose_worker_dies_is_made_again(tmp_path):
    work = NumberShards(tmp_path, deaths=2, in_processes=True)
    told = made(EngineOptions(workers=2), work)
    assert {path.name: path.read_text() for path in tmp_path.glob("*.txt")} == {f"{n}.txt": str(n) for n in range(5)}
    notes = [one.note for one in told if one.note]
    assert (
        notes
        == ["the process for shard 2 of the phase numbering died (SIGKILL), so a new process makes the shard again"] * 2
    )
    prepared = (tmp_path / "prepared").read_text().split()
    assert len(prepared) == len({*prepared}) == 4
    assert str(os.getpid()) not in prepared
    assert told[-1].done == 15


def test_a_shard_that_kills_three_workers_ends_the_work(tmp_path):
    with pytest.raises(PeerError, match="the process for shard 2 of the phase numbering died 3 times") as caught:
        made(EngineOptions(workers=2), NumberShards(tmp_path, deaths=3, in_processes=True))
    assert (caught.value.exit_code, caught.value.got) == (8, "SIGKILL")


def test_an_error_in_a_worker_is_the_users_and_ends_the_others_soon(tmp_path):
    with pytest.raises(InputError) as caught:
        made(
            EngineOptions(workers=2), NumberShards(tmp_path, wrong=0, in_processes=True, seconds=0.3), range(50)
        )  # fmt: skip
    error = caught.value
    assert (error.what, error.where, error.got, error.hint) == ("no text", "a.txt, line 7", "nothing", "write some")
    assert len([*tmp_path.glob("begun-*")]) < 10
    assert not running(tmp_path / "prepared")


def test_a_disk_that_fails_in_a_worker_is_the_disk_of_all(tmp_path):
    folder = tmp_path / "gone"
    with pytest.raises(FileNotFoundError) as caught:
        made(EngineOptions(workers=2), NumberShards(folder, in_processes=True))
    assert caught.value.filename == str(folder / "prepared")
    assert "in prepare" in caught.value.__notes__[0]  # where it was met


@pytest.mark.landing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_was_started(tmp_path, nursery, number):
    started = nursery.start("tests.support.shard_work:run_in_processes", str(tmp_path), "0.5")
    prepared = tmp_path / "prepared"
    started.wait_until(lambda: prepared.exists() and len(prepared.read_text().split()) == 2)
    assert started.signal(number) != 0
    wait_until(lambda: not running(prepared))
    assert len([*tmp_path.glob("*.txt")]) < 10


def running(prepared):
    """Those of the processes that wrote their numbers into a file that still are there; a zombie has no files."""
    return [pid for pid in prepared.read_text().split() if Path(f"/proc/{pid}/fd/0").exists()]


def test_what_no_machine_has_the_memory_for_is_refused(ray_here, tmp_path):
    with pytest.raises(BudgetError, match="no machine of the cluster has enough memory"):
        made(EngineOptions("ray"), NumberShards(tmp_path, memory_bytes=10**15))
    assert not [*tmp_path.iterdir()]


def test_without_ray_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="Ray is not installed") as caught:
        EngineOptions("ray")
    assert caught.value.hint == "pip install 'wordpipe[ray]'"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"engine": "spark"}, "unknown engine"),
        ({"workers": 0}, "too few workers"),
        ({"address": "auto"}, "only be used with --engine ray"),
    ],
)
def test_options_that_do_not_fit(given, says):
    with pytest.raises(ConfigError, match=says):
        EngineOptions(**given)


def test_what_has_no_shards_has_no_engine(built, tmp_path, cli):
    with pytest.raises(ConfigError, match="train word2vec cannot be divided"):
        wordpipe.train_word2vec(built / "tokens", output=tmp_path / "w", run=RunOptions(workers=2))
    assert "unknown option" in cli("train", "word2vec", built / "tokens", "-o", tmp_path / "w", "--engine", "ray").err


def engines():
    return [RunOptions(workers=1), RunOptions(workers=3), RunOptions(engine="ray")]


def written_records(folder, seed, *, ids=False, doubles=0.3, columns=True):
    """Files of records of many kinds; some texts are there before, some fields come late or change their type."""
    draw = random.Random(seed)
    folder.mkdir()
    texts = [f"bees {n} dance. They are {n % 5} and sing." for n in range(60)]
    for number in range(8):
        lines = []
        for line in range(10):
            text = draw.choice(texts) if draw.random() < doubles else f"{number} {line} {draw.random()}. So it is."
            record = {"text": text, "title": f"t{line}"}
            if columns:
                record |= {"year": draw.choice([1, 2, 2.5, "x"] if number > 4 else [1, 2]), "tag": ["a", number]}
            if columns and number == 6:
                record["late"] = {"deep": draw.random()}
            if ids:
                record["id"] = f"{number}-{line}" if text not in texts else f"of {text[:9]}"
            lines.append(json.dumps(record))
        (folder / f"{number}.jsonl").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        pytest.param({}, {}, marks=pytest.mark.landing), ({"documents": "line"}, {"columns": False}),
        ({}, {"ids": True, "doubles": 0.0}),
    ],
)  # fmt: skip
def test_corpora_have_the_same_bytes(ray_here, tmp_path, monkeypatch, settings, given):
    monkeypatch.setattr(ingest, "PART_BYTES", 1500)
    found, seed = {}, random.randrange(1 << 30)
    source = written_records(tmp_path / "records", seed, **given)
    (source / "plain.txt").write_text("Bees dance.\n\nBees sing.\n")
    told: list[Progress] = []
    for name, run in (
        ("local", RunOptions(workers=1)),
        ("processes", RunOptions(workers=2, report=told.append)),
        ("ray", RunOptions(engine="ray", report=told.append)),
    ):
        made = wordpipe.ingest(source, output=tmp_path / name, run=run, **settings)
        rows = [one["told"] for one in pq.read_table(tmp_path / name / "sources.parquet").to_pylist()]
        found[name] = made.digest, made.counts, rows
    assert found["local"] == found["processes"] == found["ray"], seed
    assert not [one.note for one in told if "in one process" in (one.note or "")]
    assert len([*(tmp_path / "ray").glob("corpus-*.parquet")]) > 2


def test_a_large_file_is_read_in_pieces_to_the_same_bytes(ray_here, tmp_path, monkeypatch):
    monkeypatch.setattr(ingest, "PART_BYTES", 3000)
    draw, found, told = random.Random(1), {}, list[Progress]()
    records = [{"text": f"bees {draw.randrange(300)} dance", "year": draw.choice([1, 2])} for _ in range(400)]
    (tmp_path / "many.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "plain.txt").write_text("".join(f"Bees {draw.randrange(99)}.\n" for _ in range(900)))
    for name, run in (
        ("one", RunOptions(workers=1)),
        ("two", RunOptions(workers=2, report=told.append)),
        ("ray", RunOptions(engine="ray", report=told.append)),
    ):
        made = wordpipe.ingest(
            [str(tmp_path / "many.jsonl"), str(tmp_path / "plain.txt")],
            output=tmp_path / name,
            documents="line",
            run=run,
        )
        found[name] = made.digest, made.counts, pq.read_table(tmp_path / name / "sources.parquet").to_pylist()
    assert found["one"] == found["two"] == found["ray"]
    assert not [one.note for one in told if "one process" in (one.note or "")]
    assert len([*(tmp_path / "one").glob("corpus-*.parquet")]) > 3
    assert made.counts["sources"] == 2
    parts = [pq.read_table(path) for path in sorted((tmp_path / "one").glob("corpus-*.parquet"))]
    lines = [row for part in parts for row in part.to_pylist()]
    texts = {"many.jsonl": [record["text"] for record in records],
             "plain.txt": (tmp_path / "plain.txt").read_text().splitlines()}  # fmt: skip
    assert lines
    for row in lines:
        assert texts[row["source"].rpartition("/")[2]][row["line"] - 1] == row["text"].strip()


def test_files_that_cannot_be_read_are_left_out_to_the_same_bytes(ray_here, tmp_path, monkeypatch):
    monkeypatch.setattr(ingest, "PART_BYTES", 300)
    (tmp_path / "in").mkdir()
    for n in range(6):
        (tmp_path / "in" / f"{n}.jsonl").write_text(
            "".join(f'{{"text": "Bee {k} of {n}."}}\n{{bad\n' for k in range(9))
        )
        (tmp_path / "in" / f"{n}.txt.gz").write_bytes(b"this is no gzip")
        (tmp_path / "in" / f"{n}.txt").write_bytes(f"Größe {n} der Bäume.".encode("cp1252"))
    found = []
    for name, run in (
        ("one", RunOptions(workers=1)), ("two", RunOptions(workers=2)), ("ray", RunOptions(engine="ray")),
    ):  # fmt: skip
        made = wordpipe.ingest(tmp_path / "in", output=tmp_path / name, run=run)
        found.append((made.digest, made.counts, made.warnings))
    assert found[0] == found[1] == found[2]
    assert made.counts["files_unreadable.the gz stream is damaged"] == 6
    assert made.counts["files_decoded_from.cp1252"] == 6
    assert made.counts["records_skipped_not_json"] == 54


def test_ids_that_come_twice_are_read_in_one_process(ray_here, tmp_path, monkeypatch):
    monkeypatch.setattr(ingest, "PART_BYTES", 100)
    for name, text in (("a", "bees"), ("b", "wasps")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "1", "text": f"{text} {'x' * 100}"}))
    said = []
    for run in (RunOptions(workers=1), RunOptions(workers=2), RunOptions(engine="ray")):
        with pytest.raises(InputError, match="two records have the same id") as caught:
            wordpipe.ingest(tmp_path / "*.jsonl", output=tmp_path / "c", unreadable="error", run=run)
        said.append(caught.value.message)
    assert said[0] == said[1] == said[2]
    made = [
        wordpipe.ingest(tmp_path / "*.jsonl", output=tmp_path / "c", bad_records="skip", run=run).digest
        for run in (RunOptions(workers=1), RunOptions(workers=2), RunOptions(engine="ray"))
    ]
    assert made[0] == made[1] == made[2]


def test_tokens_have_the_same_bytes(ray_here, handbook, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(tables, "ROW_GROUP_BYTES", SMALL)
        wordpipe.ingest(handbook, output=tmp_path / "c", documents="block")
    monkeypatch.setattr(tokenize_shards, "SHARD_BYTES", SMALL)
    digests = {
        wordpipe.tokenize(tmp_path / "c", output=tmp_path / f"t{n}", vocab_size=700, run=run).digest
        for n, run in enumerate(engines())
    }
    assert len(digests) == 1
    assert len([*(tmp_path / "t0").glob("tokens-*.parquet")]) > 3


def test_threads_have_a_shard_each_or_make_one_together(tmp_path):
    for side_by_side, expected in ((True, 3), (False, 1)):
        folder = tmp_path / str(side_by_side)
        folder.mkdir()
        told = made(EngineOptions(workers=3), NumberShards(folder, side_by_side=side_by_side))
        assert len((folder / "prepared").read_text().split()) == expected
        assert told[-1].done == 15
        assert len([*folder.glob("*.txt")]) == 5


def test_an_error_beside_other_shards_ends_them_soon(tmp_path):
    with pytest.raises(InputError):
        made(EngineOptions(workers=2), NumberShards(tmp_path, wrong=0, side_by_side=True, seconds=0.2), range(50))
    assert len([*tmp_path.glob("begun-*")]) < 10


@pytest.mark.parametrize(
    ("encoder", "unit"),
    [
        ("words", "sentence"), pytest.param("words", "window", marks=pytest.mark.slow),
        pytest.param("model", "document", marks=pytest.mark.slow),  # each process of Ray imports torch
    ],
)  # fmt: skip
def test_vectors_have_the_same_bytes(ray_here, built, tmp_path, monkeypatch, encoder, unit):
    monkeypatch.setattr(tables, "BATCH_ROWS", 20)
    monkeypatch.setattr(embed_shards, "LEAST_UNITS", dict.fromkeys(embed_shards.LEAST_UNITS, 20))
    runs = engines() if encoder == "words" else [RunOptions(workers=1), RunOptions(engine="ray")]
    digests = {
        wordpipe.embed(
            built / encoder, built / "corpus", output=tmp_path / f"s{n}", unit=unit, device="cpu", run=run
        ).digest
        for n, run in enumerate(runs)
    }
    assert len(digests) == 1


@pytest.fixture
def some_words(tmp_path, monkeypatch):
    """A words artifact of many small row groups."""

    def make(rows, name="s"):
        with monkeypatch.context() as patch:
            patch.setattr(tables, "ROW_GROUP_BYTES", SMALL)
            return words(tmp_path / name, rows)

    monkeypatch.setattr(index_shards, "SHARD_BYTES", 3 * SMALL)
    return make


@pytest.mark.parametrize(
    ("n", "settings"),
    [
        (2_500, {}),
        (1_003, {"pq_dims": 16, "nlist": 7}),
        pytest.param(1_500, {"pq_dims": 3, "seed": 5, "recall": 0.6}, marks=pytest.mark.slow),
        (40, {}),
    ],
)
def test_indexes_have_the_same_bytes(ray_here, some_words, tmp_path, n, settings):
    source = some_words(texts(n, random.randrange(1 << 30)))
    settings = {"type": "ivf-pq", **settings}
    digests = {
        wordpipe.index(source, output=tmp_path / f"i{number}", run=run, **settings).digest
        for number, run in enumerate(engines())
    }
    assert len(digests) == 1
    with Artifact(source) as vectors, Artifact(tmp_path / "i0") as index:
        assert index.manifest.bitwise
        blocks = [block for _, block in read_vectors(vectors, "words")]
        assert len(blocks) > 8 or n == 40
        whole = build_index(lambda: iter(blocks), n, blocks[0].shape[1], IndexSettings(threads=1, **settings))
        write_index(whole.index, file := io.BytesIO(), vectors=False)
        assert file.getvalue() == index.read("index.faiss")  # filled by one `add` after the other


def test_a_killed_index_goes_on_with_another_engine(ray_here, some_words, tmp_path, nursery, monkeypatch):
    source = some_words(texts(1_200, 3))
    call = "tests.support.small_shards:index", str(source), str(tmp_path / "i"), '{"type": "ivf-pq", "threads": 1}'
    killed = nursery.start(
        *call, WORDPIPE_FAILPOINT="resume_cache.file_finished:kill:6"
    )  # lists, queries, three shards
    assert killed.wait() == -signal.SIGKILL
    monkeypatch.setattr(index_shards, "SHARD_BYTES", 1)
    told: list[Progress] = []
    run = RunOptions(engine="ray", report=told.append)
    again = wordpipe.index(source, output=tmp_path / "i", type="ivf-pq", run=run)
    notes = [one.note for one in told if one.note]
    assert any("continuing a stopped run: the lists of the index are already trained" in note for note in notes)
    assert any("continuing a stopped run: 3 of " in note for note in notes)
    assert "training" not in {one.phase for one in told}
    assert again.digest == wordpipe.index(source, output=tmp_path / "whole", type="ivf-pq").digest
    assert not (tmp_path / ".i.partial").exists()


def test_vectors_of_a_shard_without_a_direction_are_named(ray_here, some_words, tmp_path):
    rows = texts(1_500, 4)
    rows[[*rows][1_400]][:] = 0
    for run in engines():
        with pytest.raises(DivergedError, match="row 1400"):
            wordpipe.index(some_words(rows), output=tmp_path / "i", type="ivf-pq", run=run)


def test_a_graph_has_no_shards(built, tmp_path):
    for run in (RunOptions(engine="ray"), RunOptions(workers=2)):
        with pytest.raises(ConfigError, match="index with type hnsw cannot be divided"):
            wordpipe.index(built / "words", output=tmp_path / "i", type="hnsw", run=run)
    (tmp_path / "v.txt").write_text("bee 1 0\nwasp 0 1\nant 1 1\n")
    (tmp_path / "p.toml").write_text(
        '[stage.words]\ncommand = "import"\ninputs = ["v.txt"]\n\n'
        '[stage.index]\ncommand = "index"\ninputs = ["words"]\ntype = "hnsw"\n'
    )
    made = wordpipe.run(tmp_path / "p.toml", run=RunOptions(engine="ray", workers=2))
    assert [one.kind for one in made] == ["words", "index"]


def test_what_of_an_index_is_not_sent_away_is_said(ray_here, some_words, tmp_path):
    rows, said = texts(1_200, 5), []
    run = RunOptions(engine="ray", report=lambda one: said.append(one.note or ""))
    wordpipe.index(some_words(rows), output=tmp_path / "i", run=run)
    assert "an index of 1,200 vectors is flat, so this process builds the index without shards" in said
    said.clear()
    wordpipe.index(tmp_path / "s", output=tmp_path / "i", type="ivf-pq", run=run)
    assert not any("in this process" in note for note in said)
    some_words(changed(rows, texts(5, 6, "new"), 3))
    wordpipe.index(tmp_path / "s", output=tmp_path / "i", type="ivf-pq", update=True, run=run)
    assert "this process updates the existing index without shards" in said


def test_a_killed_driver_goes_on_with_another_engine(built, tmp_path, nursery, monkeypatch, ray_here):
    corpus = wordpipe.ingest([{"text": f"bees {n} bread {n % 7} water"} for n in range(5000)], output=tmp_path / "c")
    call = (
        "tests.support.small_shards:embed",
        str(built / "words"),
        str(corpus),
        str(tmp_path / "s"),
        '{"threads": 1}',
    )
    killed = nursery.start(*call, WORDPIPE_FAILPOINT="resume_cache.file_finished:kill")
    assert killed.wait() == -signal.SIGKILL
    monkeypatch.setattr(embed_shards, "LEAST_UNITS", {"words": 1000})
    told: list[Progress] = []
    run = RunOptions(engine="ray", report=told.append)
    again = wordpipe.embed(built / "words", corpus, output=tmp_path / "s", threads=1, run=run)
    assert any("continuing a stopped run: 4,096 of 5,000" in (one.note or "") for one in told)
    assert again.digest == wordpipe.embed(built / "words", corpus, output=tmp_path / "whole", threads=1).digest


def test_other_versions_make_no_shard(ray_here, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "versions_of", lambda libraries: {"wordpipe": "0.0", "numpy": "1.0"})
    with pytest.raises(ConfigError, match="a machine of the cluster has different versions") as caught:
        made(EngineOptions("ray"), NumberShards(tmp_path))
    assert "numpy 1.0" in str(caught.value.expected)
    assert not [*tmp_path.glob("*.txt")]


def test_another_cluster_is_refused_where_one_is_at_work(ray_here, tmp_path):
    with pytest.raises(ConfigError, match="connected to another Ray cluster"):
        made(EngineOptions("ray", address="127.0.0.1:1"), NumberShards(tmp_path))


def test_a_folder_that_another_run_has_by_now_gets_no_file(tmp_path):
    ours = ResumeCache(tmp_path / "c", "one")
    with ours.shared_with_others():
        late = ResumeCache(tmp_path / "c", "one", shared=True)
        late.put("a", b"1", {"n": 1})
        assert ours.made_figures("a") == {"n": 1}
        ResumeCache(tmp_path / "c", "two").put("b", b"2")
        with pytest.raises(StorageError, match="another run now uses the folder"):
            late.put("a", b"1")
    assert ResumeCache(tmp_path / "c", "two").figures("a") is None
    with pytest.raises(StorageError, match="cannot find the folder"):
        ResumeCache(tmp_path / "elsewhere", "one", shared=True).put("a", b"1")
    assert not (tmp_path / "elsewhere").exists()


def test_a_shared_folder_without_a_finished_file_goes(tmp_path):
    with pytest.raises(KeyError), ResumeCache(tmp_path / "c", "one").shared_with_others():
        raise KeyError
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_nothing_is_printed_of_what_dies(nursery, tmp_path):
    child = nursery.start("tests.support.shard_work:run_on_ray", str(tmp_path), "1", "2")
    assert child.wait() == 0
    assert (child.out.read_text(), child.err.read_text()) == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_leaves_no_process(nursery, tmp_path, number):
    child = nursery.start("tests.support.shard_work:run_on_ray", str(tmp_path), "5")
    child.wait_until(lambda: len([*tmp_path.glob("begun-*")]) == 2, 200)
    assert len(_sessions_of(child.pid)) == 1
    child.signal(number)
    child.wait()
    wait_until(lambda: not running(tmp_path / "prepared"))
    assert _sessions_of(child.pid) == []


@pytest.mark.slow
def test_the_next_ray_removes_what_a_killed_one_left(nursery, tmp_path):
    child = nursery.start("tests.support.shard_work:run_on_ray", str(tmp_path), "5")
    child.wait_until(lambda: len([*tmp_path.glob("begun-*")]) == 2, 200)
    child.signal(signal.SIGKILL)
    child.wait()
    assert len(_sessions_of(child.pid)) == 1
    (tmp_path / "next").mkdir()
    following = nursery.start("tests.support.shard_work:run_on_ray", str(tmp_path / "next"), "0")
    assert following.wait() == 0
    assert (_sessions_of(child.pid), _sessions_of(following.pid)) == ([], [])


def _sessions_of(pid: int) -> list[Path]:
    """Folders of Ray that this process has started."""
    return [*Path("/tmp/ray").glob(f"session_2*_{pid}")]
