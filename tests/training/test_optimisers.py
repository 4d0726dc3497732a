import copy

import pytest
import torch

from tests.model.shapes import small_config
from wordpipe.model.initialise import new_model
from wordpipe.training.objectives import Causal, Masked, loss_sum
from wordpipe.training.optimisers import clip_gradients, load_optimiser, make_optimiser, optimiser_tensors


def gradients(kind, micro_batch, clip=0.0):
    """Gradients of one step of eight sequences with very unequal numbers of targets, computed `micro_batch` at a time."""
    model = new_model(small_config("encoder" if kind == "mlm" else "decoder"), 0)
    ids_BT = torch.randint(7, 90, (8, 18), generator=torch.Generator().manual_seed(1))
    ids_BT[:3, 4:] = 3
    objective = Causal(bos_id=3)
    if kind == "mlm":
        objective = Masked(
            rate=0.5, mask_share=0.8, random_share=0.1, mask_id=4, special_ids=(0, 1, 2, 3, 4), n_tokens=90,
            device=torch.device("cpu"),
        )  # fmt: skip
    targets = objective.targets(ids_BT, torch.Generator().manual_seed(2))
    for first in range(0, 8, micro_batch):
        loss_sum(model, targets.rows(first, first + micro_batch)).backward()
    norm = clip_gradients(model.parameters(), targets.weights.sum(), clip)
    return {name: weight.grad for name, weight in model.named_parameters()}, norm


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


def test_only_matrices_of_blocks_and_head_decay():
    model = new_model(small_config("encoder"), 0)
    optimiser = make_optimiser(model, lr=0.1, weight_decay=0.5, beta1=0.9, beta2=0.99)
    before = copy.deepcopy(dict(model.named_parameters()))
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert moved == {name for name, weight in before.items() if weight.dim() == 2 and name != "embedding"}


def test_the_optimisers_memory_comes_back():
    model = new_model(small_config("decoder"), 0)
    arguments = {"lr": 0.1, "weight_decay": 0.5, "beta1": 0.9, "beta2": 0.99}
    optimiser = make_optimiser(model, **arguments)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=generator)
        optimiser.step()
    tensors = {name: value.clone() for name, value in optimiser_tensors(model, optimiser).items()}
    fresh = make_optimiser(model, **arguments)
    load_optimiser(model, fresh, tensors)
    again = optimiser_tensors(model, fresh)
    assert tensors.keys() == again.keys()
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)
    assert float(tensors["embedding/step"]) == 3
    assert [group["weight_decay"] for group in fresh.param_groups] == [0.5, 0.0]
