import pytest
import torch
from torch.nn import functional as F

from wordpipe.training import cross_entropy_sum


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def parts(n, vocab, dim, *, with_bias=True, dtype=torch.float32):
    """Hidden states, output matrix and bias; labels; weights, some of them 0."""
    shapes = [(n, dim), (vocab, dim)] + [(vocab,)] * with_bias
    leaves = [torch.randn(*shape, generator=generator(i), dtype=dtype) for i, shape in enumerate(shapes)]
    labels = torch.randint(0, vocab, (n,), generator=generator(7))
    return leaves, labels, torch.rand(n, generator=generator(8)).round()


def ours(leaves, labels, weights, smoothing=0.0):
    hidden, output, *bias = leaves
    return cross_entropy_sum(hidden, output, bias[0] if bias else None, labels, weights, smoothing)


def slow(leaves, labels, weights, smoothing=0.0):
    """Twin: torch's own, with all logits at once, in float64."""
    losses = F.cross_entropy(F.linear(*leaves), labels, reduction="none", label_smoothing=smoothing)
    return (losses * weights).sum()


def with_gradients(loss, leaves, labels, weights, smoothing, dtype, scale=0.3):
    leaves = [leaf.to(dtype, copy=True).requires_grad_() for leaf in leaves]
    total = loss(leaves, labels, weights, smoothing)
    (total * scale).backward()
    return total.detach(), [leaf.grad for leaf in leaves]


@pytest.mark.parametrize(("smoothing", "with_bias"), [(0.0, True), (0.1, False)])
@pytest.mark.parametrize(
    ("n", "vocab"), [(1, 5), (700, 4096), (1500, 4096), pytest.param(2, 2_200_000, marks=pytest.mark.slow)]
)
def test_in_chunks_equals_torch(n, vocab, smoothing, with_bias):
    given = parts(n, vocab, 2 if vocab > 1_000_000 else 12, with_bias=with_bias)
    got, got_gradients = with_gradients(ours, *given, smoothing, torch.float32)
    want, want_gradients = with_gradients(slow, *given, smoothing, torch.float64)
    assert float(got) == pytest.approx(float(want), rel=1e-5, abs=1e-4)
    tolerance = 1e-5 if vocab < 10_000 else 5e-3  # float32 sums of millions of terms, in torch as well as here
    for a, b in zip(got_gradients, want_gradients, strict=True):
        assert a.dtype is torch.float32
        assert float((a - b).norm()) <= tolerance * float(b.norm())
    with torch.no_grad():
        assert float(ours(*given, smoothing)) == pytest.approx(float(got), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_gradients_are_the_slopes(smoothing):
    """Finite differences, in float64, in random directions of everything at once."""
    leaves, labels, _ = parts(40, 30, 6, dtype=torch.float64)
    weights = torch.rand(40, generator=generator(9))
    _, gradients = with_gradients(ours, leaves, labels, weights, smoothing, torch.float64, scale=1.0)
    for seed in range(3):
        ways = [torch.randn(leaf.shape, generator=generator(seed), dtype=torch.float64) for leaf in leaves]
        ahead, behind = (
            float(ours([leaf + step * way for leaf, way in zip(leaves, ways, strict=True)], labels, weights, smoothing))
            for step in (1e-5, -1e-5)
        )
        slope = sum(float((gradient * way).sum()) for gradient, way in zip(gradients, ways, strict=True))
        assert (ahead - behind) / 2e-5 == pytest.approx(slope, rel=1e-7)


def test_smoothing_wants_no_certainty():
    """A model that gives the label everything pays for it; without smoothing it pays nothing."""
    hidden, output = torch.tensor([[30.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    label, weight = torch.tensor([0]), torch.ones(1)
    assert float(cross_entropy_sum(hidden, output, None, label, weight)) == pytest.approx(0.0, abs=1e-6)
    assert float(cross_entropy_sum(hidden, output, None, label, weight, 0.1)) == pytest.approx(0.1 * 2 / 3 * 30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_holds_where_softmax_underflows(dtype):
    hidden = torch.tensor([[200.0, 0.0]], requires_grad=True)
    output = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
        loss = cross_entropy_sum(hidden, output, None, torch.tensor([1]), torch.ones(1))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(200.0)
    assert hidden.grad.tolist() == [[1.0, -1.0]]


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_under_bfloat16_it_is_close_and_float32(smoothing):
    leaves, labels, weights = parts(1500, 5000, 64)  # two chunks and a bit
    leaves[1] *= 0.1
    want, want_gradients = with_gradients(slow, leaves, labels, weights, smoothing, torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, got_gradients = with_gradients(ours, leaves, labels, weights, smoothing, torch.float32)
        with torch.no_grad():
            checked = ours(leaves, labels, weights, smoothing)
    assert got.dtype is checked.dtype is torch.float32
    assert float(got) == pytest.approx(float(want), rel=3e-4)  # rounding of the labels' probabilities evens out
    assert float(checked) == pytest.approx(float(want), rel=3e-4)
    for rough, exact in zip(got_gradients, want_gradients, strict=True):
        assert rough.dtype is torch.float32
        assert float((exact - rough).norm() / exact.norm()) < 0.01


def test_a_loss_that_is_no_number_stays_one():
    leaves, labels, _ = parts(3, 5, 4)
    leaves[0][1, 2] = torch.nan
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            total, gradients = with_gradients(ours, leaves, labels, torch.ones(3), 0.0, torch.float32)
        assert bool(total.isnan())
        assert bool(gradients[1].isnan().any())


def test_its_gradient_can_be_had_once():
    leaves, labels, weights = parts(3, 5, 4)
    loss = ours([leaf.requires_grad_() for leaf in leaves], labels, weights)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only once"):
        loss.backward()
