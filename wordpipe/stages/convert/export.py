"""`wordpipe export`: words, vectors of texts, encoders and tokenizers → the formats of other programs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    Kind,
    atomic_file,
    atomic_folder,
    check_output,
    read_batches,
    read_schema,
    row_count,
    rows_without_vector,
    visible_columns,
)
from wordpipe.errors import ConfigError
from wordpipe.stages.calls import public
from wordpipe.stages.job import PathLike, storage_errors
from wordpipe.tokens import FOLDERS as TOKENIZER_FOLDERS
from wordpipe.tokens import FORMATS, ExportedTokenizer, export_tokenizer
from wordpipe.words import FILES, FOLDERS, WordTable, check_words, vector_files, without_controls

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
WORD_FORMATS = (*FILES, *FOLDERS)
VECTOR_FORMATS = ("npy", "word2vec-text", "word2vec-binary", "projector")
ENCODER_FORMATS = ("sentence-transformers",)


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
    """The words of a table; or the vectors of sentences or an index, where row numbers take the place of words.

    npy is the vectors alone, one row each in the artifact's order; projector has every column of texts as metadata. A few
    thousand rows are in memory at a time.
    """
    if form not in FOLDERS:
        _refuse_folder(output)
    with storage_errors(output), Artifact(path, kinds) as artifact:
        facts, size, is_words = artifact.manifest.facts, row_count(artifact, artifact.kind), artifact.kind == "words"
        if not is_words and form not in VECTOR_FORMATS:
            expected = ", ".join(VECTOR_FORMATS)
            raise ConfigError(f"not a format of {artifact.kind}", where="form", got=form, expected=expected)
        counted = is_words and facts.get("counts") != "unknown"
        batches = partial(read_batches, artifact, "words") if is_words else partial(_numbered_rows, artifact)
        table = WordTable(size, artifact.fact("dim", int, least=1), counted, batches)
        about = {"path": str(output), "words" if is_words and form != "npy" else "vectors": size, "dim": table.dim}
        if without := len(rows_without_vector(artifact)):
            about["without_vector"] = without  # zeros, so that the rows are those of the artifact
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
    """The rows as those of a table of words: the word is the row's number, counted from 0."""
    first = 0
    for batch in read_batches(artifact, artifact.kind, ["vector"]):
        ids = pa.array(np.arange(first, first + len(batch))).cast(pa.string())
        arrays = {"word": ids, "vector": batch.column("vector")}
        yield pa.record_batch({name: arrays[name] for name in columns})
        first += len(batch)


def _metadata(artifact: Artifact) -> Iterator[bytes]:
    """Every column but the vector, under its name; tabs and line ends, which part columns and rows, become spaces."""
    schema = read_schema(artifact, artifact.kind)
    shown = {column: name for name, column in visible_columns(schema).items()}
    names = [name for name in schema.names if name != "vector"]
    yield ("\t".join(re.sub(r"\s+", " ", shown[name]) for name in names) + "\n").encode()
    for batch in read_batches(artifact, artifact.kind, names):
        columns = [_plain(batch.column(name)) for name in names]
        lines = pc.binary_join_element_wise(*columns, "\t", null_handling="replace", null_replacement="")
        yield "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _plain(column: pa.Array) -> pa.Array:
    """As text on one line."""
    nested = pa.types.is_nested(column.type)
    no_text = nested or pa.types.is_binary(column.type) or pa.types.is_duration(column.type)
    text = pa.array([str(value) for value in column.to_pylist()]) if no_text else column.cast(pa.string())
    return without_controls(pc.replace_substring_regex(text, r"[\t\n\r\v\f]+", " "))


def _export_encoder(path: PathLike, output: Path) -> dict[str, Any]:
    from wordpipe.stages.convert.export_encoder import encoder_facts, encoder_files, sentence_transformers_folder

    with storage_errors(output), Artifact(path, ["model", "sentences", "index"]) as artifact:
        encoder = encoder_files(artifact)
        files = sentence_transformers_folder(encoder, where=str(path))
        vector_files = _folder(output, {name: [content] for name, content in files.items()})
        return {"path": str(output), **encoder_facts(encoder), **vector_files}


def _export_tokenizer(path: PathLike, form: str, output: Path, *, replace: bool) -> dict[str, Any]:
    with storage_errors(output), Artifact(path, ["tokens", "model"]) as artifact:
        data = artifact.read("tokenizer.json")
        made = export_tokenizer(data, form, output.name, where=str(artifact.path / "tokenizer.json"))
        if form == "transformers" and artifact.kind == "model":  # it has these files, with the model's own settings
            made = ExportedTokenizer({name: artifact.read(name) for name in _TOKENIZER_FILES}, made.tokens)
        second = TOKENIZER_B if artifact.kind == "tokens" else TARGET + TOKENIZER
        if second in artifact.names():
            made.notes.append(f"it is that of the first texts; that of the second ones is {artifact.path / second}")
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
    with atomic_file(path) as file:
        for chunk in chunks:
            file.write(chunk)
        return {"bytes": file.size}


def _folder(path: Path, files: Mapping[str, Iterable[bytes]], may_replace: Iterable[str] = ()) -> dict[str, Any]:
    sizes = atomic_folder(path, files, may_replace=frozenset(may_replace))
    return {"bytes": sum(sizes.values()), "files": sorted(sizes)}


def _refuse_folder(output: Path) -> None:
    if output.is_dir() or str(output) == "-":
        raise ConfigError("this format is a file", where="output", got=output, hint="name a file with -o")
