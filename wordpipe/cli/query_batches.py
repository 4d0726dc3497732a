"""Queries in batches: as many together as there are, but none waits for one that has not been asked yet."""

import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator

__all__ = ["batches", "stdin_has_more"]


def batches(lines: Iterable[str], size: int, has_more: Callable[[], bool]) -> Iterator[list[str]]:
    """Lists of at most `size` lines, in their order.

    Args:
        lines: to be grouped.
        size: of a group, at most.
        has_more: asked after every line: whether the next can be had without waiting for it.
    """
    some: list[str] = []
    for line in lines:
        some.append(line)
        if len(some) == size or not has_more():
            yield some
            some = []
    if some:
        yield some


def stdin_has_more() -> bool:
    """Whether reading on from stdin would not wait: always for a file; for a pipe if something is in it, or it has ended.

    Lines that were read ahead of the one in hand are not seen; they are answered one by one then, and nobody waits.
    """
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError, AttributeError):
        return True
    if sys.platform == "win32" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return True
    return bool(select.select([number], [], [], 0)[0])
