"""`wordpipe export`: words, vectors of texts, encoders and tokenizers → the formats of other programs."""

from functools import partial
from pathlib import Path
from typing import Any

from wordpipe.artifacts.files import whole_file, whole_folder
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches, row_count
from wordpipe.errors import ConfigError
from wordpipe.removed import why_no_value
from wordpipe.stages.export_vectors import VECTOR_FORMATS, export_vectors
from wordpipe.stages.making import PathLike, storage_errors
from wordpipe.tokens.formats.writing import FOLDERS as TOKENIZER_FOLDERS
from wordpipe.tokens.formats.writing import FORMATS, Export, export_tokenizer
from wordpipe.words.formats.writing import FILES, FOLDER_NAMES, FOLDERS, WordTable, check_words

__all__ = ["ENCODER_FORMATS", "VECTOR_FORMATS", "WORD_FORMATS", "export", "export_words"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
WORD_FORMATS = (*FILES, *FOLDERS)
ENCODER_FORMATS = ("sentence-transformers",)


def export(artifact: PathLike, form: str, output: PathLike) -> dict[str, Any]:
    """Write what an artifact holds in another program's format, whole or not at all.

    Args:
        artifact: words; sentences or an index, of which the vectors or the encoder are written; a model, of which the
            encoder or the tokenizer is; or tokens, of which the tokenizer is.
        form: word2vec-text, word2vec-binary, glove, numpy, npy or projector for words; npy, projector, word2vec-text or
            word2vec-binary for sentences; sentence-transformers for an encoder; tokenizer-json, vocab-txt,
            vocab-merges, transformers or tiktoken for a tokenizer.
        output: the file (or, for numpy, projector, an encoder, vocab-merges and transformers, the folder) to write; an older
            one is replaced in one step.

    Returns:
        path and bytes; words and dim, vectors and dim, files and notes of an encoder, or tokens and notes (what the format
        leaves out).

    Raises:
        ConfigError: no such format, one for other artifacts, or one that cannot hold this tokenizer.
        WordpipeError: see wordpipe/errors.py.
    """
    if form in ENCODER_FORMATS:
        return _export_encoder(artifact, Path(output))
    if form == "npy" or (form in WORD_FORMATS and _holds_texts(artifact)):
        return _export_vectors(artifact, form, Path(output))
    if form in WORD_FORMATS:
        return export_words(artifact, form, output)
    if said := why_no_value("export", "to", form):
        raise ConfigError(said)
    if form not in FORMATS:
        known = dict.fromkeys((*WORD_FORMATS, *VECTOR_FORMATS, *ENCODER_FORMATS, *FORMATS))
        raise ConfigError("unknown format", where="form", got=form, expected=", ".join(known))
    return _export_tokenizer(artifact, form, Path(output))


def export_words(words: PathLike, form: str, output: PathLike) -> dict[str, Any]:
    """Write a words artifact in another program's format, whole or not at all, in memory that does not grow with it.

    Args:
        words: a words artifact.
        form: word2vec-text, word2vec-binary or glove, which are files; numpy or projector, which are folders.
        output: the file or folder to write; an older one is replaced in one step.

    Returns:
        path, words, dim and bytes; files, where it is a folder.

    Raises:
        ConfigError: no such format, or one that is a file and a folder is named.
        InputError: the format cannot hold one of the words.
        WordpipeError: see wordpipe/errors.py.
    """
    if form not in WORD_FORMATS:
        raise ConfigError("unknown format", where="form", got=form, expected=", ".join(WORD_FORMATS))
    if form in FILES:
        _refuse_folder(Path(output))
    with storage_errors(), Artifact(words, ["words"]) as artifact:
        table = _word_table(artifact)
        check_words(table, form)
        written: dict[str, Any] = {"path": str(output), "words": table.size, "dim": table.dim}
        if form in FILES:
            with whole_file(Path(output)) as file:
                for chunk in FILES[form](table):
                    file.write(chunk)
                return {**written, "bytes": file.size}
        sizes = whole_folder(Path(output), FOLDERS[form](table), may_replace=FOLDER_NAMES[form])
        return {**written, "bytes": sum(sizes.values()), "files": sorted(sizes)}


def _holds_texts(path: PathLike) -> bool:
    with storage_errors(), Artifact(path, verify=False) as artifact:
        return artifact.kind in ("sentences", "index")


def _export_vectors(path: PathLike, form: str, output: Path) -> dict[str, Any]:
    if form != "projector":
        _refuse_folder(output)
    with storage_errors(), Artifact(path, ["sentences", "words", "index"]) as artifact:
        return export_vectors(artifact, form, output)


def _export_encoder(path: PathLike, output: Path) -> dict[str, Any]:
    from wordpipe.stages.export_encoder import encoder_files, sentence_transformers_folder, told_of

    with storage_errors(), Artifact(path, ["model", "sentences", "index"]) as artifact:
        encoder = encoder_files(artifact)
        files = sentence_transformers_folder(encoder, where=str(path))
        sizes = whole_folder(output, {name: [content] for name, content in files.items()})
        return {"path": str(output), **told_of(encoder), "bytes": sum(sizes.values()), "files": sorted(sizes)}


def _word_table(artifact: Artifact) -> WordTable:
    return WordTable(
        size=row_count(artifact, "words"),
        dim=int(artifact.manifest.facts["dim"]),
        counts_known=artifact.manifest.facts.get("counts") != "unknown",
        batches=partial(read_batches, artifact, "words"),
    )


def _export_tokenizer(path: PathLike, form: str, output: Path) -> dict[str, Any]:
    with storage_errors(), Artifact(path, ["tokens", "model"]) as artifact:
        data = artifact.read("tokenizer.json")
        made = export_tokenizer(data, form, output.name, where=str(artifact.path / "tokenizer.json"))
        if form == "transformers" and artifact.kind == "model":  # it has these files, with the model's own settings
            made = Export({name: artifact.read(name) for name in _TOKENIZER_FILES}, made.tokens)
        if form in TOKENIZER_FOLDERS:
            whole_folder(output, {name: [content] for name, content in made.files.items()})
        else:
            _refuse_folder(output)
            for name, content in made.files.items():
                with whole_file(output.with_name(name)) as file:
                    file.write(content)
        size = sum(len(content) for content in made.files.values())
        return {
            "path": str(output),
            "tokens": made.tokens,
            "bytes": size,
            "files": sorted(made.files),
            "notes": made.notes,
        }


def _refuse_folder(output: Path) -> None:
    if output.is_dir() or str(output) == "-":
        raise ConfigError("this format is a file", where="output", got=output, hint="name a file with -o")
