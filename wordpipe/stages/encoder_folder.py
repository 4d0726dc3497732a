"""A folder with a text encoder of another program, before it is opened: its files, its size, what it says of itself."""

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordpipe.artifacts import parse_json_object, read_regular_file
from wordpipe.errors import WordpipeError

if TYPE_CHECKING:
    import os

    from wordpipe.artifacts import Kind


_MODULES, _CONFIG, _README = "modules.json", "config.json", "README.md"
_READ = {".json", ".safetensors", ".txt", ".md"}  # endings of files that are read
_DEEPEST_FOLDER, _LOOKED_AT = (
    6,
    1_000,
)  # levels and folders in which an encoder is looked for: the cache of a hub has four
_DEEPEST = 3  # names of a path at most: 1_Pooling/config.json has two
_MAX_TEXT = 1 << 20  # bytes of a config, or of what the folder says of itself
_FRONT = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
_ENTRY = re.compile(r"(license|license_name|license_link|base_model|model_name):[ \t]*(\S.*)")
_SIZES = (  # ours, their keys, and what it usually is
    ("dim", ("hidden_size", "dim", "d_model"), 256.0),
    ("layers", ("num_hidden_layers", "n_layers", "num_layers"), 0.0),
)


def imported_kind(path: "str | os.PathLike[str]") -> "Kind":
    """Return the kind of artifact that `import` makes of a file or folder: model of a folder with an encoder, else words."""
    folder = Path(path)
    return "model" if any((folder / name).is_file() for name in (_MODULES, _CONFIG)) else "words"


def encoder_near(path: Path) -> Path | None:
    """Return the folder with an encoder below a folder; where the path does not exist, below the nearest folder that does."""
    while not path.is_dir():
        if path == path.parent:
            return None
        path = path.parent
    level, looked_at = [path], 0
    for _ in range(_DEEPEST_FOLDER):
        folders: list[Path] = []
        for one in level:
            if (one / _MODULES).is_file() or ((one / _CONFIG).is_file() and [*one.glob("*.safetensors")]):
                return one
            with suppress(OSError):
                folders += sorted(inner for inner in islice(one.iterdir(), _LOOKED_AT) if inner.is_dir())
        looked_at += len(folders)
        level = folders if looked_at < _LOOKED_AT else []
    return None


def file_names(folder: Path) -> list[str]:
    """Return the files of a folder with an encoder that may be read, by their names from the folder, in order."""
    found = (one for one in folder.rglob("*") if one.suffix in _READ and one.is_file())
    names = (one.relative_to(folder).as_posix() for one in found)
    kept = (name for name in names if name.count("/") < _DEEPEST and not any(p[:1] == "." for p in name.split("/")))
    return sorted(kept)


def encoder_size(folder: Path) -> dict[str, Any]:
    """Return what an estimate needs to know of an encoder's folder: form, dim, layers, parameters, bytes, files.

    Of a folder whose config cannot be read usual figures.
    """
    names, known = file_names(folder), dict[str, Any]()
    weights = sum((folder / name).stat().st_size for name in names if name.endswith(".safetensors"))
    with suppress(WordpipeError, OSError):
        known = parse_json_object(read_regular_file(folder / _CONFIG, _MAX_TEXT, what="a config"), _CONFIG)
    sizes = {
        ours: next((float(known[key]) for key in keys if type(known.get(key)) is int), usual)
        for ours, keys, usual in _SIZES
    }
    form = "transformer" if sizes["layers"] else "static"
    return {"form": form, **sizes, "parameters": weights / 4, "bytes": float(weights), "files": float(len(names))}


def origin_of(folder: Path) -> dict[str, Any]:
    """Return what an encoder's folder says of itself: origin (its name), licence, and made_from, where it says so."""
    said: dict[str, str] = {}
    card = folder / _README
    if card.is_file() and card.stat().st_size <= _MAX_TEXT:
        text = read_regular_file(card, _MAX_TEXT, what="a model card").decode("utf-8", "replace")
        front = _FRONT.match(text.replace("\r\n", "\n"))
        for line in front[1].split("\n") if front else ():
            if entry := _ENTRY.match(line):
                said[entry[1]] = entry[2].strip().strip("\"'")
    licence = said.get("license")
    if licence in (None, "other"):
        licence = said.get("license_name") or said.get("license_link") or licence
    about = {"origin": said.get("model_name") or folder.resolve().name, "licence": licence}
    return about | ({"made_from": said["base_model"]} if "base_model" in said else {})
