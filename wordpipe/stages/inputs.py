"""The inputs of stages: files and folders that settings name, a corpus or text that is ingested on the fly."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wordpipe.artifacts import (
    TARGET,
    TOKENIZER,
    Artifact,
    DocumentStarts,
    HashCache,
    InputEntry,
    Kind,
    is_artifact,
    open_regular_file,
    read_batches,
)
from wordpipe.errors import ArtifactError, InputError, StorageError
from wordpipe.stages.job import Job, Made, PathLike, RunOptions
from wordpipe.stages.sources import SourceLike, joint_hash, named_or_rows, refuse_headless

_TOKENIZER_FILES = (
    "added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.json",
    "vocab.txt", TARGET + TOKENIZER,
)  # fmt: skip
_MODEL_FILES = ("config.json", "model.safetensors.index.json", "tokenizer.json")


@dataclass(frozen=True)
class SentArtifact:
    """An artifact that another process opens by its path, where it is still the same.

    Attributes:
        path: the folder.
        kind: of artifact.
        digest: of its content.
    """

    path: Path
    kind: Kind
    digest: str

    @classmethod
    def of(cls, artifact: Artifact) -> "SentArtifact":
        """Describe an open artifact for another process: path, kind and digest."""
        return cls(artifact.place, artifact.kind, artifact.digest)

    def open(self, stack: ExitStack) -> Artifact:
        """Open the artifact; the stack closes it again.

        Raises:
            ArtifactError: another one stands there by now, or none.
        """
        found = stack.enter_context(Artifact(self.path, [self.kind], verify=False))
        if found.digest != self.digest:
            what = "the artifact was replaced while it was in use"
            raise ArtifactError(what, where=self.path, got=found.digest, expected=self.digest)
        return found


@contextmanager
def reading(job: Job, entry_of: Callable[[Path], InputEntry], path: Path) -> Iterator[None]:
    """Record a file or folder of another program as an input, which the block reads.

    What is gone after that was whole: who trains for hours may remove it meanwhile.

    Raises:
        StorageError: it was changed while it was read, so that nobody can say what was read.
    """
    entry = entry_of(path)
    job.inputs.append(entry)
    yield
    if path.exists() and entry_of(path) != entry:
        hint = "use a copy of the file, or wait until no program writes to the file"
        raise StorageError("the file has changed while it was read", where=path, hint=hint)


def file_entry(path: Path) -> InputEntry:
    """Return the manifest's entry of a file that a setting names, or of a folder of small files (a tokenizer's).

    Raises:
        InputError: nothing there, or a pipe or a device.
    """
    if path.is_dir():
        files = [path / name for name in _TOKENIZER_FILES if (path / name).is_file()]
    else:
        open_regular_file(path).close()
        files = [one for one in (path, Path(f"{path}.json")) if one.is_file()]
    cache = HashCache()
    hashes = [(_name_in(path, one), cache.hash_file(one)) for one in files]
    cache.save()
    digest = hashes[0][1] if files == [path] else joint_hash(hashes)
    return InputEntry(kind="file", digest=digest, path=path.name or ".", bytes=sum(one.stat().st_size for one in files))


def model_entry(path: PathLike) -> InputEntry:
    """Return the manifest's entry of a Hugging Face model folder: config, weights and tokenizer, by their content.

    Raises:
        InputError: no such folder, or one without a config or weights.
        ArtifactError: an artifact that lost its manifest.
    """
    path = Path(path)
    refuse_headless(path)
    files = sorted(one for one in path.glob("*") if one.name in _MODEL_FILES or one.suffix == ".safetensors")
    files += [one for one in (path / TARGET / TOKENIZER,) if one.is_file()]
    if not path.is_dir() or not any(one.name == "config.json" for one in files):
        expected = "a model artifact, or a folder with config.json and *.safetensors"
        raise InputError("not a model", where=path, expected=expected)
    cache = HashCache()
    digest = joint_hash((_name_in(path, one), cache.hash_file(one)) for one in files)
    cache.save()
    return InputEntry(kind="file", digest=digest, path=path.name or ".", bytes=sum(one.stat().st_size for one in files))


def _name_in(folder: Path, file: Path) -> str:
    """Return the name of a file beside or in what a setting names."""
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) and file != folder else file.name


def open_corpus(job: Job, corpus: SourceLike) -> Artifact:
    """Open the corpus of a stage; sources and rows in memory are ingested into the job's scratch folder.

    Raises:
        WordpipeError: as from `ingest`, or the artifact is of another kind.
    """
    paths, rows = named_or_rows(corpus)
    if len(paths) == 1 and is_artifact(Path(paths[0])):
        return job.open_input(paths[0], ["corpus"])
    made = _ingest(paths if rows is None else rows, job.scratch, job.run)
    artifact = job.keep_open(Artifact(made.path, ["corpus"]))
    job.inputs += artifact.manifest.inputs
    job.counts |= {f"ingest_{name}": count for name, count in made.counts.items()}
    job.warnings += made.warnings
    return artifact


@contextmanager
def corpus_to_evaluate(data: SourceLike, run: RunOptions) -> Iterator[tuple[Artifact, bool]]:
    """Open an input corpus to be read only, and whether it was made here of sources.

    Raises:
        WordpipeError: as from `ingest`, or the artifact is of another kind.
    """
    paths, rows = named_or_rows(data)
    if len(paths) == 1 and is_artifact(Path(paths[0])):
        with Artifact(paths[0], ["corpus"], verify=run.verify) as artifact:
            yield artifact, False
        return
    with TemporaryDirectory(prefix="wordpipe-") as folder:
        made = _ingest(paths if rows is None else rows, Path(folder), run)
        with Artifact(made.path, ["corpus"], verify=False) as artifact:
            yield artifact, True


def _ingest(sources: SourceLike, folder: Path, run: RunOptions) -> Made:
    """Ingest sources or rows into a corpus in a temporary folder."""
    from wordpipe.stages.corpus.ingest import ingest

    return ingest(sources, output=folder / "corpus", run=RunOptions(report=run.report))


def whole_records(
    corpus: Artifact, columns: Sequence[str], split: str | None = None
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the records of an input corpus, each with its number of rows, with the whole of its text.

    Args:
        corpus: is read a few thousand rows at a time.
        columns: that are wanted; doc_id, sentence_id, text and split are read in any case.
        split: of which; None: of all.
    """
    starts, record, texts, done = DocumentStarts(), dict[str, Any](), list[str](), 0
    for batch in read_batches(corpus, "corpus", [*{*columns, "doc_id", "sentence_id", "text", "split"}]):
        for row, is_first in zip(batch.to_pylist(), starts.of(batch) if len(batch) else (), strict=True):
            if is_first and record and split in (None, record["split"]):
                yield record | {"text": "".join(texts)}, done
            if is_first:
                record, texts = row, []
            texts.append(row["text"])
            done += 1
    if record and split in (None, record["split"]):
        yield record | {"text": "".join(texts)}, done
