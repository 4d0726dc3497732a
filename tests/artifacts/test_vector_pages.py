"""Vectors straight from the pages: what Arrow reads, whatever the layout."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wordpipe.artifacts import Artifact, read_vectors, rows, vector_column, words_schema
from wordpipe.errors import ArtifactError
from wordpipe.settings import Settings
from wordpipe.stages import open_job


def made(path, vectors_ND):
    """Words w0, w1, … in several batches."""
    n, dim = vectors_ND.shape
    schema = words_schema(dim)
    with open_job("words", "import", path, Settings(), None) as job:
        with job.table("words", schema) as table:
            for first in range(0, n, 1000):
                some = vectors_ND[first : first + 1000]
                rows = range(first, first + len(some))
                arrays = [pa.array([f"w{row}" for row in rows]), pa.array(rows, pa.int64()), vector_column(some)]
                table.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        job.facts = {"dim": dim}
    return path


@pytest.mark.parametrize(("n", "dim"), [(1, 1), (7, 3), (9_000, 600), (3_000, 1_000)])
def test_they_are_the_rows_that_were_written(n, dim, tmp_path, monkeypatch):
    vectors_ND = np.random.default_rng(n).standard_normal((n, dim), dtype=np.float32)
    with Artifact(made(tmp_path / "w", vectors_ND)) as words:
        monkeypatch.setattr(rows, "matrix_of", None)  # none of ours goes through Arrow
        words_found, found = [], []
        for others, block in read_vectors(words, "words", ["word"]):
            words_found += others.column("word").to_pylist()
            found.append(block)
    np.testing.assert_array_equal(np.concatenate(found), vectors_ND)
    assert words_found == [f"w{row}" for row in range(n)]
    assert len(found) == 1 + (n * dim > 1 << 22)


@pytest.mark.parametrize(
    "options",
    [{"compression": "zstd"}, {"use_dictionary": True}, {"data_page_version": "2.0"}, {"write_statistics": True},
     {"use_byte_stream_split": ["vector.list.element"], "use_dictionary": False}, {"write_page_checksum": True}],
)  # fmt: skip
def test_other_layouts_give_the_same_vectors(options):
    vectors_ND = np.random.default_rng(1).standard_normal((500, 700), dtype=np.float32)
    file = io.BytesIO()
    table = pa.table([vector_column(vectors_ND)], schema=words_schema(700).remove(0).remove(0))
    pq.write_table(table, file, **({"compression": "none", "use_dictionary": False} | options))
    part = pq.ParquetFile(file)
    np.testing.assert_array_equal(rows._vectors(part, file, 0), vectors_ND)


def in_pages(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="none", use_dictionary=False)
    return rows._vectors(pq.ParquetFile(file), file, 0)


@pytest.mark.parametrize("type_", [pa.float64(), pa.float16(), pa.int32()])
def test_numbers_of_another_type_are_not_taken_for_float32(type_):
    vectors = pa.array([[0, 1, 2], [3, 4, 5]], pa.list_(pa.float32(), 3)).cast(pa.list_(type_, 3))
    np.testing.assert_array_equal(in_pages(vector=vectors), np.arange(6).reshape(2, 3))


def test_a_missing_number_moves_no_other_into_its_place():
    found = in_pages(vector=pa.array([[0, None, 2], [3, 4, 5]], pa.list_(pa.float32(), 3)))
    np.testing.assert_array_equal(found, [[0, np.nan, 2], [3, 4, 5]])
    assert (
        len(in_pages(vector=pa.array([[0], None, [2]], pa.list_(pa.float32(), 1)))) == 2
    )  # which is refused as too few


def test_a_column_whose_name_only_begins_so_is_another():
    found = in_pages(vector_id=pa.array([7, 8], pa.int32()), vector=vector_column(np.float32([[1, 2], [3, 4]])))
    np.testing.assert_array_equal(found, [[1, 2], [3, 4]])


def test_nothing_is_made_of_bytes_that_are_no_page():
    rng = np.random.default_rng(3)
    for size in range(200):
        head = rng.bytes(size)
        assert rows._page(head) is None or size > 8
        assert rows._plain_values(io.BytesIO(head), 0, 1_000) is None


def test_a_file_cut_short_is_named(tmp_path):
    path = made(tmp_path / "w", np.ones((20, 4), dtype=np.float32))
    with Artifact(path) as words:
        (path / "words-00000.parquet").write_bytes(b"PAR1")
        with pytest.raises(ArtifactError, match="damaged Parquet"):
            list(read_vectors(words, "words"))
