"""The labelled records of a corpus: read whole, whatever sentences they were split into; and those that are held out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from wordpipe.artifacts import Artifact, read_batches, read_schema, row_count
from wordpipe.errors import InputError
from wordpipe.heads import Contradictions, LabelCounts, is_held_out
from wordpipe.stages.inputs import whole_records
from wordpipe.stages.job import Job

if TYPE_CHECKING:
    from wordpipe.stages.train.head_tasks import HeadTask

_TEXT = ("source", "line")
_LABELS_KEPT = 50  # of the manifest, the commonest


@dataclass(frozen=True)
class Record:
    """A labelled record.

    Attributes:
        texts: its text, or both of a pair.
        label: its label, its labels, its score, or its tags; as the task reads them.
        where: its source and line.
        held_out: it is measured on and not learned from.
    """

    texts: tuple[str, ...]
    label: Any
    where: str
    held_out: bool = False


@dataclass
class Labelled:
    """The labelled records of a corpus, and their numbers.

    Attributes:
        source: the corpus.
        task: reads the labels.
        share: of the records of the training split that are held out, too.
        pairs: the records have a second text.
        counts: of the labels of the records that are learned from.
        contradictions: among all records.
        n_train: records to learn from.
        n_held_out: records that are held out.
        n_without: records without a label, which are left out.
        first_without: source and line of the first of them.
        unknown: held-out records with a label that no record to learn from has.
    """

    source: Artifact
    task: "HeadTask"
    share: float
    pairs: bool
    counts: LabelCounts = field(default_factory=LabelCounts)
    contradictions: Contradictions = field(default_factory=Contradictions)
    n_train: int = 0
    n_held_out: int = 0
    n_without: int = 0
    first_without: str = ""
    unknown: int = 0
    scores: list[float] = field(default_factory=lambda: [0.0, 0.0])  # their sum and number

    def records(self) -> Iterator[Record]:
        """Yield all records of the training and validation splits that have a label, with what is held out."""
        columns = [*_TEXT, self.task.column, *(["text_b"] if self.pairs else [])]
        for row, _ in whole_records(self.source, columns):
            yield from self._record(row)

    def batches(self, job: Job, size: int) -> Iterator[list[Record]]:
        """Yield labelled records with known labels, some at a time, and report how many are read."""
        known, total, done = {*self.counts.names}, self.n_train + self.n_held_out, 0
        there = (one for one in self.records() if known.issuperset(self.task.names_of(one.label)))
        while some := list(islice(there, size)):
            yield some
            done += len(some)
            job.report("preparing", done, total, "texts")

    def _record(self, row: dict[str, Any]) -> Iterator[Record]:
        """Yield a labelled record from a row of the corpus, or count that its label is missing."""
        if row["split"] == "test":
            return
        where = f"{row['source']}:{row['line']}"
        texts = (row["text"].strip(), *([(row["text_b"] or "").strip()] if self.pairs else []))
        label = self.task.read(row[self.task.column], texts[0], where)
        if label is None:
            self.n_without += 1
            self.first_without = self.first_without or where
            return
        held_out = row["split"] == "valid" or is_held_out(texts[:1] if self.task.by_passage else texts, self.share)
        yield Record(texts, label, where, held_out)


def require_columns(source: Artifact, task: "HeadTask") -> list[str]:
    """Return the columns of a labelled corpus. Raises InputError: a column that the task needs is missing."""
    names: list[str] = read_schema(source, "corpus").names
    if missing := [column for column in (task.column, *task.also) if column not in names]:
        raise InputError(
            f"the corpus has no column {missing[0]!r}", where=source.path, got=", ".join(names),
            hint=f"make the corpus again: wordpipe ingest SOURCE {task.option} FIELD -o CORPUS",
        )  # fmt: skip
    return names


def share_held_out(source: Artifact, task: "HeadTask", held_out: float) -> tuple[float, dict[str, int]]:
    """Return the share of the labelled training split that is held out.

    The task looks at the column of each record on the way.

    Returns:
        the share, and how many records each split has.
    """
    splits = {"train": 0, "valid": 0, "test": 0}
    for batch in read_batches(source, "corpus", ["sentence_id", "split", task.column, *_TEXT]):
        for number, split, value, file, line in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if number == 0:
                splits[split] += 1
                task.look(value, f"{file}:{line}")
    wanted = held_out * (splits["train"] + splits["valid"]) - splits["valid"]
    return max(0.0, wanted / max(1, splits["train"])), splits


def read_labelled(job: Job, source: Artifact, task: "HeadTask", held_out: float) -> Labelled:
    """Read a corpus of labelled records once, and count what it holds.

    Args:
        job: that reports and counts.
        source: the corpus.
        task: reads the labels.
        held_out: share of all records that is to be held out, those of the validation split among them.

    Raises:
        InputError: no column of labels, fewer than two labels, or nothing to learn from or to hold out.
    """
    # the columns, and the share that is held out
    names = require_columns(source, task)
    share, splits = share_held_out(source, task, held_out)
    labelled = Labelled(source, task, share, "text_b" in names)
    seen: set[str] = set()
    # all records, counted on their side
    for record in labelled.records():
        found = task.names_of(record.label)
        labelled.contradictions.add(record.texts, repr(record.label), record.where)
        if record.held_out:
            labelled.n_held_out += 1
            seen.update(found)
        else:
            labelled.n_train += 1
            labelled.counts.add(found)
            if isinstance(record.label, float):
                labelled.scores[0] += record.label
                labelled.scores[1] += 1
    # what is missing is refused, or counted and said
    _check(job, labelled, seen, row_count(source, "corpus"))
    if without := labelled.n_without:
        job.counts["texts_without_label"] = without
        job.warn(f"{without:,} records have no {task.column} and are left out; the first is {labelled.first_without}")
    job.counts |= {"texts_train": labelled.n_train, "texts_held_out": labelled.n_held_out, "texts_test": splits["test"]}
    return labelled


def _check(job: Job, labelled: Labelled, seen: set[str], rows: int) -> None:
    """Refuse too few labelled records; note the labels, and those that only held-out records have."""
    names, where = labelled.counts.names, labelled.source.path
    if not labelled.n_train or not labelled.n_held_out:
        raise InputError(
            "there are too few records for training and validation", where=where,
            got=f"{labelled.n_train} training records and {labelled.n_held_out} held-out records in {rows} rows",
            hint="add more records, or use a larger --held-out",
        )  # fmt: skip
    if labelled.scores[1]:
        return
    if len(names) < labelled.task.least:
        raise InputError(
            "there are fewer than two different labels", where=where, got=", ".join(names) or "none",
            expected="at least two",
        )  # fmt: skip
    if labelled.task.least > 1:
        job.counts["labels"] = len(names)
    job.facts["label_counts"] = dict(labelled.counts.counts.most_common(_LABELS_KEPT))
    if (more := len(names) - _LABELS_KEPT) > 0:
        job.facts["label_counts_more"] = more  # labels that are rarer
    job.note(f"{len(names):,} {labelled.task.noun}: {labelled.counts.shown()}")
    if unknown := sorted(seen - {*names}):
        job.warn(
            "held-out records with these labels are left out, because no training record has these labels: "
            f"{', '.join(unknown[:5])}{f' and {len(unknown) - 5:,} more' if len(unknown) > 5 else ''}"
        )


def check_contradictions(job: Job, labelled: Labelled) -> None:
    """Warn of texts that come with two labels: a model can be right about one label only."""
    found = labelled.contradictions
    job.counts["contradictory"] = found.number
    if found.number:
        job.warn(
            f"{found.number:,} records have the same text as an earlier record, but a different label: "
            f"{'; '.join(found.examples)}"
        )
