"""`wordpipe map`: words, or the texts of an index → one page that shows them on a plane."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import Artifact, atomic_file, check_output, read_batches, read_regular_file
from wordpipe.errors import ConfigError, InputError, WordpipeError
from wordpipe.metrics import has_direction
from wordpipe.pages import COLOURS, INSTALL_UMAP, WordMap, has_umap, map_data, text_map_page, word_map_page
from wordpipe.runtime import Progress
from wordpipe.stages.examine.map_texts import BY_UMAP, MOST_TEXTS, beginning, map_of_texts
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.opening import open_artifact
from wordpipe.stages.search.query import OpenTextIndex
from wordpipe.words import WordVectors

_LARGEST_LIST = 64 << 20  # bytes of a list of words
_LAYOUTS = ("auto", "umap", "pca")
_LEAST_WORDS, _MOST_WORDS = 3, 50_000  # a browser still draws so many smoothly, and two bytes number them
_WORDS, _WORDS_NEAR = 5_000, 500
_GROUPS = 10


@public(name="map")
def map_words(
    words: PathLike,
    output: PathLike,
    *,
    n_words: int | None = None,
    only: PathLike | None = None,
    near: str | None = None,
    layout: str = "auto",
    groups: int = _GROUPS,
    replace: bool = True,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Write a map of word vectors, or of the texts of an index, as one HTML page, whole or not at all.

    The same words, settings, versions and kind of machine give the same bytes.

    Args:
        words: a words artifact, or an index over texts with vectors.
        output: the file to write; an older one is replaced in one step.
        n_words: number of most frequent words to show (with `near`: of nearest words), from 3 to 50,000; default: 5000, with
            `near` 500, with `only` all. Of an index: number of texts, evenly spread, from 3 to 100,000; default: all, up to
            100,000.
        only: a UTF-8 file of words, one per line: show only these words.
        near: a word: show it and the words nearest to it.
        layout: umap, pca, or auto (umap where umap-learn is installed, of an index up to 10,000 texts).
        groups: number of groups of words, each with a colour, from 1 to 12; a map of few words has fewer groups.
        replace: false refuses to replace anything.
        run: progress, verification.

    Returns:
        path, words (of an index: texts), layout, neighbours_kept, bytes, and of words left_out: reason → words that were asked
        for and are not shown (unknown, repeated, beyond_the_limit, no_direction).

    Raises:
        ConfigError: a setting is out of its bounds, UMAP is not installed, or the output is a folder.
        InputError: there are too few words, or `near` has no vector.
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.map("run/words", "map.html", n_words=50, layout="pca")
        >>> made["words"]
        50
    """
    run, output = run or RunOptions(), Path(output)
    check_page(output, "map", replace=replace)
    if only is not None and near is not None:
        raise ConfigError("give `only` or `near`, but not both")
    is_of_texts = _is_index(words)
    most_points = MOST_TEXTS if is_of_texts else _MOST_WORDS
    if n_words is not None and not _LEAST_WORDS <= n_words <= most_points:
        raise ConfigError("out of bounds", where="words", got=n_words, expected=f"{_LEAST_WORDS} to {most_points}")
    if not 1 <= groups <= COLOURS:
        raise ConfigError("out of bounds", where="groups", got=groups, expected=f"1 to {COLOURS}")
    if is_of_texts:
        if only is not None or near is not None:
            raise ConfigError("a map of texts cannot have `only` or `near`", where=Path(words), hint="omit the option")
        return _map_index(Path(words), output, n_words, layout, groups, run)
    layout = _pick_layout(layout, run)
    # Choose the words.
    left_out: Counter[str] = Counter()
    with storage_errors(output):
        with Artifact(words, ["words"], verify=run.verify) as artifact:
            most = sys.maxsize if only is not None or near is not None else n_words or _WORDS
            table = WordVectors.from_batches(_first_rows(read_batches(artifact, "words"), most))
        rows = _choose_words(table, n_words, only, near, left_out)
        if reasons := ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in (+left_out).items()):
            run.report(Progress("map", note=f"words left out: {reasons}"))
        # Lay them out, and write the page.
        shown = _word_map(table, rows, str(words), near, layout, groups, run)
        page = word_map_page(shown)
        with atomic_file(output) as file:
            file.write(page)
    made = {"path": str(output), "words": len(rows), "layout": layout, "neighbours_kept": shown.neighbours_kept}
    return made | {"bytes": len(page), "left_out": dict(+left_out)}


def _is_index(path: PathLike) -> bool:
    """True if an index is to be mapped; what cannot be opened is left to the map of words to refuse."""
    try:
        with Artifact(path, verify=False) as artifact:
            return artifact.kind == "index"
    except WordpipeError:
        return False


def _map_index(
    path: Path, output: Path, n_texts: int | None, layout: str, groups: int, run: RunOptions
) -> dict[str, Any]:  # fmt: skip
    """Write the map of the texts of an index; see `map_words`."""
    with storage_errors(output), open_artifact(path, verify=run.verify) as opened:
        n = min(n_texts or MOST_TEXTS, len(opened) if isinstance(opened, OpenTextIndex) else 0)
        layout = pick_text_layout(layout, n, run)
        shown = map_of_texts(opened, path, n_texts, layout, groups, run)
        page = text_map_page(shown)
        with atomic_file(output) as file:
            file.write(page)
    made = {"path": str(output), "texts": len(shown.names), "layout": layout}
    return made | {"neighbours_kept": shown.neighbours_kept, "bytes": len(page)}


def pick_text_layout(layout: str, n: int, run: RunOptions | None = None) -> str:
    """Return the layout of a map of `n` texts; `auto` is UMAP up to 10,000 texts, if it is installed."""
    if layout == "auto" and n > BY_UMAP:
        return "pca"
    return _pick_layout(layout, run or RunOptions())


def map_of(
    artifact: Artifact, n_words: int | None = None, *, layout: str = "auto", run: RunOptions | None = None
) -> WordMap:
    """The map of the commonest words of an open words artifact: what `map` draws, as arrays.

    Args:
        artifact: of words.
        n_words: as many of the commonest words, or all that there are; default: as in `map_words`.
        layout: as in `map_words`.
        run: progress.

    Raises:
        ConfigError: UMAP is asked for and not installed.
        InputError: fewer than three words have a vector with a direction.
    """
    run = run or RunOptions()
    layout, n_words = _pick_layout(layout, run), n_words or _WORDS
    table = WordVectors.from_batches(_first_rows(read_batches(artifact, "words"), n_words))
    rows = _choose_words(table, n_words, None, None, Counter())
    return _word_map(table, rows, str(artifact.path), None, layout, _GROUPS, run)


def _word_map(
    table: WordVectors, rows: npt.NDArray[np.int64], where: str, near: str | None, layout: str, groups: int, run: RunOptions
) -> WordMap:  # fmt: skip
    """Return the map of some words: their places on the plane, groups and colours."""
    if (n := len(rows)) < _LEAST_WORDS:
        raise InputError("too few words for a map", where=where, got=n, expected=f"{_LEAST_WORDS} or more")
    found = None if near is None else table.find(near)
    run.report(beginning(n, "words", layout))
    return map_data(
        [table.words[row] for row in rows],
        table.counts[rows],
        rows,
        table.vectors[rows],
        title=f"A map of {n:,} words" if near is None else f"A map of the {n:,} words around “{near}”",
        layout=layout,
        n_groups=groups,
        chosen=None if found is None else int(np.searchsorted(rows, found)),
        report=lambda phase, done: run.report(Progress(phase, done, n if done else None, "words" if done else "")),
    )


def check_page(output: Path, what: str, *, replace: bool) -> None:
    """Refuse an output that a map's page cannot replace. Raises ConfigError: it is no page."""
    if output.is_dir() or str(output) == "-":
        hint = f"give a file name with -o, for example {what}.html"
        raise ConfigError(f"a {what} must be written to a file", where="output", got=output, hint=hint)
    if output.is_file():
        with output.open("rb") as file:
            begin = file.read(15)
        if begin.lower() not in (b"<!doctype html>", b""):
            hint = "choose another file with -o"
            raise ConfigError("the output exists and is not an HTML page", where="output", got=output, hint=hint)
    check_output(output, replace=replace)


def _pick_layout(layout: str, run: RunOptions) -> str:
    """Return the layout of the map, which `auto` leaves to the libraries that are installed."""
    if layout not in _LAYOUTS:
        raise ConfigError("unknown layout", where="layout", got=layout, expected=", ".join(_LAYOUTS))
    if layout == "umap" and not has_umap():
        raise ConfigError("UMAP is not installed", where="layout", got=layout, hint=INSTALL_UMAP)
    if layout != "auto" or has_umap():
        return "pca" if layout == "pca" else "umap"
    run.report(
        Progress(
            "map", note=f"the layout uses PCA; UMAP keeps many more neighbours together, to install it: {INSTALL_UMAP}"
        )
    )
    return "pca"


def _first_rows(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Return the first rows of a table, for a map."""
    for batch in batches:
        yield batch.slice(0, most)
        most -= len(batch)
        if most <= 0:
            return


def _choose_words(
    table: WordVectors, n_words: int | None, only: PathLike | None, near: str | None, left_out: Counter[str]
) -> npt.NDArray[np.int64]:
    """Return the rows of the words on the map, the commonest first; vectors that are zero are left out.

    Those whose vector is zero or not finite are left out.
    """
    if near is not None:
        found = table.neighbours([near], k=(n_words or _WORDS_NEAR) - 1)
        if not found:
            hint = "choose another word"
            raise InputError(f"the vector of {near!r} is zero, so the word has no neighbours", hint=hint)
        rows = np.sort(np.array([table.find(near), *(one.row for one in found)], dtype=np.int64))
    elif only is not None:
        rows = _words_of_list(table, Path(only), n_words or _MOST_WORDS, left_out)
    else:
        rows = np.arange(min(n_words or _WORDS, len(table)))
    valid = has_direction(table.vectors[rows])
    left_out["no_direction"] = int((~valid).sum())
    return rows[valid]


def _words_of_list(table: WordVectors, path: Path, most: int, left_out: Counter[str]) -> npt.NDArray[np.int64]:
    """Return the rows of the words for the map in a UTF-8 file, one per line, ascending.

    Blank lines mean nothing. The commonest `most` are kept.
    """
    data = read_regular_file(path, _LARGEST_LIST, what="a list of words")
    try:
        lines = data.decode("utf-8-sig").split("\n")  # and at no other mark, which may be a part of a word
    except UnicodeDecodeError as error:
        raise InputError("the list of words is not UTF-8", where=path, got=f"byte {error.start}") from None
    wanted = [word for line in lines if (word := line.strip())]
    found = [row for word in wanted if (row := table.find(word)) is not None]
    rows = np.unique(np.array(found, dtype=np.int64))
    if not len(rows):
        hint = "write one word per line"
        raise InputError("no word of the list has a vector", where=path, got=f"{len(wanted)} words", hint=hint)
    left_out["unknown"] = len(wanted) - len(found)
    left_out["repeated"] = len(found) - len(rows)
    left_out["beyond_the_limit"] = max(0, len(rows) - most)
    return rows[:most]
