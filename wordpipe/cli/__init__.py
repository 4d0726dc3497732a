"""The command line: the only place that knows click and the terminal. `main` is the one catch point for errors.

This file imports nothing that takes time: a stop signal in the first moments ends the process without a word.
"""

# `signal`, `typing` and `re` take milliseconds to import, in which Ctrl-C shows a traceback: these here are loaded already
import _signal  # type: ignore[import-not-found]
import codecs
import io
import os
import sys
import time

from wordpipe.lazy import import_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import typing

    import click

    from wordpipe.errors import WordpipeError


def main() -> "typing.NoReturn":
    """Run the command line and leave with its exit code; signals die by the signal.

    The process leaves without tearing down the interpreter: everything of ours is closed by then, and native thread pools
    have been seen to abort when their libraries are unloaded under them.
    """
    called = time.monotonic()  # minutes are those of the whole command
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until there is something to tidy up
    _open_missing_streams()
    sys.path[:] = import_path()
    os.environ["PYTHONSAFEPATH"] = "1"  # nor does what libraries start (compilers, Ray) import from the working folder
    _never_fail_to_write()
    from wordpipe.runtime import answer_stop_signals

    answer_stop_signals(_say_stopping, _say_stopped)
    code = run(called)
    sys.stderr.flush()  # which cannot fail
    os._exit(code)


def _open_missing_streams() -> None:
    """Open /dev/null in place of standard streams that are closed, before the command line runs.

    Else the next file that is opened is taken for one of them, and Python has None for it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY if number else os.O_RDONLY)  # the lowest number that is free
            if null != number:
                os.dup2(null, number)
                os.close(null)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


class _Unfailing(io.FileIO):
    """A file whose writing never fails: what has no room, or no reader, is lost."""

    def write(self, data: "typing.Any", /) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def _never_fail_to_write() -> None:
    r"""Let the command line write anything: no character and no full disk behind stderr changes an exit code.

    A character that the encoding of stdout or stderr does not have, or half of a surrogate pair, as a byte of a name that is
    no UTF-8 is read, is written as \uXXXX, which JSON reads. A locale of ASCII says nothing of who reads: it is UTF-8 then.
    """
    codecs.register_error("wordpipe", _as_escapes)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=_encoding(sys.stdout), errors="wordpipe")
    if isinstance(sys.stderr, io.TextIOWrapper):
        raw = io.BufferedWriter(_Unfailing(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, _encoding(sys.stderr), "wordpipe", line_buffering=True)


def _encoding(stream: io.TextIOWrapper) -> str:
    """Return the encoding of a stream if it can hold texts of any kind (IDNA, for one, cannot), otherwise UTF-8."""
    try:
        ("\u00e9" * 99 + "\n").encode(stream.encoding, "wordpipe")
    except UnicodeError:
        return "utf-8"
    return "utf-8" if codecs.lookup(stream.encoding).name == "ascii" else stream.encoding


def _as_escapes(error: UnicodeError) -> tuple[str, int]:
    r"""Replace characters that an encoding does not have by \uXXXX, those above U+FFFF by a pair."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)), error.end


def run(called: float | None = None) -> int:
    """Run the command line and return the exit code. `called`: when the command was, by `pace.now`; None: now."""
    import click

    from wordpipe.cli.app import app
    from wordpipe.errors import WordpipeError, missing_library
    from wordpipe.runtime import raise_on_stop_signals, return_freed_memory

    # OpenMP threads that wait by spinning starve each other when another process wants a core: training on two cores
    # beside one busy process ran at 7,300 tokens/s with libgomp's default and at 11,700 with this, and no slower alone
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it reads what every installed package says of itself
    return_freed_memory()
    raise_on_stop_signals()
    # run the command; each kind of error has its message and its exit code
    try:
        code = app.main(prog_name="wordpipe", standalone_mode=False, obj=called)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        code = _show(_usage_error(error))
    except click.Abort:
        _say_stopped(_signal.SIGINT)
        code = _die(_signal.SIGINT)
    # errors of ours, a reader that is gone, and all else
    except WordpipeError as error:
        code = _show(error)
    except BrokenPipeError:
        code = _die(_signal.SIGPIPE)
    except ModuleNotFoundError as error:
        missing = missing_library(error)
        code = _unforeseen(error) if missing is None else _show(missing)
    except BaseException as error:  # noqa: BLE001  (the one catch point)
        code = _unforeseen(error)
    # what is left in the buffer of stdout is written now, or its reader is gone
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _die(_signal.SIGPIPE)
    except OSError as error:  # the disk is full
        code = code or _unforeseen(error)
    return code if isinstance(code, int) else 0


def wants_json(args: "list[str]") -> bool:
    """True if a command line asks for JSON, also one that cannot be parsed."""
    options = args[: args.index("--")] if "--" in args else args
    after = [options[at + 1 : at + 2] for at, option in enumerate(options) if option == "--format"]
    return "--json" in options or "--format=json" in options or ["json"] in after


def _show(error: "WordpipeError") -> int:
    """Print an error with its hint, or as one JSON object with --json; return its exit code."""
    from wordpipe.cli.output import escaped, say
    from wordpipe.errors import NothingFound

    if wants_json(sys.argv[1:]):
        say(_as_json(error.to_json()), as_it_is=True)
    else:
        hint = f"\n  hint: {escaped(error.hint)}" if error.hint else ""
        called = "" if isinstance(error, NothingFound) else "error: "
        say(f"wordpipe: {called}{error.message}{hint}", whole=error.where or "")
    return error.exit_code


def _as_json(value: "dict[str, typing.Any]") -> str:
    """Return one line of JSON in which all control characters are escapes, also those that JSON itself allows."""
    import json
    import re

    return re.sub("[\x7f-\x9f]", lambda one: f"\\u{ord(one[0]):04x}", json.dumps(value, ensure_ascii=False))


def _usage_error(error: "click.ClickException") -> "WordpipeError":
    """Turn an error that click raised on the command line into one of ours, with the help page as its hint."""
    import re

    import click

    from wordpipe.errors import StorageError, UsageError

    # the message, in our words
    text = " ".join(error.format_message().split()).removesuffix(".")
    text = re.sub("not a valid integer( range)?$", "not a whole number", text)
    text = re.sub("not a valid float( range)?$", "not a number", text)
    what = text[:1].lower() + text[1:] if text[1:2].islower() else text
    if isinstance(error, click.FileError):
        return StorageError(what)
    # the next step: the help page, or the option that is meant
    page = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "wordpipe"
    hint = f"{page} --help"
    if isinstance(error, click.NoSuchOption):
        what = f"unknown option {error.option_name}"
        if meant := _meant_option(error):
            hint = f"{meant} To see all options: {hint}"
        elif error.option_name in ("-o", "--output"):
            hint = "this command has no output option; to save its results in a file, add: > FILE"
    return UsageError(what, hint=hint)


def _meant_option(error: "click.NoSuchOption") -> str:
    """Return "did you mean --OPTION?" for an unknown option, with --set for a setting that has no option; or nothing."""
    from wordpipe.elsewhere import did_you_mean

    if error.ctx is None:
        return ""
    command = error.ctx.command
    flags = {
        param.name or "": param.opts[-1] for param in command.get_params(error.ctx) if param.opts[0].startswith("-")
    }
    names = {*flags, *getattr(command, "no_option", ())}
    asked = error.option_name.lstrip("-").replace("-", "_")
    return did_you_mean(asked, names, lambda name: flags.get(name, f"--set {name}=VALUE"))


def _unforeseen(error: BaseException) -> int:
    """Report stop requests, errors of the operating system that no stage translated, and bugs; return the exit code."""
    from wordpipe.cli.output import say
    from wordpipe.errors import BUG, BudgetError
    from wordpipe.runtime import Stopped, is_out_of_memory, stopped_by

    # stops
    if isinstance(error, Stopped):
        _say_stopped(error.signum, error.saved or "")
        return _die(error.signum)
    if isinstance(error, KeyboardInterrupt):
        _say_stopped(_signal.SIGINT)
        return _die(_signal.SIGINT)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if (stopped := stopped_by()) is not None:
        _say_stopped(stopped)
        return _die(stopped)
    # the memory, the operating system
    if is_out_of_memory(error):
        got = next(iter(str(error).splitlines()), None)
        hint = "use a smaller batch or vocabulary size, raise ulimit -v, or use a machine with more memory"
        return _show(BudgetError("out of memory", got=got or None, hint=hint))
    if isinstance(error, OSError):
        from wordpipe.stages import storage_error

        return _show(storage_error(error, where="standard output"))  # stages name their own files
    # all else is a bug
    import traceback

    say("".join(traceback.format_exception(error)), as_it_is=True)
    say("wordpipe: this is a bug in wordpipe, not a mistake in your command; no existing file was changed")
    return BUG


_SAVING = {"tokenize", "train", "embed"}
_STAGES = {"ingest", "import", "index", "cluster", *_SAVING}


def _say_stopping(text: str) -> None:
    """Print a line while the command is stopping; nothing with --json, as the error that follows says all."""
    if not wants_json(sys.argv[1:]):
        _say_below_key(text)


def _say_stopped(signum: int, saved: str | None = None) -> None:
    """Say what is kept after a stop, and what the command will do next time; as JSON with --json.

    Args:
        signum: the signal; SIGPIPE (the reader of a pipe is gone) prints nothing.
        saved: the checkpoint to continue from; empty: there is none; None: it is not known.
    """
    # of torchrun's processes only the first prints
    if signum == _signal.SIGPIPE or os.environ.get("RANK", "0") != "0":
        return
    # what is kept, and what happens next time, by command
    command = next(iter(sys.argv[1:]), "")
    kept, again = "no existing file was changed", "run the command again: it starts from the beginning"
    if command == "run":  # the folder in which a stage saves is not shown
        kept, again = "finished stages are kept", "run the command again: it continues with the other stages"
        again += "; the stage that was stopped continues from its checkpoint" if saved else ""
    elif command == "serve":
        kept, again = "all requests received before were answered", "run the command again to start the server"
    elif saved:
        kept, again = "", f"run the same command again to continue from {saved}"
        if command == "train" and (folder := _partial_of(saved)):
            again += f"; to make a model from this checkpoint instead: wordpipe finish {folder}"
    elif saved is None and command in _SAVING:
        again = (
            "run the command again: it continues from the last checkpoint, or, without a checkpoint, it starts again"
        )
    elif command in _STAGES:
        kept = f"nothing was made, and {kept}"
    # one JSON object for programs, a line for people
    what = f"stopped: {kept}" if kept else "stopped"
    if wants_json(sys.argv[1:]):
        from wordpipe.cli.output import say
        from wordpipe.errors import WordpipeError

        error = WordpipeError(what, hint=again).to_json()
        error["error"] |= {"code": 128 + signum, "kind": "stopped"}
        say(_as_json(error), as_it_is=True)
    else:
        _say_below_key(f"{what}; {again}")


def _partial_of(saved: str) -> str:
    """Return the output folder of the training that saved a checkpoint, quoted for a shell; empty: it is no training's."""
    import shlex
    from pathlib import Path

    from wordpipe.artifacts import stopped_runs

    found = stopped_runs(Path(saved).parent)
    return shlex.quote(str(found[0].output)) if found else ""


_SAID_BELOW = False


def _say_below_key(text: str) -> None:
    """Print a line on stderr; on a terminal the first one goes below the ^C that Ctrl-C shows."""
    global _SAID_BELOW
    from wordpipe.cli.output import say

    say(text if _SAID_BELOW or not sys.stderr.isatty() else f"\n{text}")
    _SAID_BELOW = True


def _die(signum: int) -> int:
    """End by the signal itself, so that shells and make see what happened."""
    from wordpipe.runtime import die_by

    null = os.open(os.devnull, os.O_WRONLY)  # what is left in the buffer of stdout has no reader any more
    os.dup2(null, 1)
    os.close(null)
    return die_by(signum)
