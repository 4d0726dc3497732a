"""Parquet files that are small and say much: memory stays bounded, and what is too long is left out or refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wordpipe.artifacts import CORPUS
from wordpipe.corpus import Ingest, expand
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError

LONG = 20_000_000  # of a string that stands once in the file
ROWS = 60


def write_bomb(path, columns) -> None:
    pq.write_table(
        pa.table(columns), path, compression="zstd", compression_level=19, data_page_size=1 << 30,
        dictionary_pagesize_limit=1 << 30,
    )  # fmt: skip
    assert path.stat().st_size < 20_000


def repeated() -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS), ["x" * LONG])


def peak_of_reading(path) -> tuple[int, Ingest]:
    """The most that Arrow held while a file was read: a dictionary may be unpacked, its rows may not."""
    ingest = Ingest(expand([str(path)]), IngestSettings())
    pool = pa.default_memory_pool()
    most = pool.bytes_allocated()
    before = most
    try:
        for batch in ingest.batches():
            most = max(most, pool.bytes_allocated())
            del batch
    finally:
        most = max(most, pool.bytes_allocated())
    return most - before, ingest


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True])
def test_a_long_string_that_is_repeated_is_held_once(tmp_path, nested):
    texts = pa.array([f"Text {number}." for number in range(ROWS)])
    long = pa.ListArray.from_arrays(list(range(ROWS + 1)), repeated()) if nested else repeated()
    write_bomb(tmp_path / "a.parquet", {"text": texts, "long": long})
    del long
    peak, ingest = peak_of_reading(tmp_path / "a.parquet")
    assert peak < 5 * LONG  # all rows would be 60
    assert ingest.counts["documents_kept"] == ROWS
    assert ingest.counts["values_left_out.long"] == ROWS


@pytest.mark.landing
def test_a_text_that_is_repeated_beyond_all_reason_is_refused(tmp_path):
    write_bomb(tmp_path / "a.parquet", {"text": repeated()})
    with pytest.raises(InputError, match="looks like a decompression bomb"):
        peak_of_reading(tmp_path / "a.parquet")


@pytest.mark.slow
def test_a_list_that_is_long_beyond_all_reason_is_refused_before_it_is_read(tmp_path):
    write_bomb(tmp_path / "a.parquet", {"text": ["A.", "B."], "many": [[0] * 20_000_000, []]})
    before = pa.total_allocated_bytes()
    with pytest.raises(InputError, match="looks like a decompression bomb"):
        list(Ingest(expand([str(tmp_path / "a.parquet")]), IngestSettings()).batches())
    assert pa.total_allocated_bytes() - before < 10 << 20


def test_strings_that_are_no_utf8_are_mended_wherever_they_stand(tmp_path):
    bad = _unchecked([b"a\xffb", b"fine"])
    columns = {"text": bad, "words": pa.ListArray.from_arrays([0, 1, 2], bad), "note": bad.dictionary_encode()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    ingest = Ingest(expand([str(tmp_path / "a.parquet")]), IngestSettings(valid=0))
    rows = [row for batch in ingest.batches() for row in batch.to_pylist()]
    assert [(row["text"], row["words"], row["note"]) for row in rows] == [
        ("a\ufffdb", ["a\ufffdb"], "a\ufffdb"),
        ("fine", ["fine"], "fine"),
    ]
    assert ingest.counts["bytes_replaced"] == 3


def _unchecked(values: list[bytes]) -> pa.StringArray:
    raw = pa.array(values, pa.binary())
    return pa.StringArray.from_buffers(len(raw), *raw.buffers()[1:])


def test_of_a_parquet_file_only_the_fields_wanted_are_read(tmp_path):
    rows = [{"text": f"T{n}.", "id": n, "a": n, "b": "w"} for n in range(5)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for wanted, names in (({}, ["a", "b"]), ({"metadata": "b"}, ["b"]), ({"no_metadata": True}, [])):
        ingest = Ingest(expand([str(tmp_path / "a.parquet")]), IngestSettings(**wanted))
        assert len([*ingest.batches()]) == 1
        assert ingest.schema.names[len(CORPUS) :] == ["record_id", *names]
