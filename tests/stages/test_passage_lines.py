"""The line of the best passage: exactly that of the file; only where the lines of a text are lines of its file."""

import gzip
import json
import random

import pytest

import wordpipe

WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("name", ["app.log", "notes.txt", "README", "old.log.gz"])
def test_the_place_of_a_window_is_the_line_of_its_passage(folder, name, end):
    """Sixty words that stand in one line each, among others: each is found in its line."""
    draw = random.Random(1)
    marks = [f"q{a}{b}x" for a in "abcdefgh" for b in "mnopqrst"][:60]
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) + "." for _ in range(400)]
    places = dict(zip(marks, draw.sample(range(400), 60), strict=True))
    for mark, at in places.items():
        lines[at] += f" {mark}"
    written = (end.join(lines) + end).encode()
    (folder / name).write_bytes(gzip.compress(written) if name.endswith("gz") else written)
    wordpipe.ingest(name, output="corpus", valid=0)
    wordpipe.index("corpus", output="index", unit="window")
    file = written.decode().replace("\r\n", "\n").split("\n")
    with wordpipe.open("index", "index") as index:
        for result in index.query_all(marks, k=1, exact=True):
            (hit,) = result.hits
            assert result.query in file[hit.get("passage_line", hit["line"]) - 1]
            assert hit["line"] <= hit.get("passage_line", hit["line"])


def test_the_shell_and_the_server_show_the_same_line(cli, folder, serving):
    (folder / "app.log").write_text("".join(f"job {n} is done\n" for n in range(30)) + "disk failure\n" + "end\n" * 9)
    wordpipe.ingest("app.log", output="corpus", valid=0)
    wordpipe.index("corpus", output="index", unit="document")
    for form in ("tsv", "plain", "csv"):
        assert "app.log:31" in cli("query", "index", "disk failure", "--format", form).out
    (hit,) = map(json.loads, cli("query", "index", "disk failure", "--json").out.splitlines())
    assert (hit["line"], hit["passage_line"]) == (1, 31)
    found = serving(folder / "index").get("/search", params={"q": "disk failure", "format": "json"}).json()
    assert found["hits"][0]["passage_line"] == 31


def test_a_record_has_its_own_place_alone(folder):
    text = "one\ntwo\nthree"
    (folder / "r.jsonl").write_text(json.dumps({"text": text}) + "\n")
    (folder / "r.csv").write_text(f'text,lang\n"{text}",en\n')
    for name in ("r.jsonl", "r.csv"):
        (hit,) = wordpipe.search_texts("three", name)
        assert "passage_line" not in hit
