"""Work of one artifact on a thread of its own: requests that wait together are answered together.

While one batch is computed, others arrive; the thread takes as many of them as may be answered by one call (the same key: the
same generation of the artifact, the same options). Nothing waits for company: a request that comes alone is computed at once.
"""

import asyncio
import threading
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from wordpipe.errors import ConfigError, InputError, WordpipeError
from wordpipe.web.replies import busy

T = TypeVar("T")
R = TypeVar("R")


@dataclass(eq=False)
class _Task(Generic[T, R]):
    """The work of one request, waiting for the thread of its artifact."""

    key: Hashable
    item: T
    weight: int
    answer: Callable[[Sequence[T]], Sequence[R]]
    ended: Callable[[], None]  # called in the loop's thread, when the work has ended or will never begin
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[R]"
    cancelled: bool = False

    def give(self, result: R | None, error: BaseException | None) -> None:
        """Hand the result of a batched task to the event loop, where the request may have been given up."""

        def set_it() -> None:
            self.ended()
            if not self.future.done():
                if error is not None:
                    self.future.set_exception(error)
                else:
                    self.future.set_result(result)  # type: ignore[arg-type]

        try:
            self.loop.call_soon_threadsafe(set_it)
        except RuntimeError:  # the loop is closed: the server has ended, and nobody else counts
            self.ended()


@dataclass
class Batcher:
    """A thread that computes; every artifact has one, so that no two requests touch its caches at once.

    Args:
        name: of the thread.
        max_weight: texts that are answered together, at most; a request with more is computed alone.
        on_batch: called in the thread with the number of requests of each batch.
    """

    name: str
    max_weight: int = 64
    on_batch: Callable[[int], None] = lambda _: None
    _waiting: "deque[_Task[Any, Any]]" = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _stopping: bool = False

    async def run(
        self,
        answer: Callable[[Sequence[T]], Sequence[R]],
        item: T,
        *,
        key: Hashable,
        weight: int = 1,
        ended: Callable[[], None] = lambda: None,
    ) -> R:
        """Return the answer for one item of a request, computed in the thread, perhaps in a batch with others.

        Args:
            answer: called with items of the same key; of equal keys any one's is called, so they must do the same.
            item: what this request asks.
            key: items of equal keys may be answered by one call.
            weight: texts in it.
            ended: called in the loop's thread once the work has ended, which a request that was given up does not wait for.

        Raises:
            Exception: what `answer` raises for this item.
            Refused: 503, the thread ends.
        """
        loop = asyncio.get_running_loop()
        task: _Task[T, R] = _Task(key, item, weight, answer, ended, loop, loop.create_future())
        try:
            self._add(task)
            return await task.future
        except asyncio.CancelledError:
            task.cancelled = True
            raise
        finally:
            del task  # an error refers to this frame, and the task to the error: both would stay in memory

    def _add(self, task: "_Task[Any, Any]") -> None:
        """Queue a task for the next batches of the artifact's thread, or refuse it with 503."""
        with self._changed:
            if not self._stopping and self._has_thread():
                self._waiting.append(task)
                self._changed.notify()
                return
        why = "the server is stopping" if self._stopping else "the server cannot start another thread now"
        task.give(None, busy(503, why))

    def _has_thread(self) -> bool:
        """Start the thread for the first task; return True if the thread is there."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=f"wordpipe-{self.name}", daemon=True)
            with suppress(RuntimeError):  # the system has no more
                thread.start()
                self._thread = thread
        return self._thread is not None

    @property
    def is_stopping(self) -> bool:
        """True if the thread is to end."""
        return self._stopping

    def stop(self, seconds: float = 0.0) -> None:
        """End the thread of batches once its batch has ended; what waits, or comes later, is answered 503."""
        with self._changed:
            self._stopping = True
            left, self._waiting = self._waiting, deque()
            self._changed.notify()
        for task in left:
            task.give(None, busy(503, "the server is stopping"))
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self) -> None:
        """Answer batches until the thread is to end."""
        while self._answer_next():  # no name here keeps the last batch, and with it a generation, in memory
            pass

    def _answer_next(self) -> bool:
        """Answer the next batch; False when the thread is to end."""
        if not (batch := self._next()):
            return False
        given_up = [task for task in batch if task.cancelled]
        if alive := [task for task in batch if task not in given_up]:
            self.on_batch(len(alive))
            _compute(alive)
        for task in given_up:
            task.give(None, asyncio.CancelledError())
        return True

    def _next(self) -> "list[_Task[Any, Any]]":
        """Take the next batch off the queue: the first task and those with its key; none when the thread is to end."""
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            if self._stopping:
                return []
            first = self._waiting.popleft()
            batch, weight, others = [first], first.weight, deque[_Task[Any, Any]]()
            for task in self._waiting:
                if task.key == first.key and weight + task.weight <= self.max_weight:
                    batch.append(task)
                    weight += task.weight
                else:
                    others.append(task)
            self._waiting = others
            return batch


def _compute(tasks: "list[_Task[Any, Any]]") -> None:
    """Answer a batch of tasks with one key; if one fails by its input, each is answered alone."""
    try:
        results = tasks[0].answer([task.item for task in tasks])
        assert len(results) == len(tasks)
    except (ConfigError, InputError) as error:
        if len(tasks) == 1:
            tasks[0].give(None, _let_go(error))
            return
        for task in tasks:
            _compute([task])
    except BaseException as error:  # noqa: BLE001  (the request fails, not the thread)
        met = _let_go(error)
        for task in tasks:
            task.give(None, met)
    else:
        for task, result in zip(tasks, results, strict=True):
            task.give(result, None)


def _let_go(error: BaseException) -> BaseException:
    """Return an error of a batch without its traceback, whose frames would keep a generation in memory.

    A bug keeps it as a note.
    """
    if not isinstance(error, WordpipeError):
        error.add_note("".join(traceback.format_exception(error)))
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
