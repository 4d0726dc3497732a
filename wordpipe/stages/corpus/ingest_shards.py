"""The shards of `wordpipe ingest`: runs of sources, each read by itself. See `ShardWork` for what they promise.

    shard-00003                         figures: what each source gave, notes, columns and names of the files
    shard-00003-0-corpus-00000.parquet  a file of its rows, of the first stretch with the same columns
    shard-00003-keys.parquet            what its documents are known by
    known-00003                         which of these sources before it have

Whether a document is a duplicate depends on all sources before it, and the columns of the table on all of them. So a shard is
read as if it were alone. The driver looks through what documents are known by, in order, as one reading would. A shard with
texts that were there before is made once more, without them: of plain texts the rows that were made are sifted, of others the
sources are read again. What the driver remembers is what one reading remembers: 16 to 32 bytes for each document.

The columns of the table are known only when the last record has been read. Rows are written as they come, in files beside the
artifact, whoever reads them. Where the columns of a part were the same from its first row to its last, and are those of the
whole corpus, as they are of plain text and of records that are all alike, these files are the part: they are adopted as they
are. Where a field came late or changed its type, each stretch of rows with the same columns lies in files of its own, and the
part is written once more, in the columns that hold them all.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wordpipe.artifacts import (
    DOUBLES,
    ArtifactWriter,
    CachedFiles,
    HashedFile,
    OutputEntry,
    PartFiles,
    ResumeCache,
    TableWriter,
)
from wordpipe.corpus import Digests, Ingest, Ledger, RecordIds, Source, leave_out
from wordpipe.corpus.settings import IngestSettings
from wordpipe.engines import OnUnits
from wordpipe.errors import StorageError
from wordpipe.storage import url_of

PART_BYTES = 64 << 20  # of sources in a part, at least
_ROWS_READ = 4096  # read at a time, where rows are written again

Convert = Callable[[pa.RecordBatch], pa.RecordBatch]
Files = TypeVar("Files", bound=PartFiles)
LIBRARIES = ("pyarrow", "charset-normalizer")
_KEY_BYTES = 10
_KEYS = pa.schema([pa.field(name, pa.binary(_KEY_BYTES), nullable=False) for name in ("key", "digest")])
_IDS = pa.schema([("id", pa.string()), ("source", pa.string()), ("line", pa.int64())])
_ROWS = 1 << 16


class StretchFiles(Protocol):
    """Finished files with the rows of one stretch of a corpus."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the stretch, in order."""
        ...

    def adopt(self, writer: ArtifactWriter, names: Iterator[str]) -> None:
        """Make the files of the stretch files of an artifact, called by the next names."""
        ...


Part = Sequence[tuple[pa.Schema, StretchFiles]]
"""The rows of a part in order, each stretch with the columns that it has."""


class ScratchFiles:
    """The files of one stretch of corpus rows, in a scratch folder of its own: `StretchFiles`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: list[OutputEntry] = []
        folder.mkdir()

    def open(self, name: str) -> HashedFile:
        """Open a new file of the stretch."""
        return HashedFile(self.folder / name, name)

    def close(self, file: HashedFile, *, rows: int | None = None, log: bool = False) -> None:
        """Note a finished file of the stretch."""
        file.close()
        file.raise_error()
        self.entries.append(file.entry(rows=rows, log=log))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the stretch, in order."""
        for entry in self.entries:
            yield from read_file(self.folder / entry.path)

    def adopt(self, writer: ArtifactWriter, names: Iterator[str]) -> None:
        """Make the files of the stretch files of an artifact, called by the next names."""
        for entry in self.entries:
            writer.adopt(self.folder / entry.path, entry.model_copy(update={"path": next(names)}))


def read_file(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file of corpus rows, some at a time."""
    with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as part:
        yield from part.iter_batches(_ROWS_READ, use_threads=False)


class CachedStretch:
    """The files of one stretch of corpus rows, in a resume cache: `StretchFiles`.

    Args:
        cache: where they are.
        names: of the files.
    """

    def __init__(self, cache: ResumeCache, names: Sequence[str]) -> None:
        self._cache, self._names = cache, names

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the stretch, in order."""
        for name in self._names:
            yield from read_file(self._cache.path / name)

    def adopt(self, writer: ArtifactWriter, names: Iterator[str]) -> None:
        """Make the files of the stretch files of an artifact, called by the next names."""
        for name in self._names:
            self._cache.adopt(name, writer, called=next(names))


def write_parts(
    batches: Iterable[tuple[int, pa.RecordBatch]],
    new_files: Callable[[int], Files],
    see: Callable[[pa.RecordBatch], object] | None = None,
) -> list[list[tuple[pa.Schema, Files]]]:
    """Write batches of a shard's corpus rows, each with the number of its part, into files of their own.

    A part without rows is none.

    Args:
        batches: of the parts, one after the other.
        new_files: where the files of a stretch come from, by its number.
        see: is given each batch before it is written.

    Returns:
        Of each part its stretches: their columns and files.
    """
    parts: list[list[tuple[pa.Schema, Files]]] = []
    with ExitStack() as stack:
        table: TableWriter | None = None
        number, schema, stretches = -1, None, 0
        for part, batch in batches:
            if see is not None:
                see(batch)
            is_new = part != number
            if table is None or schema is None or is_new or not batch.schema.equals(schema, check_metadata=True):
                if table is not None:
                    table.finish()
                if is_new:
                    parts.append([])
                number, schema, files = part, batch.schema, new_files(stretches)
                parts[-1].append((schema, files))
                stretches += 1
                table = stack.enter_context(TableWriter(files, "corpus", schema))
            table.write(batch)
    return parts


def adopt_parts(
    parts: Iterable[Part], writer: ArtifactWriter, schema: pa.Schema, convert: Convert, scratch: Callable[[], Path],
    on_rows: Callable[[int], object], *, again: bool = False,
) -> None:  # fmt: skip
    """Make the parts of a corpus files of its artifact, all in these columns.

    Args:
        parts: as they were written, none without rows.
        writer: of the artifact.
        schema: that all rows are to have.
        convert: gives a batch these columns.
        scratch: gives a folder for what is written once more.
        on_rows: called with how many rows have been written once more.
        again: all are written once more.
    """
    names, done = (f"corpus-{number:05d}.parquet" for number in count()), 0
    for number, stretches in enumerate(parts):
        (first, files), *others = stretches
        if again or others or not first.equals(schema, check_metadata=True):
            files = ScratchFiles(scratch() / f"again-{number}")
            with TableWriter(files, "corpus", schema) as table:
                for _, stretch in stretches:
                    for batch in stretch.batches():
                        table.write(convert(batch))
                        done += len(batch)
                        on_rows(done)
        files.adopt(writer, names)


class _NotedDigests(Digests):
    """Digests of documents that remember, in order, the two of each: its key, and the digest of its text."""

    def __init__(self, known: Sequence[bytes]) -> None:
        super().__init__()
        for digest in known:
            super().add(digest)
        self.added: list[bytes] = []

    def add(self, digest: bytes, note: bytes = b"") -> bool:
        """Add and remember a digest of a document."""
        self.added.append(digest)
        return super().add(digest, note)


class _NotedIds(RecordIds):
    """Ids of records that remember, in order, the source and the line of each."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed: list[tuple[str, str, int]] = []

    def claim(self, key: str, source: str, line: int) -> str | None:
        """Claim and remember the id of a record of an ingested shard."""
        found = super().claim(key, source, line)
        if found is None:
            self.claimed.append((key, source, line))
        return found


@dataclass(frozen=True)
class IngestShards:
    """The work of an ingest in shards: reading the sources of each shard.

    Attributes:
        parts: the sources of each shard.
        home: the folder that their paths are seen from.
        settings: how they are read.
        cache: the folder of the cache.
        recipe: what is kept there.
        known: number of a shard → hash of the digests of its texts that sources before it have (the file `known_name`), for
            shards that are made once more.
    """

    parts: tuple[tuple[Source, ...], ...]
    home: Path
    settings: IngestSettings
    cache: Path
    recipe: str
    known: dict[int, str] = field(default_factory=dict)

    phase, unit = "reading", "MB"
    side_by_side, in_processes, gpus, libraries = False, True, 0, LIBRARIES
    memory_bytes = 600_000_000

    def size_of(self, number: int) -> int:
        """Return the megabytes of the sources of a shard."""
        return round(sum(source.bytes for source in self.parts[number]) / 1e6)

    def prepare(self, threads: int, stack: ExitStack, opened: None = None) -> ResumeCache:
        """Open the resume cache of the ingest in this process."""
        return ResumeCache(self.cache, self.recipe, shared=True)

    def make(self, number: int, state: ResumeCache, on_units: OnUnits) -> None:
        """Read the sources of a shard, and keep its rows and counts in the cache."""
        name, known = self.name_of(number), self._known(number, state)
        if known and (first := state.figures(shard_name(number))) is not None and _is_plain(first):
            self._sift(number, state, known, first)
            on_units(self.size_of(number))
            return
        sources = self._sources(number)
        given: list[dict[str, object]] = []
        reader = Ingest(
            sources, self.settings, is_first=number == 0, on_bytes=lambda done: on_units(round(done / 1e6)),
            on_source=lambda one: given.append({"name": one.name, "rows": one.rows, "ledger": one.ledger}),
        )  # fmt: skip
        reader.seen, reader.ids = seen, ids = _NotedDigests(known), _NotedIds()
        with ExitStack() as stack:
            parts = write_parts(
                reader.rows([sources]), lambda stretch: stack.enter_context(CachedFiles(state, f"{name}-{stretch}-"))
            )
        _write_keys(state, name, seen.added, ids.claimed)
        figures = {
            "sources": given, "notes": reader.source_notes, "lines": [source.seen.lines for source in sources],
            "stretches": _noted(parts),
        }  # fmt: skip
        state.put(name, b"", figures)

    def name_of(self, number: int) -> str:
        """Return the name of the figures of an ingest shard; where it is made once more it says what is left out."""
        known = self.known.get(number)
        return f"{shard_name(number)}-{known[:12]}" if known else shard_name(number)

    def _known(self, number: int, cache: ResumeCache) -> list[bytes]:
        """Return the digests of a shard's texts that sources before it have."""
        if number not in self.known:
            return []
        cache.made_figures(known_name(number))
        with cache.open(known_name(number)) as file:
            data = file.read()
        return [data[at : at + _KEY_BYTES] for at in range(0, len(data), _KEY_BYTES)]

    def _sift(self, number: int, cache: ResumeCache, known: Sequence[bytes], first: Mapping[str, Any]) -> None:
        """Make a shard of plain texts once more, without some: from its rows, and with their share of what was counted."""
        # What was counted of each source, and where its rows end.
        name, given = self.name_of(number), first["sources"]
        ledgers, ends = [Ledger.of_json(one["ledger"]) for one in given], np.cumsum([one["rows"] for one in given])
        double = pa.array([key.hex() for key in known])

        def kept() -> Iterator[tuple[int, pa.RecordBatch]]:
            done = 0
            for schema, stretch in part_of(cache, first):
                for batch in stretch.batches():
                    # Of each source, count the rows that go as duplicates.
                    is_double = pc.is_in(batch["doc_id"], value_set=double).to_numpy(zero_copy_only=False)
                    left_out = np.flatnonzero(is_double)
                    of_source = np.searchsorted(ends, done + left_out, side="right")
                    for source in np.unique(of_source).tolist():
                        dropped = batch.take(pa.array(left_out[of_source == source]))
                        leave_out(ledgers[source], dropped, "duplicate")
                        ledgers[source].add_first_doubles(dropped)
                    done += len(batch)
                    if len(left_out) < len(batch):
                        rows = batch.filter(pa.array(~is_double))
                        yield 0, pa.RecordBatch.from_arrays(rows.columns, schema=schema)

        # Write the rows that stay, and what was counted of them.
        with ExitStack() as stack:
            parts = write_parts(kept(), lambda stretch: stack.enter_context(CachedFiles(cache, f"{name}-{stretch}-")))
        _write_keys(cache, name, [], [])
        sources = [
            {"name": one["name"], "rows": ledger["sentences"], "ledger": ledger.to_json()}
            for one, ledger in zip(given, ledgers, strict=True)
        ]
        cache.put(name, b"", {**first, "sources": sources, "stretches": _noted(parts)})

    def _sources(self, number: int) -> list[Source]:
        """Return the sources of a shard to ingest, with paths that are valid wherever this process is.

        Raises:
            StorageError: a copy of an object is not on this machine.
        """
        found = [
            replace(one, path=one.path and self.home / one.path, seen=type(one.seen)()) for one in self.parts[number]
        ]
        for one in found:
            if one.path is not None and url_of(one.path) is not None and not one.path.exists():
                what = f"the machine {os.uname().nodename} does not have the file that another machine copied from the bucket"
                hint = "set $XDG_CACHE_HOME to the same shared folder on all machines"
                raise StorageError(what, where=one.name, hint=hint)
        return found


def shard_name(number: int) -> str:
    """Return the name of the figures of an ingest shard that was read as if it were alone."""
    return f"shard-{number:05d}"


def known_name(number: int) -> str:
    """Return the name of the file with the digests of a shard's texts that sources before it have."""
    return f"known-{number:05d}"


def _write_keys(cache: ResumeCache, name: str, added: Sequence[bytes], claimed: Sequence[tuple[str, str, int]]) -> None:
    """Write the digests of documents and the ids of records of a shard into the cache."""
    with cache.table(f"{name}-keys.parquet", _KEYS, {}) as table:
        for first in range(0, len(added), 2 * _ROWS):
            some = added[first : first + 2 * _ROWS]
            arrays = [pa.array(some[side::2], pa.binary(_KEY_BYTES)) for side in (0, 1)]
            table.write(pa.RecordBatch.from_arrays(arrays, schema=_KEYS))
    with cache.table(f"{name}-ids.parquet", _IDS, {}) as table:
        for first in range(0, len(claimed), _ROWS):
            columns = zip(*claimed[first : first + _ROWS], strict=True)
            arrays = [pa.array(values, kind.type) for values, kind in zip(columns, _IDS, strict=True)]
            table.write(pa.RecordBatch.from_arrays(arrays, schema=_IDS))


def _noted(parts: Sequence[Sequence[tuple[pa.Schema, CachedFiles]]]) -> list[list[object]]:
    """Return the stretches of parts as figures of the cache: schema as hex, names of files."""
    return [[schema.serialize().to_pybytes().hex(), files.names] for part in parts for schema, files in part]


def write_doubles(writer: ArtifactWriter, doubles: list[dict[str, Any]]) -> None:
    """Write where else the documents of a corpus stand, if they do, in the schema `DOUBLES`."""
    if doubles:
        with TableWriter(writer, "doubles", DOUBLES, single=True) as table:
            table.write(pa.RecordBatch.from_pylist(doubles, schema=DOUBLES))


def _is_plain(figures: Mapping[str, Any]) -> bool:
    """True if all counts of a shard follow from its rows: texts without fields, no sentence cut."""
    return not any(
        one.fields_seen or one.kinds or one.own_kinds or one["pairs"] or one["sentences_split"]
        for one in (Ledger.of_json(source["ledger"]) for source in figures["sources"])
    )


def keys_in(cache: ResumeCache, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key of each document of a shard and the digest of its text, in order."""
    for batch in read_file(cache.path / f"{name}-keys.parquet"):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def ids_in(cache: ResumeCache, name: str) -> Iterator[tuple[str, str, int]]:
    """Yield the own id of each record of a shard, its source and its line, in order."""
    for batch in read_file(cache.path / f"{name}-ids.parquet"):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def files_of(name: str, figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all files of an ingest shard, from the name of its figures and the figures."""
    yield from (f"{name}-keys.parquet", f"{name}-ids.parquet")
    for _, names in figures["stretches"]:
        yield from names


def part_of(cache: ResumeCache, figures: Mapping[str, Any]) -> Part:
    """Return the rows of an ingest shard, from its figures."""
    return [
        (pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(schema))), CachedStretch(cache, names))
        for schema, names in figures["stretches"]
    ]
