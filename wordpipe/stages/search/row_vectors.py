"""The vectors of some rows of an index, as it compares them: at length 1."""

from bisect import bisect_right
from itertools import groupby

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import Artifact, damage_named, matrix_of, open_part, part_names

_KEPT = 2  # selections: of 50,000 rows of width 384 one is 77 MB


class RowVectors:
    """Reads the row groups that hold the rows asked for; the selections asked for last stay in memory.

    A condition asks for the same rows with every query: to read 50,000 of 118,000 rows of width 384 takes 0.5 s, to compare
    them 11 ms.

    Args:
        artifact: stays open as long as this is used.
        stem: the table's name; its column `vector` is read.
    """

    def __init__(self, artifact: Artifact, stem: str) -> None:
        self._artifact = artifact
        self._groups: list[tuple[str, int]] = []
        self._starts = [0]
        self._kept: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]] = []
        for name in part_names(artifact, stem):
            with open_part(artifact, name) as part:
                for group in range(part.metadata.num_row_groups):
                    self._groups.append((name, group))
                    self._starts.append(self._starts[-1] + part.metadata.row_group(group).num_rows)

    def __call__(self, rows_R: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The unit vectors of some rows, ascending, (R, D) float32.

        Raises:
            DivergedError: one has no direction; no index is made of such.
            ArtifactError: the table is damaged.
        """
        for kept_R, vectors_RD in self._kept:
            if np.array_equal(kept_R, rows_R):
                return vectors_RD
        vectors_RD = self.read(rows_R)
        self._kept = [(rows_R, vectors_RD), *self._kept][:_KEPT]
        return vectors_RD

    def read(self, rows_R: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The same, from the files and not kept."""
        from wordpipe.search import unit_vectors

        return unit_vectors(self._read(rows_R))

    def _read(self, rows_R: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        wanted = sorted({bisect_right(self._starts, row) - 1 for row in rows_R.tolist()})
        blocks = []
        for name, groups in groupby(wanted, key=lambda group: self._groups[group][0]):
            with open_part(self._artifact, name) as part, damage_named(self._artifact.path / name):
                for group in groups:
                    number, first, end = self._groups[group][1], *self._starts[group : group + 2]
                    column = part.read_row_group(number, columns=["vector"], use_threads=False)["vector"]
                    vectors = np.concatenate([matrix_of(chunk) for chunk in column.chunks])
                    low, high = np.searchsorted(rows_R, [first, end])
                    blocks.append(vectors[rows_R[low:high] - first])
        return np.concatenate(blocks)
