"""Whether what is exported may be put where it is to go, told before the work and not after it."""

from collections.abc import Iterable
from pathlib import Path

from wordpipe.artifacts.reader import refuse_inside_artifact
from wordpipe.artifacts.target import files_at
from wordpipe.errors import ConfigError, StorageError

__all__ = ["refuse_file", "refuse_folder"]


def refuse_folder(output: Path) -> None:
    """Refuse a folder (or standard output) where a file is to be written.

    Raises:
        ConfigError: it is one.
    """
    if output.is_dir() or str(output) == "-":
        raise ConfigError("this format is a file", where="output", got=output, hint="name a file with -o")


def refuse_file(output: Path, names: Iterable[str]) -> None:
    """Refuse what a folder of these files may not replace: a file, a link, another program's folder, part of an artifact.

    Raises:
        StorageError, ConfigError: it is one.
    """
    refuse_inside_artifact(output)
    hint = "name another output with -o"
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise StorageError("a file or a link is there, and this format is a folder", where=output, hint=hint)
    known = {*names}
    if output.exists() and (other := [name for name in files_at(output) if name not in known]):
        raise StorageError(f"the folder holds other files ({other[0]})", where=output, hint=hint)
