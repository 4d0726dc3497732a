"""Vectors of sentences, words and indexes in plain formats, a few thousand rows in memory at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches, read_schema, row_count
from wordpipe.artifacts.writer import whole_file, whole_folder
from wordpipe.errors import ConfigError
from wordpipe.words.formats.writing import FILES, FOLDER_NAMES, FOLDERS, WordTable

__all__ = ["VECTOR_FORMATS", "export_vectors"]

VECTOR_FORMATS = ("npy", "word2vec-text", "word2vec-binary", "projector")
_METADATA_TSV = "metadata.tsv"


def export_vectors(artifact: Artifact, form: str, output: Path) -> dict[str, Any]:
    """Write the vectors of an open artifact, whole or not at all.

    Args:
        artifact: sentences, words or an index.
        form: npy: a file that `numpy.load(FILE, mmap_mode="r")` maps, one row per vector in the artifact's order;
            word2vec-text and word2vec-binary: a file, the row's id in place of a word; projector: a folder with vectors.tsv
            and metadata.tsv, every column but the vector.
        output: the file or folder.

    Returns:
        path, vectors, dim, bytes; files, where it is a folder.
    """
    if form not in VECTOR_FORMATS:
        raise ConfigError(
            f"not a format of {artifact.kind}", where="form", got=form, expected=", ".join(VECTOR_FORMATS)
        )
    table = _table(artifact)
    written: dict[str, Any] = {"path": str(output), "vectors": table.size, "dim": table.dim}
    if form == "projector":
        files = {**FOLDERS["projector"](table), _METADATA_TSV: _metadata(artifact)}
        sizes = whole_folder(output, files, may_replace=FOLDER_NAMES["projector"])
        return {**written, "bytes": sum(sizes.values()), "files": sorted(sizes)}
    chunks = FOLDERS["numpy"](table)["vectors.npy"] if form == "npy" else FILES[form](table)
    with whole_file(output) as file:
        for chunk in chunks:
            file.write(chunk)
        return {**written, "bytes": file.size}


def _table(artifact: Artifact) -> WordTable:
    """The rows as a table of words: the word is the row's id, counted from 0."""

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in read_batches(artifact, artifact.kind, ["vector"]):
            ids = pa.array(np.arange(first, first + len(batch))).cast(pa.string())
            arrays = {"word": ids, "vector": batch.column("vector")}
            yield pa.record_batch({name: arrays[name] for name in columns})
            first += len(batch)

    return WordTable(row_count(artifact, artifact.kind), int(artifact.manifest.facts["dim"]), False, batches)


def _metadata(artifact: Artifact) -> Iterator[bytes]:
    """Every column but the vector, under its name; tabs and line ends, which part columns and rows, become spaces."""
    names = [name for name in read_schema(artifact, artifact.kind).names if name != "vector"]
    yield ("\t".join(names) + "\n").encode()
    for batch in read_batches(artifact, artifact.kind, names):
        columns = [_plain(batch.column(name)) for name in names]
        lines = pc.binary_join_element_wise(*columns, "\t", null_handling="replace", null_replacement="")
        yield "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _plain(column: pa.Array) -> pa.Array:
    """As text on one line."""
    nested = pa.types.is_nested(column.type)
    text = pa.array([str(value) for value in column.to_pylist()]) if nested else column.cast(pa.string())
    return pc.replace_substring_regex(text, r"[\t\n\r\v\f]+", " ")
