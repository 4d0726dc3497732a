"""Sources of text as the stages and the pipeline see them: names, hashes, and what is no source."""

from collections.abc import Iterable
from pathlib import Path

from wordpipe.artifacts.hashing import HashCache, hash_bytes
from wordpipe.artifacts.manifest import InputEntry
from wordpipe.artifacts.reader import is_artifact
from wordpipe.corpus.sources import Sources, fingerprint
from wordpipe.errors import ArtifactError, InputError
from wordpipe.stages.making import PathLike

__all__ = ["as_list", "entries_of", "file_entry", "refuse_artifacts"]

_LISTED = 1000


def as_list(paths: PathLike | Iterable[PathLike]) -> list[str]:
    """One path or many, as strings."""
    return [str(paths)] if isinstance(paths, (str, Path)) or hasattr(paths, "__fspath__") else [str(p) for p in paths]


def entries_of(sources: Sources) -> list[InputEntry]:
    """What a manifest says of sources: name, size and content hash. A stream must have been read before.

    Many sources become one entry, a hash over all of theirs: a manifest should stay readable.
    """
    cache = HashCache()
    entries = fingerprint(sources, cache.hash_file)
    cache.save()
    if len(entries) > _LISTED:
        digest = hash_bytes("\n".join(f"{e['name']}\t{e['blake3']}" for e in entries).encode())
        size = sum(int(e["bytes"]) for e in entries)
        return [InputEntry(kind="source", digest=digest, path=f"{len(entries)} sources", bytes=size)]
    return [
        InputEntry(kind="source", digest=str(e["blake3"]), path=str(e["name"]), bytes=int(e["bytes"])) for e in entries
    ]


def file_entry(path: Path) -> InputEntry:
    """A single file that a setting names.

    Raises:
        InputError: no such file.
    """
    if not path.is_file():
        raise InputError("no such file", where=path)
    data = path.read_bytes()
    return InputEntry(kind="file", digest=hash_bytes(data), path=path.name, bytes=len(data))


def refuse_artifacts(sources: Iterable[str]) -> None:
    """An artifact is no source of text: its tables would be read as if they were someone's data.

    Raises:
        ArtifactError: a source is an artifact.
    """
    for source in sources:
        if is_artifact(Path(source)):
            raise ArtifactError("this is an artifact, not a source of text", where=source, hint="name files or folders")
