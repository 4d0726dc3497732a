"""The sets of scored pairs of sentences that a user names: files, and folders whose files are one set."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wordpipe.errors import InputError
from wordpipe.sentences.scored_pairs import ScoredPairs, read_scored_pairs
from wordpipe.stages.inputs import as_list, refuse_artifacts
from wordpipe.stages.judged_files import distinct_names, files_of, read_whole
from wordpipe.stages.making import PathLike

__all__ = ["StsSet", "read_sts_sets"]

_ENDINGS = (".csv", ".tsv", ".txt", ".jsonl")
_INPUT, _GOLD = ".input.", ".gs."  # what SemEval calls the two files of one set


@dataclass(frozen=True, slots=True)
class StsSet:
    """One set.

    Attributes:
        name: of the file without its ending, or of the folder; the path where two are called the same.
        path: the file or folder.
        pairs: all of them, those of a folder in the order of its files.
        parts: the name of each file of a folder, and where its pairs lie in `pairs`; empty for a file.
    """

    name: str
    path: Path
    pairs: ScoredPairs
    parts: dict[str, slice]


def read_sts_sets(data: PathLike | Iterable[PathLike]) -> tuple[list[StsSet], dict[str, int]]:
    """Read files and folders; of a folder, and the folders in it, the .csv, .tsv, .txt and .jsonl files that are not hidden.

    Returns:
        The sets in the order in which they were named, and how many files of folders were not taken, by ending.

    Raises:
        ArtifactError: an artifact is named.
        InputError: no such file, none in a folder, or one that is no set; names file and line.
    """
    paths = list(dict.fromkeys(as_list(data)))
    refuse_artifacts(paths)
    if not paths:
        raise InputError("there is no set to judge on", hint="name files of scored pairs with --data")
    skipped: Counter[str] = Counter()
    places = [Path(path) for path in paths]
    sets = [
        _folder(name, place, skipped) if place.is_dir() else StsSet(name, place, _read(place), {})
        for name, place in zip(distinct_names(places), places, strict=True)
    ]
    return sets, dict(sorted(skipped.items()))


def _folder(name: str, folder: Path, skipped: Counter[str]) -> StsSet:
    files = [file for file in files_of(folder, _ENDINGS, skipped) if _GOLD not in file.name or not _input_of(file)]
    if not files:
        raise InputError("no set of scored pairs in this folder", where=folder, expected=" ".join(_ENDINGS))
    read = [_read(file) for file in files]
    ends = np.cumsum([len(pairs) for pairs in read]).tolist()
    parts = {
        part: slice(end - len(pairs), end)
        for part, pairs, end in zip(distinct_names(files), read, ends, strict=True)
    }  # fmt: skip
    return StsSet(name, folder, _together(read), parts if len(parts) > 1 else {})


def _read(file: Path) -> ScoredPairs:
    """One file; SemEval's file of pairs with the file of scores beside it."""
    gold = file.with_name(file.name.replace(_INPUT, _GOLD))
    scores = read_whole(gold) if gold != file and gold.is_file() else None
    return read_scored_pairs(read_whole(file), str(file), scores)


def _input_of(gold: Path) -> bool:
    """Whether the file of pairs that this file of scores belongs to is beside it."""
    return gold.with_name(gold.name.replace(_GOLD, _INPUT)).is_file()


def _together(read: Sequence[ScoredPairs]) -> ScoredPairs:
    return ScoredPairs(
        [text for pairs in read for text in pairs.first],
        [text for pairs in read for text in pairs.second],
        np.concatenate([pairs.scores for pairs in read]),
        sum(pairs.unscored for pairs in read),
    )
