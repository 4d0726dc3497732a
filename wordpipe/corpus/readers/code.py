"""Source code as sections: a definition with the comments right above it is a section, called by its name.

Definitions are known by simple rules that hold for most languages: a word such as `def`, `class`, `func` or `struct` and a
name, or, at the beginning of a line, a name with brackets behind it that no semicolon ends (C, Java). What is indented more
deeply stands below what is around it: `Queue › push`.

So that a search by words finds names, each section ends with a paragraph of its names in parts: `parseHTMLPage` and
`max_item_count` give "names: parse html page · max item count".
"""

import re
from collections.abc import Iterator

from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.sections import Outline, outline_records
from wordpipe.corpus.reading import Opened

_BEFORE = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|async|pub(?:\([^)]*\))?|"
)
_DEFINITION = re.compile(
    rf"(?P<indent>[ \t]*){_BEFORE}unsafe|inline|virtual|override|extern|const|open|data|suspend|local)\s+)*"
    r"(?:def|class|func|function|fn|fun|interface|struct|enum|union|trait|impl|module|namespace|protocol|object|record|sub|proc)\s+"
    r"(?:\([^)]*\)\s*)?(?P<name>[A-Za-z_$][\w$]*)"
)
_OF_C = re.compile(r"(?P<indent>)[A-Za-z_][\w \t*&:<>,\[\]]*?[\s*&](?P<name>~?[A-Za-z_]\w*)\s*\([^;=]*\Z")
_NO_NAMES = frozenset(
    ("if", "for", "while", "switch", "return", "else", "catch", "do", "sizeof", "new", "delete", "throw")
)
_ABOVE = re.compile(r"\s*(?:#|//|/\*|\*|@|--|;;|\"\"\")")
_NAME = re.compile(r"[A-Za-z]\w{3,80}")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_MOST_NAMES = 60  # in the paragraph of names of a section


def read(opened: Opened) -> Iterator[Record]:
    """Yield the definitions of a file of source code."""
    outline = Outline(opened.ledger)
    yield from outline_records(outline, _steps(opened, outline), opened)


def _steps(opened: Opened, outline: Outline) -> Iterator[None]:
    """Report the sections of source code to an outline."""
    held: list[str] = []  # lines of the open section
    first = 1
    for number, line in opened.lines():
        row = line.rstrip("\n")
        found = _DEFINITION.match(row) or _OF_C.match(row)
        if found is None or found["name"] in _NO_NAMES:
            held.append(row)
            continue
        # what stands right above belongs to the definition
        above = len(held)
        while above and held[above - 1].strip() and _ABOVE.match(held[above - 1]):
            above -= 1
        _report(held[:above], first, outline)
        held, first = [*held[above:], row], number - (len(held) - above)
        indent = found["indent"].replace("\t", "    ")
        outline.heading(1 + min(len(indent) // 2, 8), found["name"], None, first)
        opened.ledger.add("code_definitions")
        yield
    _report(held, first, outline)


def _report(lines: list[str], first: int, outline: Outline) -> None:
    """Report the lines of a section, and its names in parts."""
    # without the indentation of its first line: texts begin with a letter, and the lines below are to stand as in the file
    text = "\n".join(lines)
    own = text.lstrip("\n")
    indent = own[: len(own) - len(own.lstrip(" \t"))]
    if indent:
        text = "\n".join(line.removeprefix(indent) for line in lines)
    outline.line = first
    outline.verbatim(text)
    if names := split_names(text):
        outline.words(f"names: {' · '.join(names)}")
        outline.block()


def split_names(text: str) -> list[str]:
    """Return the names of a text that have parts, each in its parts.

    >>> split_names("parseHTMLPage(max_item_count, total)")
    ['parse html page', 'max item count']
    """
    found: dict[str, None] = {}
    for name in _NAME.findall(text):
        parts = _PART.findall(name)
        if len(parts) > 1 and not (len(parts) == 2 and parts[1].isdecimal()):
            found[" ".join(parts).lower()] = None
    return [*found][:_MOST_NAMES]
