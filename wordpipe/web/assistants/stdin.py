"""The Model Context Protocol over standard input and output: one JSON message in a line.

Programs of assistants on this machine start it themselves, and end it by closing its input.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from wordpipe.runtime import StopFlag, stop_signal
from wordpipe.stages import PathLike
from wordpipe.web.assistants.messages import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ProtocolError,
    answer,
    cancelled_id,
    failed,
    id_of,
    read_message,
)
from wordpipe.web.links import check_fields
from wordpipe.web.metrics import Metrics
from wordpipe.web.replies import to_json
from wordpipe.web.served_artifacts import ServedArtifacts
from wordpipe.web.settings import ServeSettings
from wordpipe.web.together import said_apart

_LOOK_S = 0.2  # between two looks whether a signal has come

Report = Callable[[str], None]
"""Takes a line."""


@dataclass
class _Desk:
    """The parts of a server that endpoints use, without any socket."""

    artifacts: ServedArtifacts
    settings: ServeSettings
    metrics: Metrics = field(default_factory=Metrics)
    is_stopping: bool = False
    has_page: bool = False


def answer_assistant(
    artifacts: PathLike | Sequence[PathLike], *, source: BinaryIO, sink: BinaryIO, verify: bool = True,
    report: Report | None = None, link: str = "",
) -> None:  # fmt: skip
    """Answer an assistant's messages about some artifacts, until `source` ends or a stop signal comes.

    The artifacts are opened once, and swapped whole when another generation is published, as by `serve`.

    Args:
        artifacts: one or several indexes, each a path or NAME=PATH.
        source: where the messages come from, one in a line.
        sink: where the answers go, one in a line, in the order in which they are ready.
        verify: check the hashes of the artifacts first.
        link: as `serve --link`: the address of a row elsewhere, which its answers then have.
        report: is called with a line when a new generation was taken or cannot be opened, and when a request failed by a bug.

    Raises:
        ConfigError: no artifact, or two of one name; the link is no address, or no index has its field.
        ArtifactError: one cannot be opened.
        Stopped: by a stop signal.
    """
    several = [artifacts] if isinstance(artifacts, str | os.PathLike) else [*artifacts]
    said = report or (lambda _: None)
    settings = ServeSettings.make({"link": link}, flags={"link": "--link"})
    desk = _Desk(ServedArtifacts.open(several, verify=verify, report=said), settings)
    try:
        check_fields(desk.artifacts, settings)
        if apart := said_apart(desk.artifacts):
            said(apart)
        with stop_signal() as flag:
            asyncio.run(_Talk(desk, sink, said).until_end(source, flag))
        flag.raise_if_set()
    finally:
        desk.is_stopping = True
        desk.artifacts.close()


class _Talk:
    """The messages of one client, answered side by side."""

    def __init__(self, desk: _Desk, sink: BinaryIO, report: Report) -> None:
        self._desk, self._sink, self._report = desk, sink, report
        self._room = threading.Semaphore(desk.settings.max_waiting)  # no more lines are read than are answered
        self._at_work: dict[asyncio.Task[None], Any] = {}  # → the id of its request
        self._ended, self._is_open = asyncio.Event(), True

    async def until_end(self, source: BinaryIO, flag: StopFlag) -> None:
        """Answer all messages of a client, until they end, the client closes its side, or a signal comes."""
        loop = asyncio.get_running_loop()
        await self._desk.artifacts.start_polling()
        reader = threading.Thread(target=self._read, args=(source, loop), name="wordpipe-messages", daemon=True)
        reader.start()
        while not (self._ended.is_set() or flag.signum is not None or not self._is_open):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _LOOK_S)
        if self._at_work and self._is_open:
            await asyncio.wait([*self._at_work], timeout=self._desk.settings.drain)
        for task in [*self._at_work]:
            task.cancel()
        await self._desk.artifacts.stop_polling()

    def _read(self, source: BinaryIO, loop: asyncio.AbstractEventLoop) -> None:
        """Read lines in a thread and hand them to the loop; a line that is too long is left out, and only said."""
        most = self._desk.settings.max_body
        with suppress(RuntimeError, OSError, ValueError):  # the loop, or the file, was closed meanwhile
            while line := source.readline(most + 1):
                is_long = len(line) > most
                while is_long and line and not line.endswith(b"\n"):
                    line = source.readline(most)
                if is_long or line.strip():
                    self._room.acquire()
                    loop.call_soon_threadsafe(self._begin, None if is_long else line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._ended.set)

    def _begin(self, line: bytes | None) -> None:
        """Begin to answer a line of a client; a message that cancels a request ends its work."""
        given, error = None, None
        try:
            if line is None:
                raise ProtocolError(PARSE_ERROR, f"the message is longer than {self._desk.settings.max_body:,} bytes")
            given = read_message(line)
        except ProtocolError as wrong:
            error = wrong
        if (gone := cancelled_id(given)) is not None:
            for task, own in self._at_work.items():
                if own == gone and type(own) is type(gone):
                    task.cancel()
        own = None
        with suppress(ProtocolError):
            own = None if isinstance(given, list) else id_of(given)
        task = asyncio.ensure_future(self._answer(given, error, own))
        self._at_work[task] = own
        task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[None]") -> None:
        """Make room for the next line of a client."""
        self._at_work.pop(task, None)
        self._room.release()

    async def _answer(self, given: Any, error: ProtocolError | None, own: str | int | None) -> None:
        """Answer a message of a client, and write the answer if there is one."""
        try:
            async with asyncio.timeout(self._desk.settings.timeout):
                answered = failed(error) if error is not None else await answer(self._desk, given)
        except TimeoutError:
            late = f"the answer was not ready within {self._desk.settings.timeout:g} seconds"
            answered = failed(ProtocolError(INTERNAL_ERROR, late), own)
        except Exception as bug:  # noqa: BLE001  (a bug ends one request)
            import traceback

            self._report("".join(traceback.format_exception(bug)))
            answered = failed(ProtocolError(INTERNAL_ERROR, "this is a bug in wordpipe; stderr has the details"), own)
        if answered.body is not None and self._is_open:
            try:
                self._sink.write(to_json(answered.body) + b"\n")
                self._sink.flush()
            except (OSError, ValueError):  # the client has gone
                self._is_open = False
                self._ended.set()
