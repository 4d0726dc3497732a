"""A case: one row of the suite's tables, and what came of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.faults.room import Room

Act = Callable[[Room], bool | None]
Tries = Iterator[tuple[str, Act]]


@dataclass(frozen=True)
class Case:
    """A fault, what it is done to, and what must hold.

    Args:
        name: `group/…`, unique.
        act: prepares the room, makes the fault and checks; raises Broken or Skipped. For one try.
        sweep: instead of `act`: yields place and act of each try of a sweep; the first act that returns False ends it.
        covers: which of the forty cases (7), classes (C13), kinds (K1) and promises (P6) it belongs to.
        fast: part of the default tests.
        prepared: the fault is an input or a condition that is there before the command starts; any other one must be seen
            to happen (`room.fired`).
        killed: a kill -9 may leave temporary files.
    """

    name: str
    act: Act | None = None
    covers: tuple[str, ...] = ()
    fast: bool = False
    prepared: bool = False
    killed: bool = False
    sweep: Callable[[], Tries] | None = None

    @property
    def group(self) -> str:
        """The file of the suite that it stands in."""
        return self.name.split("/")[0]


@dataclass(frozen=True)
class Fault:
    """A kind of fault: what it is, the tests that check it beside the cases of this suite, and what is not checked."""

    what: str
    tests: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Result:
    """What came of one try."""

    case: str
    at: str  # place in a sweep, else empty
    verdict: str  # held, broken, skipped
    reason: str = ""
    command: str = ""
    seconds: float = 0.0
