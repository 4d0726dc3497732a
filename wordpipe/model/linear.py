"""A matrix, with an offset where the model has them: most of what a transformer is made of."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Linear"]


class Linear(nn.Module):
    """x ↦ x Wᵀ + b.

    torch's own fills its weights from the global generator when it is made; this one leaves them to `initialise`, which
    costs a large model a second less and draws nothing that the caller did not seed.
    """

    def __init__(self, n_in: int, n_out: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in))
        self.bias = nn.Parameter(torch.empty(n_out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Product over the last axis: (…, n_in) → (…, n_out)."""
        return F.linear(x, self.weight, self.bias)
