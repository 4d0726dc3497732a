"""Tables under bad conditions: damage, refusing disks, stages that fail half way, many rows, few descriptors."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.generations import beside
from tests.support.made_tables import NUMBERS, files_in, numbers, publish_table, rows_in
from tests.support.tracing import ROOT
from wordpipe.artifacts import Artifact, open_part, read_batches
from wordpipe.artifacts import publish as failpoints
from wordpipe.errors import ArtifactError


def test_a_damaged_table_is_named_even_unchecked(tmp_path):
    """Whoever turns checking off still gets a message, not a number of wrong rows or a traceback."""
    publish_table(tmp_path / "a", NUMBERS, [numbers(0, 50_000)])
    path = tmp_path / "a" / "rows-00000.parquet"
    good = path.read_bytes()
    named = 0
    for place in [*range(40), *range(len(good) // 2, len(good) // 2 + 40), *range(len(good) - 300, len(good))]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        with Artifact(tmp_path / "a", verify=False) as artifact:
            try:
                list(read_batches(artifact, "rows"))
            except ArtifactError as error:
                assert error.where == str(path)  # noqa: PT017
                named += 1
        with pytest.raises(ArtifactError, match="has changed"):
            Artifact(tmp_path / "a")
    assert named > 50


def test_an_unreadable_disk_is_not_called_damage(tmp_path, monkeypatch):
    publish_table(tmp_path / "a", NUMBERS, [numbers(0, 10)])

    def broken(*_):
        raise OSError(5, "Input/output error")

    with Artifact(tmp_path / "a") as artifact:
        monkeypatch.setattr("os.preadv", broken)
        with pytest.raises(OSError, match="Input/output error") as caught:
            list(read_batches(artifact, "rows"))
    assert caught.value.filename == str(tmp_path / "a" / "rows-00000.parquet")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("action", ["enospc", "eio"])
@pytest.mark.parametrize("place", ["publish.file_written", "publish.file_synced"])
def test_the_disk_refuses_somewhere_in_a_table(tmp_path, monkeypatch, place, action):
    """Whatever pyarrow makes of the error, and whenever it collects its garbage: an OSError, and nothing is left."""
    target = tmp_path / "a"
    publish_table(target, NUMBERS, [numbers(0, 3)])
    before = files_in(target)
    failed = 0
    for nth in range(1, 1000, 4):
        monkeypatch.setattr(failpoints, "_passed", {})
        monkeypatch.setenv("WORDPIPE_FAILPOINT", f"{place}:{action}:{nth}")
        try:
            publish_table(target, NUMBERS, [numbers(0, 200), numbers(200, 400)])
        except OSError as error:
            assert error.filename.startswith(str(tmp_path))  # noqa: PT017
        else:
            break
        failed += 1
        gc.collect()
        assert files_in(target) == before
        assert beside(target) == []
    assert failed > 0
    assert len(rows_in(target)) == 400


@pytest.mark.usefixtures("small")
def test_a_stage_that_fails_half_way_is_not_heard_of_again(tmp_path):
    """A Parquet writer that is left alone tries to end its file when it is collected, long after that is gone."""

    def half() -> Iterator[pa.RecordBatch]:
        yield numbers(0, 100)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        publish_table(tmp_path / "a", NUMBERS, half())
    gc.collect()  # what goes wrong there is a warning, and warnings are errors
    assert list(tmp_path.iterdir()) == []


def test_no_descriptors_leak(tmp_path):
    publish_table(tmp_path / "a", NUMBERS, [numbers(0, 10_000)])

    def cycle() -> None:
        with Artifact(tmp_path / "a") as artifact:
            for _ in read_batches(artifact, "rows"):
                break  # a reader that leaves early
            list(read_batches(artifact, "rows"))
        (tmp_path / "b").mkdir(exist_ok=True)
        publish_table(tmp_path / "b", NUMBERS, [numbers(0, 10)])

    gc.disable()  # nothing may wait for the garbage collector
    try:
        cycle()
        before = sorted(path.name for path in Path("/dev/fd").iterdir())
        for _ in range(5):
            cycle()
        assert sorted(path.name for path in Path("/dev/fd").iterdir()) == before
    finally:
        gc.enable()


def test_a_closed_part_holds_nothing(tmp_path):
    """Even while somebody still refers to it."""
    publish_table(tmp_path / "a", NUMBERS, [numbers(0, 10)])
    with Artifact(tmp_path / "a", verify=False) as artifact:
        before = sorted(path.name for path in Path("/dev/fd").iterdir())
        with open_part(artifact, "rows-00000.parquet") as part:
            assert part.metadata.num_rows == 10
        assert sorted(path.name for path in Path("/dev/fd").iterdir()) == before
        del part


MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from tests.support.generations import manifest_for
from wordpipe.artifacts import tables
from wordpipe.artifacts.writer import ArtifactWriter
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import words_schema
tables.ROW_GROUP_BYTES, tables.PART_BYTES = 1 << 20, 8 << 20
schema = words_schema(256)
rows = 1024
vectors = pa.FixedSizeListArray.from_arrays(np.zeros(rows * 256, np.float32), type=schema.field("vector").type)
batch = pa.RecordBatch.from_arrays([pa.array(["w"] * rows), pa.array([1] * rows, pa.int64()), vectors], schema=schema)
with ArtifactWriter(Path(sys.argv[1])) as writer:
    with tables.TableWriter(writer, "rows", schema) as table:
        for _ in range(int(sys.argv[2])):
            table.write(batch)
    writer.publish(manifest_for(writer.outputs))
with Artifact(sys.argv[1]) as artifact:
    assert sum(map(len, tables.read_batches(artifact, "rows"))) == table.rows == rows * int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 if sys.platform != "darwin" else 1024))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Ten times the rows (160 MB instead of 16), written and read: the peak stays within 10 MB."""

    def peak_kib(batches: int) -> int:
        command = [sys.executable, "-c", MEMORY, str(tmp_path / str(batches)), str(batches)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    small, large = peak_kib(16), peak_kib(160)
    assert large < small + 10 * 1024, (small, large)
