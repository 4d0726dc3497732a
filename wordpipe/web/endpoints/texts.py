"""`/text`: one text of an index as a whole, or a part of a long one, and its neighbours in its document."""

from collections.abc import Sequence
from typing import Any, Self

from wordpipe.errors import ConfigError, InputError
from wordpipe.stages import OpenTextIndex
from wordpipe.web.endpoint import Answer, At, Endpoint, artifact_param, endpoint, param
from wordpipe.web.params import ANY, MAP, TEXT, WHOLE, fields, maybe

_LONGEST = 1_000_000  # characters of a text in one answer

_TEXT = Answer("Text", fields(
    {
        "index": TEXT, "digest": TEXT, "row": WHOLE, "text": TEXT, "start": WHOLE, "characters": WHOLE, "next": maybe(WHOLE),
        "before": maybe(WHOLE), "after": maybe(WHOLE),
    },
    {
        "id": ANY, "doc_id": TEXT, "sentence_id": WHOLE, "title": maybe(TEXT), "source": TEXT, "line": WHOLE,
        "anchor": maybe(TEXT), "place": TEXT, "split": TEXT, "metadata": MAP,
    },
    closed=False,
))  # fmt: skip


@endpoint("/text", can="search", answer=_TEXT)
class TextOf(Endpoint):
    """The text of one row of an index, with its fields and its neighbours in the same document."""

    row: int | None = param(
        None, "number of the row", example=3, ge=0, each=True, schema={"type": "integer", "minimum": 0}
    )
    id: str | None = param(None, "id of the record; give either id or row", each=True)
    index: str | None = artifact_param("an index of texts")
    start: int = param(0, "first character of the text that is returned", ge=0)
    length: int = param(100_000, "maximum number of characters that are returned", ge=1, le=_LONGEST)

    def validate(self) -> None:
        """Refuse a request for a text with both a row and an id, or neither. Raises ConfigError."""
        one_row(self.row, self.id)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> Sequence[dict[str, Any]]:
        """Return each wanted text, or the wanted part, with the rows before and after the text in its document."""
        opened = at.opened
        if not isinstance(opened, OpenTextIndex):
            raise ConfigError(
                "only an index over texts has texts", where=at.served.name, expected="an index over texts"
            )
        rows = [opened.row_of(str(one.id)) if one.row is None else one.row for one in items]
        if wrong := [row for row in rows if row >= len(opened)]:
            expected = f"0 to {len(opened) - 1:,}"
            raise InputError("the row does not exist", where=at.served.name, got=f"{wrong[0]:,}", expected=expected)
        shown = dict(zip(found := sorted(set(rows)), opened.row_reader(found), strict=True))
        return [
            {"row": row, **shown[row], **_part(str(shown[row].get("text") or ""), one), **_beside(opened, row)}
            for row, one in zip(rows, items, strict=True)
        ]


def one_row(row: int | None, record_id: str | None) -> None:
    """Refuse a request about one row that names both a row and an id, or neither. Raises ConfigError."""
    if (row is None) == (record_id is None):
        raise ConfigError(
            "the request needs row or id, not both", where="row, id", hint="…?row=N, or …?id=ID if the records have ids"
        )


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
    """Return the rows before and after a row in its document; None where the document begins or ends."""
    documents_N = opened.documents
    near = {"before": row - 1, "after": row + 1}
    return {
        name: other if 0 <= other < len(documents_N) and documents_N[other] == documents_N[row] else None
        for name, other in near.items()
    }
