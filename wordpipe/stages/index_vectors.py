"""The vectors that an index is made of, and the key that every row is found again by."""

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.manifest import ENCODER
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.rows import read_vectors
from wordpipe.artifacts.tables import open_part, part_names, row_count
from wordpipe.errors import ArtifactError
from wordpipe.search.matching import row_keys
from wordpipe.stages.lexical import reads_titles
from wordpipe.stages.making import Job

__all__ = ["IndexVectors", "carried_keys", "carry_keys", "later_bytes"]

_KEYS = "row_keys.npy"
_COUNTING = 7  # bytes of memory that counting takes for each byte of text: 153 MB of 23 MB of sentences
_WEIGHING = 5
"""And opening an encoder and asking it, for each byte of its files: 604 MB of a table of word vectors of 122."""


class IndexVectors:
    """The vectors of a sentences or words artifact, read as often as they are asked for.

    The keys are made while the vectors stream by for the first time.

    Args:
        source: the artifact.
    """

    def __init__(self, source: Artifact) -> None:
        self.count, self.dim = row_count(source, source.kind), int(source.manifest.facts["dim"])
        self._source = source
        self._named = _told_apart_by(source)
        self._keys: npt.NDArray[np.uint64] | None = None

    def blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        """The vectors from the beginning, as (B, D) float32 blocks."""
        if self._keys is None:
            yield from self._first_reading()
        else:
            yield from (block for _, block in read_vectors(self._source, self._source.kind))

    def keys(self) -> npt.NDArray[np.uint64]:
        """(N,) the key of every row: of its document, its text, its title where that was read, and its vector's bits."""
        if self._keys is None:
            for _ in self._first_reading():
                pass
        assert self._keys is not None
        return self._keys

    def _first_reading(self) -> Iterator[npt.NDArray[np.float32]]:
        keys = [np.zeros(0, dtype=np.uint64)]
        for named, block in read_vectors(self._source, self._source.kind, self._named):
            assert named is not None
            keys.append(row_keys([_filled(named.column(name).chunk(0)) for name in self._named], block))
            yield block
        self._keys = np.concatenate(keys)


def _filled(column: pa.Array) -> pa.Array:
    """The column without nulls; where there are none, pyarrow.compute is not imported, which takes 0.17 s."""
    return column.fill_null("") if column.null_count else column


def _told_apart_by(source: Artifact) -> list[str]:
    """The columns in a row's key.

    The title is one where the lexical half counts its words: a new title of words that the encoder does not know leaves
    the vector as it was.
    """
    if source.kind == "words":
        return ["word"]
    return ["doc_id", "title", "text"] if reads_titles(source) else ["doc_id", "text"]


def later_bytes(source: Artifact) -> int:
    """The memory that an index of sentences needs after its vectors: to count words, and to weigh them against vectors."""
    if source.kind != "sentences":
        return 0
    encoder = sum(entry.bytes for entry in source.manifest.outputs if entry.path.startswith(ENCODER))
    return _COUNTING * _text_bytes(source) + _WEIGHING * encoder


def _text_bytes(source: Artifact) -> int:
    """The texts of all rows, as Parquet's footers tell."""
    found = 0
    for name in part_names(source, source.kind):
        with open_part(source, name) as part:
            groups = [part.metadata.row_group(group) for group in range(part.metadata.num_row_groups)]
            columns = [group.column(at) for group in groups for at in range(group.num_columns)]
            found += sum(column.total_uncompressed_size for column in columns if column.path_in_schema == "text")
    return found


def carry_keys(job: Job, vectors: IndexVectors) -> None:
    """Write the keys into the index being made: the next update then need not read the old rows."""
    buffer = io.BytesIO()
    np.save(buffer, vectors.keys(), allow_pickle=False)
    job.write(_KEYS, buffer.getvalue())


def carried_keys(index: Artifact) -> npt.NDArray[np.uint64] | None:
    """(M,) the keys of an index's rows; None where it was made before there were any.

    Raises:
        ArtifactError: they are not of its rows.
    """
    if not index.names(_KEYS):
        return None
    keys: npt.NDArray[np.uint64] = np.load(io.BytesIO(index.read(_KEYS)), allow_pickle=False)
    if keys.dtype != np.uint64 or keys.shape != (int(index.manifest.counts["vectors"]),):
        raise ArtifactError(
            "the keys of the rows do not belong to the index", where=index.path / _KEYS, got=f"{keys.dtype}{keys.shape}",
            hint="build it again with: wordpipe index --fresh",
        )  # fmt: skip
    return keys
