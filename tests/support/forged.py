"""Artifacts whose files or manifests were changed by somebody who made the hashes right again."""

import io
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts import MANIFEST, hash_bytes

HUGE = 10**18
_EXACT = {"empty": b"", "null": b"null", "list": b"[]", "object": b"{}", "deep": b"[" * 5_000}
_VALUES: dict[str, object] = {
    "absent": ..., "null": None, "text": "32x", "huge": HUGE, "negative": -1, "zero": 0, "list": [], "deep": [[[]]],
}  # fmt: skip


def sealed(folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Make a manifest that fits the files again, after it was changed itself."""
    path = folder / MANIFEST
    body = json.loads(path.read_bytes())
    body.pop("blake3", None)
    for entry in body["outputs"]:
        data = (folder / entry["path"]).read_bytes()
        entry |= {"bytes": len(data), "blake3": hash_bytes(data)}
    change(body)
    _write(path, body)


def _write(path: Path, body: dict[str, Any]) -> None:
    text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    path.write_bytes(json.dumps(body | {"blake3": hash_bytes(text)}).encode())


def forge_file(folder: Path, name: str, data: bytes) -> None:
    """Put other bytes into one of the files."""
    (folder / name).write_bytes(data)
    sealed(folder)


def file_forgeries(name: str, data: bytes, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of what somebody may put into the place of a file."""
    rng = random.Random(f"{seed} {name}")
    yield from _EXACT.items()
    yield "random", rng.randbytes(300)
    yield "cut", data[: len(data) // 2]
    for number in range(3):
        at = rng.randrange(len(data))
        yield f"byte {number}", data[:at] + rng.randbytes(1) + data[at + 1 :]
    kinds = {".json": _of_json, ".npy": _of_arrays, ".parquet": _of_tables, ".safetensors": _of_tensors}
    if make := kinds.get(Path(name).suffix):
        yield from make(data)


def fact_forgeries(facts: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and content of other facts."""
    yield "no facts", {}
    for name in facts:
        for what, value in _VALUES.items():
            others = {key: old for key, old in facts.items() if key != name}
            yield f"{name} {what}", others if value is ... else others | {name: value}


def _of_json(data: bytes) -> Iterator[tuple[str, bytes]]:
    body = json.loads(data)
    if not isinstance(body, dict):
        return
    for what, facts in fact_forgeries(body):
        yield what, json.dumps(facts).encode()
    for name, inner in body.items():
        for what, facts in fact_forgeries(inner) if isinstance(inner, dict) and len(inner) < 12 else ():
            yield f"{name}.{what}", json.dumps(body | {name: facts}).encode()


def _of_arrays(data: bytes) -> Iterator[tuple[str, bytes]]:
    array = np.load(io.BytesIO(data), allow_pickle=False)
    for what, other in {
        "no rows": array[:0], "fewer": array[:-1], "two axes": array[None], "turned": array[::-1],
        "twice": np.concatenate([array, array]),
    }.items():  # fmt: skip
        yield what, saved(other)
    if array.dtype.kind in "iu":
        most = np.iinfo(array.dtype).max
        for what, other in {
            "largest": np.full_like(array, most), "zeros": np.zeros_like(array), "floats": array.astype(np.float64),
            "below": np.full_like(array, -1) if array.dtype.kind == "i" else array,
        }.items():  # fmt: skip
            yield what, saved(other)
    header = re.compile(rb"\([\d, ]*\)")
    for what, shape in {
        "giant": b"(1152921504606846976,)",
        "brackets": b"(" * 60,
        "tabs": b"\t\t\n",
        "minus": b"(-1,)",
    }.items():
        yield what, header.sub(shape, data[:300], count=1) + data[300:]
    yield "objects", header.sub(b"(4,)", data[:300].replace(b"<i8", b"|O "), count=1) + data[300:]


def saved(array: np.ndarray[Any, Any]) -> bytes:
    """The bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _of_tables(data: bytes) -> Iterator[tuple[str, bytes]]:
    table = pq.read_table(io.BytesIO(data))
    yield "no rows", _table(table.slice(0, 0))
    yield "one row", _table(table.slice(0, 1))
    yield "twice", _table(pa.concat_tables([table, table]))
    for name in table.column_names:
        yield f"without {name}", _table(table.drop_columns([name]))
        at = table.column_names.index(name)
        yield f"{name} as text", _table(table.set_column(at, name, pa.array(["x"] * len(table))))
        yield f"{name} missing", _table(table.set_column(at, name, pa.nulls(len(table), table.schema.field(at).type)))
        yield f"{name} wider", _table(table.set_column(at, name, pa.array([[1.0, 2.0]] * len(table))))


def _table(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _of_tensors(data: bytes) -> Iterator[tuple[str, bytes]]:
    from safetensors.numpy import load, save

    tensors = load(data)
    yield "none", save({})
    for name in [name for name, tensor in tensors.items() if tensor.ndim][:4]:
        others = {key: np.ascontiguousarray(value) for key, value in tensors.items() if key != name}
        one = tensors[name]
        yield f"without {name}", save(others)
        yield (
            f"{name} turned",
            save(others | {name: np.ascontiguousarray(one.T[..., :-1] if one.ndim > 1 else one[:-1])}),
        )
        if one.dtype.kind == "f":
            yield f"{name} not finite", save(others | {name: np.full_like(one, np.nan)})
        yield f"{name} whole", save(others | {name: one.astype(np.int64)})
        yield f"{name} empty", save(others | {name: one[:0]})
    length = int.from_bytes(data[:8], "little")
    yield "giant header", (1 << 60).to_bytes(8, "little") + data[8:]
    yield "deep header", (5_000).to_bytes(8, "little") + b"[" * 5_000 + data[8 + length :]
