"""What an earlier corpus has of sources that have not changed, so that they need not be read again.

The rows are to be the same as if everything had been read. That is so if a source has the bytes it had and none of its
documents changes sides in the search for duplicates: none that was kept has come up in a source before it by now, and none
that was dropped may have lost its double, in a source before it that has changed or is gone. Otherwise it is read again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.corpus.duplicates import Digests
from wordpipe.corpus.ledger import Ledger

__all__ = ["EarlierCorpus", "SourceNote", "gathered"]

_GATHERED = 4096  # rows
_DOCUMENT = ["doc_id", "sentence_id"]


@dataclass(frozen=True, slots=True)
class SourceNote:
    """What one source gave.

    Attributes:
        name: the source.
        rows: rows of the corpus that came from it.
        told: what its ledger told, as JSON: there may be a million sources, and a dict takes five times the memory.
        digest: BLAKE3 of its content, in hex; empty where nobody knows it.
    """

    name: str
    rows: int
    told: str
    digest: str = ""

    @classmethod
    def of(cls, name: str, ledger: Ledger) -> "SourceNote":
        """What the ledger of one source says."""
        counts = ledger.counts()
        return cls(name, counts.get("sentences", 0), json.dumps({"counts": counts, "warnings": ledger.warned}))

    @property
    def counts(self) -> dict[str, int]:
        """The ledger's counts."""
        counts: dict[str, int] = json.loads(self.told)["counts"]
        return counts

    @property
    def warnings(self) -> dict[str, str]:
        """The ledger's first message of each kind."""
        warnings: dict[str, str] = json.loads(self.told)["warnings"]
        return warnings


class EarlierCorpus:
    """The rows of a corpus that was made with the same settings, source by source. Ask for sources in their order.

    Args:
        notes: of all its sources, in the order of its rows.
        digests: content hash of each source that is to be read now, by name; empty for a stream.
        read: gives all its rows in order, of some columns (None: all).
    """

    def __init__(
        self,
        notes: Sequence[SourceNote],
        digests: Mapping[str, str],
        read: Callable[[Sequence[str] | None], Iterable[pa.RecordBatch]],
    ) -> None:
        starts = accumulate((note.rows for note in notes), initial=0)
        self._notes = {note.name: (note, start) for note, start in zip(notes, starts, strict=False)}
        self._digests = digests
        self._rows, self._documents = _ForwardRows(read(None)), _ForwardRows(read(_DOCUMENT))
        lost = [note.name for note in notes if not self._is_unchanged(note)]
        self._first_lost = min(lost, default=None)
        self.deleted = sum(name not in digests for name in lost)

    def copyable(self, name: str, seen: Digests | None) -> SourceNote | None:
        """The note of a source whose rows can be copied; None where it must be read.

        Args:
            name: the source.
            seen: the documents kept so far, or None where duplicates are kept; those of the source are added if it is copied.
        """
        note, start = self._notes.get(name, (None, 0))
        if note is None or not self._is_unchanged(note):
            return None
        if seen is None:
            return note
        may_return = self._first_lost is not None and self._first_lost < name
        if may_return and note.counts.get("documents_dropped_duplicate"):
            return None
        digests = self._document_digests(start, note.rows)
        if any(digest in seen for digest in digests):
            return None
        for digest in digests:
            seen.add(digest)
        return note

    def rows(self, note: SourceNote) -> Iterator[pa.RecordBatch]:
        """The rows of a source."""
        _, start = self._notes[note.name]
        return self._rows.take(start, start + note.rows)

    def is_known(self, name: str) -> bool:
        """Whether there was a source of this name."""
        return name in self._notes

    def _is_unchanged(self, note: SourceNote) -> bool:
        return note.digest != "" and self._digests.get(note.name) == note.digest

    def _document_digests(self, start: int, rows: int) -> list[bytes]:
        """The digest of every document in these rows, 10 bytes each."""
        found: list[bytes] = []
        for batch in self._documents.take(start, start + rows):
            first = batch.column("doc_id").filter(pc.equal(batch.column("sentence_id"), 0))
            found += map(bytes.fromhex, first.to_pylist())
        return found


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not tiny: a thousand files of two sentences are one batch, not a thousand."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= _GATHERED:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


class _ForwardRows:
    """Stretches of a stream of rows, each after the one before."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._batch: pa.RecordBatch | None = None
        self._ends = 0  # number of the row after the batch

    def take(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Rows start … stop."""
        while start < stop:
            while self._batch is None or self._ends <= start:
                self._batch = next(self._batches)
                self._ends += len(self._batch)
            first = start - (self._ends - len(self._batch))
            part = self._batch.slice(first, stop - start)
            start += len(part)
            yield part
