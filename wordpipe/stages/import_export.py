"""`wordpipe import` and `wordpipe export`: files of other programs.

Word vectors become words, text encoders become models (see `import_encoder`). Words, vectors of texts, encoders and
tokenizers become files of other programs.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import (
    TARGET,
    TOKENIZER,
    TOKENIZER_B,
    Artifact,
    HashCache,
    InputEntry,
    Kind,
    atomic_file,
    atomic_folder,
    check_output,
    hash_bytes,
    is_artifact,
    read_batches,
    read_schema,
    refuse_without_vectors,
    row_count,
    rows_without_vector,
    visible_columns,
    words_schema,
)
from wordpipe.corpus import ExpansionLimit, compression_of, decompress_blocks, read_blocks
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.stages.encoder_folder import encoder_near, imported_kind
from wordpipe.stages.import_encoder import encoder_entry, import_encoder
from wordpipe.stages.inputs import reading
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.tokens import FOLDERS as TOKENIZER_FOLDERS
from wordpipe.tokens import FORMATS, ExportedTokenizer, export_tokenizer
from wordpipe.words import (
    FILES,
    FOLDERS,
    VECTORS_NPY,
    WordFile,
    WordFilter,
    WordTable,
    check_words,
    folder_files,
    open_folder,
    open_stream,
    vector_files,
    without_controls,
)
from wordpipe.words.settings import ImportSettings

_LEFT_OUT = {
    "repeated": "repeated words are left out, and the first vector of each word is kept",
    "bad_bytes": "words that are not valid UTF-8 are left out",
    "zero": "words with a zero vector are left out",
}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
WORD_FORMATS = (*FILES, *FOLDERS)
VECTOR_FORMATS = ("npy", "word2vec-text", "word2vec-binary", "projector")
ENCODER_FORMATS = ("sentence-transformers",)


@public(ImportSettings)
def import_words(file: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Make a words artifact of word vectors that another program trained, or a model artifact of its text encoder.

    It is `wordpipe import`; `import` is a reserved word of Python.

    Args:
        file: in word2vec's text or binary format (fastText's .vec too) or in GloVe's, also .gz, .bz2, .xz and .zst; or a
            folder with vectors.npy, words.txt and, maybe, counts.npy. Or a folder with a text encoder, of
            sentence-transformers, transformers (weights in safetensors) or model2vec.
        output: folder of the words or model artifact.
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
    if imported_kind(path) == "model":
        return import_encoder(path, output, chosen, run)
    with open_job("words", output, chosen, run) as job:
        job.libraries = ("numpy", "pyarrow")
        # the words that are kept, with their vectors
        with reading(job, vectors_entry, path), ExitStack() as stack:
            if chosen.tokenizer is not None:
                from wordpipe.stages.corpus.tokenize import given_tokenizers

                given_tokenizers(job, chosen.tokenizer, pairs=False)
            # filtered while they are read
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


def _hint_of_import(path: Path) -> str:
    """Return what can be imported instead of a path: the encoder that is near it, or a file or folder of some kind."""
    if (found := encoder_near(path)) is not None:
        return f"there is a text encoder: wordpipe import {shlex.quote(str(found))} -o ENCODER"
    return (
        "give a folder with a text encoder (config.json and model.safetensors), a file of word vectors, or a folder with "
        "vectors.npy and words.txt"
    )


def vectors_entry(path: PathLike) -> InputEntry:
    """Return the manifest's entry of imported word vectors, or of an encoder's folder: name, size and content hash.

    Raises:
        InputError: nothing there, or a folder without the files.
        ArtifactError: it is an artifact already.
    """
    path = Path(path)
    if is_artifact(path):
        raise ArtifactError("the input is already an artifact", where=path, hint="use the artifact without import")
    if not path.exists():
        raise InputError("the file or folder does not exist", where=path, hint=_hint_of_import(path))
    if imported_kind(path) == "model":
        return encoder_entry(path)
    if path.is_dir() and not (path / VECTORS_NPY).exists():
        raise InputError(
            "the folder has neither word vectors nor a text encoder", where=path, hint=_hint_of_import(path)
        )
    files = folder_files(path) if path.is_dir() else [path]
    if not all(one.is_file() for one in files):
        raise InputError("a pipe or a device cannot be read twice", where=path, hint="write the data to a file first")
    cache = HashCache()
    hashes = [cache.hash_file(one) for one in files]
    cache.save()
    listed = "\n".join(f"{one.name}\t{value}" for one, value in zip(files, hashes, strict=True))
    digest = hash_bytes(listed.encode()) if path.is_dir() else hashes[0]
    size = sum(one.stat().st_size for one in files)
    return InputEntry(kind="file", digest=digest, path=path.name or ".", bytes=size)


def _open(job: Job, path: Path, settings: ImportSettings, stack: ExitStack) -> WordFile:
    """Open word vectors to import, in a folder or a file (decompressed by its first bytes), with progress."""
    if path.is_dir():
        if settings.format not in ("auto", "numpy"):
            raise ConfigError(
                "this format is a single file, not a folder", where="format", got=settings.format, hint="give the file"
            )
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


@public()
def export(artifact: PathLike, form: str, output: PathLike, *, replace: bool = True) -> dict[str, Any]:
    """Write what an artifact holds in another program's format, whole or not at all.

    Args:
        artifact: words; sentences or an index, of which the vectors or the encoder are written; a model, of which the
            encoder or the tokenizer is; or tokens, of which the tokenizer is.
        form: word2vec-text, word2vec-binary, glove, numpy, npy or projector for words; npy, projector, word2vec-text or
            word2vec-binary for sentences; sentence-transformers for an encoder; tokenizer-json, vocab-txt, vocab-merges,
            transformers or tiktoken for a tokenizer.
        output: the file (or, for numpy, projector, an encoder, vocab-merges and transformers, the folder) to write; an older
            one is replaced in one step.
        replace: false refuses to replace anything.

    Returns:
        path and bytes; words and dim, vectors and dim, files and notes of an encoder, or tokens and notes (what the format
        leaves out).

    Raises:
        ConfigError: no such format, one for other artifacts, or one that cannot hold this tokenizer.
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.export("run/words", "word2vec-text", "words.txt")
        >>> made["dim"]
        24
    """
    is_file = form not in {*FOLDERS, *TOKENIZER_FOLDERS, *ENCODER_FORMATS}
    if str(output) != "-" and not (is_file and Path(output).is_dir()):  # which each format refuses in its own words
        check_output(Path(output), replace=replace)
    if form in ENCODER_FORMATS:
        return _export_encoder(artifact, Path(output))
    if form == "npy" or form in WORD_FORMATS:
        return _export_table(artifact, form, Path(output), ["sentences", "words", "index"])
    if form not in FORMATS:
        known = dict.fromkeys((*WORD_FORMATS, *VECTOR_FORMATS, *ENCODER_FORMATS, *FORMATS))
        raise ConfigError("unknown format", where="form", got=form, expected=", ".join(known))
    return _export_tokenizer(artifact, form, Path(output), replace=replace)


def _export_table(path: PathLike, form: str, output: Path, kinds: Sequence[Kind]) -> dict[str, Any]:
    """Export the words of a table, or the vectors of sentences or an index with row numbers in place of words.

    npy is the vectors alone, one row each in the artifact's order; projector has every column of texts as metadata. A few
    thousand rows are in memory at a time.
    """
    if form not in FOLDERS:
        _refuse_folder(output)
    with storage_errors(output), Artifact(path, kinds) as artifact:
        refuse_without_vectors(artifact)
        facts, size, is_words = artifact.manifest.facts, row_count(artifact, artifact.kind), artifact.kind == "words"
        if not is_words and form not in VECTOR_FORMATS:
            expected = ", ".join(VECTOR_FORMATS)
            what = f"an artifact of kind {artifact.kind} cannot be exported in this format"
            raise ConfigError(what, where="form", got=form, expected=expected)
        # the table, and what is said of it
        counted = is_words and facts.get("counts") != "unknown"
        batches = partial(read_batches, artifact, "words") if is_words else partial(_numbered_rows, artifact)
        table = WordTable(size, artifact.fact("dim", int, least=1), counted, batches)
        about = {"path": str(output), "words" if is_words and form != "npy" else "vectors": size, "dim": table.dim}
        if without := len(rows_without_vector(artifact)):
            about["without_vector"] = without  # zeros, so that the rows are those of the artifact
        # its files
        if form == "npy":
            return about | _file(output, vector_files(table, "numpy")["vectors.npy"])
        if is_words:
            check_words(table, form)
        files = vector_files(table, form)
        if form in FILES:
            return about | _file(output, files[form])
        return about | _folder(
            output, files if is_words else {**files, "metadata.tsv": _metadata(artifact)}, FOLDERS[form]
        )


def _numbered_rows(artifact: Artifact, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the vectors of sentences or an index to export as a table of words: the word is the row's number."""
    first = 0
    for batch in read_batches(artifact, artifact.kind, ["vector"]):
        ids = pa.array(np.arange(first, first + len(batch))).cast(pa.string())
        arrays = {"word": ids, "vector": batch.column("vector")}
        yield pa.record_batch({name: arrays[name] for name in columns})
        first += len(batch)


def _metadata(artifact: Artifact) -> Iterator[bytes]:
    """Yield the lines of the exported metadata.tsv: every column but the vector.

    Tabs and line ends in values become spaces.
    """
    schema = read_schema(artifact, artifact.kind)
    shown = {column: name for name, column in visible_columns(schema).items()}
    names = [name for name in schema.names if name != "vector"]
    yield ("\t".join(re.sub(r"\s+", " ", shown[name]) for name in names) + "\n").encode()
    for batch in read_batches(artifact, artifact.kind, names):
        columns = [_plain(batch.column(name)) for name in names]
        lines = pc.binary_join_element_wise(*columns, "\t", null_handling="replace", null_replacement="")
        yield "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _plain(column: pa.Array) -> pa.Array:
    """Return the exported values of a column as texts on one line."""
    nested = pa.types.is_nested(column.type)
    no_text = nested or pa.types.is_binary(column.type) or pa.types.is_duration(column.type)
    text = pa.array([str(value) for value in column.to_pylist()]) if no_text else column.cast(pa.string())
    return without_controls(pc.replace_substring_regex(text, r"[\t\n\r\v\f]+", " "))


def _export_encoder(path: PathLike, output: Path) -> dict[str, Any]:
    """Export the encoder of an artifact as a folder for sentence-transformers."""
    from wordpipe.stages.export_encoder import encoder_facts, encoder_files, sentence_transformers_folder

    with storage_errors(output), Artifact(path, ["model", "sentences", "index"]) as artifact:
        refuse_without_vectors(artifact)
        encoder = encoder_files(artifact)
        files = sentence_transformers_folder(encoder, where=str(path))
        vector_files = _folder(output, {name: [content] for name, content in files.items()})
        return {"path": str(output), **encoder_facts(encoder), **vector_files}


def _export_tokenizer(path: PathLike, form: str, output: Path, *, replace: bool) -> dict[str, Any]:
    """Export the tokenizer of tokens or of a model in another program's format."""
    with storage_errors(output), Artifact(path, ["tokens", "model"]) as artifact:
        data = artifact.read("tokenizer.json")
        made = export_tokenizer(data, form, output.name, where=str(artifact.path / "tokenizer.json"))
        if form == "transformers" and artifact.kind == "model":  # it has these files, with the model's own settings
            made = ExportedTokenizer({name: artifact.read(name) for name in _TOKENIZER_FILES}, made.tokens)
        second = TOKENIZER_B if artifact.kind == "tokens" else TARGET + TOKENIZER
        if second in artifact.names():
            made.notes.append(
                f"this is the tokenizer of the first texts; the tokenizer of the second texts is {artifact.path / second}"
            )
        if form in TOKENIZER_FOLDERS:
            _folder(output, {name: [content] for name, content in made.files.items()})
        else:
            _refuse_folder(output)
            for name in made.files:  # tiktoken has a second one beside it
                check_output(output.with_name(name), replace=replace)
            for name, content in made.files.items():
                _file(output.with_name(name), [content])
        size = sum(len(content) for content in made.files.values())
        files = sorted(made.files)
        return {"path": str(output), "tokens": made.tokens, "bytes": size, "files": files, "notes": made.notes}


def _file(path: Path, chunks: Iterable[bytes]) -> dict[str, Any]:
    """Write a file of an export in one step; return its size."""
    with atomic_file(path) as file:
        for chunk in chunks:
            file.write(chunk)
        return {"bytes": file.size}


def _folder(path: Path, files: Mapping[str, Iterable[bytes]], may_replace: Iterable[str] = ()) -> dict[str, Any]:
    """Write a folder of an export in one step; return its size and files."""
    sizes = atomic_folder(path, files, may_replace=frozenset(may_replace))
    return {"bytes": sum(sizes.values()), "files": sorted(sizes)}


def _refuse_folder(output: Path) -> None:
    """Refuse a folder or standard output for a format that is a file. Raises ConfigError."""
    if output.is_dir() or str(output) == "-":
        raise ConfigError(
            "this format can be written only to a file", where="output", got=output, hint="give a file name with -o"
        )
