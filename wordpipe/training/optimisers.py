"""Which optimiser moves which weight; the clipping of gradients; what an optimiser remembers, out of it and back.

                                                 muon     adamw    decays
matrices of the blocks and of the head           Muon     AdamW    yes
tables (tokens, positions, segments, output),    AdamW    AdamW    no
norms, biases, additive scores
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from wordpipe.errors import ArtifactError
from wordpipe.model.config import ModelConfig
from wordpipe.model.language_model import LanguageModel
from wordpipe.training.muon import Muon

__all__ = ["clip_gradients", "load_optimiser", "make_optimiser", "optimiser_tensors"]


def make_optimiser(
    model: LanguageModel,
    *,
    kind: Literal["muon", "adamw"],
    lr: float,
    weight_decay: float,
    beta1: float,
    beta2: float,
    momentum: float,
) -> torch.optim.Optimizer:
    """An optimiser over all weights, with decay on the matrices of the blocks and the head only.

    Norms and biases are scales and offsets, not weights. The tables are spared as well: a rare token's row gets a gradient
    only now and then, and would be shrunk towards nothing in between. Nor are they for Muon: their rows are looked up one
    by one, not multiplied as a whole, so there is no spectrum to even out.

    Source: Loshchilov & Hutter 2019, algorithm 2 (AdamW); muon.py.

    Args:
        model: on the device where it is trained.
        kind: `muon`, with AdamW for what is no matrix, or `adamw` for all.
        lr: learning rate; set anew in `param_groups` before each step.
        weight_decay: share of a matrix taken away per step and learning rate.
        beta1: AdamW's memory of gradients.
        beta2: AdamW's memory of squared gradients.
        momentum: Muon's memory of gradients.
    """
    matrices: list[tuple[Tensor, tuple[int, ...]]] = []
    others: list[Tensor] = []
    for name, weight in model.named_parameters():
        # norms and biases have one axis; `blocks.i.attention.score` has two, but is one vector per head
        if weight.dim() == 2 and name.startswith(("blocks.", "head.")) and name.endswith(".weight"):
            matrices.append((weight, _rows(name, weight, model.config)))
        else:
            others.append(weight)
    if kind == "muon":
        return Muon(matrices, others, lr=lr, weight_decay=weight_decay, momentum=momentum, betas=(beta1, beta2))
    decayed = {"params": [weight for weight, _ in matrices], "weight_decay": weight_decay}
    # fused: one pass over the weights instead of a dozen
    return torch.optim.AdamW(
        [decayed, {"params": others, "weight_decay": 0.0}], lr=lr, betas=(beta1, beta2), eps=1e-8, fused=True
    )


def _rows(name: str, weight: Tensor, config: ModelConfig) -> tuple[int, ...]:
    """Rows of the maps that a matrix stacks: queries, keys and values; the two halves of a gated feed-forward.

    They are stacked for speed alone. Orthogonalised as one they would share a single spectrum, and a part with small
    gradients (the queries and keys, at first) would hardly move. Jordan et al. 2024 found apart better for queries, keys
    and values; for the halves of a feed-forward it follows the same reasoning.
    """
    if name.endswith("attention.qkv.weight"):
        queries, shared = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
        return queries, shared, shared
    if name.endswith("feedforward.up.weight") and config.gated:
        return config.ffn_dim, config.ffn_dim
    return (weight.shape[0],)


@torch.no_grad()
def clip_gradients(weights: Iterable[Tensor], divisor: Tensor, largest: float) -> Tensor:
    """Turn the gradients of a summed loss into those of the mean loss, no longer than `largest`.

    To be called once a step, when the gradients of all its parts, and of all processes, are added up.

    Args:
        weights: parameters that hold the gradients of a whole step.
        divisor: what makes a mean of them, a scalar on their device: the number of targets that the loss was summed over;
            where the loss was scaled, that times the scale.
        largest: the longest gradient allowed, 0 = any.

    Returns:
        The length of the mean loss's gradient before it was cut, a scalar on the device: nothing waits for it. It is not
        finite where any gradient is not; the gradients are of no use then.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients) / divisor
    factor = 1.0 / divisor
    if largest > 0.0:
        factor = factor * (largest / norm).clamp_max(1.0)
    torch._foreach_mul_(gradients, factor)
    return norm


def optimiser_tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Everything the optimiser remembers, on the CPU, named `WEIGHT/KEY`; nothing of a weight that never had a gradient."""
    return {
        f"{name}/{key}": value.detach().cpu()
        for name, weight in model.named_parameters()
        for key, value in optimiser.state.get(weight, {}).items()
    }


def load_optimiser(model: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give a fresh optimiser back what `optimiser_tensors` gave.

    Raises:
        ArtifactError: it was another optimiser's, or another model's.
    """
    by_weight: dict[str, dict[str, Tensor]] = {}
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition("/")
        by_weight.setdefault(name, {})[key] = value
    weights = dict(model.named_parameters())
    keys = {id(weight): _keys(group) for group in optimiser.param_groups for weight in group["params"]}
    for name, remembered in by_weight.items():
        expected = keys[id(weights[name])] if name in weights else set()
        if remembered.keys() != expected:
            raise ArtifactError(
                "the state is of another optimiser or another model",
                where=name,
                got=", ".join(sorted(remembered)),
                expected=", ".join(sorted(expected)) or "nothing",
                hint="train with the optimiser and the sizes that the state was saved with, or begin anew with --fresh",
            )
    for name, remembered in by_weight.items():
        weight = weights[name]
        # a copy: the optimiser writes into it, and the given tensors may be read from elsewhere
        optimiser.state[weight] = {key: value.to(weight.device, copy=True) for key, value in remembered.items()}


def _keys(group: Mapping[str, Any]) -> set[str]:
    """What is remembered of the weights of a group."""
    return {"momentum"} if "momentum" in group else {"step", "exp_avg", "exp_avg_sq"}
