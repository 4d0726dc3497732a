"""A table in shards: stretches of row groups that are worked on, and kept when a stage is killed, one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import BATCH_ROWS, damage_named, open_part, part_names

__all__ = ["Shard", "read_shard", "shards_of"]

SHARD_BYTES = 256 << 20


@dataclass(frozen=True)
class Shard:
    """Some row groups of a table, one after the other.

    Attributes:
        number: 0, 1, … in the order of the table.
        groups: part file and row group.
        rows: rows in them.
    """

    number: int
    groups: tuple[tuple[str, int], ...]
    rows: int


def shards_of(artifact: Artifact, stem: str, shard_bytes: int | None = None) -> list[Shard]:
    """Part a table at row groups into shards of about `shard_bytes` of uncompressed data (256 MiB).

    The shards depend on the table alone, not on the machine or the number of threads.
    """
    limit = SHARD_BYTES if shard_bytes is None else shard_bytes
    shards: list[Shard] = []
    groups: list[tuple[str, int]] = []
    rows = size = 0
    for name in part_names(artifact, stem):
        with open_part(artifact, name) as part:
            found = [part.metadata.row_group(number) for number in range(part.metadata.num_row_groups)]
        for number, group in enumerate(found):
            groups.append((name, number))
            rows, size = rows + group.num_rows, size + group.total_byte_size
            if size >= limit:
                shards.append(Shard(len(shards), tuple(groups), rows))
                groups, rows, size = [], 0, 0
    if groups or not shards:
        shards.append(Shard(len(shards), tuple(groups), rows))
    return shards


def read_shard(artifact: Artifact, shard: Shard, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a shard in order, a few thousand at a time."""
    for name, number in shard.groups:
        with open_part(artifact, name) as part, damage_named(artifact.path / name):
            yield from part.iter_batches(BATCH_ROWS, row_groups=[number], columns=list(columns), use_threads=False)
