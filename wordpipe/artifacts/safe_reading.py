"""Bytes that anyone may have written, read within bounds: JSON, NumPy arrays, files that a user names.

The hash in a manifest tells of accidents; it is no signature. So whatever is read may be forged, and whatever a reader or a
library raises over it becomes one error that names the file.
"""

import ast
import json
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar

from wordpipe.errors import ArtifactError, DamageError, InputError, StorageError, WordpipeError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")

MANIFEST = "manifest.json"
MAX_MANIFEST = 64 << 20  # bytes
MAX_LINE = 64 << 20  # bytes of a line; `ingest` takes none that is longer either
_OUR_TABLE = re.compile(r"(corpus|tokens|words|sentences|index|clusters|predictions)-\d{5}\.parquet")
_OUR_MODEL = {"model.safetensors", "steps.parquet", "tokenizer.json"}
_MAX_DEPTH = 200  # lists and objects in each other: who prints or copies them recurses, and Python allows about 1,000
_MAX_HEADER = 10_000  # bytes of the header of an array, as NumPy has it
_EXACT = 1 << 53
_NPY = b"\x93NUMPY"
_OLD_LONG = re.compile(r"(?<=\d)L\b")  # Python 2 wrote shapes so
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, RecursionError, struct.error)
_OF_LIBRARIES = ("ArrowException", "SafetensorError", "PanicException")  # by name: neither is imported here


def parse_json(
    data: bytes | str,
    where: str | Path,
    *,
    what: str = "not JSON",
    error: type[WordpipeError] = ArtifactError,
    hint: str | None = None,
    once: bool = False,
) -> Any:
    """Return the value that JSON says.

    Args:
        data: UTF-8, or text.
        where: file, and line, for the error.
        what: the error's sentence.
        error: its class.
        hint: its next step.
        once: refuse an object that has a name twice, of which the last value would count.

    Raises:
        WordpipeError: not JSON, not UTF-8, a number of thousands of digits, or nested more than 200 deep; of class `error`.
    """
    try:
        value = json.loads(data, object_pairs_hook=_without_repeats if once else None)
        # counting costs nothing; few texts have so many brackets that they could be nested so
        brackets = data.count(b"[") + data.count(b"{") if isinstance(data, bytes) else data.count("[") + data.count("{")
        if brackets > _MAX_DEPTH:
            _check_depth(value)
    except RecursionError:
        raise error(what, where=where, got="nested too deeply", hint=hint) from None
    except ValueError as wrong:
        raise error(what, where=where, got=str(wrong).partition("\n")[0][:200], hint=hint) from None
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of JSON of these names and values, read safely. Raises ValueError: one name is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"the name {next(name for name in found if names.count(name) > 1)[:100]!r} occurs twice in one JSON object"
        )
    return found


def parse_json_object(
    data: bytes | str, where: str | Path, *, error: type[WordpipeError] = ArtifactError, hint: str | None = None,
    once: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Parse JSON that must be an object. Raises WordpipeError of class `error`: as `parse_json`, or another value."""
    value = parse_json(data, where, error=error, hint=hint, once=once)
    if not isinstance(value, dict):
        raise error("not a JSON object", where=where, got=type(value).__name__, hint=hint)
    return value


def _check_depth(value: Any) -> None:
    """Raise RecursionError for a JSON value that is nested too deeply."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise RecursionError


def array_header(data: bytes) -> tuple[tuple[int, ...], bool, "np.dtype[Any]", int]:
    """Read the header of a .npy file safely: shape, True if columns come first, type, and where the numbers begin.

    NumPy's own reader hands a damaged header to Python's tokenizer and parser, each with errors of its own.

    Args:
        data: the file, or its first 11 kB.

    Raises:
        ValueError: no such header, or numbers that are Python objects.
    """
    import numpy as np

    if data[:6] != _NPY or len(data) < 12 or data[6] not in (1, 2, 3) or data[7]:
        raise ValueError("the file does not begin with the header of a .npy file")
    begin = 10 if data[6] == 1 else 12
    length = int.from_bytes(data[8:begin], "little")
    if length > _MAX_HEADER or len(data) < begin + length:
        raise ValueError(f"the header has a wrong length: {length:,} bytes")
    # the header is a dictionary of Python literals
    text = data[begin : begin + length].decode("utf-8" if data[6] == 3 else "latin-1")
    try:
        about = ast.literal_eval(_OLD_LONG.sub("", text).strip())
        shape, by_columns, kind = about["shape"], about["fortran_order"], np.dtype(about["descr"])
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError):
        raise ValueError("the header is damaged") from None
    # a shape of counts, and numbers that are no objects
    if not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"the shape is not valid: {str(shape)[:60]}")
    if not isinstance(by_columns, bool) or kind.hasobject:
        raise ValueError(
            "the array contains Python objects" if isinstance(by_columns, bool) else "the header is damaged"
        )
    return shape, by_columns, kind, begin + length


def array_bytes(shape: tuple[int, ...], kind: "np.dtype[Any]", have: int) -> None:
    """Compare a .npy file's header with the bytes behind it, for safe reading. Raises ValueError: fewer, or more."""
    wanted = kind.itemsize
    for size in shape:
        wanted *= size
    if wanted != have:
        raise ValueError(f"the array has {have:,} bytes, but its header says {wanted:,} bytes")


def parse_array(data: bytes) -> "npt.NDArray[Any]":
    """Read an array out of the bytes of a .npy file safely, without a copy. Raises ValueError: it is none, or not whole."""
    import numpy as np

    shape, by_columns, kind, begin = array_header(data)
    array_bytes(shape, kind, len(data) - begin)
    if not kind.itemsize or 0 in shape:
        return np.empty(shape, kind)
    return np.frombuffer(data, kind, offset=begin).reshape(shape, order="F" if by_columns else "C")


@contextmanager
def damage_named(
    where: str | Path | Callable[[], Path], what: str = "the file is damaged", hint: str | None = None
) -> Iterator[None]:
    """Take errors of reading in the block for damage of a file: only the reading may stand in the block.

    Args:
        where: the file, or what tells it when something was raised.
        what: the error's sentence.
        hint: its next step; None: to make the artifact again.

    Raises:
        ArtifactError: a reader or a library raised, or it took the file for the user's (InputError, ConfigError).
    """
    try:
        yield
    except WordpipeError as error:
        if isinstance(error, InputError) or error.exit_code == 2:
            _blame(where, error.what, str(error.got or ""), hint)
        raise
    except _DAMAGE as error:
        _blame(where, what, f"{error}", hint)
    except BaseException as error:
        # torch, faiss and tokenizers raise bare exceptions; a disk's error and memory have causes of their own
        bare = type(error) in (Exception, RuntimeError, AssertionError)
        if not bare and not {kind.__name__ for kind in type(error).__mro__} & {*_OF_LIBRARIES}:
            raise
        if "can't allocate memory" in str(error):
            raise
        _blame(where, what, f"{error}", hint)


def _blame(where: str | Path | Callable[[], Path], what: str, got: str, hint: str | None) -> NoReturn:
    """Raise the error of a damaged file; the message of a library is cut to one line."""
    where = where() if callable(where) else where
    raise DamageError(what, where=where, got=" ".join(got.split())[:200] or None, hint=hint) from None


def open_regular_file(path: Path, *, limit: int | None = None, what: str = "a file") -> BinaryIO:
    """Open a file that the user names, and no device, pipe or folder: these may wait for ever, or never end.

    Args:
        path: links are followed.
        limit: bytes that it may have, at most.
        what: what it is taken for, for the error.

    Raises:
        InputError: there is none, it is something else, or it is larger.
        StorageError: this user may not read it.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError("the file does not exist", where=path) from None
    except PermissionError:
        raise StorageError("permission denied: this user may not read the file", where=path) from None
    except (OSError, ValueError) as error:  # a socket, a circle of links, a name that is none
        raise InputError("the file cannot be opened", where=path, got=getattr(error, "strerror", error)) from None
    # what was opened: a file, and not too large
    about = os.fstat(fd)
    try:
        if stat.S_ISDIR(about.st_mode):
            raise InputError("this is a folder, not a file", where=path)
        if not stat.S_ISREG(about.st_mode):
            hint = "save the data in a file first"
            raise InputError("this is a pipe or a device, not a file", where=path, expected=what, hint=hint)
        # within bounds
        if limit is not None and about.st_size > limit:
            got = f"{about.st_size:,} bytes"
            raise InputError("the file is too large", where=path, got=got, expected=f"at most {limit:,}")
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_regular_file(path: Path, limit: int, *, what: str = "a file") -> bytes:
    """Return the content of a file that the user names. Raises WordpipeError: see `open_regular_file`."""
    with open_regular_file(path, limit=limit, what=what) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def holds_artifact(folder: Path) -> bool:
    """Return True if a folder has a manifest of ours, whole or damaged, read safely."""
    try:
        return is_ours(read_regular_file(folder / MANIFEST, MAX_MANIFEST), folder)
    except (InputError, StorageError, OSError):
        return False


def is_broken_artifact(folder: Path) -> bool:
    """Return True if a folder has tables, or the files of a model, that are called as ours are, and no manifest of ours."""
    return _has_our_files(folder) and not holds_artifact(folder)


def _has_our_files(folder: Path) -> bool:
    """True if a folder has files that are named as those of an artifact."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return False
    return any(map(_OUR_TABLE.fullmatch, names)) or {*names} >= _OUR_MODEL


def is_ours(manifest: bytes, folder: Path | None = None) -> bool:
    """Return True if a `manifest.json` is an artifact's, whole or damaged: web pages and browser extensions have one too.

    In a folder with files that are called as ours, one that is no JSON is a damaged manifest: without it a model's folder
    would be read as one of transformers.
    """
    try:
        body = parse_json(manifest, MANIFEST)
    except ArtifactError:
        return b'"wordpipe"' in manifest or (folder is not None and _has_our_files(folder))
    return isinstance(body, dict) and {"wordpipe", "kind"} <= body.keys()


def bounded_lines(file: BinaryIO, name: str, limit: int = MAX_LINE) -> Iterator[bytes]:
    r"""Yield the lines of a file with their `\n`. Raises InputError: a line is longer than `limit` bytes; names the line."""
    number = 0
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            expected = f"at most {limit:,} bytes"
            raise InputError("the line is too long", where=f"{name}, line {number}", expected=expected)
        yield line


def read_fact(
    facts: Mapping[str, Any],
    name: str,
    kind: type[T],
    where: str | Path,
    default: T | None = None,
    least: int | None = None,
) -> T:
    """Read a fact (a required value) of a manifest or another JSON object safely: its type is checked.

    Args:
        facts: the object.
        name: of the fact.
        kind: its type; a boolean is no number, and a whole number may stand for any.
        where: the file, for the error.
        default: what stands for one that is missing; without it, it has to be there.
        least: a number may not be smaller.

    Raises:
        ArtifactError: it is not there, of another type, or too small.
    """
    if (value := facts.get(name)) is None and default is not None:
        return default
    if kind is float and type(value) is int and abs(value) < _EXACT:
        value = float(value)
    # a number beyond 2^53 is a count of nothing, and no library takes it
    is_odd = isinstance(value, int | float) and not (-_EXACT < value < _EXACT and (least is None or value >= least))
    if type(value) is not kind or is_odd:
        expected = f"{name}: {kind.__name__}" + ("" if least is None else f" (at least {least})")
        got = value if isinstance(value, bool | int | float) else repr(value)
        what = "a value is missing" if value is None else "a value is wrong"
        raise DamageError(what, where=where, got=str(got)[:60], expected=expected)
    return value
