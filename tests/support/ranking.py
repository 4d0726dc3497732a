"""The best of some scores, where scores of single precision that are nearly equal may change places."""

import numpy as np
import numpy.typing as npt


def assert_best(found: list[int], scores: npt.NDArray[np.floating], k: int, slack: float) -> None:
    """Assert that `found` are the `k` best of all scores, best first; scores that are `slack` apart may change places."""
    assert len(found) == len({*found}) == min(k, len(scores))
    best = np.sort(scores)[::-1][: len(found)]
    # where each stands in the order of exact scores, its score is that of the place, up to what rounding may have moved
    np.testing.assert_allclose(scores[found], best, rtol=0, atol=slack)
