"""Sizes of sources of text and of artifacts, as far as their names, their bytes and their manifests say."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordpipe.artifacts import Artifact, Manifest

if TYPE_CHECKING:
    from wordpipe.corpus import Sources

_COMPRESSED = 3.3  # bytes out of one of .gz, .bz2, .xz, .zst
_ENDING = re.compile(r"\.(\w+?)(\.(?:gz|bz2|xz|zst))?$")


@dataclass(frozen=True)
class Size:
    """How large sources or an artifact are, known or foretold; 0 where it has no such thing."""

    form: str = ""  # the format of sources; the kind of an encoder: static, transformer, words
    files: float = 0.0
    bytes: float = 0.0  # of sources, or of text
    documents: float = 0.0
    sentences: float = 0.0
    words: float = 0.0  # running words
    distinct: float = 0.0
    tokens: float = 0.0
    vocab: float = 0.0
    rows: float = 0.0  # that have a vector
    dim: float = 0.0
    parameters: float = 0.0
    layers: float = 0.0
    disk: float = 0.0


def size_of_sources(sources: "Sources | Path") -> Size:
    """The size of sources of text, or of one file or folder of another program."""
    if isinstance(sources, Path):
        files = [sources] if sources.is_file() else [one for one in sources.glob("*") if one.is_file()]
        return Size(bytes=sum(one.stat().st_size for one in files), files=len(files))
    return size_of_files([(source.name, source.bytes) for source in sources])


def size_of_artifact(path: Path) -> Size:
    """The size of an artifact.

    Raises:
        ArtifactError: there is none, or it is damaged.
    """
    with Artifact(path, verify=False) as artifact:
        return size_of_manifest(artifact.manifest)


def size_of_manifest(manifest: Manifest) -> Size:
    """The size of an artifact, as far as its manifest knows."""
    counts, facts = manifest.counts, manifest.facts
    disk = float(sum(entry.bytes for entry in manifest.outputs))
    return replace(SIZES[manifest.kind](counts, facts), disk=disk)


SIZES: dict[str, Callable[[Mapping[str, int], Mapping[str, Any]], Size]] = {
    "corpus": lambda n, _: Size(
        bytes=n.get("bytes_kept", 0), documents=n.get("documents_kept", 0), sentences=n.get("sentences", 0),
        words=n.get("bytes_kept", 0) / 6.3, tokens=n.get("bytes_kept", 0) / 3.9,
    ),
    "tokens": lambda n, facts: Size(
        words=n.get("words", 0), distinct=n.get("distinct_words", 0), tokens=n.get("tokens", 0),
        sentences=n.get("sentences", 0), vocab=float(facts.get("vocab_size", 0)), bytes=n.get("words", 0) * 6.3,
    ),
    "words": lambda n, facts: Size(form="words", rows=n.get("distinct_kept", 0), dim=float(facts.get("dim", 0))),
    "model": lambda n, facts: Size(
        form="static" if facts.get("encoder") == "static" else "transformer", dim=float(facts.get("dim", 0)),
        parameters=n.get("parameters", 0), layers=float(facts.get("n_layers", 0)),
    ),
    "sentences": lambda n, facts: Size(rows=n.get("sentences", 0), dim=float(facts.get("dim", 0))),
    "index": lambda n, facts: Size(rows=n.get("vectors", 0), dim=float(facts.get("dim", 0))),
    "clusters": lambda n, _: Size(rows=n.get("texts", 0)),
    "predictions": lambda n, _: Size(rows=n.get("texts", 0)),
}  # fmt: skip


def size_of_files(files: Sequence[tuple[str, float]]) -> Size:
    """The size of named sources; the format is that of most bytes."""
    from wordpipe.corpus import ENDINGS

    by_form: dict[str, float] = {}
    for name, size in files:
        ending = _ENDING.search(name.lower())
        reader = ENDINGS.get(f".{ending[1]}") if ending else None
        form = reader.name if reader is not None and reader.read else "txt"
        form = "python" if name.startswith("python:") else form
        unpacked = size * (_COMPRESSED if ending and ending[2] else 1.0)
        by_form[form] = by_form.get(form, 0.0) + unpacked
    form = max(by_form, key=lambda one: by_form[one], default="txt")
    return Size(form=form, files=len(files), bytes=sum(by_form.values()))
