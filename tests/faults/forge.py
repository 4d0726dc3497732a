"""Forged artifacts: files and manifests changed, and every hash made right again. A hash is no signature."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wordpipe.artifacts import Manifest, OutputEntry, digest_of, hash_bytes

Change = Callable[[dict[str, Any]], None]


def forge(
    source: Path,
    target: Path,
    *,
    change: Change | None = None,
    files: dict[str, bytes | Callable[[bytes], bytes]] | None = None,
) -> None:
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
        before = path.read_bytes()  # a file that is not there is a mistake of the case
        path.write_bytes(content(before) if callable(content) else content)
    body = json.loads((target / "manifest.json").read_bytes())
    del body["blake3"]
    for output in body["outputs"]:
        path = target / output["path"]
        if path.is_file():
            output["bytes"], output["blake3"] = path.stat().st_size, hash_bytes(path.read_bytes())
    body["digest"] = digest_of(OutputEntry(**output) for output in body["outputs"])
    if change is not None:
        change(body)
    (target / "manifest.json").write_bytes(_Forged(body).to_bytes())


class _Forged:
    """What a manifest writes, of any body: Manifest itself would refuse some of them."""

    to_bytes = Manifest.to_bytes

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def model_dump(self, **_: object) -> dict[str, Any]:
        return self._body
