"""The map of the texts of an index: rows → places, colours, titles, for a page of its own or of a server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import RowVectors, refuse_without_vectors
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import has_direction
from wordpipe.pages import Colouring, TextMap, field_colouring, text_map_data
from wordpipe.runtime import Progress
from wordpipe.stages.job import RunOptions
from wordpipe.stages.search.opened_artifact import OpenArtifact
from wordpipe.stages.search.query import OpenTextIndex
from wordpipe.wording import place_of_hit

LEAST_TEXTS, MOST_TEXTS = 3, 100_000
"""Texts of a map; of more, some are shown, evenly spread over the rows."""
BY_UMAP = 10_000
"""Texts up to which UMAP places them where nothing else is asked for: it takes minutes for more."""
_FIELDS = 12  # by which a map can be coloured
_OURS = {"text", "title", "row", "line", "id", "doc_id", "sentence_id", "anchor", "see_also", "vector"}
_CHARS = 4_000_000  # of the beginnings of all texts
_LONGEST, _SHORTEST = 400, 40  # characters of a beginning
_AT_ONCE = 5_000  # rows


def map_of_texts(
    opened: OpenArtifact, path: Path, n_texts: int | None, layout: str, groups: int, run: RunOptions
) -> TextMap:
    """Return the map of the texts of an open index.

    Args:
        opened: the index.
        path: where it is.
        n_texts: how many of its texts are shown; None: all, up to 100,000.
        layout: umap or pca.
        groups: number of groups of texts, each with a colour.
        run: progress.

    Raises:
        ConfigError: the index is one of words, or has no vectors.
        InputError: fewer than three texts have a vector with a direction.
    """
    if not isinstance(opened, OpenTextIndex):
        hint = "give the words artifact, or an index over texts"
        raise ConfigError("an index of words has no texts", where=path, hint=hint)
    refuse_without_vectors(opened.artifact)
    # the rows that are shown, spread evenly over those with a vector
    there = np.arange(len(opened)) if opened.with_vector is None else opened.with_vector
    places = np.unique(np.linspace(0, len(there) - 1, min(len(there), n_texts or MOST_TEXTS)).astype(np.int64))
    rows = there[places] if len(there) else there
    vectors_ND = _vectors(opened, rows) if len(rows) else np.zeros((0, 1), np.float32)
    valid = has_direction(vectors_ND)
    rows, vectors_ND = rows[valid], vectors_ND[valid]
    if (n := len(rows)) < LEAST_TEXTS:
        raise InputError("too few texts for a map", where=path, got=n, expected=f"{LEAST_TEXTS} or more")
    run.report(beginning(n, "texts", layout))
    # what is said of each
    run.report(Progress("titles", 0, n, "texts"))
    names, stands, beginnings = _said(opened, rows, run)
    of = f"{n:,} texts" if n == len(opened) else f"{n:,} of {len(opened):,} texts"
    return text_map_data(
        names, stands, beginnings, rows, vectors_ND, _colourings(opened, rows),
        title=f"A map of {of}", layout=layout, n_groups=groups,
        report=lambda phase, done: run.report(Progress(phase, done, n if done else None, "texts" if done else "")),
    )  # fmt: skip


def beginning(n: int, things: str, layout: str) -> Progress:
    """Return the note with which the work on a map of `n` words or texts begins.

    >>> beginning(5_000, "words", "pca").note
    'drawing a map of 5,000 words by PCA'
    """
    wait = ", which takes about twenty seconds to start" if layout == "umap" else ""
    return Progress("map", note=f"drawing a map of {n:,} {things} by {layout.upper()}{wait}")


def _vectors(opened: OpenTextIndex, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Return the unit vectors of the texts of a map, (N, D) float32."""
    reader = RowVectors(opened.artifact, "index")
    try:
        return reader.read(rows)
    finally:
        reader.close()


def _said(
    opened: OpenTextIndex, rows: npt.NDArray[np.int64], run: RunOptions
) -> tuple[list[str], list[str], list[str]]:  # fmt: skip
    """Return of each text of a map the title (else how it begins), where it stands, and how it begins."""
    names, stands, beginnings = list[str](), list[str](), list[str]()
    room = max(_SHORTEST, min(_LONGEST, _CHARS // len(rows)))
    for first in range(0, len(rows), _AT_ONCE):
        for shown in opened.row_reader(rows[first : first + _AT_ONCE].tolist()):
            text = " ".join(str(shown.get("text") or "")[: 4 * room].split())
            begin = text if len(text) <= room else f"{text[:room]}…"
            stands.append(place_of_hit(shown))
            names.append(str(shown.get("title") or "") or begin or stands[-1])
            beginnings.append(begin)
        run.report(Progress("titles", min(first + _AT_ONCE, len(rows)), len(rows), "texts"))
    return names, stands, beginnings


def _colourings(opened: OpenTextIndex, rows: npt.NDArray[np.int64]) -> Sequence[Colouring]:
    """Return the colours of texts by their fields, of those that tell them apart."""
    found: list[Colouring] = []
    for field in opened.columns.schema:
        if field.name in _OURS or pa.types.is_nested(field.type) or len(found) >= _FIELDS:
            continue
        values: list[Any] = opened.columns.values(field.name).take(pa.array(rows)).to_pylist()
        if (colours := field_colouring(field.name, values)) is not None:
            found.append(colours)
    return found
