"""The vectors of earlier steps, as further negatives."""

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["VectorQueue"]


class VectorQueue:
    """The last Q vectors; empty at the start, and filled from the front.

    Vectors in it are a few steps old. With a table or model that changes slowly they are as good as new ones, and cost no
    encoding. Source: He et al. 2020, "Momentum Contrast", section 3.2 (there with a second, slower encoder).

    Args:
        size: Q; 0 keeps nothing.
        dim: numbers per vector.
        device: where they are kept.
    """

    def __init__(self, size: int, dim: int, device: str | torch.device = "cpu") -> None:
        self._kept_QD = torch.zeros(size, dim, device=device)
        self._document_Q = torch.full((size,), -1, dtype=torch.int64, device=device)
        self._text_Q = self._document_Q.clone()
        self._added = 0

    @property
    def vectors(self) -> Tensor:
        """(n, D) float32, n at most Q, in the order of their places."""
        return self._kept_QD[: min(self._added, len(self._kept_QD))]

    @property
    def documents(self) -> Tensor:
        """(n,) int64, the document of each vector."""
        return self._document_Q[: min(self._added, len(self._document_Q))]

    @property
    def texts(self) -> Tensor:
        """(n,) int64, the hash of the text of each vector."""
        return self._text_Q[: min(self._added, len(self._text_Q))]

    def add(self, vectors_BD: Tensor, document_B: Tensor, text_B: Tensor) -> None:
        """Put vectors in the places of the oldest, with their documents and hashes; of more than Q the last Q stay."""
        size = len(self._kept_QD)
        if size == 0:
            return
        skipped = max(0, len(vectors_BD) - size)
        places = (torch.arange(skipped, len(vectors_BD), device=self._kept_QD.device) + self._added) % size
        self._kept_QD[places] = vectors_BD[skipped:].detach().to(self._kept_QD)
        self._document_Q[places] = document_B[skipped:].to(self._document_Q)
        self._text_Q[places] = text_B[skipped:].to(self._text_Q)
        self._added += len(vectors_BD)

    def state(self) -> dict[str, Tensor]:
        """What `load` takes: tensors by name."""
        return {
            "queue.vectors": self._kept_QD,
            "queue.documents": self._document_Q,
            "queue.texts": self._text_Q,
            "queue.added": torch.tensor([self._added], dtype=torch.int64),
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on where `state` was taken.

        Raises:
            ValueError: it is of a queue of another size.
        """
        if state["queue.vectors"].shape != self._kept_QD.shape:
            raise ValueError(f"a queue of {tuple(state['queue.vectors'].shape)}, not of {tuple(self._kept_QD.shape)}")
        self._kept_QD.copy_(state["queue.vectors"])
        self._document_Q.copy_(state["queue.documents"])
        self._text_Q.copy_(state["queue.texts"])
        self._added = int(state["queue.added"][0])
