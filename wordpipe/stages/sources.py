"""Sources of text as the stages and the pipeline see them: names, hashes, and what is no source."""

from collections.abc import Iterable
from pathlib import Path

from wordpipe.artifacts.hashing import HashCache, hash_bytes
from wordpipe.artifacts.manifest import InputEntry
from wordpipe.artifacts.reader import is_artifact
from wordpipe.corpus.sources import Source, Sources, fingerprint
from wordpipe.errors import ArtifactError, InputError
from wordpipe.stages.making import PathLike

__all__ = ["as_list", "entries_of", "file_entry", "fingerprints", "listed_entries", "model_entry", "refuse_artifacts"]

_LISTED = 1000
_TOKENIZER_FILES = (
    "added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.json",
    "vocab.txt",
)  # fmt: skip

_MODEL_FILES = ("config.json", "model.safetensors.index.json", "tokenizer.json")


def as_list(paths: PathLike | Iterable[PathLike]) -> list[str]:
    """One path or many, as strings."""
    return [str(paths)] if isinstance(paths, (str, Path)) or hasattr(paths, "__fspath__") else [str(p) for p in paths]


def entries_of(sources: Sources) -> list[InputEntry]:
    """What a manifest says of sources: name, size and content hash. A stream must have been read before."""
    return listed_entries(fingerprints(sources))


def fingerprints(sources: Iterable[Source]) -> list[dict[str, str | int]]:
    """Name, bytes and BLAKE3 of each source, files that have not changed since they were last hashed not read again."""
    cache = HashCache()
    entries = fingerprint(sources, cache.hash_file)
    cache.save()
    return entries


def listed_entries(entries: list[dict[str, str | int]]) -> list[InputEntry]:
    """What a manifest says of sources with these fingerprints.

    Many sources become one entry, a hash over all of theirs: a manifest should stay readable.
    """
    if len(entries) > _LISTED:
        digest = hash_bytes("\n".join(f"{e['name']}\t{e['blake3']}" for e in entries).encode())
        size = sum(int(e["bytes"]) for e in entries)
        return [InputEntry(kind="source", digest=digest, path=f"{len(entries)} sources", bytes=size)]
    return [
        InputEntry(kind="source", digest=str(e["blake3"]), path=str(e["name"]), bytes=int(e["bytes"])) for e in entries
    ]


def file_entry(path: Path) -> InputEntry:
    """A file that a setting names, with the file beside it that belongs to it; or a folder of small files (a tokenizer's).

    Raises:
        InputError: nothing there.
    """
    if path.is_dir():
        files = [path / name for name in _TOKENIZER_FILES if (path / name).is_file()]
    else:
        files = [one for one in (path, Path(f"{path}.json")) if one.is_file()]
    if not path.exists():
        raise InputError("no such file", where=path)
    size = sum(one.stat().st_size for one in files)
    if files == [path]:
        return InputEntry(kind="file", digest=hash_bytes(path.read_bytes()), path=path.name, bytes=size)
    digest = hash_bytes("\n".join(f"{one.name}\t{hash_bytes(one.read_bytes())}" for one in files).encode())
    return InputEntry(kind="file", digest=digest, path=path.name or ".", bytes=size)


def model_entry(path: Path) -> InputEntry:
    """A folder of transformers that a setting names: its config, its weights and its tokenizer, by their content.

    Raises:
        InputError: no such folder, or one without a config or weights.
    """
    files = sorted(one for one in path.glob("*") if one.name in _MODEL_FILES or one.suffix == ".safetensors")
    if not path.is_dir() or not any(one.name == "config.json" for one in files):
        raise InputError(
            "not a model", where=path, expected="a model artifact, or a folder with config.json and *.safetensors"
        )
    cache = HashCache()
    listed = "\n".join(f"{one.name}\t{cache.hash_file(one)}" for one in files)
    cache.save()
    size = sum(one.stat().st_size for one in files)
    return InputEntry(kind="file", digest=hash_bytes(listed.encode()), path=path.name or ".", bytes=size)


def refuse_artifacts(sources: Iterable[str]) -> None:
    """An artifact is no source of text: its tables would be read as if they were someone's data.

    Raises:
        ArtifactError: a source is an artifact.
    """
    for source in sources:
        if is_artifact(Path(source)):
            raise ArtifactError("this is an artifact, not a source of text", where=source, hint="name files or folders")
