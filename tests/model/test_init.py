"""Initial weights: fresh ones by their deviations and their loss, and word vectors as embeddings."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from tests.support.models import small_config
from wordpipe.errors import ArtifactError, InputError
from wordpipe.model import (
    EMBEDDING_STD,
    PRESETS,
    STYLES,
    ModelConfig,
    init_embeddings,
    new_model,
    seed_of,
    start_as_mean,
)


@pytest.mark.parametrize("style", ["modern", "classic"])
@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize(
    "preset",
    ["tiny", "mini", pytest.param("small", marks=pytest.mark.slow), pytest.param("base", marks=pytest.mark.slow)],
)
def test_loss_of_a_fresh_model_is_near_that_of_guessing(architecture, preset, style):
    size = PRESETS[preset]
    V = 4000
    config = ModelConfig(
        architecture=architecture, vocab_size=V, dim=size.dim, n_layers=size.n_layers, n_heads=size.n_heads,
        n_kv_heads=size.n_kv_heads, ffn_dim=size.ffn_dim, max_len=64, **STYLES[architecture, style],
    )  # fmt: skip
    model = new_model(config, 0).eval()
    generator = torch.Generator().manual_seed(1)
    ids_BT, labels_BT = torch.randint(0, V, (2, 2, 64), generator=generator)
    with torch.no_grad():
        loss = F.cross_entropy(model(ids_BT).flatten(0, 1), labels_BT.flatten())
    assert abs(float(loss) - math.log(V)) < 0.25


def test_weights_depend_on_the_seed_and_the_name_alone():
    before = torch.random.get_rng_state()
    one, same, other = (dict(new_model(small_config("encoder"), seed).named_parameters()) for seed in (7, 7, 8))
    deeper = dict(new_model(small_config("encoder", n_layers=4), 7).named_parameters())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["embedding"], other["embedding"])
    assert torch.equal(one["blocks.2.attention.qkv.weight"], deeper["blocks.2.attention.qkv.weight"])
    assert not torch.equal(one["blocks.1.attention.qkv.weight"], one["blocks.2.attention.qkv.weight"])


def test_deviations_and_cut_off():
    config = small_config("decoder", dim=128, ffn_dim=320, vocab_size=4096)
    weights = {name: weight.detach() for name, weight in new_model(config, 0).named_parameters()}
    inner = math.sqrt(2 / (5 * 128))
    expected = {
        "embedding": 0.02,
        "blocks.0.attention.qkv.weight": inner,
        "blocks.1.feedforward.up.weight": inner,
        "blocks.0.attention.out.weight": inner / math.sqrt(6),
        "blocks.2.feedforward.down.weight": inner / math.sqrt(6),
    }
    for name, deviation in expected.items():
        assert float(weights[name].std()) == pytest.approx(deviation, rel=0.03), name
        assert float(weights[name].abs().max()) <= 3 * deviation * 1.0001, name
    assert bool((weights["final_norm.weight"] == 1).all())


def test_seeds_tell_their_parts_apart():
    seeds = {seed_of(1, "a"), seed_of("1", "a"), seed_of(1, "a", 0), seed_of(11, "a"), seed_of("a", 1)}
    assert len(seeds) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(1, "masks", 200) == 1788921215378489524  # the same for ever: a checkpoint is continued by it


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
    with pytest.raises(ArtifactError, match="does not match the vocabulary"):
        init_embeddings(model, word_vectors(8, n=97), np.ones(97, dtype=bool), seed=1)
    broken[3, 3] = np.inf
    with pytest.raises(ArtifactError, match="not finite"):
        init_embeddings(model, broken, np.ones(96, dtype=bool), seed=1)


def begun_as_mean(vectors, found=None, dim=32):
    model = new_model(small_config("encoder", dim=dim), 0)
    found = np.ones(len(vectors), dtype=bool) if found is None else found
    return model, start_as_mean(model, vectors, found, seed=1)


def test_a_wider_model_that_begins_as_a_mean_keeps_the_angles():
    vectors = word_vectors(16)
    model, _ = begun_as_mean(vectors)
    got, want = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (model.embedding.detach().numpy(), vectors))
    np.testing.assert_allclose(got @ got.T, want @ want.T, atol=1e-5)


def test_tokens_without_a_vector_keep_their_embedding_and_weigh_as_the_average():
    vectors, found = word_vectors(16), np.arange(96) >= 10
    vectors[20] = 0
    vectors[:10] = np.nan  # not looked at
    model, lengths = begun_as_mean(vectors, found)
    before, here = new_model(small_config("encoder"), 0).embedding, [*range(10), 20]
    assert torch.equal(model.embedding[here], before[here])
    assert (lengths[here] == 1).all()
    assert abs(np.delete(lengths, here).mean() - 1) < 1e-5


def test_vectors_of_no_length_are_no_beginning():
    with pytest.raises(InputError, match="no token of the model has a word vector"):
        begun_as_mean(word_vectors(8), np.zeros(96, dtype=bool))
    with pytest.raises(InputError, match="no token of the model has a word vector"):
        begun_as_mean(np.zeros((96, 8), np.float32))
    for vectors, message in (
        (np.full((96, 8), np.nan, np.float32), "not finite"),
        (word_vectors(8, n=97), "does not match the vocabulary"),
    ):
        with pytest.raises(ArtifactError, match=message):
            begun_as_mean(vectors)
