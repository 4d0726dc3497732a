"""Files that others made: whatever libraries raise over them becomes an error that names the file."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from tokenizers import Tokenizer

from wordpipe.errors import InputError, WordpipeError

__all__ = ["Foreign", "open_tokenizer", "read_file", "read_json"]

_LARGEST = 1 << 30  # bytes; the largest vocabularies in use take some 40 MB


class Foreign:
    """A context in which every failure is the file's fault.

    tokenizers raises bare exceptions, and panics that are no `Exception` at all.
    """

    def __init__(self, what: str, where: str) -> None:
        self._what, self._where = what, where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, WordpipeError | MemoryError):
            return
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise InputError(self._what, where=self._where, got=str(error)[:200] or type(error).__name__) from None


def read_json(data: bytes, where: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        InputError: not JSON, or not an object.
    """
    with Foreign("not a JSON file", where):
        try:
            value = json.loads(data)
        except RecursionError:
            raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise InputError("not what is expected there", where=where, got=type(value).__name__, expected="a JSON object")
    return value


def read_file(path: Path) -> bytes:
    """The bytes of a file of reasonable size.

    Raises:
        InputError: not there, not a file, or larger than any tokenizer.
    """
    if not path.is_file():
        raise InputError("no such file", where=path)
    if (size := path.stat().st_size) > _LARGEST:
        raise InputError("too large for a tokenizer", where=path, got=f"{size} bytes", expected=f"at most {_LARGEST}")
    return path.read_bytes()


def open_tokenizer(data: bytes, *, where: str) -> Tokenizer:
    """Load a `tokenizer.json`, with truncation and padding switched off: nothing is cut in silence.

    Raises:
        InputError: not a tokenizer.
    """
    with Foreign("not a tokenizer.json that tokenizers can read", where):
        tokenizer = Tokenizer.from_str(data.decode())
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return tokenizer
