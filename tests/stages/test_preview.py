"""`ingest --dry-run`: what would be read and what would be passed over, by kind; nothing is written."""

import gzip
import json
import re

import pytest

import wordpipe
from wordpipe.corpus import expand
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.pipeline import CONFIG, init_project
from wordpipe.stages import preview, preview_of
from wordpipe.wording import human_bytes

FILES = {
    "a.md": b"# Bees\n\nThey dance.\n",
    "b.txt": b"Wasps do not.\n",
    "README": b"Read this first.\n",
    "letters": b"Message-ID: <1@example.org>\nFrom: ada@example.org\nSubject: Bees\n\nThey dance.\n",
    "made.conf": b"colour = red\n",
    "blob.bin": bytes(range(256)),
    "noise": bytes(range(256)),
    "old.doc": b"\xd0\xcf\x11\xe0" + bytes(20),
    "wide.csv": b"name,text\nbee,It dances.\n",
    "page.pdf": b"%PDF-1.4\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name, data in FILES.items():
        (tmp_path / "in" / name).write_bytes(data)
    (tmp_path / "in" / ".hidden").write_bytes(b"x")
    return tmp_path / "in"


def test_kinds_are_counted_and_ways_are_said(folder, tmp_path, cli):
    seen = preview(["in"])
    assert {kind.title: kind.files for kind in seen.kinds} == {
        "Markdown": 1, "plain text": 2, "mail": 1, "CSV": 1, "PDF": 1,
    }  # fmt: skip
    assert seen.bytes == sum(len(FILES[n]) for n in ("a.md", "b.txt", "README", "letters", "wide.csv", "page.pdf"))
    passed = {one.kind: (one.files, one.bytes, one.way) for one in seen.passed_over}
    assert passed == {
        ".conf": (1, 13, "--include '*.conf'"),
        ".bin": (1, 256, ""),
        "without ending": (1, 256, ""),
        "hidden": (1, 1, ""),
        ".doc": (1, 24, passed[".doc"][2]),
    }
    assert "soffice --headless --convert-to txt:Text in/old.doc" in passed[".doc"][2]
    # the same for a shell, and nothing is written
    before = sorted(tmp_path.rglob("*"))
    shown = cli("ingest", "in", "--dry-run")
    assert shown.code == 0
    assert "6 files would be read" in shown.out
    assert "5 files would be passed over" in shown.out
    assert re.search(r"\.conf +1 +13 B +--include '\*\.conf'", shown.out)
    printed = json.loads(cli("ingest", "in", "--dry-run", "--json").out)
    assert printed == seen.to_json() | {"estimate": printed["estimate"]}
    assert sorted(tmp_path.rglob("*")) == before
    # what the option says is so
    assert preview(["in"], include="*.conf").files == seen.files + 1
    # and in Python, with one source as a path
    assert wordpipe.preview(folder, include=["*.conf"]).files == seen.files + 1
    with pytest.raises(ConfigError, match="text_feild"):
        wordpipe.preview("in", text_feild="x")


def test_a_long_list_of_kinds_is_cut_for_people_alone(folder, cli):
    for number in range(20):
        (folder / f"some.k{number}").write_bytes(b"Some words.\n")
    assert "and 13 files of 13 other kinds; to list all kinds: --json" in cli("ingest", "in", "--dry-run").out
    assert len(json.loads(cli("ingest", "in", "--dry-run", "--json").out)["passed_over"]) == 25


def test_the_pattern_that_is_offered_finds_the_files(folder):
    (folder / "a.Debian.gz").write_bytes(gzip.compress(b"Some words about a package.\n"))
    (way,) = (one.way for one in preview(["in"]).passed_over if one.kind == ".debian")
    assert way == "--include '*.Debian.gz'"
    assert preview(["in"], include="*.Debian.gz").files == preview(["in"]).files + 1


def test_files_that_cannot_be_read_are_named(folder, monkeypatch):
    found = expand(["in"])
    (folder / "letters").unlink()
    seen = preview_of(found, IngestSettings())
    assert seen.unreadable == {"the file no longer exists": ["in/letters"]}
    wordpipe.ingest([{"text": "Bees."}], output="corpus")
    with pytest.raises(ArtifactError, match="not a source of text"):
        preview(["corpus"])


def test_a_library_that_is_missing_is_named_with_its_command(folder, monkeypatch):
    monkeypatch.setattr("wordpipe.stages.corpus.preview.find_spec", lambda name: None)
    missing = {kind.title: kind.missing for kind in preview(["in"]).kinds}
    assert missing["PDF"] == "pip install 'wordpipe[documents]'"
    assert missing["CSV"] == ""


def test_a_folder_of_many_kinds_names_no_fields(folder, tmp_path, cli):
    project = init_project("p", source="in")
    assert project.settings == {"inputs": ["../in"], "unit": "window"}
    assert 'unit = "window"' in (tmp_path / "p" / CONFIG).read_text()
    assert 'false_negatives = "keep"' in (tmp_path / "p" / CONFIG).read_text()
    said = cli("init", "q", "--from", "in").err
    assert "6 files would be read" in said
    assert "5 files would be passed over" in said
    size = human_bytes(wordpipe.preview("in").bytes)
    assert f"6 files would be read, {size}:" in said
    assert f"estimate for these {size} of files: " in said
    # nor does a folder of tables with different fields; of like tables it does
    (tmp_path / "tables").mkdir()
    for name, field in (("a", "text"), ("b", "text")):
        (tmp_path / "tables" / f"{name}.csv").write_text(f"name,{field}\nbee,It dances in the sun.\n")
    assert init_project("r", source="tables").settings["text_field"] == "text"
    (tmp_path / "tables" / "b.csv").write_text("name,body\nbee,It dances in the sun.\n")
    assert "text_field" not in init_project("s", source="tables").settings
