"""`wordpipe map`: words → one page that shows them on a plane."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.artifacts.writer import whole_file
from wordpipe.errors import ConfigError, InputError
from wordpipe.report.layout import INSTALL_UMAP, has_umap
from wordpipe.report.survey import survey
from wordpipe.report.word_map import COLOURS, WordMap, word_map_page
from wordpipe.runtime import Progress
from wordpipe.stages.chosen_words import commonest, listed, nearest_to, with_direction
from wordpipe.stages.making import PathLike, RunOptions, storage_errors
from wordpipe.words.table import WordVectors

__all__ = ["map_words"]

_LAYOUTS = ("auto", "umap", "pca")
_LEAST_WORDS, _MOST_WORDS = 3, 50_000  # a browser still draws so many smoothly, and two bytes number them
_WORDS, _WORDS_NEAR = 5_000, 500


def map_words(
    words: PathLike,
    output: PathLike,
    *,
    n_words: int | None = None,
    only: PathLike | None = None,
    near: str | None = None,
    layout: str = "auto",
    groups: int = 10,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Write a map of word vectors as one HTML page, whole or not at all.

    The same words, settings, versions and kind of machine give the same bytes.

    Args:
        words: a words artifact.
        output: the file to write; an older one is replaced in one step.
        n_words: show so many of the commonest words (with `near`: of the nearest), from 3 to 50,000. By default 5000, with
            `near` 500, with `only` all.
        only: a UTF-8 file of words, one per line: show no others.
        near: a word: show it and the words nearest to it.
        layout: umap, pca, or auto (umap where umap-learn is installed).
        groups: colours, from 1 to 12; a map of few words has fewer.
        run: progress, verification.

    Returns:
        path, words, layout, neighbours_kept, bytes, and left_out: reason → words that were asked for and are not shown
        (unknown, repeated, beyond_the_limit, no_direction).

    Raises:
        ConfigError: a setting is out of its bounds, UMAP is not installed, or the output is a folder.
        InputError: there are too few words, or `near` has no vector.
        WordpipeError: see wordpipe/errors.py.
    """
    run = run or RunOptions()
    _check_output(output)
    _check_settings(n_words, only, near, groups)
    layout = _pick_layout(layout, run)
    left_out: Counter[str] = Counter()
    with storage_errors():
        with Artifact(words, ["words"], verify=run.verify) as artifact:
            table = WordVectors.from_batches(_needed(read_batches(artifact, "words"), n_words, only, near))
        rows = _choose(table, n_words, only, near, left_out)
        _say_left_out(+left_out, run)
        if len(rows) < _LEAST_WORDS:
            raise InputError(
                "too few words for a map", where=str(words), got=len(rows), expected=f"{_LEAST_WORDS} or more"
            )
        shown = _draw(table, rows, near, layout, groups, run)
        page = word_map_page(shown)
        with whole_file(Path(output)) as file:
            file.write(page)
    return {
        "path": str(output),
        "words": len(rows),
        "layout": layout,
        "neighbours_kept": shown.neighbours_kept,
        "bytes": len(page),
        "left_out": dict(+left_out),
    }


def _check_output(output: PathLike) -> None:
    if Path(output).is_dir() or str(output) == "-":
        raise ConfigError("a map is a file", where="output", got=output, hint="name a file with -o, such as map.html")
    if Path(output).is_file() and not _is_page(Path(output)):
        raise ConfigError(
            "a file is there that is no page", where="output", got=output, hint="name another file with -o"
        )


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(15).lower() in (b"<!doctype html>", b"")


def _check_settings(n_words: int | None, only: PathLike | None, near: str | None, groups: int) -> None:
    if only is not None and near is not None:
        raise ConfigError("give either only or near, not both")
    if n_words is not None and not _LEAST_WORDS <= n_words <= _MOST_WORDS:
        raise ConfigError("out of bounds", where="words", got=n_words, expected=f"{_LEAST_WORDS} to {_MOST_WORDS}")
    if not 1 <= groups <= COLOURS:
        raise ConfigError("out of bounds", where="groups", got=groups, expected=f"1 to {COLOURS}")


def _pick_layout(layout: str, run: RunOptions) -> str:
    """Which layout `auto` is here."""
    if layout not in _LAYOUTS:
        raise ConfigError("no such layout", where="layout", got=layout, expected=", ".join(_LAYOUTS))
    if layout == "umap" and not has_umap():
        raise ConfigError("UMAP is not installed", where="layout", got=layout, hint=INSTALL_UMAP)
    if layout != "auto":
        return layout
    if has_umap():
        return "umap"
    run.report(Progress("map", note=f"laid out by PCA; UMAP keeps many more neighbours together: {INSTALL_UMAP}"))
    return "pca"


def _needed(
    batches: Iterator[pa.RecordBatch], n_words: int | None, only: PathLike | None, near: str | None
) -> Iterator[pa.RecordBatch]:
    """As much of the table as is looked at: the first words, or all of it to look words up in."""
    left = (n_words or _WORDS) if only is None and near is None else sys.maxsize
    for batch in batches:
        yield batch.slice(0, left)
        left -= len(batch)
        if left <= 0:
            return


def _choose(
    table: WordVectors, n_words: int | None, only: PathLike | None, near: str | None, left_out: Counter[str]
) -> npt.NDArray[np.int64]:
    """Rows of the words to show, the commonest first."""
    if near is not None:
        rows = nearest_to(table, near, n_words or _WORDS_NEAR)
    elif only is not None:
        rows = listed(table, Path(only), n_words or _MOST_WORDS, left_out)
    else:
        rows = commonest(table, n_words or _WORDS)
    return with_direction(table, rows, left_out)


def _say_left_out(left_out: Counter[str], run: RunOptions) -> None:
    if left_out:
        reasons = ", ".join(f"{reason.replace('_', ' ')} {n:,}" for reason, n in left_out.items())
        run.report(Progress("map", note=f"words left out: {reasons}"))


def _draw(
    table: WordVectors, rows: npt.NDArray[np.int64], near: str | None, layout: str, groups: int, run: RunOptions
) -> WordMap:
    """The map of the words in these rows."""
    n = len(rows)
    found = None if near is None else table.find(near)
    return survey(
        [table.words[row] for row in rows],
        table.counts[rows],
        rows,
        table.vectors[rows],
        title=f"A map of {n:,} words" if near is None else f"A map of the {n:,} words around “{near}”",
        layout=layout,
        n_groups=groups,
        chosen=None if found is None else int(np.searchsorted(rows, found)),
        tell=lambda phase, done: run.report(Progress(phase, done, n if done else None, "words" if done else "")),
    )
