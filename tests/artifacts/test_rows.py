"""Rows by their number: the same as reading all and picking, from few row groups, with nothing left open."""

import gc
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.artifacts.made_tables import publish_table
from wordpipe.artifacts import Artifact, RowReader, tables

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
        reader = RowReader(artifact, "corpus", ["t"])
        assert reader.rows == ROWS
        assert reader.fetch(wanted) == [{"t": f"row {n}"} for n in wanted]


@pytest.mark.parametrize("row", [-1, ROWS, ROWS + 10**6])
def test_a_row_that_is_not_there(target, row):
    """FAISS answers -1 where it has no neighbour; that must never be taken for the last row."""
    with Artifact(target) as artifact, pytest.raises(IndexError):
        RowReader(artifact, "corpus", ["t"]).fetch([row])


def test_a_row_group_is_read_once(target, monkeypatch):
    with Artifact(target) as artifact:
        reader = RowReader(artifact, "corpus", ["n"])
        reader.fetch([5])
        monkeypatch.setattr("os.preadv", None)
        assert reader.fetch([5, 4, 3]) == [{"n": 5}, {"n": 4}, {"n": 3}]


def test_an_empty_table(tmp_path):
    batch = pa.record_batch({"n": pa.array([], pa.int64())})
    publish_table(tmp_path / "a", batch.schema, [batch])
    with Artifact(tmp_path / "a") as artifact:
        reader = RowReader(artifact, "corpus", ["n"])
        assert reader.rows == 0
        assert reader.fetch([]) == []
        with pytest.raises(IndexError):
            reader.fetch([0])


def test_no_descriptors_leak(target):
    def cycle() -> None:
        with Artifact(target) as artifact:
            reader = RowReader(artifact, "corpus", ["n", "t"])
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
