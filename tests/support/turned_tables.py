"""Tables of random vectors, and the same tables turned: what semantic shifts are tested on."""

import numpy as np

from wordpipe.metrics import unit_rows


def random_rows(n: int, dim: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def random_rotation(dim: int, seed: int) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng([seed, 1]).standard_normal((dim, dim)))[0].astype(np.float32)


def clustered(n: int, dim: int, seed: int) -> np.ndarray:
    """Unit vectors in groups of ten, so that neighbours mean something."""
    return unit_rows(np.repeat(random_rows(n // 10, dim, seed), 10, axis=0) + 0.3 * random_rows(n, dim, seed + 1))[0]
