"""Worker processes of this machine, for shards that Python itself makes: its threads would wait for each other.

A worker is this Python again. Work and numbers of shards go to it through a pipe, and it says how far it is, that a shard is
done, or which error it met. A worker that dies is named, and its shard goes to a new one: twice, as what kills a process three
times is the work itself. (`multiprocessing.Process` would run the program once more that called us, where that is a script
without `if __name__ == "__main__"`.)
"""

import json
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from wordpipe.engines.on_ray import TRIES, error_of_parts, parts_of
from wordpipe.engines.work import EndedError, OnUnits, ShardWork
from wordpipe.errors import PeerError, WordpipeError

_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from wordpipe.engines.processes import serve; serve()"


class WorkerProcess:
    """A process that makes one shard after the other, started for the first of them. For one thread.

    Args:
        work: what is done.
        note: hears of a process that died.
    """

    def __init__(self, work: ShardWork, note: Callable[[str], None]) -> None:
        self._work, self._note = work, note
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._stopped = False

    def make(self, number: int, on_units: OnUnits) -> None:
        """Make a shard; see `ShardWork.make`.

        Raises:
            PeerError: the process died three times.
            EndedError: it was stopped.
            WordpipeError: what the shard raised.
        """
        where = f"the process with shard {number} of {self._work.phase}"
        for tries in range(TRIES):
            if (said := self._made(number, on_units)) is None:
                return
            if self._stopped:
                raise EndedError
            if tries < TRIES - 1:
                self._note(f"{where} died ({said}): the shard is made again")
        hint = "the machine may lack memory: fewer --workers"
        raise PeerError(f"{where} died {TRIES} times", got=said, hint=hint)

    def stop(self) -> None:
        """End the process, whatever it does; any thread may call it."""
        self._stopped = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End the process, which has nothing to do."""
        self._end()

    def _made(self, number: int, on_units: OnUnits) -> str | None:
        """Make a shard; how the process died, if it did."""
        try:
            pipe = self._pipe or self._start()
            pipe.send(number)
            while True:
                kind, value = pipe.recv()
                if kind == "units":
                    on_units(value)
                elif kind == "error":
                    raise error_of_parts(value)
                elif kind == "raised":
                    raise value
                else:
                    return None
        except (EOFError, ConnectionError):
            return _death(self._end())

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        self._pipe = ours
        with theirs:
            # from -c, so that nothing but the folders of this process says where wordpipe is
            command = [sys.executable, "-c", _CODE, str(theirs.fileno()), json.dumps(sys.path)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()])
        if self._stopped:  # in the meantime
            self._process.kill()
        ours.send(self._work)
        return ours

    def _end(self) -> int:
        """The exit code of the process, which has ended then."""
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if pipe is not None:
            pipe.close()
        if process is None:
            return 0
        process.kill()
        return process.wait()


def _death(code: int) -> str:
    """How a process ended, in words."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def serve() -> None:
    """Make shards until there are no more numbers; what the process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that was started
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # that process has died: so does this one
    pipe, state = Connection(int(sys.argv[1])), None
    with ExitStack() as stack, suppress(EOFError):
        work: ShardWork = pipe.recv()
        while True:
            number = pipe.recv()
            try:
                state = work.prepare(1, stack) if state is None else state
                work.make(number, state, lambda units: pipe.send(("units", units)))
            except WordpipeError as error:
                pipe.send(("error", parts_of(error)))
            except Exception as error:  # noqa: BLE001 - it is raised where the shard is wanted
                error.add_note("".join(traceback.format_exception(error)))
                pipe.send(("raised", error))
            else:
                pipe.send(("made", None))
