"""The sets of pairs and analogies that a user names: files, and the files of folders."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wordpipe.errors import InputError
from wordpipe.stages.inputs import as_list, refuse_artifacts
from wordpipe.stages.making import PathLike
from wordpipe.words.judge.sets import Pairs, Questions, read_set

__all__ = ["WordSet", "WordSets", "read_word_sets"]

_ENDINGS = (".txt", ".tsv", ".csv")  # of the files that are taken from a folder


@dataclass(frozen=True, slots=True)
class WordSet:
    """One file.

    Attributes:
        name: the name of the file without its ending; its path where two are called the same.
        path: the file.
        content: what it holds.
    """

    name: str
    path: Path
    content: Pairs | Questions


@dataclass(frozen=True, slots=True)
class WordSets:
    """All files.

    Attributes:
        sets: in the order in which they were named; those of a folder by path.
        skipped: how many files of folders were not taken, by the ending of their names.
    """

    sets: list[WordSet]
    skipped: dict[str, int]


def read_word_sets(data: PathLike | Iterable[PathLike]) -> WordSets:
    """Read files and folders; of a folder, and the folders in it, the .txt, .tsv and .csv files that are not hidden.

    Raises:
        ArtifactError: an artifact is named.
        InputError: no such file, none in a folder, or one that is no set; names file and line.
    """
    paths = as_list(data)
    refuse_artifacts(paths)
    skipped: Counter[str] = Counter()
    files = list(dict.fromkeys(file for path in paths for file in _files(Path(path), skipped)))
    if not files:
        hint = f"name the files, or let their names end in {' '.join(_ENDINGS)}"
        raise InputError("there is no set of words to judge on", where=", ".join(paths), hint=hint)
    stems = Counter(file.stem for file in files)
    names = [file.stem if stems[file.stem] == 1 else str(file) for file in files]
    sets = [
        WordSet(name, file, read_set(file.read_bytes(), str(file))) for name, file in zip(names, files, strict=True)
    ]
    return WordSets(sets, dict(sorted(skipped.items())))


def _files(path: Path, skipped: Counter[str]) -> Iterator[Path]:
    if not path.exists():
        raise InputError("no such file", where=path)
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*")):
        if not file.is_file() or any(part.startswith(".") for part in file.relative_to(path).parts):
            continue
        if file.suffix.lower() in _ENDINGS:
            yield file
        else:
            skipped[file.suffix or file.name] += 1
