"""The files by which sentence-transformers takes a folder for a model of its own, with the same vectors.

The folder's own files (config.json, model.safetensors, tokenizer.json of a transformer; model.safetensors and
tokenizer.json of a static encoder) stay as they are; these say what comes after them: the words' weights, pooling, unit
length, and the transform of the space as a dense layer between two normalisations.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from wordpipe.encoders.pooling import POOLINGS
from wordpipe.encoders.transforms import Transform
from wordpipe.errors import ConfigError

_MODULES = "sentence_transformers.models"  # the names that versions 2 to 5 know; 6 still resolves them
_ALL_POOLINGS = (
    "cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken",
)  # fmt: skip


def sentence_transformers_files(
    kind: Literal["transformer", "static"],
    *,
    dim: int,
    pooling: str = "mean",
    max_len: int | None = None,
    weights_V: npt.NDArray[np.float32] | None = None,
    tokens: Sequence[str] = (),
    transform: Transform | None = None,
) -> dict[str, bytes]:
    """Return name → content of the files that sentence-transformers needs beside the encoder's own.

    Args:
        kind: transformer, or static: a table of embeddings that are averaged.
        dim: width of the hidden states or of the table.
        pooling: of a transformer: mean, weighted (mean), cls or max.
        max_len: of a transformer: its longest sequence, special tokens included; what is longer is cut there.
        weights_V: what each token id weighs in the mean, (V,) float32, for weighted.
        tokens: the token of each id, V of them, for weighted.
        transform: of the space.

    Raises:
        ConfigError: a pooling that sentence-transformers has no module for.
    """
    # only poolings that it has
    exported = {name: one.exported for name, one in POOLINGS.items() if one.exported}
    if kind == "transformer" and pooling not in exported:
        expected = ", ".join(exported)
        raise ConfigError(
            "sentence-transformers does not support this pooling", where="pooling", got=pooling, expected=expected
        )
    # its modules in order: the model or table, weights, pooling, unit length, and the transform
    layers: list[tuple[str, Mapping[str, bytes]]]
    if kind == "static":
        layers = [("StaticEmbedding", {})]
    else:
        layers = [("Transformer", {})]
        layers += [("WordWeights", _word_weights(weights_V, tokens))] if weights_V is not None else []
        modes = {f"pooling_mode_{mode}": mode == exported[pooling] for mode in _ALL_POOLINGS}
        about = {"word_embedding_dimension": dim, **modes, "include_prompt": True}
        layers += [("Pooling", {"config.json": _json(about)})]
    # vectors of length 1, before the transform and after it
    layers += [("Normalize", {})]
    if transform is not None and transform.kind != "none":
        layers += [("Dense", _dense(transform)), ("Normalize", {})]
    files = _stacked(layers)
    if kind == "transformer":
        files["sentence_bert_config.json"] = _json({"max_seq_length": max_len, "do_lower_case": False})
    return files


def _stacked(layers: Sequence[tuple[str, Mapping[str, bytes]]]) -> dict[str, bytes]:
    """Return the list of sentence-transformers' modules, and the files of each in its own folder; the first has the root."""
    modules: list[dict[str, Any]] = []
    files: dict[str, bytes] = {}
    for number, (kind, own) in enumerate(layers):
        path = f"{number}_{kind}" if number else ""
        modules.append({"idx": number, "name": str(number), "path": path, "type": f"{_MODULES}.{kind}"})
        files |= {f"{path}/{name}": data for name, data in own.items()}
    about: dict[str, Any] = {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    return {"modules.json": _json(modules), "config_sentence_transformers.json": _json(about), **files}


def _word_weights(weights_V: npt.NDArray[np.float32], tokens: Sequence[str]) -> dict[str, bytes]:
    """Return the files of token weights for sentence-transformers: by token for older versions, by id for newer ones."""
    assert len(tokens) == len(weights_V), (len(tokens), len(weights_V))
    by_token = dict(zip(tokens, map(float, weights_V), strict=True))
    return {
        "config.json": _json({"vocab": list(tokens), "word_weights": by_token, "unknown_word_weight": 0.0}),
        "model.safetensors": safetensors.numpy.save({"emb_layer.weight": _whole(weights_V[:, None])}),
    }


def _dense(transform: Transform) -> dict[str, bytes]:
    """Return the files of the transform as a dense layer of sentence-transformers: y = x W - mean W."""
    matrix_DK = transform.matrix
    about = {
        "in_features": matrix_DK.shape[0],
        "out_features": matrix_DK.shape[1],
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    tensors = {"linear.weight": _whole(matrix_DK.T), "linear.bias": _whole(-transform.offset)}
    return {"config.json": _json(about), "model.safetensors": safetensors.numpy.save(tensors)}


def _whole(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(array, dtype=np.float32)


def _json(values: Any) -> bytes:
    return f"{json.dumps(values, indent=2, ensure_ascii=False)}\n".encode()
