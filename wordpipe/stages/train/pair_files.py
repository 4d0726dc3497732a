"""The pairs of a tokens artifact as files that a training maps into memory, each source with its prefix.

That is one text for all, or what a field of each record says, such as its task. Tokens have no fields. They stand in the
corpus that the tokens were made of, row by row in the same order, and are read from there beside them. That corpus is an
input of the training like any other: its digest is in the recipe, so other values of the field make another model.

The text is taken as it is, to the last space, and becomes ids by itself: the ids of a source are the same behind every
prefix, and `--prefix` with the text of the field says to `generate` what the field said in training.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from wordpipe.artifacts import Artifact, is_json, read_batches, read_schema, row_count, visible_columns
from wordpipe.errors import ArtifactError, InputError
from wordpipe.stages.job import Job
from wordpipe.stages.train.run import corpus_of
from wordpipe.training import PairWriter
from wordpipe.training.recipes import PairTexts, Texts
from wordpipe.training.settings import PretrainSettings

MOST_LISTED = 100  # texts of a field that the manifest names with their counts
_REMEMBERED = 4_096  # texts of which the ids are kept
_COUNTED = 10_000  # different texts that are counted apart

Ids = tuple[int, ...]
Places = npt.NDArray[np.int64]


class Prefixes:
    """The prefixes of sources as ids, row by row.

    Args:
        tokenizer: of the sources.
        prefix: before every source.
        corpus: with a field that says it instead; the rows of the tokens are those of this corpus.
        field: its name.

    Attributes:
        texts: what the field said, and how often.
        missing: rows of which it says nothing.
        uncounted: rows with a text that came after 10,000 others; they have it before their sources all the same.

    Raises:
        ArtifactError: the corpus has no such field.
        InputError: the field holds no text.
    """

    def __init__(self, tokenizer: Tokenizer, prefix: str, corpus: Artifact | None = None, field: str = "") -> None:
        self._prefix, self._corpus, self.field = prefix, corpus, field
        self._column = "" if corpus is None else _text_column(corpus, field)
        self._ids = _remembered_ids(tokenizer)
        self.texts, self.missing, self.uncounted = Counter[str](), 0, 0

    def beside(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Sequence[Ids]]]:
        """Yield the rows of the tokens with doc_id, and the prefix before the source of each pair.

        Raises:
            ArtifactError: the corpus has other rows.
        """
        if self._corpus is None:
            own = self._ids(self._prefix)
            for batch in batches:
                yield batch, [own] * len(batch)
            return
        where = self._corpus.path
        rows = _Ahead(read_batches(self._corpus, "corpus", ["doc_id", self._column]))
        for batch in batches:
            theirs = rows.take(len(batch))
            if len(theirs) != len(batch) or not pc.all(pc.equal(theirs["doc_id"], batch["doc_id"])).as_py():
                raise ArtifactError(
                    "the corpus and the tokens do not have the same rows", where=where, hint="tokenize the corpus again"
                )
            yield batch, [self._of(text) for text in theirs[self._column].to_pylist()]

    def _of(self, text: str | None) -> Ids:
        """Return the ids of a prefix of pairs, and count its text."""
        if not text:
            self.missing += 1
            return ()
        if text in self.texts or len(self.texts) < _COUNTED:
            self.texts[text] += 1
        else:
            self.uncounted += 1
        return self._ids(text)

    def note(self, job: Job) -> None:
        """Note and record the prefixes of pairs that the field of the corpus gave.

        Raises:
            InputError: nothing, in any row.
        """
        if self._corpus is None:
            return
        if not self.texts:
            raise InputError(
                f"the field {self.field!r} is empty in every record", where=self._corpus.path,
                hint=f"check the records: wordpipe show {self._corpus.path} --rows 5",
            )  # fmt: skip
        job.facts["prefixes"] = dict(self.texts.most_common(MOST_LISTED))
        job.counts["prefixes"] = len(self.texts)
        if self.uncounted:
            job.counts["pairs_of_further_prefixes"] = self.uncounted
            job.warn(
                f"the field {self.field!r} has more than {_COUNTED:,} different texts, so the texts of "
                f"{self.uncounted:,} pairs are used but not counted separately. Check the field name, because a field "
                "with task names has only few different texts"
            )
        if self.missing:
            job.counts["pairs_without_prefix"] = self.missing
            job.warn(
                f"number of pairs without a prefix, because the field {self.field!r} has no text: {self.missing:,}"
            )


def _remembered_ids(tokenizer: Tokenizer) -> Callable[[str], Ids]:
    """Return a cached function from a prefix of pairs to its ids.

    It knows its tokenizer alone, so that both are freed together.
    """

    @lru_cache(maxsize=_REMEMBERED)
    def ids(text: str) -> Ids:
        return tuple(tokenizer.encode(text, add_special_tokens=False).ids)

    return ids


def _text_column(corpus: Artifact, field: str) -> str:
    """Return the column of a corpus that holds the prefixes of pairs."""
    schema = read_schema(corpus, "corpus")
    known = visible_columns(schema)
    if field not in known:
        raise ArtifactError(
            f"this corpus has no column {field!r}", where=corpus.path, got=", ".join([*known][:20]),
            hint="set --prefix-field to the right column",
        )  # fmt: skip
    found = schema.field(known[field])
    if not pa.types.is_string(found.type) or is_json(found):
        raise InputError(
            f"the field {field!r} is not a text field", where=corpus.path,
            got="objects (JSON)" if is_json(found) else str(found.type), expected="text",
            hint=f"ingest the field as text: wordpipe ingest … --metadata {field}:str",
        )  # fmt: skip
    return known[field]


class _Ahead:
    """Rows out of batches of a corpus, as many at a time as are asked for."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._waiting, self._n = batches, list[pa.RecordBatch](), 0

    def take(self, n: int) -> pa.Table:
        """Return the next `n` rows with prefixes of pairs; fewer where there are no more."""
        while self._n < n and (batch := next(self._batches, None)) is not None:
            self._waiting.append(batch)
            self._n += len(batch)
        table = (
            pa.Table.from_batches(self._waiting) if self._waiting else pa.table({"doc_id": pa.array([], pa.string())})
        )
        rest = table.slice(n).to_batches()
        self._waiting, self._n = rest, sum(map(len, rest))
        return table.slice(0, n)


def prefixes_of(
    job: Job, tokens: Artifact, data: Texts | PairTexts, tokenizer: Tokenizer | None, settings: PretrainSettings
) -> Prefixes | None:
    """Return the prefixes of the sources of pairs; None where there are no pairs.

    Raises:
        ArtifactError: the corpus of the field is not there, or another one than that of the training which is extended.
    """
    if not isinstance(data, PairTexts):
        return None
    assert tokenizer is not None
    if not (named := data.prefix_field):
        return Prefixes(tokenizer, data.prefix)
    corpus = corpus_of(job, tokens, what=f"the field {named!r}")
    if (path := settings.given("extend")) is not None:
        with Artifact(path, ["model"], verify=False) as before:
            known = {entry.digest for entry in before.manifest.inputs}
        if corpus.digest not in known:
            raise ArtifactError(
                "this model was trained with the fields of another corpus", where=path, got=corpus.digest[:16],
                hint="start from the weights of this model with --init",
            )  # fmt: skip
    return Prefixes(tokenizer, data.prefix, corpus, named)


def write_pairs(job: Job, source: Artifact, data: PairTexts, prefixes: Prefixes) -> None:
    """Write the pairs of each split to files; count them, and warn of what was left out.

    Raises:
        WordpipeError: see `Prefixes`.
        InputError: nothing is there to train on.
    """
    # row by row, each pair to the files of its split
    total, done, empty = row_count(source, "tokens"), 0, 0
    rows, writers = read_batches(source, "tokens", ["doc_id", "split", "ids", "ids_b"]), data.writers(job.scratch)
    with ExitStack() as stack:
        for writer in writers.values():
            stack.callback(writer.close)
        for batch, before in prefixes.beside(rows):
            for split, writer in writers.items():
                empty += _write_rows(writer, batch, pc.equal(batch["split"], split), before)
            done += len(batch)
            job.report("preparing", done, total, "pairs")
    prefixes.note(job)
    # what was written, what was left out and why
    for split, writer in writers.items():
        job.counts |= {f"pairs_{split}": writer.n_pairs, f"tokens_{split}": sum(writer.n_ids)}
    long_source, long_target = (sum(writer.left_out[side] for writer in writers.values()) for side in (0, 1))
    sides = {"long": long_source} if data.together else {"long_source": long_source, "long_target": long_target}
    left_out = {"empty": empty} | sides
    job.counts |= {f"pairs_left_out_{why}": count for why, count in left_out.items() if count}
    # long pairs, and a split without pairs
    if long := long_source + long_target:
        why = "the two texts together are" if data.together else "one of the texts is"
        job.warn(
            f"number of pairs that are left out: {long:,}. In these pairs, {why} longer than {data.seq_len:,} positions. "
            "Use a larger --seq-len to keep more pairs"
        )
    if not writers["train"].n_pairs:
        raise InputError(
            "there is no pair of texts for the training", hint="check the corpus with wordpipe show, or add more pairs"
        )


def _write_rows(writer: PairWriter, rows: pa.RecordBatch, wanted: pa.BooleanArray, prefixes: Sequence[Ids]) -> int:
    """Append the wanted pairs to their files; return how many had an empty side and were left out."""
    sides, empty = [_lists(rows[column]) for column in ("ids", "ids_b")], 0
    for i in np.flatnonzero(wanted.to_numpy(zero_copy_only=False)).tolist():
        source, target = (ids[first[i] : first[i] + lengths[i]] for ids, first, lengths in sides)
        if not len(source) or not len(target):
            empty += 1
            continue
        writer.add(np.concatenate((prefixes[i], source)) if prefixes[i] else source, target)
    return empty


def _lists(column: pa.ListArray) -> tuple[npt.NDArray[np.unsignedinteger], Places, Places]:
    """Return the numbers of all lists of a column, where each list begins and how many numbers it has."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return column.flatten().to_numpy(zero_copy_only=False), np.cumsum(lengths) - lengths, lengths
