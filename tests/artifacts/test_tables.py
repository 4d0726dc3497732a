"""Parquet streams: rows come back as they went in, packed as they should, and the bytes depend on the rows alone."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.generations import manifest_for
from tests.support.made_tables import NUMBERS, files_in, numbers, publish_table, rows_in
from wordpipe.artifacts import (
    CORPUS,
    STEPS,
    TOKENS_16,
    TOKENS_32,
    VOCABULARY,
    Artifact,
    ArtifactWriter,
    TableWriter,
    leaf_paths,
    matrix_of,
    open_part,
    part_names,
    read_schema,
    row_bytes,
    row_count,
    sentences_schema,
    tables,
    vector_column,
    vectors_schema,
    words_schema,
)
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
    "rows": pa.schema([*CORPUS, *METADATA]),
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


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=5, deadline=None)
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
        assert row_count(artifact, "rows") == len(rows)
        assert read_schema(artifact, "rows", schema).equals(schema)


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
@settings(max_examples=5, deadline=None)
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
    group = pq.read_metadata(tmp_path / "a" / "rows-00000.parquet").row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert list(columns) == [path for field in schema for path in leaf_paths(field)]
    for path, column in columns.items():
        assert column.compression == ("UNCOMPRESSED" if path.startswith("vector") else "ZSTD"), path
        assert ("BYTE_STREAM_SPLIT" in column.encodings) == ("ids.list" in path), path
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


def test_a_table_without_rows(tmp_path):
    for batches in ([], [numbers(0, 0)]):
        publish_table(tmp_path / str(len(batches)), NUMBERS, batches)
        assert rows_in(tmp_path / str(len(batches)), expected=NUMBERS) == []
        with Artifact(tmp_path / str(len(batches))) as artifact:
            assert part_names(artifact, "rows") == ["rows-00000.parquet"]
            assert row_count(artifact, "rows") == 0


@pytest.mark.usefixtures("small")
def test_parts_and_row_groups(tmp_path):
    publish_table(tmp_path / "many", NUMBERS, [numbers(0, 3000)])
    publish_table(tmp_path / "single", NUMBERS, [numbers(0, 3000)], single=True)
    with Artifact(tmp_path / "many") as many, Artifact(tmp_path / "single") as single:
        names = part_names(many, "rows")
        assert names[:2] == ["rows-00000.parquet", "rows-00001.parquet"]
        assert len(names) > 5
        assert part_names(single, "rows") == ["rows.parquet"]
        with open_part(single, "rows.parquet") as part:
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
        with ArtifactWriter(tmp_path / "a") as writer:
            writer.write("vectors", b"the same")
            with TableWriter(writer, "log", NUMBERS, single=True, log=True) as table:
                table.write(numbers(0, stop))
            manifest = manifest_for(writer.outputs)
            writer.publish(manifest)
            digests.add(manifest.digest)
    assert len(digests) == 1
    assert rows_in(tmp_path / "a", "log") == [{"n": 0}, {"n": 1}]


def test_tables_whose_names_begin_alike(tmp_path):
    with ArtifactWriter(tmp_path / "a") as writer:
        for stem, stop in (("words", 1), ("words-old", 2), ("word", 3)):
            with TableWriter(writer, stem, NUMBERS) as table:
                table.write(numbers(0, stop))
        with TableWriter(writer, "words", NUMBERS, single=True) as table:
            table.write(numbers(0, 4))
        writer.publish(manifest_for(writer.outputs))
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
    assert caught.value.where == str(tmp_path / "a" / "rows-00000.parquet")


def test_a_batch_of_another_schema_is_a_mistake(tmp_path):
    with (
        ArtifactWriter(tmp_path / "a") as writer,
        pytest.raises(AssertionError),
        TableWriter(writer, "rows", CORPUS) as table,
    ):
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


@pytest.mark.parametrize(("rows", "dim"), [(0, 3), (1, 1), (7, 4)])
def test_a_matrix_comes_back_from_its_column(rows, dim):
    matrix = np.random.default_rng().normal(size=(rows, 2 * dim)).astype(np.float32)[:, ::2]
    column = vector_column(matrix)
    assert column.type == vectors_schema(dim).field("vector").type
    np.testing.assert_array_equal(matrix_of(column), matrix)
    np.testing.assert_array_equal(matrix_of(column.slice(1)), matrix[1:])
