"""A map of texts: places by PCA or UMAP, colours by groups or by a field, and the page of the map.

It is the page of the map of words (`word_map`) with dots in the place of words: as many as 100,000 are one picture that the
script paints point by point. A still picture stands there for a browser without a script, with the titles of each group.

Shapes: N texts, D numbers each, G groups.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import SCORES_AT_ONCE, largest_columns, nearest_rows, neighbour_overlap, unit_rows
from wordpipe.pages.markup import json_for_script, menu, page_of, policy_of, shown
from wordpipe.pages.still_map import still_map
from wordpipe.pages.word_map import (
    COLOURS,
    SCRIPTS,
    base64_of,
    close_gaps,
    colour_order,
    figures_of,
    group_by_direction,
    meaning_of,
    nearest_on_plane,
    on_grid,
    pca_layout,
    umap_layout,
)
from wordpipe.search import are_small, recognised_language
from wordpipe.wording import safe_text

GROUPS = "groups"
"""The name of the colours by groups of vectors, beside those by fields."""
_LAYOUT_NEIGHBOURS = 14
_MEASURED = 2_000  # texts, of whose neighbours on the plane the share that are neighbours is measured
_NEIGHBOURS = 10
_GROUPED = 10_000  # texts by which groups are found; all others go to the nearest group
_TEXTS_PER_GROUP = 20  # at least, on average
_WORD = re.compile(r"[^\W\d_]{3,}")
_ADDRESS = re.compile(r"\S+://\S+|\bwww\.\S+")  # whose parts name nothing
_NAMES = 3  # words that name a group
_ALIKE = 4  # letters with which words that are alike begin
_TITLE = 90  # characters
_RANGES = 8  # of numbers or dates


@dataclass(frozen=True)
class Colouring:
    """The colours of N texts by one thing: groups of vectors, or the values of a field."""

    name: str
    colours: npt.NDArray[np.uint8]  # N, below `COLOURS`
    labels: dict[int, str]  # colour → what it means, in the order of the legend


@dataclass(frozen=True)
class TextMap:
    """The contents of a map of N texts."""

    title: str  # what the map is of
    names: Sequence[str]  # N, the title of each text
    rows: npt.NDArray[np.int64]  # N, ascending, the row of each in the index
    places: npt.NDArray[np.uint16]  # (N, 2) uint16, to the right and downwards
    colourings: Sequence[Colouring]  # the groups first
    stands: Sequence[str]  # N, where each stands
    beginnings: Sequence[str]  # N, how each begins
    dim: int  # numbers per vector
    layout: str  # umap or pca
    neighbours_kept: float  # share of the nearest neighbours that are among the nearest on the map, from 0 to 1


def text_map_data(
    names: Sequence[str],
    stands: Sequence[str],
    beginnings: Sequence[str],
    rows: npt.NDArray[np.int64],
    vectors_ND: npt.NDArray[np.float32],
    fields: Sequence[Colouring],
    *,
    title: str,
    layout: str,
    n_groups: int,
    report: Callable[[str, int], None] = lambda phase, done: None,
) -> TextMap:
    """Make the map of N texts, at least 3, given as `TextMap` has them, with their vectors, finite and not zero.

    Raises:
        ConfigError: umap-learn is not installed.
    """
    unit, _ = unit_rows(vectors_ND)
    report(f"layout by {layout}", 0)
    if layout == "pca":
        places = on_grid(pca_layout(unit))
    else:
        near, cosines = nearest_rows(
            unit, min(_LAYOUT_NEIGHBOURS, len(unit) - 1), lambda done: report("neighbours", done)
        )
        places = on_grid(close_gaps(umap_layout(unit, near.astype(np.int64), cosines)))
    report("groups", 0)
    groups = _groups(unit, names, beginnings, places, n_groups)
    report("measuring the map", 0)
    kept = _kept(unit, places)
    return TextMap(title, names, rows, places, [groups, *fields], stands, beginnings, vectors_ND.shape[1], layout, kept)


def _kept(unit_ND: npt.NDArray[np.float32], places_N2: npt.NDArray[np.uint16]) -> float:
    """Return the share of the nearest neighbours of some texts that are among their nearest on the map."""
    n = len(unit_ND)
    k, measured = min(_NEIGHBOURS, n - 1), np.unique(np.linspace(0, n - 1, min(n, _MEASURED)).astype(np.int64))
    at_once, near = max(1, SCORES_AT_ONCE // n), []
    for first in range(0, len(measured), at_once):
        own = measured[first : first + at_once]
        near.append(largest_columns(unit_ND[own] @ unit_ND.T, own, k)[0])
    return float(neighbour_overlap(np.concatenate(near), nearest_on_plane(places_N2, measured, k)).mean())


def _groups(
    unit_ND: npt.NDArray[np.float32], names: Sequence[str], beginnings: Sequence[str], places: npt.NDArray[np.uint16],
    n_groups: int,
) -> Colouring:  # fmt: skip
    """Return the texts of a map in groups of near vectors, each named by its most distinctive words; small words name none."""
    n = len(unit_ND)
    sample = np.unique(np.linspace(0, n - 1, min(n, _GROUPED)).astype(np.int64))
    own = group_by_direction(unit_ND[sample], max(1, min(n_groups, n // _TEXTS_PER_GROUP)))
    sums = np.stack([unit_ND[sample[own == group]].sum(axis=0) for group in range(int(own.max()) + 1)])
    groups = (unit_ND @ unit_rows(sums)[0].T).argmax(axis=1)
    _, groups = np.unique(groups, return_inverse=True)
    groups = np.argsort(np.argsort(-np.bincount(groups), kind="stable"), kind="stable")[groups]  # the largest one first
    colours = colour_order(places, groups, COLOURS)
    texts = [f"{names[row]} {beginnings[row]}" for row in sample]
    language = recognised_language(texts)
    words = [{*_WORD.findall(_ADDRESS.sub(" ", text.lower()))} for text in texts]
    small = {word for word in set().union(*words) if are_small([word], language)}
    labels = _distinctive([some - small for some in words], groups[sample], len(colours))
    return Colouring(
        GROUPS, colours[groups].astype(np.uint8), dict(zip(colours.tolist(), map(", ".join, labels), strict=True))
    )


def _distinctive(words: Sequence[set[str]], groups: npt.NDArray[np.int64], n_groups: int) -> list[list[str]]:
    """Return for each group of texts the words that its texts have and others have not.

    They are those of the largest p log²(p / q), for p and q the shares of texts of the group, and of all, that have the word;
    none begins as one before it, and of two of which one holds the other the shorter is taken, if it weighs nearly as much.

    >>> texts = [{"sea", "the"}, {"sea", "the"}, {"iron", "the"}, {"iron", "the"}]
    >>> _distinctive(texts, np.array([0, 0, 1, 1]), 2)
    [['sea'], ['iron']]
    """
    every = Counter(word for some in words for word in some)
    found = []
    for group in range(n_groups):
        members = np.flatnonzero(groups == group)
        own = Counter(word for place in members.tolist() for word in words[place])
        share = {word: n / len(members) for word, n in own.items()}
        rise = {word: p * len(words) / every[word] for word, p in share.items() if p * len(words) > every[word]}
        weight = {word: share[word] * np.log(rise[word]) ** 2 for word in rise}
        named: list[str] = []
        for word in sorted(weight, key=lambda word: (-weight[word], word)):
            alike = next((place for place, other in enumerate(named) if _are_alike(word, other)), None)
            if alike is None and len(named) < _NAMES:
                named.append(word)
            elif alike is not None and word in named[alike] and weight[word] > weight[named[alike]] / 2:
                named[alike] = word  # rust says more than librust
        found.append(named or ["other texts"])
    return found


def _are_alike(word: str, other: str) -> bool:
    """True if two words of the name of a group begin alike, or one holds the other.

    >>> _are_alike("compiler", "compiles"), _are_alike("rust", "librust"), _are_alike("ham", "shamrock")
    (True, True, False)
    """
    short, long = sorted((word, other), key=len)
    return short[:_ALIKE] == long[:_ALIKE] or (len(short) >= _ALIKE and short in long)


def text_map_policy() -> str:
    """Return the policy in the head of the page of a map that a server shows."""
    return policy_of("map", SCRIPTS, asks=True)


def text_map_page(found: TextMap, index: str | None = None, entries: Sequence[tuple[str, str, str]] = ()) -> bytes:
    """Return the page of a map of texts, UTF-8. The same map gives the same bytes.

    Args:
        found: the map.
        index: its name in the server that shows the page, at `map/NAME`; then the page asks the server for answers and texts,
            and no beginnings of texts are in it. None: the page stands alone.
        entries: of the menu of that server; see `menu`.
    """
    first = found.colourings[0]
    texts: dict[str, Any] = {
        "rows": base64_of(found.rows, "<u4"),
        "index": index,
        "beginnings": None if index is not None else [
            safe_text("\n".join(filter(None, one))) for one in zip(found.stands, found.beginnings, strict=True)
        ],
        "colourings": [
            {"name": one.name, "colours": base64_of(one.colours, "u1"), "names": _legend(one)}
            for one in found.colourings
        ],
    }  # fmt: skip
    names = [safe_text(one) if len(one) <= _TITLE else f"{safe_text(one[:_TITLE])}…" for one in found.names]
    data = {
        "words": names, "places": base64_of(found.places, "<u2"), "k": 0, "neighbours": "", "cosines": "",
        "groups": texts["colourings"][0]["colours"], "names": texts["colourings"][0]["names"], "chosen": None, "texts": texts,
    }  # fmt: skip

    def address(number: int) -> str:
        return (
            "" if index is None else "../text/?" + urlencode({"row": found.rows[number], "index": index, "map": "auto"})
        )

    near, meaning = meaning_of("text", len(found.names), found.dim, _NEIGHBOURS, found.neighbours_kept, found.layout)
    fills = {
        "title": shown(found.title),
        "figures": shown(figures_of(found.dim, found.layout)),
        "near": shown(near),
        "meaning": shown(meaning),
        "data": json_for_script(data),
        "menu": menu(entries),
        "find": "Find titles" if index is None else "Ask a question",
        "things": "texts",
        "tools": '<button id="lasso" type="button" aria-pressed="false" title="Draw around texts to list them">Lasso</button>'
        '<button id="in-view" type="button" title="List the texts that are in view">List</button>',
        "still": still_map(found.title, names, found.places, first.colours, first.labels, address),
    }
    return page_of("map", fills, SCRIPTS, asks=index is not None)


def _legend(colouring: Colouring) -> list[tuple[int, list[str]]]:
    """Return the legend of a map of texts as the script reads it: colours and what they mean."""
    return [(colour, [said]) for colour, said in colouring.labels.items()]


def field_colouring(name: str, values: Sequence[Any]) -> Colouring | None:
    """Return the colours of texts by a field: of its most frequent values, or of ranges of numbers and dates.

    None where the field tells no texts apart: it has one value, or nearly each text has its own.

    Args:
        name: of the field.
        values: N of them; None: a text has no value.

    >>> field_colouring("lang", ["de", "en", "de", None]).labels
    {0: 'de', 1: 'en', 11: 'no value'}
    """
    known = [value for value in values if value is not None]
    counts = Counter(map(str, known))
    if len(counts) < 2:
        return None
    codes = np.full(len(values), COLOURS - 1, np.uint8)
    if len(counts) > COLOURS - 1 and not isinstance(known[0], str | bool):  # ranges with as many texts each
        known.sort()
        edges = [*dict.fromkeys(known[len(known) * part // _RANGES] for part in range(_RANGES))]
        for row, value in enumerate(values):
            if value is not None:
                codes[row] = bisect_right(edges, value) - 1
        labels = {number: f"from {edge}" for number, edge in enumerate(edges)}
    else:
        if len(counts) > COLOURS - 1 and 2 * len(counts) > len(known):
            return None
        named = [value for value, _ in counts.most_common(COLOURS - 2 if len(counts) > COLOURS - 1 else COLOURS - 1)]
        numbers = {value: number for number, value in enumerate(named)}
        for row, value in enumerate(values):
            if value is not None:
                codes[row] = numbers.get(str(value), COLOURS - 2)
        labels = {number: value[:_TITLE] for value, number in numbers.items()}
        if len(counts) > len(named):
            labels[COLOURS - 2] = "other values"
    if len(known) < len(values):
        labels[COLOURS - 1] = "no value"
    return Colouring(name, codes, labels)
