"""The command line: the only place that knows click and the terminal. `main` is the one catch point for errors."""

import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

import click

from wordpipe.cli.output import say
from wordpipe.errors import WordpipeError
from wordpipe.runtime import Stopped, return_freed_memory


def main() -> NoReturn:
    """Run the command line and leave with its exit code; signals die by the signal.

    The process leaves without tearing down the interpreter: everything of ours is closed by then, and native thread pools
    have been seen to abort when their libraries are unloaded under them.
    """
    code = run()
    sys.stderr.flush()
    os._exit(code)


def run() -> int:
    """Run the command line; the exit code."""
    from wordpipe.cli.app import app

    # OpenMP threads that wait by spinning starve each other when another process wants a core: training on two cores
    # beside one busy process ran at 7,300 tokens/s with libgomp's default and at 11,700 with this, and no slower alone
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    return_freed_memory()
    _raise_on_stop_signals()
    try:
        code = app.main(prog_name="wordpipe", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = _die(signal.SIGINT)
    except WordpipeError as error:
        code = _show(error)
    except BrokenPipeError:
        code = _die(signal.SIGPIPE)
    except MemoryError:
        hint = "lower the batch or the vocabulary size, or use a machine with more memory"
        say(f"wordpipe: error: out of memory\n  hint: {hint}")
        code = 6
    except BaseException as error:  # noqa: BLE001  (the one catch point)
        code = _unforeseen(error)
    try:  # what is left in the buffer of stdout is written now, or its reader is gone
        sys.stdout.flush()
    except OSError:
        return _die(signal.SIGPIPE)
    return code if isinstance(code, int) else 0


def _show(error: WordpipeError) -> int:
    """Print an error of ours: one line, and the next step."""
    say(f"wordpipe: error: {error.message}" + (f"\n  hint: {error.hint}" if error.hint else ""))
    return error.exit_code


def _unforeseen(error: BaseException) -> int:
    """Stop requests, refusals of the operating system that no stage translated, and bugs."""
    if isinstance(error, KeyboardInterrupt):
        return _die(signal.SIGINT)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, Stopped):
        if error.saved:
            say(f"stopped; run the same command again to continue from {error.saved}")
        return _die(signal.Signals(error.signum))
    if isinstance(error, OSError):
        from wordpipe.stages import storage_error

        return _show(storage_error(error))
    say("".join(traceback.format_exception(error)))
    say("wordpipe: this is a bug of ours, not of yours; nothing that was there has been changed")
    return 1


def _raise_on_stop_signals() -> None:
    """Make SIGTERM and SIGHUP unwind the stack like Ctrl-C, so that temporary folders go; nohup's choice is respected."""

    def stop(signum: int, _: FrameType | None) -> None:
        signal.signal(signum, signal.SIG_DFL)  # a second one kills at once
        raise Stopped(signum)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def _die(signum: signal.Signals) -> int:
    """End by the signal itself, so that shells and make see what happened."""
    null = os.open(os.devnull, os.O_WRONLY)  # what is left in the buffer of stdout has no reader any more
    os.dup2(null, 1)
    os.close(null)
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
    return 128 + signum
