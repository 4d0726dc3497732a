"""The walk through a command: the modules it loads, and which function calls which across modules.

    python benchmarks/walk.py query run/index "salt water in the sea"
    python benchmarks/walk.py -- train mlm run/tokens -o run/model --preset tiny --steps 2

A hop is a call of a function of another module. The tree has every hop once, below the function through which the calling
module was entered, with the number of calls. Floors are those of tests/test_house.py: up to the second are files, settings
and numbers, the ground. The hops above it that lead on to others are the way that a reader has to follow. A call upwards is
one of a higher floor: a function was handed down to be called back (validators of settings do not count). What a library
calls on our behalf is called by whoever called the library. What runs while a module is imported does not count, and a
generator works for the function of its module that waits for it.
"""

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "wordpipe"
_GROUND = 2  # the highest floor of files, settings and numbers


@dataclass(eq=False)
class Entry:
    """A function that was called from another module, and what its module then called."""

    module: str  # without the package's name: stages.search.query
    name: str  # of the function
    calls: int = 0
    is_data: bool = False  # a generator: values are pulled out of it, and nothing is called back
    hops: dict[tuple[str, str], "Entry"] = field(default_factory=dict)

    def entered(self, module: str, name: str, *, is_data: bool = False) -> "Entry":
        """The function, called from here once more."""
        hop = self.hops.setdefault((module, name), Entry(module, name, is_data=is_data))
        hop.calls += 1
        return hop

    def walk(self, path: tuple["Entry", ...] = ()) -> Iterator[tuple["Entry", ...]]:
        """The way to each function below, in the order of the first calls."""
        for hop in self.hops.values():
            yield (*path, hop)
            yield from hop.walk((*path, hop))


class Tracer:
    """A profile function (`sys.setprofile`): follows the calls of one thread.

    Attributes:
        root: what the tree grows from.
    """

    def __init__(self) -> None:
        self.root = Entry("", "")
        self._stack: list[Entry | None] = [self.root]  # where each open frame of ours belongs; None: an import
        self._modules: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take a call or a return."""
        code = frame.f_code
        if event not in ("call", "return") or (module := self._module_of(code)) is None:
            return
        if event == "return":
            if len(self._stack) > 1:  # else it was called before this began
                self._stack.pop()
            return
        here = self._stack[-1]
        is_data = bool(code.co_flags & inspect.CO_GENERATOR)
        waiting = [entry for entry in reversed(self._stack) if entry and entry.module == module] if is_data else []
        if here is None or code.co_name == "<module>":
            self._stack.append(None)
        elif module == here.module:
            self._stack.append(here)
        else:
            self._stack.append(waiting[0] if waiting else here.entered(module, code.co_qualname, is_data=is_data))

    def _module_of(self, code: CodeType) -> str | None:
        """The module of ours that the code stands in; None for all other code, and for the lazy faces."""
        if code not in self._modules:
            path = Path(code.co_filename)
            parts = path.relative_to(PACKAGE).with_suffix("").parts if path.is_relative_to(PACKAGE) else ("lazy",)
            self._modules[code] = None if parts == ("lazy",) else ".".join(parts)
        return self._modules[code]


def traced(arguments: list[str]) -> Entry:
    """Run a command in this process; what was called."""
    from wordpipe.cli import run

    tracer, before = Tracer(), sys.argv
    sys.argv = ["wordpipe", *arguments]
    sys.setprofile(tracer)
    try:
        run()
    finally:
        sys.setprofile(None)
        sys.argv = before
    return tracer.root


def command_of(root: Entry, arguments: list[str]) -> Entry:
    """The function of the command (all stages share one); the root where it is not found."""
    names = {arguments[0], "_".join(arguments[:2]), "_make"}
    return next(
        (way[-1] for way in root.walk() if way[-1].name.lstrip("_") in names and way[-1].module.startswith("cli.")),
        root,
    )


def drawing(top: Entry, floor_of: dict[str, int]) -> Iterator[str]:
    """The tree of hops, a line each, and what is to be counted."""
    seen: set[tuple[str, ...]] = set()
    deepest, above_ground, leading_on, upwards = 0, 0, 0, list[str]()
    for way in top.walk():
        caller, hop = (top, *way)[-2:]
        edge = caller.module, caller.name, hop.module, hop.name
        deepest = max(deepest, len(way))
        if edge in seen:
            continue
        seen.add(edge)
        floor, other = (floor_of.get(entry.module.split(".")[0], 9) for entry in (caller, hop))
        above_ground += other > _GROUND
        leading_on += other > _GROUND and bool(hop.hops)
        mark = ""
        if other > floor and not hop.is_data and not hop.module.endswith("settings"):
            mark = "   ↑ upwards"
            upwards.append(f"{caller.module}.{caller.name} → {hop.module}.{hop.name}")
        yield f"{'  ' * len(way)}{hop.module}.{hop.name}{f' ×{hop.calls}' if hop.calls > 1 else ''}{mark}"
    yield f"\nhops: {len(seen)} different ones, {deepest} deep; {above_ground} above the ground, of which {leading_on} lead on"
    yield f"calls upwards: {len(upwards)}"
    yield from (f"  {line}" for line in upwards)


def main(arguments: list[str]) -> int:
    """Draw the walk of a command on stdout, below what the command prints."""
    arguments = arguments[arguments[:1] == ["--"] :]
    top = command_of(traced(arguments), arguments)
    modules = sorted(name for name in sys.modules if name.split(".")[0] == "wordpipe")
    print(f"\n{len(modules)} modules of ours loaded:", *modules, sep="\n  ")
    print(f"\n{top.module}.{top.name}")
    sys.path.insert(0, str(ROOT))
    from tests.test_house import FLOORS

    print(*drawing(top, FLOORS), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
