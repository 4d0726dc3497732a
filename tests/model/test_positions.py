"""Rotary angles and distance biases by their properties; their equations are in the slow twin."""

import pytest
import torch

from wordpipe.model import N_BUCKETS, Rotary, alibi_slopes, rotate, sinusoidal_table, t5_buckets


def angles(head_dim, n):
    return Rotary(head_dim=head_dim, max_len=n, theta=10_000.0)(0, n)


def test_rotation_keeps_lengths_and_depends_on_distance_only():
    generator = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, 16, generator=generator)
    turned_q, turned_k = (rotate(x.expand(1, 40, 1, 16), *angles(16, 40))[0, :, 0] for x in (q, k))
    torch.testing.assert_close(turned_q.norm(dim=1), q.norm().expand(40))
    for distance in (0, 1, 9):
        products = (turned_q[distance:] * turned_k[: 40 - distance]).sum(dim=1)
        torch.testing.assert_close(products, products[0].expand_as(products), atol=1e-5, rtol=1e-5)


def test_rotation_is_computed_in_float32():
    x = torch.ones(1, 4096, 1, 8)
    exact, rounded = rotate(x, *angles(8, 4096)), rotate(x.bfloat16(), *angles(8, 4096))
    assert rounded.dtype is torch.bfloat16
    assert (rounded.float() - exact).abs().max() < 0.01


def test_positions_beyond_the_prepared_ones_are_added():
    short, long = (Rotary(head_dim=8, max_len=n, theta=10_000.0) for n in (4, 32))
    for a, b in zip(short(5, 32), long(5, 32), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.landing
@pytest.mark.parametrize("causal", [False, True])
def test_buckets_are_those_of_t5(causal):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance_TS = torch.arange(300) - torch.arange(300)[:, None]
    want = T5Attention._relative_position_bucket(distance_TS, not causal, num_buckets=N_BUCKETS, max_distance=128)
    assert torch.equal(t5_buckets(distance_TS, causal=causal), want)


@pytest.mark.parametrize("n_heads", [1, 2, 3, 6, 8, 12, 16])
def test_slopes_fall_from_head_to_head_and_are_different(n_heads):
    slopes = alibi_slopes(n_heads)
    assert len(set(slopes.tolist())) == n_heads
    assert float(slopes.max()) < 1
    assert float(slopes.min()) >= 2**-8
    assert float(alibi_slopes(8)[0]) == 0.5  # as the paper says of 8 heads


def test_sines_tell_all_positions_apart_and_are_as_large_as_embeddings():
    table_TD = sinusoidal_table(512, 64)
    assert float(torch.cdist(table_TD, table_TD).fill_diagonal_(1.0).min()) > 1e-3
    assert float(table_TD.square().mean().sqrt()) == pytest.approx(0.02, rel=1e-4)
    assert sinusoidal_table(4, 7).shape == (4, 7)
