"""Text and numbers as people read them: text that steers no terminal and no page, counts with their noun, sizes, durations."""

import re

TYPE_CHECKING = False  # to import typing takes as long as all that is left here
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# C0 controls but tab and newline, DEL, C1, bidirectional controls, line and paragraph separators
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Invisible characters (Unicode's Default_Ignorable_Code_Point), as they stand in a class of a regular expression."""
UNNEEDED = f"(?<![\u0600-\u0dff])[\u200c\u200d]|(?![\u200c\u200d])[{INVISIBLE}]"
"""Those that tell no words apart: all but the joiners U+200C and U+200D in the scripts of Arabia and India."""
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_UNNEEDED = re.compile(UNNEEDED)
_PLURAL = re.compile(r"\b(\w+[^aisu])s\b")  # documents, bytes; not this, as, was, loss
_ENDING_Y = re.compile(r"\b(\w+)ies\b")

PLACES = {
    "page": " p. {}", "slide": " slide {}", "cell": "[{}]", "chapter": " › {}", "sheet": " › {}", "part": " › {}",
}  # fmt: skip
"""Kind of a place within a file, as the anchor of a record says it (`page=12`) → how it is shown behind the file's name."""


def place_anchor(kind: str, value: object) -> str:
    """Return the anchor of a record that stands at a place of a kind in `PLACES`.

    >>> place_anchor("page", 12)
    'page=12'
    """
    assert kind in PLACES, kind
    return f"{kind}={value}"


def shown_place(source: str, anchor: str | None, line: int | None) -> str:
    """Return the place of a text as people read it: the page, slide, cell or chapter, else source#anchor:line.

    >>> shown_place("report.pdf", "page=12", 12), shown_place("notes.ipynb", "cell=7", 7), shown_place("a.md", "#tides", 3)
    ('report.pdf p. 12', 'notes.ipynb[7]', 'a.md#tides:3')
    """
    if (place := place_in_file(anchor)) is not None:
        return source + place
    name = (anchor or "").removeprefix("#")
    return f"{source}{f'#{name}' if name else ''}" + ("" if line is None else f":{line}")


def place_of(row: "Mapping[str, Any]") -> dict[str, str]:
    """Return the place of a row by its columns, if it is of a kind in `PLACES`; else nothing.

    >>> place_of({"source": "report.pdf", "anchor": "page=12"}), place_of({"source": "a.txt"})
    ({'place': 'report.pdf p. 12'}, {})
    """
    anchor, source = row.get("anchor"), row.get("source")
    return {} if source is None or place_in_file(anchor) is None else {"place": shown_place(source, anchor, None)}


def place_of_hit(hit: "Mapping[str, Any]") -> str:
    """Return the place of an answer, with the line of its best passage where that is known; empty where it has no source.

    >>> place_of_hit({"source": "a.log", "line": 3, "passage_line": 9}), place_of_hit({"text": "tides"})
    ('a.log:9', '')
    """
    line = hit.get("passage_line", hit.get("line"))
    return shown_place(str(hit["source"]), hit.get("anchor"), line) if hit.get("source") else ""


def place_in_file(anchor: str | None) -> str | None:
    """Return what is shown behind the name of a file for an anchor that names a place of a kind in `PLACES`, else None.

    >>> place_in_file("slide=4"), place_in_file("tides")
    (' slide 4', None)
    """
    kind, sign, value = (anchor or "").partition("=")
    return PLACES[kind].format(value) if sign and kind in PLACES else None


def safe_text(text: str) -> str:
    r"""Show control characters as escapes, so that text from a corpus cannot move the cursor or set the clipboard.

    >>> safe_text("red \x1b[31m")
    'red \\x1b[31m'
    """
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def visible(text: str) -> str:
    r"""Return the text without invisible characters, as words are cut from it: soft hyphens, zero-width spaces, marks.

    >>> visible("pass\u200bword"), visible("Gesamt\u00adkonzept")
    ('password', 'Gesamtkonzept')
    """
    return text if text.isascii() or not _INVISIBLE.search(text) else _UNNEEDED.sub("", text)


def is_unicode(text: str) -> bool:
    """True if a text can be written: an argument of the command line may hold bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def human_count(value: float) -> str:
    """Return a count in few characters.

    >>> human_count(950), human_count(15_900_000)
    ('950', '15.9M')
    """
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= bound:
            return f"{value / (1e3 if unit == 'k' else bound):.1f}{unit}"
    return f"{value:,.0f}"


def noun(count: float, plural: str) -> str:
    """Return the noun of a count, in the singular for 1: the first plural among the words is the noun.

    >>> noun(2, "documents kept"), noun(1, "documents kept"), noun(1, "distinct words"), noun(1, "queries")
    ('documents kept', 'document kept', 'distinct word', 'query')
    """
    if count != 1:
        return plural
    text, found = _ENDING_Y.subn(r"\1y", plural, count=1)
    return text if found else _PLURAL.sub(r"\1", plural, count=1)


def counted(count: int, plural: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "sources"), counted(12_000, "sources")
    ('1 source', '12,000 sources')
    """
    return f"{count:,} {noun(count, plural)}"


def human_bytes(value: float) -> str:
    """Return a size in few characters.

    >>> human_bytes(33_554_432)
    '33.6 MB'
    """
    for bound, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= bound:
            return f"{value / bound:.1f} {unit}"
    return f"{value:.0f} B"


def human_seconds(value: float) -> str:
    """Return a duration in few characters.

    >>> human_seconds(4.21), human_seconds(187), human_seconds(7300)
    ('4.2 s', '3m07s', '2h01m')
    """
    if value < 60:
        return f"{value:.1f} s"
    minutes, seconds = divmod(int(value), 60)
    return f"{minutes}m{seconds:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def short_name(name: str, room: int = 28) -> str:
    r"""Return a name on one line of at most `room` characters; the end of a long one says most.

    >>> short_name("run/words"), short_name("a/long\npath/to/words", 10)
    ('run/words', '…/to/words')
    """
    name = safe_text(" ".join(name.split()))
    return name if len(name) <= room else "…" + name[1 - room :]
