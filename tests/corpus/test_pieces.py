"""Large files in pieces: the same rows, counts, warnings and errors as of the whole file."""

import json
import random

import pytest

from tests.support.variants import some_of
from wordpipe.corpus import Ingest, decode, expand, in_pieces
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import StorageError, WordpipeError

ENDS = ["\n"] * 9 + ["\r\n", "\n\n", "\r\n\r\n", "\r", "\n \n", "\n\n\n"]


def told(path, least, **given):
    """The rows of a file, or the error; what was counted and said; and where its pieces begin."""
    settings = IngestSettings.make(given)
    sources = in_pieces(expand([str(path)], read_as=settings.format), settings, least)
    ingest = Ingest(sources, settings)
    try:
        batches = [*ingest.batches()]
    except WordpipeError as error:
        return str(error), [], sources
    rows = [row for batch in batches for row in ingest.converted(batch).to_pylist()]
    return rows, [ingest.schema, ingest.counts, ingest.warnings, ingest.notes], sources


def text(draw):
    """Lines of text with all kinds of ends between them; some bytes are no UTF-8."""
    words = ["bees", "dance", "Honey flows.", "é", "naïve", "\u2003", "a, b", "x" * 30, ""]
    lines = (" ".join(draw.choices(words, k=draw.randrange(5))) + draw.choice(ENDS) for _ in range(draw.randrange(300)))
    data = "".join(lines).encode()
    if draw.random() < 0.4:
        for _ in range(3):
            place = draw.randrange(len(data) + 1)
            data = data[:place] + b"\xff" + data[place:]
    return (b"\xef\xbb\xbf" if draw.random() < 0.3 else b"") + data


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 40))])
def test_text_is_read_as_from_the_whole_file(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    monkeypatch.setattr(decode, "BLOCK", draw.choice([5, 64, 1 << 20]))
    path = tmp_path / draw.choice(["notes.txt", "notes.md"])
    path.write_bytes(text(draw))
    documents = draw.choice(["line", "block"])
    given = {
        "documents": documents, "first_line_title": documents == "block" and draw.random() < 0.3,
        "bad_bytes": draw.choice(["replace", "skip", "fail"]), "valid": 0.2,
    }  # fmt: skip
    whole, pieces = told(path, 1 << 40, **given), told(path, draw.choice([50, 200, 1000]), **given)
    assert pieces[:2] == whole[:2]
    assert len(whole[2]) == 1


def test_pieces_follow_one_another_and_are_of_the_size_that_is_wanted(tmp_path):
    (tmp_path / "bees.txt").write_bytes(b"Bees dance.\n" * 1000)
    *_, sources = told(tmp_path / "bees.txt", 1000, documents="line")
    starts = [source.start for source in sources]
    assert [source.stop for source in sources] == [*starts[1:], None]
    assert [source.first_line for source in sources] == [1 + start // 12 for start in starts]
    assert sum(source.bytes for source in sources) == 12_000
    assert all(1000 <= source.bytes < 1200 for source in sources)
    assert len({source.digest_of("abc") for source in sources}) == len(sources) == 11


def records(draw, n):
    """Records whose first have ids, and whose later ones not always a text."""
    for number in range(n):
        record = {"text": f"bees {draw.randrange(10**6)} dance", "id": number, "year": draw.choice([1, 2, 2.5, "x"])}
        if number > 100 and draw.random() < 0.1:
            del record[draw.choice(["text", "year"])]
        if number > n // 2:
            record["late"] = draw.choice(["a", ["b"], "\ud800"])
        yield record


@pytest.mark.parametrize(
    ("seed", "given"),
    some_of(range(10), [{}, {"id_field": "id"}, {"metadata": ("year:int",)}, {"id_field": "none"}], together=1),
)
def test_records_are_read_as_from_the_whole_file(tmp_path, seed, given):
    draw = random.Random(seed)
    lines = [json.dumps(record) for record in records(draw, 400)]
    if seed % 3 == 1:
        lines[200] = "{"  # no record
        given = given | {"bad_records": "skip"} if seed % 2 else given
    (tmp_path / "some.jsonl").write_text("\n".join(lines) + "\n" * (seed % 2))
    whole, pieces = told(tmp_path / "some.jsonl", 1 << 40, **given), told(tmp_path / "some.jsonl", 7000, **given)
    assert pieces[:2] == whole[:2]
    assert len(pieces[2]) > 2


@pytest.mark.parametrize("given", [{}, {"text_field": "2", "id_field": "1"}, {"label_field": "label"}])
def test_tables_of_tabs_are_read_as_from_the_whole_file(tmp_path, given):
    head = [] if "id_field" in given else ["id\ttext\tlabel"]
    rows = [f"{number}\tbees {number}\t{'ab'[number % 2]}" for number in range(500)]
    rows[300] = "300\tno label"
    (tmp_path / "some.tsv").write_text("\n".join([*head, *rows]))
    whole, pieces = told(tmp_path / "some.tsv", 1 << 40, **given), told(tmp_path / "some.tsv", 1000, **given)
    assert pieces[:2] == whole[:2]
    assert len(whole[0]) == 500
    assert len(pieces[2]) > 3


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("a.txt", {}), ("a.md", {}), ("a.csv", {}), ("a.html", {}), ("a.txt.gz", {"documents": "line"}),
        ("a.rst", {"documents": "line"}),
    ],
)  # fmt: skip
def test_what_does_not_say_where_records_end_is_one_piece(tmp_path, name, given):
    (tmp_path / name).write_bytes(b"text\nbees dance\n" * 100)
    settings = IngestSettings.make(given)
    assert len(in_pieces(expand([str(tmp_path / name)]), settings, 100)) == 1


def test_what_a_file_without_an_ending_looks_like_holds_for_all_its_pieces(tmp_path):
    (tmp_path / "records").write_text("".join(f'{{"text": "bees {number}"}}\n' for number in range(200)))
    rows, (_, _, _, notes), sources = told(tmp_path / "records", 1000)
    assert [row["text"] for row in rows] == [f"bees {number}" for number in range(200)]
    assert [source.format for source in sources] == ["txt", *["jsonl"] * (len(sources) - 1)]
    assert [note for note in notes if "JSON" in note] == notes[:1]


@pytest.mark.parametrize("change", [b"a line more\n", b""])
def test_a_file_that_changes_after_its_pieces_were_found_is_refused(tmp_path, change):
    path = tmp_path / "log.txt"
    path.write_bytes(b"Bees dance.\n" * 1000)
    settings = IngestSettings(documents="line")
    sources = in_pieces(expand([str(path)]), settings, 1000)
    path.write_bytes(change + path.read_bytes()[:-12] if change else path.read_bytes()[:6000])
    with pytest.raises(StorageError, match="changed while it was read") as caught:
        [*Ingest(sources, settings).batches()]
    assert caught.value.where == "log.txt" or caught.value.where.endswith("/log.txt")
    assert "copy" in caught.value.hint
