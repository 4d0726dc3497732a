"""The fault suite: what goes wrong in the world, tried on every stage, and what must hold then.

`make faults` runs it (see `__main__.py`), `python -m tests.faults --list` prints its cases and where each of the forty
faults is checked (`forty.py`). A file of this folder is one group of cases; `case.py` says what a case is, `room.py` holds
the oracle, `world.py` the inputs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.case import Case
    from tests.faults.world import World


def all_cases(world: "World") -> list["Case"]:
    """The tables of all groups, in order. Raises ValueError: two cases have one name."""
    from importlib import import_module

    found: list[Case] = []
    for group in GROUPS:
        found += import_module(f"tests.faults.{group}").cases(world)
    if len({case.name for case in found}) != len(found):
        raise ValueError("two cases have one name")
    return found


GROUPS = (
    "crash", "finish", "storage", "limits", "signals", "streams", "texts", "search", "artifacts", "forged", "native",
    "security", "determinism", "memory", "serving", "isolation", "buckets",
)  # fmt: skip
