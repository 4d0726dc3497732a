"""`init`: a config that runs, begun with what was measured best, for texts and for records of any format."""

import csv
import gzip
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wordpipe import RunOptions
from wordpipe.errors import InputError
from wordpipe.pipeline import CONFIG, WHY, Pipeline, init_project, run_pipeline

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
RECORDS = [
    {
        "id": n, "headline": f"Harbour {n}", "body": f"The tide {n} comes in and the boats of harbour {n} rise with it.",
        "year": 1990 + n, "price": n / 3, "open": n % 2 == 0, "url": f"https://example.org/{n}", "parts": [n], "empty": None,
    }
    for n in range(40)
]  # fmt: skip


def jsonl(records=RECORDS):
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def table(delimiter):
    names = ["id", "headline", "body", "year", "price", "url"]
    file = io.StringIO()
    writer = csv.DictWriter(file, names, delimiter=delimiter, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(RECORDS)
    return file.getvalue().encode()


def parquet():
    names = ["id", "headline", "body", "year", "price", "open", "url", "parts"]
    buffer = io.BytesIO()
    pq.write_table(pa.table({name: [record[name] for record in RECORDS] for name in names}), buffer)
    return buffer.getvalue()


def test_the_figures_for_the_default_are_the_measured_ones():
    result = json.loads((RESULTS / "retrieval.json").read_text())
    left_out = [one["ndcg_at_10"] for one in result["leave_one_out"].values()]
    assert f"(0 to 100): {100 * sum(left_out) / len(left_out):.1f} with hybrid search" in WHY
    twice = result["controls"]["mean"]["bm25_twice"]
    assert f"; {100 * result['mean']['bm25']:.1f} with words only (BM25);" in WHY
    assert f" {100 * twice:.1f} with words only and a second search" in WHY
    assert len(left_out) == 4


def test_a_new_project_reads_and_says_what_it_takes(tmp_path):
    project = init_project(tmp_path / "new")
    assert [(path.name, is_new) for path, is_new in project.files] == [(CONFIG, True), ("Makefile", True)]
    stages = Pipeline(tmp_path / "new" / CONFIG).stages
    assert [stage.command.name for stage in stages] == ["ingest", "index", "tokenize", "train static", "embed", "index"]
    assert (stages[1].name, stages[1].settings) == ("words-index", {"unit": "window"})
    assert stages[3].settings == {"goal": "search", "false_negatives": "keep"}
    assert (tmp_path / "new" / "texts").is_dir()
    assert project.is_assumed
    assert 1 < project.estimate.seconds[0] < project.estimate.seconds[1]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl", "a.parquet", "a.pdf"])
def test_files_without_a_byte_are_refused_before_anything_is_written(tmp_path, name):
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / name).touch()
    for source in (folder / name, folder):
        with pytest.raises(InputError, match="the file is empty") as refused:
            init_project(tmp_path / "new", source=source)
        assert (str(refused.value.where), refused.value.hint) == (str(folder / name), "give files that contain text")
    assert not (tmp_path / "new").exists()
    (folder / "b.txt").touch()
    with pytest.raises(InputError, match="all of these 2 files are empty"):
        init_project(tmp_path / "new", source=[folder / name, folder / "b.txt"])
    (folder / "b.txt").write_text("The tide comes in.")
    assert init_project(tmp_path / "new", source=folder).text_bytes == len("The tide comes in.")


def test_empty_files_in_the_folder_of_a_new_project_are_as_none(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").touch()
    assert init_project(tmp_path).is_assumed


def test_an_encoder_from_elsewhere_stands_in_the_place_of_a_trained_one(tmp_path, cli):
    folder = tmp_path / "brought"
    folder.mkdir()
    (folder / "modules.json").write_text("[]")
    result = cli("init", tmp_path / "new", "--encoder", folder)
    assert result.code == 0, result.err
    stages = Pipeline(tmp_path / "new" / CONFIG).stages
    assert [stage.command.name for stage in stages] == ["ingest", "index", "import", "embed", "index"]
    assert (stages[2].name, stages[2].inputs, stages[3].inputs) == ("encoder", ("../brought",), ("encoder", "corpus"))
    assert "# [stage.tokens]" in (tmp_path / "new" / CONFIG).read_text()
    wrong = cli("init", tmp_path / "other", "--encoder", tmp_path)
    assert (wrong.code, "not a folder with a text encoder" in wrong.err) == (2, True)
    assert not (tmp_path / "other").exists()


def test_files_that_exist_are_left_alone(tmp_path):
    (tmp_path / "Makefile").write_text("mine")
    assert [is_new for _, is_new in init_project(tmp_path).files] == [True, False]
    assert (tmp_path / "Makefile").read_text() == "mine"
    again = init_project(tmp_path)
    assert [is_new for _, is_new in again.files] == [False, False]
    assert again.estimate is None


def test_the_commented_stages_read_too(tmp_path):
    init_project(tmp_path)
    text = (tmp_path / CONFIG).read_text()
    keys = ("# [stage.", "# command", "# inputs", "# dim", "# preset", "# epochs")
    lines = [line.removeprefix("# ") if line.startswith(keys) else line for line in text.splitlines()]
    (tmp_path / CONFIG).write_text("\n".join(lines))
    assert {stage.name for stage in Pipeline(tmp_path / CONFIG).stages} >= {"words", "model"}


@pytest.mark.parametrize(
    ("name", "data", "metadata"),
    [
        ("r.jsonl", jsonl(), None),
        ("r.jsonl.gz", gzip.compress(jsonl()), None),
        ("r.csv", table(","), {"year:int", "price:float", "url"}),
        ("r.tsv", table("\t"), {"year:int", "price:float", "url"}),
        ("r.parquet", parquet(), None),
    ],
)
def test_fields_of_records_are_recognised(tmp_path, name, data, metadata):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_bytes(data)
    for source in (tmp_path / "data" / name, tmp_path / "data"):
        folder = tmp_path / f"of-{source.name}"
        project = init_project(folder, source=source)
        corpus = Pipeline(folder / CONFIG).stages[0]
        assert corpus.inputs == (f"../{source.relative_to(tmp_path)}",)
        assert corpus.settings["text_field"] == "body"
        assert corpus.settings["title_field"] == "headline"
        assert corpus.settings["id_field"] == "id"
        if metadata is None:  # the fields have types: all are carried
            assert "metadata" not in corpus.settings
        else:
            assert metadata <= set(corpus.settings["metadata"])
        assert project.others == ()
        assert Pipeline(folder / CONFIG).stages[4].settings["unit"] == "document"
        assert Pipeline(folder / CONFIG).stages[3].settings == {"goal": "search"}
        assert not (folder / "texts").exists()
        made = run_pipeline(folder / CONFIG, last="corpus")
        assert made[0].counts["documents_kept"] == 40


def test_the_longest_string_is_the_text_where_no_name_says_so(tmp_path):
    records = [{"a": "short", "b": "a much longer text " * 200, "n": 3} for _ in range(3)]
    (tmp_path / "r.jsonl").write_bytes(jsonl(records))
    project = init_project(tmp_path / "p", source=tmp_path / "r.jsonl")
    assert project.settings["text_field"] == "b"
    assert project.settings["unit"] == "window"  # long records are cut into passages
    assert "title_field" not in project.settings


def test_a_field_that_may_be_the_id_is_written_as_a_comment(tmp_path, cli):
    rows = [
        {"code": f"R{n}", "name": "Soup", "text": f"Boil it for {n} minutes.", "seen": "" if n else "x"}
        for n in range(5)
    ]
    (tmp_path / "r.jsonl").write_bytes(jsonl(rows))
    project = init_project(tmp_path / "p", source=tmp_path / "r.jsonl")
    assert (project.id_like, "id_field" in project.settings) == ("code", False)
    config = tmp_path / "p" / CONFIG
    why = (
        "no field is called id, but this field has a different value in each of the first records; "
        "search results show the id"
    )
    assert f'\n# id_field = "code"  # {why}\n' in config.read_text()
    config.write_text(config.read_text().replace("# id_field", "id_field"))
    assert Pipeline(config).stages[0].settings["id_field"] == "code"
    said = 'no field is called id, but "code" differs in each of the first records; to use it: id_field = "code"'
    assert said in " ".join(cli("init", tmp_path / "q", "--from", tmp_path / "r.jsonl").err.split())
    (tmp_path / "r.jsonl").write_bytes(jsonl([row | {"code": "R"} for row in rows]))
    assert "if another field contains ids" in " ".join(
        cli("init", tmp_path / "r", "--from", tmp_path / "r.jsonl").err.split()
    )
    assert '\n# id_field = "NAME"  # no field is called id, so replace NAME' in (tmp_path / "r" / CONFIG).read_text()


def test_several_sources(tmp_path, cli):
    (tmp_path / "garden.md").write_text("# Soil\n\nDig it over in autumn.\n")
    (tmp_path / "r.jsonl").write_bytes(jsonl())
    made = cli("init", tmp_path / "p", "--from", tmp_path / "garden.md", "--from", tmp_path / "r.jsonl")
    assert re.search(r"these are the fields of \S*r\.jsonl\n", made.err)
    corpus = Pipeline(tmp_path / "p" / CONFIG).stages[0]
    assert corpus.inputs == ("../garden.md", "../r.jsonl")
    assert corpus.settings["text_field"] == "body"
    assert run_pipeline(tmp_path / "p" / CONFIG, last="corpus")[0].counts["documents_kept"] == 41


def test_a_file_in_the_place_of_the_folder(tmp_path, cli):
    (tmp_path / "r.jsonl").write_bytes(jsonl())
    made = cli("init", tmp_path / "r.jsonl")
    assert (made.code, "this is a file" in made.err) == (2, True)
    assert f"hint: wordpipe init --from {tmp_path / 'r.jsonl'}" in made.err


def test_names_that_toml_must_quote_come_back(tmp_path):
    name = 'te"xt \\ ünï 😀'
    (tmp_path / "r.jsonl").write_bytes(jsonl([{name: "some longer text", "\ud800": "x"}]))
    init_project(tmp_path / "p", source=tmp_path / "r.jsonl")
    assert Pipeline(tmp_path / "p" / CONFIG).stages[0].settings["text_field"] == name


@pytest.mark.parametrize("data", [b'{"n": 3}\n', b"[1]\n", b"\n", b"{" * 90_000])
def test_records_without_text_are_refused(tmp_path, data):
    (tmp_path / "r.jsonl").write_bytes(data)
    with pytest.raises(InputError, match="no field of the first records contains text"):
        init_project(tmp_path / "p", source=tmp_path / "r.jsonl")
    assert not (tmp_path / "p").exists()


def test_what_is_not_parquet_is_refused(tmp_path):
    (tmp_path / "r.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match="not Parquet"):
        init_project(tmp_path / "p", source=tmp_path / "r.parquet")


def test_a_source_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        init_project(tmp_path / "p", source=tmp_path / "nothing")


def test_only_the_beginning_of_a_large_file_is_looked_at(tmp_path):
    with (tmp_path / "r.jsonl").open("wb") as file:
        file.write(jsonl())
        file.write(b'{"body": "' + b"x" * 3_000_000 + b'"}\n')
        file.write(b"not JSON at all\n")
    assert init_project(tmp_path / "p", source=tmp_path / "r.jsonl").settings["text_field"] == "body"


@pytest.mark.parametrize(
    ("block", "is_titled"),
    [
        ("Old mills\nA mill by the river ground corn until the flood.\nIt stands still.", True),
        ("Old mills\r\nA mill by the river ground corn until the flood.\r\n", True),
        ("A mill stands.\nA mill by the river ground corn until the flood.", False),  # a sentence
        ("The mill by the river\nground corn for the town", False),  # lines as long as each other
        ("A mill by the river ground corn until the flood.", False),
    ],
)
def test_titles_of_blocks_are_seen(tmp_path, block, is_titled):
    text = tmp_path / "t.txt"
    text.write_text("\n\n".join([block] * 12), newline="")
    settings = init_project(tmp_path / "p", source=text).settings
    assert settings == {"inputs": ["../t.txt"], "documents": "block"} | (
        {"first_line_title": True} if is_titled else {}
    )
    text.write_text(block)  # of so few blocks nothing is known
    assert init_project(tmp_path / "q", source=text).settings == {"inputs": ["../t.txt"], "documents": "block"}


def test_titles_of_long_blocks_are_seen(tmp_path):
    """An article of an encyclopedia is longer than what tells the format."""
    text = tmp_path / "t.txt"
    text.write_text("\n\n".join(["Old mills\n" + "A mill by the river ground corn until the flood.\n" * 900] * 6))
    assert init_project(tmp_path / "p", source=text).settings["first_line_title"] is True


def test_texts_of_a_folder(tmp_path, handbook):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_bytes(handbook.read_bytes())
    project = init_project(tmp_path, source=tmp_path / "notes")
    # so few files are parted at blank lines, and their blocks have titles
    assert project.settings == {"inputs": ["notes"], "documents": "block", "first_line_title": True}
    for number in range(30):
        (tmp_path / "notes" / f"{number}.txt").write_text("a text")
    assert init_project(tmp_path / "p", source=tmp_path / "notes").settings == {"inputs": ["../notes"]}
    own = tmp_path / "q" / "texts"
    own.mkdir(parents=True)
    (own / "a.txt").write_bytes(handbook.read_bytes())
    assert init_project(tmp_path / "q").settings == {
        "inputs": ["texts"],
        "documents": "block",
        "first_line_title": True,
    }
    (tmp_path / "r" / "texts").mkdir(parents=True)
    (tmp_path / "r" / "texts" / "a.jsonl").write_text("[]")  # nothing that can be read yet
    assert init_project(tmp_path / "r").settings == {}
    assert project.text_bytes == handbook.stat().st_size
    assert not project.is_assumed


@pytest.mark.slow
def test_a_new_project_runs_from_nothing(tmp_path, handbook, cli, monkeypatch):
    assert cli("init", tmp_path / "p").code == 0
    (tmp_path / "p" / "texts" / "a.txt").write_bytes(handbook.read_bytes())  # one file, so one document
    monkeypatch.chdir(tmp_path / "p")
    assert cli("run").code == 0
    assert "nothing to do" in cli("run").err
    assert "Why bread rises" in cli("query", "run/index", "how does bread rise").out
    assert all(state.fresh for state in Pipeline().states())
    assert list(Pipeline().run(RunOptions()))
    (tmp_path / "r.jsonl").write_bytes(jsonl())
    assert cli("init", tmp_path / "q", "--from", tmp_path / "r.jsonl").code == 0
    monkeypatch.chdir(tmp_path / "q")
    assert cli("run").code == 0
    assert "harbour 12" in cli("query", "run/index", "harbour 12", "--where", "year = 2002").out
