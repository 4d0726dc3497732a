"""Arguments that are URLs: what they name is on this machine before a stage looks for it.

An artifact stays a URL, which whatever opens artifacts understands; its copy is fetched here, where progress can be shown.
Anything else (texts, files of other programs, folders) becomes the path of a copy, whose files are named by their URLs.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wordpipe.artifacts import fetch_artifact, fetch_objects, is_artifact
from wordpipe.runtime import Progress, Report, quiet
from wordpipe.storage import as_path, url_of

PLACES = ("output", "config", "folder")
"""Arguments that name where something is written, or what must be on this machine: nothing is fetched for them."""


def fetched(value: Any, report: Report = quiet) -> Any:
    """An argument, or a list of them, with what is at URLs fetched; what is no URL comes back as it is.

    Args:
        value: a path, a URL, a list or a tuple of them, or anything else. A URL where nothing is stays as it is: what wants
            it says so, as of a path of this machine.
        report: hears how much has been fetched.

    Raises:
        InputError, ArtifactError: it changes, is damaged, or has a name that no file can have.
        StorageError: the store refused, or cannot be reached.
    """
    if isinstance(value, (list, tuple)) and not isinstance(value, str):
        return type(value)(fetched(one, report) for one in value) if names_url(value) else value
    url = url_of(value)
    if url is None:
        return value

    def on_bytes(done: int, total: int) -> None:
        report(Progress("fetching", done / 1e6, total / 1e6, "MB"))

    if is_artifact(as_path(value)):
        fetch_artifact(url, on_bytes)
    elif (found := fetch_objects(url, on_bytes)) is not None:
        return found if isinstance(value, str) else Path(found)
    return str(as_path(value)) if isinstance(value, str) else as_path(value)


def names_url(value: Any) -> bool:
    """Whether an argument is a URL, or a list with one."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return any(isinstance(one, (str, os.PathLike)) and url_of(one) is not None for one in value)
    return isinstance(value, (str, os.PathLike)) and url_of(value) is not None


def prepared(name: str, value: Any, run: Any = None) -> Any:
    """An argument of a function as the function takes it, if it names a URL.

    Args:
        name: of the argument.
        value: as it was given.
        run: the run options of the call, if it has some.

    Raises:
        WordpipeError: as from `fetched`.
    """
    if not names_url(value):
        return value
    if name in PLACES:
        return as_path(value)
    return fetched(value, quiet if run is None else run.report)
