"""`wordpipe report`: a page on all that is in a folder, whatever state it is in."""

import json
import re
import shutil

import pytest

import wordpipe
from tests.support.configs import small_config
from wordpipe.errors import ConfigError, InputError, StorageError
from wordpipe.stages import sample_answers


@pytest.fixture
def project(handbook, tmp_path, monkeypatch):
    """A config of two stages that were made, and one that was not."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wordpipe.toml").write_text(
        small_config("corpus", "tokens", "words", corpus={"inputs": [str(handbook)]}, tokens={"vocab_size": 600})
    )
    wordpipe.run(last="tokens")
    return tmp_path


def test_a_whole_pipeline(built, tmp_path):
    made = wordpipe.report(built, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert made["artifacts"] == 8
    assert (made["stale"], made["damaged"], made["missing"], made["notes"]) == ([], [], [], [])
    assert made["bytes"] == len(page.encode())
    for name in ("corpus", "tokens", "words", "model", "sentences", "clusters", "predictions", "index"):
        assert f"<b><bdi>{name}</bdi></b>" in page
    flow = page[page.index('id="flow"') :]
    places = [flow.index(f"<b><bdi>{name}") for name in ("corpus", "tokens", "words", "model", "sentences", "index")]
    assert places == sorted(places)
    for section in (
        "Flow",
        "Counts",
        "Tokenizers",
        "Training",
        "Quality",
        "Index",
        "Sample questions",
        "Texts",
        "Settings",
        "Sources",
        "Versions",
    ):
        assert f">{section}</h2>" in page
    assert "Every file was compared with its hash." in page
    assert wordpipe.report(built, tmp_path / "again.html")["bytes"] == made["bytes"]
    assert (tmp_path / "again.html").read_text() == page


def test_indexes_are_asked_dates_and_clusters_are_told(built, tmp_path):
    rows = [
        {
            "title": f"Note {n} of the tide",
            "text": f"Salt water, note {n}.",
            "year": 1990 + n,
            "day": f"2024-05-{n + 1:02}",
        }
        for n in range(9)
    ]
    wordpipe.ingest(rows, output=tmp_path / "run" / "corpus", metadata=["year", "day:date"])
    wordpipe.index(tmp_path / "run" / "corpus", output=tmp_path / "run" / "index")
    for n in range(3):
        (tmp_path / "run" / f"more-{n}").symlink_to(tmp_path / "run" / "index")
    (tmp_path / "run" / "clusters").symlink_to(built / "clusters")
    made = wordpipe.report(tmp_path / "run", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert made["notes"] == ["more-2 was not asked sample questions: only the first 3 indexes are"]
    assert (
        page.count("<figcaption><bdi>Note 0 of the tide</bdi></figcaption><ol><li><b><bdi>Note 0 of the tide</bdi></b>")
        == 3
    )
    assert "<td>1990</td><td>1998</td>" in page
    assert "<td>2024-05-01</td><td>2024-05-09</td>" in page
    with wordpipe.open(built / "clusters") as clusters:
        sizes = [size for batch in clusters.batches(["size"]) for size in batch.column("size").to_pylist()]
    assert [int(one) for one in re.findall(r"</bdi></th><td class=n>(\d+)</td><td class=wide>", page)] == sizes


def test_an_index_that_cannot_be_asked_is_reported(built, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise InputError("the encoder is gone", where=tmp_path / "run" / "index")

    monkeypatch.setattr("wordpipe.pipeline.report.sample_answers", fails)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "index").symlink_to(built / "index")
    made = wordpipe.report(tmp_path / "run", tmp_path / "report.html")
    assert made["notes"] == ["index was not asked sample questions: index: the encoder is gone"]
    page = (tmp_path / "report.html").read_text()
    assert "index was not asked sample questions" in page
    assert "Sample questions" not in page


def test_the_config_says_what_is_stale_and_what_is_missing(project, cli):
    found = json.loads(cli("report", "run", "-o", "report.html", "--json").out)
    assert (found["stale"], found["missing"]) == ([], ["words"])
    assert "fresh" in (project / "report.html").read_text()
    config = project / "wordpipe.toml"
    config.write_text(config.read_text().replace("600", "700"))
    done = cli("report", "run", "-o", "report.html", "--force")
    assert "stale: tokens" in done.err
    assert "not made: words" in done.err
    page = (project / "report.html").read_text()
    assert "tokens.vocab_size 600 → 700" in page
    assert "The config wordpipe.toml decides which artifacts are fresh or stale." in page
    config.write_text("[stage.tokens]\nnonsense = 1\n")
    found = json.loads(cli("report", "run", "-o", "report.html", "--force", "--json").out)
    assert "wordpipe.toml could not be read, so the report cannot tell which stages are stale" in found["notes"][0]
    assert cli("report", "run", "-o", "report.html", "--force", "--config", "wordpipe.toml").code == 2


def test_artifacts_say_themselves_what_changed(chain, handbook, tmp_path):
    wordpipe.ingest(handbook, output=chain / "corpus", documents="line", first_line_title=False)
    made = wordpipe.report(chain, tmp_path / "report.html")
    assert "tokens" in made["stale"]
    assert "index" in made["stale"]
    assert "corpus has changed since" in (tmp_path / "report.html").read_text()


def test_what_is_damaged_or_foreign_is_said_and_the_rest_reported(chain, tmp_path):
    with (chain / "words" / "words-00000.parquet").open("ab") as file:
        file.write(b"x")
    (chain / "tokens" / "manifest.json").write_text('{"name": "an app of somebody else"}')
    (chain / "clusters" / "manifest.json").write_bytes(b"\x00\xff")
    shutil.rmtree(chain / "corpus")
    with (chain / "model" / "steps.parquet").open("r+b") as file:  # a log; of the right size
        file.write(b"rubbish")
    evaluation = {"evaluated": "sts", "data": "x", "metrics": {"spearman": 0.5}}
    (chain / "sts.json").write_text(json.dumps(evaluation))
    (chain / "bad.json").write_text('{"metrics": ')
    (chain / "other.json").write_text('{"metrics": 1}')
    made = wordpipe.report(chain, tmp_path / "report.html")
    assert sorted(made["damaged"]) == ["clusters", "model", "tokens", "words"]
    assert made["notes"] == ["bad.json is left out: not JSON"]
    page = (tmp_path / "report.html").read_text()
    assert "wrong size" in page
    assert "Spearman" in page
    run = wordpipe.RunOptions(verify=False)
    assert "model" not in wordpipe.report(chain, tmp_path / "report.html", run=run)["damaged"]


def test_a_part_of_a_pipeline_and_one_artifact(chain, tmp_path):
    for name in ("corpus", "words", "model", "sentences", "clusters", "predictions", "index"):
        shutil.rmtree(chain / name)
    assert wordpipe.report(chain, tmp_path / "report.html")["artifacts"] == 1
    assert wordpipe.report(chain / "tokens", tmp_path / "one.html")["artifacts"] == 1
    assert "<h1><bdi>tokens</bdi></h1>" in (tmp_path / "one.html").read_text()


def test_names_of_files_are_text(chain, tmp_path):
    (chain / "index").rename(chain / "<script>alert(1)")
    wordpipe.report(chain, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_refusals(built, tmp_path):
    with pytest.raises(InputError, match="the folder does not exist"):
        wordpipe.report(tmp_path / "nowhere", tmp_path / "report.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="does not contain any artifacts"):
        wordpipe.report(tmp_path / "empty", tmp_path / "report.html")
    with pytest.raises(ConfigError, match="the output of a report must be a file"):
        wordpipe.report(built, tmp_path)
    with pytest.raises(ConfigError, match="inside another artifact"):
        wordpipe.report(built, built / "index" / "report.html")
    with pytest.raises(ConfigError, match="a report can be made only for a local folder"):
        wordpipe.report("s3://bucket/run", tmp_path / "report.html")
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(ConfigError, match="the output exists already"):
        wordpipe.report(built, tmp_path / "report.html", replace=False)
    with pytest.raises(StorageError):
        wordpipe.report(built, "/dev/full")
    assert (tmp_path / "report.html").read_text() == "old"


def test_a_passage_of_a_long_text_says_where_it_goes_on(tmp_path):
    beginning = " ".join(f"Word{n} stands before." for n in range(14))
    topics = ["rusty kettle", "salty bread", "quiet harbour", "winter beehive"]
    rows = [{"title": one.title(), "text": f"{beginning} A {one} is here. {beginning}"} for one in topics]
    wordpipe.ingest(rows, output=tmp_path / "corpus", valid=0)
    wordpipe.index(tmp_path / "corpus", output=tmp_path / "index")
    passages = {
        "".join(piece for piece, _ in answer["pieces"])
        for sample in sample_answers(tmp_path / "index")
        for answer in sample["answers"]
    }
    assert any(one.startswith("… ") for one in passages)
    assert all(one.startswith("… ") or one.endswith(" …") for one in passages)
