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
from wordpipe.words import (
    CountedWords,
    effective_counts,
    semantic_shifts,
    similar_words,
    vectors_of,
    vocabulary_difference,
    vocabulary_intersection,
)

_MOST_NEIGHBOURS = 200_000_000
_LEAST_SURPRISE = 0.005  # what is shown as 0.00 is no shift


def diff(
    a: PathLike, b: PathLike, *, n: int = 20, k: int = 10, words: int = 20_000, anchors: int = 5_000, min_count: int = 1,
    only: Iterable[str] = (), run: RunOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Compare the neighbours and the vectors of words in two words artifacts: of two texts, two years, two runs.

    Args:
        a: a words artifact.
        b: another, of the same unit.
        n: so many words are given, those that shifted most; and so many new and gone ones, the commonest.
        k: neighbours of each word that are compared.
        words: so many of the commonest words of both are compared, and are neighbours: memory grows with this number, time
            with its square.
        anchors: so many of the commonest of these decide the alignment.
        min_count: words that occur fewer times in either text are left out.
        only: give just these words, whether they shifted or not.
        run: progress, verification.

    Returns:
        k: neighbours that were compared; fewer than asked for where there are no more words;
        compared, shared, left_out_rare, left_out_beyond, left_out_zero, only_in_a, only_in_b: numbers of words;
        alignment_cosine: the mean cosine of a word with itself, None where the dimensions differ;
        neighbours_kept: the mean share of neighbours;
        words: the most surprising first, each with word, count_a, count_b, moved (1 - cosine), kept (share of neighbours),
        surprise (see `words.diff.Shifts`), neighbours_a, neighbours_b;
        new, gone: the words of one table only, with count;
        unknown: each of `only` that is not compared → only_in ("a", "b" or None) and near (words spelled like it).

    Raises:
        ArtifactError: not words, damaged, or of different units.
        ConfigError: a number below its bound.
        InputError: there are fewer than two words to compare.
    """
    run = run or RunOptions()
    _check_bounds(n=n, k=k, words=words, anchors=anchors, min_count=min_count)

    # the words of both tables that are compared, and their vectors at length 1
    open_words = partial(Artifact, kinds=["words"], verify=run.verify)
    with storage_errors(), open_words(a) as first, open_words(b) as second:
        _check_kinds(first, second, run)
        one, other = (
            CountedWords.from_batches(read_batches(table, "words", ["word", "count"], expected=VOCABULARY))
            for table in (first, second)
        )
        wanted, only_in = _look_up(one, other, only)
        both = vocabulary_intersection(one, other, most=words, min_count=min_count, wanted=list(wanted.values()))
        units = [
            unit_rows(vectors_of(read_batches(table, "words", ["vector"]), rows))[0]
            for table, rows in ((first, both.rows_a), (second, both.rows_b))
        ]
    there = np.flatnonzero(units[0].any(axis=1) & units[1].any(axis=1))  # those that have a direction in both
    if len(there) < 2:
        what, where = "too few words to compare are in both tables", f"{first.path}, {second.path}"
        hint = "lower --min-count, or compare tables of the same language and case"
        raise InputError(what, where=where, got=f"{len(there)} of {both.all} shared", expected="2 or more", hint=hint)
    rows_a, k = both.rows_a[there], min(k, len(there) - 1)
    counts_a, counts_b = one.counts[rows_a], other.counts[both.rows_b[there]]
    spelled: list[str] = one.words.array.take(rows_a).to_pylist()

    # their shifts, the most surprising first
    def report(done: int) -> None:
        run.report(Progress("comparing neighbours", done, 2 * len(there), "words"))

    counts = effective_counts(counts_a, counts_b)
    shifts = semantic_shifts(units[0][there], units[1][there], counts, k=k, anchors=anchors, report=report)
    distances, surprise = shifts.distances, shifts.surprise
    order = np.argsort(-surprise, kind="stable")
    if wanted or only_in:
        order = order[np.isin(rows_a[order], list(wanted.values()))]
    else:
        order = order[:n][surprise[order[:n]] >= _LEAST_SURPRISE]
    zero = dict.fromkeys(word for word, row in wanted.items() if row not in rows_a)
    gone_count, gone = vocabulary_difference(one, other, most=n, min_count=min_count)
    new_count, new = vocabulary_difference(other, one, most=n, min_count=min_count)
    return {
        "compared": len(spelled),
        "alignment_cosine": None if distances is None else float(1 - distances.mean()),
        "neighbours_kept": float(shifts.kept.mean()),
        "k": k,
        "shared": both.all,
        "left_out_rare": both.rare,
        "left_out_beyond": both.beyond,
        "left_out_zero": len(both.rows_a) - len(spelled),
        "only_in_a": gone_count,
        "only_in_b": new_count,
        "new": new,
        "gone": gone,
        "words": [
            {
                "word": spelled[row],
                "count_a": int(counts_a[row]),
                "count_b": int(counts_b[row]),
                "moved": None if distances is None else float(distances[row]),
                "kept": float(shifts.kept[row]),
                "surprise": float(surprise[row]),
                "neighbours_a": [spelled[near] for near in shifts.neighbours_a[row]],
                "neighbours_b": [spelled[near] for near in shifts.neighbours_b[row]],
            }
            for row in order
        ],
        "unknown": {
            word: {"only_in": where, "near": [] if where or word in zero else similar_words(word.lower(), spelled)}
            for word, where in (only_in | zero).items()
        },
    }


def _check_bounds(**numbers: int) -> None:
    for name, value in numbers.items():
        least = 2 if name == "words" else 1
        if value < least:
            raise ConfigError("too small", where=name, got=value, expected=f"{least} or more")
    if numbers["words"] * numbers["k"] > _MOST_NEIGHBOURS:
        expected = f"at most {_MOST_NEIGHBOURS:,} neighbours of all words, which are held in memory"
        raise ConfigError("too many", where="words × k", got=f"{numbers['words'] * numbers['k']:,}", expected=expected)


def _check_kinds(a: Artifact, b: Artifact, run: RunOptions) -> None:
    """Words are not compared with tokens; a word with a capital is in one table only where the other has lower-case words."""
    one, other = a.manifest.facts.get("unit", "word"), b.manifest.facts.get("unit", "word")
    if one != other:
        what = f"these are vectors of {other}s, and those of {a.path} are of {one}s"
        raise ArtifactError(what, where=b.path, hint=f"train both with --unit {one}")
    keeping = [table for table in (a, b) if table.manifest.facts.get("keep_case")]
    if len(keeping) == 1:
        text = f"only {keeping[0].path} keeps capitals: its words that have them are not in the other table"
        run.report(Progress("reading", note=text))


def _look_up(a: CountedWords, b: CountedWords, words: Iterable[str]) -> tuple[dict[str, int], dict[str, str | None]]:
    """Rows in `a` of the words that both tables have, as spelled or in lower case; for the others the one that has it."""
    found: dict[str, int] = {}
    only_in: dict[str, str | None] = {}
    for word in words:
        forms = [word, word.lower()]
        both = next((row for form in forms if (row := a.words.row_of(form)) is not None and form in b.words), None)
        if both is not None:
            found[word] = both
        else:
            there = [name for name, table in (("a", a), ("b", b)) if any(form in table.words for form in forms)]
            only_in[word] = there[0] if len(there) == 1 else None
    return found, only_in
