"""The shards of `wordpipe index`: vectors as numbers of lists and codes. See `ShardWork` for what they promise.

lists.faiss             the lists as they were learned, without rows
query-rows.npy          (Q,) the numbers of the held-out queries
queries.npy             (Q, D) these queries
encoded-00003.bin       of a shard: (Q, M) the rows nearest to each query, int64, and how near they are, float32;
                        then the codes of all its rows that are no queries
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wordpipe.artifacts import (
    Artifact,
    ResumeCache,
    Shard,
    array_blocks,
    array_data,
    library_versions,
    parse_array,
    rows_with_vector,
    shard_vectors,
    shards_of,
    vectors_there,
)
from wordpipe.engines import OnUnits
from wordpipe.search import (
    EncodedPart,
    ExactNeighbours,
    encode_part,
    faiss_threads,
    read_index,
    rows_within,
    write_index,
)
from wordpipe.stages.inputs import SentArtifact
from wordpipe.stages.job import Job

LIBRARIES = ("faiss-cpu", "numpy", "pyarrow")
SHARD_BYTES = 16 << 20  # of uncompressed rows: a row group, or several small ones
_ROW_GROUPS = (
    5  # in memory, of a shard: as it is read, as unit vectors, without the queries, compared with them and the lists
)
_LISTS, _QUERY_ROWS, _QUERIES = "lists.faiss", "query-rows.npy", "queries.npy"


@dataclass(frozen=True)
class _State:
    """The lists and reader of a process or thread that encodes shards of vectors."""

    source: Artifact
    shards: list[Shard]
    with_vector: NDArray[np.int64] | None
    cache: ResumeCache
    lists: Any
    query_rows: NDArray[np.int64]
    queries: NDArray[np.float32]


@dataclass(frozen=True)
class IndexShards:
    """The work of `index` in shards: finding the codes of vectors, and which of them are nearest to the held-out queries.

    Attributes:
        source: the artifact of the vectors; its kind is the name of their table.
        cache: the folder of the cache, which holds the lists and the queries.
        recipe: what is kept there.
        shard_bytes: of uncompressed rows, in a shard.
        rows: of each shard, that have a vector.
    """

    source: SentArtifact
    cache: Path
    recipe: str
    shard_bytes: int
    rows: tuple[int, ...]

    phase, unit = "encoding", "vectors"
    side_by_side, in_processes, gpus, libraries = True, False, 0, LIBRARIES

    @property
    def memory_bytes(self) -> int:
        """Bytes that encoding a shard of vectors needs: libraries, a row group as read and as unit vectors, lists, queries."""
        held = sum((self.cache / name).stat().st_size for name in (_LISTS, _QUERIES))
        return 400_000_000 + _ROW_GROUPS * self.shard_bytes + 3 * held

    def size_of(self, number: int) -> int:
        """Return the number of vectors of a shard."""
        return self.rows[number]

    def prepare(self, threads: int, stack: ExitStack, opened: None = None) -> _State:
        """Open vectors, lists and queries in a process that encodes an index's shards; raises as `SentArtifact.open`."""
        source, cache = self.source.open(stack), ResumeCache(self.cache, self.recipe, shared=True)
        lists = _read_lists(cache)
        query_rows, queries = (parse_array((self.cache / name).read_bytes()) for name in (_QUERY_ROWS, _QUERIES))
        shards = shards_of(source, source.kind, self.shard_bytes)
        return _State(source, shards, rows_with_vector(source), cache, lists, query_rows, queries)

    def make(self, number: int, state: _State, on_units: OnUnits) -> None:
        """Encode the vectors of a shard into codes of the lists and write its file."""
        figures: dict[str, Any] = {}
        with faiss_threads(1), state.cache.create(encoded_name(number), figures) as file:
            shard, before = state.shards[number], sum(one.rows for one in state.shards[:number])
            blocks = vectors_there(shard_vectors(state.source, shard), state.with_vector, before)
            first = sum(self.rows[:number])
            part = encode_part(state.lists, _counted(blocks, on_units), first, state.query_rows, state.queries)
            for array in (part.truth.near, part.truth.scores, part.codes):
                for block in array_blocks(np.ascontiguousarray(array)):
                    file.write(block)
            figures["seconds"] = part.truth.seconds


def _counted(blocks: Iterator[NDArray[np.float32]], on_units: OnUnits) -> Iterator[NDArray[np.float32]]:
    """Yield the blocks of vectors of an index's shard; it is reported how many came before."""
    done = 0
    for block in blocks:
        on_units(done)
        yield block
        done += len(block)


def _read_lists(cache: ResumeCache) -> Any:
    """Read the learned lists of an index from the resume cache, for its shards."""
    path = cache.path / _LISTS
    with path.open("rb") as file:
        return read_index(file, size=path.stat().st_size, where=str(path))


def encoded_name(number: int) -> str:
    """Return the name of the file of a shard's codes."""
    return f"encoded-{number:05d}.bin"


class IndexParts:
    """The vectors of an artifact in shards that the engine of a job encodes; see `Parts` of `wordpipe.search`.

    Args:
        job: its input is known.
        source: the artifact.
        with_vector: (M,) its rows that have a vector; None: all.
    """

    def __init__(self, job: Job, source: Artifact, with_vector: NDArray[np.int64] | None) -> None:
        rows = tuple(shard.rows for shard in shards_of(source, source.kind, SHARD_BYTES))
        if with_vector is not None:
            ends = np.concatenate([[0], np.cumsum(rows)])
            rows = tuple(np.diff(np.searchsorted(with_vector, ends)).tolist())
        self._job, self._cache = job, ResumeCache(job.partial, f"{job.recipe} {library_versions(*LIBRARIES)} {rows}")
        cache = self._cache
        self._work = IndexShards(SentArtifact.of(source), cache.path.absolute(), cache.recipe, SHARD_BYTES, rows)

    @property
    def memory_bytes(self) -> int:
        """Bytes that this process needs for the shards that it makes at once."""
        options = self._job.engine_options
        at_once = min(options.threads, len(self._work.rows)) if options.engine == "local" else 0
        return at_once * _ROW_GROUPS * SHARD_BYTES

    def learned(self) -> Any:
        """Return the lists without rows that a stopped run has learned, for the index's shards; or None.

        None where there are none.
        """
        if self._cache.figures(_LISTS) is None:
            return None
        self._job.note("continuing a stopped run: the lists of the index are already trained")
        return _read_lists(self._cache)

    def encoded(self, lists: Any, query_rows: NDArray[np.int64], queries: NDArray[np.float32]) -> Iterator[EncodedPart]:
        """Yield codes and near rows of every shard of the index, see `Parts.encoded`.

        Raises:
            WordpipeError: what a shard raised.
        """
        cache, rows = self._cache, self._work.rows
        if cache.figures(_LISTS) is None:
            with cache.create(_LISTS, {}) as file:
                write_index(lists, file)
        for name, array in ((_QUERY_ROWS, query_rows), (_QUERIES, queries)):
            cache.put(name, array_data(array))
        names = {number: encoded_name(number) for number in range(len(rows))}
        self._job.make_missing(self._work, names, cache, "encoded")
        first = 0
        for number, name in names.items():
            truth, numbers = ExactNeighbours(queries), rows_within(first, rows[number], query_rows)
            truth.seconds = cache.made_figures(name)["seconds"]
            with cache.open(name) as file:
                near, scores = (file.read(array.nbytes) for array in (truth.near, truth.scores))
                codes = np.frombuffer(file.read(), np.uint8).reshape(len(numbers), lists.sa_code_size())
            truth.near = np.frombuffer(near, np.int64).reshape(truth.near.shape)
            truth.scores = np.frombuffer(scores, np.float32).reshape(truth.scores.shape)
            yield EncodedPart(numbers, codes, truth)
            first += rows[number]
