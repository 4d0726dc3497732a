import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.model.shapes import small_config
from wordpipe.errors import ArtifactError, InputError
from wordpipe.model import EMBEDDING_STD, init_embeddings, new_model


def word_vectors(dim, n=96, seed=0):
    return (np.random.default_rng(seed).standard_normal((n, dim)) * 3 + 5).astype(np.float32)


@given(dim=st.integers(1, 80), missing=st.integers(0, 90), seed=st.integers(0, 1000))
def test_found_rows_get_the_deviation_of_fresh_ones_and_the_others_stay(dim, missing, seed):
    model = new_model(small_config("encoder"), 0)
    before = model.embedding.detach().clone()
    found = np.arange(96) >= missing
    assert init_embeddings(model, word_vectors(dim, seed=seed), found, seed=1) == 96 - missing
    after = model.embedding.detach()
    assert torch.equal(after[:missing], before[:missing])
    assert float(after[missing:].std(correction=0)) == pytest.approx(EMBEDDING_STD, rel=1e-4)
    assert float(after[missing:].mean(dim=0).abs().max()) < 1e-6


@pytest.mark.parametrize("dim", [8, 32])
def test_no_wider_vectors_keep_their_angles(dim):
    model = new_model(small_config("encoder"), 0)
    vectors = word_vectors(dim)
    init_embeddings(model, vectors, np.ones(96, dtype=bool), seed=1)
    centred = vectors - vectors.mean(axis=0)
    table = model.embedding.detach().numpy()
    for rows in (centred, table):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(table @ table.T, centred @ centred.T, atol=1e-5)


def test_wider_vectors_are_mapped_by_an_orthonormal_map_of_the_seed():
    tables = []
    for seed in (1, 1, 2):
        model = new_model(small_config("encoder"), 0)
        init_embeddings(model, word_vectors(100), np.ones(96, dtype=bool), seed=seed)
        tables.append(model.embedding.detach().clone())
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0], tables[2])


def test_fewer_rows_than_the_padded_vocabulary_are_fine():
    model = new_model(small_config("encoder"), 0)
    assert init_embeddings(model, word_vectors(16, n=90), np.ones(90, dtype=bool), seed=1) == 90


@pytest.mark.parametrize("n_found", [0, 1])
def test_too_few_vectors_are_refused(n_found):
    with pytest.raises(InputError, match="too few"):
        init_embeddings(new_model(small_config("encoder"), 0), word_vectors(8), np.arange(96) < n_found, seed=1)


def test_vectors_that_do_not_fit_are_refused():
    model, broken = new_model(small_config("encoder"), 0), word_vectors(8)
    with pytest.raises(ArtifactError, match="do not fit"):
        init_embeddings(model, word_vectors(8, n=97), np.ones(97, dtype=bool), seed=1)
    broken[3, 3] = np.inf
    with pytest.raises(ArtifactError, match="not finite"):
        init_embeddings(model, broken, np.ones(96, dtype=bool), seed=1)
