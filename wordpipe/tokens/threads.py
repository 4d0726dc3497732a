"""A few threads that work on a stream of items and give the results back in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

__all__ = ["in_order"]

Item = TypeVar("Item")
Result = TypeVar("Result")
State = TypeVar("State")

_AHEAD = 8  # items under way or finished for each thread: memory stays bounded, and no thread waits for the reader


def in_order(work: Callable[[State, Item], Result], items: Iterable[Item], states: Sequence[State]) -> Iterator[Result]:
    """Call `work(state, item)` for every item in as many threads as there are states, each state by one thread at a time.

    The order of the results is that of the items. When the caller stops early or `work` raises, items that were not begun
    are dropped.
    """
    free: SimpleQueue[State] = SimpleQueue()
    for state in states:
        free.put(state)

    def run(item: Item) -> Result:
        state = free.get()
        try:
            return work(state, item)
        finally:
            free.put(state)

    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(len(states)) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(run, item))
                if len(waiting) > _AHEAD * len(states):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
