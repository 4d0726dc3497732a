"""The names in the "See Also" of a docstring: numpydoc sections and reStructuredText directives."""

import re
from collections.abc import Iterator

__all__ = ["see_also_names"]

_UNDERLINE = re.compile(r"\s*(?:-{3,}|={3,})\s*\Z")
_NAME = re.compile(r"(?::\w+(?::\w+)?:)?`{0,2}~?(?P<name>[A-Za-z_][\w.]*)(?:\(\))?`{0,2}\Z")
_ROLE = re.compile(r":(?:\w+:)?(?:func|meth|class|mod|attr|data|obj|exc):`[~!.]*(?P<name>[A-Za-z_][\w.]*)(?:\(\))?`")
_DESCRIPTION = re.compile(r"\s*:(?=\s|\Z)")


def see_also_names(docstring: str) -> list[str]:
    r"""Names that a docstring points to, as they are written there, each once.

    >>> see_also_names("Sum.\n\nSee Also\n--------\nmean : The average.\ncumsum, numpy.diff\n")
    ['mean', 'cumsum', 'numpy.diff']
    >>> see_also_names("Sum.\n\n.. seealso:: :func:`torch.mean` for the average.\n")
    ['torch.mean']
    """
    lines = docstring.split("\n")
    names: dict[str, None] = {}
    for number, line in enumerate(lines):
        word = line.strip().lower()
        if word == "see also" and number + 1 < len(lines) and _UNDERLINE.match(lines[number + 1]):
            names |= dict.fromkeys(_listed(lines, number + 2, _indent(line)))
        elif word.startswith(".. seealso::"):
            names |= dict.fromkeys(_pointed(lines, number, _indent(line)))
    return list(names)


def _listed(lines: list[str], start: int, indent: int) -> Iterator[str]:
    """`a, b : description` lines up to the next section; deeper lines are description."""
    for number in range(start, len(lines)):
        line = lines[number]
        if number + 1 < len(lines) and line.strip() and _UNDERLINE.match(lines[number + 1]):
            return
        if line.strip() and _indent(line) <= indent:
            for part in _DESCRIPTION.split(line, maxsplit=1)[0].split(","):
                if match := _NAME.match(part.strip()):
                    yield match["name"]


def _pointed(lines: list[str], start: int, indent: int) -> Iterator[str]:
    """Roles in a directive: its own line and the deeper ones that follow."""
    for number in range(start, len(lines)):
        if number > start and lines[number].strip() and _indent(lines[number]) <= indent:
            return
        yield from (match["name"] for match in _ROLE.finditer(lines[number]))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
