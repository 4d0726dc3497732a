"""A map of words: places by PCA or UMAP, groups with their colours, and the page of the map.

Nothing is fetched by the page, only its own script can run, and every word is data. It is put together from the files in
`map/`. Arrays travel as base64 of little-endian numbers, which for neighbours takes half of what JSON lists do.

Shapes: N points, D numbers each, K neighbours each, G groups.
"""

import warnings
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.metrics import SCORES_AT_ONCE, largest_columns, nearest_rows, neighbour_overlap, unit_rows
from wordpipe.pages.markup import json_for_script, menu, page_of, policy_of
from wordpipe.pages.still_map import still_map

COLOURS = 12  # in map/page.css
GRID = 65_535  # the largest coordinate of a place: what two bytes hold
INSTALL_UMAP = 'pip install "umap-learn>=0.5.9"'

_SHOWN_NEIGHBOURS = 10
_LAYOUT_NEIGHBOURS = 14  # and the word itself: UMAP's own default of 15
_MEASURED_WORDS = 5_000
_START_WIDTH = 10.0  # of the layout that UMAP starts from; its own starts are as wide
_MIN_DIST = 0.1
_WIDEST_STEP = 10  # mean steps between points, one axis at a time
_WORDS_PER_GROUP = 20  # at least, on average
_K_MEANS_STARTS = 4
_K_MEANS_ROUNDS = 100  # at most
_NAMES_PER_GROUP = 3
_NAMED_SHARE = 4  # a group is named by words of its commonest quarter
_SEED = 0
SCRIPTS = (
    "data", "camera", "labels", "drawing", "texts", "titles", "lists", "card", "search", "legend", "analogy", "pointer",
    "kept", "main",
)  # fmt: skip
"""Of the page of a map, in their order."""
_LAYOUTS = {
    "umap": "UMAP places neighbours near each other, but long distances and the sizes of gaps and clusters mean little.",
    "pca": "PCA shows the two directions in which the vectors vary most; all other directions are not visible.",
}


@dataclass(frozen=True)
class WordMap:
    """The contents of a map: N words, the commonest first, K neighbours each, G groups."""

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


def map_data(
    words: Sequence[str],
    counts: npt.NDArray[np.int64],
    ranks: npt.NDArray[np.int64],
    vectors_ND: npt.NDArray[np.float32],
    *,
    title: str,
    layout: str,
    n_groups: int,
    chosen: int | None = None,
    report: Callable[[str, int], None] = lambda phase, done: None,
) -> WordMap:
    """Make the map of N words, at least 3, given as `WordMap` has them, with their vectors, finite and not zero.

    There are at most `n_groups` and `COLOURS` colours, fewer where there would be less than 20 words to each. `report` gets
    what is being done, and for how many words it is done.

    Raises:
        ConfigError: umap-learn is not installed.
    """
    unit, _ = unit_rows(vectors_ND)
    k = min(_LAYOUT_NEIGHBOURS, len(words) - 1)
    rows, cosines = nearest_rows(unit, k, lambda done: report("neighbours", done))
    neighbours = rows.astype(np.int64)
    report(f"layout by {layout}", 0)
    by_pca = layout == "pca"
    found = pca_layout(unit) if by_pca else close_gaps(umap_layout(unit, neighbours, cosines))
    places = on_grid(found)
    groups = group_by_direction(unit, max(1, min(n_groups, len(words) // _WORDS_PER_GROUP)))
    colours = colour_order(places, groups, COLOURS)
    # the share of neighbours kept is measured over all words, or over 5000 spread evenly over the ranks
    measured = np.unique(np.linspace(0, len(words) - 1, min(len(words), _MEASURED_WORDS)).astype(np.int64))
    neighbours, cosines = neighbours[:, :_SHOWN_NEIGHBOURS], cosines[:, :_SHOWN_NEIGHBOURS]
    near = nearest_on_plane(places, measured, neighbours.shape[1])
    names = dict(zip(colours.tolist(), group_names(words, unit, groups), strict=True))
    kept = float(neighbour_overlap(neighbours[measured], near).mean())
    return WordMap(
        title, words, counts, ranks, places, neighbours, cosines, colours[groups], names, vectors_ND.shape[1], layout, kept,
        chosen,
    )  # fmt: skip


def pca_layout(vectors_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the places of words on the map along the two directions in which they vary most, (N, 2).

    The largest number of each direction is positive, so that the same points never come out mirrored. Points of one number
    lie on a line.

    Source: Hotelling 1933, "Analysis of a complex of statistical variables into principal components".
    """
    centred = vectors_ND.astype(np.float64) - vectors_ND.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)  # by rising variance
    axes_D2 = directions[:, ::-1][:, :2]
    largest = axes_D2[np.abs(axes_D2).argmax(axis=0), np.arange(axes_D2.shape[1])]
    places = centred @ (axes_D2 * np.where(largest < 0, -1.0, 1.0))
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


def has_umap() -> bool:
    """True if umap-learn is installed; nothing is imported."""
    return find_spec("umap") is not None


def umap_layout(
    vectors_ND: npt.NDArray[np.float32], rows_NK: npt.NDArray[np.int64], cosines_NK: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Return the places that UMAP gives words on the map, (N, 2), turned so that the map is wide.

    It is given exact neighbours, the nearest first, with their cosines (its own search of many points is approximate, and has
    to be compiled first), a start by PCA of the vectors, which are of length 1, and a seed, so the same input gives the same
    places on one kind of machine.

    Raises:
        ConfigError: umap-learn is not installed.

    Source: McInnes, Healy and Melville 2018, "UMAP: Uniform Manifold Approximation and Projection"; on the start, Kobak and
    Linderman 2021, "Initialization is critical for preserving global data structure in both t-SNE and UMAP".
    """
    import wordpipe.compiled  # noqa: F401  (before UMAP loads numba, which takes no file of the working folder then)

    itself = np.arange(len(rows_NK))[:, None]
    rows = np.hstack([itself, rows_NK]).astype(np.int32)
    distances = np.hstack([np.zeros_like(itself), (1 - cosines_NK).clip(0)]).astype(np.float32)
    start = pca_layout(vectors_ND)
    start *= _START_WIDTH / max(float(np.ptp(start, axis=0).max()), 1e-12)
    # it warns that TensorFlow is missing, that a seed means one thread, and that such neighbours do for no new points:
    # nothing that the reader of a map could act on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from umap import UMAP
        except ImportError:
            raise ConfigError("UMAP is not installed", where="layout", got="umap", hint=INSTALL_UMAP) from None
        umap = UMAP(
            n_neighbors=rows.shape[1], min_dist=_MIN_DIST, metric="cosine", init=start.astype(np.float32),
            precomputed_knn=(rows, distances), force_approximation_algorithm=True, random_state=_SEED, n_jobs=1,
        )  # fmt: skip
        places: npt.NDArray[np.float32] = umap.fit_transform(vectors_ND)
    return pca_layout(places)


def close_gaps(places_N2: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the places on the map with every band across the whole map without points narrowed.

    UMAP pushes islands so far away that the mainland is left a corner of the page, and how far means nothing. Along each axis
    no point is further from the one before it than ten times the mean step of the middle nine tenths. Their order stays.
    """
    closed = np.empty_like(places_N2)
    for axis in range(2):
        order = np.argsort(places_N2[:, axis], kind="stable")
        steps = np.diff(places_N2[order, axis], prepend=places_N2[order[0], axis])
        low, high = np.quantile(places_N2[:, axis], (0.05, 0.95))
        mean = (high - low) / (0.9 * len(places_N2))
        closed[order, axis] = np.cumsum(np.minimum(steps, _WIDEST_STEP * mean))
    return closed


def on_grid(places_N2: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """Return places on the map as whole numbers from 0 to `GRID`, both axes by one scale, the second downwards, centred."""
    low, high = places_N2.min(axis=0), places_N2.max(axis=0)
    scale = GRID / max(float((high - low).max()), 1e-12)
    centred = (places_N2 - (low + high) / 2) * scale * (1, -1) + GRID / 2
    return np.rint(centred).clip(0, GRID).astype(np.uint16)  # type: ignore[no-any-return]


def nearest_on_plane(
    points_N2: npt.NDArray[np.integer[Any]], of: npt.NDArray[np.int64], k: int
) -> npt.NDArray[np.int64]:
    """Return the `k` other words nearest on the map to each of the points `of`, (len(of), K).

    The nearest point has the largest 2 a·b - b·b; on a grid below 2²⁵ float64 holds that without rounding.
    """
    points = points_N2.astype(np.float64)
    squares = (points**2).sum(axis=1)
    found = []
    at_once = max(1, SCORES_AT_ONCE // 2 // len(points))
    for first in range(0, len(of), at_once):
        own = of[first : first + at_once]
        found.append(largest_columns(2 * points[own] @ points.T - squares, own, k)[0])
    return np.concatenate(found)


def group_by_direction(unit_ND: npt.NDArray[np.float32], n_groups: int) -> npt.NDArray[np.int64]:
    """Return the group of each word on the map, N numbers from 0, the largest group first; some may stay empty.

    The best of a few k-means with cosines, each begun with points drawn far from each other.

    Source: Dhillon and Modha 2001, "Concept decompositions for large sparse text data using clustering" (spherical k-means);
    Arthur and Vassilvitskii 2007, "k-means++".
    """
    random = np.random.default_rng(_SEED)
    tries = [_k_means(unit_ND, _far_points(unit_ND, n_groups, random)) for _ in range(_K_MEANS_STARTS)]
    groups_N = max(tries, key=lambda one: one[1])[0]
    sizes = np.bincount(groups_N, minlength=n_groups)
    return np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")[groups_N]


def _far_points(unit_ND: npt.NDArray[np.float32], n: int, random: np.random.Generator) -> npt.NDArray[np.float32]:
    """Draw `n` starting points of the k-means that makes the groups of the map."""
    chosen = [int(random.integers(len(unit_ND)))]
    farness = np.full(len(unit_ND), np.inf)
    for _ in range(1, n):
        farness = np.minimum(farness, (1 - unit_ND @ unit_ND[chosen[-1]]).clip(0))
        total = farness.sum()
        chosen.append(int(random.choice(len(unit_ND), p=farness / total if total > 0 else None)))
    return unit_ND[chosen]


def _k_means(
    unit_ND: npt.NDArray[np.float32], centres_GD: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int64], float]:
    """Return groups of words on the map by k-means with cosines, and the mean cosine to their direction.

    A group that is empty, or whose points cancel out, keeps the direction that it had.
    """
    groups_N = np.full(len(unit_ND), -1)
    for _ in range(_K_MEANS_ROUNDS):
        cosines_NG = unit_ND @ centres_GD.T
        before, groups_N = groups_N, cosines_NG.argmax(axis=1)
        if (before == groups_N).all():
            break
        sums_GD = (groups_N == np.arange(len(centres_GD))[:, None]).astype(np.float32) @ unit_ND
        lengths = np.linalg.norm(sums_GD, axis=1, keepdims=True)
        centres_GD = np.where(lengths > 1e-6, sums_GD / np.maximum(lengths, 1e-6), centres_GD)
    return groups_N, float(cosines_NG.max(axis=1).mean())


def group_names(
    words: Sequence[str], unit_ND: npt.NDArray[np.float32], groups_N: npt.NDArray[np.int64]
) -> list[list[str]]:
    """Return for each group on the map three of its commonest quarter that lie nearest to its direction.

    The words are given with the commonest first, their vectors at length 1.
    """
    names = []
    for group in range(int(groups_N.max()) + 1):
        members = np.flatnonzero(groups_N == group)
        common = members[: max(_NAMES_PER_GROUP, len(members) // _NAMED_SHARE)]
        cosines = unit_ND[common] @ unit_ND[members].sum(axis=0)
        names.append([words[row] for row in common[np.argsort(-cosines, kind="stable")[:_NAMES_PER_GROUP]]])
    return names


def colour_order(
    places_N2: npt.NDArray[np.uint16], groups_N: npt.NDArray[np.int64], n_colours: int
) -> npt.NDArray[np.int64]:
    """Return the colour of each group on the map, so that neighbours on the wheel of colours lie apart.

    The largest group has the first colour; each further one takes the free colour that differs most from those of the groups
    placed before it, the near ones weighing most.
    """
    n_groups = int(groups_N.max()) + 1
    assert n_groups <= n_colours, (n_groups, n_colours)
    centres = np.array([np.median(places_N2[groups_N == group], axis=0) for group in range(n_groups)])
    colours: list[int] = []
    for group in range(n_groups):
        near = 1 / (1 + np.linalg.norm(centres[:group] - centres[group], axis=1))
        free = [colour for colour in range(n_colours) if colour not in colours]
        turns = [np.abs(np.array(colours, dtype=np.int64) - colour) for colour in free]
        apart = [float((near * np.minimum(turn, n_colours - turn)).sum()) for turn in turns]
        colours.append(free[int(np.argmax(apart))])
    return np.array(colours, dtype=np.int64)


def word_map_policy() -> str:
    """Return the policy in the head of the page of a map of words."""
    return policy_of("map", SCRIPTS, asks=False)


def word_map_page(shown: WordMap, words: str | None = None, entries: Sequence[tuple[str, str, str]] = ()) -> bytes:
    """Return the page of a map of words, UTF-8. The same map gives the same bytes.

    A policy in its head lets exactly its own style and script through, by hash, so that no word could run even if it got out
    of the data.

    Args:
        shown: the map.
        words: its name in the server that shows the page, at `map/NAME`; then words lead to their neighbours among all words.
            None: the page stands alone.
        entries: of the menu of that server; see `menu`.
    """
    still = "This page needs JavaScript, which is turned off."
    if words is not None:
        view = {"tab": "words", "words": words}
        labels = {colour: ", ".join(names) for colour, names in shown.group_names.items()}
        still = still_map(
            shown.title, shown.words, shown.places, shown.groups, labels,
            lambda number: "../?" + urlencode({**view, "word": shown.words[number]}, errors="replace"),
        )  # fmt: skip
    near, meaning = _meaning(shown)
    fills = {
        "title": escape(shown.title),
        "menu": menu(entries),
        "find": "Find a word",
        "things": "words",
        "tools": "",
        "still": still,
        "figures": escape(figures_of(shown.dim, shown.layout)),
        "near": escape(near),
        "meaning": escape(meaning),
        "data": json_for_script(_data(shown) | ({} if words is None else {"served": words})),
    }
    return page_of("map", fills, SCRIPTS)


def _data(shown: WordMap) -> dict[str, Any]:
    """Return the data that the script of the page of the map reads; see map/data.js."""
    return {
        "words": list(shown.words),
        "counts": shown.counts.tolist(),
        "ranks": shown.ranks.tolist(),
        "places": base64_of(shown.places, "<u2"),
        "k": shown.neighbours.shape[1],
        "neighbours": base64_of(shown.neighbours, "<u2"),
        "cosines": base64_of(np.rint(shown.cosines * 100), "i1"),
        "groups": base64_of(shown.groups, "u1"),
        "names": [[colour, names] for colour, names in shown.group_names.items()],
        "chosen": shown.chosen,
    }


def base64_of(array: npt.NDArray[Any], dtype: str) -> str:
    """Return an array for the script of a map's page: base64 of numbers of this type."""
    return b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()


def _meaning(shown: WordMap) -> tuple[str, str]:
    """Return sentences on the meaning of distances on this map, with its measured figure."""
    return meaning_of(
        "word", len(shown.words), shown.dim, shown.neighbours.shape[1], shown.neighbours_kept, shown.layout
    )


def figures_of(dim: int, layout: str) -> str:
    """Return how a map was made: of vectors of how many numbers, by which layout."""
    return f"{dim} dimensions, layout by {layout.upper()}"


def meaning_of(thing: str, n: int, dim: int, k: int, kept: float, layout: str) -> tuple[str, str]:
    """Return a sentence, and more of them, on the meaning of distances on a map of `n` words or texts, with its figure."""
    how = "mostly" if kept >= 0.5 else "sometimes" if kept >= 0.1 else "rarely"
    return (
        f"{thing.capitalize()}s that are near each other on this page are {how} also near each other in all {dim} dimensions.",
        f"A share of {_share(kept)} of the {k} nearest neighbours of a {thing} are among its {k} nearest {thing}s on "
        f"this page (by chance: {k / max(1, n - 1):.2g}). "
        f"{_LAYOUTS[layout]}",
    )


def _share(share: float) -> str:
    """Return a share with two decimal places, or with as many as say that it is not nothing.

    >>> _share(0.5), _share(0.0052), _share(0.00351), _share(0.0)
    ('0.50', '0.01', '0.0035', 'less than 0.0001')
    """
    return f"{share:.2f}" if share >= 0.005 else f"{share:.2g}" if share >= 0.0001 else "less than 0.0001"
