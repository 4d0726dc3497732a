"""Hidden states by torch: packed without padding on a CPU, padded and without waiting for each other on a GPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wordpipe.errors import ConfigError
from wordpipe.model import LanguageModel, pack
from wordpipe.runtime import pick_device, torch_threads
from wordpipe.sentences.pooling import Floats, Pooling, pool_rows
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transformer_encoder import Batches
from wordpipe.sentences.windows import Ids, padded

_CPU_TOKENS = 2048
"""Ids per batch on a CPU, so that activations stay in the caches. One core, 382 texts of Wikipedia of 76 tokens, float32,
4 layers of 256, thousand tokens/s: 1024 16.9, 2048 15.8, 4096 16.3, 8192 13.8; 6 layers of 384: 4.7, 4.9, 5.0, 4.8."""


class HiddenModel(Protocol):
    """What is needed of a torch module."""

    def encode(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Hidden states (B, T, D) of int64 ids (B, T), where mask (B, T) bool is True."""
        ...


class TorchStates:
    """A torch module at work.

    Args:
        model: put in evaluation mode on the chosen device.
        settings: device, dtype, threads and batch_tokens are looked at.

    Raises:
        ConfigError: a device that is not there.
    """

    in_bulk = True

    def __init__(self, model: HiddenModel, settings: EmbedSettings) -> None:
        self._device = pick_device(settings.device)
        self.device = str(self._device)
        half = settings.dtype == "bfloat16" or (settings.dtype == "auto" and self._device.type == "cuda")
        self.dtype = torch.bfloat16 if half else torch.float32
        self._model = cast("nn.Module", model).to(self._device).eval()
        self._packs = self._device.type == "cpu" and isinstance(model, LanguageModel)
        self._threads = settings.threads
        self.batch_tokens = min(settings.batch_tokens, _CPU_TOKENS) if self._packs else settings.batch_tokens

    def pooled(self, batches: Batches, pooling: Pooling, weights_V: Floats | None) -> Iterator[Floats]:
        """See `StateModel`."""
        if self._packs:
            for ids_N, lengths_S in batches:
                yield self._packed(ids_N, lengths_S, pooling, weights_V)
            return
        weights = None if weights_V is None else self._sent(weights_V)
        waiting: Callable[[], Floats] | None = None
        for ids_N, lengths_S in batches:
            coming = self._padded(ids_N, lengths_S, pooling, weights)
            if waiting is not None:  # taken while the next batch is computed
                yield waiting()
            waiting = coming
        if waiting is not None:
            yield waiting()

    def states(self, ids_T: Ids, pooling: Pooling) -> Floats:
        """See `StateModel`."""
        with self._computing():
            ids_1T = self._sent(ids_T[None])
            mask_1T = torch.ones_like(ids_1T, dtype=torch.bool)
            states: Floats = self._hidden(ids_1T, mask_1T, pooling)[0].float().cpu().numpy()
            return states

    def _packed(self, ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: Floats | None) -> Floats:
        packed = pack(ids_N, lengths_S)
        model = cast("LanguageModel", self._model)
        with self._computing():
            hidden_1ND = _averaged(model, pooling, lambda: model.encode_packed(packed)[None])
            states_ND = hidden_1ND[0].float().numpy()
        pooled_SD = np.empty((len(lengths_S), states_ND.shape[1]), dtype=np.float32)
        pooled_SD[packed.order] = pool_rows(states_ND, packed.ids.numpy(), lengths_S[packed.order], pooling, weights_V)
        return pooled_SD

    def _padded(self, ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: Tensor | None) -> Callable[[], Floats]:
        """Starts to compute pooled vectors (S, D); the call of what it gives waits for them."""
        with self._computing():
            ids_BT, mask_BT = (self._sent(array) for array in padded(ids_N, lengths_S))
            pooled_BD = pool_hidden(self._hidden(ids_BT, mask_BT, pooling), ids_BT, mask_BT, pooling, weights_V)
            if self._device.type != "cuda":
                return lambda: pooled_BD.cpu().numpy()
            pinned_BD = torch.empty(pooled_BD.shape, pin_memory=True).copy_(pooled_BD, non_blocking=True)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()

        def taken() -> Floats:
            arrived.synchronize()
            vectors_SD: Floats = pinned_BD.numpy()
            return vectors_SD

        return taken

    def _hidden(self, ids_BT: Tensor, mask_BT: Tensor, pooling: Pooling) -> Tensor:
        return _averaged(self._model, pooling, lambda: cast("HiddenModel", self._model).encode(ids_BT, mask_BT))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        half = torch.autocast(self._device.type, self.dtype, enabled=self.dtype != torch.float32)
        with torch.inference_mode(), torch_threads(self._threads), half:
            yield

    def _sent(self, array: npt.NDArray[Any]) -> Tensor:
        """The array on the device; on its way while the CPU prepares the next one, where memory can be pinned."""
        tensor = torch.from_numpy(array)
        if self._device.type != "cuda":
            return tensor.to(self._device)
        return tensor.pin_memory().to(self._device, non_blocking=True)


def pool_hidden(
    hidden_BTD: Tensor, ids_BT: Tensor, mask_BT: Tensor, pooling: Pooling, weights_V: Tensor | None = None
) -> Tensor:
    """`pooling.pool_rows` of padded sequences, on the device: (B, D) float32. Padding does not count, whatever it holds.

    Args:
        hidden_BTD: what is pooled.
        ids_BT: the ids it is of.
        mask_BT: True where there is a token; at least one per sequence.
        pooling: see `pool_rows`.
        weights_V: what each id weighs, for `weighted`.
    """
    hidden_BTD = hidden_BTD.float()
    if pooling == "cls":
        return hidden_BTD[:, 0]
    mask_BT1 = mask_BT.unsqueeze(-1)
    if pooling == "max":
        return hidden_BTD.masked_fill(~mask_BT1, -torch.inf).amax(dim=1)
    weights_BT1 = mask_BT1.float()
    if pooling == "weighted":
        assert weights_V is not None
        weights_BT1 = weights_BT1 * weights_V[ids_BT].unsqueeze(-1)
    sums_BD = (hidden_BTD.masked_fill(~mask_BT1, 0) * weights_BT1).sum(dim=1)
    return sums_BD / weights_BT1.sum(dim=1).clamp_min(1e-9)


def _averaged(model: nn.Module, pooling: Pooling, run: Callable[[], Tensor]) -> Tensor:
    """The hidden states that `run` gives; for `first-last` halfway between the first block's input and them."""
    if pooling != "first-last":
        return run()
    if not isinstance(model, LanguageModel):
        raise ConfigError("not a pooling of this model", where="pooling", got=pooling, expected="mean, cls or max")
    kept: list[Tensor] = []
    hook = model.blocks[0].register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0]))
    try:
        last = run()
    finally:
        hook.remove()
    return (kept[0].float() + last.float()) / 2
