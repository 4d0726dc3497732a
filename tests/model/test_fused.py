import copy

import pytest
import torch
from torch.nn import functional as F

from wordpipe import runtime
from wordpipe.model import STYLES, Dropout, Linear, ModelConfig, Norm, Rotary, attend, attends, gated, rotate
from wordpipe.runtime import torch_threads, usual_products

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(3, 3), (6, 2)])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_to_another_text_equals_its_plain_twin(dtype, n_heads, n_kv_heads, biased):
    shapes = (4, 7, n_heads, 8), (4, 11, 2 * n_kv_heads, 8), (1, n_heads, 7, 11)
    exact = [random(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)][: 2 + biased]
    rough = [x.detach().to(dtype).requires_grad_() for x in exact]
    q, (k, v) = exact[0], exact[1].chunk(2, dim=2)
    k, v = (x.repeat_interleave(n_heads // n_kv_heads, dim=2) for x in (k, v))
    scores_BHTS = torch.einsum("bthe,bshe->bhts", q, k) / 8**0.5 + (exact[2] if biased else 0.0)
    want = torch.einsum("bhts,bshe->bthe", scores_BHTS.softmax(dim=-1), v).flatten(2)

    def found(x):
        return attend(
            x[0], None, n_heads=n_heads, n_kv_heads=n_kv_heads, causal=False, keys_values_BSRE=x[1],
            bias=x[2] if biased else None,
        )  # fmt: skip

    got = found(rough)
    assert off(got, want) < TOLERANCE[dtype]
    with torch.inference_mode():
        assert off(found([x.detach() for x in rough]).clone(), want.detach()) < TOLERANCE[dtype]
    back = random(*want.shape, seed=9)
    want.backward(back)
    got.backward(back.to(dtype))
    for one, other in zip(rough, exact, strict=True):
        assert one.grad.dtype is dtype
        assert off(one.grad, other.grad) < 2 * TOLERANCE[dtype]


def test_a_bias_that_all_heads_share_gets_the_gradient_of_all():
    heads = random(2, 5, 6, 4)
    shared = random(1, 1, 5, 5, seed=1).requires_grad_()
    alone = shared.detach().expand(1, 2, 5, 5).clone().requires_grad_()
    for bias in (shared, alone):
        attend(heads, None, n_heads=2, n_kv_heads=2, causal=True, bias=bias).square().sum().backward()
    assert torch.allclose(shared.grad, alone.grad.sum(dim=1, keepdim=True))


def dropout(rate):
    return Dropout(rate).train()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_zeroes_its_share_and_keeps_the_mean(dtype):
    torch.manual_seed(3)
    ones = torch.ones(700, 301, dtype=dtype, requires_grad=True)
    dropped = dropout(0.25)(ones)
    kept = dropped != 0
    assert dropped.dtype is dtype
    assert float(kept.float().mean()) == pytest.approx(0.75, abs=0.004)
    for axis in (0, 1):  # no row and no column has more of them
        share = kept.float().mean(dim=axis)
        assert float((share - 0.75).abs().max()) < 5 * (0.25 * 0.75 / kept.shape[axis]) ** 0.5
    assert torch.allclose(dropped[kept].float(), torch.tensor(1 / 0.75), rtol=0.01)
    dropped.sum().backward()
    assert torch.equal(ones.grad, dropped.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sum_with_dropout_is_the_sum_of_both(dtype):
    x, y = random(40, 30).float().requires_grad_(), random(40, 30, seed=1).to(dtype).requires_grad_()
    torch.manual_seed(5)
    got = dropout(0.1).add(x, y)
    torch.manual_seed(5)
    want = x + dropout(0.1)(y.float())
    assert got.dtype is torch.float32
    assert torch.allclose(got, want, atol=1e-6)
    back = random(40, 30, seed=2).float()
    got.backward(back)
    assert torch.equal(x.grad, back)
    assert torch.allclose(y.grad.float(), ((got - x) / y.float() * back).detach(), rtol=0.02, atol=1e-3)
    torch.manual_seed(6)
    assert not torch.equal(dropout(0.1).add(x, y), got)


def test_nothing_is_dropped_without_training_or_without_a_rate():
    y = random(4, 5).float()
    for one in (Dropout(0.5).eval(), dropout(0.0)):
        assert torch.equal(one(y), y)
        assert torch.equal(one.add(y, y), y + y)


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


def test_a_trained_rms_norm_equals_its_plain_twin():
    style = {**STYLES["decoder", "modern"], "norm_eps": 1e-3}
    config = ModelConfig(
        architecture="decoder", vocab_size=8, dim=24, n_layers=1, n_heads=2, n_kv_heads=2, ffn_dim=8, max_len=8, **style
    )
    norm = Norm(config)
    exact, weight = random(3, 5, 24).requires_grad_(), random(24, seed=2).requires_grad_()
    norm.weight.data.copy_(weight.detach())
    rough = exact.detach().float().requires_grad_()
    want, got = weight * exact / (exact.square().mean(-1, keepdim=True) + 1e-3).sqrt(), norm(rough)
    assert off(got, want) < 1e-6
    with torch.no_grad():
        assert off(norm(rough), want) < 1e-6
    back = random(3, 5, 24, seed=1)
    want.backward(back)
    got.backward(back.float())
    assert off(rough.grad, exact.grad) < 1e-6
    assert off(norm.weight.grad, weight.grad) < 1e-6


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


@pytest.mark.parametrize("shape", [(64, 48, 80), (301, 256, 97)])
def test_products_are_float32_whoever_multiplies(shape):
    n, k, m = shape
    a, b = random(n, k), random(m, k, seed=1)
    before = torch.backends.mkldnn.matmul.fp32_precision
    with torch_threads(2):
        found = [
            a.float() @ b.float().T,
            F.linear(a.float(), b.float()),
            torch.bmm(a[None].float(), b.T[None].float())[0],
        ]
        with usual_products():
            found.append(a.float() @ b.float().T)
    assert torch.backends.mkldnn.matmul.fp32_precision == before
    for got in found:
        assert off(got, a @ b.T) < 1e-6


def test_where_products_would_be_rounded_they_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(runtime, "_multiplies_slowly", lambda: True)
    monkeypatch.setattr(runtime, "_is_exact", lambda: False)
    before = torch.backends.mkldnn.matmul.fp32_precision
    with torch_threads(1):
        assert torch.backends.mkldnn.matmul.fp32_precision == before


def test_weights_that_are_never_trained_are_read_in_the_order_of_onednn(monkeypatch):
    monkeypatch.setattr("wordpipe.model.layers.multiplies_by_onednn", lambda: True)
    model = Linear(24, 40, bias=True)
    with torch.no_grad():
        model.weight.copy_(random(40, 24).float())
        model.bias.copy_(random(40, seed=1).float())
    x = random(5, 30, 24, seed=2).float()
    for _ in range(2):  # while it may be trained, every change of a weight counts, whoever made it
        with torch.inference_mode():
            assert torch.equal(model(x), F.linear(x, model.weight, model.bias))
        with torch.no_grad():
            torch._foreach_mul_([model.weight.data], -2.0)
    frozen = copy.deepcopy(model).requires_grad_(False)
    for _ in range(2):
        assert off(frozen(x), F.linear(x, model.weight, model.bias).detach()) < 1e-6
    frozen.weight = torch.nn.Parameter(torch.zeros(40, 24), requires_grad=False)
    assert torch.equal(frozen(x), model.bias.detach().expand(5, 30, 40))
    assert model(x).requires_grad
