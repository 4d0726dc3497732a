"""`wordpipe export`: words and tokenizers → the formats of other programs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wordpipe.artifacts.files import whole_file, whole_folder
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ConfigError
from wordpipe.stages.making import PathLike, storage_errors
from wordpipe.tokens.formats.writing import FOLDERS, FORMATS, Export, export_tokenizer
from wordpipe.words.formats import word2vec_binary, word2vec_text
from wordpipe.words.table import WordVectors

__all__ = ["export", "export_words"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_WRITERS: dict[str, Callable[[WordVectors], Iterator[bytes]]] = {
    "word2vec-text": word2vec_text,
    "word2vec-binary": word2vec_binary,
}


def export(artifact: PathLike, form: str, output: PathLike) -> dict[str, Any]:
    """Write what an artifact holds in another program's format, whole or not at all.

    Args:
        artifact: words; or tokens or a model, of which the tokenizer is written.
        form: word2vec-text or word2vec-binary for words; tokenizer-json, vocab-txt, vocab-merges, transformers or tiktoken
            for a tokenizer.
        output: the file (or, for vocab-merges and transformers, the folder) to write; an older one is replaced in one step.

    Returns:
        path and bytes; words and dim, or tokens and notes (what the format leaves out).

    Raises:
        ConfigError: no such format, one for other artifacts, or one that cannot hold this tokenizer.
        WordpipeError: see wordpipe/errors.py.
    """
    if form in _WRITERS:
        return export_words(artifact, form, output)
    if form not in FORMATS:
        raise ConfigError("unknown format", where="form", got=form, expected=", ".join((*_WRITERS, *FORMATS)))
    return _export_tokenizer(artifact, form, Path(output))


def export_words(words: PathLike, form: str, output: PathLike) -> dict[str, Any]:
    """Write a words artifact as one file, whole or not at all.

    Args:
        words: a words artifact.
        form: word2vec-text or word2vec-binary.
        output: the file to write; an older one is replaced in one step.

    Returns:
        path, words, dim and bytes.
    """
    if form not in _WRITERS:
        raise ConfigError("unknown format", where="form", got=form, expected=", ".join(_WRITERS))
    _refuse_folder(output)
    with storage_errors(), Artifact(words, ["words"]) as artifact:
        table = WordVectors.from_batches(read_batches(artifact, "words"))
        with whole_file(Path(output)) as file:
            for chunk in _WRITERS[form](table):
                file.write(chunk)
            size = file.size
        return {"path": str(output), "words": len(table), "dim": table.dim, "bytes": size}


def _export_tokenizer(path: PathLike, form: str, output: Path) -> dict[str, Any]:
    with storage_errors(), Artifact(path, ["tokens", "model"]) as artifact:
        data = artifact.read("tokenizer.json")
        made = export_tokenizer(data, form, output.name, where=str(artifact.path / "tokenizer.json"))
        if form == "transformers" and artifact.kind == "model":  # it has these files, with the model's own settings
            made = Export({name: artifact.read(name) for name in _TOKENIZER_FILES}, made.tokens)
        if form in FOLDERS:
            whole_folder(output, made.files)
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


def _refuse_folder(output: PathLike) -> None:
    if Path(output).is_dir() or str(output) == "-":
        raise ConfigError("this format is a file", where="output", got=output, hint="name a file with -o")
