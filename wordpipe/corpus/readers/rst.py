"""reStructuredText as an outline, read by docutils' parser alone: no transform, no settings file, nothing is included.

Roles leave their text, whoever defines them (`:func:`~a.b`` is "b"), and so do the directives of Sphinx and of others: their
argument and their content are text, or code where their name says so. Left out, and counted, are directives that only steer
(`toctree`, `index`, `contents`, `include`, `raw`, …). Lines are those that docutils knows: of paragraphs, code and titles.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.sections import Markup, Outline, names, read_sections
from wordpipe.corpus.reading import Opened

if TYPE_CHECKING:
    from docutils import nodes

_LONGEST_LINE = 100_000  # characters
_ERROR = 3  # level of docutils' messages
_STEERING = names("""
    toctree contents sectnum section-numbering index highlight highlightlang currentmodule py:currentmodule
    tabularcolumns include literalinclude raw meta default-role role date header footer target-notes
    restructuredtext-test-directive ifconfig only-if sectionauthor codeauthor autosummary-settings
    image-settings
""")
_CODE = names("""
    code code-block sourcecode ipython ipython3 prompt plot testcode testsetup testcleanup testoutput doctest
    parsed-literal console productionlist graphviz digraph graph mermaid literal math jupyter-execute
    code-cell
""")
_SAID = {
    "versionadded": "New in version", "versionchanged": "Changed in version", "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version", "deprecated-removed": "Deprecated since version", "seealso": "See also",
    "note": "Note", "warning": "Warning", "tip": "Tip", "hint": "Hint", "important": "Important", "caution": "Caution",
    "danger": "Danger", "error": "Error", "attention": "Attention", "todo": "To do",
}  # fmt: skip
_OWN = names("""
    table list-table csv-table figure image admonition topic sidebar rubric replace unicode
""")
_LEFT_OUT = frozenset(("pending", "comment", "target", "substitution_definition", "raw"))
_PARAGRAPHS = frozenset(
    ["paragraph", "rubric", "title", "subtitle", "term", "attribution", "caption", "line", "image", "#text"]
)
_LINE_ENDS = dict.fromkeys(map(ord, "\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # which docutils takes for ends of lines
_OPTION = re.compile(r":[\w.-][^:]{0,60}:(?:\s|\Z)")
_MARK = re.compile(r"::(?:[ ]+|\Z)")  # behind the name of a directive
_TARGET = re.compile(r"\A(?P<title>.+?)\s*<[^<>]*>\Z", re.DOTALL)


class TooLongError(ValueError):
    """The error for a line of reStructuredText of more than 100,000 characters."""


def read(opened: Opened) -> Iterator[Record]:
    """Return the sections of a document."""
    return read_sections(opened, MARKUP)


def read_rst(text: str, line: int, outline: Outline) -> None:
    """Report the headings, words and code of a text in reStructuredText to the outline of its source.

    Raises:
        TooLongError: a line of more than 100,000 characters.
        RecursionError: deeper in each other than docutils goes.
    """
    text = text.translate(_LINE_ENDS)
    if max(map(len, text.split("\n"))) > _LONGEST_LINE:
        raise TooLongError
    document = _parsed(text, outline)
    _Walk(document, line - 1, line + text.removesuffix("\n").count("\n"), outline).over(document, 0)


class _Walk:
    """One walk over the nodes of a reStructuredText document."""

    def __init__(self, document: "nodes.document", lines_before: int, last: int, outline: Outline) -> None:
        self.document, self.before, self.last, self.outline = document, lines_before, last, outline
        self._lists: list[int | None] = []

    def over(self, node: "nodes.Element", level: int) -> None:
        """Tell of all children of a node, below headings of this level."""
        for child in node.children:
            self._tell(child, level)

    def _tell(self, node: Any, level: int) -> None:
        """Report a node of reStructuredText with all nodes inside."""
        out, kind = self.outline, node.tagname
        if getattr(node, "line", None):
            out.line = self._source_line(node.line)
        # what is no text of the page
        if kind in _LEFT_OUT:
            out.ledger.add("rst_directives_left_out", kind == "pending")
        elif kind == "system_message":  # what docutils could not read stands behind its words about it
            for child in node.children:
                if node["level"] >= _ERROR and child.tagname == "literal_block":
                    text = child.astext()
                    out.line = min(out.line, self.last - text.count("\n"))
                    out.verbatim(text)
        # sections, and blocks of words or code
        elif kind == "section":
            self._section(node, level + 1)
        elif kind in _PARAGRAPHS:
            out.block(tight=kind == "line")
            out.words(node.get("alt", "") if kind == "image" else self._text(node))
            out.block(tight=kind == "line")
        elif kind in ("literal_block", "doctest_block", "math_block"):
            out.verbatim(node.astext())
        # lists and tables, whose parts are walked
        elif kind in ("bullet_list", "enumerated_list"):
            self._lists.append(None if kind == "bullet_list" else int(node.get("start", 1)))
            out.block()
            self.over(node, level)
            self._lists.pop()
            out.end_list()
        elif kind == "list_item":
            self._item()
            self.over(node, level)
        # a row is told as a whole; all others by what they hold
        elif kind == "row":
            self._row(node)
        else:
            self._marked(node, level)

    def _source_line(self, number: int) -> int:
        """Return the line of the source that docutils calls by this number; it may count one more than there are."""
        return min(self.before + number, self.last)

    def _row(self, row: Any) -> None:
        """Report a row of a reStructuredText table."""
        out, parts = self.outline, [one for one in row.parent.parent.children if one.tagname in ("thead", "tbody")]
        if row is parts[0].children[0]:
            out.table()
        out.row()
        if any("morecols" in entry or "morerows" in entry for entry in row.children):
            out.spans()
        for entry in row.children:
            out.line = self._source_line(first) if (first := _first_line(entry)) else out.line
            out.words(" ".join(self._text(part) for part in entry.children if part.tagname != "system_message"))
            out.cell()
        (out.header if row.parent.tagname == "thead" else out.row)()
        if row is parts[-1].children[-1]:
            out.table()

    def _marked(self, node: Any, level: int) -> None:
        """Walk a node of reStructuredText with a name before its text, or any other node."""
        out, kind = self.outline, node.tagname
        children, said = node.children, _SAID.get(kind) or node.get("said")
        mark = f"{said}: " if said else ""
        if kind in ("field", "option_list_item", "footnote", "citation") and children:
            name, children = " ".join(children[0].astext().split()), children[1:]
            if name.lower() == "title" and not (level or out.length):  # at the head of the file
                out.title = " ".join(child.astext() for child in children)
                return
            mark = f"[{name}] " if kind in ("footnote", "citation") else f"{name}: "
        out.block(mark=mark)
        for child in children:
            self._tell(child, level)
        out.end_list()

    def _section(self, node: Any, level: int) -> None:
        """Report a section of reStructuredText: its heading and what stands below."""
        title = node.children[0] if node.children and node.children[0].tagname == "title" else None
        if title is not None:
            anchor = node["ids"][0] if node["ids"] else None
            self.outline.heading(level, self._text(title), anchor, self._line_of(node, title))
        for child in node.children[title is not None :]:
            self._tell(child, level)

    def _line_of(self, section: Any, title: Any) -> int:
        """Return the line of a node of reStructuredText."""
        line = title.line or section.line
        return self._source_line(line) if line else self.outline.line

    def _item(self) -> None:
        """Report an item of a reStructuredText list."""
        number = self._lists[-1] if self._lists else None
        mark = "- " if number is None else f"{number}. "
        self.outline.block(tight=True, mark="  " * (len(self._lists) - 1) + mark)
        if number is not None:
            self._lists[-1] = number + 1

    def _text(self, node: Any) -> str:
        """Return the words of a paragraph of reStructuredText: substitutions filled in, images by their description."""
        if not node.children or node.tagname == "#text":
            return node.get("alt", "") if node.tagname == "image" else str(node.astext())
        pieces = []
        for child in node.children:
            if child.tagname == "substitution_reference":
                found = self.document.substitution_defs.get(child.get("refname", ""))
                pieces.append(child.astext() if found is None else found.astext())
            elif child.tagname in ("footnote_reference", "citation_reference"):
                pieces.append(f"[{child.astext() or '#'}]")
            elif child.tagname != "system_message":
                pieces.append(self._text(child))
        return "".join(pieces)


def _parsed(text: str, outline: Outline) -> "nodes.document":
    """Return the document that docutils parses from reStructuredText."""
    from docutils.statemachine import string2lines
    from docutils.utils import new_document

    document = new_document("", copy(_settings()))
    document.set_duplicate_name_id = _ignored  # 10,000 targets of one name took 29 s
    machine, inliner = _machine()
    machine().run(string2lines(text, convert_whitespace=True), document, inliner=inliner)
    return document


@cache
def _settings() -> Any:
    """Return the parser of docutils, with its directives and roles."""
    from docutils.frontend import get_default_settings
    from docutils.parsers.rst import Parser

    settings = get_default_settings(Parser)
    settings.file_insertion_enabled = settings.raw_enabled = settings.warning_stream = False
    settings.report_level = settings.halt_level = 5  # nothing is said, nothing stops
    settings.syntax_highlight, settings.line_length_limit = "none", _LONGEST_LINE + 1
    return settings


@cache
def _machine() -> tuple[Callable[[], Any], Any]:
    """Make docutils' machine for reStructuredText, which knows every directive and every role."""
    from docutils import nodes
    from docutils.parsers.rst import states
    from docutils.utils import unescape

    def interpreted(rawsource: str, text: str, role: str, lineno: int) -> tuple[list[Any], list[Any]]:
        """A role, in the place of the method that asks docutils' register."""
        del role, lineno
        return [nodes.inline(rawsource, _said_by_role(unescape(text)))], []

    inliner = states.Inliner()
    inliner.interpreted = interpreted
    inliner.init_customizations(_settings())
    inliner.init_customizations = _ignored  # each document would add one more search for addresses to all of them
    inliner.implicit_dispatch = []  # an address that stands in the text is text

    class Lazy:
        """A state machine that makes a state when it first enters it: docutils makes seventeen a list and enters two."""

        def add_states(self, state_classes: Sequence[type]) -> None:
            self.states = _States(self, state_classes)

    # both of docutils' machines, with that laziness
    nested = type("Nested", (Lazy, states.NestedStateMachine), {})
    whole = type("Whole", (Lazy, states.RSTStateMachine), {})

    class AnyDirective:
        nested_sm: ClassVar[type] = nested
        nested_sm_cache: ClassVar[list[Any]] = []  # docutils' own would hand out machines with its own states

        def __init__(self, state_machine: Any, debug: bool = False) -> None:
            super().__init__(state_machine, debug)  # type: ignore[call-arg]
            self.nested_sm_kwargs = {"state_classes": ours, "initial_state": "Body"}

        def run_directive(self, directive: Any, match: re.Match[str], type_name: str, option_presets: Any) -> Any:
            if type_name.lower() in _OWN:
                return super().run_directive(directive, match, type_name, option_presets)  # type: ignore[misc]
            return self.unknown_directive(type_name)

        def unknown_directive(self, type_name: str) -> Any:
            """Read a directive of reStructuredText that docutils does not know."""
            # the lines of the directive
            name, machine = type_name.lower(), self.state_machine  # type: ignore[attr-defined]
            line, mark = machine.abs_line_number(), _MARK.search(machine.line)
            assert mark is not None, "the line has no directive"
            lines, _, offset, blank = machine.get_first_known_indented(mark.end(), strip_top=0)
            # one that steers the making of pages is left out, and counted
            if name in _STEERING:
                left_out = nodes.pending(None)
                left_out["directive"] = name
                return [left_out], blank
            # all others have an argument and a content
            head, content = _parted(lines)
            box = nodes.container()
            argument = " ".join(" ".join(lines[:head]).split())
            if name in _CODE:
                if name in ("math", "parsed-literal", "productionlist") and argument:
                    content = 0
                text = "\n".join(lines[content:])
                code = nodes.literal_block(text, text)
                code.line = line + content
                return [code], blank
            # a word of our own for one such as `versionadded`
            if name in _SAID:
                version, _, rest = argument.partition(" ")
                is_version = _SAID[name].endswith("version")
                box["said"] = f"{_SAID[name]} {version}" if is_version else _SAID[name]
                argument = rest if is_version else argument
            # the argument as a paragraph, then the content
            if argument:
                words, _ = self.inline_text(argument, line) if name in _SAID else ([nodes.Text(argument)], [])  # type: ignore[attr-defined]
                box += nodes.paragraph(argument, "", *words)
                box[0].line = line
            self.nested_parse(lines[content:], offset + content, box)  # type: ignore[attr-defined]
            return [box], blank

    ours = tuple(type(state.__name__, (AnyDirective, state), {}) for state in states.state_classes)
    return partial(whole, ours, "Body"), inliner


class _States(dict[str, Any]):
    """The states that a machine of docutils has come to, by name."""

    def __init__(self, machine: Any, classes: Sequence[type]) -> None:
        super().__init__()
        self._machine, self._classes = machine, {one.__name__: one for one in classes}

    def __missing__(self, name: str) -> Any:
        state = self[name] = self._classes[name](self._machine)
        if getattr(self._machine, "memo", None) is not None:  # it runs: states that it has were told what of before
            state.runtime_init()
        return state


def _first_line(entry: Any) -> int:
    """Return the line of what a cell holds; 0 where it holds nothing."""
    return (entry.children[0].line or 0) if entry.children else 0


def _ignored(*_: object) -> None:
    """Do nothing, in the place of docutils' check of names that occur twice."""


def _parted(lines: Sequence[str]) -> tuple[int, int]:
    """Return how many lines of a reStructuredText directive are its argument, and where its content begins.

    Options stand between.
    """
    head = 0
    while head < len(lines) and lines[head].strip() and not _OPTION.match(lines[head]):
        head += 1
    content = head
    while content < len(lines) and lines[content].strip():
        content += 1
    return head, content


def _said_by_role(text: str) -> str:
    """Return the visible text of a role of reStructuredText: the title of "title <target>".

    >>> _said_by_role("the list <list>"), _said_by_role("~numpy.linalg.eigh")
    ('the list', 'eigh')
    """
    if found := _TARGET.match(text):
        return found["title"]
    if text.startswith("~"):
        return text[1:].rpartition(".")[2]
    return text.removeprefix("!")


MARKUP = Markup("rst", read_rst, re.compile(r"(?!)"), 1 << 19)
