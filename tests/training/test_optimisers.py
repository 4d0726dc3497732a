"""The optimisers: which weights each changes, Muon, clipping, and their state."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from tests.support.models import each_kind, kind_config, small_config
from wordpipe.errors import ArtifactError
from wordpipe.model import new_model
from wordpipe.training import (
    Masked,
    Muon,
    Rows,
    clip_gradients,
    load_optimiser,
    loss_sum,
    make_optimiser,
    optimiser_tensors,
    optimisers,
    orthogonalise,
)
from wordpipe.training.recipes import Causal

OPTIMISERS = ["muon", "adamw"]


def optimiser_of(model, kind, **changes):
    values = {"lr": 0.01, "weight_decay": 0.5, "beta1": 0.9, "beta2": 0.99, "momentum": 0.95}
    return make_optimiser(model, kind=kind, **(values | changes))


def targets_of(kind):
    """One step of eight sequences with very unequal numbers of targets."""
    ids_BT = torch.randint(7, 90, (8, 18), generator=torch.Generator().manual_seed(1))
    ids_BT[:3, 4:] = 3
    objective = Causal(bos_id=3)
    if kind == "mlm":
        objective = Masked(
            rate=0.5, unit="token", mask_share=0.8, random_share=0.1, mask_id=4, special_ids=(0, 1, 2, 3, 4),
            n_tokens=90, device=torch.device("cpu"),
        )  # fmt: skip
    return objective.targets(Rows(ids_BT, None), torch.Generator().manual_seed(2), 0.0)


def gradients_of(model):
    return {name: weight.grad for name, weight in model.named_parameters()}


def gradients(kind, micro_batch, clip=0.0):
    """Gradients of one step, computed `micro_batch` sequences at a time."""
    model = new_model(small_config("encoder" if kind == "mlm" else "decoder"), 0)
    targets = targets_of(kind)
    for first in range(0, 8, micro_batch):
        loss_sum(model, targets.rows(first, first + micro_batch)).backward()
    norm = clip_gradients(model.parameters(), targets.weights.sum(), clip)
    return gradients_of(model), norm


def give_gradients(model, seed, without=()):
    for i, (name, weight) in enumerate(model.named_parameters()):
        generator = torch.Generator().manual_seed(1000 * seed + i)
        weight.grad = None if name in without else torch.randn(weight.shape, generator=generator)


@pytest.mark.parametrize("kind", ["mlm", "clm"])
@pytest.mark.parametrize("micro_batch", [1, 2, 3, 4])
def test_gradients_do_not_depend_on_the_micro_batch(kind, micro_batch):
    whole, norm = gradients(kind, 8)
    parts, norm_of_parts = gradients(kind, micro_batch)
    torch.testing.assert_close(norm_of_parts, norm, rtol=1e-5, atol=1e-6)
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-4, atol=1e-6)


def test_gradients_are_those_of_the_mean_loss():
    summed, norm = gradients("clm", 8)
    model = new_model(small_config("decoder"), 0)
    ids_BT = torch.randint(7, 90, (8, 18), generator=torch.Generator().manual_seed(1))
    ids_BT[:3, 4:] = 3
    labels = ids_BT[:, 1:].clone()
    labels[labels == 3] = -100
    torch.nn.functional.cross_entropy(model(ids_BT[:, :-1]).flatten(0, 1), labels.flatten()).backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(summed[name], weight.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(norm, torch.nn.utils.get_total_norm([w.grad for w in model.parameters()]))


def test_clipping_shortens_long_gradients_and_leaves_short_ones():
    free, norm = gradients("clm", 4)
    cut, norm_before = gradients("clm", 4, clip=float(norm) / 2)
    same, _ = gradients("clm", 4, clip=float(norm) * 2)
    torch.testing.assert_close(norm_before, norm)
    for name in free:
        torch.testing.assert_close(cut[name], free[name] / 2, rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(same[name], free[name])


def test_a_scaled_loss_gives_the_same_gradients():
    """As in float16, where the loss is scaled before the backward pass; a power of two loses no bit."""
    free, norm = gradients("clm", 8, clip=0.01)
    model = new_model(small_config("decoder"), 0)
    targets = targets_of("clm")
    (loss_sum(model, targets) * 1024.0).backward()
    norm_of_scaled = clip_gradients(model.parameters(), targets.weights.sum() * 1024.0, 0.01)
    assert torch.equal(norm_of_scaled, norm)
    assert all(torch.equal(gradient, free[name]) for name, gradient in gradients_of(model).items())


def test_gradients_added_up_over_processes_are_those_of_one():
    whole, norm = gradients("mlm", 8, clip=0.01)
    targets = targets_of("mlm")
    models = [new_model(small_config("encoder"), 0) for _ in range(2)]
    for rank, model in enumerate(models):
        loss_sum(model, targets.rows(4 * rank, 4 * rank + 4)).backward()
    for weight, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        weight.grad += other.grad
    norm_of_sum = clip_gradients(models[0].parameters(), targets.weights.sum(), 0.01)
    torch.testing.assert_close(norm_of_sum, norm, rtol=1e-5, atol=1e-6)
    for name, gradient in gradients_of(models[0]).items():
        torch.testing.assert_close(gradient, whole[name], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_the_norm_tells_of_a_gradient_that_is_no_number(value):
    model = new_model(small_config("decoder"), 0)
    give_gradients(model, 0)
    model.blocks[1].attention.out.weight.grad[3, 5] = value
    assert not torch.isfinite(clip_gradients(model.parameters(), torch.tensor(7.0), 1.0))


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize("name", each_kind())
def test_every_weight_is_moved_and_only_matrices_decay(name, kind):
    model = new_model(kind_config(name), 0)
    optimiser = optimiser_of(model, kind)
    listed = [id(weight) for group in optimiser.param_groups for weight in group["params"]]
    assert sorted(listed) == sorted(id(weight) for weight in model.parameters())
    before = copy.deepcopy(dict(model.named_parameters()))
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    moved = {each for each, weight in model.named_parameters() if not torch.equal(weight, before[each])}
    matrices = {each for each in before if each.startswith(("blocks.", "head.")) and before[each].dim() == 2}
    assert moved == {
        each for each in matrices if not each.endswith(("score", "shorten", "log_decay", "frequency", "_bias"))
    }
    give_gradients(model, 1)
    before = copy.deepcopy(dict(model.named_parameters()))
    optimiser.step()
    assert not [each for each, weight in model.named_parameters() if torch.equal(weight, before[each])]


def test_muon_knows_what_is_stacked():
    config = small_config("decoder", n_kv_heads=2)
    model = new_model(config, 0)
    matrices = optimiser_of(model, "muon").param_groups[0]
    names = {id(weight): name for name, weight in model.named_parameters()}
    rows = {names[id(weight)]: rows for weight, rows in zip(matrices["params"], matrices["rows"], strict=True)}
    assert rows["blocks.1.attention.qkv.weight"] == (32, 16, 16)
    assert rows["blocks.1.feedforward.up.weight"] == (48, 48)
    assert rows["blocks.1.feedforward.down.weight"] == rows["blocks.1.attention.out.weight"] == (32,)
    classic = optimiser_of(new_model(small_config("encoder", "classic"), 0), "muon").param_groups[0]
    assert (48,) in classic["rows"]  # not gated: one matrix
    assert all(sum(rows) == len(weight) for weight, rows in zip(classic["params"], classic["rows"], strict=True))


def test_with_adamw_all_weights_move_by_it():
    mine, theirs = (new_model(small_config("encoder", "classic"), 0) for _ in range(2))
    optimiser = optimiser_of(mine, "adamw", weight_decay=0.0)
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, betas=(0.9, 0.99), weight_decay=0.0, fused=True)
    for seed in range(3):
        give_gradients(mine, seed)
        give_gradients(theirs, seed)
        optimiser.step()
        reference.step()
    for weight, expected in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(weight, expected)


def test_with_muon_what_is_no_matrix_moves_as_with_adamw_alone():
    mine, theirs = (new_model(small_config("encoder"), 0) for _ in range(2))
    optimisers = optimiser_of(mine, "muon"), optimiser_of(theirs, "adamw")
    for seed in range(3):
        for model, optimiser in zip((mine, theirs), optimisers, strict=True):
            give_gradients(model, seed)
            optimiser.step()
    same = {
        name
        for (name, weight), other in zip(mine.named_parameters(), theirs.parameters(), strict=True)
        if torch.equal(weight, other)
    }
    assert same == {name for name, weight in mine.named_parameters() if weight.dim() == 1 or name == "embedding"}


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_a_resumed_optimiser_goes_on_to_the_bit(kind):
    """Also where weights never had a gradient before the checkpoint, or never have one."""
    late, never = "blocks.0.attention.out.weight", ("blocks.1.feedforward.down.weight", "output_bias")
    model = new_model(small_config("encoder"), 0)
    optimiser = optimiser_of(model, kind)
    for seed in range(3):
        give_gradients(model, seed, without=(late, *never))
        optimiser.step()
    weights = copy.deepcopy(model.state_dict())
    data = save(optimiser_tensors(model, optimiser))
    resumed = new_model(small_config("encoder"), 1)
    resumed.load_state_dict(weights)
    fresh = optimiser_of(resumed, kind)
    tensors = load(data)
    load_optimiser(resumed, fresh, tensors)
    assert not [name for name in tensors if name.startswith((late, *never))]
    for seed in range(3, 6):
        for each, its_optimiser in ((model, optimiser), (resumed, fresh)):
            give_gradients(each, seed, without=never)
            its_optimiser.step()
    for name, weight in model.named_parameters():
        assert torch.equal(dict(resumed.named_parameters())[name], weight), name
    again, expected = optimiser_tensors(resumed, fresh), optimiser_tensors(model, optimiser)
    assert again.keys() == expected.keys()
    assert all(torch.equal(again[name], expected[name]) for name in expected)
    assert float(expected["embedding/step"]) == 6
    assert all(
        torch.equal(tensors[name], value) for name, value in load(data).items()
    )  # what was given is not written to


def test_the_state_of_another_optimiser_is_refused():
    model = new_model(small_config("decoder"), 0)
    muon, adamw = optimiser_of(model, "muon"), optimiser_of(model, "adamw")
    give_gradients(model, 0)
    muon.step()
    tensors = optimiser_tensors(model, muon)
    with pytest.raises(ArtifactError, match="another optimiser") as caught:
        load_optimiser(model, adamw, tensors)
    assert "blocks.0.attention.qkv.weight" in str(caught.value)
    assert not adamw.state
    with pytest.raises(ArtifactError, match="another model"):
        load_optimiser(model, optimiser_of(model, "muon"), {"blocks.9.attention.out.weight/momentum": torch.zeros(2)})


def test_the_optimiser_is_one_of_torchs():
    """So that what torch offers for optimisers, a loss scaler for float16 for one, can be used with it."""
    model = new_model(small_config("decoder"), 0)
    optimiser = optimiser_of(model, "muon")
    assert isinstance(optimiser, Muon)
    before = copy.deepcopy(model.state_dict())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for overflows in (True, False):
        scaler.scale(model(torch.tensor([[5, 8, 9]])).sum()).backward()
        if overflows:
            model.embedding.grad[0, 0] = float("inf")
        scaler.unscale_(optimiser)
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad(set_to_none=True)
        same = all(torch.equal(before[name], value) for name, value in model.state_dict().items())
        assert same is overflows


SHAPES = [(24, 24), (40, 16), (16, 40), (24, 24), (1, 8), (40, 16)]
SETTINGS = {"lr": 0.02, "weight_decay": 0.3, "momentum": 0.9}


def random(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weights_of(shapes, seed):
    return [random(*shape, seed=seed * 100 + i).requires_grad_() for i, shape in enumerate(shapes)]


def give_random_gradients(weights, step):
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
        give_random_gradients(mine, step)
        give_random_gradients(theirs, step)
        optimiser.step()
        reference.step()
        for weight, expected in both(mine, theirs):
            torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-5)


def test_in_bfloat16_steps_point_where_torchs_do(monkeypatch):
    monkeypatch.setattr(optimisers, "_product_dtype", lambda device: torch.bfloat16)
    mine, theirs, before = (weights_of(SHAPES, 2) for _ in range(3))
    give_random_gradients(mine, 0)
    give_random_gradients(theirs, 0)
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
    give_random_gradients(weights, 4)
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
        give_random_gradients(mine, step)
        give_random_gradients(theirs, step)
        for group in (*optimiser.param_groups, *reference.param_groups):
            group["lr"] = 0.1 / (step + 1)
        optimiser.step()
        reference.step()
        assert all(torch.equal(weight, expected) for weight, expected in both(mine, theirs))


def test_the_learning_rate_of_the_moment_counts():
    weight = random(8, 8, seed=8).requires_grad_()
    before = weight.detach().clone()
    optimiser = ours([weight])
    give_random_gradients([weight], 0)
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
    give_random_gradients(weights, 2)
    before = [weight.grad.clone() for weight in weights]
    ours(weights).step()
    assert all(torch.equal(weight.grad, was) for weight, was in both(weights, before))


@pytest.mark.gpu
def test_on_a_gpu_steps_point_where_they_do_on_a_cpu():
    shapes = [(256, 256), (384, 256), (256, 384)] * 4
    slow, fast = weights_of(shapes, 12), [weight.detach().cuda().requires_grad_() for weight in weights_of(shapes, 12)]
    before = copy.deepcopy(slow)
    give_random_gradients(slow, 2)
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
