"""The jobs of an epoch: pieces of the text that threads train, taken in order."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

__all__ = ["done_in_order", "piece_size"]

_MULTIPLIED = 10**10

T = TypeVar("T")


def piece_size(words: int, cost: int) -> int:
    """Words of one job: large enough to be worth a start, small enough that several threads share a small text.

    It does not follow the number of threads, so a run can be continued with more of them.

    Args:
        words: of the text.
        cost: numbers multiplied for each word; where they are many (softmax) a job has fewer words, to last seconds at most.
    """
    return max(64, min(16_384, max(1_024, words // 16), _MULTIPLIED // max(cost, 1)))


def done_in_order(
    work: Callable[[int], T], begins: range, threads: int, go_on: Callable[[], bool]
) -> Iterator[tuple[int, T]]:
    """Do the jobs that begin at `begins`, several at a time, and give (begin, result) as each ends, in any order.

    Jobs are taken in order, and none is taken once `go_on` says no or one has failed; those that run are finished. So what
    was done is always everything before some job.

    Raises:
        Exception: what `work` raised.
    """
    results: SimpleQueue[tuple[int, T] | Exception | None] = SimpleQueue()
    waiting = iter(begins)
    lock = threading.Lock()
    ended = threading.Event()

    def serve() -> None:
        try:
            while not ended.is_set() and go_on():
                with lock:
                    begin = next(waiting, None)
                if begin is None:
                    break
                results.put((begin, work(begin)))
        except Exception as error:  # noqa: BLE001  (raised again by the thread that asked)
            ended.set()
            results.put(error)
        finally:
            results.put(None)

    with ThreadPoolExecutor(threads, thread_name_prefix="word2vec") as pool:
        for _ in range(threads):
            pool.submit(serve)
        running = threads
        problem: Exception | None = None
        try:
            while running:
                got = results.get()
                if got is None:
                    running -= 1
                elif isinstance(got, Exception):
                    problem = got
                else:
                    yield got
        finally:
            ended.set()  # whoever asked has gone: take no more jobs
    if problem is not None:
        raise problem
