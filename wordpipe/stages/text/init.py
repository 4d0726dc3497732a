"""`wordpipe init`: the files of a new project."""

from importlib.resources import files
from pathlib import Path

from wordpipe.artifacts import atomic_file
from wordpipe.stages.job import storage_errors

_FILES = ("wordpipe.toml", "Makefile")


def write_project(folder: Path) -> list[tuple[Path, bool]]:
    """Write the config and the Makefile of a new project into `folder`, and make its `texts` folder.

    Returns:
        each file's path, and whether it is new; files that exist are not touched.
    """
    written: list[tuple[Path, bool]] = []
    with storage_errors():
        (folder / "texts").mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            path = folder / name
            is_new = not path.exists()
            if is_new:
                template = files("wordpipe.stages.text").joinpath("templates", name).read_bytes()
                with atomic_file(path) as file:
                    file.write(template)
            written.append((path, is_new))
    return written
