"""A room to try one fault in: its folder, its processes, and the oracle that says whether all was held.

The oracle (I1 to I5): `verify` passes or names what is broken; what stood there before is byte-identical, or the new one
is whole; the same command again gives the digest of an undisturbed run; nothing is left running, in TMPDIR (the runner looks
at /dev/shm) or beside the output; the exit code is allowed, stderr has one error and no traceback.
"""

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import wordpipe
from tests.faults.world import PROGRAM, World, digest_at
from wordpipe.errors import WordpipeError

_ERROR_LINE = re.compile(r'^(wordpipe: error\b|Error\b|\{.*"error")', re.MULTILINE)  # for people, Click's, with --json
_BUG = ("Traceback (most recent call last)", "this is a bug", "terminate called", "Segmentation fault", "core dumped")
MANY_MB = 1_500  # no command on these inputs needs so much; torch alone takes 400
NOT_PASSED = "the end of a sweep: the failpoint is not passed so often"
SAID_AT_MOST = 8_000  # characters of an error


class Broken(Exception):
    """What the oracle found."""


class OutOfTime(Broken):
    """A command had not ended when its time was over."""


class Skipped(Exception):
    """The fault cannot be made on this machine, and why."""


@dataclass(frozen=True)
class Done:
    """What a process left."""

    code: int
    out: str
    err: str
    command: str  # to be pasted into a shell
    seconds: float = 0
    peak_mb: float = 0
    hung: bool = False
    swollen: bool = False  # ended by us as it took too much memory
    injected: int = 0  # faults that the tracer injected


class Room:
    """The folder of one try, `work` in it being the working folder of commands."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.work, self._tmp = folder / "work", folder / "tmp"
        self.work.mkdir(parents=True)
        self._tmp.mkdir()
        self.target = self.work / "out"
        self.fired = 0  # faults that were seen to happen
        self.last: Done | None = None
        self._before: dict[str, str] = {}

    # ---- running commands

    def run(
        self,
        *arguments: object,
        stdin: str | None = None,
        outputs: Mapping[int, str] | None = None,
        limits: Mapping[str, int] | None = None,
        clock: float | None = None,
        umask: int | None = None,
        phases: Path | None = None,
        more_memory: int | None = None,
        seconds: float = 60,
        **environment: str,
    ) -> Done:
        """Run a command in a forked child to its end; `child.py` says what can be asked of it."""
        asked = {
            "arguments": [str(argument) for argument in arguments], "folder": str(self.work), "stdin": stdin,
            "outputs": outputs, "limits": limits, "clock": clock, "umask": umask, "canary": str(phases) if phases else None,
            "more_memory": more_memory if sys.platform == "linux" else None,
        }  # fmt: skip
        request = json.dumps({key: value for key, value in asked.items() if value is not None})
        variables = {"TMPDIR": str(self._tmp), "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]} | environment
        begin = time.monotonic()
        child = self.world.nursery.start("tests.faults.child:main", request, **variables)
        code = child.wait(seconds)
        lasted = time.monotonic() - begin
        texts = [path.read_text(errors="backslashreplace") for path in (child.out, child.err)]
        command = _shown(arguments, environment)
        self.last = Done(code, *texts, command, lasted, hung=lasted >= seconds and code == -signal.SIGKILL)
        return self.last

    def program(
        self,
        *arguments: object,
        shell: str = "",
        stdin: bytes = b"",
        strace: Iterable[str] = (),
        seconds: float = 90,
        most_mb: float = MANY_MB,
        meanwhile: Callable[[subprocess.Popen[bytes]], None] | None = None,
        **environment: str,
    ) -> Done:
        """Run a command as a program of its own, which takes its own imports.

        Args:
            shell: what is done to the process before it starts (`ulimit -v 700000`), or redirections (`2>&-`).
            stdin: what it reads.
            strace: options of a tracer.
            seconds: it is killed by then.
            most_mb: it is killed when it takes more.
            meanwhile: called once it has started.
        """
        before, redirected = (shell, "") if shell.startswith("ulimit") else ("", shell)
        log = self.folder / "strace.log"
        tracer = ["strace", "-f", "-qq", "-o", str(log), *strace] if strace else []
        line = (f"{before} && " if before else "") + f'exec "$@" {redirected}'
        (self.folder / "stdin").write_bytes(stdin)
        variables = {**os.environ, "TMPDIR": str(self._tmp), **environment}
        begin, peak, swollen = time.monotonic(), 0.0, False
        with (
            (self.folder / "stdin").open("rb") as given,
            (self.folder / "stdout").open("wb") as out,
            (self.folder / "stderr").open("wb") as err,
        ):
            process = subprocess.Popen(
                ["sh", "-c", line, "sh", *tracer, *PROGRAM, *map(str, arguments)],
                stdin=given, stdout=out, stderr=err, cwd=self.work, env=variables, start_new_session=True,
            )  # fmt: skip
            try:
                if meanwhile is not None:
                    meanwhile(process)
                while process.poll() is None and time.monotonic() < begin + seconds and not swollen:
                    peak = max(peak, _peak_mb(process.pid))
                    swollen = peak > most_mb
                    time.sleep(0.01)
                hung = process.poll() is None and not swollen
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
        texts = [(self.folder / name).read_text(errors="backslashreplace") for name in ("stdout", "stderr")]
        injected = log.read_text(errors="replace").count("(INJECTED)") if strace else 0
        command = (f"{before}; " if before else "") + " ".join([*tracer, _shown(arguments, environment), redirected])
        self.last = Done(code, *texts, command, time.monotonic() - begin, peak, hung, swollen, injected)
        return self.last

    # ---- what stood there before

    def hold(self) -> None:
        """Remember all that is in the working folder, which must stay as it is."""
        self._before = contents(self.work)

    def lay_older(self, stage: str) -> None:
        """An older artifact at the output of a stage."""
        self.world.lay_older(stage, self.target)
        self.hold()

    def as_before(self, *, state: bool = False) -> None:
        """Check that nothing was changed, and nothing is left (with `state`, checkpoints and finished pieces may stay)."""
        now = contents(self.work)
        changed = sorted(name for name, value in self._before.items() if now.get(name) != value)
        if changed:
            raise Broken(f"what was there before has changed: {changed[:3]}")
        added = [name for name in sorted(set(now) - set(self._before)) if not _may_stay(name, state=state)]
        if added:
            raise Broken(f"something is left: {added[:3]}")

    def old_or_new(self, stage: str) -> bool:
        """Check that the output is what it was, or the whole new artifact; whether it is the new one."""
        now = {name: value for name, value in contents(self.work).items() if name.startswith("out/")}
        before = {name: value for name, value in self._before.items() if name.startswith("out/")}
        if now == before:
            return False
        self.verified()
        if digest_at(self.target) != self.world.digests[stage]:
            raise Broken("the new artifact is not that of an undisturbed run")
        return True

    def verified(self) -> None:
        """Check that the artifact at the output is whole."""
        try:
            report = wordpipe.verify(self.target)
        except WordpipeError as error:
            raise Broken(f"verify: {error.message}") from None
        if not report["ok"]:
            raise Broken(f"verify: {report}")

    def made(self, stage: str) -> None:
        """Check that the output is that of an undisturbed run, and that nothing is left beside it."""
        if not (self.target / "manifest.json").is_file():
            raise Broken("nothing was made")
        self.verified()
        if digest_at(self.target) != self.world.digests[stage]:
            raise Broken("other bytes than an undisturbed run")
        left = [path.name for path in self.work.glob(".out*") if path.name != ".out.lock"]
        if left:
            raise Broken(f"something is left beside the artifact: {left}")

    def again(self, stage: str) -> Done:
        """The same command once more: it ends well, with the bytes of an undisturbed run."""
        done = self.run(*self.world.command(stage), "-o", "out")
        if done.code:
            raise Broken(f"the next run ended with {done.code}: {last_line(done.err)}")
        self.made(stage)
        return done

    # ---- what was said

    def said(
        self,
        done: Done,
        codes: Collection[int],
        *,
        names: Iterable[str] = (),
        silent: bool = False,
        shortly: bool = True,
    ) -> None:
        """Check exit code and stderr.

        Args:
            done: what the process left.
            codes: exit codes that are allowed.
            names: what the error must mention (where there is one).
            silent: there may be no error at all.
            shortly: an error must not repeat all that was given.
        """
        if done.hung:
            raise OutOfTime(f"it had not ended after {done.seconds:.0f} s")
        if done.swollen:
            raise Broken(f"it took more than {done.peak_mb:,.0f} MB")
        said = done.err + done.out
        for bug in _BUG:
            if bug in said:
                raise Broken(f"exit {done.code}, {bug.split(' (')[0]!r}: {last_line(done.err, but='this is a bug')}")
        if done.code not in codes:
            raise Broken(f"exit {done.code}, allowed {sorted(codes)}: {last_line(done.err)}")
        if done.code > 0 and not silent and done.code != 128 + signal.SIGPIPE:
            errors = len(_ERROR_LINE.findall(done.err))
            if errors != 1:
                raise Broken(f"exit {done.code} with {errors} errors on stderr")
            if shortly and len(done.err) > SAID_AT_MOST:
                raise Broken(f"the error has {len(done.err):,} characters")
            missing = [name for name in names if name not in done.err]
            if missing:
                raise Broken(f"the error does not name {missing}: {last_line(done.err)}")

    def clean(self) -> None:
        """Check that nothing is left running, in TMPDIR and /dev/shm (unless a kill -9 left it: those rooms do not ask)."""
        if left := sorted(path.name for path in self._tmp.iterdir()):
            raise Broken(f"left in TMPDIR: {left[:3]}")

    def nothing_runs(self) -> None:
        """Check that no process has its working folder here."""
        end = time.monotonic() + 5
        while running := _processes_in(self.folder):
            if time.monotonic() > end:
                raise Broken(f"processes still run: {running}")
            time.sleep(0.05)


def contents(folder: Path) -> dict[str, str]:
    """Path → what is there, of everything below a folder; links are not followed."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*files, *folders]:
            path = Path(root, name)
            key = str(path.relative_to(folder))
            if path.is_symlink():
                found[key] = f"-> {path.readlink()}"
            elif path.is_file():
                found[key] = hashlib.blake2b(path.read_bytes()).hexdigest()
            elif not path.is_dir():
                found[key] = "special"
    return found


def last_line(text: str, but: str = "\0") -> str:
    """The line that says most: the error, else the last one."""
    lines = [line for line in text.splitlines() if line.strip() and but not in line]
    errors = [line for line in lines if _ERROR_LINE.match(line)]
    return ((errors or lines or ["(nothing said)"])[-1])[:200]


def _may_stay(name: str, *, state: bool) -> bool:
    """Locks stay; checkpoints and finished pieces stay where a run can be continued."""
    first = name.split("/")[0]
    return first.endswith(".lock") or (state and ".partial" in first)


def _peak_mb(pid: int) -> float:
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) / 1024 if found else 0


def _processes_in(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder) and "Z (" not in (process / "status").read_text():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def _shown(arguments: Iterable[object], environment: Mapping[str, str]) -> str:
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    words = [word if len(word) < 300 else word[:200] + "…" for word in map(str, arguments)]
    return " ".join([*variables, "wordpipe", *map(shlex.quote, words)])
