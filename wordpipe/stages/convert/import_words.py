"""`wordpipe import`: word vectors of another program → words."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from wordpipe.artifacts import HashCache, InputEntry, hash_bytes, is_artifact, words_schema
from wordpipe.corpus import ExpansionLimit, compression_of, decompress_blocks, read_blocks
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.stages.calls import public
from wordpipe.stages.inputs import reading
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.text.vocabularies import given_tokenizers
from wordpipe.words import WordFile, WordFilter, folder_files, open_folder, open_stream
from wordpipe.words.settings import ImportSettings

_LEFT_OUT = {
    "repeated": "words that come again are left out, the first vector of each is kept",
    "bad_bytes": "words that are not UTF-8 are left out",
    "zero": "words whose vectors are zero are left out",
}


@public(ImportSettings)
def import_words(file: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Make a words artifact of word vectors that another program trained.

    It is `wordpipe import`, a word that Python keeps for itself.

    Args:
        file: in word2vec's text or binary format (fastText's .vec too) or in GloVe's, also .gz, .bz2, .xz and .zst; or a
            folder with vectors.npy, words.txt and, maybe, counts.npy.
        output: folder of the words artifact.
        run: progress, fresh start, verification.
        settings: fields of `ImportSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> _ = wordpipe.export("run/words", "glove", "glove.txt")
        >>> made = wordpipe.import_words("glove.txt", output="new/words")
        >>> with wordpipe.open(made, "words") as words:
        ...     words.dim, "water" in words
        (24, True)
    """
    chosen = ImportSettings.make(settings)
    path = Path(file)
    with open_job("words", output, chosen, run) as job:
        job.libraries = ("numpy", "pyarrow", "zstandard")
        # the words that are kept, with their vectors
        with reading(job, vectors_entry, path), ExitStack() as stack:
            if chosen.tokenizer is not None:
                given_tokenizers(job, chosen.tokenizer, pairs=False)
            found = _open(job, path, chosen, stack)
            words = WordFilter(found, limit=chosen.limit, skip_bad_bytes=chosen.bad_bytes == "skip", name=path.name)
            with job.table("words", words_schema(found.dim)) as writer:
                for table in words.tables():
                    for batch in table.to_batches():
                        writer.write(batch)
                    job.rates = {"words_per_s": round(words.kept / max(job.clock.seconds, 1e-9), 1)}

        # what was left out, and what readers of the artifact need to know
        left_out = {"repeated": words.repeated, "bad_bytes": words.bad_bytes, "zero": words.zero}
        job.counts = {"words": words.kept} | {f"dropped_{why}": number for why, number in left_out.items()}
        job.facts |= {
            "dim": found.dim, "unit": chosen.unit, "keep_case": words.keep_case, "format": found.format,
            "counts": "known" if words.counts_known else "unknown",
        }  # fmt: skip
        for why, number in left_out.items():
            if number:
                job.warn(f"{_LEFT_OUT[why]}: {number:,}")
    return job.made


def vectors_entry(path: PathLike) -> InputEntry:
    """What a manifest says of a file of word vectors, or of a folder of arrays: name, size and content hash.

    Raises:
        InputError: nothing there, or a folder without the files.
        ArtifactError: it is an artifact already.
    """
    path = Path(path)
    if is_artifact(path):
        raise ArtifactError("this is an artifact already", where=path, hint="use it as it is")
    if not path.exists():
        raise InputError("no such file", where=path, hint="name a file of word vectors, or a folder with vectors.npy")
    files = folder_files(path) if path.is_dir() else [path]
    if not all(one.is_file() for one in files):
        raise InputError("not a file that can be read twice", where=path, hint="write it to a file first")
    cache = HashCache()
    hashes = [cache.hash_file(one) for one in files]
    cache.save()
    listed = "\n".join(f"{one.name}\t{value}" for one, value in zip(files, hashes, strict=True))
    digest = hash_bytes(listed.encode()) if path.is_dir() else hashes[0]
    size = sum(one.stat().st_size for one in files)
    return InputEntry(kind="file", digest=digest, path=path.name or ".", bytes=size)


def _open(job: Job, path: Path, settings: ImportSettings, stack: ExitStack) -> WordFile:
    """Open the folder; or the file, decompressed as its first bytes say, with reports of how much has been read."""
    if path.is_dir():
        if settings.format not in ("auto", "numpy"):
            raise ConfigError("this format is a file", where="format", got=settings.format, hint="name the file itself")
        return open_folder(path, name=path.name)
    file, total, done = stack.enter_context(path.open("rb")), path.stat().st_size, 0

    def note(block: bytes) -> None:
        nonlocal done
        done += len(block)
        speed = done / 1e6 / max(job.clock.seconds, 1e-9)
        job.report("reading", round(done / 1e6, 1), round(total / 1e6, 1), "MB", **{"MB/s": f"{speed:.1f}"})

    compression = compression_of(file.read(16))
    file.seek(0)
    growth = ExpansionLimit(path.name, settings.max_expand)
    blocks = decompress_blocks(read_blocks(file, path.name, note), compression, growth)
    return open_stream(blocks, settings.format, name=path.name)
