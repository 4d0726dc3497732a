"""Weights without the tensors that a reader has no place for, cut out of a safetensors file as its bytes."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wordpipe.model.config import ModelConfig
    from wordpipe.model.formats.family import Family

__all__ = ["is_of_head", "without_tensors"]

_HEAD = ("head.", "output")  # how our names of its weights begin
_METADATA = "__metadata__"
_ALIGNED = 8


def is_of_head(family: "Family", config: "ModelConfig") -> Callable[[str], bool]:
    """Whether a tensor of such a model, by its name in the file, serves the guessing of tokens alone.

    Args:
        family: the class of `transformers`.
        config: the shape.
    """
    entries = [*family.entries(config)]
    names = {name for entry in entries if entry.ours.startswith(_HEAD) for name in entry.theirs}
    others = {name for entry in entries if not entry.ours.startswith(_HEAD) for name in entry.theirs}
    return ((names | family.copies.keys()) - others).__contains__


def without_tensors(data: bytes, left_out: Callable[[str], bool]) -> bytes:
    """A safetensors file without some of its tensors; the bytes of the others, of whatever type, are as they were.

    Args:
        data: the file: the length of the header (8 bytes, little endian), the header in JSON, the numbers.
        left_out: told a name, whether that tensor goes.
    """
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    there = sorted((about["data_offsets"][0], name) for name, about in header.items() if name != _METADATA)
    kept = {name: header[name] for _, name in there if not left_out(name)}
    places = [about["data_offsets"] for about in kept.values()]
    moved = [{**about, "data_offsets": place} for about, place in zip(kept.values(), _packed(places), strict=True)]
    head = {name: header[name] for name in header if name == _METADATA} | dict(zip(kept, moved, strict=True))
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    start = 8 + length
    return b"".join([len(text).to_bytes(8, "little"), text, *(data[start + one : start + end] for one, end in places)])


def _packed(places: list[list[int]]) -> Iterator[list[int]]:
    """Where each part lies when the parts follow one another without a gap, which the format asks for."""
    done = 0
    for one, end in places:
        yield [done, done + end - one]
        done += end - one
