"""A static table out of a teacher's vectors: the solver beside a dense solution, and what it keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sparse_matrices import as_scipy
from wordpipe.training.contrastive import distillation, distilled_table, held_words, nearness


def drawn(seed, n_texts=12, n_words=7, dim=3):
    """Words and texts of a teacher by chance, and which texts have which words."""
    rng = np.random.default_rng(seed)
    words_VD, taught_ND = (rng.standard_normal((n, dim)).astype(np.float32) for n in (n_words, n_texts))
    words_VD /= np.linalg.norm(words_VD, axis=1, keepdims=True)
    taught_ND /= np.linalg.norm(taught_ND, axis=1, keepdims=True)
    ids = [rng.integers(0, n_words - 1, rng.integers(1, 6)).tolist() for _ in range(n_texts)]  # none has the last
    return words_VD, rng.uniform(0.2, 1.0, n_words).astype(np.float32), held_words(ids, n_words), taught_ND


def solved_densely(words_VD, weights_V, held_NV, taught_ND):
    """The same table by the normal equations."""
    first_VD = (words_VD * weights_V[:, None]).astype(np.float64)
    table_VD, counts_NV, ridge_VV = (
        first_VD,
        as_scipy(held_NV).toarray().astype(np.float64),
        np.diag(distillation._RIDGE / weights_V**2),
    )
    for _ in range(2):
        scaled_NV = counts_NV / np.linalg.norm(counts_NV @ table_VD, axis=1, keepdims=True)
        wanted_VD = scaled_NV.T @ taught_ND + ridge_VV @ first_VD
        table_VD = np.linalg.solve(scaled_NV.T @ scaled_NV + ridge_VV, wanted_VD)
    return table_VD


@given(seed=st.integers(0, 10**6))
def test_the_table_is_that_of_the_normal_equations(seed):
    told = []
    found_VD = distilled_table(*drawn(seed), told.append)
    # conjugate gradients are exact after as many steps as there are words; what is left is rounding, worse in small sums
    np.testing.assert_allclose(found_VD, solved_densely(*drawn(seed)), rtol=2e-2, atol=2e-2)
    assert found_VD.dtype == np.float32
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)


def test_it_comes_nearer_to_the_teacher_and_a_word_of_no_text_stays():
    words_VD, weights_V, held_NV, taught_ND = drawn(1)
    first_VD = words_VD * weights_V[:, None]
    found_VD = distilled_table(words_VD, weights_V, held_NV, taught_ND, lambda _: None)
    assert nearness(found_VD, held_NV, taught_ND) > nearness(first_VD, held_NV, taught_ND) + 0.1
    np.testing.assert_allclose(found_VD[-1], first_VD[-1], rtol=1e-6)


def test_a_text_without_words_changes_nothing():
    words_VD, weights_V, held_NV, taught_ND = drawn(2)
    ids = [np.repeat(np.arange(held_NV.shape[1]), row).tolist() for row in as_scipy(held_NV).toarray().astype(int)]
    more_NV, more_ND = held_words([*ids, []], len(words_VD)), np.concatenate([taught_ND, taught_ND[:1]])
    one, other = (
        distilled_table(words_VD, weights_V, held, taught, lambda _: None)
        for held, taught in ((held_NV, taught_ND), (more_NV, more_ND))
    )
    np.testing.assert_array_equal(one, other)
    assert nearness(one, held_words([[]], len(words_VD)), taught_ND[:1]) == 0
    assert as_scipy(held_words([[0, 0], []], 2)).toarray().tolist() == [[2, 0], [0, 0]]
