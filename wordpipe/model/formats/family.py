"""What is to be said of a class of `transformers` so that a model of ours can be saved as one and read from one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wordpipe.model.config import Architecture, ModelConfig

__all__ = ["Entry", "Family", "one_window", "stacked", "whole"]


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
