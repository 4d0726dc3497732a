"""The optimisers: which one moves which weight; the clipping of gradients; what they remember, out of them and back.

                                                 muon     adamw    decays
matrices of the blocks and of the head           Muon     AdamW    yes
tables (tokens, positions, segments, output),    AdamW    AdamW    no
norms, biases, additive scores, what a Linformer
shortens by, state spaces

Muon: every matrix moves by an orthogonal step, however uneven its gradient is; AdamW moves what is no matrix.

    M ← μ M + (1 - μ) G                    momentum
    U ← μ M + (1 - μ) G                    Nesterov's look ahead
    O ← orthogonalise(U)                   the singular values become about 1
    W ← W - lr (λ W + 0.2 sqrt(max(R, C)) O)

An orthogonal matrix of R x C has the root mean square 1 / sqrt(max(R, C)); the factor brings it to 0.2, which is what
AdamW's steps have, so that one learning rate serves both.

`torch.optim.Muon` takes one matrix after the other. Here those of one shape are stacked and go through the products
together, which leaves fewer and larger ones to share out among threads or a GPU's units: 29 matrices of 4 layers of width
256, CPU time of two threads on a busy machine 53 → 42 ms a step (AdamW for all weights: 9).

Source: Jordan et al. 2024 (Muon: an optimizer for hidden layers in neural networks); Liu et al. 2025 (Muon is scalable
for LLM training), equation 4 (0.2 and the weight decay).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from wordpipe.errors import ArtifactError
from wordpipe.model import ModelConfig

if TYPE_CHECKING:
    from wordpipe.model import Transformer
from wordpipe.training.execution import resolve_dtype

_STACKS = ("encoder", "decoder", "discriminator", "generator")


def make_optimiser(
    model: "Transformer", *, kind: Literal["muon", "adamw"], lr: float, weight_decay: float, beta1: float,
    beta2: float, momentum: float,
) -> torch.optim.Optimizer:  # fmt: skip
    """Return an optimiser over all weights, with decay on the matrices of the blocks and the head only.

    Norms and biases are scales and offsets, not weights. The tables are spared as well: a rare token's row gets a gradient
    only now and then, and would be shrunk towards nothing in between. Nor are they for Muon: their rows are looked up one
    by one, not multiplied as a whole, so there is no spectrum to even out.

    Source: Loshchilov & Hutter 2019, algorithm 2 (AdamW); Muon as above.

    Args:
        model: on the device where it is trained.
        kind: `muon`, with AdamW for what is no matrix, or `adamw` for all.
        lr: learning rate; set anew in `param_groups` before each step.
        weight_decay: share of a matrix taken away per step and learning rate.
        beta1: AdamW's memory of gradients.
        beta2: AdamW's memory of squared gradients.
        momentum: Muon's memory of gradients.
    """
    # which weights are matrices of the blocks or the head
    matrices: list[tuple[Tensor, tuple[int, ...]]] = []
    others: list[Tensor] = []
    for name, weight in model.named_parameters():
        # norms and biases have one axis; `blocks.i.attention.score` has two, but is one vector per head
        stack, _, inside = name.partition(".")
        own = inside if stack in _STACKS else name
        config = getattr(model, stack).config if stack in _STACKS else model.config
        if (
            weight.dim() == 2
            and own.startswith(("blocks.", "head.", "replaced_head.dense"))
            and name.endswith(".weight")
        ):
            matrices.append((weight, _rows(name, weight, config)))
        else:
            others.append(weight)
    # the optimiser over both kinds
    if kind == "muon":
        return Muon(matrices, others, lr=lr, weight_decay=weight_decay, momentum=momentum, betas=(beta1, beta2))
    decayed = {"params": [weight for weight, _ in matrices], "weight_decay": weight_decay}
    # fused: one pass over the weights instead of a dozen
    return torch.optim.AdamW(
        [decayed, {"params": others, "weight_decay": 0.0}], lr=lr, betas=(beta1, beta2), eps=1e-8, fused=True
    )


def _rows(name: str, weight: Tensor, config: ModelConfig) -> tuple[int, ...]:
    """Return the rows of the maps that a matrix stacks (queries, keys, values; gated halves), for the optimiser Muon.

    They are stacked for speed alone. Orthogonalised as one they would share a single spectrum, and a part with small
    gradients (the queries and keys, at first) would hardly move. Jordan et al. 2024 found apart better for queries, keys
    and values; for the halves of a feed-forward it follows the same reasoning.
    """
    if name.endswith("attention.qkv.weight"):
        queries, shared = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
        return queries, shared, shared
    if name.endswith("cross.keys_values.weight"):
        return (config.n_kv_heads * config.head_dim,) * 2
    if name.endswith("feedforward.up.weight") and config.gated:
        return config.ffn_dim, config.ffn_dim
    return (weight.shape[0],)


@torch.no_grad()
def clip_gradients(weights: Iterable[Tensor], divisor: Tensor, largest: float) -> Tensor:
    """Clip the gradients that an optimiser gets: those of the mean loss, no longer than `largest`.

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
    """Return all that the optimiser remembers, on the CPU, named `WEIGHT/KEY`; nothing of a weight without a gradient."""
    return {
        f"{name}/{key}": value.detach().cpu()
        for name, weight in model.named_parameters()
        for key, value in optimiser.state.get(weight, {}).items()
    }


def load_optimiser(model: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore in a fresh optimiser what `optimiser_tensors` returned.

    Raises:
        ArtifactError: it was another optimiser's, or another model's.
    """
    # what is remembered of each weight
    by_weight: dict[str, dict[str, Tensor]] = {}
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition("/")
        by_weight.setdefault(name, {})[key] = value
    # what this optimiser remembers of each
    weights = dict(model.named_parameters())
    muons, adams = {"momentum"}, {"step", "exp_avg", "exp_avg_sq"}
    keys = {
        id(weight): muons if "momentum" in group else adams
        for group in optimiser.param_groups
        for weight in group["params"]
    }
    # refuse others
    for name, remembered in by_weight.items():
        expected = keys[id(weights[name])] if name in weights else set()
        if remembered.keys() != expected:
            raise ArtifactError(
                "the saved optimiser state belongs to another optimiser or another model",
                where=name, got=", ".join(sorted(remembered)), expected=", ".join(sorted(expected)) or "nothing",
                hint="use the optimiser and the model sizes of the saved state, or start again with --fresh",
            )  # fmt: skip
    # each weight gets its own back
    for name, remembered in by_weight.items():
        weight = weights[name]
        # a copy: the optimiser writes into it, and the given tensors may be read from elsewhere
        optimiser.state[weight] = {key: value.to(weight.device, copy=True) for key, value in remembered.items()}


_A, _B, _C = 3.4445, -4.7750, 2.0315  # steepest at 0: small singular values grow 3.4 times in each round
_ROUNDS = 5
_STEP = 0.2  # root mean square of a step, in learning rates

Rows = tuple[int, ...]
Part = tuple[Tensor, Tensor, Tensor]  # weight, gradient, momentum


class Muon(torch.optim.Optimizer):
    """Muon for some weights and AdamW, without weight decay, for the others.

    Attributes:
        param_groups: the matrices, then the others; `lr` of both may be set before each step.

    Args:
        matrices: weights of two axes, each with the rows of the parts that it stacks: `((R,))` for a single one. Parts are
            orthogonalised each on its own.
        others: weights of any shape.
        lr: learning rate of both.
        weight_decay: of the matrices, decoupled.
        momentum: μ of the matrices.
        betas: AdamW's memory of gradients and of their squares.
        eps: added to AdamW's divisor.
    """

    def __init__(
        self, matrices: Iterable[tuple[Tensor, Rows]], others: Iterable[Tensor], *, lr: float, weight_decay: float,
        momentum: float, betas: tuple[float, float], eps: float = 1e-8,
    ) -> None:  # fmt: skip
        pairs = list(matrices)
        stacked = {"params": [weight for weight, _ in pairs], "rows": [rows for _, rows in pairs]}
        groups = [stacked | {"weight_decay": weight_decay, "momentum": momentum}]
        groups += [{"params": list(others), "weight_decay": 0.0, "betas": betas, "eps": eps}]
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every weight that has a gradient; the others, and what the optimiser remembers of them, stay as they are."""
        matrices, others = self.param_groups
        self._move_matrices(matrices)
        self._move_others(others)

    def _move_matrices(self, group: dict[str, Any]) -> None:
        """Move the matrices of the blocks by Muon's orthogonal steps."""
        moving = [
            (weight, rows)
            for weight, rows in zip(group["params"], group["rows"], strict=True)
            if weight.grad is not None
        ]
        if not moving:
            return
        weights, rows = zip(*moving, strict=True)
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        gradients, momenta = [weight.grad for weight in weights], [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_lerp_(momenta, gradients, 1.0 - group["momentum"])
        torch._foreach_mul_(weights, 1.0 - group["lr"] * group["weight_decay"])
        parts = zip(_parts(weights, rows), _parts(gradients, rows), _parts(momenta, rows), strict=True)
        for alike in _by_shape(parts):
            _move_together(alike, group["lr"], group["momentum"])

    def _move_others(self, group: dict[str, Any]) -> None:
        """Move the other weights by AdamW, without weight decay."""
        # moments of weights that move for the first time
        weights = [weight for weight in group["params"] if weight.grad is not None]
        for weight in weights:
            state = self.state[weight]
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        # one call of torch's AdamW
        beta1, beta2 = group["betas"]
        adamw(
            weights,
            [weight.grad for weight in weights],
            [self.state[weight]["exp_avg"] for weight in weights],
            [self.state[weight]["exp_avg_sq"] for weight in weights],
            [],
            [self.state[weight]["step"] for weight in weights],
            fused=True,  # one pass over the weights instead of a dozen
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


def orthogonalise(x_NRC: Tensor) -> Tensor:
    """Return matrices with the given ones' singular vectors and singular values near 1, as the optimiser Muon wants.

    Each round maps every singular value s to a s + b s³ + c s⁵: X ← a X + (b X Xᵀ + c (X Xᵀ)²) X. The products are on the
    smaller side.

    Args:
        x_NRC: N matrices of R rows and C columns, float32 or bfloat16 (exact enough: a step is off by 1 % of its length).

    Returns:
        A contiguous tensor of the same shape and type. Zeros stay zeros.

    Source: Jordan et al. 2024, the quintic Newton-Schulz iteration.
    """
    is_tall = x_NRC.shape[1] > x_NRC.shape[2]
    x = x_NRC.mT if is_tall else x_NRC
    # the iteration needs singular values of at most 1, and no matrix has one above its Frobenius norm
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    # completing the square, c (X Xᵀ + b/2c)² + a - b²/4c, spares both additions of matrices and a tenth of the time, and
    # doubles what bfloat16 rounds off; groups of 4 or 8 matrices, which would fit the cache, gain nothing
    for _ in range(_ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return (x.mT if is_tall else x).contiguous()


def _move_together(parts: Sequence[Part], lr: float, momentum: float) -> None:
    """Take the optimiser Muon's orthogonal step of matrices of one shape.

    The sum is made right where it is needed and in the numbers of the products: lerp, stack and cast one after the other
    took 43 ms where this takes 37 (one core, 4 layers, width 256).
    """
    weights, gradients, momenta = zip(*parts, strict=True)
    shape, device = weights[0].shape, weights[0].device
    ahead_NRC = torch.empty(len(weights), *shape, dtype=_product_dtype(device), device=device)
    for ahead_RC, gradient, remembered in zip(ahead_NRC, gradients, momenta, strict=True):
        # U / (1 - μ): only its direction counts
        torch.add(gradient, remembered, alpha=momentum / (1.0 - momentum), out=ahead_RC)
    steps_NRC = orthogonalise(ahead_NRC).to(weights[0].dtype)
    torch._foreach_add_(weights, steps_NRC.unbind(), alpha=-lr * _STEP * math.sqrt(max(shape)))


def _parts(matrices: Iterable[Tensor], rows: Iterable[Rows]) -> list[Tensor]:
    """Return the maps that the matrices stack, see `_rows`."""
    return [
        part for matrix, of_parts in zip(matrices, rows, strict=True) for part in torch.split(matrix, list(of_parts))
    ]


def _by_shape(parts: Iterable[Part]) -> Iterable[list[Part]]:
    """Return lists of parts of one shape, which are orthogonalised together."""
    found: dict[torch.Size, list[Part]] = {}
    for part in parts:
        found.setdefault(part[0].shape, []).append(part)
    return found.values()


def _product_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 where the device has units for it, else float32."""
    return torch.bfloat16 if resolve_dtype("auto", device) is torch.bfloat16 else torch.float32
