"""`wordpipe diff`: the words whose neighbours and vectors differ between two tables of word vectors."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from wordpipe.artifacts import VOCABULARY, Artifact, read_batches
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics import unit_rows
from wordpipe.runtime import Progress
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.words import (
    CountedWords,
    effective_counts,
    semantic_shifts,
    similar_words,
    stacked_vectors,
    vocabulary_difference,
    vocabulary_intersection,
)

_BOUNDS = {"n": (1, 100_000), "k": (1, 200), "words": (2, 1_000_000)}  # all neighbours are held in memory
_LEAST_SURPRISE = 0.005  # what is shown as 0.00 is no shift


@public()
def diff(
    a: PathLike, b: PathLike, *, n: int = 20, k: int = 10, words: int = 20_000, only: Iterable[str] = (),
    run: RunOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Compare the neighbours and the vectors of words in two words artifacts: of two texts, two years, two runs.

    Args:
        a: a words artifact.
        b: another, of the same unit and dimensions.
        n: number of words to return: those that shifted most, and the most frequent new and gone words.
        k: number of neighbours to compare for each word.
        words: number of most frequent shared words to compare, also as neighbours: memory grows with this number, time with
            its square.
        only: return only these words, shifted or not, frequent or rare.
        run: progress, verification.

    Returns:
        k: neighbours that were compared; fewer than asked for where there are no more words;
        compared, shared, only_in_a, only_in_b: numbers of words;
        alignment_cosine: the mean cosine of a word with itself;
        neighbours_kept: the mean share of neighbours;
        words: the most surprising first, each with word, count_a, count_b, moved (1 - cosine), kept (share of neighbours),
        surprise (see `words.diff.Shifts`), neighbours_a, neighbours_b;
        new, gone: the words of one table only, with count;
        unknown: each of `only` that is not compared → only_in ("a", "b" or None) and near (words spelled like it).

    Raises:
        ArtifactError: not words, damaged, or of different units or dimensions.
        ConfigError: a number out of its bounds.
        InputError: there are fewer than two words to compare.

    Example:
        >>> _ = wordpipe.train_word2vec("run/tokens", output="new/words", min_count=2, dim=24, seed=7, epochs=1)
        >>> found = wordpipe.diff("run/words", "new/words", n=3)
        >>> found["only_in_a"], found["only_in_b"]
        (0, 0)
    """
    run = run or RunOptions()
    for name, value in {"n": n, "k": k, "words": words}.items():
        least, most = _BOUNDS[name]
        if not least <= value <= most:
            raise ConfigError("out of bounds", where=name, got=value, expected=f"{least} to {most}")

    # the words of both tables that are compared, and their vectors at length 1
    open_words = partial(Artifact, kinds=["words"], verify=run.verify)
    with storage_errors(), open_words(a) as first, open_words(b) as second:
        for fact, usual in (("unit", "word"), ("dim", None)):
            if (one := first.manifest.facts.get(fact, usual)) != (other := second.manifest.facts.get(fact, usual)):
                hint = f"train both tables with --{fact} {one}"
                raise ArtifactError(
                    f"the two tables differ in {fact}", where=second.path, got=other, expected=one, hint=hint
                )
        table_a, table_b = (
            CountedWords.from_batches(read_batches(table, "words", ["word", "count"], expected=VOCABULARY))
            for table in (first, second)
        )
        # of shared words the commonest, and those that were named
        rows_a, rows_b = vocabulary_intersection(table_a, table_b)
        shared = len(rows_a)
        asked = {word: -1 if (row := table_a.words.row_of(word)) is None else row for word in only}
        compared = (np.arange(shared) < words) | np.isin(rows_a, [*asked.values()])
        rows_a, rows_b = rows_a[compared], rows_b[compared]
        unit_a, unit_b = (
            unit_rows(stacked_vectors(read_batches(table, "words", ["vector"]))[0][rows])[0]
            for table, rows in ((first, rows_a), (second, rows_b))
        )
    # words whose vectors are zero have no direction to compare
    directed = unit_a.any(axis=1) & unit_b.any(axis=1)
    rows_a, rows_b, unit_a, unit_b = rows_a[directed], rows_b[directed], unit_a[directed], unit_b[directed]
    if len(rows_a) < 2:
        what, where = "too few words of both tables can be compared", f"{first.path}, {second.path}"
        hint = "compare tables of the same language and the same letter case"
        raise InputError(
            what, where=where, got=f"{len(rows_a)} of {shared} shared words", expected="2 or more", hint=hint
        )

    # their shifts, the most surprising first
    def report(done: int) -> None:
        run.report(Progress("comparing neighbours", done, 2 * len(rows_a), "words"))

    k = min(k, len(rows_a) - 1)
    counts_a, counts_b = table_a.counts[rows_a], table_b.counts[rows_b]
    shifts = semantic_shifts(unit_a, unit_b, effective_counts(counts_a, counts_b), k=k, report=report)
    # which of them are shown: those named, or the first that are no chance
    order = np.argsort(-shifts.surprise, kind="stable")
    spelled: list[str] = table_a.words.array.take(rows_a).to_pylist()
    if asked:
        order = order[np.isin(rows_a[order], [*asked.values()])]
    else:
        order = order[:n][shifts.surprise[order[:n]] >= _LEAST_SURPRISE]
    # and the words of one table only
    only_in_a, gone = vocabulary_difference(table_a, table_b, n)
    only_in_b, new = vocabulary_difference(table_b, table_a, n)
    return {
        "compared": len(spelled), "alignment_cosine": float(1 - shifts.distances.mean()),
        "neighbours_kept": float(shifts.kept.mean()), "k": k, "shared": shared, "only_in_a": only_in_a,
        "only_in_b": only_in_b, "new": new, "gone": gone,
        "words": [  # a row for each word that is shown
            {
                "word": spelled[row], "count_a": int(counts_a[row]), "count_b": int(counts_b[row]),
                "moved": float(shifts.distances[row]), "kept": float(shifts.kept[row]),
                "surprise": float(shifts.surprise[row]),
                "neighbours_a": [spelled[near] for near in shifts.neighbours_a[row]],
                "neighbours_b": [spelled[near] for near in shifts.neighbours_b[row]],
            }
            for row in order
        ],
        "unknown": {word: _about(word, table_a, table_b, spelled) for word, row in asked.items() if row not in rows_a},
    }  # fmt: skip


def _about(word: str, a: CountedWords, b: CountedWords, spelled: list[str]) -> dict[str, Any]:
    """Return for `diff` which table has a word that is not compared, and words spelled like unknown words."""
    there = [name for name, table in (("a", a), ("b", b)) if word in table.words]
    return {
        "only_in": there[0] if len(there) == 1 else None,
        "near": [] if there else similar_words(word.lower(), spelled),
    }
