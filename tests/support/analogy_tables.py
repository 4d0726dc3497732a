"""Tables in which analogies hold more or less, and the same in gensim."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wordpipe.words import WordVectors


def grid(rng: np.random.Generator, pairs: int = 20, dim: int = 10, noise: float = 0.5) -> WordVectors:
    """Words a0, b0, a1, b1, …: every b is its a moved by one vector and some noise; of different lengths."""
    firsts = rng.standard_normal((pairs, dim))
    seconds = firsts + rng.standard_normal(dim) + noise * rng.standard_normal((pairs, dim))
    vectors_VD = np.stack([firsts, seconds], axis=1).reshape(-1, dim) * rng.uniform(0.2, 4, (2 * pairs, 1))
    words = [f"{side}{number}" for number in range(pairs) for side in "ab"]
    return WordVectors(words, np.arange(2 * pairs, 0, -1, dtype=np.int64), vectors_VD.astype(np.float32))


def questions(rng: np.random.Generator, number: int, pairs: int = 22) -> str:
    """An analogy set about such a table: some words upper-case, some unknown, some questions senseless."""
    lines = []
    for row in range(number):
        if row % 40 == 0:
            lines.append(f": {['family', 'gram1', 'gram2', 'city'][row // 40 % 4]}")
        one, other = rng.integers(pairs, size=2)
        words = [f"a{one}", f"b{one}", f"a{other}", f"b{other}"]
        if row % 11 == 0:
            words = [str(word) for word in rng.permutation(words)]
        lines.append(" ".join(words).upper() if row % 3 else " ".join(words))
    return "\n".join(lines) + "\n"


def in_gensim(table: WordVectors) -> Any:
    models = pytest.importorskip("gensim.models")
    vectors = models.KeyedVectors(table.dim)
    vectors.add_vectors(list(table.words), table.vectors)
    return vectors


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)
