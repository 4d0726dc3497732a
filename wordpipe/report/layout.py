"""From vectors to places on a plane: PCA by numpy, and UMAP where umap-learn is installed.

Shapes: N points, D numbers each, K neighbours each.
"""

import warnings
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError

__all__ = ["GRID", "INSTALL_UMAP", "close_gaps", "has_umap", "on_grid", "pca_layout", "umap_layout"]

GRID = 65_535  # the largest coordinate of a place: what two bytes hold
INSTALL_UMAP = 'pip install "umap-learn>=0.5.9"'
_START_WIDTH = 10.0  # of the layout that UMAP starts from; its own starts are as wide
_MIN_DIST = 0.1
_WIDEST_STEP = 10  # mean steps between points, one axis at a time
_SEED = 0


def pca_layout(vectors_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The places of points along the two directions in which they vary most, (N, 2).

    The largest number of each direction is positive, so that the same points never come out mirrored. Points of one number
    lie on a line.

    Source: Hotelling 1933, "Analysis of a complex of statistical variables into principal components".
    """
    centred = vectors_ND.astype(np.float64) - vectors_ND.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)  # by rising variance
    axes_D2 = directions[:, ::-1][:, :2]
    largest = axes_D2[np.abs(axes_D2).argmax(axis=0), np.arange(axes_D2.shape[1])]
    places: npt.NDArray[np.float64] = centred @ (axes_D2 * np.where(largest < 0, -1.0, 1.0))
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


def has_umap() -> bool:
    """Whether umap-learn is installed; it is not imported."""
    return find_spec("umap") is not None


def umap_layout(
    vectors_ND: npt.NDArray[np.float32], rows_NK: npt.NDArray[np.int64], cosines_NK: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """The places that UMAP gives points whose nearest neighbours are known, (N, 2), turned so that the map is wide.

    It is given exact neighbours (its own search of many points is approximate, and has to be compiled first), a start by PCA
    and a seed, so the same input gives the same places on one kind of machine.

    Args:
        vectors_ND: vectors of length 1; only the start is made from them.
        rows_NK: the nearest other points of each point, the nearest first.
        cosines_NK: their cosines.

    Raises:
        ConfigError: umap-learn is not installed.

    Source: McInnes, Healy and Melville 2018, "UMAP: Uniform Manifold Approximation and Projection"; on the start, Kobak and
    Linderman 2021, "Initialization is critical for preserving global data structure in both t-SNE and UMAP".
    """
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
    """The places with every band across the whole map in which there are no points, or hardly any, narrowed.

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
    """Places as whole numbers from 0 to `GRID`, both axes by one scale, the second downwards; the narrower is centred."""
    low, high = places_N2.min(axis=0), places_N2.max(axis=0)
    scale = GRID / max(float((high - low).max()), 1e-12)
    centred = (places_N2 - (low + high) / 2) * scale * (1, -1) + GRID / 2
    grid: npt.NDArray[np.uint16] = np.rint(centred).clip(0, GRID).astype(np.uint16)
    return grid
