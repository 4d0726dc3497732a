"""A transformer that begins as the mean of its vectors."""

import numpy as np
import pytest
import torch

from tests.training.contrast.encoders import V, model_of, ragged
from wordpipe.errors import ArtifactError, InputError
from wordpipe.training.contrastive import Framing, start_as_mean, text_vectors


def centred(dim: int = 16) -> np.ndarray:
    """Vectors without the one direction that a LayerNorm takes away."""
    vectors = np.random.default_rng(0).normal(size=(V, dim)).astype(np.float32)
    return vectors - vectors.mean(axis=1, keepdims=True)


def test_before_the_first_step_texts_are_the_means_of_their_vectors():
    model, vectors_VD = model_of().eval(), centred()
    lengths_V = start_as_mean(model, vectors_VD, np.ones(V, np.bool_), seed=1)
    weights_V = torch.zeros(64)
    weights_V[7:V] = torch.from_numpy(lengths_V)[7:]
    rows = [[9, 10, 11], [12, 30, 31, 32], [13, 13]]
    with torch.no_grad():
        got = text_vectors(model, Framing(2, 3, 16, torch.device("cpu")).packed(ragged(*rows)), weights_V).numpy()
    for row, vector in zip(rows, got, strict=True):
        mean = vectors_VD[row].mean(axis=0)
        assert vector @ mean / np.linalg.norm(mean) > 0.9999


def test_a_wider_model_keeps_the_angles():
    model, vectors_VD = model_of(dim=32).eval(), centred(16)
    start_as_mean(model, vectors_VD, np.ones(V, np.bool_), seed=1)
    table = model.embedding.detach().numpy()[:V]
    got, want = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (table, vectors_VD))
    np.testing.assert_allclose(got @ got.T, want @ want.T, atol=1e-5)


def test_tokens_without_a_vector_keep_their_embedding_and_weigh_as_the_average():
    model = model_of()
    before = model.embedding.detach().clone()
    found_V = np.arange(V) >= 10
    lengths_V = start_as_mean(model, centred(), found_V, seed=1)
    assert torch.equal(model.embedding[:10], before[:10])
    assert (lengths_V[:10] == 1).all()
    assert abs(lengths_V[10:].mean() - 1) < 1e-5


def test_vectors_that_cannot_be_used_are_refused():
    with pytest.raises(InputError, match="no token has a vector"):
        start_as_mean(model_of(), centred(), np.zeros(V, np.bool_), seed=1)
    with pytest.raises(ArtifactError, match="not finite"):
        start_as_mean(model_of(), np.full((V, 16), np.nan, np.float32), np.ones(V, np.bool_), seed=1)
    with pytest.raises(ArtifactError, match="do not fit"):
        start_as_mean(model_of(), np.zeros((99, 16), np.float32), np.ones(99, np.bool_), seed=1)
