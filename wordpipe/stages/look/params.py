"""`wordpipe show MODEL --params`: the parts of a model, the shapes of their weights, and how many numbers they are."""

import math
import re
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from wordpipe.artifacts import Artifact, is_artifact, open_regular_file, parse_json_object
from wordpipe.errors import ArtifactError
from wordpipe.stages.job import PathLike
from wordpipe.stages.sources import refuse_headless

_MAX_FILE = 1 << 40  # bytes
_INDEX = "model.safetensors.index.json"
_BLOCK = re.compile(r"(?<=\.)\d+(?=\.)")


def parameters(path: PathLike) -> dict[str, Any]:
    """The parts of a model; no weights are read, only what the file says of them.

    Args:
        path: a model artifact, or a folder of transformers.

    Returns:
        path, architecture, class (of transformers, None for our own format), parameters (their number as they are stored:
        tied ones once, with the two rows of BART's tables that no position uses) and parts: for each part its name, its
        parameters and its weights: name as it is stored, with # for the numbers of several blocks, shape, dtype, times (how
        many blocks have it) and parameters of all of them.

    Raises:
        ArtifactError: no model, or one that our blocks do not compute.
    """
    folder = Path(path)
    if is_artifact(folder) or not folder.is_dir():
        with Artifact(folder, ["model"], verify=False) as artifact:
            return {"path": str(path), **_parameters(artifact.names(), artifact.open, str(folder))}
    refuse_headless(folder)
    names = [one.name for one in folder.iterdir()]

    def open_file(name: str) -> BinaryIO:
        return open_regular_file(folder / name, limit=_MAX_FILE, what="a file of a model")

    return {"path": str(path), **_parameters(names, open_file, str(folder))}


def _parameters(
    names: Collection[str], open_file: Callable[[str], AbstractContextManager[BinaryIO]], where: str
) -> dict[str, Any]:
    from wordpipe.model import CONFIG, PARTS, WEIGHTS, StoredWeight, parts_of, read_header

    def read_json(name: str) -> dict[str, Any]:
        with open_file(name) as file:
            return parse_json_object(file.read(), name)

    files = [WEIGHTS]
    if WEIGHTS not in names and _INDEX in names:
        places = read_json(_INDEX).get("weight_map")
        files = sorted({str(file) for file in places.values()}) if isinstance(places, dict) else []
    if missing := [file for file in files or [WEIGHTS] if file not in names]:
        raise ArtifactError("no weights of a model there", where=where, expected=missing[0])
    weights: dict[str, StoredWeight] = {}
    for name in files:
        with open_file(name) as file:
            weights |= read_header(file, f"{where}/{name}")
    architecture, class_name, part_of = parts_of(list(weights), read_json(CONFIG) if CONFIG in names else None)
    rows: dict[tuple[str, str, StoredWeight], list[str]] = {}
    for name, weight in weights.items():
        rows.setdefault((part_of[name], _BLOCK.sub("#", name, count=1), weight), []).append(name)
    parts: list[dict[str, Any]] = []
    for part in PARTS:
        own: list[dict[str, Any]] = [
            {"name": name if len(alike) > 1 else alike[0], "shape": list(weight.shape), "dtype": weight.dtype,
             "times": len(alike), "parameters": math.prod(weight.shape) * len(alike)}
            for (of, name, weight), alike in rows.items() if of == part
        ]  # fmt: skip
        if own:
            parts.append({"part": part, "parameters": sum(one["parameters"] for one in own), "weights": own})
    return {
        "architecture": architecture,
        "class": class_name,
        "parameters": sum(one["parameters"] for one in parts if one["part"] != "not counted"),
        "parts": parts,
    }
