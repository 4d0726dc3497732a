"""Rows by their number and vectors of a table: the same as reading all and picking, from few row groups."""

import gc
import io
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wordpipe
from tests.support.made_tables import publish_table
from wordpipe.artifacts import Artifact, RowReader, RowVectors, read_vectors, tables, vector_column, words_schema
from wordpipe.errors import ArtifactError
from wordpipe.settings import Settings
from wordpipe.stages import open_job

ROWS = 700


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    """Several parts of several row groups each."""
    batch = pa.record_batch({"n": pa.array(range(ROWS)), "t": [f"row {n}" for n in range(ROWS)]})
    target = tmp_path_factory.mktemp("rows") / "a"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROW_GROUP_BYTES", 500)
        patch.setattr(tables, "PART_BYTES", 3000)
        publish_table(target, batch.schema, [batch])
    return target


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(st.integers(0, ROWS - 1), max_size=20))
def test_rows_by_number(target, wanted):
    with Artifact(target) as artifact:
        reader = RowReader(artifact, "rows", ["t"])
        assert reader.rows == ROWS
        assert reader.fetch(wanted) == [{"t": f"row {n}"} for n in wanted]


@pytest.mark.parametrize("row", [-1, ROWS, ROWS + 10**6])
def test_a_row_that_is_not_there(target, row):
    """FAISS answers -1 where it has no neighbour; that must never be taken for the last row."""
    with Artifact(target) as artifact, pytest.raises(IndexError):
        RowReader(artifact, "rows", ["t"]).fetch([row])


def test_a_row_group_is_read_once(target, monkeypatch):
    with Artifact(target) as artifact:
        reader = RowReader(artifact, "rows", ["n"])
        reader.fetch([5])
        monkeypatch.setattr("os.preadv", None)
        assert reader.fetch([5, 4, 3]) == [{"n": 5}, {"n": 4}, {"n": 3}]


def test_an_empty_table(tmp_path):
    batch = pa.record_batch({"n": pa.array([], pa.int64())})
    publish_table(tmp_path / "a", batch.schema, [batch])
    with Artifact(tmp_path / "a") as artifact:
        reader = RowReader(artifact, "rows", ["n"])
        assert reader.rows == 0
        assert reader.fetch([]) == []
        with pytest.raises(IndexError):
            reader.fetch([0])


def test_no_descriptors_leak(target):
    def cycle() -> None:
        with Artifact(target) as artifact:
            reader = RowReader(artifact, "rows", ["n", "t"])
            assert reader.fetch([1, ROWS - 1])[1] == {"n": ROWS - 1, "t": f"row {ROWS - 1}"}
            del reader

    gc.disable()
    try:
        cycle()
        before = sorted(path.name for path in Path("/dev/fd").iterdir())
        for _ in range(5):
            cycle()
        assert sorted(path.name for path in Path("/dev/fd").iterdir()) == before
    finally:
        gc.enable()


def made_words(path, vectors_ND):
    """Words w0, w1, … in several batches."""
    n, dim = vectors_ND.shape
    schema = words_schema(dim)
    with open_job("words", path, Settings(), None) as job:
        with job.table("words", schema) as table:
            for first in range(0, n, 1000):
                some = vectors_ND[first : first + 1000]
                rows = range(first, first + len(some))
                arrays = [pa.array([f"w{row}" for row in rows]), pa.array(rows, pa.int64()), vector_column(some)]
                table.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        job.facts = {"dim": dim}
    return path


@pytest.mark.parametrize(("n", "dim"), [(1, 1), (7, 3), (9_000, 600), (3_000, 1_000)])
def test_they_are_the_rows_that_were_written(n, dim, tmp_path):
    vectors_ND = np.random.default_rng(n).standard_normal((n, dim), dtype=np.float32)
    with Artifact(made_words(tmp_path / "w", vectors_ND)) as words:
        words_found, found = [], []
        for others, block in read_vectors(words, "words", ["word"]):
            words_found += others.column("word").to_pylist()
            found.append(block)
    np.testing.assert_array_equal(np.concatenate(found), vectors_ND)
    assert words_found == [f"w{row}" for row in range(n)]
    assert len(found) == 1 + (n * dim > 1 << 22)


def in_pages(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="none", use_dictionary=False)
    return tables._vectors(pq.ParquetFile(file), 0)


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


def test_a_file_cut_short_is_named(tmp_path):
    path = made_words(tmp_path / "w", np.ones((20, 4), dtype=np.float32))
    with Artifact(path) as words:
        (path / "words-00000.parquet").write_bytes(b"PAR1")
        with pytest.raises(ArtifactError, match="damaged Parquet"):
            list(read_vectors(words, "words"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An IVF index over words whose vectors have lengths from 1 to 50, in many row groups; and these vectors."""
    root = tmp_path_factory.mktemp("rows")
    lengths = np.random.default_rng(3).uniform(1, 50, 1_200).astype(np.float32)
    vectors_ND = np.random.default_rng(1).standard_normal((1_200, 16), dtype=np.float32)
    vectors_ND *= lengths[:, None] / np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROW_GROUP_BYTES", 10_000)
        wordpipe.index(made_words(root / "words", vectors_ND), output=root / "index", type="ivf-pq", threads=1)
    return root / "index", vectors_ND


@pytest.mark.parametrize("some", [[0], [1_199], [5, 6, 700], [*range(0, 1_200, 7)]])
def test_the_vectors_are_those_of_the_table_at_length_one(made, some):
    path, vectors = made
    with Artifact(path) as index:
        found = RowVectors(index, "index").read(np.array(some))
    expected = vectors[some] / np.linalg.norm(vectors[some], axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_only_the_row_groups_of_the_rows_are_read(made, monkeypatch):
    read: list[int] = []
    open_part = tables.open_part

    def counting(artifact, name):
        part = open_part(artifact, name)
        group = part.read_row_group
        monkeypatch.setattr(part, "read_row_group", lambda number, **how: read.append(number) or group(number, **how))
        return part

    monkeypatch.setattr(tables, "open_part", counting)
    with Artifact(made[0]) as index:
        vectors_of = RowVectors(index, "index")
        vectors_of.read(np.array([3, 4, 1_190]))
        assert len(read) == 2


def test_words_under_a_condition_are_those_of_brute_force(made):
    path, vectors = made
    unit_ND = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    with wordpipe.open(path) as index:
        allowed = [row for row in range(1_200) if f"w{row}" < "w5" and row != 30]
        scores = unit_ND[allowed] @ unit_ND[30]
        best = np.argsort(-scores)[:12]
        found = index.query("w30", 12, where="word < 'w5'")
    assert [hit["row"] for hit in found] == [allowed[at] for at in best]
    np.testing.assert_allclose([hit["score"] for hit in found], scores[best], atol=1e-5)


def test_a_damaged_table_is_named(made, tmp_path):
    shutil.copytree(made[0], tmp_path / "index")
    with Artifact(tmp_path / "index") as index:
        vectors_of, reader = RowVectors(index, "index"), RowReader(index, "index", ["word"])
        with (tmp_path / "index" / "index-00000.parquet").open("r+b") as file:
            file.write(b"PAR1" + bytes([255]) * 5_000)
        with pytest.raises(ArtifactError, match="damaged Parquet"):
            vectors_of.read(np.array([1]))
        with pytest.raises(ArtifactError, match="damaged Parquet"):
            reader.fetch([1])
