"""Records of a source and the documents that they become; the ledger of what happens to them."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter

from blake3 import blake3

from wordpipe.corpus.settings import IngestSettings, Newline

_LOOK_BACK = 1 << 16  # bytes searched for a space before a word is cut


@dataclass(slots=True)
class Record:
    r"""One text of a source, or one part of a text that is too long for one document."""

    text: str  # the text as the source has it, with "\n" for every line end
    source: str  # value of the `source` column
    line: int  # 1-based line (or record) of the source where the text begins
    title: str | None = None  # its title, or None
    # values of the further columns by name, already of the column's type
    metadata: dict[str, object] = field(default_factory=dict)
    newline: Newline = "auto"  # what a single newline means here, where the format says; else "auto"
    # True where a newline in the text is a newline of the source, so that lines can be counted
    lines_follow: bool = True
    min_words: int = 0  # a text of fewer words is no document
    part: int = 0  # 0 for a whole text or its first part, then 1, 2, …
    # offset in the text → line of the source, ascending, where a parser of markup made the text
    places: Sequence[tuple[int, int]] = ()

    def lines_from(self, offset: int, line: int, texts: Iterable[str]) -> Iterator[int]:
        """The line where each text begins, which follow each other from `offset` in `line` on; then that of the end."""
        yield line
        for text in texts:
            offset += len(text)
            if self.places:
                line = self.places[max(bisect_right(self.places, offset, key=itemgetter(0)), 1) - 1][1]
            elif self.lines_follow:
                line += text.count("\n")
            yield line


def split_record(record: Record, limit: int) -> Iterator[Record]:
    """The record in parts of at most `limit` bytes of text; nearly always the record itself."""
    if len(record.text) * 4 <= limit:
        yield record
        return
    offset, texts = 0, split_oversize(record.text, limit)
    for part, (text, line) in enumerate(zip(texts, record.lines_from(0, record.line, texts), strict=False)):
        places = [(max(at - offset, 0), where) for at, where in record.places if at < offset + len(text)]
        yield replace(record, text=text, line=line, part=record.part + part, places=places)
        offset += len(text)


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
    """Where to cut UTF-8 `data` so that at most `limit` bytes come before: after a space, else between characters.

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


class Ledger:
    """Counts and warnings of one ingest, which everything that reads or drops adds to."""

    def __init__(self) -> None:
        self.warned: dict[str, str] = {}  # the message of each kind, in the order in which they came
        self._counts: Counter[str] = Counter()
        self._names: Counter[str] = Counter()

    def add(self, what: str, number: int = 1) -> None:
        """Count `number` more of `what`."""
        self._counts[what] += number

    def add_named(self, what: str, name: str, number: int = 1) -> None:
        """Count under `what.name`; after 50 names of one heading the others share `what.(other)`."""
        key = f"{what}.{name[:100].encode(errors='replace').decode()}"
        if key not in self._counts:
            if self._names[what] >= _MAX_NAMES:
                key = f"{what}.(other)"
            else:
                self._names[what] += 1
        self._counts[key] += number

    def warn(self, kind: str, message: str) -> None:
        """Keep the first message of each kind; the counts say how many more there were."""
        self.warned.setdefault(kind, message)

    def take_over(self, counts: Mapping[str, int], warnings: Mapping[str, str]) -> None:
        """Add what another ledger counted (`counts()`) and warned of (`warned`)."""
        for name, number in counts.items():
            heading, _, rest = name.partition(".")
            if rest:
                self.add_named(heading, rest, number)
            else:
                self.add(name, number)
        for kind, message in warnings.items():
            self.warn(kind, message)

    def __getitem__(self, what: str) -> int:
        return self._counts[what]

    def counts(self) -> dict[str, int]:
        """All counts that are not zero, in alphabetical order."""
        return {name: number for name, number in sorted(self._counts.items()) if number}

    def named(self, what: str) -> dict[str, int]:
        """The counts under one heading by their names, the largest first."""
        found = {key[len(what) + 1 :]: n for key, n in self._counts.items() if key.startswith(f"{what}.")}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


_DIGEST_BYTES = 10  # the 80 bits of a doc_id, which two of a billion different texts share once in a million corpora
_FIRST_SLOTS = 1 << 12
_EMPTY = bytes(_DIGEST_BYTES)  # no digest of a text: one in 2**80 would be


class Digests:
    """A set of digests of 10 bytes, by which exact duplicates are known: one table with open addressing, 16 to 32 bytes each.

    A Python set of them takes 120 bytes each: 1.2 GB for a corpus of 10 million lines.
    """

    def __init__(self) -> None:
        self._count = 0
        self._table = bytearray(_FIRST_SLOTS * _DIGEST_BYTES)

    def __contains__(self, digest: bytes) -> bool:
        place = self._place(digest)
        return self._table[place : place + _DIGEST_BYTES] == digest

    def add(self, digest: bytes) -> bool:
        """Remember `digest` (10 evenly distributed bytes); False where it was known."""
        if 8 * self._count >= 5 * len(self._table) // _DIGEST_BYTES:
            old, self._table = self._table, bytearray(2 * len(self._table))
            for start in range(0, len(old), _DIGEST_BYTES):
                held = bytes(old[start : start + _DIGEST_BYTES])
                if held != _EMPTY:
                    place = self._place(held)
                    self._table[place : place + _DIGEST_BYTES] = held
        place = self._place(digest)
        if self._table[place : place + _DIGEST_BYTES] == digest:
            return False
        self._table[place : place + _DIGEST_BYTES] = digest
        self._count += 1
        return True

    def _place(self, digest: bytes) -> int:
        """Offset of the slot that holds the digest, or of the free one where it belongs."""
        table, mask = self._table, len(self._table) // _DIGEST_BYTES - 1
        slot = int.from_bytes(digest, "little") & mask
        while True:
            held = table[slot * _DIGEST_BYTES : slot * _DIGEST_BYTES + _DIGEST_BYTES]
            if held in (digest, _EMPTY):
                return slot * _DIGEST_BYTES
            slot = (slot + 1) & mask


LONGEST_TITLE = 1000  # characters; it stands beside every sentence
_SPLIT_DIGITS = 13  # 52 bits, which a float holds exactly
BATCH_CHARS = 4 << 20  # in one batch of rows
_SENTENCES_AT_ONCE = 512  # sentences added to it at a time


@dataclass(frozen=True, slots=True)
class Document:
    """A text that is kept."""

    doc_id: str  # BLAKE3 of the text, first 80 bits, in hex
    split: str  # train, valid or test
    record: Record  # text, title, source, line and metadata, cleaned
    width: int  # characters that stand beside each of its sentences, roughly

    def sentences(self, settings: IngestSettings, ledger: Ledger) -> Iterator[tuple[list[str], list[int]]]:
        """Texts and lines of all sentences, some at a time: few, where a long title or metadata stands beside each."""
        from wordpipe.corpus.sentences import split_sentences  # 30 ms of patterns, for which `status` need not wait

        record, chunk = self.record, max(1, min(_SENTENCES_AT_ONCE, BATCH_CHARS // 4 // self.width))
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
    """The split of a document: a pure function of its text, so that it never moves when a corpus grows.

    >>> split_of("00000000000000000000", 0.01, 0.0), split_of("ffffffffffffffffffff", 0.01, 0.0)
    ('valid', 'train')
    """
    place = int(doc_id[:_SPLIT_DIGITS], 16) / 16**_SPLIT_DIGITS
    return "valid" if place < valid else "test" if place < valid + test else "train"


def document_of(record: Record, settings: IngestSettings, ledger: Ledger, seen: Digests) -> Document | None:
    """The document that `record` makes, or None (counted) where it is empty, too short or has been `seen`."""
    ledger.add("documents_read")
    ledger.add("records_split", record.part == 1)
    body = record.text.lstrip()
    if body:
        record.line += record.text.count("\n", 0, len(record.text) - len(body)) if record.lines_follow else 0
        record.text = body.rstrip()
    else:  # the title is the text where there is no other
        record.text, record.title = record.title or "", None
        record.line -= bool(record.text) and record.lines_follow  # the line above, which was read as the title
        ledger.add("documents_title_as_text", bool(record.text))
    if record.title and len(record.title) > LONGEST_TITLE:
        record.title = record.title[:LONGEST_TITLE]
        ledger.add("titles_cut")
    if not record.text:
        ledger.add("documents_dropped_empty")
        return None
    if record.min_words and len(record.text.split(maxsplit=record.min_words)) < record.min_words:
        ledger.add("documents_dropped_short")
        return None
    data = record.text.encode()
    digest = blake3(data).digest(_DIGEST_BYTES)
    if settings.deduplicate and not seen.add(digest):
        ledger.add("documents_dropped_duplicate")
        ledger.add("bytes_dropped_duplicate", len(data))
        return None
    split = split_of(digest.hex(), settings.valid, settings.test)
    ledger.add("documents_kept")
    ledger.add(f"documents_{split}")
    ledger.add("bytes_kept", len(data))
    width = 100 + len(record.title or "") + sum(len(str(value)) for value in record.metadata.values())
    return Document(digest.hex(), split, record, width)
