"""Publication: the lock of an output, the check of what is replaced, the exchange, and leftovers of killed runs.

Everything beside the target begins with a dot and the target's name:

    .NAME.lock                   held by the run that writes NAME; stays
    .NAME.<16 hex>.tmp           an artifact being written, or the old one about to be removed
    .NAME.<16 hex>.old           the old artifact, set aside (only where folders cannot be exchanged in one step)
    .NAME.<16 hex>.scratch.tmp   intermediate files of a stage

A test may kill or fail the process at named places, for machines without a system call tracer:

    WORDPIPE_FAILPOINT=publish.before_exchange:kill     die by SIGKILL there
    WORDPIPE_FAILPOINT=publish.file_written:enospc:3    raise "no space left" at the third passage
    WORDPIPE_FAILPOINT=*:kill:5                         die at the fifth failpoint, whichever it is

Without the variable a failpoint costs one dictionary look-up.
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wordpipe.artifacts.safe_reading import MANIFEST, MAX_MANIFEST, parse_json, read_regular_file
from wordpipe.errors import ArtifactError, ConfigError, InputError, LockedError, StorageError

_ERRORS = {"enospc": errno.ENOSPC, "eio": errno.EIO}
_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Kill or fail the process at this failpoint of a publication if WORDPIPE_FAILPOINT names the place.

    Raises:
        OSError: the failpoint asked for an I/O error.
        ConfigError: the variable has another form.
    """
    wanted = os.environ.get("WORDPIPE_FAILPOINT")
    if wanted is None:
        return
    place, _, rest = wanted.partition(":")
    action, _, nth = rest.partition(":")
    if action not in ("kill", *_ERRORS) or not (nth or "1").isdecimal():
        expected = f"PLACE:{'|'.join(['kill', *_ERRORS])}[:NUMBER]"
        raise ConfigError("unknown failpoint", where="WORDPIPE_FAILPOINT", got=wanted, expected=expected)
    if place not in (name, "*"):
        return
    _passed[place] = _passed.get(place, 0) + 1
    if _passed[place] != int(nth or 1):
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError(_ERRORS[action], os.strerror(_ERRORS[action]), name)


class OutputLock:
    """The right to write `target` while the context is open: an advisory lock on a file beside `target`.

    The kernel frees the lock when its holder dies, however it dies; the file itself stays, so no two processes can hold
    locks on two different files of the same name.

    Args:
        target: the artifact.
        patience: seconds to wait: a reader that completes a publication holds it for a moment, and must fail no writer.

    Raises:
        LockedError: another process holds it; nothing was touched.
        StorageError: the file system has no locks.
    """

    def __init__(self, target: Path, patience: float = 0.5) -> None:
        self._target = target
        self._patience = patience
        self._path = target.parent / f".{target.name}.lock"
        self._fd = -1

    def __enter__(self) -> "OutputLock":
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            self._take(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return self

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)  # a forked child may still have it open
        os.close(self._fd)

    def _take(self, fd: int) -> None:
        """Take the lock, with patience, and write the number of this process into its file."""
        until = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    hint = "wait until the other run ends, or stop that run; then run this command again"
                    what = f"another run is writing this output{_holder(fd)}"
                    raise LockedError(what, where=self._target, hint=hint) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                what = "the file system does not support locks (flock), so wordpipe could not detect a second writer"
                hint = "mount the file system with support for locks, or write to a local disk or to a bucket (s3://…)"
                raise StorageError(what, where=self._target, got=error.strerror, hint=hint) from None
            time.sleep(0.005)
        with suppress(OSError):  # who holds it is for the message only: a full disk must not matter here
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}).encode(), 0)


def _holder(fd: int) -> str:
    """Return the holder of the lock, for the message only."""
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        since = time.strptime(holder["since"], "%Y-%m-%d %H:%M:%S")
        return f" (process {int(holder['pid'])}, since {time.strftime('%Y-%m-%d %H:%M:%S', since)})"
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # Linux renameat2(2); macOS renamex_np(2) calls the same value RENAME_SWAP
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}


def exchange(one: Path, other: Path) -> bool:
    """Swap the folders `one` and `other`.

    Returns:
        False if this system or file system cannot do it; nothing has changed then.

    Raises:
        OSError: the swap failed for another reason.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    a, b = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        done = libc.renamex_np(a, b, _RENAME_EXCHANGE)
    elif hasattr(libc, "renameat2"):
        done = libc.renameat2(_AT_FDCWD, a, _AT_FDCWD, b, _RENAME_EXCHANGE)
    else:
        return False
    code = ctypes.get_errno()
    if done != 0 and code not in _UNSUPPORTED:
        raise OSError(code, os.strerror(code), str(one), None, str(other))
    return bool(done == 0)


def put_in_place(folder: Path, target: Path) -> None:
    """Make a folder beside `target` what stands there; what stood there is gone, or at `folder`, for the caller to remove.

    Raises:
        OSError: the disk refused; all is as it was.
    """
    failpoint("publish.before_exchange")
    aside = folder.with_suffix(".old")
    exchanged = os.path.lexists(target) and exchange(folder, target)
    try:
        if not exchanged:  # it is new, or folders cannot be exchanged
            if os.path.lexists(target):
                target.rename(aside)
                failpoint("publish.between_renames")  # `recover` completes it
            folder.rename(target)
        failpoint("publish.after_exchange")
        sync_folder(target.parent)
    except OSError:
        if exchanged:
            exchange(folder, target)
        elif not folder.exists():
            target.rename(folder)
        if aside.exists():
            aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def sync_folders(path: Path) -> None:
    """Force the names in a folder and in all below it to the disk."""
    for folder, _, _ in os.walk(path):
        sync_folder(Path(folder))


def sync_folder(path: Path) -> None:
    """Force the names in a folder to the disk."""
    failpoint("publish.folder_synced")
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def signals_held() -> Iterator[None]:
    """Put off stop signals for the few system calls in which the folders change places.

    Python runs signal handlers in the main thread only, so elsewhere there is nothing to put off.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []
    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _: seen.append(number)) for number in stops}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        for caught in seen:
            signal.raise_signal(signal.Signals(caught))


_LITTER = {".DS_Store", "Thumbs.db", "desktop.ini"}  # file browsers drop these wherever people look
ELSEWHERE = "choose another output with -o"


def check_replaceable(target: Path, kind: str) -> None:
    """Refuse to replace anything that is not an artifact of this kind that wordpipe wrote.

    Raises:
        StorageError: `target` is a file, a link, or a folder with files of someone else.
        ArtifactError: `target` is an artifact of another kind.
    """
    if target.name in ("", ".."):
        raise StorageError("the output path must end in a name, not in . or ..", where=target, hint=ELSEWHERE)
    if target.is_symlink():
        raise StorageError("the output is a symbolic link", where=target, hint="use the folder that the link points to")
    if target.exists() and not target.is_dir():
        raise StorageError("the output is an existing file, but an artifact is a folder", where=target, hint=ELSEWHERE)
    # an empty folder may be replaced; of all others only an artifact
    there = files_at(target) if target.exists() else []
    if not there:
        return
    if MANIFEST not in there:
        what = f"the folder is not an artifact and contains other files ({there[0]}, …)"
        hint = f"{ELSEWHERE}; if this folder is what remains of an old artifact, remove the folder"
        raise StorageError(what, where=target, hint=hint)
    claims = _claims(target)
    if claims is None:  # browser extensions and web pages have a manifest.json too
        what = f"the {MANIFEST} in this folder is damaged, or wordpipe did not write it, so the folder is not replaced"
        hint = f"if the folder is a damaged artifact, remove the folder yourself; or {ELSEWHERE}"
        raise StorageError(what, where=target, hint=hint)
    # of this kind, and without files of someone else
    found_kind, ours = claims
    if found_kind != kind:
        found_kind = f"{'an' if found_kind == 'index' else 'a'} {found_kind}"
        what = f"the output already contains {found_kind} artifact; {kind} cannot replace an artifact of another kind"
        raise ArtifactError(what, where=target, hint=ELSEWHERE)
    if foreign := [name for name in there if name not in ours]:
        what = f"the artifact contains files that wordpipe did not write ({foreign[0]})"
        raise StorageError(what, where=target, hint=f"move these files away, or {ELSEWHERE}")


def recover(target: Path) -> None:
    """Complete a publication that was killed between its two renames (systems without an atomic exchange only).

    There the old folder stands aside as `.NAME.*.old` and nothing is at `target`. The new one is preferred if it is whole.
    Only the holder of the output's lock may call this: the writer may be alive, between its renames.
    """
    if os.path.lexists(target):
        return
    for folder in (*(aside.with_suffix(".tmp") for aside in asides(target)), *asides(target)):
        if (folder / MANIFEST).is_file():
            folder.rename(target)
            return


def asides(target: Path) -> list[Path]:
    """Return the old artifacts of a name that a publication set aside and did not remove yet."""
    return _beside(target, r"\.old")


def clear_leftovers(target: Path) -> None:
    """Remove what killed runs left beside `target`. Only the holder of the output's lock may call this."""
    recover(target)
    for leftover in _beside(target, r"(\.scratch)?\.(tmp|old)"):
        if leftover.is_symlink():
            leftover.unlink()
        else:
            shutil.rmtree(leftover, ignore_errors=True)


def files_at(path: Path) -> list[str]:
    """Return the paths of all files of a folder to publish; see `files_under`."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        return files_under(fd)
    finally:
        os.close(fd)


def files_under(folder: int) -> list[str]:
    """Return the paths of all files below an open folder, sorted; links are listed and not followed."""
    found = []
    for root, folders, files, fd in os.fwalk(".", dir_fd=folder, onerror=_unless_gone):
        names = [*files, *(name for name in folders if _is_link(name, fd))]
        found += [os.path.normpath(os.path.join(root, name)) for name in names]  # noqa: PTH118
    return sorted(path for path in found if os.path.basename(path) not in _LITTER)  # noqa: PTH119


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _unless_gone(error: OSError) -> None:
    """Raise an error of listing a folder, unless a writer has just removed the folder."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _beside(target: Path, ending: str) -> list[Path]:
    """Return the siblings of an output named `.NAME.<16 hex>ENDING`, exactly: `.a.b.<16 hex>.tmp` does not belong to `a`."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}{ending}")
    try:
        return sorted(path for path in target.parent.iterdir() if pattern.fullmatch(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def manifest_bytes(folder: Path) -> bytes | None:
    """Return the manifest's bytes of a folder that a publication replaces; None if missing, no file, or too large.

    A pipe of that name would wait for ever, and a link to a device never end.
    """
    try:
        return read_regular_file(folder / MANIFEST, MAX_MANIFEST)
    except (InputError, OSError, StorageError):
        return None


def _claims(folder: Path) -> tuple[str, set[str]] | None:
    """Return the kind and the files that a manifest of ours names, whether or not its hash is right; None of any other."""
    if (data := manifest_bytes(folder)) is None:
        return None
    try:
        body = parse_json(data, folder)
        if not {"wordpipe", "kind", "recipe", "digest", "blake3"} <= set(body):
            return None
        return str(body["kind"]), {MANIFEST, *(str(output["path"]) for output in body["outputs"])}
    except (ArtifactError, KeyError, TypeError):
        return None
