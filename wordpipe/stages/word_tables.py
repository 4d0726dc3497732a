"""The tables of a words artifact: written after training, and read back to go on from."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts.layout import matrix_of, ngrams_schema, vector_column, vectors_schema, words_schema
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ArtifactError
from wordpipe.stages.making import Job
from wordpipe.words.all_but_the_top import CommonPart
from wordpipe.words.native.training import NativeTraining
from wordpipe.words.ngrams import NGrams
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.step import Training
from wordpipe.words.vocabulary import Vocabulary

__all__ = ["start_from", "write_tables"]

_ROWS = 16_384  # of a batch

Floats = npt.NDArray[np.float32]


def write_tables(
    job: Job, training: Training, words: pa.StringArray, vocabulary: Vocabulary, ngrams: NGrams | None, plan: Word2VecPlan
) -> None:  # fmt: skip
    """Write the words with their vectors, the n-grams with theirs, and what `--init` needs to go on."""
    vectors_VD = _chosen(training, plan)
    ngrams_GD = training.ngrams if isinstance(training, NativeTraining) else np.zeros((0, plan.dim), dtype=np.float32)
    if plan.remove_components:
        common = CommonPart.of(vectors_VD, plan.remove_components)
        vectors_VD, ngrams_GD = common.removed_from(vectors_VD), common.removed_from(ngrams_GD)
    _write(job, "words", words_schema(plan.dim), vectors_VD, words, pa.array(vocabulary.counts))
    if ngrams is not None:
        _write(job, "ngrams", ngrams_schema(plan.dim), ngrams_GD, ngrams.spelled)
    if plan.keep_outputs and plan.loss != "hs":
        _write(job, "outputs", vectors_schema(plan.dim), training.outputs)


def start_from(job: Job, training: Training, old: Artifact, words: pa.StringArray, ngrams: NGrams | None) -> None:
    """Fill a fresh training with the vectors of another words artifact, where it has them.

    Raises:
        ArtifactError: its vectors cannot be trained further, are of another kind, or of other words.
    """
    _refuse_misfit(job, old)
    arrays, dim = training.arrays(), int(old.manifest.facts["dim"])
    rows = _rows_in(old, "words", "word", words)
    found = np.zeros(len(words), dtype=np.bool_)
    found[rows[rows >= 0]] = True
    if not found.any():
        raise ArtifactError(
            "none of its words is in this text",
            where=old.path,
            hint="leave out --init, or give the tokens it was made of",
        )
    _copy(old, "words", rows, arrays["inputs"][:, :dim])
    if old.manifest.facts.get("outputs") and job.settings.model_dump()["loss"] != "hs":
        _copy(old, "outputs", rows, arrays["outputs"][:, :dim])
    else:
        job.warn("output vectors are not carried over (none were kept, or of another loss): they start at zero")
    if ngrams is not None and isinstance(training, NativeTraining):
        _copy(old, "ngrams", _rows_in(old, "ngrams", "ngram", ngrams.spelled), arrays["ngrams"][:, :dim])
        training.take_parts_away(found)
    job.counts |= {"words_from_init": int(found.sum()), "words_new": len(words) - int(found.sum())}
    job.counts["words_of_init_left_out"] = left_out = int((rows < 0).sum())
    if left_out:
        job.warn(f"{left_out:,} of its {len(rows):,} words are too rare in this text, or not there, and are left out")


def _chosen(training: Training, plan: Word2VecPlan) -> Floats:
    if plan.vectors == "inputs":
        return training.vectors
    return training.outputs if plan.vectors == "outputs" else training.vectors + training.outputs


def _write(job: Job, stem: str, schema: pa.Schema, vectors_VD: Floats, *columns: pa.Array) -> None:
    with job.table(stem, schema) as table:
        for first in range(0, len(vectors_VD), _ROWS):
            vectors = vector_column(vectors_VD[first : first + _ROWS])
            arrays = [*(column.slice(first, _ROWS) for column in columns), vectors]
            table.write(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _refuse_misfit(job: Job, old: Artifact) -> None:
    facts, settings = old.manifest.facts, job.settings.model_dump()
    wanted = {
        "dim": settings["dim"], "unit": settings["unit"], "vectors": "inputs", "remove_components": 0,
        "max_n": settings["max_n"], "min_n": settings["min_n"] if settings["max_n"] else 0,
    }  # fmt: skip
    found = {"vectors": "inputs", "remove_components": 0, "max_n": 0, "min_n": 0} | dict(facts)
    for name in ("vectors", "remove_components"):
        if found[name] != wanted[name]:
            raise ArtifactError(
                "these vectors were changed after their training, which cannot go on from there",
                where=old.path,
                got=f"{name} = {found[name]}",
                hint=f"train them without --{name.replace('_', '-')}, go on from those, and change the result",
            )
    for name, value in wanted.items():
        if found.get(name) != value:
            raise ArtifactError(
                f"training cannot go on from these vectors: {name} differs",
                where=old.path,
                got=f"{name} = {found.get(name)}",
                expected=f"{name} = {value}",
                hint="give the settings that they were trained with, or leave out --init",
            )


def _rows_in(old: Artifact, stem: str, column: str, spelled: pa.StringArray) -> npt.NDArray[np.int64]:
    """For every row of a table the row of `spelled` that says the same, (N,), -1 for none.

    All at once: each look-up builds a table of all that is spelled first, 30 ms for 400,000 words.
    """
    there = [batch.column(column) for batch in read_batches(old, stem, [column])]
    found = pc.index_in(pa.chunked_array(there, pa.string()), value_set=spelled)
    rows: npt.NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return rows


def _copy(old: Artifact, stem: str, rows: npt.NDArray[np.int64], target_VD: Floats) -> None:
    """Copy the vectors of a table to these rows, those at -1 to nowhere."""
    done = 0
    for batch in read_batches(old, stem, ["vector"]):
        here = rows[done : done + len(batch)]
        target_VD[here[here >= 0]] = matrix_of(batch.column("vector"))[here >= 0]
        done += len(batch)
