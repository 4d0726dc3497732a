"""Hidden states of a transformer, pooled: by NumPy, for a query that should not wait for torch, or by torch.

Torch computes packed without padding on a CPU, padded on a GPU, and is imported when it computes.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from wordpipe.encoders.pooling import Floats, Pooling
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.encoders.windows import Ids, padded, runs_of
from wordpipe.errors import ConfigError
from wordpipe.runtime import pick_device, torch_threads

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from wordpipe.model import LanguageModel, NumpyModel

Batches: TypeAlias = Iterable[tuple[Ids, Ids]]
"""Ids of S sequences, one after the other, the longest first, and the length of each, (S,)."""
_CPU_TOKENS = 2048
"""Ids per batch on a CPU, so that activations stay in the caches. One core, 382 texts of Wikipedia of 76 tokens, float32,
4 layers of 256, thousand tokens/s: 1024 16.9, 2048 15.8, 4096 16.3, 8192 13.8; 6 layers of 384: 4.7, 4.9, 5.0, 4.8."""


class ArrayStates:
    """Hidden states by NumPy: torch is not imported.

    Args:
        model: the model.
        batch_tokens: ids that it likes to read at once, at most.
    """

    device = "cpu"
    in_bulk = False  # not made for so many texts that it pays to compile what prepares them

    def __init__(self, model: "NumpyModel", batch_tokens: int = 2048) -> None:
        self.model, self.batch_tokens = model, batch_tokens

    def pooled(self, batches: Batches, pooling: Pooling, weights_V: Floats | None) -> Iterator[Floats]:
        """Yield one pooled vector per sequence of each batch, (S, D) float32, by NumPy."""
        for ids_N, lengths_S in batches:
            yield pooling.rows(self._states(ids_N, lengths_S, pooling), ids_N, lengths_S, weights_V)

    def states(self, ids_T: Ids, pooling: Pooling) -> Floats:
        """Return the hidden states of one sequence that the pooling averages, (T, D) float32."""
        return self._states(ids_T, np.array([len(ids_T)]), pooling)

    def _states(self, ids_N: Ids, lengths_S: Ids, pooling: Pooling) -> Floats:
        first_ND = self.model.embed(ids_N, lengths_S)
        last_ND = self.model.encode(first_ND, runs_of(lengths_S))
        return (first_ND + last_ND) * np.float32(0.5) if pooling.layers == "ends" else last_ND


class HiddenModel(Protocol):
    """A torch module that computes hidden states."""

    def encode(self, ids_BT: "Tensor", mask_BT: "Tensor") -> "Tensor":
        """Hidden states (B, T, D) of int64 ids (B, T), where mask (B, T) bool is True."""
        ...


class TorchStates:
    """Hidden states by torch: packed without padding on a CPU, padded and without waiting for each other on a GPU.

    Args:
        model: put in evaluation mode on the chosen device.
        settings: device, dtype, threads and batch_tokens are looked at.

    Raises:
        ConfigError: a device that is not there.
    """

    in_bulk = True

    def __init__(self, model: HiddenModel, settings: EmbedSettings) -> None:
        import torch

        from wordpipe.model import LanguageModel

        self._device = pick_device(settings.device)
        self.device = str(self._device)
        half = settings.dtype == "bfloat16" or (settings.dtype == "auto" and self._device.type == "cuda")
        self._dtype = torch.bfloat16 if half else torch.float32
        self._model = cast("nn.Module", model).to(self._device).eval()
        self._packs = self._device.type == "cpu" and isinstance(model, LanguageModel)
        self._threads = settings.threads
        self.batch_tokens = min(settings.batch_tokens, _CPU_TOKENS) if self._packs else settings.batch_tokens

    def pooled(self, batches: Batches, pooling: Pooling, weights_V: Floats | None) -> Iterator[Floats]:
        """Yield one pooled vector per sequence of each batch, (S, D) float32, by a transformer in torch."""
        if self._packs:
            for ids_N, lengths_S in batches:
                yield self._pooled_packed(ids_N, lengths_S, pooling, weights_V)
            return
        weights = None if weights_V is None else self._sent(weights_V)
        waiting = None
        for ids_N, lengths_S in batches:
            coming = self._start_padded(ids_N, lengths_S, pooling, weights)
            if waiting is not None:  # taken while the next batch is computed
                yield _arrived(*waiting)
            waiting = coming
        if waiting is not None:
            yield _arrived(*waiting)

    def states(self, ids_T: Ids, pooling: Pooling) -> Floats:
        """Return the hidden states of one sequence that the pooling averages, (T, D) float32, by torch."""
        ids_1T, mask_1T = padded(ids_T, np.array([len(ids_T)]))
        with self._computing():
            states: Floats = self._hidden(self._sent(ids_1T), self._sent(mask_1T), pooling)[0].float().cpu().numpy()
            return states

    def _pooled_packed(self, ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: Floats | None) -> Floats:
        """Return pooled vectors (S, D) of sequences that are packed without padding."""
        from wordpipe.model import pack

        packed = pack(ids_N, lengths_S)
        with self._computing(), _first_input(self._model, pooling) as first:
            last_1ND = cast("LanguageModel", self._model).encode_packed(packed)[None]
            states_ND = _halfway(first, last_1ND)[0].float().numpy()
        # by NumPy, so that a text has the same bits in every batch
        pooled_SD = np.empty((len(lengths_S), states_ND.shape[1] * pooling.joins), dtype=np.float32)
        pooled_SD[packed.order] = pooling.rows(states_ND, packed.ids.numpy(), lengths_S[packed.order], weights_V)
        return pooled_SD

    def _start_padded(
        self, ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: "Tensor | None"
    ) -> "tuple[Tensor, torch.cuda.Event | None]":
        """Return a transformer's pooled vectors (S, D) on their way from a GPU, and the event of their arrival."""
        import torch

        with self._computing():
            ids_BT, mask_BT = (self._sent(array) for array in padded(ids_N, lengths_S))
            pooled_BD = pooling.hidden(self._hidden(ids_BT, mask_BT, pooling).float(), ids_BT, mask_BT, weights_V)
            if self._device.type != "cuda":
                return pooled_BD, None
            pinned_BD = torch.empty(pooled_BD.shape, pin_memory=True).copy_(pooled_BD, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            return pinned_BD, event

    def _hidden(self, ids_BT: "Tensor", mask_BT: "Tensor", pooling: Pooling) -> "Tensor":
        """Return the hidden states to pool of a padded batch."""
        with _first_input(self._model, pooling) as first:
            return _halfway(first, cast("HiddenModel", self._model).encode(ids_BT, mask_BT))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Enter torch's modes for computing hidden states: no gradients, the layers' precision."""
        import torch

        half = torch.autocast(self._device.type, self._dtype, enabled=self._dtype != torch.float32)
        with torch.inference_mode(), torch_threads(self._threads), half:
            yield

    def _sent(self, array: npt.NDArray[Any]) -> "Tensor":
        """Return an array of ids for the transformer on the device; on its way while the CPU prepares the next."""
        import torch

        tensor = torch.from_numpy(array)
        if self._device.type != "cuda":
            return tensor.to(self._device)
        return tensor.pin_memory().to(self._device, non_blocking=True)


def _arrived(vectors_SD: "Tensor", event: "torch.cuda.Event | None") -> Floats:
    """Return a transformer's pooled vectors that `_start_padded` has sent on their way, once they are there."""
    if event is not None:
        event.synchronize()
    arrived_SD: Floats = vectors_SD.cpu().numpy()
    return arrived_SD


@contextmanager
def _first_input(model: "nn.Module", pooling: Pooling) -> "Iterator[list[Tensor]]":
    """Return a list to which the input of the transformer's first block is added, for `first-last` alone."""
    from wordpipe.model import LanguageModel

    kept: list[Tensor] = []
    if pooling.layers == "last":
        yield kept
        return
    if not isinstance(model, LanguageModel):
        raise ConfigError(
            "this model does not have this pooling", where="pooling", got=pooling.name, expected="mean, cls or max"
        )
    hook = model.blocks[0].register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0]))
    try:
        yield kept
    finally:
        hook.remove()


def _halfway(first: "list[Tensor]", last: "Tensor") -> "Tensor":
    """Return the states to pool: the last hidden states, or their mean with the input of the first block."""
    # packed positions are filled up on their way through the blocks
    return (first[0][:, : last.shape[1]].float() + last.float()) / 2 if first else last
