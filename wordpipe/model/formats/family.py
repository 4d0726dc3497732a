"""What is to be said of a class of `transformers` so that a model of ours can be saved as one and read from one.

`config.json` is read as strictly as its meaning asks: a value that we do not compute is refused with its key.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wordpipe.errors import ArtifactError
from wordpipe.model.config import ROLES, Architecture, ModelConfig

__all__ = [
    "CONFIG", "Entry", "Family", "choice", "flag", "integer", "number", "one_window", "refusal", "refuse_others",
    "same_flag", "sizes_from_hf", "sizes_to_hf", "special", "stacked", "theta", "whole",
]  # fmt: skip

CONFIG = "config.json"
_SIZES = {
    "dim": "hidden_size",
    "ffn_dim": "intermediate_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "max_len": "max_position_embeddings",
}


def refusal(key: str, got: object, expected: object) -> ArtifactError:
    """The error for a value that makes another model than our blocks compute."""
    return ArtifactError(
        f"{key} is not one that this model can compute", where=CONFIG, got=repr(got), expected=expected
    )


def refuse_others(values: Mapping[str, Any], fixed: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse a value that is not among those which our blocks compute.

    Args:
        values: the keys and values of the file.
        fixed: key → the values that will do. A key that the file does not have passes.

    Raises:
        ArtifactError: names the key, the value and what was expected.
    """
    for key, allowed in fixed.items():
        if key in values and values[key] not in allowed:
            raise refusal(key, values[key], " or ".join(repr(value) for value in allowed))


def integer(values: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A whole number of at least 1; the default also stands for null."""
    value = values.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise refusal(key, value, "a whole number of at least 1")
    return value


def number(values: Mapping[str, Any], key: str, default: float) -> float:
    """A finite number above 0; the default also stands for null."""
    value = values.get(key)
    value = default if value is None else value
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        raise refusal(key, value, "a number above 0")
    return float(value)


def flag(values: Mapping[str, Any], key: str, default: bool) -> bool:
    """True or false; the default also stands for null."""
    value = values.get(key)
    value = default if value is None else value
    if not isinstance(value, bool):
        raise refusal(key, value, "true or false")
    return value


def same_flag(values: Mapping[str, Any], keys: tuple[str, ...], default: bool) -> bool:
    """One flag of ours that they have in parts, which must agree."""
    first = flag(values, keys[0], default)
    for key in keys[1:]:
        if flag(values, key, default) != first:
            raise refusal(key, values.get(key, default), f"{first}, as {keys[0]} is")
    return first


def sizes_to_hf(config: ModelConfig) -> dict[str, int]:
    """The sizes under the keys that most classes have for them."""
    return {theirs: getattr(config, ours) for ours, theirs in _SIZES.items()}


def sizes_from_hf(values: Mapping[str, Any]) -> dict[str, int]:
    """The sizes as fields of `ModelConfig`; as many key and value heads as query heads."""
    sizes = {ours: integer(values, theirs) for ours, theirs in _SIZES.items()}
    return sizes | {"n_kv_heads": sizes["n_heads"]}


def choice(values: Mapping[str, Any], key: str, known: Mapping[str, str], default: str) -> str:
    """Our word for one of theirs."""
    value = values.get(key, default)
    if not isinstance(value, str) or value not in known:
        raise refusal(key, value, " or ".join(known))
    return known[value]


def special(values: Mapping[str, Any]) -> dict[str, int | None]:
    """The ids of the special tokens, as fields of `ModelConfig`."""
    return {f"{role}_id": _token_id(values, f"{role}_token_id") for role in ROLES}


def _token_id(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    if isinstance(value, list):  # several tokens may end a text; the first one is the usual one
        value = value[0] if value else None
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise refusal(key, value, "a token id")
    return None if value == -1 else value  # some old folders say so that there is none


def theta(rope: object, default: float) -> float:
    """Base of the rotary angles.

    Args:
        rope: a `rope_parameters` object; None: there is none.
        default: what the base is where the object does not say.

    Raises:
        ArtifactError: angles that are stretched or that turn a part of the head only.
    """
    if rope is None:
        rope = {}
    if not isinstance(rope, Mapping):
        raise refusal("rope_parameters", rope, "an object")
    refuse_others(rope, {"rope_type": ("default", None), "type": ("default", None), "partial_rotary_factor": (1, None)})
    return number(rope, "rope_theta", default)


@dataclass(frozen=True)
class Entry:
    """One of our weights.

    Attributes:
        ours: its name in `LanguageModel`.
        theirs: the names of the parts, which stacked along the first axis make it.
        rows: rows of each part; empty where there is one part.
        transposed: they keep the matrix as (in, out); ours is (out, in).
        repeats: the weight has another entry: this one is written, but not read.
    """

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...] = ()
    transposed: bool = False
    repeats: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """One class of `transformers`.

    Attributes:
        model_type: as in `config.json`.
        native: the class; None for our own format.
        architecture: ours; None for both.
        parts: fields of `ModelConfig` → the values that the class can compute, given the other fields.
        to_hf: the content of `config.json`, but for what all classes share (`families.config_to_hf`).
        from_hf: fields of `ModelConfig` out of a `config.json`; refuses what our blocks do not compute.
        entries: every weight of a model of this shape.
        prefix: what the names of the class without the output head lack.
        copies: names under which a tied weight may be stored once more → the name of the weight.
        unused: patterns of names that other classes of the same type have, and our models do not.
        renamed: patterns in the names of old folders → what stands there today.
    """

    model_type: str
    native: str | None
    architecture: Architecture | None
    parts: Callable[[ModelConfig], Mapping[str, tuple[object, ...]]]
    to_hf: Callable[[ModelConfig], dict[str, Any]]
    from_hf: Callable[[Mapping[str, Any]], dict[str, Any]]
    entries: Callable[[ModelConfig], Iterator[Entry]]
    prefix: str = ""
    copies: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)


def whole(ours: str, theirs: str, *, bias: bool = False, transposed: bool = False) -> Iterator[Entry]:
    """A matrix or a norm under one name, and its offset where there is one.

    Args:
        ours: our name, without `.weight`.
        theirs: theirs, without `.weight`.
        bias: there is an offset.
        transposed: they keep the matrix as (in, out).
    """
    yield Entry(f"{ours}.weight", (f"{theirs}.weight",), transposed=transposed)
    if bias:
        yield Entry(f"{ours}.bias", (f"{theirs}.bias",))


def stacked(ours: str, theirs: tuple[str, ...], rows: tuple[int, ...], *, bias: bool = False) -> Iterator[Entry]:
    """A matrix of ours that is several of theirs, one above the other, and its offset where there is one."""
    for kind in ("weight", "bias") if bias else ("weight",):
        yield Entry(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs), rows)


def one_window(config: ModelConfig) -> tuple[int, ...]:
    """The windows of the config, if all layers that have one had the widest."""
    widest = max(config.windows)
    return tuple(widest if window else 0 for window in config.windows)
