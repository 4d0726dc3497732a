"""An encoder as one ONNX graph: token ids and their mask in, unit vectors out, pooling and transform inside.

Axes: B texts, T tokens, V rows of the vocabulary, D numbers before the transform, K after it.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.errors import ConfigError
from wordpipe.sentences.transforms import Transform

__all__ = ["INPUTS", "OUTPUT", "EncoderGraph", "model_hidden", "onnx_bytes", "static_hidden"]

INPUTS, OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"
_POOLINGS = ("mean", "weighted", "cls", "max")
_PROTOBUF_BYTES = 2_000_000_000  # a file of Protocol Buffers ends at 2 GiB


class EncoderGraph(nn.Module):
    """From ids and mask to unit vectors.

    Args:
        encoder: hidden states (B, T, D) of ids (B, T) int64 and mask (B, T) bool; a module of which the weights are taken.
        pooling: mean, weighted (mean), cls or max.
        weights_V: what each id weighs in the mean, (V,) float32, for weighted.
        transform: of the space.

    Raises:
        ConfigError: another pooling.
    """

    weights: Tensor | None
    matrix: Tensor | None
    mean: Tensor | None

    def __init__(
        self,
        encoder: nn.Module,
        *,
        pooling: str,
        weights_V: npt.NDArray[np.float32] | None = None,
        transform: Transform | None = None,
    ) -> None:
        super().__init__()
        if pooling not in _POOLINGS:
            raise ConfigError(
                "no graph is made of this pooling", where="pooling", got=pooling, expected=" or ".join(_POOLINGS)
            )
        self.encoder, self.pooling = encoder, pooling
        turns = None if transform is None or transform.kind == "none" else transform
        self.register_buffer("weights", None if weights_V is None else torch.from_numpy(weights_V.copy()))
        self.register_buffer("matrix", None if turns is None else torch.from_numpy(turns.matrix.copy()))
        self.register_buffer("mean", None if turns is None else torch.from_numpy(turns.mean.copy()))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Unit vectors (B, K) of ids (B, T) int64, where the mask (B, T) int64 is 1."""
        real_BT = attention_mask != 0
        pooled_BD = self._pooled(input_ids, self.encoder(input_ids, real_BT), real_BT)
        unit_BD = F.normalize(pooled_BD, dim=-1)
        if self.matrix is None or self.mean is None:
            return unit_BD
        return F.normalize((unit_BD - self.mean) @ self.matrix, dim=-1)

    def _pooled(self, ids_BT: Tensor, hidden_BTD: Tensor, real_BT: Tensor) -> Tensor:
        if self.pooling == "cls":
            return hidden_BTD[:, 0]
        if self.pooling == "max":
            return hidden_BTD.masked_fill(~real_BT.unsqueeze(-1), -torch.inf).amax(dim=1)
        share_BT1 = real_BT.unsqueeze(-1).to(hidden_BTD.dtype)
        if self.weights is not None:
            share_BT1 = share_BT1 * self.weights[ids_BT].unsqueeze(-1)
        return (hidden_BTD * share_BT1).sum(dim=1)  # the sum has the direction of the mean


class _Hidden(nn.Module):
    """A model's `encode` as the call that export follows."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids_BT: Tensor, real_BT: Tensor) -> Tensor:
        encode = cast("Callable[[Tensor, Tensor], Tensor]", self.model.encode)
        return encode(ids_BT, real_BT)


class _Rows(nn.Module):
    """A table's rows as hidden states."""

    def __init__(self, table_VD: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table_VD, requires_grad=False)

    def forward(self, ids_BT: Tensor, real_BT: Tensor) -> Tensor:
        return F.embedding(ids_BT, self.table)


def model_hidden(model: nn.Module) -> nn.Module:
    """Hidden states of a model that has `encode`."""
    return _Hidden(model)


def static_hidden(table_VD: npt.NDArray[np.float32]) -> nn.Module:
    """Hidden states of a static encoder: the rows of its table."""
    return _Rows(torch.from_numpy(table_VD.copy()))


def onnx_bytes(graph: EncoderGraph, *, max_len: int | None, traced_len: int = 4) -> bytes:
    """The graph as the content of a `.onnx` file, with free numbers of texts and tokens.

    Args:
        graph: on the CPU, in float32.
        max_len: the most tokens of a text; None where there is no end.
        traced_len: tokens of the text that the export follows through the model. What the model does otherwise with longer
            texts is not in the graph, so attention in windows needs more than a window's.

    Raises:
        ConfigError: torch cannot turn this model into ONNX, the file would be too large, or packages are missing.
    """
    size = sum(weight.nbytes for weight in (*graph.parameters(), *graph.buffers()))
    if size > _PROTOBUF_BYTES:
        raise ConfigError("too large for one ONNX file", got=f"{size:,} bytes of weights", expected="less than 2 GB")
    ids_BT = torch.ones((2, traced_len), dtype=torch.int64)
    mask_BT = ids_BT.clone()  # torch takes one tensor given twice for one input
    axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens", **({"max": max_len} if max_len else {}))}
    try:
        with torch.no_grad(), _quiet():
            program = torch.onnx.export(
                graph.eval(),
                (ids_BT, mask_BT),
                dynamo=True,
                verbose=False,
                input_names=INPUTS,
                output_names=(OUTPUT,),
                dynamic_shapes=(axes, axes),
            )
    except ModuleNotFoundError as error:
        raise ConfigError(
            "ONNX export needs packages that are not installed", got=error.name, hint='pip install "wordpipe[onnx]"'
        ) from None
    except Exception as error:  # whatever step of torch's it fails at has its own class
        first = str(error).strip().splitlines()[:1]
        raise ConfigError("torch cannot turn this model into ONNX", got=first[0] if first else error) from error
    assert program is not None
    axes_of_ids = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    if not all(axis.dim_param for axis in axes_of_ids):  # additive attention fixes them
        got = [axis.dim_param or axis.dim_value for axis in axes_of_ids]
        raise ConfigError("torch makes a graph of this model for texts of one length only", got=got)
    data: bytes = _plain(program.model_proto).SerializeToString()
    return data


def _plain(model: Any) -> Any:
    """Without notes on where in the source each node comes from, which are paths of this machine."""
    graph = model.graph
    nodes = [*graph.node, *(node for function in model.functions for node in function.node)]
    values = [*graph.value_info, *graph.initializer, *graph.input, *graph.output]
    for held in (model, graph, *model.functions, *nodes, *values):
        del held.metadata_props[:]
        held.doc_string = ""
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's remarks on its own workings off the screen."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
