"""The resume cache: files of unfinished work, whole or absent, and of one recipe."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wordpipe.artifacts import ArtifactWriter, ResumeCache

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


@pytest.fixture
def cache(tmp_path):
    return ResumeCache(tmp_path / ".x.partial", "recipe one")


def test_a_finished_file_is_found_by_the_next_run_with_its_figures(cache):
    assert cache.figures("a") is None
    cache.put("a", b"bytes", {"rows": 3})
    again = ResumeCache(cache.path, "recipe one")
    assert again.figures("a") == {"rows": 3}
    with again.open("a") as file:
        assert file.read() == b"bytes"


def test_files_of_another_recipe_are_thrown_away(cache):
    cache.put("a", b"bytes")
    assert ResumeCache(cache.path, "recipe two").figures("a") is None
    assert not cache.path.exists()


@pytest.mark.parametrize("damage", [b"bytez", b"byte", b""])
def test_a_changed_file_does_not_count(cache, damage):
    cache.put("a", b"bytes")
    (cache.path / "a").write_bytes(damage)
    assert cache.figures("a") is None
    cache.put("a", b"again", {"rows": 1})
    assert cache.figures("a") == {"rows": 1}


def test_a_file_with_a_damaged_note_does_not_count(cache):
    cache.put("a", b"bytes")
    (cache.path / "a.json").write_text("{")
    assert cache.figures("a") is None


def test_a_file_that_was_not_finished_does_not_count(cache):
    with pytest.raises(ZeroDivisionError), cache.create("a", {}) as file:
        file.write(b"half" * (1 // 0))
    assert cache.figures("a") is None
    with cache.create("a", {"n": 1}) as file:
        file.write(b"whole")
    assert cache.figures("a") == {"n": 1}


def test_threads_share_a_cache(tmp_path):
    for turn in range(50):
        cache = ResumeCache(tmp_path / f".{turn}.partial", "recipe")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name, cache=cache: cache.put(name, name.encode()), ["a", "b", "c", "d"]))
        assert all(cache.figures(name) == {} for name in "abcd")


def test_a_file_that_fails_does_not_take_those_of_other_threads_along(cache):
    with cache.create("a", {}) as file:
        with pytest.raises(ZeroDivisionError), cache.create("b", {}):
            1 // 0  # noqa: B018
        file.write(b"whole")
    assert cache.figures("a") == {}
    assert cache.figures("b") is None


def test_a_table_is_kept_and_becomes_a_file_of_an_artifact(cache, tmp_path):
    with cache.table("t-00000.parquet", SCHEMA, figures := {"sum": 0}) as table:
        table.write(pa.record_batch([pa.array([1, 2, 3])], schema=SCHEMA))
        figures["sum"] = 6
    assert cache.figures("t-00000.parquet") == {"sum": 6, "rows": 3}
    with ArtifactWriter(tmp_path / "x") as writer:
        cache.adopt("t-00000.parquet", writer)
        assert [(entry.path, entry.rows) for entry in writer.outputs] == [("t-00000.parquet", 3)]
        assert pq.read_table(writer.path / "t-00000.parquet").column("n").to_pylist() == [1, 2, 3]
    assert cache.figures("t-00000.parquet") == {"sum": 6, "rows": 3}, "it stays until it is published"
