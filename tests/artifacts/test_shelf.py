"""Pieces of unfinished work: whole or absent, and of one recipe."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wordpipe.artifacts import ArtifactWriter, ResumeCache

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


@pytest.fixture
def shelf(tmp_path):
    return ResumeCache(tmp_path / ".x.partial", "recipe one")


def test_a_finished_piece_is_found_by_the_next_run_with_its_figures(shelf):
    assert shelf.figures("a") is None
    shelf.put("a", b"bytes", {"rows": 3})
    again = ResumeCache(shelf.path, "recipe one")
    assert again.figures("a") == {"rows": 3}
    with again.open("a") as file:
        assert file.read() == b"bytes"


def test_pieces_of_another_recipe_are_thrown_away(shelf):
    shelf.put("a", b"bytes")
    assert ResumeCache(shelf.path, "recipe two").figures("a") is None
    assert not shelf.path.exists()


@pytest.mark.parametrize("damage", [b"bytez", b"byte", b""])
def test_a_changed_piece_is_no_piece(shelf, damage):
    shelf.put("a", b"bytes")
    (shelf.path / "a").write_bytes(damage)
    assert shelf.figures("a") is None
    shelf.put("a", b"again", {"rows": 1})
    assert shelf.figures("a") == {"rows": 1}


def test_a_damaged_note_is_no_piece(shelf):
    shelf.put("a", b"bytes")
    (shelf.path / "a.json").write_text("{")
    assert shelf.figures("a") is None


def test_a_piece_that_was_not_finished_does_not_count(shelf):
    with pytest.raises(ZeroDivisionError), shelf.piece("a", {}) as file:
        file.write(b"half" * (1 // 0))
    assert shelf.figures("a") is None
    with shelf.piece("a", {"n": 1}) as file:
        file.write(b"whole")
    assert shelf.figures("a") == {"n": 1}


def test_threads_share_a_shelf(tmp_path):
    for turn in range(50):
        shelf = ResumeCache(tmp_path / f".{turn}.partial", "recipe")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name, shelf=shelf: shelf.put(name, name.encode()), ["a", "b", "c", "d"]))
        assert all(shelf.figures(name) == {} for name in "abcd")


def test_a_piece_that_fails_does_not_take_those_of_other_threads_along(shelf):
    with shelf.piece("a", {}) as file:
        with pytest.raises(ZeroDivisionError), shelf.piece("b", {}):
            1 // 0  # noqa: B018
        file.write(b"whole")
    assert shelf.figures("a") == {}
    assert shelf.figures("b") is None


def test_a_table_is_a_piece_and_becomes_a_file_of_an_artifact(shelf, tmp_path):
    with shelf.table("t-00000.parquet", SCHEMA, figures := {"sum": 0}) as table:
        table.write(pa.record_batch([pa.array([1, 2, 3])], schema=SCHEMA))
        figures["sum"] = 6
    assert shelf.figures("t-00000.parquet") == {"sum": 6, "rows": 3}
    with ArtifactWriter(tmp_path / "x") as draft:
        shelf.adopt("t-00000.parquet", draft)
        assert [(entry.path, entry.rows) for entry in draft.outputs] == [("t-00000.parquet", 3)]
        assert pq.read_table(draft.path / "t-00000.parquet").column("n").to_pylist() == [1, 2, 3]
    assert shelf.figures("t-00000.parquet") == {"sum": 6, "rows": 3}, "it stays until it is published"
