"""`wordpipe index --update`: the key that every row is found again by, and what the index at the output is good for."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import (
    ENCODER,
    TOKENIZER,
    Artifact,
    array_data,
    has_vectors,
    matched_rows,
    open_part,
    part_names,
    read_vectors,
    row_count,
    row_keys,
    rows_with_vector,
    vectors_there,
)
from wordpipe.errors import ArtifactError
from wordpipe.search.settings import KINDS, IndexSettings
from wordpipe.stages.job import Job
from wordpipe.stages.search.row_facts import beside_texts, reads_titles, searched_columns

_MAX_CHANGED_SHARE = 0.2  # of the rows that the lists were made for; they fit the rest less and less
_KEYS = "row_keys.npy"
_BYTES_TO_COUNT = 7  # bytes of memory that counting takes for each byte of text: 153 MB of 23 MB of sentences
_BYTES_TO_WEIGH = 5
"""And opening an encoder and asking it, for each byte of its files: 604 MB of a table of word vectors of 122."""


class IndexVectors:
    """The vectors of a sentences or words artifact, read as often as they are needed; of a corpus's rows there are none.

    The keys are made while the vectors stream by for the first time. Rows without a vector have a key and no vector: the
    vectors are numbered without them.

    Args:
        source: the artifact.

    Attributes:
        rows: all that there are, N.
        with_vector: (M,) those that have a vector; None: all.
        count: how many have one.
    """

    def __init__(self, source: Artifact) -> None:
        for name in part_names(source, source.kind):
            open_part(source, name).close()  # memory is asked for by the number of rows: it must be that of the files
        self.rows, self.dim = row_count(source, source.kind), source.fact("dim", int, least=0)
        self.with_vector = rows_with_vector(source)
        self.count = self.rows if self.with_vector is None else len(self.with_vector)
        self._source = source
        self._key_columns = _key_columns(source)
        self._fields = [] if source.kind == "words" else searched_columns(source)
        self._keys: npt.NDArray[np.uint64] | None = None

    def blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the vectors of the rows that have one, from the beginning, as (B, D) float32 blocks."""
        return vectors_there(self._all_blocks(), self.with_vector)

    def _all_blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        if self._keys is None:
            yield from self._first_reading()
        else:
            yield from (block for _, block in read_vectors(self._source, self._source.kind))

    def keys(self) -> npt.NDArray[np.uint64]:
        """Return the key of every row, (N,), by which it is found in a previous index."""
        if self._keys is None:
            for _ in self._first_reading():
                pass
        assert self._keys is not None
        return self._keys

    def _first_reading(self) -> Iterator[npt.NDArray[np.float32]]:
        """Read the rows for the first time: for their keys in a previous index, and their vectors."""
        keys = [np.zeros(0, dtype=np.uint64)]
        for named, block in read_vectors(self._source, self._source.kind, [*self._key_columns, *self._fields]):
            assert named is not None
            # a column without nulls as it is: `fill_null` imports pyarrow.compute, which takes 0.17 s
            columns = [named.column(name).chunk(0) for name in self._key_columns]
            columns = [one.fill_null("") if one.null_count else one for one in columns]
            keys.append(row_keys([*columns, *self._values_of(named)], block))
            yield block
        self._keys = np.concatenate(keys)

    def _values_of(self, named: pa.Table) -> list[pa.Array]:
        """Return the values of the fields of some rows as one column; none where no field is searched."""
        return [beside_texts(named, self._fields)] if self._fields else []


def _key_columns(source: Artifact) -> list[str]:
    """Return the columns that a row's key in a previous index is made of, beside its fields that are searched.

    The title is one where the lexical half counts its words: a new title of words that the encoder does not know leaves
    the vector as it was, and so does every field.
    """
    if source.kind == "words":
        return ["word"]
    return ["doc_id", "title", "text"] if reads_titles(source) else ["doc_id", "text"]


def bytes_after_build(source: Artifact) -> int:
    """Return the memory that an index needs after its vectors: to count words, and to measure the modes."""
    if source.kind != "sentences":
        return 0
    encoder = sum(entry.bytes for entry in source.manifest.outputs if entry.path.startswith(ENCODER))
    return _BYTES_TO_COUNT * _text_bytes(source) + _BYTES_TO_WEIGH * encoder


def _text_bytes(source: Artifact) -> int:
    """Return the bytes of the texts and of the searched fields of all rows, as Parquet's footers tell."""
    found, columns_read = 0, {"text", *searched_columns(source)}
    for name in part_names(source, source.kind):
        with open_part(source, name) as part:
            groups = [part.metadata.row_group(group) for group in range(part.metadata.num_row_groups)]
            columns = [group.column(at) for group in groups for at in range(group.num_columns)]
            found += sum(
                one.total_uncompressed_size for one in columns if one.path_in_schema.partition(".")[0] in columns_read
            )
    return found


def bundle_keys(job: Job, vectors: IndexVectors) -> None:
    """Write the keys into the index being made: the next update then need not read the old rows."""
    job.write(_KEYS, array_data(vectors.keys()))


def bundled_keys(index: Artifact) -> npt.NDArray[np.uint64]:
    """Read the keys of a previous index's rows, (M,).

    Raises:
        ArtifactError: they are not of its rows.
    """
    keys: npt.NDArray[np.uint64] = index.read_array(_KEYS)
    if keys.dtype != np.uint64 or keys.shape != (row_count(index, "index"),):
        what, hint = "the row keys do not match the index", "build the index again with: wordpipe index --fresh"
        raise ArtifactError(what, where=index.path / _KEYS, got=f"{keys.dtype}{keys.shape}", hint=hint)
    return keys


def lineage_of(source: Artifact) -> dict[str, str]:
    """Return the origin of a previous index's vectors, by digest: themselves and every file of their encoder.

    Two artifacts of the same encoder, tokenizer, pooling and transform differ in `vectors` alone.
    """
    files = {entry.path: entry.blake3 for entry in source.manifest.outputs}
    bundled = {path.removeprefix(ENCODER): digest for path, digest in files.items() if path.startswith(ENCODER)}
    if source.kind == "words":  # the table is its own encoder
        bundled = {path: digest for path, digest in files.items() if path == TOKENIZER}
    return {"vectors": source.digest, **bundled}


@dataclass(frozen=True)
class PreviousIndex:
    """The index that stands at the output, to be updated."""

    artifact: Artifact  # open as long as the job
    old_rows: npt.NDArray[np.int64]  # for each new row its row there, or -1
    kind: str  # of the index
    # whether it can be changed; else it is built anew, and only what was found out about its texts is of use
    in_place: bool = False
    changed: int = 0  # rows that came or went since it was built, these included

    @property
    def old_count(self) -> int:
        """Rows of the previous index."""
        return row_count(self.artifact, "index")

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows that stay, come and go; a changed one comes and goes."""
        kept = int((self.old_rows >= 0).sum())
        return {"kept": kept, "added": len(self.old_rows) - kept, "removed": self.old_count - kept}

    def old_vectors(self, with_vector: npt.NDArray[np.int64] | None) -> tuple[npt.NDArray[np.int64], int]:
        """Return for each new row the number of its vector in the previous index, or -1; how many there are."""
        old_rows = self.old_rows if with_vector is None else self.old_rows[with_vector]
        if (before := rows_with_vector(self.artifact)) is None:
            return old_rows.copy(), self.old_count
        number_of = np.full(self.old_count + 1, -1, np.int64)  # the last for -1
        number_of[before] = np.arange(len(before))
        return number_of[old_rows], len(before)


def previous_index(job: Job, source: Artifact, table: IndexVectors, settings: IndexSettings) -> PreviousIndex | None:
    """Open the index at the output and find its rows again; None, and a note why, where it is of no use.

    A row is found again by its document, its text, its fields, its title where that was read, and the bits of its vector.
    """
    old = job.previous_artifact("a new index is built")
    if old is None:
        return None
    if reason := _misfit(old, source, settings):
        job.note(f"{reason}, so a new index is built")
        return None
    job.report("comparing rows")
    old_rows = matched_rows(bundled_keys(old), table.keys())
    return _if_changeable(job, PreviousIndex(old, old_rows, old.fact("type", str)), table.count, settings)


def _misfit(old: Artifact, source: Artifact, settings: IndexSettings) -> str | None:
    """Return why nothing of the previous index fits the new vectors; None where it fits."""
    ours, theirs = lineage_of(source), old.fact("lineage", dict, {})
    if (of := old.fact("of", str)) != source.kind:
        return f"the existing index contains {of}, but the input contains {source.kind}"
    if (dim := old.fact("dim", int, least=0)) != (wanted := source.fact("dim", int, least=0)):
        if not dim or not wanted:
            return "the existing index has " + ("vectors, but the new index has none" if dim else "no vectors")
        return f"the vectors of the existing index have width {dim}, but the vectors of the input have another width"
    if changed := [name for name, digest in ours.items() if name != "vectors" and theirs.get(name) != digest]:
        return f"the vectors of the input were made with a different {' and '.join(changed)}"
    other = [name for name, value in settings.recipe().items() if old.manifest.settings.get(name) != value]
    return f"the existing index was built with a different value of {', '.join(other)}" if other else None


def _if_changeable(job: Job, found: PreviousIndex, n: int, settings: IndexSettings) -> PreviousIndex:
    """Decide whether the previous index can be changed in place, for n vectors; a note says why not.

    A flat index is built anew as fast; of words alone there are no vectors to be changed.
    """
    if not has_vectors(found.artifact):
        return found
    from wordpipe.search import kind_names, kind_of  # which import faiss

    before, counts = found.artifact, found.counts
    changed = before.fact("changed_since_built", int, 0, least=0) + counts["added"] + counts["removed"]
    built_for = before.fact("built_for", int, n, least=0)
    kind = kind_of(found.kind) if found.kind in KINDS else None
    if kind is not None and kind.grows_in_place:
        reason = None
        if changed > _MAX_CHANGED_SHARE * built_for:
            reason = (
                f"the index was built for {built_for:,} rows, and since then {changed:,} rows (more than a fifth) were added "
                "or removed"
            )
        elif settings.type == "auto" and kind_names(settings, n)[0] != found.kind:
            reason = f"for {n:,} rows, --type auto chooses another type of index than {found.kind}"
        if reason is None:
            return replace(found, in_place=True, changed=changed)
        job.note(f"{reason}, so a new index is built")
    elif kind is None or not kind.is_exact:
        job.note(f"a {found.kind} index cannot be updated, so a new index is built")
    return found
