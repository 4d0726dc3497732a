"""A map of words, and the page that shows it. Nothing is fetched, only the page's own script can run, and every word is data.

The page is put together from the files in `page/`. Arrays travel as base64 of little-endian numbers, which for
neighbours takes half of what JSON lists do.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import kept_shares, nearest_rows, unit_rows
from wordpipe.report import layout as plane

COLOURS = 12  # in page/page.css
_SHOWN_NEIGHBOURS = 10
_LAYOUT_NEIGHBOURS = 14  # and the word itself: UMAP's own default of 15
_MEASURED_WORDS = 5_000
_WORDS_PER_GROUP = 20  # at least, on average
_SCRIPTS = ("data", "camera", "labels", "drawing", "card", "search", "legend", "pointer", "main")
_LAYOUTS = {
    "umap": "UMAP draws neighbours together; long distances, and the sizes of gaps and clumps, mean little.",
    "pca": "PCA shows the two directions in which the vectors vary most; all others are flattened.",
}


@dataclass(frozen=True)
class WordMap:
    """What a map shows: N words, the commonest first, K neighbours each, G groups."""

    title: str  # what the map is of
    words: Sequence[str]  # N
    counts: npt.NDArray[np.int64]  # N, how often each occurs in the text
    ranks: npt.NDArray[np.int64]  # N, each word's place among all words of the table, from 0
    places: npt.NDArray[np.uint16]  # (N, 2) uint16, to the right and downwards
    # (N, K), the words of the map with the largest cosines, by number, the nearest first
    neighbours: npt.NDArray[np.int64]
    cosines: npt.NDArray[np.float32]  # (N, K)
    groups: npt.NDArray[np.int64]  # N, the colour of each word, below `COLOURS`
    group_names: dict[int, list[str]]  # colour → a few words that stand for the group, the largest group first
    dim: int  # numbers per vector
    layout: str  # umap or pca
    neighbours_kept: float  # share of the K neighbours that are among the K nearest on the map, from 0 to 1
    chosen: int | None = None  # the number of the word that is chosen when the page opens


def survey(
    words: Sequence[str],
    counts: npt.NDArray[np.int64],
    ranks: npt.NDArray[np.int64],
    vectors_ND: npt.NDArray[np.float32],
    *,
    title: str,
    layout: str,
    n_groups: int,
    chosen: int | None = None,
    tell: Callable[[str, int], None] = lambda phase, done: None,
) -> WordMap:
    """The map of N words, at least 3, given as `WordMap` has them, with their vectors, finite and not zero.

    There are at most `n_groups` and `COLOURS` colours, fewer where there would be less than 20 words to each. `tell` is called
    with what is being done, and for how many words it is done.

    Raises:
        ConfigError: umap-learn is not installed.
    """
    unit, _ = unit_rows(vectors_ND)
    k = min(_LAYOUT_NEIGHBOURS, len(words) - 1)
    rows, cosines = nearest_rows(unit, k, lambda done: tell("neighbours", done))
    neighbours = rows.astype(np.int64)
    tell(f"layout by {layout}", 0)
    by_pca = layout == "pca"
    found = plane.pca_layout(unit) if by_pca else plane.close_gaps(plane.umap_layout(unit, neighbours, cosines))
    places = plane.on_grid(found)
    groups = plane.group_by_direction(unit, max(1, min(n_groups, len(words) // _WORDS_PER_GROUP)))
    colours = plane.colour_order(places, groups, COLOURS)
    # the share of neighbours kept is measured over all words, or over 5000 spread evenly over the ranks
    measured = np.unique(np.linspace(0, len(words) - 1, min(len(words), _MEASURED_WORDS)).astype(np.int64))
    neighbours, cosines = neighbours[:, :_SHOWN_NEIGHBOURS], cosines[:, :_SHOWN_NEIGHBOURS]
    near = plane.nearest_on_plane(places, measured, neighbours.shape[1])
    names = dict(zip(colours.tolist(), plane.group_names(words, unit, groups), strict=True))
    kept = float(kept_shares(neighbours[measured], near).mean())
    return WordMap(
        title, words, counts, ranks, places, neighbours, cosines, colours[groups], names, vectors_ND.shape[1], layout, kept,
        chosen,
    )  # fmt: skip


def word_map_page(shown: WordMap) -> bytes:
    """The page, UTF-8. The same map gives the same bytes.

    A policy in its head lets exactly its own style and script through, by hash, so that no word could run even if it got out
    of the data.
    """
    style = _part("page.css")
    script = '"use strict";\n' + "".join(_part(f"{name}.js") for name in _SCRIPTS)
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    fills = {
        "policy": policy,
        "title": escape(shown.title),
        "figures": escape(f"{shown.dim} dimensions, laid out by {shown.layout.upper()}"),
        "meaning": escape(_meaning(shown)),
        "style": style,
        "data": json_for_script(_data(shown)),
        "script": script,
    }
    # one pass, so that what is filled in is not looked at again
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fills[match[1]], _part("page.html")).encode()


def json_for_script(value: object) -> str:
    r"""JSON that may stand in a script element: no `<`, `>` or `&`, and no line separator that a script would trip over.

    >>> json_for_script(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _data(shown: WordMap) -> dict[str, Any]:
    """What the script reads; see page/data.js."""
    return {
        "words": list(shown.words),
        "counts": shown.counts.tolist(),
        "ranks": shown.ranks.tolist(),
        "places": _base64(shown.places, "<u2"),
        "k": shown.neighbours.shape[1],
        "neighbours": _base64(shown.neighbours, "<u2"),
        "cosines": _base64(np.rint(shown.cosines * 100), "i1"),
        "groups": _base64(shown.groups, "u1"),
        "names": [[colour, names] for colour, names in shown.group_names.items()],
        "chosen": shown.chosen,
    }


def _base64(array: npt.NDArray[Any], dtype: str) -> str:
    return b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()


def _meaning(shown: WordMap) -> str:
    """What distances on this map mean, with what was measured."""
    k, chance = shown.neighbours.shape[1], shown.neighbours.shape[1] / max(1, len(shown.words) - 1)
    how = "mostly" if shown.neighbours_kept >= 0.5 else "sometimes" if shown.neighbours_kept >= 0.1 else "seldom"
    return (
        f"What is near here is {how} near in all {shown.dim} dimensions: of each word’s {k} true nearest neighbours, "
        f"a share of {shown.neighbours_kept:.2f} is among its {k} nearest on this page (by chance {chance:.2g}). "
        f"{_LAYOUTS[shown.layout]}"
    )


def _part(name: str) -> str:
    return files("wordpipe.report").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """How a content security policy names a script or a style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
