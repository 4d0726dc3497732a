"""Groups of vectors that point the same way, for the colours of a map.

Shapes: N points, D numbers each, G groups.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["colour_order", "group_by_direction", "group_names"]

_RESTARTS = 4
_MOST_ROUNDS = 100
_NAMES = 3
_COMMON = 4  # a group is named by words of its commonest quarter
_SEED = 0


def group_by_direction(unit_ND: npt.NDArray[np.float32], n_groups: int) -> npt.NDArray[np.int64]:
    """The group of each point, N numbers from 0 to `n_groups` - 1, the largest group first; some may stay empty.

    The best of a few k-means with cosines, each begun with points drawn far from each other.

    Source: Dhillon and Modha 2001, "Concept decompositions for large sparse text data using clustering" (spherical k-means);
    Arthur and Vassilvitskii 2007, "k-means++".
    """
    random = np.random.default_rng(_SEED)
    tries = [_k_means(unit_ND, _far_points(unit_ND, n_groups, random)) for _ in range(_RESTARTS)]
    groups_N = max(tries, key=lambda one: one[1])[0]
    sizes = np.bincount(groups_N, minlength=n_groups)
    rank: npt.NDArray[np.int64] = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
    return rank[groups_N]


def _far_points(unit_ND: npt.NDArray[np.float32], n: int, random: np.random.Generator) -> npt.NDArray[np.float32]:
    """`n` of the points, each drawn in proportion to 1 - cosine to the nearest that is drawn already."""
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
    """Groups of the points, and the mean cosine of a point to its group's direction."""
    groups_N = np.full(len(unit_ND), -1)
    for _ in range(_MOST_ROUNDS):
        cosines_NG = unit_ND @ centres_GD.T
        before, groups_N = groups_N, cosines_NG.argmax(axis=1)
        if (before == groups_N).all():
            break
        centres_GD = _directions(unit_ND, groups_N, centres_GD)
    return groups_N, float(cosines_NG.max(axis=1).mean())


def _directions(
    unit_ND: npt.NDArray[np.float32], groups_N: npt.NDArray[np.int64], before_GD: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The mean direction of each group; an empty one, and one whose points cancel out, keeps what it had."""
    sums_GD = np.zeros_like(before_GD)
    for group in range(len(before_GD)):
        sums_GD[group] = unit_ND[groups_N == group].sum(axis=0)
    lengths = np.linalg.norm(sums_GD, axis=1, keepdims=True)
    directions: npt.NDArray[np.float32] = np.where(lengths > 1e-6, sums_GD / np.maximum(lengths, 1e-6), before_GD)
    return directions


def group_names(
    words: Sequence[str], unit_ND: npt.NDArray[np.float32], groups_N: npt.NDArray[np.int64]
) -> list[list[str]]:
    """For each group up to the last that has points, three of its commonest quarter that lie nearest to its direction.

    Args:
        words: N, the commonest first.
        unit_ND: their vectors, of length 1.
        groups_N: their groups.
    """
    names = []
    for group in range(int(groups_N.max()) + 1):
        members = np.flatnonzero(groups_N == group)
        common = members[: max(_NAMES, len(members) // _COMMON)]
        cosines = unit_ND[common] @ unit_ND[members].sum(axis=0)
        names.append([words[row] for row in common[np.argsort(-cosines, kind="stable")[:_NAMES]]])
    return names


def colour_order(
    places_N2: npt.NDArray[np.uint16], groups_N: npt.NDArray[np.int64], n_colours: int
) -> npt.NDArray[np.int64]:
    """The colour of each group, so that groups that lie side by side on a wheel of colours lie apart on the map.

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
