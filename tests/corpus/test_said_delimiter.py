"""The line `sep=;` that Excel writes and reads at the head of a table says what parts its cells, and is no data."""

import pytest

from wordpipe.corpus import Ingest, expand, first_values, in_pieces
from wordpipe.corpus.settings import IngestSettings


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
@pytest.mark.parametrize(
    ("line", "mark"), [("sep=;", ";"), ("SEP=,", ","), ('"sep=|"', "|"), ("sep=\t", "\t"), ("sep=\\t", "\t")]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_the_line_is_understood(tmp_path, monkeypatch, name, line, mark, end, bom):
    monkeypatch.chdir(tmp_path)
    table = end.join([line, f"id{mark}text", f"1{mark}bread and cheese", ""])
    (tmp_path / name).write_bytes(bom + table.encode())
    ingest = Ingest(expand([name]), IngestSettings())
    rows = [row for batch in ingest.batches() for row in batch.to_pylist()]
    assert [(row["text"], row["record_id"], row["line"]) for row in rows] == [("bread and cheese", "1", 3)]
    assert first_values(expand([name])[0]) == [{"id": "1", "text": "bread and cheese"}]


def test_a_large_table_has_no_pieces_and_one_without_an_ending_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = "sep=;\nid;text\n" + "".join(f"{number};bread {number}\n" for number in range(500))
    for name in ("t.tsv", "t"):
        (tmp_path / name).write_text(table)
        ingest = Ingest(in_pieces(expand([name]), IngestSettings(), 1000), IngestSettings())
        assert sum(len(batch) for batch in ingest.batches()) == 500


def test_a_column_may_be_called_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("sep=x,text\n1,bread\n")
    ingest = Ingest(expand(["t.csv"]), IngestSettings())
    assert [row["sep=x"] for batch in ingest.batches() for row in batch.to_pylist()] == ["1"]
