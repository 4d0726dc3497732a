"""The vectors that an index is made of, and the key that every row is found again by."""

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches, row_count
from wordpipe.artifacts.vectors import matrix_of
from wordpipe.errors import ArtifactError
from wordpipe.search.matching import row_keys
from wordpipe.stages.lexical import reads_titles
from wordpipe.stages.making import Job

__all__ = ["IndexVectors", "carry_keys", "carried_keys"]

_KEYS = "row_keys.npy"
_HELD = 2 << 30  # bytes: a million vectors of width 384 and a third more


class IndexVectors:
    """The vectors of a sentences or words artifact, read as often as they are asked for.

    The keys are made while the vectors stream by for the first time.

    Args:
        source: the artifact.
        hold: keep the vectors in memory, up to 2 GiB of them. An update looks at every row and computes little, so
            that a second reading would be a sixth of it; a build reads again.
    """

    def __init__(self, source: Artifact, *, hold: bool) -> None:
        self.count, self.dim = row_count(source, source.kind), int(source.manifest.facts["dim"])
        self._source = source
        self._named = _told_apart_by(source)
        self._hold = hold and 4 * self.count * self.dim <= _HELD
        self._held: list[npt.NDArray[np.float32]] | None = None
        self._keys: npt.NDArray[np.uint64] | None = None

    def blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        """The vectors from the beginning, as (B, D) float32 blocks."""
        if self._held is not None:
            yield from self._held
        elif self._keys is not None:
            for batch in read_batches(self._source, self._source.kind, ["vector"]):
                yield matrix_of(batch.column("vector"))
        else:
            yield from self._first_reading()

    def keys(self) -> npt.NDArray[np.uint64]:
        """(N,) the key of every row: of its document, its text, its title where that was read, and its vector's bits."""
        if self._keys is None:
            for _ in self._first_reading():
                pass
        assert self._keys is not None
        return self._keys

    def _first_reading(self) -> Iterator[npt.NDArray[np.float32]]:
        keys, held = [np.zeros(0, dtype=np.uint64)], []
        for batch in read_batches(self._source, self._source.kind, [*self._named, "vector"]):
            block = matrix_of(batch.column("vector"))
            keys.append(row_keys([batch.column(name).fill_null("") for name in self._named], block))
            if self._hold:
                held.append(block)
            yield block
        self._keys = np.concatenate(keys)
        self._held = held if self._hold else None


def _told_apart_by(source: Artifact) -> list[str]:
    """The columns in a row's key.

    The title is one where the lexical half counts its words: a new title of words that the encoder does not know leaves
    the vector as it was.
    """
    if source.kind == "words":
        return ["word"]
    return ["doc_id", "title", "text"] if reads_titles(source) else ["doc_id", "text"]


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
