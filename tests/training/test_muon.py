import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.training import Muon, optimisers, orthogonalise

SHAPES = [(24, 24), (40, 16), (16, 40), (24, 24), (1, 8), (40, 16)]
SETTINGS = {"lr": 0.02, "weight_decay": 0.3, "momentum": 0.9}


def random(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weights_of(shapes, seed):
    return [random(*shape, seed=seed * 100 + i).requires_grad_() for i, shape in enumerate(shapes)]


def give_gradients(weights, step):
    for i, weight in enumerate(weights):
        weight.grad = random(*weight.shape, seed=10_000 + 100 * step + i) * 10.0 ** (step - 2)


def both(ours, theirs):
    return zip(ours, theirs, strict=True)


def twin(weights):
    return torch.optim.Muon(weights, **SETTINGS, nesterov=True, adjust_lr_fn="match_rms_adamw")


def ours(weights, others=(), betas=(0.9, 0.99)):
    return Muon([(weight, (len(weight),)) for weight in weights], others, **SETTINGS, betas=betas)


@pytest.fixture
def exact(monkeypatch):
    """Both compute in float32: torch's own has bfloat16 written into it."""
    monkeypatch.setattr(optimisers, "_product_dtype", lambda device: torch.float32)
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.float)


@pytest.mark.usefixtures("exact")
def test_steps_are_those_of_torchs_muon():
    mine, theirs = weights_of(SHAPES, 1), weights_of(SHAPES, 1)
    optimiser, reference = ours(mine), twin(theirs)
    for step in range(5):
        give_gradients(mine, step)
        give_gradients(theirs, step)
        optimiser.step()
        reference.step()
        for weight, expected in both(mine, theirs):
            torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-5)


def test_in_bfloat16_steps_point_where_torchs_do(monkeypatch):
    monkeypatch.setattr(optimisers, "_product_dtype", lambda device: torch.bfloat16)
    mine, theirs, before = (weights_of(SHAPES, 2) for _ in range(3))
    give_gradients(mine, 0)
    give_gradients(theirs, 0)
    ours(mine).step()
    twin(theirs).step()
    for weight, expected, was in zip(mine, theirs, before, strict=True):
        mine_moved, theirs_moved = (weight - was).detach(), (expected - was).detach()
        assert (mine_moved - theirs_moved).norm() < 0.03 * theirs_moved.norm()


def test_every_part_of_a_stack_is_a_matrix_of_its_own():
    stacked = random(24 + 8 + 8, 24, seed=3).requires_grad_()
    parts = [part.clone().requires_grad_() for part in stacked.detach().split([24, 8, 8])]
    together = Muon([(stacked, (24, 8, 8))], [], **SETTINGS, betas=(0.9, 0.99))
    apart = ours(parts)
    for step in range(3):
        stacked.grad = random(40, 24, seed=step)
        for part, gradient in zip(parts, stacked.grad.split([24, 8, 8]), strict=True):
            part.grad = gradient.clone()
        together.step()
        apart.step()
        torch.testing.assert_close(stacked, torch.cat(parts), rtol=1e-5, atol=1e-6)


def test_steps_have_the_size_of_adamws():
    weights = weights_of([(48, 48), (96, 32), (32, 96)], 4)
    before = copy.deepcopy(weights)
    give_gradients(weights, 4)
    Muon(
        [(weight, (len(weight),)) for weight in weights], [], lr=1.0, weight_decay=0.0, momentum=0.9, betas=(0, 0)
    ).step()
    for weight, was in both(weights, before):
        assert 0.15 < float((weight - was).detach().square().mean().sqrt()) < 0.25


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), n=st.integers(1, 3), seed=st.integers(0, 999))
def test_orthogonal_matrices_keep_the_singular_vectors(rows, columns, n, seed):
    x_NRC = random(n, rows, columns, seed=seed)
    made_NRC = orthogonalise(x_NRC * 10.0 ** (seed % 9 - 4))
    assert made_NRC.shape == x_NRC.shape
    assert made_NRC.is_contiguous()
    u, s, vt = torch.linalg.svd(x_NRC, full_matrices=False)
    inner = u.mT @ made_NRC @ vt.mT
    values = inner.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(inner, torch.diag_embed(values), rtol=0, atol=1e-4)
    torch.testing.assert_close(u @ inner @ vt, made_NRC, rtol=0, atol=1e-4)
    # within the quintic's band, but for what five rounds of at most 3.44 times cannot lift to it
    share = s / s.square().sum(dim=1, keepdim=True).sqrt()
    assert bool((values < 1.25).all())
    assert bool((values[share > 0.01] > 0.65).all())


@pytest.mark.parametrize("shape", [(64, 64), (32, 96), (96, 32)])
def test_in_bfloat16_they_are_orthogonal_too(shape):
    x_NRC = torch.linalg.qr(random(4, 96, 96, seed=5)).Q[:, : shape[0], : shape[1]].bfloat16()
    made = orthogonalise(x_NRC)
    assert made.dtype is torch.bfloat16
    values = torch.linalg.svdvals(made.float())
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.25


def test_a_gradient_of_zeros_moves_nothing():
    weight = random(6, 4, seed=6).requires_grad_()
    before = weight.detach().clone()
    weight.grad = torch.zeros_like(weight)
    Muon([(weight, (6,))], [], lr=0.1, weight_decay=0.0, momentum=0.9, betas=(0.9, 0.99)).step()
    assert torch.equal(weight, before)


def test_what_is_no_matrix_moves_by_adamw():
    shapes = [(7,), (30, 4), (2, 3, 4)]
    mine, theirs = weights_of(shapes, 7), weights_of(shapes, 7)
    optimiser = ours([], mine, betas=(0.8, 0.95))
    reference = torch.optim.AdamW(theirs, lr=SETTINGS["lr"], betas=(0.8, 0.95), weight_decay=0.0, fused=True)
    for step in range(4):
        give_gradients(mine, step)
        give_gradients(theirs, step)
        for group in (*optimiser.param_groups, *reference.param_groups):
            group["lr"] = 0.1 / (step + 1)
        optimiser.step()
        reference.step()
        assert all(torch.equal(weight, expected) for weight, expected in both(mine, theirs))


def test_the_learning_rate_of_the_moment_counts():
    weight = random(8, 8, seed=8).requires_grad_()
    before = weight.detach().clone()
    optimiser = ours([weight])
    give_gradients([weight], 0)
    for group in optimiser.param_groups:
        group["lr"] = 0.0
    optimiser.step()
    assert torch.equal(weight, before)


def test_weights_without_a_gradient_stay_and_are_not_remembered():
    matrices, others = weights_of([(8, 8), (8, 8)], 9), weights_of([(5,), (5,)], 10)
    before = copy.deepcopy((matrices, others))
    optimiser = ours(matrices, others)
    matrices[0].grad, others[0].grad = random(8, 8, seed=1), random(5, seed=2)
    optimiser.step()
    assert [not torch.equal(weight, was) for weight, was in both(matrices, before[0])] == [True, False]
    assert [not torch.equal(weight, was) for weight, was in both(others, before[1])] == [True, False]
    assert set(optimiser.state) == {matrices[0], others[0]}


def test_a_step_leaves_the_gradients_as_they_are():
    weights = weights_of(SHAPES, 11)
    give_gradients(weights, 2)
    before = [weight.grad.clone() for weight in weights]
    ours(weights).step()
    assert all(torch.equal(weight.grad, was) for weight, was in both(weights, before))


@pytest.mark.gpu
def test_on_a_gpu_steps_point_where_they_do_on_a_cpu():
    shapes = [(256, 256), (384, 256), (256, 384)] * 4
    slow, fast = weights_of(shapes, 12), [weight.detach().cuda().requires_grad_() for weight in weights_of(shapes, 12)]
    before = copy.deepcopy(slow)
    give_gradients(slow, 2)
    for weight, other in both(fast, slow):
        weight.grad = other.grad.cuda()
    ours(slow).step()
    optimiser = ours(fast)
    torch.cuda.set_sync_debug_mode("error")  # a step never waits for the device
    try:
        optimiser.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for weight, other, was in zip(fast, slow, before, strict=True):
        moved, expected = weight.detach().cpu() - was.detach(), (other - was).detach()
        assert (moved - expected).norm() < 0.03 * expected.norm()
