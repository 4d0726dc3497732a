"""`/text`: one text of an index as a whole, or a part of a long one, its neighbours in its document; passages of hits."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from wordpipe.corpus import READERS
from wordpipe.errors import ConfigError, InputError
from wordpipe.search.settings import QueryOptions
from wordpipe.stages import (
    OpenArtifact,
    OpenIndex,
    OpenTextIndex,
    PassageFinder,
    field_passages,
    flowing_pieces,
    pieces_of,
)
from wordpipe.web.endpoint import Answer, At, Endpoint, Serving, artifact_param, endpoint, param
from wordpipe.web.links import add_links, page_address
from wordpipe.web.params import (
    ANY,
    FLAG,
    GIVEN,
    MAP,
    TEXT,
    WHOLE,
    Schema,
    bounded,
    checked_text,
    fields,
    listing,
    maybe,
)
from wordpipe.web.replies import Refused, json_reply
from wordpipe.web.settings import ServeSettings

T = TypeVar("T")

_CARRIES = 0.1  # of the likeness by vectors: a word of the text that brings less is not marked
_MARKED_WORDS = 5
_MAX_FIELD = 5_000  # characters of a field in a passage
_MAX_BASE = 2_000  # characters of the address of a page
_LONGEST = 1_000_000  # characters of a text in one answer
_PASSAGE = 200  # characters of a text that answer a query: a sentence or two
_WHOLE = 200_000  # characters of a document in one answer
_TEXTS = 2_000  # texts of a document that are read for one answer
_REPEATED = 4_000  # characters at the end of a text that the next one may repeat
_BORDER = re.compile(r"\A|\n|[.!?…:;。！？][^\w\n]*")  # of two sentences
_ENDED = re.compile(r"[.!?…:;。！？]\W*\Z")

PIECES: Schema = listing({"type": "array", "items": {"type": ["string", "boolean"]}, "minItems": 2, "maxItems": 2})
"""The schema of a text in pieces: each the text, and whether it is to be marked."""
PASSAGE = fields(
    {"pieces": PIECES, "before": FLAG, "after": FLAG, "has_vector": FLAG, "lacks": listing(TEXT)},
    {"code": FLAG, "title": PIECES, "fields": {"type": "object", "additionalProperties": PIECES}},
)
"""The schema of the passage of a hit."""
_TEXT = Answer("Text", fields(
    {
        "index": TEXT, "digest": TEXT, "row": WHOLE, "text": TEXT, "start": WHOLE, "characters": WHOLE, "next": maybe(WHOLE),
        "before": maybe(WHOLE), "after": maybe(WHOLE), "first": WHOLE, "last": WHOLE, "document_before": maybe(WHOLE),
        "document_after": maybe(WHOLE),
    },
    {
        "id": ANY, "doc_id": TEXT, "sentence_id": WHOLE, "title": maybe(TEXT), "source": TEXT, "line": WHOLE,
        "passage_line": WHOLE, "anchor": maybe(TEXT), "place": TEXT, "split": TEXT, "metadata": MAP, "code": FLAG,
        "pieces": PIECES, "passage": fields({"start": WHOLE, "stop": WHOLE}), "link": TEXT,
        "title_pieces": PIECES, "field_pieces": {"type": "object", "additionalProperties": PIECES},
        "texts": listing(fields({"row": WHOLE, "text": TEXT}, {"pieces": PIECES})),
    },
    closed=False,
))  # fmt: skip


class UnknownRow(Refused):
    """A request about a row, or a record, that an index does not have."""


def base_param() -> Any:
    """Declare the parameter `base`, from which the links to texts go on."""
    return param(
        "", "with format spreadsheet or json, the address of the page, with which links to texts begin; another host is not "
        "used; json has links to pages only if base is given",
        each=True, check=_checked_base, schema=GIVEN | {"maxLength": _MAX_BASE},
    )  # fmt: skip


def _checked_base(text: str, settings: ServeSettings) -> str:
    """Check the length of the address from which links to texts go on."""
    del settings
    bounded("characters of base", len(text), 0, _MAX_BASE)
    return text


def origin_of(page: str, base: str) -> dict[str, str]:
    """Return when answers were given, and the address of the page that has them; nothing without a `base`.

    >>> origin_of("http://x.org/", "http://x.org/?q=salt")["page"], origin_of("http://x.org/", "")
    ('http://x.org/?q=salt', {})
    """
    asked = base.partition("?")[2]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"date": now, "page": f"{page}?{asked}" if asked else page} if base else {}


class WithTable(Endpoint):
    """The base of endpoints whose answers may be a table with a link to each text."""

    base: str

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return the reply, made with the address by which the client knows the page."""
        page = page_address(self.base, request.url.scheme, request.headers.get("host", ""))
        reply = await self.answered(server, partial(self.reply, page=page))
        return reply if isinstance(reply, Response) else json_reply(reply)

    def reply(self, at: At, found: Any, page: str = "") -> Response | dict[str, Any]:
        """Return the answer, whose links to texts go on from the address of the page."""
        raise NotImplementedError


class OfOneRow(Endpoint):
    """The base of endpoints about one row of an index, named by its number or by the id of its record."""

    row: int | None
    id: str | None
    index: str | None

    def validate(self) -> None:
        """Refuse a request about one row that names both a row and an id, or neither. Raises ConfigError."""
        if (self.row is None) == (self.id is None):
            hint = "…?row=N, or …?id=ID if the records have ids"
            raise ConfigError("the request needs row or id, not both", where="row, id", hint=hint)

    def row_in(self, at: At) -> int | UnknownRow:
        """Return the number of the wanted row, or the refusal of a row or an id that does not exist."""
        name, opened = at.served.name, at.opened
        if self.id is None:
            row = self.row or 0
            if row < len(opened):
                return row
            return UnknownRow(404, f"{name}: the row does not exist; got {row:,}; expected 0 to {len(opened) - 1:,}")
        try:
            found: int = opened.row_of(self.id)
        except InputError as error:
            got = "" if error.got is None else f"; got {self.id[:80]}"
            return UnknownRow(400 if error.got is None else 404, f"{name}: {error.what}{got}", hint=error.hint)
        return found

    async def answered(self, server: Serving, shape: Callable[[At, Any], T]) -> T:
        """Return the answer of the named index; for an id without an index that of the first one that has the id."""
        able = [
            one.name for one in server.artifacts.by_name.values()
            if self.declared.can in one.current.abilities and isinstance(one.current.opened, OpenTextIndex)
        ]  # fmt: skip
        if self.id is None or self.index is not None or len(able) < 2:
            return await super().answered(server, shape)
        for name in able:
            try:
                return await replace(self, index=name).answered(server, shape)  # type: ignore[type-var]
            except UnknownRow:
                continue
        raise UnknownRow(404, f"no record has this id; got {self.id[:80]}; the indexes are {', '.join(able)}")


@endpoint("/text", group="Search", place=3, can="search", answer=_TEXT)
class TextOf(OfOneRow):
    """The text of one row of an index, with its fields and its neighbours in the same document, or all of this document."""

    row: int | None = param(None, "number of the row", example=3, ge=0, each=True)
    id: str | None = param(None, "id of the record; give either id or row", each=True)
    index: str | None = artifact_param("an index of texts")
    q: str = param(
        "", "a query; then `pieces` has the text with its words marked; `passage`: where most are", each=True, schema=GIVEN,
        check=lambda given, settings: checked_text(given, "the query", settings.max_chars) if given.strip() else "",
    )  # fmt: skip
    start: int = param(0, "first character of the text that is returned", ge=0)
    length: int = param(100_000, "maximum number of characters that are returned", ge=1, le=_LONGEST)
    whole: bool = param(
        False, "also `texts`: those of its document in order, without what one repeats of the one before; of a document of "
        f"more than {_WHOLE:,} characters the part that has the row",
    )  # fmt: skip

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> "Sequence[dict[str, Any] | Refused]":
        """Return each wanted text, or the wanted part, with the rows before and after the text in its document."""
        opened = at.opened
        if not isinstance(opened, OpenTextIndex):
            raise ConfigError(
                "only an index over texts has texts", where=at.served.name, expected="an index over texts"
            )
        rows = [one.row_in(at) for one in items]
        known = sorted({row for row in rows if isinstance(row, int)})
        shown = dict(zip(known, opened.row_reader(known), strict=True))
        add_links(shown.values(), at.server.settings.link)
        return [
            row if isinstance(row, Refused) else one._of(opened, row, shown[row])
            for row, one in zip(rows, items, strict=True)
        ]

    def _of(self, opened: OpenTextIndex, row: int, shown: dict[str, Any]) -> dict[str, Any] | Refused:
        """Return the wanted part of the text of a row, or the refusal of a part that begins behind the end of the text."""
        text = str(shown.get("text") or "")
        if self.start >= max(1, len(text)):
            said = f"start: the text has no character {self.start:,}; expected 0 to {max(0, len(text) - 1):,}"
            return Refused(400, said)
        part, beside = _part(text, self), _beside(opened, row)
        finder = opened.passages(opened.marked_words(opened.asked(self.q, QueryOptions()))) if self.q else None
        marked = _marked(finder, part["text"], shown) if finder else {}
        whole = {"texts": _texts(opened, row, beside, finder)} if self.whole else {}
        return {"row": row, **shown, **part, **marked, **code_of(shown), **beside, **whole}


def _marked(finder: PassageFinder, text: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a text, its title and fields in pieces, the words of a query marked, and where the text's best passage is."""
    best, line, title = finder.passage(text, _PASSAGE), finder.line_of(row), str(row.get("title") or "")
    found: dict[str, Any] = {"pieces": pieces_of(text, finder.marks(text))}
    found |= {"title_pieces": pieces_of(title, finder.marks(title))} if title else {}
    fields = {name: _as_text(value) for name, value in (row.get("metadata") or {}).items()}
    pieces = {name: pieces_of(value, own) for name, value in fields.items() if (own := finder.marks(value))}
    found |= {"field_pieces": pieces} if pieces else {}
    found |= {"passage": {"start": best.start, "stop": best.stop}} if best.marks else {}
    return found | ({} if line is None else {"passage_line": line})


def _as_text(value: Any) -> str:
    """Return a field of a text, or those of a list, as a text; empty where it is none."""
    several = value if isinstance(value, list) else [value]
    return ", ".join(several) if all(isinstance(one, str) for one in several) else ""


def _texts(
    opened: OpenTextIndex, row: int, beside: Mapping[str, Any], finder: PassageFinder | None
) -> list[dict[str, Any]]:
    """Return the texts of the document of a row, in order; of a long document those of the part that has the row.

    Parts begin at the same rows, whichever row is asked for.
    """
    begin = row - (row - beside["first"]) % _TEXTS
    rows = range(begin, min(beside["last"] + 1, begin + _TEXTS))
    part, held, before = list[dict[str, Any]](), 0, ""
    for one, shown in zip(rows, opened.row_reader(rows), strict=True):
        text = str(shown.get("text") or "")
        own = text[repeated(before, text) :].removeprefix(" ").strip("\n")[:_WHOLE]
        if held and held + len(own) > _WHOLE:
            if part[-1]["row"] >= row:
                break
            part, held = [], 0
        part.append({"row": one, "text": own} | ({"pieces": pieces_of(own, finder.marks(own))} if finder else {}))
        held, before = held + len(own), text
    return part


def repeated(before: str, text: str) -> int:
    """Return how many characters at the beginning of a text are the last sentences of the text before.

    >>> repeated("Salt is old. Bees fly.", "Bees fly. They find home."), repeated("A list of salt", "salt and bees")
    (9, 0)
    """
    indent = len(text) - len(text.lstrip())
    for one in _BORDER.finditer(before, max(0, len(before) - _REPEATED)):
        last = before[one.end() :].lstrip()
        stop = indent + len(last)
        if last and stop < len(text) and text.startswith(last, indent) and (text[stop] == "\n" or _ENDED.search(last)):
            return stop
    return 0


def code_of(row: Mapping[str, Any]) -> dict[str, bool]:
    """Return `code` of a row whose source is source code by its name; else nothing."""
    is_code = str(row.get("source") or "").lower().endswith(READERS["code"].endings_if_named)
    return {"code": True} if is_code else {}


def passages_of(
    opened: OpenArtifact, hits: Sequence[dict[str, Any]], asked: str, room: int, *, is_whole: bool = False
) -> list[dict[str, Any]]:
    """Return the passage of each hit that answers best, in pieces of text; of no question the beginning.

    Args:
        opened: the index, or words.
        hits: of a search.
        asked: what was searched for.
        room: characters, 1 at least.
        is_whole: true if the words that a hit lacks are to be said.
    """
    finder = opened.passages(asked)
    there = zip(hits, _have_vectors(opened, hits), strict=True)
    return [_passage(hit, finder, room, is_whole=is_whole) | {"has_vector": has} for hit, has in there]


def _have_vectors(opened: OpenArtifact, hits: Sequence[dict[str, Any]]) -> list[bool]:
    """Return True for each hit whose row has a vector; rows without one are found by words, ids and conditions alone."""
    parts = {str(one.path): one for one in getattr(opened, "parts", ())}
    return [_has_vector(parts.get(hit.get("index", ""), opened), hit["row"]) for hit in hits]


def _has_vector(opened: OpenArtifact, row: int) -> bool:
    """Return True if a row of an index has a vector."""
    if not isinstance(opened, OpenIndex) or not opened.has_vectors or (known := opened.with_vector) is None:
        return not isinstance(opened, OpenIndex) or opened.has_vectors
    return bool(known[min(int(known.searchsorted(row)), len(known) - 1)] == row)


def _passage(hit: dict[str, Any], finder: PassageFinder, room: int, *, is_whole: bool) -> dict[str, Any]:
    """Return the passage of a search's hit that answers best, in pieces of text."""
    text = str(hit.get("text") or hit.get("word") or "")
    strongest = dict[str, float]()
    if dense := (hit.get("explain") or {}).get("dense"):
        for word in sorted(dense["text"], key=lambda one: -one["score"])[:_MARKED_WORDS]:
            if len(word["word"].strip()) > 1 and word["score"] >= _CARRIES * dense["score"]:
                strongest[word["word"]] = word["score"]
    passage, code = finder.passage(text, room, strongest), code_of(hit)
    found: dict[str, Any] = {
        "pieces": (pieces_of if code else flowing_pieces)(text, passage.marks, passage.start, passage.stop),
        "before": passage.start > 0,
        "after": passage.stop < len(text),
        "lacks": finder.lacks(hit) if is_whole else [],
    }
    found |= code
    if title := str(hit.get("title") or ""):
        found["title"] = pieces_of(title, finder.marks(title))
    if hit.get("found_in"):
        own = field_passages(hit, finder, min(room, _MAX_FIELD))
        found["fields"] = {name: pieces_of(value, one.marks, one.start, one.stop) for name, value, one in own}
    return found


def _part(text: str, asked: TextOf) -> dict[str, Any]:
    """Return the wanted part of a text, the length of the text, and the start of the next part; None after the last."""
    stop = asked.start + asked.length
    return {
        "text": text[asked.start : stop],
        "start": asked.start,
        "characters": len(text),
        "next": stop if stop < len(text) else None,
    }


def _beside(opened: OpenTextIndex, row: int) -> dict[str, int | None]:
    """Return the rows of the texts beside a row, the first and last row of its document, and where others beside it begin.

    None stands where the document, or the index, begins or ends.
    """
    first, last = _ends(opened, row)
    return {
        "before": row - 1 if row > first else None, "after": row + 1 if row < last else None, "first": first, "last": last,
        "document_before": _ends(opened, first - 1)[0] if first else None,
        "document_after": last + 1 if last + 1 < len(opened) else None,
    }  # fmt: skip


def _ends(opened: OpenTextIndex, row: int) -> tuple[int, int]:
    """Return the first and the last row of the document of a row."""
    is_other = opened.documents != opened.documents[row]
    others_before, others_after = np.flatnonzero(is_other[:row]), np.flatnonzero(is_other[row:])
    first = int(others_before[-1]) + 1 if len(others_before) else 0
    return first, row + int(others_after[0]) - 1 if len(others_after) else len(is_other) - 1
