"""A folder that somebody else filled: no file stops the reading; each that cannot be read is counted and named."""

import gzip
import json
import os

import pyarrow.parquet as pq
import pytest

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.errors import ConfigError, InputError, StorageError
from wordpipe.stages import RunOptions, open_sources
from wordpipe.stages.corpus import ingest as stage

GZ = gzip.compress(b"".join(b"Line %d of a text about %d bees.\n" % (n, n * n) for n in range(3000)))
BAD = {
    "cut.txt.gz": (GZ[: len(GZ) // 2], "the gz stream is incomplete"),
    "fake.parquet": (b"PAR1 and no more", "not a valid Parquet file"),
    "fake.txt.gz": (b"this is no gzip", "the gz stream is damaged"),
    "numbers.csv": (b"a,b\n1,2\n", "the text field 'text' does not exist"),
    "packed.xlsx.gz": (GZ, "the file is damaged"),
    "squad.txt.zst": (b"\x28\xb5\x2f\xfd\x00\xf8" + bytes(20), "the zst stream is damaged"),
}
GOOD = {"a.txt": b"Bees dance.\n", "z.txt": b"Wasps do not.\n"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name, data in {**{name: data for name, (data, _) in BAD.items()}, **GOOD}.items():
        (tmp_path / "in" / name).write_bytes(data)
    return tmp_path / "in"


def texts_in(path):
    return sorted({row["source"] for part in path.glob("corpus-*.parquet") for row in pq.read_table(part).to_pylist()})


@pytest.mark.parametrize("source", ["in", "in/*"])
def test_no_file_of_a_folder_or_a_pattern_stops_the_reading_and_each_is_named(folder, source):
    made = wordpipe.ingest(source, output="c")
    assert texts_in(folder.parent / "c") == ["in/a.txt", "in/z.txt"]
    counted = {name: n for name, n in made.counts.items() if name.startswith("files_unreadable.")}
    assert counted == {f"files_unreadable.{what}": 1 for _, what in BAD.values()}
    with Artifact("c", ["corpus"]) as corpus:
        unreadable = corpus.manifest.facts["unreadable"]
    for name, (_, what) in BAD.items():
        assert unreadable[what][0].startswith(f"in/{name}")
        assert any(
            text.startswith(f"1 file could not be read: {what}: in/{name}") for text in made.to_json()["warnings"]
        )


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_named_is_an_error_unless_it_may_be_left_out(folder, name):
    with pytest.raises(InputError, match=BAD[name][1]):
        wordpipe.ingest(["in/a.txt", f"in/{name}"], output="c")
    made = wordpipe.ingest(["in/a.txt", f"in/{name}"], output="c", unreadable="skip")
    assert (made.counts["sources"], made.counts["documents_kept"]) in ((1, 1), (2, 1))
    assert made.counts[f"files_unreadable.{BAD[name][1]}"] == 1
    with pytest.raises(InputError, match=BAD[name][1]):  # of which nothing else is left
        wordpipe.ingest(f"in/{name}", output="c", unreadable="skip")


def test_error_stops_at_the_first_file_of_a_folder(folder):
    with pytest.raises(InputError, match=r"in/cut\.txt\.gz: the gz stream is incomplete"):
        wordpipe.ingest("in", output="c", unreadable="error")


def test_records_before_a_damaged_place_are_kept_and_counted(folder):
    rows = b"".join(json.dumps({"text": f"Bee {n} of {n * n}.", "n": n}).encode() + b"\n" for n in range(3000))
    packed = gzip.compress(rows)
    (folder / "many.jsonl.gz").write_bytes(packed[: len(packed) * 2 // 3])
    made = wordpipe.ingest("in", output="c")
    kept = made.counts["documents_kept"] - 2
    assert 0 < kept < 3000
    with Artifact("c", ["corpus"]) as corpus:
        told = corpus.manifest.facts["unreadable"]["the gz stream is incomplete"]
    assert told == ["in/cut.txt.gz", f"in/many.jsonl.gz ({kept:,} documents before this place kept)"]


def test_bad_records_of_a_folder_are_left_out_and_those_of_a_named_file_are_errors(folder):
    (folder / "bad.jsonl").write_text('{"text": "One."}\n{bad\n{"text": "Two."}\n')
    made = wordpipe.ingest("in", output="c")
    assert made.counts["records_skipped_not_json"] == 1
    assert any("in/bad.jsonl, line 2: the line is not valid JSON" in text for text in made.warnings)
    for source, given in (("in/bad.jsonl", {}), ("in", {"bad_records": "fail", "unreadable": "error"})):
        with pytest.raises(InputError):
            wordpipe.ingest(source, output="c", **given)
    # a bad record ends its file where none may be left out
    made = wordpipe.ingest("in", output="c", bad_records="fail")
    assert made.counts["files_unreadable.the line is not valid JSON"] == 1


def test_ids_that_nobody_named_cost_no_record(folder):
    for name in ("one.csv", "two.csv"):
        (folder / name).write_text(f"id,text\n1,First of {name}.\n2,Second of {name}.\n")
    made = wordpipe.ingest("in", output="c")
    assert made.counts["ids_dropped_repeated"] == 2
    assert made.counts["documents_kept"] == 6
    assert any("in/two.csv, line 2: two records have the same id" in text for text in made.warnings)
    made = wordpipe.ingest("in", output="c", id_field="id")
    assert made.counts["records_skipped_duplicate_id"] == 2
    with pytest.raises(InputError, match="two records have the same id"):
        wordpipe.ingest(["in/one.csv", "in/two.csv"], output="c")


def test_what_changes_between_hashing_and_reading_is_left_out_and_read_again_later(folder, monkeypatch):
    found = stage.sources_of

    def changed_after(names, settings):
        sources = found(names, settings)
        (folder / "z.txt").write_bytes(b"Hornets sing.\n")
        return sources

    with monkeypatch.context() as patch:
        patch.setattr(stage, "sources_of", changed_after)
        made = wordpipe.ingest("in", output="c")
    assert made.counts["files_unreadable.the file changed while it was read"] == 1
    made = wordpipe.ingest("in", output="c", update=True)
    assert (made.counts["sources_read_again"], made.counts["sources_copied"]) == (1, 7)
    assert texts_in(folder.parent / "c") == ["in/a.txt", "in/z.txt"]


def test_what_cannot_be_opened_or_listed_is_named(folder, monkeypatch):
    (folder / "sub").mkdir()
    (folder / "link.txt").symlink_to("nowhere")
    scan, access = os.scandir, os.access

    def no_scan(path="."):
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", no_scan)
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("z.txt") and access(path, mode))
    made = wordpipe.ingest("in", output="c")
    assert made.counts["files_unreadable.no permission to read this file"] == 1
    assert made.counts["files_unreadable.no permission to list this folder"] == 1
    with Artifact("c", ["corpus"]) as corpus:
        assert corpus.manifest.facts["not_read"] == {"broken link": 1}
    for source in ("in/z.txt", "in/sub"):
        with pytest.raises(StorageError, match="no permission"):
            wordpipe.ingest(source, output="c")


def test_update_and_workers_give_the_bytes_of_one_reading(folder, monkeypatch):
    monkeypatch.setattr(stage, "PART_BYTES", 400)
    for n in range(12):
        (folder / f"r{n}.jsonl").write_text(
            "".join(
                json.dumps({"id": k, "text": f"Bee {k} of {n} hives."}) + "\n{bad\n" * (k % 3 == n % 3)
                for k in range(30)
            )
        )
        (folder / f"r{n}.txt.gz").write_bytes(GZ[: 300 + n])
    found = {}
    for workers in (1, 2, 3):
        made = wordpipe.ingest("in", output=f"c{workers}", run=RunOptions(workers=workers))
        with Artifact(f"c{workers}", ["corpus"]) as corpus:
            found[workers] = made.digest, made.counts, made.warnings, corpus.manifest.facts["unreadable"]
    assert found[1] == found[2] == found[3]
    assert made.counts["files_unreadable.the gz stream is incomplete"] == 13
    # a bad file is mended, another one breaks
    (folder / "r3.txt.gz").write_bytes(GZ)
    (folder / "a.txt").write_bytes(b"Bees sing.")
    (folder / "r0.jsonl").write_text("{bad\n")
    updated = wordpipe.ingest("in", output="c1", update=True)
    anew = wordpipe.ingest("in", output="c2")
    assert updated.digest == anew.digest
    assert {name: n for name, n in updated.counts.items() if not name.startswith("sources_")} == anew.counts
    assert updated.warnings == anew.warnings


ODD = {
    "README": b"A readme about zebras.", "NEWS.Debian": b"News about yaks.",
    "letter": "Ein Brief über Gänse.".encode("cp1252"),
    "blob": bytes(range(256)) * 4, "empty": b"", "app.conf": b"heron = 1", "run.sh": b"echo ibis", "todo.py": b"x = 'newt'",
    "pic.png": b"\x89PNG\r\n\x1a\n" + bytes(90), "m.bin": bytes(900), "page.xml": b"<?xml version='1.0'?><p>okapi</p>",
    "a.rst.txt": b"Voles\n=====\n\nA vole digs.\n",
}  # fmt: skip


@pytest.fixture
def odd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name, data in ODD.items():
        (tmp_path / "in" / name).write_bytes(data)
    return tmp_path / "in"


def noted(**given):
    said = []
    wordpipe.ingest("in", output="c", run=RunOptions(report=lambda one: said.append(one.note)), **given)
    return [one for one in said if one]


def test_files_without_an_ending_are_read_if_they_are_text_and_the_others_are_counted(odd):
    said = noted()
    assert texts_in(odd.parent / "c") == ["in/NEWS.Debian", "in/README", "in/a.rst.txt", "in/letter"]
    (line,) = (one for one in said if "passed over" in one)
    counted, advice = line.split("; to read the text files among them: ")
    assert counted.startswith("7 files passed over: 1 .bin, 1 .conf, ")
    assert set(advice.removeprefix("--include ").strip("'").split(",")) == {"*.conf", "*.py", "*.sh"}
    # and the advice does it
    said = noted(include=advice.removeprefix("--include ").strip("'"))
    assert {"in/app.conf", "in/run.sh", "in/todo.py"} <= {*texts_in(odd.parent / "c")}
    assert any(one.startswith("4 files passed over: ") and "--include" not in one for one in said)


def test_what_is_included_can_have_a_format(odd):
    wordpipe.ingest("in", output="c", include="*.rst.txt:rst,*.xml:text,in/app.*")
    rows = pq.read_table("c/corpus-00000.parquet").to_pylist()
    found = {row["source"]: (row["title"], row["text"]) for row in rows}
    assert found["in/a.rst.txt"] == ("Voles", "A vole digs.")
    assert found["in/page.xml"] == (None, ODD["page.xml"].decode())
    assert "in/app.conf" in found
    assert "in/run.sh" not in found
    with pytest.raises(ConfigError, match="PATTERN or PATTERN:FORMAT"):
        wordpipe.ingest("in", output="c", include="*.x:klingon")


def test_source_code_that_is_included_is_read_by_definitions_unless_a_format_is_named(odd):
    (odd / "queue.py").write_text("# A queue.\nclass JobQueue:\n    pass\n")
    (odd / "rows.json").write_text('{"text": "A mole digs."}\n{"text": "A shrew hunts."}\n')
    for include, title in (("*.py,*.json", "JobQueue"), ("queue.*,*.json", "JobQueue"), ("*.py:text,*.json", None)):
        wordpipe.ingest("in", output="c", include=include)
        rows = pq.read_table("c/corpus-00000.parquet").to_pylist()
        assert {row["title"] for row in rows if row["source"] == "in/queue.py"} == {title}
        assert {row["text"] for row in rows if row["source"] == "in/rows.json"} == {"A mole digs.", "A shrew hunts."}


def test_a_search_says_once_what_it_does_not_have_and_names_only_its_own_options(odd, monkeypatch, tmp_path, cli):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (odd / "cut.txt.gz").write_bytes(GZ[:200])
    (odd / "bin.txt").write_bytes(bytes(range(256)))
    (odd / "twice.jsonl").write_text('{"text": "A.", "n": 1}\n{"text": "A.", "n": 1}\n{bad\n')
    for first in (True, False):
        said = []
        run = RunOptions(report=lambda one, said=said: said.append(one.note))
        with open_sources("in", run=run) as opened:
            assert opened.query("zebras")[0]["source"] == "in/README"
        text = "\n".join(filter(None, said))
        assert ("6 files passed over: " in text) is first
        assert ("cut.txt.gz" in text) is first
        assert ("duplicate records with fields were dropped" in text) is first
        for option in ("--format", "--no-deduplicate", "--bad-records", "--parallel", "wordpipe ingest"):
            assert option not in text
    # what is new is said, and all of it is listed
    (odd / "more.sh").write_text("x = 1")
    said = []
    for _ in range(2):
        open_sources("in", run=RunOptions(report=lambda one: said.append(one.note))).close()
    assert [one.partition(":")[0] for one in said if one] == ["7 files passed over"]
    (odd / "new.txt").write_text("Zebras again.")
    open_sources("in", run=RunOptions(report=lambda one: said.append(one.note))).close()
    assert sum("passed over" in one for one in said if one) == 1
    (line,) = (one for one in filter(None, said) if one.startswith("updated: "))
    assert line.startswith("updated: 1 of 10 files read, "), line
    listed = cli("search", "--cache").out
    size = sum((odd / name).stat().st_size for name in ("run.sh", "more.sh"))
    assert f"  not in it: 2 .sh ({size} B): in/more.sh, in/run.sh\n" in listed
    assert "in/cut.txt.gz" in listed
    assert json.loads(cli("search", "--cache", "--json").out)["passed_over"][".sh"] == 2
    for source, hint in (("in/bin.txt", "--include bin.txt:txt"), ("in/page.xml", "--include page.xml:txt")):
        with pytest.raises(InputError) as caught:
            open_sources(source)
        assert hint in caught.value.hint
        assert "--format" not in caught.value.hint
    with open_sources("in/page.xml", include="page.xml:txt") as opened:
        assert opened.query("okapi")
