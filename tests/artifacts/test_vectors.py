"""How vectors are stored: read back near what they were, unchanged when they are stored again, by every reader alike."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generations import manifest_for
from wordpipe.artifacts import (
    Artifact,
    ArtifactWriter,
    RowReader,
    RowVectors,
    Store,
    TableWriter,
    int8_vectors,
    matrix_of,
    read_batches,
    read_from,
    read_schema,
    read_shard,
    read_vectors,
    sentences_schema,
    shards_of,
    tables,
    unit_vectors,
    vector_column,
)
from wordpipe.errors import DamageError

STORES: list[Store] = ["float32", "float16", "int8"]


def unit_rows(n: int, dim: int, seed: int) -> np.ndarray:
    """Vectors of length 1, the second zero."""
    vectors_ND = np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)
    vectors_ND /= np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    vectors_ND[1:2] = 0
    return vectors_ND


def written(folder, vectors_ND: np.ndarray, store: Store, schema: pa.Schema | None = None):
    schema = schema or sentences_schema(vectors_ND.shape[1], store=store)
    n = len(vectors_ND)
    texts = pa.array([f"text {row}" for row in range(n)])
    columns = [pa.array(range(n), pa.int64()), texts, texts, texts, texts, pa.array(range(n), pa.int64())]
    with ArtifactWriter(folder) as writer:
        with TableWriter(writer, "sentences", schema) as table:
            table.write(pa.RecordBatch.from_arrays([*columns, vector_column(vectors_ND, store)], schema=schema))
        writer.publish(manifest_for(writer.outputs, kind="sentences"))
    return folder


@pytest.mark.parametrize("store", STORES)
@given(dim=st.integers(1, 40), seed=st.integers(0, 1 << 30))
def test_a_stored_vector_is_near_and_stays_what_it_is(tmp_path_factory, store, dim, seed):
    vectors_ND = unit_rows(20, dim, seed)
    with Artifact(written(tmp_path_factory.mktemp("a") / "one", vectors_ND, store), verify=False) as artifact:
        (batch,) = read_batches(artifact, "sentences")
        found_ND = matrix_of(batch.column("vector"))
        assert batch.schema.equals(read_schema(artifact, "sentences"))
    # each number is off by half a step of its format at most, and by what the length of the row then differs from 1
    largest_N1 = np.abs(vectors_ND).max(axis=1, keepdims=True)
    step = {"float32": 0.0, "float16": 2.0**-11, "int8": 1 / 254}[store]
    off = largest_N1 * step * (1 + np.sqrt(dim)) + 1e-6
    assert (np.abs(found_ND - vectors_ND) <= off).all()
    assert not found_ND[1].any()
    np.testing.assert_allclose(
        np.delete(np.linalg.norm(found_ND, axis=1), 1), 1, atol=1e-6 if store != "float16" else 1e-3
    )
    again_ND = written(tmp_path_factory.mktemp("b") / "two", found_ND, store)
    with Artifact(again_ND, verify=False) as artifact:
        (batch,) = read_batches(artifact, "sentences", ["vector"])
        np.testing.assert_array_equal(matrix_of(batch.column("vector")), found_ND)


@pytest.mark.parametrize("store", STORES)
def test_every_reader_finds_the_same(tmp_path, monkeypatch, store):
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 1500)
    monkeypatch.setattr(tables, "BATCH_ROWS", 4)
    vectors_ND = unit_rows(40, 6, 3)
    with Artifact(written(tmp_path / "s", vectors_ND, store), verify=False) as artifact:
        found_ND = np.concatenate([block for _, block in read_vectors(artifact, "sentences")])
        assert np.abs(found_ND - vectors_ND).max() < 0.01
        every = [matrix_of(batch.column("vector")) for batch in read_batches(artifact, "sentences", ["vector"])]
        np.testing.assert_array_equal(np.concatenate(every), found_ND)
        later = [
            matrix_of(batch.column("vector")) for batch in read_from(artifact, "sentences", 13, ["text", "vector"])
        ]
        np.testing.assert_array_equal(np.concatenate(later), found_ND[13:])
        stored = list(int8_vectors(artifact, "sentences"))
        assert bool(stored) == (store == "int8")
        if stored:
            stored_NB = np.concatenate(stored)
            scale_N1 = np.ascontiguousarray(stored_NB[:, :4]).view(np.float32)
            np.testing.assert_array_equal(stored_NB[:, 4:].view(np.int8) * scale_N1, found_ND)
        shards = shards_of(artifact, "sentences", 1)
        assert len(shards) > 1
        parts = [matrix_of(one.column("vector")) for shard in shards for one in read_shard(artifact, shard, ["vector"])]
        np.testing.assert_array_equal(np.concatenate(parts), found_ND)
        single, some = RowReader(artifact, "sentences", ["vector"]), RowVectors(artifact, "sentences")
        np.testing.assert_array_equal([one["vector"] for one in single.fetch([7, 39])], found_ND[[7, 39]])
        np.testing.assert_allclose(some.read(np.array([0, 7, 39])), unit_vectors(found_ND[[0, 7, 39]]), atol=1e-6)
        single.close()
        some.close()
        sizes = sum(len(one) for one in found_ND) * {"float32": 4, "float16": 2, "int8": 1}[store]
        with (tmp_path / "s" / "sentences-00000.parquet").open("rb") as file:
            assert sizes < sum(
                group.column(6).total_compressed_size
                for meta in [pa.parquet.ParquetFile(file).metadata]
                for group in map(meta.row_group, range(meta.num_row_groups))
            )


@pytest.mark.parametrize(
    ("size", "named"), [(7, "float16"), (3, "int8"), (8, "int4"), (8, None)], ids=["odd", "short", "unknown", "unnamed"]
)
def test_other_bytes_are_no_vectors(tmp_path, size, named):
    about = None if named is None else {b"wordpipe.vectors": named.encode()}
    plain = sentences_schema(0)
    schema = plain.append(pa.field("vector", pa.binary(size), nullable=False, metadata=about))
    n = 3
    texts = pa.array(["a"] * n)
    numbers = pa.array(range(n), pa.int64())
    bytes_ = pa.array([b"x" * size] * n, pa.binary(size))
    with ArtifactWriter(tmp_path / "s") as writer:
        with TableWriter(writer, "sentences", schema) as table:
            table.write(
                pa.RecordBatch.from_arrays([numbers, texts, texts, texts, texts, numbers, bytes_], schema=schema)
            )
        writer.publish(manifest_for(writer.outputs, kind="sentences"))
    with (
        Artifact(tmp_path / "s", verify=False) as artifact,
        pytest.raises(DamageError, match="column vector has the type"),
    ):
        read_schema(artifact, "sentences")


def test_a_part_of_a_column_and_one_with_missing_vectors_are_read() -> None:
    vectors = np.random.default_rng().standard_normal((9, 5)).astype(np.float32)
    column = vector_column(vectors)
    np.testing.assert_array_equal(matrix_of(column.slice(3, 4)), vectors[3:7])
    assert matrix_of(column.slice(4, 0)).shape == (0, 5)
    missing = pa.array([vectors[0].tolist(), None, vectors[2].tolist()], column.type)
    np.testing.assert_array_equal(matrix_of(missing), vectors[[0, 2]])
