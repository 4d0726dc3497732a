"""Vectors of terms and their latent space: the oracles are scikit-learn and a whole singular value decomposition."""

import numpy as np
import pytest

from wordpipe.search import LatentSpace, Tfidf


def texts(n: int, seed: int, words: int = 40) -> list[str]:
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, words + 1)
    return [
        " ".join(f"w{i}" for i in rng.choice(words, size, p=weights / weights.sum())) for size in rng.integers(0, 30, n)
    ]


def test_it_is_that_of_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    known, asked = texts(60, 1), [*texts(20, 2, words=80), "", "unheard of"]
    other = text.TfidfVectorizer(sublinear_tf=True, analyzer=str.split).fit(known)
    ours = Tfidf.fit(known, str.split)
    columns = [ours.column_of[term] for term in other.get_feature_names_out()]
    assert sorted(columns) == list(range(len(ours.idf)))
    for some in (known, asked):
        np.testing.assert_allclose(ours.vectors(some).toarray()[:, columns], other.transform(some).toarray(), atol=1e-6)


def test_rows_have_length_one_and_what_is_unknown_is_empty():
    tfidf = Tfidf.fit(texts(40, 3), str.split)
    lengths = np.sqrt((tfidf.vectors([*texts(9, 4), "", "unheard"]).toarray() ** 2).sum(axis=1))
    assert set(lengths[-2:]) == {0}
    assert lengths[:-2][lengths[:-2] > 0] == pytest.approx(1)
    assert Tfidf.fit(["", ""], str.split).vectors(["a", ""]).shape == (2, 0)
    assert tfidf.vectors([]).shape[0] == 0


def test_directions_are_the_leading_singular_vectors():
    matrix = Tfidf.fit(texts(50, 5), str.split).vectors(texts(50, 5))
    space = LatentSpace.fit(matrix, 10)
    _, values, exact = np.linalg.svd(matrix.toarray().astype(np.float64), full_matrices=False)
    assert values[9] - values[10] > 1e-3
    np.testing.assert_allclose(np.abs(exact[:10] @ space.directions), np.eye(10), atol=1e-4)
    again = LatentSpace.fit(matrix, 10)
    assert np.array_equal(space.directions, again.directions)
    projected = matrix.toarray() @ exact[:10].T
    cosines = projected @ projected.T / np.linalg.norm(projected, axis=1).clip(1e-9)[:, None]
    cosines /= np.linalg.norm(projected, axis=1).clip(1e-9)
    found = space.vectors(matrix)
    np.testing.assert_allclose(found @ found.T, cosines, atol=1e-4)


def test_a_small_matrix_has_few_directions():
    for words, dim in (("a b c", 2), ("a", 0), ("", 0)):
        matrix = Tfidf.fit([words, "a", ""], str.split).vectors([words, "a", ""])
        space = LatentSpace.fit(matrix, 300)
        assert space.directions.shape == (matrix.shape[1], dim)
        assert space.vectors(matrix).shape == (3, dim)
        assert np.isfinite(space.vectors(matrix)).all()
