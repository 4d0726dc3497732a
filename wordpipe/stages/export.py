"""`wordpipe export`: words → the formats of the word2vec tool."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wordpipe.artifacts.files import whole_file
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ConfigError
from wordpipe.stages.making import PathLike, storage_errors
from wordpipe.words.formats import word2vec_binary, word2vec_text
from wordpipe.words.table import WordVectors

__all__ = ["export_words"]

_WRITERS: dict[str, Callable[[WordVectors], Iterator[bytes]]] = {
    "word2vec-text": word2vec_text,
    "word2vec-binary": word2vec_binary,
}


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
    if Path(output).is_dir() or str(output) == "-":
        raise ConfigError("export writes a file", where="output", got=output, hint="name a file with -o")
    with storage_errors(), Artifact(words, ["words"]) as artifact:
        table = WordVectors.from_batches(read_batches(artifact, "words"))
        with whole_file(Path(output)) as file:
            for chunk in _WRITERS[form](table):
                file.write(chunk)
            size = file.size
        return {"path": str(output), "words": len(table), "dim": table.dim, "bytes": size}
