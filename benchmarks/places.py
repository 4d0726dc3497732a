"""The places that one thing is spelled in: files to touch for a new objective, reader, pooling, endpoint, index kind.

    python benchmarks/places.py [--json]
    python benchmarks/places.py --draw SEED [--answers]      40 functions to look up by the list of files alone

Of each kind of thing one example is looked for in code, without comments and docstrings; a file counts once. Beside them:
`isinstance(settings, …)` outside settings, fields of settings that take one value only (they exist to be refused), and long
bodies that no comment leads. `--draw` draws functions by their lines and prints what a reader is asked: the first sentence
of the docstring, or the name where there is none; `--answers` prints the file, too.
"""

import argparse
import ast
import io
import json
import random
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "wordpipe"
FILES = sorted(PACKAGE.rglob("*.py"))
DRAWN = 40
LONG = 20  # lines of a body
STEP = 12  # lines that may follow each other without a comment in such a body

EXAMPLES: dict[str, tuple[str, str]] = {
    "objective": ("", r"train[ _]permutation|\bPermutation[A-Z]\w*|[\"']permutation[\"']|\.permutation\b(?!\()"),
    "reader": ("corpus", r"[\"'](?:\.html?|html)[\"']|\bhtml_pages:"),
    "pooling": ("", r"first[-_]last\b|\bFirstLast\b"),
    "endpoint": ("web", r"/neighbours\b|\bdef neighbours\b|\bclass Neighbours\b"),
    "index kind": ("", r"\bivf[-_]pq\b|\bIvfPq\b|\bIVFPQ\b"),
}
"""Kind of thing → the folder that is looked through, and the example."""


@dataclass(frozen=True)
class Found:
    """A function, to be looked up."""

    name: str
    file: str
    line: int
    sentence: str  # the first of its docstring


@cache
def code_of(path: Path) -> str:
    """The source without comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    dropped = [_lines_of(node) for node in ast.walk(_tree(path)) if _is_documentation(node)]
    comments = {token.start[0]: token.start[1] for token in tokenize.generate_tokens(io.StringIO(text).readline)
                if token.type == tokenize.COMMENT}  # fmt: skip
    documented = {number for first, last in dropped for number in range(first, last + 1)}
    return "\n".join(
        "" if number in documented else line[: comments.get(number)]
        for number, line in enumerate(text.splitlines(), start=1)
    )


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _lines_of(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.end_lineno  # type: ignore[attr-defined]


def _is_documentation(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def places() -> dict[str, list[str]]:
    """Kind of thing → the files that name its example."""
    return {
        kind: [_shown(path) for path in FILES
               if path.is_relative_to(PACKAGE / folder) and re.search(pattern, code_of(path))]
        for kind, (folder, pattern) in EXAMPLES.items()
    }  # fmt: skip


def asked_classes() -> list[str]:
    """Where code asks what class its settings are of, outside settings."""
    return [
        f"{_shown(path)}:{number}"
        for path in FILES if "settings" not in path.stem
        for number, line in enumerate(code_of(path).splitlines(), start=1)
        if re.search(r"isinstance\(\s*(?:\w+\.)*settings\s*,", line)
    ]  # fmt: skip


def refused_fields() -> list[str]:
    """Fields of settings that take one value only: `None`, or a Literal of one."""
    return [
        f"{_shown(path)}:{field.lineno} {node.name}.{field.target.id}"
        for path in FILES if path.stem == "settings"
        for node in ast.walk(_tree(path)) if isinstance(node, ast.ClassDef)
        for field in node.body if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if re.fullmatch(r"None|Literal\[[^,|]*\]", ast.unparse(field.annotation))
    ]  # fmt: skip


def unled_bodies() -> list[str]:
    """Functions with a long body in which more than a dozen lines follow each other without a comment."""
    found = []
    for path in FILES:
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in _functions(path):
            first, last = _body(node)
            gaps, gap = [0], 0
            for line in lines[first - 1 : last]:
                gap = 0 if "#" in line else gap + 1
                gaps.append(gap)
            if last - first + 1 > LONG and max(gaps) > STEP:
                found.append(f"{_shown(path)}:{node.lineno} {node.name}")
    return found


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """First and last line of what a function does, without its docstring."""
    does = node.body[1:] if _is_documentation(node.body[0]) and len(node.body) > 1 else node.body
    return does[0].lineno, does[-1].end_lineno or does[-1].lineno


def draw(seed: int) -> list[Found]:
    """Forty functions, each as likely as it has lines; the same for the same seed."""
    functions = [(path, node) for path in FILES for node in _functions(path) if not node.name.startswith("__")]
    weights = [(node.end_lineno or node.lineno) - node.lineno + 1 for _, node in functions]
    chosen = random.Random(seed)
    drawn: dict[int, Found] = {}
    while len(drawn) < DRAWN:
        (place,) = chosen.choices(range(len(functions)), weights)
        path, node = functions[place]
        sentence = (ast.get_docstring(node) or node.name.strip("_").replace("_", " ")).split("\n\n")[0]
        drawn.setdefault(place, Found(node.name, _shown(path), node.lineno, " ".join(sentence.split())))
    return [*drawn.values()]


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(description="Count the places of one thing.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--draw", type=int, metavar="SEED", help="draw functions to look up")
    parser.add_argument("--answers", action="store_true", help="say where the drawn functions stand")
    args = parser.parse_args()
    if args.draw is not None:
        drawn = draw(args.draw)
        if args.json:
            print(json.dumps([asdict(one) for one in drawn], indent=1))
        else:
            for number, one in enumerate(drawn, start=1):
                answer = f"  {one.file}:{one.line}" if args.answers else ""
                print(f"{number:2}. {one.name}: {one.sentence}{answer}")
        return 0
    found = {"places": places(), "asked_classes": asked_classes(), "refused_fields": refused_fields(),
             "unled_bodies": unled_bodies()}  # fmt: skip
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    for kind, files in found["places"].items():  # type: ignore[union-attr]
        print(f"{kind}: {len(files)}", *files, sep="\n  ")
    for name in ("asked_classes", "refused_fields", "unled_bodies"):
        print(f"{name.replace('_', ' ')}: {len(found[name])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
