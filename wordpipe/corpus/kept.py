"""A corpus that grows and shrinks: which rows stay when records are added or removed, and which records were removed.

A record with an id is replaced by a record of the same id from a source that was added later. A document without an id is
known by its file: if the file is added again, its new text takes the place of the old text. What was removed is remembered by
id, or by the digest of the text where there is no id, so that another reading of the same sources leaves it out.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from wordpipe.artifacts import CORPUS, REMOVED, user_name
from wordpipe.corpus.digests import DIGEST_BYTES, Digests, RecordIds, record_key
from wordpipe.corpus.documents import REPEATS, Ledger, split_of
from wordpipe.corpus.previous import Copied
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import Source

REPLACED, TAKEN_OUT, DOUBLE = "replaced", "removed", "duplicate"
"""Why rows that a source has are not in the corpus: names of counts begin with `documents_dropped_`."""

_CONTENT_BYTES = 8
_APART = {*CORPUS.names} - {"doc_id", "title"} | {"record_id"}  # columns that do not say what a record is
_COUNTED = (("labels", "label"), ("tags", "tags"))


class RemovedRecords:
    """The records that were removed from a corpus, by their ids; documents without an id by the digests of their texts.

    Args:
        batches: as a corpus keeps them, in the schema `REMOVED`.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch] = ()) -> None:
        self._ids: dict[str, None] = {}
        self._digests: dict[bytes, None] = {}
        for batch in batches:
            for own_id, doc_id in zip(*(batch.column(name).to_pylist() for name in REMOVED.names), strict=True):
                self.add(own_id, b"" if doc_id is None else bytes.fromhex(doc_id))

    def __len__(self) -> int:
        return len(self._ids) + len(self._digests)

    def holds(self, own_id: str | None, digest: bytes) -> bool:
        """True if a record with this id was removed; without an id, if a document with this digest was."""
        return digest in self._digests if own_id is None else own_id in self._ids

    def add(self, own_id: str | None, digest: bytes) -> None:
        """Remember a record that is removed."""
        if own_id is None:
            self._digests[digest] = None
        else:
            self._ids[own_id] = None

    def forget(self, own_id: str | None, digest: bytes) -> None:
        """Forget that a record was removed: it was added again."""
        if own_id is None:
            self._digests.pop(digest, None)
        else:
            self._ids.pop(own_id, None)

    def batch(self) -> pa.RecordBatch:
        """Return what a corpus keeps of the removed records, in the order in which they were removed."""
        ids = [*self._ids, *[None] * len(self._digests)]
        digests = [*[None] * len(self._ids), *(digest.hex() for digest in self._digests)]
        return pa.RecordBatch.from_arrays([pa.array(ids, pa.string()), pa.array(digests, pa.string())], schema=REMOVED)


@dataclass
class Additions:
    """Ids and digests of the records of the sources that are added.

    Attributes:
        ids: of their records.
        seen: digests of their documents.
        names: of sources that the corpus has already; their documents without an id take the place of the old ones.
        contents: the digest of a record's id → what the record says.
    """

    ids: RecordIds = field(default_factory=RecordIds)
    seen: Digests = field(default_factory=Digests)
    names: frozenset[str] = frozenset()
    contents: Digests = field(default_factory=lambda: Digests(_CONTENT_BYTES))

    def learn(self, batch: pa.RecordBatch) -> None:
        """Learn what the added records of a batch of rows say."""
        for own_id, content in _contents(batch):
            self.contents.add(_key_of(own_id), content)

    def says_same(self, own_id: str, content: bytes) -> bool:
        """True if the added record of an id says what the record of the corpus says."""
        return self.contents.note(_key_of(own_id)) == content


@dataclass
class KeptSource:
    """One source of a corpus, or one piece of it, with the rows that it has, of which some may go.

    Attributes:
        source: its name, its kind and its size; it is not read again.
        ledger: what was counted of it.
        rows: its rows.
        schema: of these rows.
        change: what becomes of it: "copied", "added" or "read_again".
        is_new: it is added now.
    """

    source: Source
    ledger: Ledger
    rows: Callable[[], Iterator[pa.RecordBatch]]
    schema: pa.Schema
    change: str = "copied"
    is_new: bool = False


class GrowingCorpus:
    """The sources of a corpus, those that are added among them, each copied without the rows that leave.

    It stands in the place of a `PreviousCorpus`: sources are asked for in their order, and none of them is read.

    Args:
        kept: all sources, in the order of the new corpus.
        removed: the records that were removed.
        additions: what is added.

    Attributes:
        changes: how many records were replaced, are unchanged, and were removed.
        deleted: how many sources are gone: none.
    """

    deleted = 0

    def __init__(self, kept: Sequence[KeptSource], removed: RemovedRecords, additions: Additions) -> None:
        self._kept, self._removed, self._additions = iter(kept), removed, additions
        self.changes = dict.fromkeys(("replaced", "unchanged", "removed", "copies"), 0)

    def copy(
        self, source: Source, seen: Digests | None, ids: RecordIds, fits: Callable[[Ledger, pa.Schema], bool]
    ) -> Copied:
        """Return the rows of the next source that stay; see `PreviousCorpus.copy`."""
        one = next(self._kept)
        assert one.source is source
        return Copied(one.ledger, self._sifted(one, seen), one.change, fits(one.ledger, one.schema))

    def is_known(self, name: str) -> bool:
        """True: all sources are known."""
        return True

    def _sifted(self, one: KeptSource, seen: Digests | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a source that stay, and take the others out of its ledger."""
        fate, repeats = "", 0  # of the document that a batch begins with, which may have begun in the batch before
        for batch in one.rows():
            firsts = np.flatnonzero(np.asarray(batch["sentence_id"]) == 0)
            fates = [fate]
            found = _documents(batch, firsts, needs_content=not one.is_new, known=self._additions)
            for first, (digest, own_id, content) in zip(firsts.tolist(), found, strict=True):
                fate = self._fate(one, digest, own_id, content)
                if not fate and seen is not None:
                    key = digest if own_id is None else record_key(own_id, digest)
                    if key in seen:
                        fate = DOUBLE
                        self._note_double(one, own_id, digest)
                        anchor = batch["anchor"][first].as_py() if "anchor" in batch.schema.names else None
                        one.ledger.add_double(digest, own_id, batch["line"][first].as_py(), anchor)
                    else:
                        repeats += own_id is not None and digest in seen
                        seen.add(digest)
                        seen.add(key)
                fates.append(fate)
            if not any(fates):
                yield batch
                continue
            # the rows of each document have its fate
            of_row = np.searchsorted(firsts, np.arange(len(batch)), side="right")
            fates_of_rows = np.array(fates)[of_row]
            for reason in {*fates} - {""}:
                leave_out(one.ledger, batch.filter(pa.array(fates_of_rows == reason)), reason)
            yield batch.filter(pa.array(fates_of_rows == ""))
        if seen is not None:
            one.ledger.add(REPEATS, repeats - one.ledger[REPEATS])

    def _fate(self, one: KeptSource, digest: bytes, own_id: str | None, content: bytes | None) -> str:
        """Return why a document leaves the corpus; "": it stays."""
        added, changes = self._additions, self.changes
        if one.is_new:
            return ""
        if own_id is not None and own_id in added.ids:
            changes["unchanged" if content is not None and added.says_same(own_id, content) else "replaced"] += 1
            return REPLACED
        if own_id is None and one.source.name in added.names:
            is_there = digest in added.seen
            changes["unchanged" if is_there else "removed"] += 1
            return REPLACED
        if self._removed.holds(own_id, digest):
            changes["removed"] += 1
            return TAKEN_OUT
        return ""

    def _note_double(self, one: KeptSource, own_id: str | None, digest: bytes) -> None:
        """Count a document that another source has, too: an added one is no new one."""
        if one.is_new:
            self.changes["copies"] += 1
        elif own_id is None and digest in self._additions.seen:
            self.changes["unchanged"] += 1


def leave_out(ledger: Ledger, rows: pa.RecordBatch, reason: str) -> None:
    """Take documents that were kept, all their rows, out of the counts of their source.

    Args:
        ledger: of the source.
        rows: of the documents.
        reason: of the loss: the end of the name of its count.
    """
    is_first = pc.equal(rows["sentence_id"], 0)
    documents, size = pc.sum(is_first).as_py() or 0, pc.sum(pc.binary_length(rows["text"])).as_py() or 0
    for kept, dropped, number in (("documents_kept", f"documents_dropped_{reason}", documents),
                                  ("bytes_kept", f"bytes_dropped_{reason}", size)):  # fmt: skip
        ledger.add(kept, -number)
        ledger.add(dropped, number)
    for split in rows["split"].filter(is_first).to_pylist():
        ledger.add(f"documents_{split}", -1)
    ledger.add("sentences", -len(rows))
    if ledger["pairs"]:
        ledger.add("pairs", -documents)
    for heading, column in _COUNTED:
        if column in rows.schema.names:
            for value in rows[column].filter(is_first).to_pylist():
                for name in value if isinstance(value, list) else [value]:
                    if name is not None:
                        ledger.add_named(heading, str(name), -1)


def with_splits(batches: Iterable[pa.RecordBatch], settings: IngestSettings) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a source whose documents are all for training, with the splits that fall to the documents.

    A corpus has none held out only if it is small, so its texts are put together in memory.
    """
    for batch in [pa.Table.from_batches([*batches]).combine_chunks()] if (batches := [*batches]) else []:
        for part in batch.to_batches():
            numbers = np.cumsum(np.asarray(part["sentence_id"]) == 0) - 1
            texts = [""] * (int(numbers[-1]) + 1 if len(numbers) else 0)
            for number, text in zip(numbers.tolist(), part["text"].to_pylist(), strict=True):
                texts[number] += text
            splits = [
                split_of(blake3(text.encode()).digest(DIGEST_BYTES).hex(), settings.valid, settings.test)
                for text in texts
            ]
            column = pa.array([splits[number] for number in numbers.tolist()], pa.string())
            place = part.schema.get_field_index("split")
            yield part.set_column(place, part.schema.field(place), column)


def _documents(
    batch: pa.RecordBatch,
    firsts: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    *,
    needs_content: bool,
    known: Additions,
) -> Iterator[tuple[bytes, str | None, bytes | None]]:
    """Yield digest and id of each document that begins in a batch, and, of one that is added again, what it says."""
    begun = batch.take(pa.array(firsts))
    own_ids = begun["record_id"].to_pylist() if "record_id" in begun.schema.names else [None] * len(begun)
    for number, (doc_id, given) in enumerate(zip(begun["doc_id"].to_pylist(), own_ids, strict=True)):
        own_id = None if given is None else str(given)
        content = None
        if needs_content and own_id is not None and own_id in known.ids:
            ((_, content),) = _contents(begun.slice(number, 1))
        yield bytes.fromhex(doc_id), own_id, content


def _contents(batch: pa.RecordBatch) -> Iterator[tuple[str, bytes]]:
    """Yield the id of each record with an id that begins in a batch, and a digest of all that it says."""
    if "record_id" not in batch.schema.names:
        return
    begun = batch.filter(pc.equal(batch["sentence_id"], 0))
    names = {field.name: user_name(field) for field in begun.schema if field.name not in _APART}
    for own_id, values in zip(begun["record_id"].to_pylist(), begun.select([*names]).to_pylist(), strict=True):
        if own_id is not None:
            said = {names[name]: value for name, value in values.items() if value is not None}
            text = json.dumps(said, sort_keys=True, default=str)
            yield str(own_id), blake3(text.encode()).digest(_CONTENT_BYTES)


def _key_of(own_id: str) -> bytes:
    """Return the digest by which what an added record says is found."""
    return blake3(own_id.encode()).digest(DIGEST_BYTES)
