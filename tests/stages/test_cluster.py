"""`wordpipe cluster`: what its tables hold, what it says, and what it refuses."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wordpipe
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, sentences_schema, vector_column
from wordpipe.cli.query_answers import cells_of, piped_line
from wordpipe.errors import ConfigError, InputError
from wordpipe.settings import Settings
from wordpipe.stages import open_job

DIM = 24
TOPICS = {
    "sea": "the tide and the moon at sea",
    "bread": "flour and yeast in the bread",
    "code": "a loop over the list of code",
}


class _None(Settings):
    """No settings."""


@pytest.fixture
def sentences(tmp_path):
    """300 texts of three topics, each near one of three directions, with ids of the user."""
    rng = np.random.default_rng(1)
    centres = np.linalg.qr(rng.standard_normal((DIM, 3)))[0].T
    of = rng.choice(3, 300, p=[0.5, 0.3, 0.2])
    vectors = centres[of] + 0.05 * rng.standard_normal((300, DIM))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return write(
        tmp_path / "s", [f"{list(TOPICS.values())[t]} {i}" for i, t in enumerate(of)], vectors.astype(np.float32)
    ), of


def write(path, texts, vectors):
    schema = sentences_schema(vectors.shape[1], pa.schema([pa.field("record_id", pa.string())]))
    n = len(texts)
    columns = {
        "doc_id": [f"{i:020x}" for i in range(n)], "title": [None] * n, "text": texts, "source": ["x"] * n,
        "line": list(range(1, n + 1)), "record_id": [f"id{i}" for i in range(n)], schema.names[0]: list(range(n)),
    }  # fmt: skip
    with open_job("sentences", path, _None(), None) as job:
        with job.table("sentences", schema) as table:
            arrays = [
                vector_column(vectors) if f.name == "vector" else pa.array(columns[f.name], f.type) for f in schema
            ]
            table.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        job.facts = {"dim": vectors.shape[1]}
    return path


def tables(path):
    return (pq.read_table(sorted(path.glob(f"{stem}-*.parquet"))[0]).to_pylist() for stem in ("clusters", "members"))


@pytest.mark.parametrize("k", [3, "auto"])
def test_planted_topics_are_found_named_and_shown(sentences, tmp_path, k):
    path, of = sentences
    made = wordpipe.cluster(path, output=tmp_path / "c", k=k)
    assert (made.kind, made.counts) == ("clusters", {"texts": 300, "clusters": 3})
    clusters, members = tables(tmp_path / "c")
    sizes = np.bincount(of, minlength=3)
    assert [c["size"] for c in clusters] == sorted(sizes.tolist(), reverse=True)
    assert [c["cluster"] for c in clusters] == [0, 1, 2]
    assert sum(c["share"] for c in clusters) == pytest.approx(1)
    topic_of = np.argsort(-sizes)
    assert [topic_of[m["cluster"]] for m in members] == of.tolist()
    assert [(m["row"], m["record_id"], m["doc_id"], m["source"], m["line"]) for m in members[:2]] == [
        (0, "id0", "0" * 20, "x", 1),
        (1, "id1", f"{1:020x}", "x", 2),
    ]
    assert members[7]["text"] == f"{list(TOPICS.values())[of[7]]} 7"
    for cluster, topic in zip(clusters, topic_of, strict=True):
        words = set(cluster["label"].split(", "))
        assert words & set(list(TOPICS.values())[topic].split())
        assert not words & {"the", "and", "of", "in"}
        own = sorted((-m["similarity"], m["row"]) for m in members if m["cluster"] == cluster["cluster"])
        assert cluster["central_rows"] == [row for _, row in own[:3]]
        assert cluster["central"][0].startswith(list(TOPICS.values())[topic])
        assert np.linalg.norm(cluster["vector"]) == pytest.approx(1, abs=1e-5)


def test_a_row_is_in_the_cluster_whose_centre_is_nearest(sentences, tmp_path):
    wordpipe.cluster(sentences[0], output=tmp_path / "c", k=17)
    clusters, members = tables(tmp_path / "c")
    vectors = np.array(pq.read_table(next(sentences[0].glob("sentences-*.parquet")))["vector"].to_pylist())
    cosines = vectors @ np.array([c["vector"] for c in clusters]).T
    own = np.array([m["cluster"] for m in members])
    assert np.allclose(cosines[np.arange(len(own)), own], cosines.max(axis=1), atol=1e-6)
    assert np.allclose([m["similarity"] for m in members], cosines.max(axis=1), atol=1e-6)
    assert np.bincount(own).tolist() == [c["size"] for c in clusters]
    assert min(c["size"] for c in clusters) >= 1


def test_it_has_the_same_bytes_every_time_and_another_seed_may_not(sentences, tmp_path):
    digests = [wordpipe.cluster(sentences[0], output=tmp_path / name, k=9, threads=1).digest for name in "ab"]
    assert digests[0] == digests[1]
    assert wordpipe.verify(tmp_path / "a")["ok"]
    with Artifact(tmp_path / "a") as found:
        assert found.manifest.bitwise
        assert found.manifest.settings["k"] == 9


def test_a_text_that_comes_again_is_one_central_text_and_clusters_without_text_are_none(tmp_path):
    vectors = np.repeat(np.eye(2, DIM, dtype=np.float32), 10, axis=0)
    notes = []
    run = RunOptions(report=lambda progress: notes.append(progress.note) if progress.note else None)
    made = wordpipe.cluster(
        write(tmp_path / "s", ["sea"] * 10 + ["bread"] * 10, vectors), output=tmp_path / "c", k=5, run=run
    )
    clusters, _ = tables(tmp_path / "c")
    assert sorted(tuple(c["central"]) for c in clusters) == [("bread",), ("sea",)]
    assert made.counts["clusters"] == 2
    assert any("only 2 of 5 clusters contain texts" in note for note in notes)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_very_few_texts_have_clusters_too(tmp_path, n):
    vectors = np.eye(n, DIM, dtype=np.float32)
    made = wordpipe.cluster(write(tmp_path / "s", [f"text {i}" for i in range(n)], vectors), output=tmp_path / "c")
    assert 1 <= made.counts["clusters"] <= n


def test_more_clusters_than_texts_and_numbers_of_no_clusters_are_refused(sentences, tmp_path):
    with pytest.raises(InputError, match="larger than the number of texts"):
        wordpipe.cluster(sentences[0], output=tmp_path / "c", k=301)
    for k in (0, -1, "many"):
        with pytest.raises(ConfigError):
            wordpipe.cluster(sentences[0], output=tmp_path / "c", k=k)
    assert not (tmp_path / "c").exists()


def test_the_memory_that_a_sample_takes_is_bounded(sentences, tmp_path, monkeypatch):
    from wordpipe.stages.encode import cluster_duplicates as stage

    monkeypatch.setattr(stage, "_SAMPLE_BYTES", 4 * DIM * 60)
    monkeypatch.setattr(stage, "_TEXTS_LABELLED", 50)
    made = wordpipe.cluster(sentences[0], output=tmp_path / "c", k=3)
    assert made.counts == {"texts": 300, "clusters": 3}
    with Artifact(tmp_path / "c") as found:
        assert (found.manifest.facts["sample"], found.manifest.facts["texts_labelled"]) == (60, 50)


def test_the_command_prints_the_clusters(sentences, tmp_path, cli, monkeypatch):
    path, _ = sentences
    result = cli("cluster", path, "-k", "3", "-o", tmp_path / "c")
    assert result.code == 0, result.err
    lines = [line.split("\t") for line in result.out.splitlines()]
    assert [len(line) for line in lines] == [6, 6, 6]  # cluster, size, words, text, place, id
    assert lines[0][0] == "0"
    clusters, _ = tables(tmp_path / "c")
    for cluster, line in zip(clusters, lines, strict=True):
        row = cluster["central_rows"][0]
        assert line[3:] == [cluster["central"][0], f"x:{row + 1}", f"id{row}"]
    assert result.err.splitlines()[-1] == f"next: wordpipe show {tmp_path / 'c'} --cluster 0"
    assert "3 clusters" in result.err
    made = json.loads(cli("cluster", path, "-k", "auto", "-o", tmp_path / "c", "--json").out)
    assert made["counts"]["clusters"] == 3
    assert cli("cluster", path, "-o", tmp_path / "d", "-q").out == ""
    assert cli("cluster", path, "-k", "x", "-o", tmp_path / "e").code == 2


def test_the_members_of_a_cluster_are_listed_the_nearest_first(sentences, tmp_path, cli):
    path, of = sentences
    wordpipe.cluster(path, output=tmp_path / "c", k=3)
    own = [m for m in list(tables(tmp_path / "c"))[1] if m["cluster"] == 1]
    own.sort(key=lambda m: (-m["similarity"], m["row"]))
    with wordpipe.open(tmp_path / "c", "clusters") as opened:
        assert isinstance(opened, wordpipe.OpenClusters)
        assert (len(opened), len(opened.labels)) == (3, 3)
        assert "3 clusters" in repr(opened)
        members = list(opened.members(1))
        assert [{"record_id" if name == "id" else name: m[name] for name in m} for m in members] == own
        assert list(opened.members(1, 2)) == members[:2]
        assert sum(len(list(opened.members(cluster))) for cluster in range(3)) == len(of)
        assert list(opened.members(-1)) == []  # all texts have a vector
        for wrong in (3, -2):
            with pytest.raises(ConfigError, match="the cluster does not exist"):
                opened.members(wrong)
    lines = cli("show", tmp_path / "c", "--cluster", 1).out.splitlines()
    assert [line.split("\t") for line in lines] == [
        [f"{m['similarity']:.4f}", m["text"], f"x:{m['line']}", m["record_id"]] for m in own
    ]
    some = cli("show", tmp_path / "c", "--cluster", 1, "--rows", 2, "--json").out.splitlines()
    assert [json.loads(line) for line in some] == members[:2]
    assert cli("show", tmp_path / "c", "--cluster", 3).code == 2
    assert cli("show", tmp_path / "c", "--cluster", 1, "--text", "x").code == 2
    refused = cli("show", path, "--cluster", 1)
    assert (refused.code, "wordpipe cluster" in refused.err) == (4, True)


def test_a_line_of_a_member_has_room_on_the_screen():
    hit = {
        "score": 0.5,
        "text": "東京 " * 60,
        "source": "a/very/long/way/to/the/file.txt",
        "line": 7,
        "row": 1,
        "id": "r1",
    }
    shown = piped_line(hit, 60)
    assert 50 < cells_of(shown) <= 60
    assert shown.startswith("0.5000  東京")
    assert shown.endswith("le.txt:7  r1")
    assert len(piped_line(hit, None).split("\t")) == 4


def test_it_is_a_stage_of_a_pipeline(sentences, tmp_path, cli):
    path, _ = sentences
    config = tmp_path / "p.toml"
    config.write_text(f'workdir = "run"\n[stage.groups]\ncommand = "cluster"\ninputs = ["{path}"]\nk = 3\n')
    assert cli("run", config).code == 0
    assert cli("status", config).out.startswith("fresh")
    assert (tmp_path / "run" / "groups" / "manifest.json").exists()
