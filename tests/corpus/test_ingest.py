"""Sources to rows: what is in them, what is counted, and that nothing about the machine matters."""

import gzip
import io
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wordpipe.artifacts import CORPUS
from wordpipe.corpus import Ingest, expand, fingerprint, split_of
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError


def read(*texts, **values):
    """Rows and the ingest that gave them."""
    chosen = IngestSettings.make(values)
    ingest = Ingest(expand(texts, read_as=chosen.format), chosen)
    batches = list(ingest.batches())
    batches = [ingest.converted(batch) for batch in batches]
    for batch in batches:
        assert batch.schema.equals(ingest.schema, check_metadata=True)
        batch.validate(full=True)
    return pa.Table.from_batches(batches, ingest.schema).to_pylist(), ingest


def documents_of(rows):
    texts = defaultdict(str)
    for row in rows:
        texts[row["doc_id"]] += row["text"]
    return dict(texts)


def dropped(counts):
    return sum(number for name, number in counts.items() if name.startswith("documents_dropped_"))


def test_a_folder_of_formats(here):
    (here / "a.txt").write_text("First one. Second one.\n\nThird.\n")
    (here / "b.jsonl").write_text('{"text": "From JSON. Two.", "title": "J", "year": "1999"}\n')
    (here / "c.csv").write_text('title,text,year\nC,"From CSV,\nwith a line.",x\n')
    pq.write_table(pa.table({"text": ["From Parquet."], "year": [2001]}), here / "d.parquet")
    (here / "e.md").write_text("# Head\nA line that\ngoes on.\n")
    rows, ingest = read(".", metadata=["year:int"], valid=0.0)
    assert ingest.schema.equals(CORPUS.append(pa.field("anchor", pa.string())).append(pa.field("year", pa.int64())))
    assert [(r["source"], r["line"], r["sentence_id"], r["title"], r["text"], r["year"]) for r in rows] == [
        ("a.txt", 1, 0, None, "First one. ", None),
        ("a.txt", 1, 1, None, "Second one.\n\n", None),
        ("a.txt", 3, 2, None, "Third.", None),
        ("b.jsonl", 1, 0, "J", "From JSON. ", 1999),
        ("b.jsonl", 1, 1, "J", "Two.", 1999),
        ("c.csv", 2, 0, "C", "From CSV,\n", None),
        ("c.csv", 2, 1, "C", "with a line.", None),
        ("d.parquet", 1, 0, None, "From Parquet.", 2001),
        ("e.md", 2, 0, "Head", "A line that goes on.", None),
    ]
    assert ingest.counts["documents_kept"] == 5
    assert ingest.counts["metadata_not_converted.year"] == 1
    assert ingest.counts["bytes_read"] == sum(source.bytes for source in ingest.sources)


def test_dates_are_a_column_of_dates(here):
    (here / "a.jsonl").write_text('{"text": "One.", "on": "2023-04-02"}\n{"text": "Two.", "on": "2024-01-31"}\n')
    rows, ingest = read("a.jsonl", metadata=["on:date"], valid=0.0)
    assert ingest.schema.field("on").type == pa.date32()
    assert [str(row["on"]) for row in rows] == ["2023-04-02", "2024-01-31"]


BLOCKS = st.lists(st.text(st.sampled_from(list("ab. \n\té。")), max_size=30), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BLOCKS, st.sampled_from(["file", "block", "line"]), st.booleans())
def test_documents_ids_lines_and_counts_hold_on_any_text(here, blocks, documents, deduplicate):
    text = "\n\n".join(blocks)
    (here / "a.txt").write_text(text)
    if not text.strip():
        with pytest.raises(InputError, match="no source contains any text"):
            read("a.txt", documents=documents)
        return
    rows, ingest = read("a.txt", documents=documents, deduplicate=deduplicate)
    counts = ingest.counts
    assert counts["documents_read"] == counts["documents_kept"] + dropped(counts)
    assert counts["sentences"] == len(rows)
    lines = text.split("\n")
    for row in rows:
        first = row["text"].strip().split("\n")[0]
        assert lines[row["line"] - 1].strip().endswith(first) or first in lines[row["line"] - 1]
    if deduplicate:
        for doc_id, body in documents_of(rows).items():
            assert doc_id == blake3(body.encode()).hexdigest()[:20]
            assert body == body.strip()
            assert body in text
        assert counts["bytes_kept"] == sum(len(body.encode()) for body in documents_of(rows).values())
    for earlier, later in pairwise(rows):
        assert later["sentence_id"] in (0, earlier["sentence_id"] + 1)


def test_duplicates_are_dropped_whatever_their_title_or_source(here):
    (here / "a.md").write_text("# A\n\nSame.\n\n# B\n\n Same.\n\n# C\n\nOther.\n")
    (here / "b.txt").write_text("Same.")
    rows, ingest = read(".")
    assert [(r["text"], r["title"], r["source"]) for r in rows] == [("Same.", "A", "a.md"), ("Other.", "C", "a.md")]
    assert ingest.counts["documents_dropped_duplicate"] == 2
    assert ingest.counts["bytes_dropped_duplicate"] == 10
    assert not ingest.warnings
    rows, ingest = read(".", deduplicate=False)
    assert len(rows) == 4
    assert len({r["doc_id"] for r in rows}) == 2


def test_records_are_duplicates_only_where_all_fields_are_equal(here):
    (here / "a.csv").write_text("name,text,year\nA,Same.,1\nB,Same.,1\nA,Same.,2\nA,Same.,1\n")
    (here / "b.jsonl").write_text('{"year": "1", "text": "Same.", "name": "B"}\n{"text": "Same."}\n{"text": "Same."}\n')
    rows, ingest = read(".", valid=0.5)
    assert [(r["name"], r["year"]) for r in rows] == [("A", "1"), ("B", "1"), ("A", "2"), (None, None)]
    assert len({r["doc_id"] for r in rows}) == 4
    assert len({r["split"] for r in rows}) == 1  # the same text is never on both sides
    assert ingest.counts["documents_dropped_duplicate"] == 3
    told = (
        "duplicate records with fields were dropped: 2; each of them is equal to an earlier record in all kept fields; "
        "the first one is at a.csv:5; "
    )
    assert told + "use --no-deduplicate to keep all records" in ingest.warnings
    rows, ingest = read(".", title_field="name", no_metadata=True)
    assert [r["title"] for r in rows] == ["A", "B", None]  # a field that is not carried tells none apart
    assert len(read(".", deduplicate=False)[0]) == 7


def test_splits_depend_on_the_text_alone_and_have_the_shares_asked_for(here):
    lines = [f"Document number {n} of many." for n in range(4000)]
    (here / "small.txt").write_text("\n".join(lines[::3]))
    (here / "large.txt").write_text("\n".join(lines))
    shares = {"documents": "line", "valid": 0.2, "test": 0.1}
    small = {r["text"]: r["split"] for r in read("small.txt", **shares)[0]}
    rows, ingest = read("large.txt", **shares)
    large = {r["text"]: r["split"] for r in rows}
    assert small.items() <= large.items()
    assert abs(ingest.counts["documents_valid"] / 4000 - 0.2) < 0.03
    assert abs(ingest.counts["documents_test"] / 4000 - 0.1) < 0.03
    assert all(r["split"] == split_of(r["doc_id"], 0.2, 0.1) for r in rows)


def test_an_empty_split_is_warned_of_where_it_is_no_wonder_it_is_not(here, monkeypatch):
    (here / "a.txt").write_text("Only one.\n\nNo, two.")
    assert read("a.txt", documents="block", valid=0.01)[1].warnings == []
    monkeypatch.setattr("wordpipe.corpus.documents.split_of", lambda *_: "train")
    _, ingest = read("a.txt", documents="block", valid=0.5)
    assert ingest.warnings == ["the split 'valid' has no documents, because 2 documents are too few for all splits"]
    assert read("a.txt", valid=0.0)[1].warnings == []


def test_titles(here):
    (here / "a.txt").write_text("One\nBody of one.\n\nAlone\n\nTwo\n  Body.\nMore.\n")
    rows, ingest = read("a.txt", documents="block", first_line_title=True)
    assert [(r["title"], r["text"], r["line"]) for r in rows] == [
        ("One", "Body of one.", 2),
        (None, "Alone", 4),
        ("Two", "Body.\n", 7),
        ("Two", "More.", 8),
    ]
    assert ingest.counts["documents_title_as_text"] == 1
    (here / "b.jsonl").write_text(json.dumps({"text": "x", "title": "t" * 5000}))
    rows, ingest = read("b.jsonl")
    assert rows[0]["title"] == "t" * 1000
    assert ingest.counts["titles_cut"] == 1


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_long_record_is_split_and_counted(here, name):
    rng = random.Random(3)
    text = " ".join("".join(rng.choices("abcdef", k=9)) for _ in range(500))
    (here / name).write_text(text if name == "a.txt" else json.dumps({"text": text}))
    rows, ingest = read(name, max_document_bytes=1024)
    bodies = documents_of(rows).values()
    assert " ".join(bodies) == text
    assert all(len(body) <= 1024 for body in bodies)
    assert ingest.counts["records_split"] == 1
    assert ingest.counts["documents_kept"] == len(bodies) == 5


def test_a_long_sentence_is_split_and_counted(here):
    (here / "a.txt").write_text("a" * 1_000_000)
    rows, ingest = read("a.txt")
    assert [len(r["text"]) for r in rows] == [2000] * 500
    assert ingest.counts["sentences_split"] == 499


def test_standard_input_plain_and_compressed_is_hashed_as_it_is_read(monkeypatch):
    for data in (b"Some text.\n", gzip.compress(b"Some text.\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        rows, ingest = read("-")
        assert [(r["text"], r["source"]) for r in rows] == [("Some text.", "-")]
        entry = {"name": "-", "bytes": len(data), "blake3": blake3(data).hexdigest()}
        assert fingerprint(ingest.sources, lambda path: "") == [entry]


def test_a_named_pipe_is_read(here):
    os.mkfifo(here / "pipe")
    with subprocess.Popen(["sh", "-c", "echo Through a pipe. > pipe"], cwd=here):
        rows, _ = read("pipe")
    assert [(r["text"], r["source"]) for r in rows] == [("Through a pipe.", "pipe")]


def test_parquet_cannot_be_streamed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"PAR1")))
    with pytest.raises(InputError, match="Parquet cannot be read from a stream"):
        read("-", format="parquet")


def test_docstrings_carry_see_also_and_other_sources_have_none(here):
    (here / "a.txt").write_text("Some text.")
    rows, ingest = read("python:textwrap", "a.txt")
    assert ingest.schema.names == [*CORPUS.names, "see_also"]
    assert {r["source"] for r in rows} == {"a.txt", "python:textwrap"}
    assert rows[0]["see_also"] is None
    assert all(r["see_also"] == [] for r in rows[1:])
    assert {"textwrap.dedent", "textwrap.TextWrapper.wrap"} <= {r["title"] for r in rows}


def test_a_binary_file_is_refused_unless_its_format_is_named(here):
    (here / "a.txt").write_bytes(b"text\0\1\2\3 more")
    with pytest.raises(InputError, match="binary"):
        read("a.txt")
    rows, ingest = read("a.txt", format="txt")
    assert [r["text"] for r in rows] == ["text\ufffd\1\2\3 more"]
    assert ingest.counts["nul_replaced"] == 1


@pytest.mark.parametrize("text", ["", " \n\n \n", "\ufeff"])
def test_nothing_to_keep_is_an_error_that_says_what_was_seen(here, text):
    (here / "a.txt").write_text(text)
    with pytest.raises(InputError, match="no source contains any text") as caught:
        read("a.txt")
    assert "sources 1" in str(caught.value)
    assert caught.value.hint == "give files that contain text"


def test_what_was_dropped_of_nothing_to_keep_is_counted(here):
    (here / "a.jsonl").write_text('{"text": "  "}\n')
    with pytest.raises(InputError, match="dropped_empty 1") as caught:
        read("a.jsonl")
    assert caught.value.hint == "give files that contain text; the counts show how much was dropped and why"


@pytest.mark.parametrize(
    ("first", "second", "is_said"), [(20, 20, True), (19, 19, False), (21, 20, False), (20, 40, False)]
)
def test_two_files_of_equally_many_lines_may_be_pairs(here, first, second, is_said):
    lines = [f"Line {n}." for n in range(first)]
    (here / "a.de").write_text("\n".join(lines))  # the last line has no end
    (here / "a.en").write_text("".join(f"Another {n}.\n" for n in range(second)))
    _, ingest = read("a.de", "a.en")
    said = "both files have 20 lines; if line N of one file translates line N of the other file, use --parallel"
    assert (said in ingest.notes) == is_said
    (here / "b.txt").write_text("One.\n" * 20)
    _, ingest = read("a.de", "a.en", "b.txt")
    assert not ingest.notes


def test_fields_that_are_not_wanted_are_left_in_silence(here):
    (here / "a.jsonl").write_text('{"text": "A.", "url": 1}\n{"text": "B.", "url": 2, "n": 3}\n')
    for wanted, columns in (({"no_metadata": True}, []), ({"metadata": ["n"]}, ["n"]), ({}, ["url", "n"])):
        _, ingest = read("a.jsonl", valid=0.0, **wanted)
        assert (ingest.schema.names[len(CORPUS) :], ingest.warnings) == (columns, [])


def test_skipped_files_are_counted(here):
    (here / "a.txt").write_text("Text.")
    (here / "b.png").write_text("")
    (here / "c.conf").write_text("heron = 1")
    _, ingest = read(".")
    assert ingest.counts["files_skipped"] == 2
    assert ingest.notes == [
        "2 files passed over: 1 .conf, 1 .png; to read the text files among them: --include '*.conf'",
    ]


def test_progress_reaches_the_size_of_the_sources(here):
    (here / "a.txt").write_text("Text.\n" * 1000)
    (here / "b.txt.gz").write_bytes(gzip.compress(b"Other text.\n" * 1000))
    sources = expand([".", "python:textwrap"])
    seen = []
    for _ in Ingest(sources, IngestSettings(), on_bytes=seen.append).batches():
        pass
    assert seen == sorted(seen)
    assert seen[-1] == sources.bytes


def test_batches_are_bounded_even_where_much_stands_beside_each_sentence(here):
    record = {"text": "Short one. " * 600, "title": "t" * 1000, "note": "n" * 60_000}
    (here / "a.jsonl").write_text(json.dumps(record))
    ingest = Ingest(expand(["a.jsonl"]), IngestSettings(metadata=("note",)))
    sizes = [batch.nbytes for batch in ingest.batches()]
    assert len(sizes) > 5
    assert max(sizes) < 6 << 20


SCRIPT = """
import hashlib, resource, sys
from wordpipe.corpus.ingest import Ingest
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import expand
ingest = Ingest(expand(sys.argv[2:]), IngestSettings(documents=sys.argv[1]))
digest = hashlib.sha256()
for batch in ingest.batches():
    digest.update(repr(batch.to_pydict()).encode())
print(digest.hexdigest(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, ingest.counts["documents_kept"])
"""


def run(here, documents, *texts, **environment):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, documents, *texts],
        cwd=here,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    digest, peak, kept = done.stdout.split()
    return digest, int(peak), int(kept)


@pytest.mark.landing
def test_rows_do_not_depend_on_hash_seed_locale_zone_or_order_of_files(here):
    for name in ("c.txt", "a.txt", "b.jsonl"):
        (here / name).write_text(
            '{"text": "Größe. Ö."}\n' if name == "b.jsonl" else f"{name} says: naïve. Ça va? Да.\n"
        )
    first = run(here, "auto", ".", "python:json", PYTHONHASHSEED="0", LANG="C", TZ="UTC")
    (here / "a.txt").rename(here / "z.txt")
    (here / "z.txt").rename(here / "a.txt")
    second = run(here, "auto", "python:json", ".", PYTHONHASHSEED="1", LANG="tr_TR.UTF-8", TZ="Asia/Tokyo")
    assert first[0] == second[0]


@pytest.mark.parametrize("documents", [pytest.param("line", marks=pytest.mark.slow), "block"])
def test_memory_is_flat(here, documents):
    def write(name, lines):
        with (here / name).open("w") as file:
            for n in range(lines):
                file.write(f"Line {n} has a sentence. And here is another one of it, {n * n}.\n" + "\n" * (n % 3 == 0))

    write("small.txt", 4_000)
    write("large.txt", 40_000)
    (_, small, few), (_, large, many) = run(here, documents, "small.txt"), run(here, documents, "large.txt")
    assert many > 9 * few
    assert large < 1.3 * small


def test_a_metadata_field_that_no_record_has_is_warned_of(here):
    (here / "a.jsonl").write_text('{"text": "One sentence.", "year": 1999}\n{"text": "Two sentences."}\n')
    assert read("a.jsonl", metadata=("year:int",))[1].warnings == []
    _, ingest = read("a.jsonl", metadata=("year:int", "yaer:int"))
    assert ingest.warnings == [
        "no record has the field 'yaer' (--metadata), so the column is empty; did you mean year?"
    ]
    assert ingest.missing == ingest.warnings
