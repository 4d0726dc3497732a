"""Small tables in artifacts, written and read back."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from tests.support.generations import manifest_for
from wordpipe.artifacts import Artifact, ArtifactWriter, TableWriter, read_batches


def publish_table(
    target: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], stem: str = "rows", **options
) -> TableWriter:
    """An artifact that holds one table."""
    with ArtifactWriter(target) as writer:
        with TableWriter(writer, stem, schema, **options) as table:
            for batch in batches:
                table.write(batch)
        writer.publish(manifest_for(writer.outputs))
    return table


def rows_in(target: Path, stem: str = "rows", **options) -> list[dict]:
    with Artifact(target) as artifact:
        return [row for batch in read_batches(artifact, stem, **options) for row in batch.to_pylist()]


def files_in(target: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in target.glob("*.parquet")}


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


NUMBERS = numbers(0, 0).schema
