import pytest
import torch
from torch.nn import functional as F

from wordpipe.model import Rotary, attend, attends, gated, rotate

TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 0.01}


def generator(seed):
    return torch.Generator().manual_seed(seed)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def off(got, want):
    """How far, as a share of the length."""
    return float(((got - want).norm() / want.norm()).detach())


def plain_attention(heads_BTRE, angles, n_heads, n_kv_heads, causal):
    """Twin: the textbook's operations one after the other."""
    T, E = heads_BTRE.shape[1], heads_BTRE.shape[3]
    q, k, v = torch.split(heads_BTRE, [n_heads, n_kv_heads, n_kv_heads], dim=2)
    if angles is not None:
        q, k = (x * angles[0][:, None] + x.roll(E // 2, -1) * angles[1][:, None] for x in (q, k))
    k, v = (x.repeat_interleave(n_heads // n_kv_heads, dim=2) for x in (k, v))
    scores_BHTT = torch.einsum("bthe,bshe->bhts", q, k) / E**0.5
    if causal:
        scores_BHTT = scores_BHTT.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
    return torch.einsum("bhts,bshe->bthe", scores_BHTT.softmax(dim=-1), v).flatten(2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(3, 3), (6, 2)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_attention_equals_its_plain_twin(dtype, n_heads, n_kv_heads, causal, turned):
    angles = Rotary(head_dim=8, max_len=11, theta=100.0)(0, 11) if turned else None
    exact = random(4, 11, n_heads + 2 * n_kv_heads, 8).requires_grad_()
    rough = exact.detach().to(dtype).requires_grad_()
    want = plain_attention(exact, angles, n_heads, n_kv_heads, causal)
    got = attend(rough, angles, n_heads=n_heads, n_kv_heads=n_kv_heads, causal=causal)
    assert got.dtype is dtype
    assert off(got, want) < TOLERANCE[dtype]
    with torch.inference_mode():  # another way, as no gradient can come
        alone = attend(rough.detach(), angles, n_heads=n_heads, n_kv_heads=n_kv_heads, causal=causal)
    assert off(alone.clone(), want.detach()) < TOLERANCE[dtype]
    back = random(*want.shape, seed=1)
    want.backward(back)
    got.backward(back.to(dtype))
    assert off(rough.grad, exact.grad) < TOLERANCE[dtype]


def test_attention_looks_only_back_where_it_is_causal():
    heads = random(1, 6, 3, 4).float()
    changed = heads.clone()
    changed[:, 4:] += 1.0
    one, other = (attend(x, None, n_heads=1, n_kv_heads=1, causal=True) for x in (heads, changed))
    assert torch.equal(one[:, :4], other[:, :4])
    assert not torch.equal(one[:, 4:], other[:, 4:])


def test_gradients_are_the_slopes():
    def loss(heads):
        return attend(heads, None, n_heads=2, n_kv_heads=1, causal=True), gated(heads, F.gelu), gated(heads, F.silu)

    assert torch.autograd.gradcheck(loss, random(2, 3, 4, 2).requires_grad_())


def test_attention_is_left_to_torch_where_it_would_hold_too_many_scores():
    assert attends(torch.empty(1, 128, 6, 64))
    assert not attends(torch.empty(1, 1024, 6, 64))
    assert not attends(torch.empty(1, 128, 6, 64, device="meta"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("act", [F.gelu, F.silu])
def test_gating_equals_its_plain_twin(dtype, act):
    exact = random(3, 5, 14).requires_grad_()
    rough = exact.detach().to(dtype).requires_grad_()
    want, got = act(exact[..., :7]) * exact[..., 7:], gated(rough, act)
    assert off(got, want) < TOLERANCE[dtype]
    back = random(3, 5, 7, seed=1)
    want.backward(back)
    got.backward(back.to(dtype))
    assert off(rough.grad, exact.grad) < TOLERANCE[dtype]


def test_the_same_bytes_every_time():
    angles = Rotary(head_dim=32, max_len=40, theta=100.0)(0, 40)
    heads = random(8, 40, 12, 32).float().requires_grad_()
    results = []
    for _ in range(2):
        attend(heads, angles, n_heads=4, n_kv_heads=4, causal=False).square().sum().backward()
        results.append(heads.grad)
        heads.grad = None
    assert torch.equal(*results)


def test_it_agrees_with_the_way_of_the_gpu():
    """`rotate` and torch's kernel: what runs where this file's functions do not."""
    angles = Rotary(head_dim=8, max_len=11, theta=100.0)(0, 11)
    heads = random(4, 11, 9, 8).float()
    q, k, v = torch.split(heads, 3, dim=2)
    q, k, v = (x.transpose(1, 2) for x in (rotate(q, *angles), rotate(k, *angles), v))
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    assert off(attend(heads, angles, n_heads=3, n_kv_heads=3, causal=True), want) < 1e-6
