"""Files that something is judged on: whole, unpacked, and with names that tell them apart."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from wordpipe.corpus.decompress import Growth, compression_of, decompress, read_blocks
from wordpipe.errors import InputError

__all__ = ["distinct_names", "files_of", "find_file", "read_whole"]

_MAX_EXPAND = 1_000  # a packed file may grow so many times
_PACKED = ("", ".gz", ".bz2", ".xz", ".zst")


def read_whole(path: Path) -> bytes:
    """The content of a file, unpacked where it is packed (gz, bz2, xz, zst).

    Raises:
        InputError: no such file, or a damaged one.
    """
    growth = Growth(str(path), _MAX_EXPAND)
    try:
        with path.open("rb") as file:
            kind = compression_of(file.read(16))
            file.seek(0)
            return b"".join(decompress(read_blocks(file, str(path), lambda _: None), kind, growth))
    except FileNotFoundError:
        raise InputError("no such file", where=path) from None
    except IsADirectoryError:
        raise InputError("this is a folder, not a file", where=path) from None


def files_of(folder: Path, endings: Sequence[str], skipped: Counter[str]) -> list[Path]:
    """The files of a folder, and of those in it, whose names end so, packed or not, by path; hidden ones are passed over.

    Args:
        folder: where to look.
        endings: such as .csv.
        skipped: counts the files that were not taken, by the ending of their names.
    """
    found = []
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or any(part.startswith(".") for part in file.relative_to(folder).parts):
            continue
        if file.name.lower().endswith(tuple(ending + packed for ending in endings for packed in _PACKED)):
            found.append(file)
        else:
            skipped[file.suffix or file.name] += 1
    return found


def find_file(folder: Path, names: Sequence[str]) -> Path | None:
    """The first of some files that is in a folder, packed or not."""
    places = (folder / (name + packed) for name in names for packed in _PACKED)
    return next((place for place in places if place.is_file()), None)


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """A name for each path: the file's without its ending; the whole path where two are called the same."""
    stems = [path.resolve().name if path.is_dir() else _stem(path.name) for path in paths]
    often = Counter(stems)
    return [stem if often[stem] == 1 else str(path) for stem, path in zip(stems, paths, strict=True)]


def _stem(name: str) -> str:
    for packed in filter(None, _PACKED):
        name = name.removesuffix(packed)
    return Path(name).stem
