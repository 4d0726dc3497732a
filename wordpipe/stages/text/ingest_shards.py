"""The shards of `wordpipe ingest`: runs of sources, each read by itself. See `ShardWork` for what they promise.

    shard-00003                         figures: what each source gave, notes, columns and names of the files
    shard-00003-0-corpus-00000.parquet  a file of its rows, of the first stretch with the same columns
    shard-00003-keys.parquet            what its documents are known by

Whether a document is a duplicate depends on all sources before it, and the columns of the table on all of them. So a shard is
read as if it were alone. The driver looks through what documents are known by, in order, as one reading would; a shard with
texts that were there before is read once more, and leaves these out. What the driver remembers is what one reading remembers:
16 to 32 bytes for each document.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from wordpipe.artifacts import CachedFiles, ResumeCache, hash_bytes
from wordpipe.corpus import Digests, Ingest, RecordIds, Source
from wordpipe.corpus.settings import IngestSettings
from wordpipe.engines import OnUnits
from wordpipe.stages.text.corpus_parts import CachedStretch, Part, read_file, write_parts

LIBRARIES = ("pyarrow", "zstandard")
_KEYS = pa.schema([pa.field("key", pa.binary(10), nullable=False), pa.field("digest", pa.binary(10), nullable=False)])
_IDS = pa.schema([("id", pa.string()), ("source", pa.string()), ("line", pa.int64())])
_ROWS = 1 << 16


class _NotedDigests(Digests):
    """Digests that remember, in order, what was added: by what each document is looked for, and the digest of its text."""

    def __init__(self, known: Sequence[bytes]) -> None:
        super().__init__()
        for digest in known:
            super().add(digest)
        self.added: list[bytes] = []

    def add(self, digest: bytes, note: bytes = b"") -> bool:
        """See `Digests.add`."""
        self.added.append(digest)
        return super().add(digest, note)


class _NotedIds(RecordIds):
    """Ids that remember, in order, which record claimed them."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed: list[tuple[str, str, int]] = []

    def claim(self, key: str, source: str, line: int) -> str | None:
        """See `RecordIds.claim`."""
        found = super().claim(key, source, line)
        if found is None:
            self.claimed.append((key, source, line))
        return found


@dataclass(frozen=True)
class IngestShards:
    """Reading the sources of each shard.

    Attributes:
        parts: the sources of each shard.
        home: the folder that their paths are seen from.
        settings: how they are read.
        cache: the folder of the cache.
        recipe: what is kept there.
        known: number of a shard → digests of its texts that sources before it have, for shards that are read once more.
    """

    parts: tuple[tuple[Source, ...], ...]
    home: Path
    settings: IngestSettings
    cache: Path
    recipe: str
    known: dict[int, tuple[bytes, ...]] = field(default_factory=dict)

    phase, unit = "reading", "MB"
    side_by_side, in_processes, gpus, libraries = False, True, 0, LIBRARIES
    memory_bytes = 600_000_000

    def size_of(self, number: int) -> int:
        """See `ShardWork`."""
        return round(sum(source.bytes for source in self.parts[number]) / 1e6)

    def prepare(self, threads: int, stack: ExitStack, opened: None = None) -> ResumeCache:
        """See `ShardWork`."""
        return ResumeCache(self.cache, self.recipe, shared=True)

    def make(self, number: int, state: ResumeCache, on_units: OnUnits) -> None:
        """See `ShardWork`."""
        sources, name = self._sources(number), self.name_of(number)
        given: list[dict[str, object]] = []
        reader = Ingest(
            sources, self.settings, is_first=number == 0, on_bytes=lambda done: on_units(round(done / 1e6)),
            on_source=lambda one: given.append({"name": one.name, "rows": one.rows, "ledger": one.ledger}),
        )  # fmt: skip
        reader.seen, reader.ids = _NotedDigests(self.known.get(number, ())), _NotedIds()
        with ExitStack() as stack:
            parts = write_parts(
                reader.rows([sources]), lambda stretch: stack.enter_context(CachedFiles(state, f"{name}-{stretch}-"))
            )
        self._write_keys(state, name, reader)
        figures = {
            "sources": given, "notes": reader.source_notes, "lines": [source.seen.lines for source in sources],
            "stretches": [[schema.serialize().to_pybytes().hex(), files.names] for part in parts for schema, files in part],
        }  # fmt: skip
        state.put(name, b"", figures)

    def name_of(self, number: int) -> str:
        """The name of the figures of a shard; that of a second reading says what it leaves out."""
        known = self.known.get(number)
        again = f"-{hash_bytes(b''.join(known))[:12]}" if known else ""
        return f"shard-{number:05d}{again}"

    def _sources(self, number: int) -> list[Source]:
        """The sources of a shard, with paths that are valid wherever this process is, and nothing seen of them yet."""
        return [
            replace(one, path=one.path and self.home / one.path, seen=type(one.seen)()) for one in self.parts[number]
        ]

    @staticmethod
    def _write_keys(cache: ResumeCache, name: str, reader: Ingest) -> None:
        seen, ids = reader.seen, reader.ids
        assert isinstance(seen, _NotedDigests)
        assert isinstance(ids, _NotedIds)
        with cache.table(f"{name}-keys.parquet", _KEYS, {}) as table:
            for first in range(0, len(seen.added), 2 * _ROWS):
                some = seen.added[first : first + 2 * _ROWS]
                arrays = [pa.array(some[side::2], pa.binary(10)) for side in (0, 1)]
                table.write(pa.RecordBatch.from_arrays(arrays, schema=_KEYS))
        with cache.table(f"{name}-ids.parquet", _IDS, {}) as table:
            for first in range(0, len(ids.claimed), _ROWS):
                columns = zip(*ids.claimed[first : first + _ROWS], strict=True)
                arrays = [pa.array(values, kind.type) for values, kind in zip(columns, _IDS, strict=True)]
                table.write(pa.RecordBatch.from_arrays(arrays, schema=_IDS))


def keys_in(cache: ResumeCache, name: str) -> Iterator[tuple[bytes, bytes]]:
    """By what each document of a shard is looked for, and the digest of its text, in order."""
    for batch in read_file(cache.path / f"{name}-keys.parquet"):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def ids_in(cache: ResumeCache, name: str) -> Iterator[tuple[str, str, int]]:
    """The own id of each record of a shard, its source and its line, in order."""
    for batch in read_file(cache.path / f"{name}-ids.parquet"):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def files_of(name: str, figures: Mapping[str, Any]) -> Iterator[str]:
    """The names of all files of a shard, from the name of its figures and the figures."""
    yield from (f"{name}-keys.parquet", f"{name}-ids.parquet")
    for _, names in figures["stretches"]:
        yield from names


def part_of(cache: ResumeCache, figures: Mapping[str, Any]) -> Part:
    """The rows of a shard, from its figures."""
    return [
        (pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(schema))), CachedStretch(cache, names))
        for schema, names in figures["stretches"]
    ]
