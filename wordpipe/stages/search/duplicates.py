"""`wordpipe duplicates`: texts that say nearly the same, by their vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np

from wordpipe.artifacts import (
    Artifact,
    RowReader,
    matrix_of,
    read_batches,
    read_schema,
    row_count,
    row_shower,
    rows_with_vector,
    vectors_there,
)
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import unit_rows
from wordpipe.runtime import Progress
from wordpipe.search import all_links, groups_of, index_links
from wordpipe.stages.calls import public
from wordpipe.stages.job import PathLike, RunOptions
from wordpipe.stages.search.open_index import OpenIndex

EXACT_UP_TO = 200_000  # rows whose pairs are all compared: 2 minutes of 384 numbers on two cores


@public()
def duplicates(
    artifact: PathLike, *, threshold: float = 0.95, n: int = 20, run: RunOptions | None = None
) -> dict[str, Any]:
    """Groups of rows that are linked by cosines of at least the threshold; rows without a vector are in none.

    Up to 200,000 rows all pairs are compared; of more the index is searched for the 32 nearest of each row.

    Args:
        artifact: an index, or a sentences artifact.
        threshold: of the cosine.
        n: groups to tell of; all are counted.
        run: progress and verification.

    Returns:
        path, threshold, rows, pairs, groups (how many), rows_in_groups, largest (rows of the largest group), exact, and
        shown: the largest groups, each a list of rows as in a query's hits, with the cosine with the group's first row.

    Raises:
        ConfigError: a threshold that is no cosine.
        InputError: too many rows without an index.

    Example:
        >>> found = wordpipe.duplicates("run/index", threshold=0.99)
        >>> found["rows"], found["exact"]
        (165, True)
    """
    if not -1 <= threshold <= 1:
        raise ConfigError("not a cosine", where="threshold", got=threshold, expected="-1 to 1")
    run = run or RunOptions()
    with Artifact(artifact, ["index", "sentences"], verify=run.verify) as opened:
        rows, batches = row_count(opened, opened.kind), read_batches(opened, opened.kind, ["vector"])
        with_vector = rows_with_vector(opened)
        compared = rows if with_vector is None else len(with_vector)
        blocks = vectors_there((unit_rows(matrix_of(batch.column("vector")))[0] for batch in batches), with_vector)

        def report(done: int) -> None:
            run.report(Progress("comparing", done, compared, "rows"))

        if compared <= EXACT_UP_TO:
            links = all_links(np.concatenate(list(blocks)), threshold, report)
        elif opened.kind == "index":
            links = index_links(OpenIndex(opened).index, blocks, compared, threshold, report)
        else:
            raise InputError(
                "too many rows to compare all pairs", where=opened.path, got=f"{compared:,}",
                expected=f"at most {EXACT_UP_TO:,} without an index",
                hint=f"wordpipe index {opened.path} -o INDEX, then ask that",
            )  # fmt: skip
        groups, pairs = groups_of(links, compared)
        if with_vector is not None:
            groups = [with_vector[group] for group in groups]
        wanted = np.unique(np.concatenate(groups[:n])).tolist() if groups[:n] else []
        schema = read_schema(opened, opened.kind)
        columns = [name for name in schema.names if name not in ("id", "row")]
        row_of = dict(zip(wanted, RowReader(opened, opened.kind, columns).fetch(wanted), strict=True))
    return {
        "path": str(artifact),
        "threshold": threshold,
        "rows": rows,
        "pairs": pairs,
        "groups": len(groups),
        "rows_in_groups": sum(map(len, groups)),
        "largest": max(map(len, groups), default=0),
        "exact": compared <= EXACT_UP_TO,
        "shown": [
            [_row(row_of, int(group[0]), row, row_shower(schema)) for row in group.tolist()] for group in groups[:n]
        ],
    }


def _row(
    row_of: dict[int, dict[str, Any]], first: int, row: int, shower: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """A row, and its cosine with the first of its group."""
    pair = unit_rows(np.array([row_of[first]["vector"], row_of[row]["vector"]], dtype=np.float32))[0]
    shown = {name: value for name, value in shower(row_of[row]).items() if name != "vector"}
    return {"row": row, **shown, "cosine": min(1.0, float(pair[0] @ pair[1]))}
