"""Parquet streams: rows come back as they went in, the bytes depend on the rows alone, memory stays flat."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.artifacts.generations import beside, manifest_for
from tests.artifacts.tracing import ROOT
from wordpipe.artifacts import failpoints, tables
from wordpipe.artifacts.draft import Draft
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import CORPUS, STEPS, TOKENS_16, TOKENS_32, VOCABULARY, sentences_schema, words_schema
from wordpipe.artifacts.tables import TableWriter, open_part, part_names, read_batches, read_schema, row_count
from wordpipe.artifacts.widths import leaf_paths, row_bytes
from wordpipe.errors import ArtifactError

METADATA = pa.schema(
    [
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.struct([pa.field("lat", pa.float64()), pa.field("names", pa.list_(pa.string()))])),
        pa.field("when", pa.timestamp("us")),
        pa.field("blob", pa.binary()),
        pa.field("price", pa.decimal128(9, 2)),
    ]
)
SCHEMAS = {
    "corpus": pa.schema([*CORPUS, *METADATA]),
    "tokens": TOKENS_16,
    "tokens 32": TOKENS_32,
    "vocabulary": VOCABULARY,
    "steps": STEPS,
    "words": words_schema(3),
    "sentences": sentences_schema(2, METADATA),
}
TEXT = st.text(max_size=12)


def values(kind: pa.DataType) -> st.SearchStrategy:
    """Values of an Arrow type."""
    if pa.types.is_fixed_size_list(kind):
        return st.lists(values(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    if pa.types.is_list(kind):
        return st.lists(values(kind.value_type), max_size=4)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: st.none() | values(field.type) for field in kind})
    if pa.types.is_integer(kind):
        low, high = (
            (0, 2**kind.bit_width) if "u" in str(kind) else (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1))
        )
        return st.integers(low, high - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False)
    if pa.types.is_decimal(kind):
        return st.decimals(-9999, 9999, places=2)
    if pa.types.is_timestamp(kind):
        return st.datetimes()
    return st.binary(max_size=5) if pa.types.is_binary(kind) else TEXT


def rows_of(schema: pa.Schema) -> st.SearchStrategy[list[dict]]:
    fields = {
        field.name: values(field.type) if not field.nullable else st.none() | values(field.type) for field in schema
    }
    return st.lists(st.fixed_dictionaries(fields), max_size=12)


def batches_of(rows: list[dict], schema: pa.Schema, cuts: list[int]) -> list[pa.RecordBatch]:
    """The rows in batches, cut anywhere; some are slices of a larger one, some are not."""
    whole = pa.RecordBatch.from_pylist(rows, schema)
    ends = [*sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    found = []
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        piece = whole.slice(start, end - start)
        found.append(piece if number % 2 else pa.RecordBatch.from_pylist(rows[start:end], schema))
    return found


def publish_table(target: Path, schema: pa.Schema, batches, stem: str = "corpus", **options) -> TableWriter:
    """An artifact that holds one table."""
    with Draft(target) as draft:
        with TableWriter(draft, stem, schema, **options) as table:
            for batch in batches:
                table.write(batch)
        draft.publish(manifest_for(draft.outputs))
    return table


def rows_in(target: Path, stem: str = "corpus", **options) -> list[dict]:
    with Artifact(target) as artifact:
        return [row for batch in read_batches(artifact, stem, **options) for row in batch.to_pylist()]


def files_in(target: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in target.glob("*.parquet")}


@pytest.fixture
def small(monkeypatch) -> None:
    """Row groups and parts so small that a few rows make several."""
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 200)
    monkeypatch.setattr(tables, "PART_BYTES", 1500)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(data=st.data())
def test_round_trip_whatever_the_batches(tmp_path_factory, schema, data):
    rows = data.draw(rows_of(schema))
    cuts = st.lists(st.integers(0, 12), max_size=4)
    folder = tmp_path_factory.mktemp("tables")
    table = publish_table(folder / "one", schema, batches_of(rows, schema, data.draw(cuts)))
    publish_table(folder / "two", schema, batches_of(rows, schema, data.draw(cuts)))
    expected = pa.RecordBatch.from_pylist(rows, schema).to_pylist()  # float32 rounds
    assert rows_in(folder / "one", expected=schema) == expected
    assert files_in(folder / "one") == files_in(folder / "two")
    assert table.rows == len(rows)
    with Artifact(folder / "one") as artifact:
        assert row_count(artifact, "corpus") == len(rows)
        assert read_schema(artifact, "corpus", schema).equals(schema)


@pytest.mark.parametrize("rows_per_batch", [777, 1024, 20_011])
def test_columns_of_several_pages_whatever_the_batches(tmp_path, rows_per_batch):
    """Handed over in pieces, a list column of more than a page comes out with other pages for other pieces."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 30, 40_000)
    ids = pa.array(rng.integers(0, 60_000, lengths.sum()), pa.uint16())
    lists = pa.ListArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32()), ids)
    whole = pa.record_batch({"ids": lists})
    pieces = [whole.slice(start, rows_per_batch) for start in range(0, len(whole), rows_per_batch)]
    publish_table(tmp_path / "one", whole.schema, [whole])
    publish_table(tmp_path / "two", whole.schema, pieces)
    assert files_in(tmp_path / "one") == files_in(tmp_path / "two")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_weight_of_a_row_does_not_depend_on_the_batch(schema, data):
    rows = data.draw(rows_of(schema))
    whole = row_bytes(pa.RecordBatch.from_pylist(rows, schema))
    assert len(whole) == len(rows)
    assert (whole > 0).all()
    for place, row in enumerate(rows):
        alone = row_bytes(pa.RecordBatch.from_pylist([row], schema))
        sliced = row_bytes(pa.RecordBatch.from_pylist(rows, schema).slice(place, 1))
        assert alone.tolist() == sliced.tolist() == [whole[place]]


def test_weights_follow_the_arrow_buffers():
    batch = pa.record_batch({"t": ["a" * 1000] * 50, "v": pa.array([[1.0] * 100] * 50, pa.list_(pa.float32(), 100))})
    assert row_bytes(batch).sum() == pytest.approx(batch.nbytes, rel=0.02)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_every_column_is_packed_as_it_should(tmp_path, schema):
    """Parquet knows the numbers of a list as `ids.list.element`; a codec for `ids` would be ignored in silence."""
    fields = {field.name: _example(field.type) for field in schema}
    publish_table(tmp_path / "a", schema, [pa.RecordBatch.from_pylist([fields] * 50, schema)])
    group = pq.read_metadata(tmp_path / "a" / "corpus-00000.parquet").row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert list(columns) == [path for field in schema for path in leaf_paths(field)]
    for path, column in columns.items():
        assert column.compression == ("UNCOMPRESSED" if path.startswith("vector") else "ZSTD"), path
        repeated = path in ("doc_id", "title", "split", "source")
        assert ("RLE_DICTIONARY" in column.encodings) == repeated, path
        assert not column.is_stats_set


def _example(kind: pa.DataType):
    if pa.types.is_fixed_size_list(kind):
        return [1.0] * kind.list_size
    if pa.types.is_list(kind):
        return [_example(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _example(field.type) for field in kind}
    return (
        None if pa.types.is_decimal(kind) else b"x" if pa.types.is_binary(kind) else "x" if kind == pa.string() else 1
    )


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


NUMBERS = numbers(0, 0).schema


def test_a_table_without_rows(tmp_path):
    for batches in ([], [numbers(0, 0)]):
        publish_table(tmp_path / str(len(batches)), NUMBERS, batches)
        assert rows_in(tmp_path / str(len(batches)), expected=NUMBERS) == []
        with Artifact(tmp_path / str(len(batches))) as artifact:
            assert part_names(artifact, "corpus") == ["corpus-00000.parquet"]
            assert row_count(artifact, "corpus") == 0


@pytest.mark.usefixtures("small")
def test_parts_and_row_groups(tmp_path):
    publish_table(tmp_path / "many", NUMBERS, [numbers(0, 3000)])
    publish_table(tmp_path / "single", NUMBERS, [numbers(0, 3000)], single=True)
    with Artifact(tmp_path / "many") as many, Artifact(tmp_path / "single") as single:
        names = part_names(many, "corpus")
        assert names[:2] == ["corpus-00000.parquet", "corpus-00001.parquet"]
        assert len(names) > 5
        assert part_names(single, "corpus") == ["corpus.parquet"]
        with open_part(single, "corpus.parquet") as part:
            groups = [part.metadata.row_group(number).num_rows for number in range(part.metadata.num_row_groups)]
    assert set(groups[:-1]) == {23}  # 9 bytes each, until 200 are reached
    assert [row["n"] for row in rows_in(tmp_path / "many")] == list(range(3000))


def test_a_row_larger_than_a_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 100)
    batch = pa.record_batch({"t": ["a", "b" * 1000, "c"]})
    publish_table(tmp_path / "a", batch.schema, [batch])
    assert [len(row["t"]) for row in rows_in(tmp_path / "a")] == [1, 1000, 1]


def test_a_log_is_outside_the_digest(tmp_path):
    digests = set()
    for stop in (1, 2):
        with Draft(tmp_path / "a") as draft:
            draft.write("vectors", b"the same")
            with TableWriter(draft, "steps", NUMBERS, single=True, log=True) as table:
                table.write(numbers(0, stop))
            manifest = manifest_for(draft.outputs)
            draft.publish(manifest)
            digests.add(manifest.digest)
    assert len(digests) == 1
    assert rows_in(tmp_path / "a", "steps") == [{"n": 0}, {"n": 1}]


def test_tables_whose_names_begin_alike(tmp_path):
    with Draft(tmp_path / "a") as draft:
        for stem, stop in (("words", 1), ("words-old", 2), ("word", 3)):
            with TableWriter(draft, stem, NUMBERS) as table:
                table.write(numbers(0, stop))
        with TableWriter(draft, "words", NUMBERS, single=True) as table:
            table.write(numbers(0, 4))
        draft.publish(manifest_for(draft.outputs))
    with Artifact(tmp_path / "a") as artifact:
        assert part_names(artifact, "word") == ["word-00000.parquet"]
        assert part_names(artifact, "words-old") == ["words-old-00000.parquet"]
        assert part_names(artifact, "words") == ["words-00000.parquet", "words.parquet"]
        with pytest.raises(ArtifactError, match="no table 'sentences'"):
            part_names(artifact, "sentences")


def test_columns_are_chosen(tmp_path):
    batch = pa.RecordBatch.from_pylist([{f.name: _example(f.type) for f in TOKENS_16}], TOKENS_16)
    publish_table(tmp_path / "a", TOKENS_16, [batch])
    assert rows_in(tmp_path / "a", columns=["ids", "split"]) == [{"split": "x", "ids": [1]}]


@pytest.mark.parametrize(
    "expected", [VOCABULARY, pa.schema([pa.field("n", pa.int32())]), pa.schema([*NUMBERS, *VOCABULARY])]
)
def test_other_columns_than_expected(tmp_path, expected):
    publish_table(tmp_path / "a", NUMBERS, [numbers(0, 3)])
    with pytest.raises(ArtifactError, match="unexpected columns") as caught:
        rows_in(tmp_path / "a", expected=expected)
    assert caught.value.where == str(tmp_path / "a" / "corpus-00000.parquet")


def test_a_batch_of_another_schema_is_a_mistake(tmp_path):
    with Draft(tmp_path / "a") as draft, pytest.raises(AssertionError), TableWriter(draft, "corpus", CORPUS) as table:
        table.write(numbers(0, 1))


@pytest.mark.parametrize(
    ("column", "value"), [("ids", None), ("ids", [1, None]), ("doc_id", None), ("sentence_id", None)]
)
def test_a_null_where_none_may_be_is_never_written(tmp_path, column, value):
    row = {field.name: _example(field.type) for field in TOKENS_16} | {column: value}
    loose = pa.schema(
        [pa.field(f.name, pa.list_(f.type.value_type) if "list" in str(f.type) else f.type) for f in TOKENS_16]
    )
    arrays = pa.RecordBatch.from_pylist([row], loose).columns
    batch = pa.RecordBatch.from_arrays(
        [a.cast(f.type) for a, f in zip(arrays, TOKENS_16, strict=True)], schema=TOKENS_16
    )
    with pytest.raises((AssertionError, pa.ArrowInvalid), match=r"has nulls|non-nullable"):
        publish_table(tmp_path / "a", TOKENS_16, [batch])
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_table_is_named_even_unchecked(tmp_path):
    """Whoever turns checking off still gets a message, not a number of wrong rows or a traceback."""
    publish_table(tmp_path / "a", NUMBERS, [numbers(0, 50_000)])
    path = tmp_path / "a" / "corpus-00000.parquet"
    good = path.read_bytes()
    named = 0
    for place in [*range(40), *range(len(good) // 2, len(good) // 2 + 40), *range(len(good) - 300, len(good))]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        with Artifact(tmp_path / "a", verify=False) as artifact:
            try:
                list(read_batches(artifact, "corpus"))
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
            list(read_batches(artifact, "corpus"))
    assert caught.value.filename == str(tmp_path / "a" / "corpus-00000.parquet")


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
            for _ in read_batches(artifact, "corpus"):
                break  # a reader that leaves early
            list(read_batches(artifact, "corpus"))
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
        with open_part(artifact, "corpus-00000.parquet") as part:
            assert part.metadata.num_rows == 10
        assert sorted(path.name for path in Path("/dev/fd").iterdir()) == before
        del part


MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from tests.artifacts.generations import manifest_for
from wordpipe.artifacts import tables
from wordpipe.artifacts.draft import Draft
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import words_schema
tables.ROW_GROUP_BYTES, tables.PART_BYTES = 1 << 20, 8 << 20
schema = words_schema(256)
rows = 1024
vectors = pa.FixedSizeListArray.from_arrays(np.zeros(rows * 256, np.float32), type=schema.field("vector").type)
batch = pa.RecordBatch.from_arrays([pa.array(["w"] * rows), pa.array([1] * rows, pa.int64()), vectors], schema=schema)
with Draft(Path(sys.argv[1])) as draft:
    with tables.TableWriter(draft, "corpus", schema) as table:
        for _ in range(int(sys.argv[2])):
            table.write(batch)
    draft.publish(manifest_for(draft.outputs))
with Artifact(sys.argv[1]) as artifact:
    assert sum(map(len, tables.read_batches(artifact, "corpus"))) == table.rows == rows * int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 if sys.platform != "darwin" else 1024))
"""


def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Ten times the rows (160 MB instead of 16), written and read: the peak stays within 10 MB."""

    def peak_kib(batches: int) -> int:
        command = [sys.executable, "-c", MEMORY, str(tmp_path / str(batches)), str(batches)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    small, large = peak_kib(16), peak_kib(160)
    assert large < small + 10 * 1024, (small, large)
