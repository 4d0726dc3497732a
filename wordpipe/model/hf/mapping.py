"""The mapping between our models and a class of `transformers`, as tables that are read in both directions.

A table holds the parts that models of the class have, the keys of `config.json` and the names of the weights. `config.json`
is read strictly: a value that we do not compute is refused with its key.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from wordpipe.errors import ArtifactError
from wordpipe.model.config import ROLES, Architecture, ModelConfig

Value = TypeVar("Value", int, float, bool)
Allowed = tuple[object, ...] | Callable[[ModelConfig], tuple[object, ...]]
"""Values of a field that a class can compute, or these given the other fields."""

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_KINDS: dict[type, tuple[Any, str]] = {
    int: ((int,), "a whole number, 1 or more"),
    float: ((int, float), "a number above 0"),
    bool: ((bool,), "true or false"),
}


_WITH_BIAS = ("embedding_projection", "pair_", "replaced_head")  # these have an offset whatever the blocks have


def refusal(key: str, got: object, expected: object) -> ArtifactError:
    """Return the error for a value that makes another model than our blocks compute."""
    return ArtifactError(
        f"wordpipe does not support this value of {key}", where=CONFIG, got=repr(got), expected=expected
    )


def refuse_others(values: Mapping[str, Any], fixed: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse a value of a `config.json` that is not in the mapping: our blocks do not compute with this value.

    Args:
        values: the keys and values of the file.
        fixed: key → the values that will do. A key that the file does not have passes.

    Raises:
        ArtifactError: names the key, the value and what was expected.
    """
    for key, allowed in fixed.items():
        if key in values and values[key] not in allowed:
            raise refusal(key, values[key], " or ".join(repr(value) for value in allowed))


def read_value(values: Mapping[str, Any], key: str, kind: type[Value], default: Value | None = None) -> Value:
    """Read a value of a `config.json` by the mapping: a whole number, a finite number above 0, or a flag.

    Null means the default.

    Raises:
        ArtifactError: it is not.
    """
    found: Any = values.get(key)
    value: Any = default if found is None else found
    types, expected = _KINDS[kind]
    fits = isinstance(value, types) and isinstance(value, bool) == (kind is bool)
    if not (fits and (isinstance(value, bool) or 0 < value < math.inf)):
        raise refusal(key, value, expected)
    return kind(value)


def special_ids(values: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the ids of the special tokens, as fields of `ModelConfig`."""
    return {f"{role}_id": token_id(values, f"{role}_token_id") for role in ROLES}


def token_id(values: Mapping[str, Any], key: str) -> int | None:
    """Return a token's id out of a mapped `config.json`, or None."""
    value = values.get(key)
    if isinstance(value, list):  # several tokens may end a text; the first one is the usual one
        value = value[0] if value else None
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise refusal(key, value, "a token id")
    return None if value == -1 else value  # some old folders say so that there is none


def rope_theta(rope: object, default: float) -> float:
    """Return the base of the rotary angles out of a mapped `config.json`.

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
    return read_value(rope, "rope_theta", float, default)


@dataclass(frozen=True)
class Entry:
    """One of our weights, with its names and its form in a class of `transformers`.

    Attributes:
        ours: its name in `LanguageModel`.
        theirs: the names of the parts, which stacked along the first axis make it.
        rows: rows of each part; empty where there is one part.
        transposed: they keep the matrix as (in, out); ours is (out, in).
        repeats: the weight has another entry: this one is written, but not read.
        factors: what each part of ours is multiplied by to be theirs; empty: 1.
        empty_rows: rows of theirs before ours, which no position uses.
        shape: of each part as they keep it, the same numbers in the same order; empty: as ours is.
    """

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...] = ()
    transposed: bool = False
    repeats: bool = False
    factors: tuple[float, ...] = ()
    empty_rows: int = 0
    shape: tuple[int, ...] = ()

    @property
    def of_head(self) -> bool:
        """True if the weight serves the prediction of tokens alone: no hidden state depends on the weight."""
        return self.ours.removeprefix("decoder.").startswith(("head.", "output", "pair_", "replaced_head.", "query_"))


def _nothing(*_: object) -> dict[str, Any]:
    """Return no keys: the default of functions that a class of transformers may have."""
    return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """One class of `transformers`, as a table: keys of `config.json`, names of weights, parts that it can compute.

    Attributes:
        model_type: as in `config.json`.
        class_name: as in transformers; None for our own format.
        with_pairs: the class of the same type that has a second head for two texts; empty: there is none.
        architecture: ours; None for both.
        parts: fields of `ModelConfig` → the values that the class can compute; a model that is read has the first.
        keys: fields of `ModelConfig` → the key of `config.json`, or those that must agree, and what no key or null means
            (None: refused).
        activation: the key of the activation, what no key means, and their words → ours, of several the first is written.
        refused: keys of what our blocks do not compute → the values that will do.
        constants: keys that are written for every model.
        to_hf: further keys for a model of this shape.
        from_hf: further fields out of a `config.json`, given those that the tables make.
        weights: our names of the weights → theirs; several, separated by a space, are stacked. `#` is the number of
            the block, `*` for `weight` and, where the config has them, `bias`.
        more_weights: further ones of a model of this shape, or others in place of those.
        factors: of a model of this shape, our names → what the parts are multiplied by to be theirs.
        empty_rows: our names of tables → rows of theirs before ours.
        shapes: of a model of this shape, our names → the shape that they keep each part in.
        transposed: our names of matrices that they keep as (in, out); with nothing named, True: all of the blocks.
        untied_bias: the offset of an untied output, where it has a name of its own; the usual one then repeats it.
        prefix: what the names of the class without the output head lack.
        copies: names under which a tied weight may be stored once more → the name of the weight.
        unused: patterns of names that other classes of the same type have, and our models do not.
        buffers: patterns of names that hold what can be computed.
        renamed: patterns in the names of old folders → what they became.
    """

    model_type: str
    class_name: str | None
    architecture: Architecture | None
    with_pairs: str = ""
    parts: Mapping[str, Allowed] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    activation: tuple[str, str, Mapping[str, str]] = ("", "", {})
    refused: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    to_hf: Callable[[ModelConfig], dict[str, Any]] = _nothing
    from_hf: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]] = _nothing
    weights: Mapping[str, str] = field(default_factory=dict)
    more_weights: Callable[[ModelConfig], Mapping[str, str]] = _nothing
    factors: Callable[[ModelConfig], Mapping[str, tuple[float, ...]]] = _nothing
    empty_rows: Mapping[str, int] = field(default_factory=dict)
    shapes: Callable[[ModelConfig], Mapping[str, tuple[int, ...]]] = _nothing
    transposed: bool | tuple[str, ...] = False
    untied_bias: str = ""
    prefix: str = ""
    copies: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def class_of(self, config: ModelConfig) -> str | None:
        """Return the class of a model of this shape."""
        return self.with_pairs if config.pair_head else self.class_name

    def differences(self, config: ModelConfig) -> dict[str, tuple[object, ...]]:
        """Return the fields of a config that the class cannot store by the mapping → what the class can store."""
        if config.architecture != self.architecture:
            return {"architecture": (self.architecture,)}
        parts = ((name, allowed(config) if callable(allowed) else allowed) for name, allowed in self.parts.items())
        found = {name: allowed for name, allowed in parts if getattr(config, name) not in allowed}
        if config.replaced_head and "replaced_head" not in self.parts:
            found |= {"replaced_head": (False,)}
        if config.two_streams and "two_streams" not in self.parts:
            found |= {"two_streams": (False,)}
        if config.mixers and "mixers" not in self.parts:
            found |= {"mixers": ((),)}
        return found | ({"pair_head": (False,)} if config.pair_head and not self.with_pairs else {})

    def written(self, config: ModelConfig) -> dict[str, Any]:
        """Return by the mapping the content of `config.json`, but for what all classes share."""
        keys = {key: getattr(config, name) for name, (keys, _) in self.keys.items() for key in keys.split()}
        key, _, words = self.activation
        keys[key] = next(theirs for theirs, ours in words.items() if ours == config.feedforward)
        return {**self.constants, **keys, **self.to_hf(config)}

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Read fields of `ModelConfig` out of a `config.json` by the mapping.

        Raises:
            ArtifactError: our blocks do not compute such a model.
        """
        refuse_others(values, self.refused)
        fields = {name: allowed[0] for name, allowed in self.parts.items() if not callable(allowed)}
        fields |= {"architecture": self.architecture}
        fields["pair_head"] = bool(self.with_pairs) and values.get("architectures") == [self.with_pairs]
        for name, (keys, default) in self.keys.items():
            first, *others = keys.split()
            kind = ModelConfig.__annotations__[name]
            fields[name] = read_value(values, first, kind, default)
            for key in others:
                if read_value(values, key, kind, default) != fields[name]:
                    raise refusal(key, values.get(key, default), f"{fields[name]}, the same value as {first}")
        key, usual, words = self.activation
        word = values.get(key, usual)
        if not isinstance(word, str) or word not in words:
            raise refusal(key, word, " or ".join(words))
        fields |= {"feedforward": words[word], "n_kv_heads": fields["n_heads"]}
        return fields | self.from_hf(values, fields)

    def entries(self, config: ModelConfig) -> Iterator[Entry]:
        """Yield every weight of a model of this shape, by the mapping."""
        keys, factors, shapes = config.n_kv_heads * config.head_dim, self.factors(config), self.shapes(config)
        rows = {"qkv": (config.n_heads * config.head_dim, keys, keys), "keys_values": (keys, keys)}
        for ours, theirs in {**self.weights, **self.more_weights(config)}.items():
            # weights of parts that this model lacks
            own = ours.removeprefix("decoder.")
            if (own == "output" and config.tied) or (own == "output_bias" and not config.output_bias):
                continue
            if own.startswith("embedding_projection") and not config.embedding_dim:
                continue
            if own.startswith("pair_") and not config.pair_head:
                continue
            if ours == "output_bias" and self.untied_bias and not config.tied:
                yield Entry(ours, (self.untied_bias,))
                yield Entry(ours, (theirs,), repeats=True)
                continue
            # one entry for each block, weight and offset
            has_bias = config.norm_bias if "norm" in ours else config.bias or ours.startswith(_WITH_BIAS)
            kinds = ("weight", "bias") if "*" in ours and has_bias else ("weight",)
            skipped = config.normed_input and ours == "blocks.#.attention_norm.*"
            n_blocks = config.n_decoder_layers if ours.startswith("decoder.") else config.n_layers
            n_blocks = min(n_blocks, 1) if config.shared_layers else n_blocks
            for block in range(int(skipped), n_blocks) if "#" in ours else (0,):
                for kind in kinds:
                    name, *parts = (
                        part.replace("#", str(block)).replace("*", kind) for part in (ours, *theirs.split())
                    )
                    stacked = rows.get(name.split(".")[-2], (config.ffn_dim,) * 2) if len(parts) > 1 else ()
                    is_turned = self.transposed is True and "#" in ours and "norm" not in ours and kind == "weight"
                    if isinstance(self.transposed, tuple):
                        is_turned = ours in self.transposed
                    yield Entry(
                        name, tuple(parts), stacked, factors=factors.get(ours, ()), shape=shapes.get(ours, ()),
                        empty_rows=self.empty_rows.get(ours, 0), transposed=is_turned,
                    )  # fmt: skip
