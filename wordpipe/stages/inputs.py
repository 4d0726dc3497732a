"""The inputs of stages: sources of text and their hashes, a corpus or text ingested on the fly, the previous artifact."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from wordpipe.artifacts import Artifact, HashCache, InputEntry, hash_bytes, is_artifact
from wordpipe.corpus import Source, Sources, fingerprint
from wordpipe.errors import ArtifactError, InputError
from wordpipe.stages.job import Job, Made, PathLike, RunOptions

_MAX_ENTRIES = 1000
_TOKENIZER_FILES = (
    "added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.json",
    "vocab.txt",
)  # fmt: skip
_MODEL_FILES = ("config.json", "model.safetensors.index.json", "tokenizer.json")


def as_list(paths: PathLike | Iterable[PathLike]) -> list[str]:
    """One path or many, as strings."""
    return [str(paths)] if isinstance(paths, (str, Path)) or hasattr(paths, "__fspath__") else [str(p) for p in paths]


def entries_of(sources: Sources) -> list[InputEntry]:
    """The manifest entries of sources: name, size and content hash. A stream must have been read before."""
    return listed_entries(fingerprints(sources))


def fingerprints(sources: Iterable[Source]) -> list[dict[str, str | int]]:
    """Name, bytes and BLAKE3 of each source, files that have not changed since they were last hashed not read again."""
    cache = HashCache()
    entries = fingerprint(sources, cache.hash_file)
    cache.save()
    return entries


def listed_entries(entries: list[dict[str, str | int]]) -> list[InputEntry]:
    """The manifest entries of sources with these fingerprints.

    Many sources become one entry, a hash over all of theirs: a manifest should stay readable.
    """
    found = [(str(entry["name"]), str(entry["blake3"]), int(entry["bytes"])) for entry in entries]
    if len(found) > _MAX_ENTRIES:
        digest = _joint_hash((name, digest) for name, digest, _ in found)
        size = sum(size for _, _, size in found)
        return [InputEntry(kind="source", digest=digest, path=f"{len(found)} sources", bytes=size)]
    return [InputEntry(kind="source", digest=digest, path=name, bytes=size) for name, digest, size in found]


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
    hashes = [(one.name, hash_bytes(one.read_bytes())) for one in files]
    digest = hashes[0][1] if files == [path] else _joint_hash(hashes)
    return InputEntry(kind="file", digest=digest, path=path.name or ".", bytes=sum(one.stat().st_size for one in files))


def model_entry(path: Path) -> InputEntry:
    """A folder of transformers that a setting names: its config, its weights and its tokenizer, by their content.

    Raises:
        InputError: no such folder, or one without a config or weights.
    """
    files = sorted(one for one in path.glob("*") if one.name in _MODEL_FILES or one.suffix == ".safetensors")
    if not path.is_dir() or not any(one.name == "config.json" for one in files):
        expected = "a model artifact, or a folder with config.json and *.safetensors"
        raise InputError("not a model", where=path, expected=expected)
    cache = HashCache()
    digest = _joint_hash((one.name, cache.hash_file(one)) for one in files)
    cache.save()
    return InputEntry(kind="file", digest=digest, path=path.name or ".", bytes=sum(one.stat().st_size for one in files))


def _joint_hash(files: Iterable[tuple[str, str]]) -> str:
    """One hash of the names and hashes of many files."""
    return hash_bytes("\n".join(f"{name}\t{digest}" for name, digest in files).encode())


def refuse_artifacts(sources: Iterable[str]) -> None:
    """An artifact is no source of text: its tables would be read as if they were someone's data.

    Raises:
        ArtifactError: a source is an artifact.
    """
    for source in sources:
        if is_artifact(Path(source)):
            raise ArtifactError("this is an artifact, not a source of text", where=source, hint="name files or folders")


def previous_artifact(job: Job, instead: str) -> Artifact | None:
    """Open the artifact at the job's output, of the job's kind; None, and a note why, where there is none or it is damaged.

    A damaged one is no error: what is made takes its place, as it would without `--update`.

    Args:
        job: the job; closes it.
        instead: what is done without it, for the note.
    """
    if not is_artifact(job.output):
        job.note(f"nothing to update at {job.output}: {instead}")
        return None
    try:
        return job.keep_open(Artifact(job.output, [job.kind], verify=job.run.verify))
    except ArtifactError as error:
        job.note(f"what is at {job.output} cannot be used ({error.what}): {instead}")
        return None


def open_corpus(job: Job, corpus: PathLike | Iterable[PathLike]) -> Artifact:
    """The corpus to work on. Sources are ingested into the job's scratch folder with the default settings.

    Raises:
        WordpipeError: as from `ingest`, or the artifact is of another kind.
    """
    paths = as_list(corpus)
    if len(paths) == 1 and is_artifact(Path(paths[0])):
        return job.open_input(paths[0], ["corpus"])
    made = _ingest(paths, job.scratch, job.run)
    artifact = job.keep_open(Artifact(made.path, ["corpus"]))
    job.inputs += artifact.manifest.inputs
    job.counts |= {f"ingest_{name}": count for name, count in made.counts.items()}
    job.warnings += made.warnings
    return artifact


@contextmanager
def corpus_to_evaluate(data: PathLike | Iterable[PathLike], run: RunOptions) -> Iterator[tuple[Artifact, bool]]:
    """A corpus to be read only, and whether it was made here: sources become one in a temporary folder, gone afterwards.

    Raises:
        WordpipeError: as from `ingest`, or the artifact is of another kind.
    """
    paths = as_list(data)
    if len(paths) == 1 and is_artifact(Path(paths[0])):
        with Artifact(paths[0], ["corpus"], verify=run.verify) as artifact:
            yield artifact, False
        return
    with TemporaryDirectory(prefix="wordpipe-") as folder:
        made = _ingest(paths, Path(folder), run)
        with Artifact(made.path, ["corpus"], verify=False) as artifact:
            yield artifact, True


def _ingest(sources: list[str], folder: Path, run: RunOptions) -> Made:
    """Make a corpus in a folder that is soon gone."""
    from wordpipe.stages.text.ingest import ingest

    refuse_artifacts(sources)
    return ingest(sources, output=folder / "corpus", run=RunOptions(report=run.report))
