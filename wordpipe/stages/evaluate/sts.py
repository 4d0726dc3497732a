"""`wordpipe evaluate sts`: how well the cosines of sentence vectors agree with people's scores; nothing is written.

Columns of a set are found by the names in a header where there is one, else by their shape: the sentences are the two
neighbouring columns with the longest texts, the score is the column of numbers before or after them. That reads the STS
benchmark (with or without the four columns before its score), SemEval's STS files, SICK, and JSON Lines as the model hubs have
them. SemEval's own pairs of files, `STS.input.X.txt` and `STS.gs.X.txt`, are read as one.

Every system gives a pair a number from -1 to 1. Beside the encoders there are baselines that need no training (`--no-floors`
leaves them out): they learn how rare a word is from the sentences of the set, without its scores; so their figure for one set
does not depend on the others. There is no BM25 among them: its scores have no bound and differ from one sentence to the other
and back; on sentences the cosine of TF-IDF vectors is what it comes to.

Shapes: P pairs, N different sentences, V stems, D numbers of a vector.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import Artifact
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ConfigError, InputError, wrong_line
from wordpipe.heads import is_no_score
from wordpipe.metrics import (
    Evaluation,
    Figure,
    System,
    correlation_interval,
    listed,
    pearson,
    rounded,
    side_by_side,
    spearman,
)
from wordpipe.runtime import Progress
from wordpipe.search import LatentSpace, Tfidf, recognised_language, stemmer
from wordpipe.stages.evaluate.inputs import (
    PLAIN,
    EvaluatedEncoder,
    decoded,
    distinct_names,
    evaluation_of,
    files_of,
    first_words,
    json_rows,
    mean_of,
    open_evaluated,
    passed_over,
    read_whole,
    refuse_repeats,
    shown_words,
    some_words,
    table_rows,
)
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import as_list, refuse_artifacts
from wordpipe.tokens import WordSplitter
from wordpipe.wording import counted, short_name

_BASELINES = ("tfidf", "lsi", "overlap")
_LSI_DIM = 300
_ABOUT = "Spearman correlation of the cosines with the scores, x 100, with 95 % bootstrap intervals."
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

Array = npt.NDArray[np.float64]
_Row = tuple[int, list[str]]
"""The line on which a row ends, from 1, and its cells."""
_Columns = tuple[int, int, int]
"""Where one sentence, the other and the score are."""


@dataclass(frozen=True, slots=True)
class ScoredPairs:
    """P pairs."""

    first: list[str]  # one sentence of each
    second: list[str]
    scores: Array  # (P,) how alike people found them, in any unit
    unscored: int = 0  # pairs of the file that have no score and are left out, as in SemEval 2015 and 2016

    def __len__(self) -> int:
        return len(self.first)


class StsSet(NamedTuple):
    """One set."""

    name: str  # of the file without its ending, or of the folder; the path where two are called the same
    path: Path  # the file or folder
    pairs: ScoredPairs  # all of them, those of a folder in the order of its files


class _Scores(NamedTuple):
    """A system's cosines of the pairs of a set."""

    cosines: Array  # (P,)
    without_vector: int = 0  # different sentences that it knows nothing of; their pairs have cosine 0
    unknown: Sequence[str] = ()  # words without a vector, each time they came


@public(EmbedSettings)
def evaluate_sts(
    encoders: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    words: PathLike | None = None,
    floors: bool = True,
    language: str = "auto",
    draws: int = 1_000,
    run: RunOptions | None = None,
    **settings: Any,
) -> Evaluation:
    r"""Evaluate encoders of texts on pairs of sentences that people have scored, beside baselines that need no training.

    Args:
        encoders: model or words artifacts; or sentences or index artifacts, whose encoder is evaluated with the transform
            that it carries. An empty list evaluates the baselines only.
        data: sets: files, or folders; the files of a folder are one set, whose pairs are
            ranked together, as SemEval's sets of one year are.
        words: a words artifact; the mean of its vectors is one more baseline. None: the first words artifact among the
            encoders.
        floors: whether to evaluate TF-IDF, latent semantic indexing, the overlap of words and the mean of word vectors.
        language: language whose endings the baselines cut off: a Snowball language, none, or auto.
        draws: number of bootstrap samples for the intervals; 0: no intervals.
        run: progress, verification.
        settings: fields of `EmbedSettings` for model and words artifacts (pooling, device, …). A `transform` other than
            none is fitted on the sentences of each set, without their scores; auto is none here.

    Returns:
        evaluated ("sts"), data, skipped (files of folders that were not taken, by ending), sets (name, path, pairs,
        unscored), metrics and systems.

        systems is a list of system ("dense", "words_mean", "tfidf", "lsi", "overlap"), name, metrics and sets. Metrics are
        from -1 to 1: spearman and pearson, the means over the sets, and "spearman/SET" and "pearson/SET"; None where there
        is no figure. A set has name, pairs, spearman, pearson, spearman_interval and pearson_interval (95 %, low and high),
        sentences_without_vector and unknown_words (count and the first).

        metrics are those of the first system and, by the name of each system, those of its first.

    Example:
        >>> rows = ["5\tthe sea is high\tthe water is high", "0\tbread\tthe moon", "2\tan oven\tbread"]
        >>> _ = Path("pairs.tsv").write_text("\n".join(rows))
        >>> found = wordpipe.evaluate_sts("run/words", "pairs.tsv", draws=0)
        >>> found["sets"][0]["pairs"], found["systems"][0]["system"]
        (3, 'dense')
    """
    # what cannot be is refused before anything is read
    run, chosen = run or RunOptions(), EmbedSettings.make(settings)
    if draws < 0:
        raise ConfigError("the number is too small", where="draws", got=draws, expected="0 or more")
    _analyser(language)  # one that nobody knows is refused before anything is evaluated
    paths = as_list(encoders)
    with storage_errors():
        for path in [*paths, *([words] if words else [])]:  # a transformer takes minutes: the last is refused before
            Artifact(path, ["model", "words", "sentences", "index"], verify=False).close()
        # the encoders, the mean of word vectors, and the baselines
        sets, skipped = read_sts_sets(data)
        named = [("dense", path, chosen) for path in paths]
        if floors and (plain := words or first_words(paths)) is not None:
            named.append(("words_mean", str(plain), chosen.model_copy(update={"pooling": "mean"})))
        systems = [_evaluated(*one, sets, draws, run) for one in named]
        if floors:
            systems += _baselines(sets, language, draws, run)
    if not systems:
        raise ConfigError("there is nothing to evaluate", hint="give a model, or leave out --no-floors")
    # the report
    shown = [
        {"name": one.name, "path": str(one.path), "pairs": len(one.pairs), "unscored": one.pairs.unscored}
        for one in sets
    ]
    return evaluation_of(
        "sts", data, systems, main=systems[0].facts["system"], skipped=skipped, sets=shown,
        parts=[_ABOUT, side_by_side(systems)], remarks=[*_remarks(systems, sets), *passed_over(skipped)],
    )  # fmt: skip


def _evaluated(
    system: str, path: str, settings: EmbedSettings, sets: Sequence[StsSet], draws: int, run: RunOptions
) -> System:
    """Evaluate one encoder on sets of STS; it is out of memory before the next one is read."""
    with open_evaluated(path, settings, run) as encoder:
        scores = [encoder_scores(encoder, one.pairs) for one in sets]
    run.report(Progress(f"evaluating {path}"))
    return _system(system, path, sets, scores, draws)


def _baselines(sets: Sequence[StsSet], language: str, draws: int, run: RunOptions) -> list[System]:
    """Yield the baselines of `evaluate sts`."""
    found = []
    for number, one in enumerate(sets):
        run.report(Progress("evaluating the baselines", number, len(sets), "sets"))
        found.append(_baseline_scores(one.pairs, language))
    return [_system(name, name, sets, [scores[name] for scores in found], draws) for name in _BASELINES]


def _system(system: str, name: str, sets: Sequence[StsSet], scores: Sequence[_Scores], draws: int) -> System:
    """Return a system of `evaluate sts` in the report: its figures of every set, and their means.

    And its metrics, the means over the sets and every set's own.
    """
    found = [_figures(one, scored, draws) for one, scored in zip(sets, scores, strict=True)]
    figures: dict[str, list[Figure]] = {}
    for measure in ("spearman", "pearson"):
        own = [
            Figure(f"{measure}/{one['name']}", one[measure], one[f"{measure}_interval"],
                   f"{short_name(one['name'])} ({counted(one['pairs'], 'pairs')})")
            for one in found
        ]  # fmt: skip
        figures[measure] = [Figure(measure, mean_of(one.value for one in own), label="mean of the sets"), *own]
    mean, *own = figures["spearman"]
    shown = [*own, mean] if len(own) > 1 else own
    facts = {"system": system, "name": name, "sets": found}
    return System(PLAIN.get(system) or short_name(name), [*figures["spearman"], *figures["pearson"]], facts, shown)


def _remarks(systems: Sequence[System], sets: Sequence[StsSet]) -> Iterator[str]:
    """Yield the sentences and words of STS that a system knows nothing of, and what was left out."""
    for one, dataset in ((system, dataset) for system in systems for dataset in system.facts["sets"]):
        if (count := dataset["sentences_without_vector"]) > 0:
            without = f"no vector for {counted(count, 'sentences')} of {dataset['name']}"
            yield f"{one.head}: {without}, so their pairs have the cosine 0"
        if (count := dataset["unknown_words"]["count"]) > 0:
            unknown = f"{counted(count, 'unknown words')} in {dataset['name']}"
            yield f"{one.head}: {unknown}: {some_words(dataset['unknown_words'])}"
    if unscored := sum(one.pairs.unscored for one in sets):
        yield f"left out: {counted(unscored, 'pairs')} without a score"


def _figures(one: StsSet, found: _Scores, draws: int) -> dict[str, Any]:
    """Return the figures of a system for one STS set."""
    shown, intervals = dict[str, Any](), dict[str, Any]()
    for measure, correlation in (("spearman", spearman), ("pearson", pearson)):
        value, drawn = correlation(found.cosines, one.pairs.scores), None
        if draws:
            ranked = measure == "spearman"
            drawn = correlation_interval(found.cosines, one.pairs.scores, ranked=ranked, draws=draws)
        shown[measure], intervals[f"{measure}_interval"] = rounded(value), listed(drawn)
    return {
        "name": one.name, "pairs": len(one.pairs), **shown, **intervals,
        "sentences_without_vector": found.without_vector, "unknown_words": shown_words(found.unknown),
    }  # fmt: skip


def encoder_scores(evaluated: EvaluatedEncoder, pairs: ScoredPairs) -> _Scores:
    """Return the cosines of an encoder's vectors for STS pairs; a transform is fitted on the set."""
    texts, first_P, second_P = _sentence_numbers(pairs)
    raw = evaluated.encode(texts)
    found = raw.transformed(evaluated.fitted(raw)) if evaluated.settings.transform != "auto" else raw
    return _Scores(_cosines(found.vectors, first_P, second_P), int(found.empty.sum()), found.unknown)


def _baseline_scores(pairs: ScoredPairs, language: str) -> dict[str, _Scores]:
    """Return the STS scores of plain words: TF-IDF over stems, LSI, and the share of common stems (Jaccard).

    Stop words count: without them TF-IDF scored 79.7 instead of 78.7 on STS-B dev and 72.9 instead of 72.5 on its training
    part, but 47.7 instead of 49.7 on STS12 and 58.0 instead of 61.2 on SICK (Spearman x 100).
    """
    texts, first_P, second_P = _sentence_numbers(pairs)
    analyse = _analyser(recognised_language(texts) if language == "auto" else language)
    sparse_NV = Tfidf.fit(texts, analyse).vectors(texts)
    latent_NK = LatentSpace.fit(sparse_NV, _LSI_DIM).vectors(sparse_NV)
    products_P = sparse_NV.picked(first_P).with_rows_of(sparse_NV.picked(second_P))
    stems = [{*analyse(text)} for text in texts]
    both = ((stems[one], stems[other]) for one, other in zip(first_P, second_P, strict=True))
    overlap_P = np.array([len(one & other) / max(len(one | other), 1) for one, other in both], dtype=np.float64)
    return {
        "tfidf": _Scores(_rounded(products_P), int((np.diff(sparse_NV.bounds) == 0).sum())),
        "lsi": _Scores(_cosines(latent_NK, first_P, second_P), int((~latent_NK.any(axis=1)).sum())),
        "overlap": _Scores(overlap_P),
    }


def _sentence_numbers(pairs: ScoredPairs) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return all different sentences, and for each pair the places of its two sentences."""
    number_of = {text: number for number, text in enumerate(dict.fromkeys([*pairs.first, *pairs.second]))}
    first_P, second_P = (np.array([number_of[text] for text in side]) for side in (pairs.first, pairs.second))
    return [*number_of], first_P, second_P


def _cosines(
    vectors_ND: npt.NDArray[np.float32], first_P: npt.NDArray[np.int64], second_P: npt.NDArray[np.int64]
) -> Array:
    """Return the cosines of the pairs of sentences, (P,)."""
    return _rounded(np.einsum("pd,pd->p", vectors_ND[first_P], vectors_ND[second_P], dtype=np.float64))


def _rounded(cosines_P: npt.ArrayLike) -> Array:
    """Return the cosines rounded to six digits, so that all pairs of equal sentences are ties."""
    rounded_P: Array = np.asarray(cosines_P, dtype=np.float64).round(6)
    return rounded_P


def _analyser(language: str) -> Callable[[str], list[str]]:
    """Return a function from a text to the stems of all its words; an unknown language is refused."""
    split, stem = WordSplitter(), stemmer("none" if language == "auto" else language)
    return lambda text: [stem(word) for word in split(text)]


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
        raise InputError("there is no set to evaluate on", hint="give files of scored pairs with --data")
    skipped: Counter[str] = Counter()
    sets = [
        StsSet(name, place, _read_folder(place, skipped) if place.is_dir() else _read_set(place))
        for name, place in distinct_names(map(Path, paths)).items()
    ]
    return sets, dict(sorted(skipped.items()))


def _read_folder(folder: Path, skipped: Counter[str]) -> ScoredPairs:
    """Read the files of a folder as one STS set; SemEval's files of scores belong to those of pairs."""
    files = [
        file for file in files_of(folder, _ENDINGS, skipped)
        if _GOLD not in file.name or not file.with_name(file.name.replace(_GOLD, _INPUT)).is_file()
    ]  # fmt: skip
    if not files:
        raise InputError("there is no file of scored pairs in this folder", where=folder, expected=" ".join(_ENDINGS))
    read = [_read_set(file) for file in files]
    return ScoredPairs(
        [text for pairs in read for text in pairs.first],
        [text for pairs in read for text in pairs.second],
        np.concatenate([pairs.scores for pairs in read]),
        sum(pairs.unscored for pairs in read),
    )


def _read_set(file: Path) -> ScoredPairs:
    """Read one file; SemEval's file of pairs is read together with its file of scores."""
    gold = file.with_name(file.name.replace(_INPUT, _GOLD))
    scores = read_whole(gold) if gold != file and gold.is_file() else None
    return read_scored_pairs(read_whole(file), str(file), scores)


def read_scored_pairs(data: bytes, where: str, scores: bytes | None = None) -> ScoredPairs:
    """Read an STS set, UTF-8; scores in a file of their own have a line for each pair.

    Raises:
        InputError: not text, nothing in it, no such columns, or a line that does not belong; names file and line.
    """
    # files of which every row says what it is
    text = decoded(data, where)
    if scores is not None:
        return _scored_pairs(_pairs_with_scores(text, decoded(scores, where), where), (0, 1, 2), where)
    if text.lstrip().startswith("{"):
        read = json_rows(text, where, _columns_by_name, "a JSON object with sentence1, sentence2 and score")
        cells = ((number, [*record.values()], columns) for number, _, record, columns in read)
        rows = [
            (number, ["" if values[place] is None else str(values[place]) for place in columns])
            for number, values, columns in cells
        ]
        return _scored_pairs(rows, (0, 1, 2), where)
    # tables: columns by their names, else by their shape
    rows = [*_filled_rows(text, where)]
    if not rows:
        hint = "an example of a line: A man sings.,A man is singing.,4.8"
        raise InputError("the file has no pairs of sentences", where=where, expected=_EXPECTED, hint=hint)
    if (columns := _columns_by_name(rows[0][1])) is not None:
        refuse_repeats(rows[0][1], [rows[0][1][place] for place in columns], where)
        return _scored_pairs(rows[1:], columns, where)
    columns = _columns_by_shape(
        [cells for _, cells in rows[1:] or rows], where
    )  # the first may be a header of other names
    headed = len(rows) > 1 and len(rows[0][1]) > max(columns) and not any(map(_is_number, rows[0][1]))
    return _scored_pairs(rows[1:] if headed else rows, columns, where)


def _filled_rows(text: str, where: str) -> Iterator[_Row]:
    """Yield the rows of a table of scored pairs that are not empty."""
    for number, cells in table_rows(text, where, lambda cells: _columns_by_name(cells) is not None):
        if any(cells):
            yield number, cells


def _pairs_with_scores(text: str, scores: str, where: str) -> list[_Row]:
    """Yield rows of two sentences and a score of STS, out of a file of pairs and one of scores."""
    pairs, numbers = text.rstrip("\n").split("\n"), scores.rstrip("\n").split("\n")
    if len(numbers) > len(pairs):
        raise InputError(
            "there are more scores than pairs", where=where, got=f"{len(numbers)} lines", expected=len(pairs)
        )
    numbers += [""] * (len(pairs) - len(numbers))  # pairs at the end without a score
    cells = [[*f"{pair}\t".split("\t")[:2], score] for pair, score in zip(pairs, numbers, strict=True)]
    return [(line, [cell.strip() for cell in some]) for line, some in enumerate(cells, start=1)]


def _columns_by_name(header: Sequence[str]) -> _Columns | None:
    """Return the columns that a header of STS names; None where it does not name all three."""
    place_of = {re.sub(r"[^a-z0-9]", "", name.lower()): place for place, name in reversed([*enumerate(header)])}
    pairs = [(f"{stem}{one}", f"{stem}{two}") for stem in _PAIR_NAMES for one, two in ("12", "ab")]
    pair = next((both for both in pairs if all(name in place_of for name in both)), None)
    score = next((name for name in _SCORE_NAMES if name in place_of), None)
    return None if pair is None or score is None else (place_of[pair[0]], place_of[pair[1]], place_of[score])


def _columns_by_shape(rows: Sequence[Sequence[str]], where: str) -> _Columns:
    """Return the columns that look like an STS pair: two sentences and a score.

    InputError if none do, or two could be the score.
    """
    widths = sorted(len(cells) for cells in rows)
    width = widths[int(len(widths) * (1 - _MIN_ROWS_SHARE))]
    columns = [[cells[place] for cells in rows if len(cells) >= width] for place in range(width)]
    filled = [[cell for cell in column if not is_no_score(cell)] for column in columns]
    numeric = [bool(some) and sum(map(_is_number, some)) >= _MIN_ROWS_SHARE * len(some) for some in filled]
    length = [sum(map(len, column)) for column in columns]
    pairs = [place for place in range(width - 1) if not numeric[place] and not numeric[place + 1]]
    if not pairs:
        raise InputError("there are no two columns of sentences next to each other", where=where, expected=_EXPECTED)
    first = max(pairs, key=lambda place: min(length[place], length[place + 1]))
    scores = [place for place in (first - 1, first + 2) if 0 <= place < width and numeric[place]]
    if len(scores) == 2:  # one of them may number the pairs, by different whole numbers
        scores = [
            place for place in scores
            if len({*columns[place]}) < len(columns[place]) or any("." in cell for cell in columns[place])
        ]  # fmt: skip
    if len(scores) != 1:
        what = (
            "there is no column of scores before or after the sentences"
            if not scores
            else "two columns could be the score"
        )
        hint = "add a first line with the names of the columns: sentence1, sentence2, score"
        raise InputError(what, where=where, expected=_EXPECTED, hint=hint)
    return first, first + 1, scores[0]


def _scored_pairs(rows: Sequence[_Row], columns: _Columns, where: str) -> ScoredPairs:
    """Return the pairs of sentences with their scores, out of rows of cells."""
    first, second, scores, unscored = [], [], [], 0
    for line, cells in rows:
        if len(cells) <= max(columns):
            raise wrong_line(f"{where}:{line}", "\t".join(cells), f"at least {max(columns) + 1} columns")
        one, two, score = (cells[place] for place in columns)
        if is_no_score(score):
            unscored += 1
            continue
        if not _is_number(score):
            raise wrong_line(f"{where}:{line}", "\t".join(cells), f"a number as the score, not {score[:_MAX_SHOWN]!r}")
        if not one or not two:
            raise wrong_line(f"{where}:{line}", "\t".join(cells), "two sentences")
        first.append(one)
        second.append(two)
        scores.append(float(score))
    if not scores:
        raise InputError("no pair has a score", where=where, expected=_EXPECTED)
    return ScoredPairs(first, second, np.array(scores, dtype=np.float64), unscored)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None
