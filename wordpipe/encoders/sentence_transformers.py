"""The folders of sentence-transformers: the files by which it takes a folder for a model of its own, written and read.

The folder's own files (config.json, model.safetensors, tokenizer.json of a transformer; model.safetensors and
tokenizer.json of a static encoder) stay as they are; these say what comes after them: the words' weights, pooling, layers,
unit length, and the transform of the space as a dense layer between two normalisations.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from wordpipe.artifacts import parse_json, parse_json_object, read_fact
from wordpipe.encoders.layers import Layer, Layers, trimmed
from wordpipe.encoders.pooling import POOLINGS, Floats, pooling_named
from wordpipe.encoders.transforms import Transform
from wordpipe.errors import ArtifactError, ConfigError

MODULES_FILE = "modules.json"
_ABOUT = "config_sentence_transformers.json"
_MODULES = "sentence_transformers.models"  # the names that versions 2 to 5 know; 6 still resolves them
_OF_TEXT = ("document", "passage", "corpus")  # names of the prompt of texts, the first that there is
_ALL_POOLINGS = (
    "cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken",
)  # fmt: skip
_ACTIVATIONS = {
    "identity": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
    "silu": "torch.nn.modules.activation.SiLU",
}
"""Our name of an activation of a dense layer → theirs."""


def sentence_transformers_files(
    kind: Literal["transformer", "static"],
    *,
    dim: int,
    pooling: str = "mean",
    max_len: int | None = None,
    weights_V: npt.NDArray[np.float32] | None = None,
    tokens: Sequence[str] = (),
    layers: Layers | None = None,
    prompts: Mapping[str, str] | None = None,
    transform: Transform | None = None,
) -> dict[str, bytes]:
    """Return name → content of the files that sentence-transformers needs beside the encoder's own.

    Args:
        kind: transformer, or static: a table of embeddings that are averaged.
        dim: width of the hidden states or of the table.
        pooling: of a transformer: mean, weighted (mean), cls, max, …, or several joined by +.
        max_len: of a transformer: its longest sequence, special tokens included; what is longer is cut there.
        weights_V: what each token id weighs in the mean, (V,) float32, for weighted.
        tokens: the token of each id, V of them, for weighted.
        layers: between pooling and unit length.
        prompts: of texts and queries (`text`, `query`).
        transform: of the space.

    Raises:
        ConfigError: a pooling that sentence-transformers has no module for.
    """
    # only poolings that it has
    chosen = pooling_named(pooling) if kind == "transformer" else POOLINGS["mean"]
    if chosen is None or not chosen.exported:
        expected = ", ".join(name for name, one in POOLINGS.items() if one.exported)
        raise ConfigError(
            "sentence-transformers does not support this pooling", where="pooling", got=pooling, expected=expected
        )
    # its modules in order: the model or table, weights, pooling, layers, unit length, and the transform
    modules: list[tuple[str, Mapping[str, bytes]]]
    if kind == "static":
        modules = [("StaticEmbedding", {})]
    else:
        modules = [("Transformer", {})]
        modules += [("WordWeights", _word_weights(weights_V, tokens))] if weights_V is not None else []
        theirs = [POOLINGS[name].exported for name in pooling.split("+")]
        modes: dict[str, Any] = {f"pooling_mode_{mode}": mode in theirs for mode in _ALL_POOLINGS}
        if len(theirs) > 1:  # the flags have no order
            modes = {"pooling_mode": [_mode(mode) for mode in theirs]}
        about = {"word_embedding_dimension": dim, **modes, "include_prompt": True}
        modules += [("Pooling", {"config.json": _json(about)})]
    modules += [_module(layer) for layer in (layers or Layers()).layers]
    # vectors of length 1, before the transform and after it
    modules += [("Normalize", {})]
    if transform is not None and transform.kind != "none":
        dense = Layer("dense", np.ascontiguousarray(transform.matrix.T), -transform.offset)
        modules += [_module(dense), ("Normalize", {})]
    files = _stacked(modules, prompts or {})
    if kind == "transformer":
        files["sentence_bert_config.json"] = _json({"max_seq_length": max_len, "do_lower_case": False})
    return files


def _mode(flag: str) -> str:
    """Return a pooling's name in the list of sentence-transformers from its name as a flag, which may be longer."""
    return {"cls_token": "cls", "max_tokens": "max", "mean_tokens": "mean", "weightedmean_tokens": "weightedmean"}.get(
        flag, flag
    )


def _stacked(layers: Sequence[tuple[str, Mapping[str, bytes]]], prompts: Mapping[str, str]) -> dict[str, bytes]:
    """Return the list of sentence-transformers' modules, and the files of each in its own folder; the first has the root."""
    modules: list[dict[str, Any]] = []
    files: dict[str, bytes] = {}
    for number, (kind, own) in enumerate(layers):
        path = f"{number}_{kind}" if number else ""
        modules.append({"idx": number, "name": str(number), "path": path, "type": f"{_MODULES}.{kind}"})
        files |= {f"{path}/{name}": data for name, data in own.items()}
    theirs = {name: prompts[ours] for name, ours in (("query", "query"), (_OF_TEXT[0], "text")) if prompts.get(ours)}
    about: dict[str, Any] = {"prompts": theirs, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    return {MODULES_FILE: _json(modules), _ABOUT: _json(about), **files}


def _word_weights(weights_V: npt.NDArray[np.float32], tokens: Sequence[str]) -> dict[str, bytes]:
    """Return the files of token weights for sentence-transformers: by token for older versions, by id for newer ones."""
    assert len(tokens) == len(weights_V), (len(tokens), len(weights_V))
    by_token = dict(zip(tokens, map(float, weights_V), strict=True))
    return {
        "config.json": _json({"vocab": list(tokens), "word_weights": by_token, "unknown_word_weight": 0.0}),
        "model.safetensors": safetensors.numpy.save({"emb_layer.weight": _whole(weights_V[:, None])}),
    }


def _module(layer: Layer) -> tuple[str, Mapping[str, bytes]]:
    """Return a layer as a module of sentence-transformers: its name, and its files."""
    if layer.weight is None:
        return "Normalize", {}
    of = "norm" if layer.kind == "layer-norm" else "linear"
    about: dict[str, Any] = {"dimension": len(layer.weight)}
    if layer.kind == "dense":
        about = {
            "in_features": layer.weight.shape[1],
            "out_features": layer.weight.shape[0],
            "bias": layer.bias is not None,
            "activation_function": _ACTIVATIONS[layer.activation],
        }
    tensors = {f"{of}.weight": _whole(layer.weight)}
    if layer.bias is not None:
        tensors[f"{of}.bias"] = _whole(layer.bias)
    kind = "LayerNorm" if layer.kind == "layer-norm" else "Dense"
    return kind, {"config.json": _json(about), "model.safetensors": safetensors.numpy.save(tensors)}


def _whole(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(array, dtype=np.float32)


def _json(values: Any) -> bytes:
    return f"{json.dumps(values, indent=2, ensure_ascii=False)}\n".encode()


Read = Callable[[str], bytes]
_TYPES = ("Transformer", "StaticEmbedding", "WordWeights", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout")
_SETTINGS_OF_TRANSFORMER = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)


@dataclass(frozen=True)
class FolderModules:
    """The facts of an encoder that the files of a sentence-transformers folder state.

    Attributes:
        kind: transformer, or static: a table of embeddings.
        root: where its own files are: "", or a folder with its slash.
        pooling: as `EmbedSettings.pooling` names it; several are joined by +.
        layers: between the pooling and unit length.
        prompts: of texts and queries (`text`, `query`), where there are some.
        max_len: its longest sequence, special tokens included; None: that of the model.
        lower_case: whether text is lower-cased, whatever its tokenizer does.
        weights: what each token id weighs in the mean, (V,) float32, or None.
        notes: what the user should know, a sentence each.
    """

    kind: Literal["transformer", "static"]
    root: str = ""
    pooling: str = "mean"
    layers: Layers = field(default_factory=Layers)
    prompts: Mapping[str, str] = field(default_factory=dict)
    max_len: int | None = None
    lower_case: bool = False
    weights: Floats | None = None
    notes: tuple[str, ...] = ()


def read_modules(read: Read, names: Collection[str]) -> FolderModules:
    """Read the files of a folder of sentence-transformers.

    Args:
        read: gives the bytes of a file of the folder by its name, `1_Pooling/config.json`.
        names: the files that there are, modules.json among them.

    Raises:
        ArtifactError: a file is malformed, or says what our encoders do not compute; it is named.
    """
    modules = _listed(read)
    (first, root), *others = modules
    if first not in ("Transformer", "StaticEmbedding"):
        raise _refusal(first, MODULES_FILE, "Transformer or StaticEmbedding as the first module")
    kind: Literal["transformer", "static"] = "transformer" if first == "Transformer" else "static"
    # the modules after the first: weights of tokens, pooling, layers
    pooling, weights_V, layers, ends_normed = "mean", None, list[Layer](), False
    about = _optional(read, names, _ABOUT)
    prompts, notes = _prompts(about)
    for name, path in others:
        place = f"{path}config.json"
        if name == "WordWeights":
            weights_V = _tensor(read, f"{path}model.safetensors", "emb_layer.weight").reshape(-1)
        elif name == "Pooling":
            pooling = _pooling(_optional(read, names, place), place, prompts)
        elif name == "Normalize":
            layers.append(Layer("normalize"))
        elif name in ("Dense", "LayerNorm"):
            layers.append(_layer(read, names, name, path))
        elif name != "Dropout":  # which does nothing but in training
            raise _refusal(name, MODULES_FILE, f"{', '.join(_TYPES[2:])} after the first module")
        ends_normed = name == "Normalize" or (ends_normed and name == "Dropout")
    if weights_V is not None:
        if pooling != "mean":
            raise _refusal("WordWeights", MODULES_FILE, "a Pooling of mean_tokens after WordWeights")
        pooling = "weighted"
    if about.get("similarity_fn_name") not in (None, "cosine") and not ends_normed:
        notes += (
            f"the folder compares vectors by {about['similarity_fn_name']}; wordpipe gives all vectors the length 1 and "
            "compares them by cosine",
        )
    settings = next((name for name in _SETTINGS_OF_TRANSFORMER if root + name in names), None)
    said = parse_json_object(read(root + settings), root + settings) if settings else {}
    return FolderModules(
        kind, root, pooling, trimmed(layers), prompts,
        said.get("max_seq_length") and read_fact(said, "max_seq_length", int, root + str(settings), least=1),
        read_fact(said, "do_lower_case", bool, root + str(settings), default=False), weights_V, notes,
    )  # fmt: skip


def _refusal(got: object, where: str, expected: object) -> ArtifactError:
    """Return the error for a module of sentence-transformers that our encoders do not compute."""
    what = "wordpipe does not support this part of a sentence-transformers folder"
    return ArtifactError(what, where=where, got=str(got)[:80], expected=expected)


def _optional(read: Read, names: Collection[str], name: str) -> dict[str, Any]:
    """Return the JSON object of a file that a folder of sentence-transformers may lack."""
    return parse_json_object(read(name), name) if name in names else {}


def _listed(read: Read) -> list[tuple[str, str]]:
    """Return the name of each module in modules.json, and its folder with a slash ("" for the root)."""
    values = parse_json(read(MODULES_FILE), MODULES_FILE)
    if not isinstance(values, list) or not values or not all(isinstance(one, dict) for one in values):
        raise ArtifactError("not a list of modules", where=MODULES_FILE, got=str(values)[:80])
    found = []
    for one in values:
        kind, path = (read_fact(one, name, str, MODULES_FILE) for name in ("type", "path"))
        if not kind.startswith("sentence_transformers."):
            raise _refusal(kind, MODULES_FILE, "a module of sentence-transformers, because wordpipe runs no other code")
        root = path.strip("/")
        found.append((kind.rpartition(".")[2], "" if root in ("", ".") else f"{root}/"))  # model2vec says "."
    return found


def _prompts(about: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the prompts of texts and queries, and a note on others."""
    named = read_fact(about, "prompts", dict, _ABOUT, default={})
    given = {name: text for name, text in named.items() if isinstance(text, str) and text}
    usual = given.get(str(about.get("default_prompt_name")), "")
    of_text = next((given[name] for name in _OF_TEXT if name in given), "" if {*_OF_TEXT} & {*named} else usual)
    prompts: dict[str, str] = {"text": of_text, "query": given.get("query", "" if "query" in named else usual)}
    others = sorted(given.keys() - {"query", *_OF_TEXT, str(about.get("default_prompt_name"))})
    notes = (f"these prompts of the folder are not used: {', '.join(others)}",) if others else ()
    return {role: text for role, text in prompts.items() if text}, notes


def _pooling(about: Mapping[str, Any], where: str, prompts: Mapping[str, str]) -> str:
    """Return our name of the pooling that a module of sentence-transformers describes."""
    if about.get("include_prompt") is False and prompts:
        raise _refusal("include_prompt false", where, "a pooling that reads the prompt too")
    plain = (one for one in POOLINGS.values() if one.exported and not one.is_weighted)
    by_mode = {_mode(one.exported): one.name for one in plain}
    modes: Any = about.get("pooling_mode")
    if modes is None:  # older folders have a flag for each
        flags = [flag for flag in _ALL_POOLINGS if about.get(f"pooling_mode_{flag}") is True]
        modes = [_mode(flag) for flag in flags] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or not modes or not all(mode in by_mode for mode in modes):
        raise _refusal(f"pooling_mode {modes}", where, ", ".join(by_mode))
    return "+".join(by_mode[mode] for mode in modes)


def _layer(read: Read, names: Collection[str], name: str, path: str) -> Layer:
    """Return a dense layer or a norm of a folder of sentence-transformers."""
    where, about = f"{path}model.safetensors", _optional(read, names, f"{path}config.json")
    if where not in names:
        hint = "load the folder in sentence-transformers and save it with save_pretrained, which writes safetensors"
        raise ArtifactError(
            "the module has no weights in a format that wordpipe reads", where=path, expected=where, hint=hint
        )
    of = "norm" if name == "LayerNorm" else "linear"
    weight, bias = _tensor(read, where, f"{of}.weight"), None
    if of == "norm" or about.get("bias", True):
        bias = _tensor(read, where, f"{of}.bias")
    if of == "norm":
        return Layer("layer-norm", weight, bias)
    # what a dense layer reads and gives, and its activation
    config = f"{path}config.json"
    for key, usual in (("module_input_name", "sentence_embedding"), ("module_output_name", "sentence_embedding")):
        if about.get(key) not in (None, usual):
            raise _refusal(f"{key} {about[key]}", config, usual)
    if about.get("use_residual"):
        raise _refusal("use_residual", config, "a dense layer without a residual")
    theirs = str(about.get("activation_function", _ACTIVATIONS["tanh"])).rpartition(".")[2]
    ours = next((ours for ours, name in _ACTIVATIONS.items() if name.endswith(f".{theirs}")), None)
    if ours is None:
        raise _refusal(f"activation_function {theirs}", config, ", ".join(_ACTIVATIONS.values()))
    return Layer("dense", weight, bias, ours)


def _tensor(read: Read, where: str, name: str) -> Floats:
    """Return a tensor of a safetensors file of a sentence-transformers folder, float32 and finite."""
    try:
        tensor = safetensors.numpy.load(read(where))[name].astype(np.float32)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError("the weights of the module cannot be read", where=where, got=error) from None
    if not np.isfinite(tensor).all():
        raise ArtifactError("the module has weights that are not finite", where=where, got=name)
    return _whole(tensor)
