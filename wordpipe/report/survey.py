"""What a map of words shows, found from their vectors: true neighbours, places on the plane, colours, and how true it is.

Shapes: N words, D numbers each, K neighbours each.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.vectors import kept_shares, nearest_rows, unit_rows
from wordpipe.report.groups import colour_order, group_by_direction, group_names
from wordpipe.report.layout import close_gaps, on_grid, pca_layout, umap_layout
from wordpipe.report.neighbours import nearest_on_plane
from wordpipe.report.word_map import COLOURS, WordMap

__all__ = ["survey"]

_SHOWN_NEIGHBOURS = 10
_LAYOUT_NEIGHBOURS = 14  # and the word itself: UMAP's own default of 15
_MEASURED_WORDS = 5_000
_WORDS_PER_GROUP = 20  # at least, on average


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
    """The map of N words, the commonest first.

    Args:
        words: N of at least 3.
        counts: how often each occurs.
        ranks: the place of each among all words of the table, from 0.
        vectors_ND: their vectors, finite and not zero.
        title: what the map is of.
        layout: umap or pca.
        n_groups: colours, at most `COLOURS`; fewer where there would be less than 20 words to each.
        chosen: the number of the word that is chosen when the page opens.
        tell: called with what is being done, and for how many words it is done.

    Raises:
        ConfigError: umap-learn is not installed.
    """
    unit, _ = unit_rows(vectors_ND)
    k = min(_LAYOUT_NEIGHBOURS, len(words) - 1)
    rows, cosines = nearest_rows(unit, k, lambda done: tell("neighbours", done))
    neighbours = rows.astype(np.int64)
    tell(f"layout by {layout}", 0)
    places = on_grid(pca_layout(unit) if layout == "pca" else close_gaps(umap_layout(unit, neighbours, cosines)))
    groups = group_by_direction(unit, max(1, min(n_groups, len(words) // _WORDS_PER_GROUP)))
    colours = colour_order(places, groups, COLOURS)
    neighbours, cosines = neighbours[:, :_SHOWN_NEIGHBOURS], cosines[:, :_SHOWN_NEIGHBOURS]
    return WordMap(
        title=title,
        words=words,
        counts=counts,
        ranks=ranks,
        places=places,
        neighbours=neighbours,
        cosines=cosines,
        groups=colours[groups],
        group_names=dict(zip(colours.tolist(), group_names(words, unit, groups), strict=True)),
        dim=vectors_ND.shape[1],
        layout=layout,
        neighbours_kept=_kept(places, neighbours),
        chosen=chosen,
    )


def _kept(places_N2: npt.NDArray[np.uint16], neighbours_NK: npt.NDArray[np.int64]) -> float:
    """The share of neighbours kept, over all words or over 5000 spread evenly over the ranks."""
    n = len(places_N2)
    measured = np.unique(np.linspace(0, n - 1, min(n, _MEASURED_WORDS)).astype(np.int64))
    return float(
        kept_shares(neighbours_NK[measured], nearest_on_plane(places_N2, measured, neighbours_NK.shape[1])).mean()
    )
