"""Opening a tokenizer that exists: a `tokenizer.json` or a folder of transformers becomes one `tokenizers.Tokenizer`.

What cannot be converted so that the ids stay the same is refused, with the reason.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from wordpipe.errors import InputError
from wordpipe.tokens.formats.foreign import open_tokenizer, read_file
from wordpipe.tokens.formats.transformers_folder import CONVERTER, read_folder
from wordpipe.tokens.patterns import KNOWN_PATTERNS

__all__ = ["open_tokenizer", "read_tokenizer"]

_TAKEN = "a tokenizer.json or a transformers folder"
# a protobuf whose first field is a piece that begins with its text; a token in base64 and its rank
_SENTENCEPIECE, _TIKTOKEN = re.compile(rb"\n[\x03-\x7f]\n"), re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?(\n|\Z)")


def read_tokenizer(path: Path, *, warn: Callable[[str], None] | None = None) -> Tokenizer:
    """Read a tokenizer, with truncation and padding switched off: nothing is cut in silence.

    Args:
        path: a tokenizer.json or a transformers folder.
        warn: told what was assumed, one line each.

    Raises:
        InputError: missing, damaged, or not to be converted exactly.
    """
    warn = warn or _silent
    if path.is_dir():
        return _checked(read_folder(path, warn), path, warn)
    if not path.is_file():
        raise InputError("no such tokenizer", where=path, expected=_TAKEN)
    data = read_file(path)
    if data.lstrip()[:1] != b"{":
        raise _unknown(path, data)
    return _checked(open_tokenizer(data, where=str(path)), path, warn)


def _unknown(path: Path, data: bytes) -> InputError:
    """The error for a file that is not ours to read: who converts it."""
    if path.suffix == ".tiktoken" or _TIKTOKEN.match(data):
        return InputError(
            "a tiktoken file, which transformers converts", where=path, expected=_TAKEN,
            hint=f"from transformers.convert_slow_tokenizer import TikTokenConverter; "
            f"TikTokenConverter({path.name!r}, pattern=…, extra_special_tokens=[…]).converted().save('tokenizer.json')",
        )  # fmt: skip
    if path.suffix in (".model", ".spm") or _SENTENCEPIECE.match(data):
        return InputError(
            "a sentencepiece model, which transformers converts", where=path, expected=_TAKEN, hint=CONVERTER
        )
    hint = f"name the folder: {path.parent}" if path.name in ("vocab.txt", "vocab.json", "merges.txt") else None
    return InputError("not a kind of tokenizer that is known", where=path, expected=_TAKEN, hint=hint)


def _silent(_: str) -> None:
    """Nobody wants to know."""


def _checked(tokenizer: Tokenizer, path: Path, warn: Callable[[str], None]) -> Tokenizer:
    """Refuse an empty vocabulary, ids that no table can hold; warn of patterns that may run very long."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise InputError("the tokenizer has no tokens", where=path)
    if (top := max(vocabulary.values())) >= 2 * len(vocabulary) + 1024:
        raise InputError(
            "the ids are too far apart for a table of them",
            where=path,
            got=f"{len(vocabulary)} tokens, the last id is {top}",
        )
    parts = json.loads(tokenizer.to_str())
    for pattern in _strange_patterns(parts):
        warn(
            f"{path}: its pattern {pattern!r} is not one that is known to take time in proportion to the text; on text "
            "made for it, it may run very long"
        )
    return tokenizer


def _strange_patterns(parts: dict[str, Any]) -> list[str]:
    found = [*_values(parts.get("pre_tokenizer"), "Regex"), *_values(parts.get("normalizer"), "Regex")]
    return sorted({pattern for pattern in found if _may_explode(pattern)})


def _may_explode(pattern: str) -> bool:
    """Whether anything in it repeats, unless it is known: without repetition the time is bounded by its length."""
    return pattern not in KNOWN_PATTERNS and re.search(r"[*+{]", re.sub(r"\\.", "", pattern)) is not None


def _values(part: Any, key: str) -> Iterator[str]:
    """Every text that stands under this key in a tokenizer's JSON."""
    if isinstance(part, dict):
        if isinstance(part.get(key), str):
            yield part[key]
        for value in part.values():
            yield from _values(value, key)
    elif isinstance(part, list):
        for value in part:
            yield from _values(value, key)
