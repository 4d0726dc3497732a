r"""The readers of labelled text: CoNLL's columns, SQuAD's JSON, and lines that begin with labels.

    conll          EU⇥B-ORG        a token a line, its tag in the last column; a blank line ends the text
    squad          {"data": [{"title": …, "paragraphs": [{"context": …, "qas": [{"id": …, "question": …, "answers": […]}]}]}]}
    label-first    red⇥a text      or `__label__red __label__round a text`, as fastText has it, or `red a text`

Each says by itself which of its parts is what, so that no setting names a field. All go through `Fields`, as other records do.

Source: Tjong Kim Sang & De Meulder 2003 (CoNLL-2003, section 3.1); Rajpurkar et al. 2016 and 2018 (SQuAD 1.1 and 2.0).
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from wordpipe.corpus.columns import RepeatedFieldError, without_repeats
from wordpipe.corpus.decode import BLOCK
from wordpipe.corpus.detect_format import HEAD_BYTES, first_lines
from wordpipe.corpus.documents import Record
from wordpipe.corpus.fields import Fields
from wordpipe.corpus.reading import Opened
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError

PREFIX = "__label__"
"""What a label of fastText begins with."""

_USUAL: dict[str, Any] = {
    "text_field": "text", "title_field": "title", "id_field": "none", "metadata": (), "text_b": "", "label_field": "",
    "tags_field": "", "spans_field": "",
}  # fmt: skip
_SQUAD = re.compile(r'\s*\{.*"data"\s*:\s*\[.*"paragraphs"\s*:', re.DOTALL)
_DOCSTART = "-DOCSTART-"
_LEAST_COLUMNS = 2
_LOOKED_AT = 10  # lines, by which it is known what parts labels and texts
_WHITE = re.compile(r"[ \t\r\n]*")
_AT_ONCE = 1 << 16  # characters of JSON that are read at a time, at least
_SHOWN = 60  # characters of what is wrong


def read_conll(opened: Opened) -> Iterator[Record]:
    """Return a record for each sentence of a CoNLL file: its tokens and their tags."""
    return conll_records(opened.record_lines(), _own_fields(opened, tags_field="tags"), longest=opened.longest)


def read_squad(opened: Opened) -> Iterator[Record]:
    """Return a record for each question of a SQuAD file: passage, question and answers."""
    id_field = "none" if opened.settings.id_field == "none" else "id"
    fields = _own_fields(opened, text_b="text_b", spans_field="spans", id_field=id_field)
    parts = (line for _, line in opened.decoder.lines(opened.blocks, longest=BLOCK))  # often one line
    return squad_records(parts, fields, longest=opened.longest)


def read_label_first(opened: Opened) -> Iterator[Record]:
    """Return a record for each line that begins with a label, as in fastText."""
    return label_first_records(opened.record_lines(), _own_fields(opened, label_field="label"))


def is_squad(first: bytes, settings: IngestSettings) -> bool:
    """True if a source begins as SQuAD's JSON does."""
    return _SQUAD.match(first[:HEAD_BYTES].decode(errors="replace").removeprefix("\ufeff")) is not None


def is_label_first(first: bytes, settings: IngestSettings) -> bool:
    """True if each of the first lines begins with a label of fastText, `__label__NAME`."""
    lines = first_lines(first[:HEAD_BYTES])
    return bool(lines) and all(line.startswith(PREFIX) for line in lines)


def _own_fields(opened: Opened, **names: str) -> Fields:
    """Return a maker of records whose fields are named by the format, not by settings."""
    return Fields(opened.settings.model_copy(update=_USUAL | names), opened.decoder)


def conll_records(lines: Iterable[tuple[int, str]], fields: Fields, *, longest: int) -> Iterator[Record]:
    """Yield a record for each sentence: its tokens, parted by a space, and the tags of the last column.

    Columns are parted by tabs, if there is one in the first line with a token, else by spaces. Lines that begin with
    -DOCSTART- are dropped and counted.

    Args:
        lines: number and text of each.
        fields: that make the records.
        longest: characters of a sentence that are held at most.

    Raises:
        InputError: a line with another number of columns than the first, with a token that is empty or has white space in it,
            or without a tag; a sentence that does not end.
    """
    tokens: list[str] = []
    tags: list[str] = []
    first = size = width = 0
    is_bad, by_tabs = False, False
    for number, line in chain(lines, [(0, "\n")]):
        starts_document = line.startswith(_DOCSTART)
        # a blank line ends a sentence
        if line.isspace() or starts_document:
            if tokens and not is_bad:
                record = fields.record({"text": " ".join(tokens), "tags": tags}, first, size)
                yield from () if record is None else (record,)
            fields.ledger.add("docstart_lines_dropped", starts_document)
            tokens, tags, size, is_bad = [], [], 0, False
            continue
        # columns: their number and what parts them are those of the first line
        if not width:
            by_tabs = "\t" in line.strip()
        cells = line.rstrip("\n").split("\t") if by_tabs else re.split("[ \t]+", line.strip(" \t\n"))
        width = width or _columns(cells, number, fields)
        first, size = first if tokens or is_bad else number, size + len(line)
        if not is_bad and (wrong := _wrong_columns(cells, width)):
            is_bad = True
            hint = "a blank line ends a sentence; tabs or spaces separate the columns"
            fields.bad("columns", wrong[0], number, got=wrong[1], expected=wrong[2], hint=hint)
        # without blank lines the whole file would be held
        if size > longest:
            hint = "put a blank line between sentences; if a sentence is really this long, raise --max-document-bytes"
            raise InputError(
                "the sentence is too long", where=f"{fields.source}, line {first}", expected=f"at most {longest} bytes",
                hint=hint,
            )  # fmt: skip
        if not is_bad:
            tokens.append(cells[0])
            tags.append(cells[-1].strip())


def _columns(cells: list[str], number: int, fields: Fields) -> int:
    """Return the number of columns of a CoNLL file of labelled words; note which column is read."""
    if len(cells) < _LEAST_COLUMNS:
        raise InputError(
            "a line has a token but no tag", where=f"{fields.source}, line {number}", got=_cut(" ".join(cells)),
            expected="columns separated by tabs or spaces, with the tag in the last column",
            hint="use --format txt for plain text, or --format label-first for lines that begin with a label",
        )  # fmt: skip
    if len(cells) > _LEAST_COLUMNS:
        note = f"{fields.source}: column 1 contains the tokens, and column {len(cells)} the tags; other columns are ignored"
        fields.ledger.notes[note] = None
    return len(cells)


def _wrong_columns(cells: list[str], width: int) -> tuple[str, str, str] | None:
    """Return what is wrong with a line of CoNLL, what it has, and what was expected."""
    if len(cells) != width:
        what = "a line has more or fewer columns than the first line"
        return what, f"{len(cells)}: {_cut(' '.join(cells))!r}", str(width)
    if cells[0].split() != [cells[0]]:
        what = "a token is empty" if not cells[0].strip() else "a token contains white space"
        return what, repr(_cut(cells[0])), "one word"
    if not cells[-1].strip():
        return (
            "a token has no tag",
            repr(_cut(cells[0])),
            "a tag in the last column (O for a token that is not part of a name)",
        )
    return None


def label_first_records(lines: Iterable[tuple[int, str]], fields: Fields) -> Iterator[Record]:
    """Yield a record for each line that is not blank: what it begins with is its label, the rest its text.

    Where all first lines begin with `__label__`, labels are what does; where all have a tab, it is what stands before the
    tab; else it is what stands before the first white space. A line of fastText may have several: they are a list.

    Raises:
        InputError: a line without a label, or with a label that has no name.
    """
    lines = ((number, line.rstrip("\n")) for number, line in lines if not line.isspace())
    # how labels are written, by the first lines
    head = [*islice(lines, _LOOKED_AT)]
    fast = all(line.startswith(PREFIX) for _, line in head)
    mark = None if fast or not all("\t" in line for _, line in head) else "\t"
    ends = (
        "the label of each line ends at the first tab"
        if mark
        else "the label of each line ends at the first white space"
    )
    rule = f"labels begin with {PREFIX}" if fast else ends
    if head:
        fields.ledger.notes[f"{fields.source}: {rule}"] = None
    for number, line in chain(head, lines):
        # each line by itself: its labels and its text
        labels, text = _fast_labels(line) if fast else _one_label(line, mark)
        if not labels or not all(labels):
            what = "a line has no label" if not labels else "a label is empty"
            hint = f"{rule}, as in the first lines of the file"
            fields.bad("label", what, number, got=repr(_cut(line)), expected="a label before the text", hint=hint)
            continue
        # of fastText a label may stand nowhere else
        if PREFIX in text and fast and any(word.startswith(PREFIX) for word in text.split()):
            what, hint = "a label is inside the text", "put all labels at the beginning of the line"
            fields.bad("label", what, number, got=repr(_cut(line)), hint=hint)
            continue
        values = {"label": labels[0] if len(labels) == 1 else labels, "text": text}
        if record := fields.record(values, number, len(line)):
            yield record


def _fast_labels(line: str) -> tuple[list[str], str]:
    """Return the labels with which a line of fastText begins, and its text."""
    labels = []
    while line.startswith(PREFIX):
        label, *rest = line.split(maxsplit=1)
        labels.append(label.removeprefix(PREFIX))
        line = rest[0] if rest else ""
    return list(dict.fromkeys(labels)), line


def _one_label(line: str, mark: str | None) -> tuple[list[str], str]:
    """Return the label of a line of labelled text, if it has one, and its text."""
    if mark is None:
        label, *rest = line.split(maxsplit=1)
        return [label], rest[0] if rest else ""
    label, tab, text = line.partition(mark)
    return [label.strip()] if tab else [], text


def squad_records(parts: Iterable[str], fields: Fields, *, longest: int) -> Iterator[Record]:
    """Yield a record for each question: the passage is its text, the question its second text, the answers are spans.

    An answer is `{"start", "end", "label": null}` in characters of the passage. A question that has none has an empty list,
    one whose answers nobody wrote down (a test set) has no list. The `line` of a record is the number of its question.

    Args:
        parts: the JSON text, in parts of any size.
        fields: that make the records.
        longest: characters of one article that are held at most; of the file no more is held.

    Raises:
        InputError: no JSON, or of another shape; an answer that does not stand where it says.
    """
    number, text = 0, _JsonText(parts, fields.source, longest)
    for place, article in enumerate(_articles(text), start=1):
        if text.repeated is not None:
            fields.bad_repeated(text.repeated, place, place=f"article {place}")
            continue
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            fields.bad(
                "article", "an article has no paragraphs", place, place=f"article {place}", got=_keys(article),
                expected="an article in SQuAD format with title and paragraphs",
                hint="if this is not SQuAD, write one object per line: jq -c '.data[]' FILE > FILE.jsonl",
            )  # fmt: skip
            continue
        for paragraph in paragraphs:
            known = paragraph if isinstance(paragraph, dict) else {}
            context, questions = known.get("context"), known.get("qas")
            if not isinstance(context, str) or not isinstance(questions, list):
                fields.bad(
                    "paragraph", "a paragraph has no passage or no questions", place, place=f"article {place}",
                    got=_keys(paragraph), expected="an object with \"context\": a string, and \"qas\": a list",
                )  # fmt: skip
                continue
            for question in questions:
                number += 1
                values = _question(question, context, number, fields)
                if values is None:
                    continue
                values["title"] = article.get("title")
                if record := fields.record(values, number, len(context) + len(values["text_b"])):
                    yield record


def _question(given: Any, context: str, number: int, fields: Fields) -> dict[str, Any] | None:
    """Return the fields of one question of SQuAD; None where it is left out."""
    known = given if isinstance(given, dict) else {}
    place = f"question {known.get('id', number)}"
    if not isinstance(known.get("question"), str):
        fields.bad("question", "a question has no text", number, place=place, got=_keys(given), expected="question")
        return None
    answers = [] if known.get("is_impossible") is True else known.get("answers")
    spans = None
    if answers is not None:
        spans = []
        for answer in answers if isinstance(answers, list) else [answers]:
            span, wrong = _span(answer, context)
            if span is None:
                hint = "answer_start must be the number of characters (Unicode code points) before the answer in the context"
                fields.bad(
                    "answer",
                    "an answer is not at the given position in the passage",
                    number,
                    place=place,
                    got=wrong,
                    hint=hint,
                )
                return None
            spans.append(span)
    return {"text": context, "text_b": known["question"], "id": known.get("id"), "spans": spans}


def _span(answer: Any, context: str) -> tuple[dict[str, Any] | None, str]:
    """Return an answer of labelled text (SQuAD) as a span; or None, and what is wrong."""
    known = answer if isinstance(answer, dict) else {}
    text, start = known.get("text"), known.get("answer_start")
    if not isinstance(text, str) or not text or type(start) is not int:
        return None, f"an answer without text or answer_start: {_cut(json.dumps(answer))}"
    found = context[start : start + len(text)] if start >= 0 else ""
    if found != text:
        return None, f"the text {_cut(found)!r} at position {start} instead of {_cut(text)!r}"
    return {"start": start, "end": start + len(text), "label": None}, ""


def _articles(text: "_JsonText") -> Iterator[Any]:
    """Yield the items of the list `data` of a SQuAD file, one at a time; its other members are skipped."""
    others = "write one JSON object per line: jq -c '{}' FILE > FILE.jsonl"
    if (mark := text.peek()) != "{":
        got = "a list" if mark == "[" else repr(mark) if mark else "nothing"
        raise text.error("this JSON is not in the format of SQuAD", got=got, hint=others.format(".[]"))
    # the members of the object in order; only the items of data are given
    text.take("{")
    names: list[str] = []
    while text.peek() != "}":
        names.append(str(text.value()))
        text.take(":")
        # nothing else of the object is held
        if names[-1] == "data" and text.peek() == "[":
            yield from text.items()
        else:
            text.value()
        if text.peek() != ",":
            break
        text.take(",")
    text.take("}")
    # what follows, or is missing, says that it is another kind of file
    if text.peek() == "{":
        raise text.error(
            "the file contains several JSON objects", got="JSON Lines", hint="use --format jsonl for JSON Lines"
        )
    if text.peek():
        raise text.error("there is more text after the JSON object", got=repr(text.peek()))
    if "data" not in names:
        got = f"an object with {', '.join(names[:8]) or 'nothing'}"
        raise text.error("this JSON is not in the format of SQuAD", got=_cut(got), hint=others.format("."))


class _JsonText:
    """The JSON text of a SQuAD file, which comes in parts; one value is held at a time.

    Args:
        parts: of any size.
        source: for errors.
        longest: characters of a value at most.
    """

    def __init__(self, parts: Iterable[str], source: str, longest: int) -> None:
        self._parts, self._source, self._longest = iter(parts), source, longest
        self._text, self._at, self._lines = "", 0, 0
        self.repeated: RepeatedFieldError | None = None  # a key that an object of the last value has twice
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object)

    def peek(self) -> str:
        """Return the next character of a SQuAD file's JSON that is no white space; nothing at the end."""
        while True:
            found = _WHITE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read(_AT_ONCE):
                return ""

    def take(self, mark: str) -> None:
        """Go beyond the next character. Raises InputError: it is another."""
        if (found := self.peek()) != mark:
            raise self.error("not JSON", got=repr(found) if found else "the end of the file", expected=repr(mark))
        self._at += 1

    def items(self) -> Iterator[Any]:
        """Yield the items of the list of a SQuAD file's JSON that begins here."""
        self.take("[")
        while self.peek() != "]":
            yield self.value()
            if self.peek() != ",":
                break
            self.take(",")
        self.take("]")

    def value(self) -> Any:
        """Return the next value of a SQuAD file's JSON. Raises InputError: it is none, too long, or nested too deep."""
        self.peek()
        while True:
            held, self.repeated = len(self._text) - self._at, None
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if held > self._longest:
                    expected, hint = f"at most {self._longest} bytes", "raise --max-document-bytes"
                    raise self.error(
                        "an article is too long or is not valid JSON", expected=expected, hint=hint
                    ) from None
                # twice as much each time: what is long is not read again and again
                if self._read(held):
                    continue
                got = f"{error.msg.removesuffix(' at')} at column {error.colno}"
                raise self.error("not JSON", at=error.pos, got=got) from None
            except (RecursionError, ValueError) as error:
                raise self.error("this JSON cannot be read", got=str(error)[:_SHOWN]) from None
            if end == len(self._text) and self._read(_AT_ONCE):
                continue  # a number may go on
            self._at = min(end, len(self._text))
            return value

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return an object of a SQuAD file's JSON as a dict; note a key that it has twice."""
        try:
            return without_repeats(pairs)
        except RepeatedFieldError as error:
            self.repeated = error
            return dict(pairs)

    def error(self, what: str, *, at: int | None = None, **more: Any) -> InputError:
        """Return an error that says where the reading is."""
        line = self._lines + self._text.count("\n", 0, self._at if at is None else at) + 1
        return InputError(what, where=f"{self._source}, line {line}", **more)

    def _read(self, wanted: int) -> bool:
        """Read about so many more characters of a SQuAD file; what was taken is forgotten. False at the end."""
        found, size = [self._text[self._at :]], 0
        for part in self._parts:
            found.append(part)
            size += len(part)
            if size >= max(wanted, _AT_ONCE):
                break
        self._lines += self._text.count("\n", 0, self._at)
        end = len(self._text) - self._at
        self._text, self._at = "".join(found), 0
        return len(self._text) > end


def _keys(value: Any) -> str:
    """Return the keys of an object of JSON for an error; the type of any other value."""
    return _cut(", ".join(map(str, value)) or "nothing") if isinstance(value, dict) else type(value).__name__


def _cut(text: str) -> str:
    """Return the beginning of a wrong text for an error."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
