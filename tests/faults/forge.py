"""Forged artifacts: files and manifests changed, and every hash made right again. A hash is no signature."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wordpipe.artifacts import Manifest, OutputEntry, digest_of, hash_file

Change = Callable[[dict[str, Any]], None]


def forge(source: Path, target: Path, *, change: Change | None = None, files: dict[str, bytes | Callable[[bytes], bytes]] | None = None) -> None:
    """Copy an artifact and change it, so that all hashes agree.

    Args:
        source: a whole artifact.
        target: a folder that is not there.
        change: is given the manifest, to change it.
        files: path → its new content, or what makes it of the old one.
    """
    shutil.copytree(source, target)
    for name, content in (files or {}).items():
        path = target / name
        path.write_bytes(content(path.read_bytes()) if callable(content) else content)
    body = json.loads((target / "manifest.json").read_bytes())
    del body["blake3"]
    for output in body["outputs"]:
        path = target / output["path"]
        if path.is_file():
            output["bytes"], output["blake3"] = path.stat().st_size, _hash(path)
    body["digest"] = digest_of(OutputEntry(**output) for output in body["outputs"])
    if change is not None:
        change(body)
    (target / "manifest.json").write_bytes(_signed(body))


def _signed(body: dict[str, Any]) -> bytes:
    """The manifest with a hash of itself, whatever is in it: Manifest.to_bytes would refuse some of it."""
    made = Manifest.model_construct(**body)
    made.model_dump = lambda **_: body  # type: ignore[method-assign]
    return made.to_bytes()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return str(hash_file(file.fileno()))
