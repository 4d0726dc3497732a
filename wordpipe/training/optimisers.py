"""The optimiser and the clipping of gradients."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from wordpipe.model.language_model import LanguageModel

__all__ = ["clip_gradients", "load_optimiser", "make_optimiser", "optimiser_tensors"]


def make_optimiser(
    model: LanguageModel, *, lr: float, weight_decay: float, beta1: float, beta2: float
) -> torch.optim.AdamW:
    """AdamW, with weight decay on the matrices of the blocks and the head only.

    Norms and biases are scales and offsets, not weights. The embedding table is spared as well: a rare token's row gets a
    gradient only now and then, and would be shrunk towards nothing in between.

    Source: Loshchilov & Hutter 2019, algorithm 2.
    """
    decayed: list[Tensor] = []
    spared: list[Tensor] = []
    for name, weight in model.named_parameters():
        (decayed if weight.dim() > 1 and name not in ("embedding", "output") else spared).append(weight)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]
    # fused: one pass over the weights instead of a dozen
    return torch.optim.AdamW(groups, lr=lr, betas=(beta1, beta2), eps=1e-8, fused=True)


@torch.no_grad()
def clip_gradients(weights: Iterable[Tensor], n_targets: Tensor, largest: float) -> Tensor:
    """Turn the gradients of a summed loss into those of the mean loss, no longer than `largest`.

    Args:
        weights: parameters that hold the gradients of a whole step.
        n_targets: how many targets the loss was summed over, a scalar on their device.
        largest: the longest gradient allowed, 0 = any.

    Returns:
        The length of the mean loss's gradient before it was cut, a scalar on the device: nothing waits for it.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients) / n_targets
    factor = 1.0 / n_targets
    if largest > 0.0:
        factor = factor * (largest / norm).clamp_max(1.0)
    torch._foreach_mul_(gradients, factor)
    return norm


def optimiser_tensors(model: LanguageModel, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Everything the optimiser remembers, on the CPU, named `WEIGHT/KEY`."""
    return {
        f"{name}/{key}": value.detach().cpu()
        for name, weight in model.named_parameters()
        for key, value in optimiser.state[weight].items()
    }


def load_optimiser(model: LanguageModel, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give the optimiser back what `optimiser_tensors` gave."""
    by_weight: dict[str, dict[str, Tensor]] = {}
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition("/")
        by_weight.setdefault(name, {})[key] = value
    names = {id(weight): name for name, weight in model.named_parameters()}
    in_order = [names[id(weight)] for group in optimiser.param_groups for weight in group["params"]]
    state = optimiser.state_dict()
    state["state"] = {place: by_weight[name] for place, name in enumerate(in_order)}
    optimiser.load_state_dict(state)
