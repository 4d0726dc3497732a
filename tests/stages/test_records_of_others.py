"""Tables and logs as other people write them: without a header, without texts, a line for each event."""

import gzip
import json

import pyarrow.parquet as pq
import pytest

import wordpipe
from wordpipe.corpus import expand, first_values
from wordpipe.stages import open_sources


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def rows():
    return pq.read_table("c/corpus-00000.parquet").to_pylist()


def answers(source, question="", **options):
    settings = {name: options.pop(name) for name in ("text_field", "header") if name in options}
    with open_sources(source, **settings) as opened:
        return [hit["text"] for hit in opened.query(question, **options)]


RECORDS = [
    {"name": "baz", "summary": None, "sku": "A7"}, {"name": "bar", "summary": "A terminal bar.", "sku": "A8"},
    {"name": None, "summary": "", "sku": "A9"}, {"name": "", "summary": None, "sku": "B1", "price": 3},
    {"name": None, "summary": None, "sku": None},
]  # fmt: skip


@pytest.mark.parametrize("form", ["jsonl", "csv", "memory"])
def test_a_record_without_a_text_is_found_by_its_title_or_its_fields(cli, here, form):
    names = ("name", "summary", "sku", "price")
    lines = [",".join(str(one.get(name) or "") for name in names) for one in RECORDS]
    (here / "r.csv").write_text("\n".join([",".join(names), *lines]))
    (here / "r.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in RECORDS))
    source = RECORDS if form == "memory" else f"r.{form}"
    made = wordpipe.ingest(source, output="c", text_field="summary", title_field="name")
    assert {row["sku"]: row["text"] for row in rows()} == {"A7": "", "A8": "A terminal bar.", "A9": "", "B1": ""}
    assert made.counts["documents_without_text"] == 3
    if form != "memory":
        assert answers(f"r.{form}", where="sku = 'A9'") == [""]
        assert [hit["title"] for hit in wordpipe.search_texts("name:baz", f"r.{form}")] == ["baz"]
        assert answers(f"r.{form}", "b1") == [""]
        shown = cli("search", "b1", f"r.{form}", "--format", "plain").out
        assert "sku: B1 · price: 3" in shown
        assert "sku: B1 · price: 3" in cli("search", "b1", f"r.{form}", "--format", "tsv").out
    # left out on request: counted and said
    made = wordpipe.ingest(source, output="c", text_field="summary", title_field="name", empty_text="skip")
    assert {row["sku"] for row in rows()} == {"A7", "A8"}
    dropped = sum(made.counts.get(f"documents_dropped_{why}", 0) for why in ("empty", "no_text"))
    assert dropped == 3
    assert any("were skipped" in one and "--empty-text fields" in one for one in made.warnings)


def test_labels_are_no_texts(here):
    records = [{"text": "", "kind": "good", "n": 1}, {"text": "Fine.", "kind": "bad", "n": 2}]
    wordpipe.ingest(records, output="c", label_field="kind")
    assert [row["text"] for row in rows()] == ["Fine."]


@pytest.mark.parametrize("ending", ["tsv", "csv"])
@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        (["7", "2.5", "a bee dances for others"], False), (["ann", "2020-01-31", "a bee"], False),
        (["ann", "-3e5", "bee"], False), (["name", "score", "remark"], True), (["city", "2019", "2020"], True),
        (["key", "1", "2"], True), (["a1", "v2", "x"], True),
    ],
)  # fmt: skip
def test_a_first_line_of_values_is_no_header(here, ending, first, is_header):
    cut = "\t" if ending == "tsv" else ","
    below = [["8", "3.5", "a wasp sings a song"], ["9", "4.5", "an ant digs a long tunnel"]]
    (here / f"t.{ending}").write_text("\n".join(cut.join(row) for row in [first, *below]))
    said = []
    run = wordpipe.RunOptions(report=lambda one: said.append(one.note or ""))
    made = wordpipe.ingest(f"t.{ending}", output="c", run=run)
    assert made.counts["documents_kept"] == 2 + (not is_header)
    assert set(first if is_header else "123") - {"3", first[2]} <= {*rows()[0]}
    assert any("line 1 is read as a record" in one and "--header" in one for one in said) is not is_header
    assert len(first_values(expand([f"t.{ending}"])[0])) == made.counts["documents_kept"]
    # the option decides
    for header, kept in (("yes", 2), ("no", 3)):
        assert wordpipe.ingest(f"t.{ending}", output="c", header=header).counts["documents_kept"] == kept
    assert wordpipe.ingest(f"t.{ending}", output="c", text_field=first[2]).counts["documents_kept"] == 2


LOG = [
    f"Jan  1 10:00:0{n} host app: {what}" for n, what in enumerate(["disk full", "bees", "cron", "disk ok", "tides"])
]


@pytest.mark.parametrize("name", ["a.log", "syslog", "syslog.1", "k.log.2.gz", "unnamed"])
def test_a_line_of_a_log_is_an_answer(here, name):
    (here / "in").mkdir()
    data = "\n".join(LOG).encode()
    (here / "in" / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert [text.rpartition(": ")[2] for text in answers("in", "tides")] == ["tides"]
    assert len(answers("in", "disk")) == 2
    # other text has blocks
    (here / "in" / "b.txt").write_text("One disk.\nTwo disks.\n\nThree bees.\n")
    wordpipe.ingest("in/b.txt", output="c", documents="section")
    assert len({row["doc_id"] for row in rows()}) == 2
