"""Records of a source, the documents that they become, and the ledger that counts what is kept, changed and dropped."""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import Any

from blake3 import blake3

from wordpipe.artifacts import damage_named, parse_json_object
from wordpipe.corpus.digests import DIGEST_BYTES, Digests, RecordIds, record_key
from wordpipe.corpus.settings import IngestSettings, Newline

_LOOK_BACK = 1 << 16  # bytes searched for a space before a word is cut


@dataclass(slots=True)
class Record:
    r"""One text of a source, or one part of a text that is too long for one document."""

    text: str  # the text as the source has it, with "\n" for every line end
    source: str  # value of the `source` column
    line: int  # 1-based line (or record) of the source where the text begins
    title: str | None = None  # its title, or None
    metadata: dict[str, Any] = field(default_factory=dict)  # the further fields of the record, by their names there
    own: dict[str, Any] = field(default_factory=dict)  # columns of ours that fields fill: record_id, label, …
    width: int = 0  # characters of both, roughly
    newline: Newline = "auto"  # what a single newline means here, where the format says; else "auto"
    # True where a newline in the text is a newline of the source, so that lines can be counted
    lines_follow: bool = True
    min_words: int = 0  # a text of fewer words is no document
    part: int = 0  # 0 for a whole text or its first part, then 1, 2, …
    # offset in the text → line of the source, ascending, where a parser of markup made the text
    places: Sequence[tuple[int, int]] = ()
    is_pair: bool = False  # it has a second text, and is one row of the corpus
    beside: str = (
        ""  # what a record without an id that was named says beside its text: another that says the same is the same
    )
    keeps_empty: bool = False  # without a text it is a document nevertheless, as its fields say something

    def lines_from(self, offset: int, line: int, texts: Iterable[str]) -> Iterator[int]:
        """Yield the line where each sentence of a document begins, from `offset` in `line` on; then that of the end."""
        yield line
        for text in texts:
            offset += len(text)
            if self.places:
                line = self.places[max(bisect_right(self.places, offset, key=itemgetter(0)), 1) - 1][1]
            elif self.lines_follow:
                line += text.count("\n")
            yield line


def split_record(record: Record, limit: int) -> Iterator[Record]:
    """Yield the record in parts of at most `limit` bytes of text; nearly always the record itself."""
    if len(record.text) * 4 <= limit:
        yield record
        return
    offset, texts = 0, split_oversize(record.text, limit)
    for part, (text, line) in enumerate(zip(texts, record.lines_from(0, record.line, texts), strict=False)):
        places = [(max(at - offset, 0), where) for at, where in record.places if at < offset + len(text)]
        own = within(record.own, offset, offset + len(text))
        yield replace(record, text=text, line=line, part=record.part + part, places=places, own=own)
        offset += len(text)


def within(own: dict[str, Any], start: int, end: int) -> dict[str, Any]:
    """Return the columns of a part of a document's text: spans are cut to it, and counted from its beginning."""
    if not own.get("spans"):
        return own
    spans = [
        {**span, "start": max(span["start"], start) - start, "end": min(span["end"], end) - start}
        for span in own["spans"]
        if span["start"] < end and span["end"] > start
    ]
    return {**own, "spans": spans}


def split_oversize(text: str, limit: int) -> list[str]:
    """Cut `text` into parts of at most `limit` bytes of UTF-8; the parts concatenate to the text.

    >>> split_oversize("one two three", 8)
    ['one two ', 'three']
    """
    data = text.encode()
    parts, start = [], 0
    while len(data) - start > limit:
        end = start + cut_point(data[start : start + limit + 1], limit)
        parts.append(data[start:end].decode())
        start = end
    return [*parts, data[start:].decode()]


def cut_point(data: bytes, limit: int) -> int:
    """Return where to cut a document's UTF-8 so that at most `limit` bytes come before: after a space if possible.

    The space is looked for in the last 64 KiB. Bytes that are no UTF-8 are cut within three bytes of the limit. Needs
    `len(data) > limit >= 4`.
    """
    start = max(0, limit - _LOOK_BACK)
    space = max(data.rfind(mark, start, limit) for mark in (b" ", b"\n", b"\t"))
    if space >= 0:
        return space + 1
    cut = limit
    while cut > limit - 3 and data[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut


_MAX_NAMES = 50  # different names under one heading; an input with random field names must not fill the memory
_MAX_FIELDS_SEEN = 1000
_MAX_SKIPPED, _MAX_NOTES = 5, 20
_MAX_DOUBLES = 1000  # documents of one source of which the places are remembered, as they were dropped
_MAX_FILES = 1000  # names of files of one kind; all of them stand with their sources
_LEDGER = "sources.parquet"  # where the ledgers of a corpus's sources stand

Kinds = dict[str, dict[str, int]]
"""Field → kind of its values → line of the first."""


class Ledger:
    """Counts and warnings of one source or of a whole ingest, which everything that reads or drops adds to.

    Attributes:
        warned: the message of each kind, in the order in which they came.
        skipped: place and reason of the first records that were left out.
        fields_seen: names of fields that records had, the first thousand and all that settings name.
        kinds: of the fields of documents that were kept.
        own_kinds: of the columns of ours that fields filled.
        files: heading of counts → kind → names of the files that are counted there.
        notes: lines for the screen alone.
        doubles: document that was dropped as another source, or an earlier line, has it → line, anchor, of the first.
        first_error: by which a source was left out, or what follows in it.
        added: the number of the addition to the corpus by which the source came; 0: it was there from the beginning.
    """

    def __init__(self) -> None:
        self.added = 0
        self.warned: dict[str, str] = {}
        self.skipped: list[str] = []
        self.fields_seen: dict[str, None] = {}
        self.kinds: Kinds = {}
        self.own_kinds: Kinds = {}
        self.files: dict[str, dict[str, list[str]]] = {}
        self.notes: dict[str, None] = {}
        self.doubles: dict[str, tuple[int, str | None]] = {}
        self.first_error: Exception | None = None
        self._counts: Counter[str] = Counter()
        self._names: Counter[str] = Counter()

    def add(self, what: str, number: int = 1) -> None:
        """Count `number` more of `what`."""
        self._counts[what] += number

    def add_named(self, what: str, name: str, number: int = 1) -> None:
        """Count in the ledger of documents under `what.name`; after 50 names the others share `what.(other)`."""
        key = f"{what}.{name[:100].encode(errors='replace').decode()}"
        if key not in self._counts:
            if self._names[what] >= _MAX_NAMES:
                key = f"{what}.(other)"
            else:
                self._names[what] += 1
        self._counts[key] += number

    def add_file(self, what: str, kind: str, name: str) -> None:
        """Count a file under `what.kind`, and remember its name; a piece of it counts once with the piece before."""
        names = self.files.setdefault(what, {}).setdefault(kind, [])
        if name not in names[-1:]:
            self.add_named(what, kind)
            names += [name] * (len(names) < _MAX_FILES)

    def add_double(self, digest: bytes, own_id: str | None, line: int, anchor: str | None) -> None:
        """Remember where a document stands that is dropped because it is in the corpus; of a source the first 1,000."""
        key = digest.hex() if own_id is None else f"{digest.hex()} {own_id}"
        if len(self.doubles) < _MAX_DOUBLES:
            self.doubles.setdefault(key, (line, anchor))

    @property
    def has_all_doubles(self) -> bool:
        """True if the places of all documents that the source has as doubles are known."""
        return not self["documents_dropped_duplicate"] or 0 < len(self.doubles) < _MAX_DOUBLES

    def add_first_doubles(self, rows: Any) -> None:
        """Remember where documents without an id stand that were kept, and are dropped now: their rows, as an Arrow batch.

        They stand before the doubles that the source itself has of them.
        """
        columns = (rows[name].to_pylist() for name in ("doc_id", "sentence_id", "line"))
        for doc_id, sentence, line in zip(*columns, strict=True):
            if sentence == 0:
                self.doubles[doc_id] = (line, None)
        found = sorted(self.doubles.items(), key=lambda one: one[1][0])
        self.doubles = dict(found[:_MAX_DOUBLES])

    def places_of_doubles(self, source: str) -> Iterator[dict[str, Any]]:
        """Yield where the source has documents that were dropped as doubles, as rows of the schema `DOUBLES`."""
        for key, (line, anchor) in self.doubles.items():
            doc_id, space, own_id = key.partition(" ")
            place = {"source": source, "line": line, "anchor": anchor}
            yield {"doc_id": doc_id, "record_id": own_id if space else None, **place}

    def warn(self, kind: str, message: str) -> None:
        """Keep the first message of each kind; the counts say how many more there were."""
        self.warned.setdefault(kind, message)

    def skip(self, reason: str, message: str) -> None:
        """Count a record that is left out; the first five are told of."""
        self.add(f"records_skipped_{reason}")
        if len(self.skipped) < _MAX_SKIPPED:
            self.skipped.append(message)

    def see_fields(self, names: Iterable[str], wanted: Container[str]) -> None:
        """Remember the names of the fields that records have."""
        for name in names:
            if len(self.fields_seen) < _MAX_FIELDS_SEEN or name in wanted:
                self.fields_seen[name] = None

    def to_json(self) -> str:
        """Return all that a source's ledger of documents knows as JSON, for `of_json`."""
        known = {"counts": self.counts(), "warnings": self.warned, "skipped": self.skipped, "seen": [*self.fields_seen]}
        everything = {
            **known,
            "kinds": self.kinds,
            "own_kinds": self.own_kinds,
            "added": self.added,
            "files": self.files,
            "doubles": self.doubles,
        }
        return json.dumps(
            {name: value for name, value in everything.items() if value or name in ("counts", "warnings")}
        )

    @classmethod
    def of_json(cls, text: str) -> "Ledger":
        """Return a source's ledger of documents from its JSON. Raises ArtifactError: it is damaged."""
        known, found = parse_json_object(text, _LEDGER), cls()
        with damage_named(_LEDGER):
            found._counts.update({str(name): int(number) for name, number in known["counts"].items()})
            found.warned = dict(known["warnings"])
            found.skipped, found.fields_seen = list(known.get("skipped", ())), dict.fromkeys(known.get("seen", ()))
            found.kinds, found.own_kinds = dict(known.get("kinds", {})), dict(known.get("own_kinds", {}))
            found.added = int(known.get("added", 0))
            found.files = {what: {kind: [*map(str, names)] for kind, names in kinds.items()}
                           for what, kinds in dict(known.get("files", {})).items()}  # fmt: skip
            for key, (line, anchor) in dict(known.get("doubles", {})).items():
                found.doubles[key] = (int(line), None if anchor is None else str(anchor))
        return found

    def take_over(self, other: "Ledger", wanted: Container[str] = ()) -> None:
        """Add what another ledger of documents knows, but for kinds, which belong to its source.

        `wanted` names of fields are not lost.
        """
        named = Counter(
            {f"{what}.{kind}": len(names) for what, kinds in other.files.items() for kind, names in kinds.items()}
        )
        for what, kinds in other.files.items():
            for kind, names in kinds.items():
                for name in names:
                    self.add_file(what, kind, name)
        for name, number in other.counts().items():
            number -= named[name]
            heading, _, rest = name.partition(".")
            if not number:
                continue
            if rest:
                self.add_named(heading, rest, number)
            else:
                self.add(name, number)
        for kind, message in other.warned.items():
            self.warn(kind, message)
        self.skipped += other.skipped[: _MAX_SKIPPED - len(self.skipped)]
        self.see_fields(other.fields_seen, wanted)
        self.first_error = self.first_error or other.first_error
        if len(self.notes) < _MAX_NOTES:
            self.notes |= other.notes

    def __getitem__(self, what: str) -> int:
        return self._counts[what]

    def counts(self) -> dict[str, int]:
        """Return all counts that are not zero, in alphabetical order."""
        return {name: number for name, number in sorted(self._counts.items()) if number}

    def named(self, what: str) -> dict[str, int]:
        """Return the counts under one heading by their names, the largest first."""
        found = {key[len(what) + 1 :]: n for key, n in self._counts.items() if key.startswith(f"{what}.")}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


NOT_TEXT = "not_text"  # the kind of warning of files of folders that hold no plain text
REPEATS = "documents_repeated"  # records whose text came before, kept as their ids differ
SAME_ID = "same id"  # the kind of warning of records that are kept without the id that another record has
SAME_RECORDS = "same records"  # the kind of warning of records that were dropped as duplicates
LONGEST_TITLE = 1000  # characters; it stands beside every sentence
_SPLIT_DIGITS = 13  # 52 bits, which a float holds exactly
BATCH_CHARS = 4 << 20  # in one batch of rows
_SENTENCES_AT_ONCE = 512  # sentences added to it at a time


@dataclass(frozen=True, slots=True)
class Document:
    """A text of the corpus: one that was kept, with its id and its split."""

    # BLAKE3 of the text, of a pair's second text, and of `Record.beside`, first 80 bits, in hex
    doc_id: str
    split: str  # train, valid or test
    record: Record  # text, title, source, line and fields, cleaned
    width: int  # characters that stand beside each of its sentences, roughly

    def sentences(self, settings: IngestSettings, ledger: Ledger) -> Iterable[tuple[list[str], list[int]]]:
        """Return texts and lines of all sentences of a document, some at a time.

        A pair's text is one: what its second text says is said of all of it.
        """
        # 30 ms of patterns, for which `status` need not wait
        from wordpipe.corpus.sentences import is_one_sentence

        record = self.record
        is_one = record.is_pair or record.keeps_empty or settings.is_pairs
        if is_one or is_one_sentence(record.text, settings.max_sentence_chars):
            return (([record.text], [record.line]),)
        return self._many_sentences(settings, ledger)

    def _many_sentences(self, settings: IngestSettings, ledger: Ledger) -> Iterator[tuple[list[str], list[int]]]:
        """Yield texts and lines of the sentences of a document, some at a time."""
        from wordpipe.corpus.sentences import split_sentences

        record = self.record
        chunk = max(1, min(_SENTENCES_AT_ONCE, BATCH_CHARS // 4 // self.width))
        newline = record.newline if settings.newline == "auto" else settings.newline
        sentences = split_sentences(
            record.text, newline, max_chars=settings.max_sentence_chars, on_cut=lambda: ledger.add("sentences_split")
        )
        line, offset = record.line, 0
        while texts := list(islice(sentences, chunk)):
            *lines, line = record.lines_from(offset, line, texts)
            offset += sum(map(len, texts))
            yield texts, lines


def split_of(doc_id: str, valid: float, test: float) -> str:
    """Return the split of a document: a pure function of its text, so that it never moves when a corpus grows.

    >>> split_of("00000000000000000000", 0.01, 0.0), split_of("ffffffffffffffffffff", 0.01, 0.0)
    ('valid', 'train')
    """
    place = int(doc_id[:_SPLIT_DIGITS], 16) / 16**_SPLIT_DIGITS
    return "valid" if place < valid else "test" if place < valid + test else "train"


class SameIdError(Exception):
    """The error for a record that has the id of another record, which stands at `args[0]`."""


def no_reason(own_id: str | None, digest: bytes) -> str:
    """Return "": there is no reason to leave any record out of the corpus."""
    return ""


def document_of(
    record: Record, settings: IngestSettings, ledger: Ledger, seen: Digests, ids: RecordIds,
    left_out: Callable[[str | None, bytes], str] = no_reason,
) -> Document | None:  # fmt: skip
    """Return the document that `record` makes, or None (counted) where it is empty, too short or has been `seen`.

    Of a pair both texts count: it is empty where either is, and known where both are. Its split is that of its first text,
    so that a text with several partners is on one side. `left_out` says of an id and a digest why the record is left out.

    Raises:
        SameIdError: a record that was kept has its id.
    """
    ledger.add("documents_read")
    if record.part == 1:
        ledger.add("records_split")
    is_pair = record.is_pair or settings.is_pairs
    if not _is_whole(record, settings, ledger, is_pair=is_pair):
        return None
    data = record.text.encode()
    size, digest = len(data), blake3(data).digest(DIGEST_BYTES)
    split = split_of(digest.hex(), settings.valid, settings.test)  # by the text alone: none is on both sides
    if is_pair:
        second = record.own["text_b"].encode()
        digest = blake3(data + b"\0" + second).digest(DIGEST_BYTES)  # no text has a NUL
        size += len(second)
    # duplicates: known by the text, and by an id that was named or all other fields
    if record.beside:
        digest = record_key(record.beside, digest)
    own_id = record.own.get("record_id")
    if reason := left_out(None if own_id is None else str(own_id), digest):
        ledger.add(f"documents_dropped_{reason}")
        ledger.add(f"bytes_dropped_{reason}", size)
        return None
    key = digest if own_id is None else record_key(str(own_id), digest)
    if settings.deduplicate and key in seen:
        ledger.add("documents_dropped_duplicate")
        ledger.add("bytes_dropped_duplicate", size)
        ledger.add_double(digest, None if own_id is None else str(own_id), record.line, record.own.get("anchor"))
        if record.beside:
            ledger.add("records_dropped_duplicate")
            ledger.warn(SAME_RECORDS, f"{record.source}:{record.line}")
        return None
    # kept: the id is taken, the document counted
    if own_id is not None and (place := ids.claim(str(own_id), record.source, record.line)) is not None:
        ledger.add("documents_read", -1)
        raise SameIdError(place)
    if settings.deduplicate:
        seen.add(key)
        if not seen.add(digest) and own_id is not None:
            ledger.add(REPEATS)
    ledger.add("documents_kept")
    if is_pair and not settings.is_pairs:  # where all are, the rows are their number
        ledger.add("pairs")
    ledger.add(f"documents_{split}")
    ledger.add("bytes_kept", size)
    return Document(digest.hex(), split, record, 100 + len(record.title or "") + record.width)


def _is_whole(record: Record, settings: IngestSettings, ledger: Ledger, *, is_pair: bool) -> bool:
    """True if a document's record, once cleaned, has a text (a pair both) long enough to keep; else counted."""
    # white space around the text goes, and spans and lines move with it
    body = record.text.lstrip()
    if body:
        stripped = len(record.text) - len(body)
        if stripped and record.lines_follow:
            record.line += record.text.count("\n", 0, stripped)
        record.text = body.rstrip()
        if "spans" in record.own:
            spans = record.own["spans"] or ()
            record.own = within(record.own, stripped, stripped + len(record.text))
            if lost := len(spans) - len(record.own["spans"] or ()):
                ledger.add("spans_dropped_blank", lost)
                place = f"{record.source}:{record.line}"
                ledger.warn(
                    "blank_spans", "spans with only white space at the begin or the end of a text were skipped; the first "
                    f"one is at {place}",
                )  # fmt: skip
    # without a text a pair is counted below, a record is known by its title and fields, and of others the title is the text
    elif is_pair or record.keeps_empty:
        record.text = ""
    else:
        record.text, record.title = record.title or "", None
        record.line -= bool(record.text) and record.lines_follow  # the line above, which was read as the title
        ledger.add("documents_title_as_text", bool(record.text))
    # what is too long is cut, what is not whole or too short is dropped
    if record.title and len(record.title) > LONGEST_TITLE:
        record.title = record.title[:LONGEST_TITLE]
        ledger.add("titles_cut")
    if is_pair and not _is_pair(record, settings, ledger):
        return False
    if not record.text and record.keeps_empty:
        ledger.add("documents_without_text")
        return True
    if not record.text:
        ledger.add("documents_dropped_empty")
        return False
    if record.min_words and len(record.text.split(maxsplit=record.min_words)) < record.min_words:
        ledger.add("documents_dropped_short")
        return False
    return True


def _is_pair(record: Record, settings: IngestSettings, ledger: Ledger) -> bool:
    """True if both texts of a document that is a pair are there, and none is too long; else counted.

    Else it is counted. The second is stripped.
    """
    second = (record.own.get("text_b") or "").strip()
    record.own = {**record.own, "text_b": second}
    place = f"{record.source}:{record.line}"
    if not record.text and not second:
        ledger.add("documents_dropped_empty")
    elif not record.text:
        ledger.add("documents_dropped_empty_source")
        ledger.warn("empty_source", f"pairs with an empty first text were skipped; see {place}")
    elif not second:
        ledger.add("documents_dropped_empty_target")
        ledger.warn("empty_target", f"pairs without a second text were skipped; see {place}")
    elif max(len(record.text.encode()), len(second.encode())) > settings.max_document_bytes:
        ledger.add("documents_dropped_long")
        message = f"pairs with a text of more than {settings.max_document_bytes:,} bytes were skipped; see {place}"
        ledger.warn("long_pair", f"{message} (--max-document-bytes)")
    else:
        return True
    return False
