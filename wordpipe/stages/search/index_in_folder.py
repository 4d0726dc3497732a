"""The best index in a folder of artifacts or of a project, which answers for the folder."""

import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from wordpipe.artifacts import MANIFEST, Artifact, has_vectors, is_artifact, manifest_at, read_regular_file
from wordpipe.errors import ArtifactError, WordpipeError
from wordpipe.storage import url_of

CONFIG = "wordpipe.toml"
"""The config of a project: what `init` writes, and `run` and `status` read where none is named."""
_BEST, _FIRST = "index", "words-index"  # as the stages of a new project are called
_RUN = "run"  # where a config does not say otherwise
_LONGEST = 16 << 20  # bytes of a config
_LOOKED_AT = 1_000  # artifacts
_MOST_READ = 1 << 20  # bytes of a manifest that is read only to see whether an input has changed
_FARTHEST = 2  # inputs from an index to its corpus: sentences, corpus


def index_in(folder: Path) -> Path:
    """Return the index that answers for a folder; the path itself where it is an artifact, a URL or no folder.

    That is the artifact `index`; else the only index with vectors; else `words-index`, or the only one of words alone. Of a
    project, whose folder has a wordpipe.toml, the folder of its artifacts is looked at. So the answers become better as more
    stages are made.

    Raises:
        ArtifactError: there is no index, or none of several can be chosen.
    """
    there = dict[Path, bool]()
    with suppress(PermissionError):  # whoever reads the folder says so
        if url_of(folder) is None and folder.is_dir() and not is_artifact(folder):
            there = _indexes(folder)
    if not there:
        return folder
    with_vectors = [path for path, vectors in there.items() if vectors]
    chosen = _named(_BEST, there) or with_vectors or _named(_FIRST, there) or [*there]
    if len(chosen) > 1:
        got, hint = ", ".join(sorted(path.name for path in chosen)), f"name one of them: {min(chosen)}"
        raise ArtifactError("the folder has several indexes", where=folder, got=got, expected="one", hint=hint)
    return chosen[0]


def _named(name: str, paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if path.name == name]


def _indexes(folder: Path) -> dict[Path, bool]:
    """Return the indexes over texts in a folder or its project's, each with whether it has vectors."""
    found = dict[Path, bool]()
    for path in _artifacts(_workdir(folder) if (folder / CONFIG).is_file() else folder):
        with suppress(ArtifactError), Artifact(path, ["index"], verify=False) as artifact:
            if artifact.fact("of", str) == "sentences":
                found[path] = has_vectors(artifact)
    return found


def _artifacts(folder: Path) -> Iterator[Path]:
    """Yield the artifacts of a folder, by name."""
    for manifest in sorted(islice(folder.glob(f"*/{MANIFEST}"), _LOOKED_AT)):
        if not manifest.parent.name.startswith("."):
            yield manifest.parent


def _workdir(project: Path) -> Path:
    """Return the folder of a project's artifacts, as its config says; a config that cannot be read says nothing."""
    with suppress(WordpipeError, OSError, ValueError, RecursionError):
        workdir = tomllib.loads(read_regular_file(project / CONFIG, _LONGEST).decode("utf-8-sig")).get("workdir", _RUN)
        if isinstance(workdir, str):
            return project / workdir
    return project / _RUN


def changed_input(index: Artifact) -> Path | None:
    """Return the sentences or the corpus of which an index was made, if these have changed since; None otherwise.

    Only their manifests are read. What is no longer there, or is large or at a URL, counts as unchanged.
    """
    place, manifest = index.place, index.manifest
    if index.kind != "index" or url_of(str(place)) is not None:
        return None
    for _ in range(_FARTHEST):
        entry = next((one for one in manifest.inputs if one.kind in ("sentences", "corpus") and one.path), None)
        if entry is None or url_of(str(entry.path)) is not None:
            return None
        path = place.absolute().parent / str(entry.path)
        try:
            if (path / MANIFEST).stat().st_size > _MOST_READ:
                return None
            found = manifest_at(path)
        except (WordpipeError, OSError):
            return None
        if found.kind == entry.kind and found.digest != entry.digest:
            return path
        place, manifest = path, found
    return None
