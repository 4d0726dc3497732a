"""Rules of plain English for what the program says, and for the first lines of docstrings.

    python -m tests.support.english [PATH...]      each text that breaks a rule, with its file, line and the rule

Texts are all strings of the package that are sentences (settings, errors, hints, help, notes) and the first line of every
docstring. A reader whose language is another must understand each without the line above it: no pronoun at the end, no
question as the name of a thing.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "wordpipe"

RIDDLES = re.compile(
    r"\b(?:nobody|somebody|whoever|who (?:asks|types))\b|\bsuch\b(?! as\b)"
    r"|\b(?:of before|comes to|hangs on|no place|means nothing|is asked)\b",
    re.I,
)
ENDS = re.compile(r"\b(?:these|those|them|it|this way)[.;:]?$", re.I)
BEGINS = re.compile(r"^(?:so do|of these|the same|of train)\b", re.I)
QUESTION = re.compile(r"^(?:What|Which|Who|Where|How|Whether)\b")
OF_TEXTS = {"a riddle": RIDDLES, "ends in a pronoun": ENDS, "begins with what stands before": BEGINS}
OF_DOCSTRINGS = {**OF_TEXTS, "begins as a question": QUESTION}
LIST_OF_WORDS = 20
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Broken:
    """A text that breaks a rule."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string of three words or more; a value that is put in is shown as {}.

    A long string without any sign is a list of words, not a text.
    """
    passed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in passed or id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        n_words = len(text.split())
        if n_words >= 3 and (n_words < LIST_OF_WORDS or re.search(r"[.,:;]", text)):
            yield node.lineno, text.strip()


def first_lines_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and first line of every docstring."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), docstring.split("\n")[0].rstrip()


def broken_in(path: Path, source: str) -> list[Broken]:
    """Return the texts of a file that break a rule, in the order of its lines."""
    tree = ast.parse(source)
    found = [
        Broken(path, line, rule, " ".join(text.split()))
        for texts, rules in ((texts_of(tree), OF_TEXTS), (first_lines_of(tree), OF_DOCSTRINGS))
        for line, text in texts
        for rule, pattern in rules.items()
        if pattern.search(text)
    ]
    return sorted(found, key=lambda broken: (broken.line, broken.rule))


def broken_below(*places: Path) -> list[Broken]:
    """Return the texts that break a rule in files and folders."""
    files = [file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
    return [broken for file in files for broken in broken_in(file, file.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    sys.stdout.writelines(f"{each}\n" for each in broken_below(*map(Path, sys.argv[1:] or [str(PACKAGE)])))
