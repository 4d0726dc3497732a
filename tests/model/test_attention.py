"""Attention, rotary positions and norms against a slow twin in numpy that loops over heads and positions."""

import math

import numpy as np
import pytest
import torch

from tests.model.shapes import small_config
from wordpipe.model.attention import Attention, attention_mask
from wordpipe.model.initialise import new_model
from wordpipe.model.positions import Rotary, rotate


def turn(vector, position, theta):
    """RoFormer's rotation, pair by pair: (i, i + E/2) turn by position / theta^(2i/E)."""
    half = len(vector) // 2
    out = np.empty_like(vector)
    for i in range(half):
        angle = position / theta ** (2 * i / len(vector))
        out[i] = vector[i] * np.cos(angle) - vector[half + i] * np.sin(angle)
        out[half + i] = vector[i] * np.sin(angle) + vector[half + i] * np.cos(angle)
    return out


def slow_attention(x_TD, qkv, out, n_heads, n_kv_heads, seen_TT, theta):
    T, E = len(x_TD), qkv.shape[1] // n_heads
    projected = x_TD @ qkv.T
    gathered = np.zeros((T, n_heads * E))
    for head in range(n_heads):
        kv = head // (n_heads // n_kv_heads)
        k_at, v_at = (n_heads + kv) * E, (n_heads + n_kv_heads + kv) * E
        for t in range(T):
            q = turn(projected[t, head * E : (head + 1) * E], t, theta)
            keys = [s for s in range(T) if seen_TT[t, s]]
            scores = np.array([q @ turn(projected[s, k_at : k_at + E], s, theta) for s in keys]) / np.sqrt(E)
            weights = np.exp(scores - scores.max())
            weights /= weights.sum()
            gathered[t, head * E : (head + 1) * E] = sum(
                w * projected[s, v_at : v_at + E] for w, s in zip(weights, keys, strict=True)
            )
    return gathered @ out.T


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("architecture", "n_kv_heads"), [("encoder", 4), ("decoder", 4), ("decoder", 2), ("decoder", 1)]
)
@pytest.mark.parametrize("padded", [False, True])
def test_attention_equals_the_slow_twin(architecture, n_kv_heads, padded, seed):
    config = small_config(architecture, n_kv_heads=n_kv_heads, rope_theta=100.0)
    attention = Attention(config)
    generator = torch.Generator().manual_seed(seed)
    for weight in attention.parameters():
        torch.nn.init.normal_(weight, std=0.3, generator=generator)
    x_BTD = torch.randn(2, 7, config.dim, generator=generator)
    mask_BT = torch.ones(2, 7, dtype=torch.bool)
    if padded:
        mask_BT[1, 4:] = False
    angles = Rotary(head_dim=config.head_dim, max_len=24, theta=100.0)(7)
    mask = attention_mask(mask_BT if padded else None, causal=config.causal)
    got = attention(x_BTD, angles, mask).detach().double().numpy()
    order = np.tri(7, dtype=bool) if config.causal else np.ones((7, 7), dtype=bool)
    qkv, out = attention.qkv.weight.detach().double().numpy(), attention.out.weight.detach().double().numpy()
    for b in range(2):
        real = mask_BT[b].numpy()
        seen = order & real
        want = slow_attention(x_BTD[b].double().numpy()[: real.sum()], qkv, out, 4, n_kv_heads, seen, 100.0)
        np.testing.assert_allclose(got[b][real], want, atol=1e-5)


def test_rotation_keeps_lengths_and_depends_on_distance_only():
    generator = torch.Generator().manual_seed(3)
    cos, sin = Rotary(head_dim=16, max_len=40, theta=10_000.0)(40)
    q, k = torch.randn(2, 16, generator=generator)
    turned_q, turned_k = (rotate(x.expand(1, 40, 1, 16), cos, sin)[0, :, 0] for x in (q, k))
    torch.testing.assert_close(turned_q.norm(dim=1), q.norm().expand(40))
    for distance in (0, 1, 9):
        products = (turned_q[distance:] * turned_k[: 40 - distance]).sum(dim=1)
        torch.testing.assert_close(products, products[0].expand_as(products), atol=1e-5, rtol=1e-5)


def test_rotation_is_computed_in_float32():
    rotary = Rotary(head_dim=8, max_len=4096, theta=10_000.0)
    x = torch.ones(1, 4096, 1, 8)
    exact = rotate(x, *rotary(4096))
    assert rotate(x.bfloat16(), *rotary(4096)).dtype is torch.bfloat16
    assert (rotate(x.bfloat16(), *rotary(4096)).float() - exact).abs().max() < 0.01


def test_positions_beyond_the_prepared_ones_are_added():
    short, long = (Rotary(head_dim=8, max_len=n, theta=10_000.0) for n in (4, 32))
    for a, b in zip(short(32), long(32), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_padding_changes_nothing_for_real_tokens(architecture):
    model = new_model(small_config(architecture), 0).eval()
    ids_BT = torch.randint(7, 96, (3, 10), generator=torch.Generator().manual_seed(0))
    mask_BT = torch.zeros(3, 15, dtype=torch.long)
    mask_BT[:, :10] = 1
    padded_BT = torch.nn.functional.pad(ids_BT, (0, 5), value=0)
    with torch.no_grad():
        torch.testing.assert_close(model.encode(padded_BT, mask_BT)[:, :10], model.encode(ids_BT), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_a_row_of_padding_alone_is_finite_forwards_and_backwards(architecture):
    model = new_model(small_config(architecture), 0)
    ids_BT, mask_BT = torch.zeros(2, 6, dtype=torch.long), torch.tensor([[1] * 6, [0] * 6])
    hidden = model.encode(ids_BT, mask_BT)
    hidden.sum().backward()
    assert torch.isfinite(hidden).all()
    assert all(torch.isfinite(w.grad).all() for w in model.parameters() if w.grad is not None)


def test_a_decoder_does_not_see_ahead_and_an_encoder_does():
    for architecture, sees in (("decoder", False), ("encoder", True)):
        model = new_model(small_config(architecture), 0).eval()
        ids_BT = torch.randint(7, 96, (1, 12), generator=torch.Generator().manual_seed(1))
        changed_BT = ids_BT.clone()
        changed_BT[0, 8] = (ids_BT[0, 8] + 1 - 7) % 89 + 7
        with torch.no_grad():
            difference = (model(ids_BT) - model(changed_BT))[0, :8].abs().max()
        assert (difference > 0) == sees


def slow_layer(x, weight, kind, eps):
    if kind == "layer":
        x = x - x.mean(-1, keepdims=True)
    return weight * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_the_whole_model_equals_the_slow_twin(architecture):
    """One pass of every part in numpy: embedding, norms, attention, gated feed-forward, head."""
    config = small_config(architecture, n_layers=2)
    model = new_model(config, 4).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:  # norms at 1 and biases at 0 would hide a missing one
                torch.nn.init.normal_(weight, 0.0 if "bias" in name else 1.0, 0.2)
    weights = {name: weight.detach().double().numpy() for name, weight in model.named_parameters()}
    ids = np.array([2, 50, 60, 70, 51, 3])
    gelu = np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)
    activate = gelu if architecture == "encoder" else lambda x: x / (1 + np.exp(-x))

    def norm(x, name):
        return slow_layer(x, weights[f"{name}.weight"], config.norm, config.norm_eps)

    x = weights["embedding"][ids]
    if architecture == "encoder":
        x = norm(x, "embedding_norm")
    seen = np.tri(6, dtype=bool) if config.causal else np.ones((6, 6), dtype=bool)
    for i in range(2):
        block = f"blocks.{i}"
        normed = x if architecture == "encoder" and i == 0 else norm(x, f"{block}.attention_norm")
        qkv, out = weights[f"{block}.attention.qkv.weight"], weights[f"{block}.attention.out.weight"]
        x = x + slow_attention(normed, qkv, out, 4, 4, seen, config.rope_theta)
        both = norm(x, f"{block}.feedforward_norm") @ weights[f"{block}.feedforward.gate_up.weight"].T
        gated = activate(both[:, : config.ffn_dim]) * both[:, config.ffn_dim :]
        x = x + gated @ weights[f"{block}.feedforward.down.weight"].T
    hidden = norm(x, "final_norm")
    features = hidden
    if architecture == "encoder":
        features = norm(gelu(hidden @ weights["head.dense.weight"].T), "head.norm")
    logits = features @ weights["embedding"].T + (weights["output_bias"] if architecture == "encoder" else 0.0)
    with torch.no_grad():
        got_hidden, got_logits = model.encode(torch.from_numpy(ids)[None]), model(torch.from_numpy(ids)[None])
    np.testing.assert_allclose(got_hidden[0].numpy(), hidden, atol=2e-5)
    np.testing.assert_allclose(got_logits[0].numpy(), logits, atol=2e-5)
