"""The parts of a stored model: which weights are embeddings, blocks, cross-attention and head; a file without some weights.

Of a safetensors file the header tells the parts: the length of the header (8 bytes, little endian), then JSON with the type,
the shape and the place of every tensor. So the parts of a model of any size are known at once.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from wordpipe.artifacts import parse_json_object
from wordpipe.errors import ArtifactError
from wordpipe.model.config import ModelConfig
from wordpipe.model.hf.families import config_from_hf
from wordpipe.model.hf.mapping import WEIGHTS, Family

PARTS = (
    "embeddings", "positions", "encoder blocks", "decoder blocks", "cross-attention", "final norms", "head",
    "other weights", "not counted",
)  # fmt: skip
"""In the order of a model. What a folder has beside a language model's weights are "other weights"; copies of tied ones, and
what can be computed, are "not counted"."""

_MAX_HEADER = 100_000_000  # bytes, as in the library
_POINTER = b"version https://git-lfs"
_MAX_FILE = 1 << 44  # bytes; what promises more is no safetensors file
_METADATA = "__metadata__"
_ALIGNED = 8  # bytes that the header of a safetensors file is filled up to
_NAMED = (  # the beginning of our name of a weight → its part
    ("head.", "head"), ("output", "head"), ("pair_", "head"), ("replaced_head", "head"),
    ("position_", "positions"), ("final_norm", "final norms"),
    ("embedding", "embeddings"), ("segment_embedding", "embeddings"), ("query_embedding", "head"),
)  # fmt: skip


@dataclass(frozen=True)
class StoredWeight:
    """A tensor of a file.

    Attributes:
        shape: its shape.
        dtype: its type, as the file has it (F32, BF16, …).
    """

    shape: tuple[int, ...]
    dtype: str


def read_header(file: BinaryIO, where: str) -> dict[str, StoredWeight]:
    """Return name → shape and type of every tensor of a safetensors file, by which parts are known.

    Raises:
        ArtifactError: not such a file.
    """
    length = int.from_bytes(file.read(8), "little")
    if length > _MAX_HEADER:
        raise ArtifactError("not a safetensors file", where=where, got=f"a header of {length:,} bytes")
    header = parse_json_object(file.read(length), where)
    found = {}
    for name, about in header.items():
        if name == _METADATA:
            continue
        shape = about.get("shape") if isinstance(about, dict) else None
        if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
            raise ArtifactError("not a safetensors file", where=where, got=f"{name} without a shape")
        found[name] = StoredWeight(tuple(shape), str(about.get("dtype")))
    return found


def unreadable_weights(data: bytes, where: str, error: Exception) -> ArtifactError:
    """Return the error for a file that is no safetensors file, or not a whole one.

    Args:
        data: of the file.
        where: its name.
        error: what its reader said.
    """
    hint = "download or copy the file again"
    if not data:
        return ArtifactError("the file is empty", where=where, hint=hint)
    if data.startswith(_POINTER):
        what, hint = "this is a pointer of Git LFS, not the file with the weights", "in the repository: git lfs pull"
        return ArtifactError(what, where=where, hint=hint)
    wanted = begin = 8 + int.from_bytes(data[:8], "little")
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        header = json.loads(data[8:begin])
        wanted += max(about["data_offsets"][1] for name, about in header.items() if name != _METADATA)
    if data[8:9] in (b"{", b"") and len(data) < wanted <= _MAX_FILE:
        got, expected = f"{len(data):,} bytes", f"{wanted:,} bytes{' or more' * (wanted == begin)}"
        return ArtifactError("the file is cut short", where=where, got=got, expected=expected, hint=hint)
    return ArtifactError("not a safetensors file", where=where, got=error, hint=hint)


def parts_of(names: list[str], values: Mapping[str, Any] | None) -> tuple[str, str | None, dict[str, str]]:
    """Return the part of its model (embeddings, blocks, head) that each stored weight belongs to.

    Args:
        names: of the weights, as they are stored.
        values: the model's `config.json`; None: it has none, as a table of words or tokens.

    Returns:
        The architecture ("static" without a config), the class of transformers (None for our own format), and name → part.

    Raises:
        ArtifactError: a class of model that our blocks do not compute.
    """
    if values is None:
        return "static", None, {name: "embeddings" if "embedding" in name else "other weights" for name in names}
    family, config = config_from_hf(values)
    ours = {theirs: entry.ours for entry in family.entries(config) for theirs in entry.theirs}
    return config.architecture, family.class_of(config), {name: _part(name, ours, family, config) for name in names}


def _part(stored: str, ours: Mapping[str, str], family: Family, config: ModelConfig) -> str:
    """Return the part of the model of a weight by its stored name, which may lack the prefix of the class."""
    name = stored
    for old, new in family.renamed.items():
        name = re.sub(old, new, name)
    own = ours.get(name) or ours.get(family.prefix + name)
    if own is None:
        copies = name in family.copies and config.tied
        computed = any(re.fullmatch(pattern, name) for pattern in family.buffers)
        return "not counted" if copies or computed else "other weights"
    stack, _, inside = own.partition(".")
    if stack not in ("encoder", "decoder"):
        stack, inside = config.architecture, own
    if inside.startswith("blocks."):
        return "cross-attention" if ".cross" in inside else f"{stack} blocks"
    return next((part for begin, part in _NAMED if inside.startswith(begin)), "other weights")


def is_of_head(family: Family, config: ModelConfig) -> Callable[[str], bool]:
    """Return a function that is true for the names of tensors, as in the file, that serve the prediction of tokens alone."""
    names: dict[bool, set[str]] = {True: {*family.copies}, False: set()}
    for entry in family.entries(config):
        names[entry.of_head] |= {*entry.theirs}
    return (names[True] - names[False]).__contains__


def without_tensors(data: bytes, left_out: Callable[[str], bool]) -> bytes:
    """Return a safetensors file without the tensors of some parts; the bytes of the others do not change.

    The numbers follow the header.
    """
    length = int.from_bytes(data[:8], "little")
    header = parse_json_object(data[8 : 8 + length], WEIGHTS)
    there = sorted((about["data_offsets"][0], name) for name, about in header.items() if name != _METADATA)
    head, places, done = {name: header[name] for name in header if name == _METADATA}, [], 0
    for name in (name for _, name in there if not left_out(name)):
        one, end = header[name]["data_offsets"]
        places.append((one, end))
        # the parts follow one another without a gap, which the format asks for
        head[name] = {**header[name], "data_offsets": [done, done + end - one]}
        done += end - one
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    start = 8 + length
    return b"".join([len(text).to_bytes(8, "little"), text, *(data[start + one : start + end] for one, end in places)])
