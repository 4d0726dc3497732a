"""Swap two folders of one file system in one atomic step, where the system can."""

import ctypes
import errno
import os
import sys
from pathlib import Path

__all__ = ["exchange"]

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
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
