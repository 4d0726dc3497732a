"""Sets of sentence pairs that people have scored, read from the layouts in which they are passed around.

Columns are found by the names in a header where there is one, else by their shape: the sentences are the two neighbouring
columns with the longest texts, the score is the column of numbers before or after them. That reads the STS benchmark (with
or without the four columns before its score), SemEval's STS files, SICK, and JSON Lines as the model hubs have them.
SemEval's own pairs of files, `STS.input.X.txt` and `STS.gs.X.txt`, are read as one.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError, wrong_line
from wordpipe.stages.evaluate.inputs import distinct_names, files_of, read_whole
from wordpipe.stages.job import PathLike
from wordpipe.stages.sources import as_list, refuse_artifacts

_ENDINGS = (".csv", ".tsv", ".txt", ".jsonl")
_INPUT, _GOLD = ".input.", ".gs."  # what SemEval calls the two files of one set

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?")
_MAX_SHOWN = 60  # characters of a wrong line
_MIN_ROWS_SHARE = 0.9  # share of rows that say what a column is; the others are then named as wrong
_PAIR_NAMES = ("sentence", "sent", "text", "s", "string", "phrase", "question", "sentences")
_SCORE_NAMES = (
    "relatednessscore", "similarityscore", "score", "similarity", "relatedness", "goldscore", "gold", "label",
)  # fmt: skip
_EXPECTED = "two sentences and a score, as columns of a csv or tsv file or as JSON Lines"

_Row = tuple[int, list[str]]
"""The line on which a row ends, from 1, and its cells."""
_Columns = tuple[int, int, int]
"""Where one sentence, the other and the score are."""


@dataclass(frozen=True, slots=True)
class ScoredPairs:
    """P pairs."""

    first: list[str]  # one sentence of each
    second: list[str]
    scores: npt.NDArray[np.float64]  # (P,) how alike people found them, in any unit
    unscored: int = 0  # pairs of the file that have no score and are left out, as in SemEval 2015 and 2016

    def __len__(self) -> int:
        return len(self.first)


class StsSet(NamedTuple):
    """One set."""

    name: str  # of the file without its ending, or of the folder; the path where two are called the same
    path: Path  # the file or folder
    pairs: ScoredPairs  # all of them, those of a folder in the order of its files
    parts: dict[str, slice]  # the name of each file of a folder, and where its pairs lie in `pairs`; empty for a file


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
        raise InputError("there is no set to evaluate on", hint="name files of scored pairs with --data")
    skipped: Counter[str] = Counter()
    sets = [
        _folder(name, place, skipped) if place.is_dir() else StsSet(name, place, _read(place), {})
        for name, place in distinct_names(map(Path, paths)).items()
    ]
    return sets, dict(sorted(skipped.items()))


def _folder(name: str, folder: Path, skipped: Counter[str]) -> StsSet:
    """The files of a folder as one set; SemEval's files of scores belong to those of pairs beside them."""
    files = [
        file for file in files_of(folder, _ENDINGS, skipped)
        if _GOLD not in file.name or not file.with_name(file.name.replace(_GOLD, _INPUT)).is_file()
    ]  # fmt: skip
    if not files:
        raise InputError("no set of scored pairs in this folder", where=folder, expected=" ".join(_ENDINGS))
    read = [_read(file) for file in files]
    together = ScoredPairs(
        [text for pairs in read for text in pairs.first],
        [text for pairs in read for text in pairs.second],
        np.concatenate([pairs.scores for pairs in read]),
        sum(pairs.unscored for pairs in read),
    )
    ends = np.cumsum([len(pairs) for pairs in read]).tolist()
    slices = [slice(end - len(pairs), end) for pairs, end in zip(read, ends, strict=True)]
    parts = dict(zip(distinct_names(files), slices, strict=True))
    return StsSet(name, folder, together, parts if len(files) > 1 else {})


def _read(file: Path) -> ScoredPairs:
    """One file; SemEval's file of pairs with the file of scores beside it."""
    gold = file.with_name(file.name.replace(_INPUT, _GOLD))
    scores = read_whole(gold) if gold != file and gold.is_file() else None
    return read_scored_pairs(read_whole(file), str(file), scores)


def read_scored_pairs(data: bytes, where: str, scores: bytes | None = None) -> ScoredPairs:
    """Read a set, UTF-8; scores in a file of their own have a line for each pair, empty for a pair without.

    Raises:
        InputError: not text, nothing in it, no such columns, or a line that does not belong; names file and line.
    """
    text = _decoded(data, where)
    if scores is not None:
        return _pairs(_joined(text, _decoded(scores, where), where), (0, 1, 2), where)
    if text.lstrip().startswith("{"):
        return _pairs([*_json_rows(text, where)], (0, 1, 2), where)
    rows = [*_rows(text, where)]
    if not rows:
        hint = "a line of such a file: A man sings.,A man is singing.,4.8"
        raise InputError("there is no pair of sentences in it", where=where, expected=_EXPECTED, hint=hint)
    if (columns := _by_name(rows[0][1])) is not None:
        return _pairs(rows[1:], columns, where)
    columns = _by_shape([cells for _, cells in rows[1:] or rows], where)  # the first may be a header of other names
    headed = len(rows) > 1 and len(rows[0][1]) > max(columns) and not any(map(_is_number, rows[0][1]))
    return _pairs(rows[1:] if headed else rows, columns, where)


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = "convert it first: iconv -f LATIN1 -t UTF-8"
        raise InputError("not UTF-8 text", where=f"{where}:{line}", got=error.reason, hint=hint) from None


def _rows(text: str, where: str) -> Iterator[_Row]:
    """Rows that are not empty: fields between tabs, in which quotes mean nothing, or a csv file."""
    if "\t" in text.partition("\n")[0]:
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield number, [cell.strip() for cell in line.split("\t")]
        return
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError("not a readable csv file", where=f"{where}:{reader.line_num}", got=error) from None


def _joined(text: str, scores: str, where: str) -> list[_Row]:
    """Rows of two sentences and a score, out of a file of pairs and one of scores."""
    pairs, numbers = text.rstrip("\n").split("\n"), scores.rstrip("\n").split("\n")
    if len(numbers) > len(pairs):
        raise InputError("more scores than pairs", where=where, got=f"{len(numbers)} lines", expected=len(pairs))
    numbers += [""] * (len(pairs) - len(numbers))  # pairs at the end without a score
    cells = [[*f"{pair}\t".split("\t")[:2], score] for pair, score in zip(pairs, numbers, strict=True)]
    return [(line, [cell.strip() for cell in some]) for line, some in enumerate(cells, start=1)]


def _json_rows(text: str, where: str) -> Iterator[_Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError("not a line of JSON", where=f"{where}:{number}", got=error) from None
        columns = _by_name([*record]) if isinstance(record, dict) else None
        if columns is None:
            raise wrong_line(f"{where}:{number}", line, "an object with sentence1, sentence2 and score")
        values = [*record.values()]
        yield number, ["" if values[place] is None else str(values[place]) for place in columns]


def _by_name(header: Sequence[str]) -> _Columns | None:
    """The columns that a header names; None where it does not name all three."""
    place_of = {re.sub(r"[^a-z0-9]", "", name.lower()): place for place, name in reversed([*enumerate(header)])}
    pairs = [(f"{stem}{one}", f"{stem}{two}") for stem in _PAIR_NAMES for one, two in ("12", "ab")]
    pair = next((both for both in pairs if all(name in place_of for name in both)), None)
    score = next((name for name in _SCORE_NAMES if name in place_of), None)
    return None if pair is None or score is None else (place_of[pair[0]], place_of[pair[1]], place_of[score])


def _by_shape(rows: Sequence[Sequence[str]], where: str) -> _Columns:
    """The columns that look like two sentences and a score; InputError if none do, or two could be the score."""
    widths = sorted(len(cells) for cells in rows)
    width = widths[int(len(widths) * (1 - _MIN_ROWS_SHARE))]
    columns = [[cells[place] for cells in rows if len(cells) >= width] for place in range(width)]
    filled = [[cell for cell in column if cell] for column in columns]
    numeric = [bool(some) and sum(map(_is_number, some)) >= _MIN_ROWS_SHARE * len(some) for some in filled]
    length = [sum(map(len, column)) for column in columns]
    pairs = [place for place in range(width - 1) if not numeric[place] and not numeric[place + 1]]
    if not pairs:
        raise InputError("no two columns of sentences side by side", where=where, expected=_EXPECTED)
    first = max(pairs, key=lambda place: min(length[place], length[place + 1]))
    scores = [place for place in (first - 1, first + 2) if 0 <= place < width and numeric[place]]
    if len(scores) == 2:  # one of them may number the pairs, by different whole numbers
        scores = [
            place for place in scores
            if len({*columns[place]}) < len(columns[place]) or any("." in cell for cell in columns[place])
        ]  # fmt: skip
    if len(scores) != 1:
        what = "no column of scores before or after the sentences" if not scores else "two columns could be the score"
        hint = "name the columns in a first line: sentence1, sentence2, score"
        raise InputError(what, where=where, expected=_EXPECTED, hint=hint)
    return first, first + 1, scores[0]


def _pairs(rows: Sequence[_Row], columns: _Columns, where: str) -> ScoredPairs:
    first, second, scores, unscored = [], [], [], 0
    for line, cells in rows:
        if len(cells) <= max(columns):
            raise wrong_line(f"{where}:{line}", "\t".join(cells), f"at least {max(columns) + 1} columns")
        one, two, score = (cells[place] for place in columns)
        if not score:
            unscored += 1
            continue
        if not _is_number(score):
            raise wrong_line(f"{where}:{line}", "\t".join(cells), f"a score where {score[:_MAX_SHOWN]!r} stands")
        if not one or not two:
            raise wrong_line(f"{where}:{line}", "\t".join(cells), "two sentences")
        first.append(one)
        second.append(two)
        scores.append(float(score))
    if not scores:
        raise InputError("there is no pair with a score in it", where=where, expected=_EXPECTED)
    return ScoredPairs(first, second, np.array(scores, dtype=np.float64), unscored)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None
