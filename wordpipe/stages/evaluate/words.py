"""`wordpipe evaluate words`: word vectors on sets of word similarity and of analogies; nothing is made."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from wordpipe.artifacts import Artifact
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import Evaluation, Figure, System, Table, side_by_side, written
from wordpipe.runtime import Progress
from wordpipe.stages.encoders import read_word_vectors
from wordpipe.stages.evaluate.inputs import (
    distinct_names,
    evaluation_of,
    files_of,
    mean_of,
    passed_over,
    read_whole,
    some_words,
)
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import as_list, refuse_artifacts
from wordpipe.wording import counted, short_name
from wordpipe.words import Method, Pairs, Questions, Unknown, evaluate_analogies, evaluate_similarity, read_set

_ENDINGS = (".txt", ".tsv", ".csv")  # of the files that are taken from a folder
_MEASURES = {"spearman": ("similarity", "{:.3f}"), "accuracy": ("analogies", "{:.1%}")}  # of the sets of each kind
_METHODS = {"cosadd": "3CosAdd", "cosmul": "3CosMul"}


@public()
def evaluate_words(
    words: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    restrict_vocab: int = 30_000,
    analogy: Method = "cosadd",
    unknown: Unknown = "drop",
    run: RunOptions | None = None,
) -> Evaluation:
    r"""Evaluate word vectors on word similarity and analogies.

    Args:
        words: words artifacts.
        data: sets of scored pairs (`word word score`) and of analogies (`: section`, then four words a line): files, or
            folders of .txt, .tsv and .csv files.
        restrict_vocab: number of most frequent words used in analogies; 0: all words.
        analogy: cosadd or cosmul.
        unknown: "drop" leaves out pairs and questions with an unknown word; "zero" gives such a pair the cosine 0 and counts
            such a question as wrong.
        run: progress, verification.

    Returns:
        evaluated ("words"), data, skipped (files of folders that were not taken, by ending), restrict_vocab, analogy, unknown,
        metrics (of the first table), and words: a list of name, distinct, dim, unit, metrics and sets.

        Metrics are from 0 to 1 (spearman from -1): spearman and accuracy, the means over the sets of each kind, and
        "spearman/SET" and "accuracy/SET"; None where there is no figure. A set has name, path, kind, unknown_words (count and
        the first) and, if its kind is "similarity", spearman, pairs and known; if it is "analogies", among (how many words
        could be answers), accuracy, correct, seen and asked, the same four for semantic and syntactic (None where sections
        are not so named), and for each of sections.

    Example:
        >>> _ = Path("pairs.txt").write_text("sea water 9\nmoon water 6\nbread water 2\n")
        >>> found = wordpipe.evaluate_words("run/words", "pairs.txt")
        >>> found["words"][0]["sets"][0]["known"]
        3
    """
    # what cannot be is refused before anything is read
    run = run or RunOptions()
    if restrict_vocab < 0:
        raise ConfigError("the number is too small", where="restrict_vocab", got=restrict_vocab, expected="0 or more")
    for name, got, choices in (("analogy", analogy, get_args(Method)), ("unknown", unknown, get_args(Unknown))):
        if got not in choices:
            raise ConfigError("unknown choice", where=name, got=got, expected=" or ".join(choices))

    def evaluate(path: str) -> System:
        """Evaluate one table of word vectors on all sets; it is out of memory before the next is read."""
        run.report(Progress(f"reading {path}"))
        # the table
        with Artifact(path, ["words"], verify=run.verify) as artifact:
            table = read_word_vectors(artifact)
            unit = artifact.manifest.facts.get("unit", "word")
        # its figures on each set
        found: list[dict[str, Any]] = []
        for name, file, content in sets:
            if isinstance(content, Pairs):
                figures = evaluate_similarity(table, content, unknown=unknown)
            else:
                report = partial(_report, run, f"evaluating {path} on {name}")
                figures = evaluate_analogies(
                    table, content, restrict=restrict_vocab, method=analogy, unknown=unknown, report=report
                )
            found.append({"name": name, "path": str(file), **figures})
        return _system({"name": path, "distinct": len(table), "dim": table.dim, "unit": unit, "sets": found})

    # table after table on all sets
    with storage_errors():
        sets, skipped = _read_sets(data)
        systems = [evaluate(path) for path in as_list(words)]
    kinds = {one["kind"] for one in systems[0].facts["sets"]}
    how: dict[str, Any] = {"restrict_vocab": restrict_vocab, "analogy": analogy, "unknown": unknown}
    return evaluation_of(
        "words", data, systems, under="words", skipped=skipped, **how,
        parts=[_methods_line(kinds, restrict_vocab, analogy, unknown), side_by_side(systems)],
        details=[_sections(systems, "asked" if unknown == "zero" else "seen")] if "analogies" in kinds else [],
        remarks=[*_remarks(systems, unknown), *passed_over(skipped)],
    )  # fmt: skip


def _report(run: RunOptions, phase: str, done: int, among: int) -> None:
    run.report(Progress(phase, done, among, "words"))


def _read_sets(data: PathLike | Iterable[PathLike]) -> tuple[list[tuple[str, Path, Pairs | Questions]], dict[str, int]]:
    """Read sets of similar words and analogies: files and folders of .txt, .tsv and .csv files.

    Of a folder, and the folders in it, the .txt, .tsv and .csv files that are not hidden.

    Returns:
        name (that of the file without its ending; its path where two are called the same), file and content of each set, in
        the order in which they were named, those of a folder by path; and how many files of folders were not taken, by ending.

    Raises:
        ArtifactError: an artifact is named.
        InputError: no such file, none in a folder, or one that is no set; names file and line.
    """
    paths = as_list(data)
    refuse_artifacts(paths)
    skipped: Counter[str] = Counter()
    files = [
        file for path in map(Path, paths) for file in (files_of(path, _ENDINGS, skipped) if path.is_dir() else [path])
    ]
    if not files:
        hint = f"give the files themselves, or use file names that end in {' '.join(_ENDINGS)}"
        raise InputError(
            "there is no file of word pairs or analogies to evaluate on", where=", ".join(paths), hint=hint
        )
    sets = [(name, file, read_set(read_whole(file), str(file))) for name, file in distinct_names(files).items()]
    return sets, dict(sorted(skipped.items()))


def _system(facts: dict[str, Any]) -> System:
    """Return a table of word vectors in the report: the mean figure of each kind, and every set's own."""
    means, figures, shown = list[Figure](), list[Figure](), list[Figure]()
    for measure, (kind, form) in _MEASURES.items():
        own = [
            Figure(f"{measure}/{one['name']}", one[measure], label=short_name(one["name"]), form=form, below=_counts(one))
            for one in facts["sets"] if one["kind"] == kind
        ]  # fmt: skip
        mean = Figure(measure, mean_of(one.value for one in own), label=f"mean {measure}", form=form)
        figures, means, shown = figures + own, [*means, mean], [*shown, mean] if len(own) > 1 else shown
    size = [("words", f"{facts['distinct']:,}"), ("dimensions", f"{facts['dim']:,}")]
    return System(short_name(facts["name"]), [*means, *figures], facts, [*size, *figures, *shown])


def _counts(one: dict[str, Any]) -> dict[str, str | None]:
    """Return the counts (pairs of words, analogies) below a figure."""
    if one["kind"] == "similarity":
        return {"pairs known": f"{one['known']:,} of {one['pairs']:,}"}
    parts = {part: one[part]["accuracy"] for part in ("semantic", "syntactic") if one[part] is not None}
    return {
        **{part: written(accuracy, "{:.1%}") for part, accuracy in parts.items()},
        "questions known": f"{one['seen']:,} of {one['asked']:,}",
        "candidate words": f"{one['among']:,}",
    }


def _methods_line(kinds: set[str], restrict_vocab: int, analogy: Method, unknown: Unknown) -> str:
    """Return a sentence on how the figures of word vectors were computed."""
    cut = f"the {restrict_vocab:,} most frequent words" if restrict_vocab else "all words"
    said = {
        "similarity": "Similarity: Spearman correlation of the scores with the cosines.",
        "analogies": f"Analogies: {_METHODS[analogy]} among {cut}.",
    }
    left = "Pairs and questions with unknown words are left out."
    if unknown == "zero":
        left = "Pairs with unknown words count as cosine 0, and questions with unknown words count as wrong."
    return " ".join([*(said[kind] for kind in said if kind in kinds), left])


def _sections(systems: Sequence[System], whole: str) -> Table:
    """Return a line for each section of the word analogies; `whole` is the count of its share."""
    columns = [
        [
            (part["name"], f"{written(part['accuracy'], '{:.1%}')} of {part[whole]:,}")
            for one in system.facts["sets"] if one["kind"] == "analogies" for part in one["sections"]
        ]
        for system in systems
    ]  # fmt: skip
    rows = [(short_name(same[0][0]), [cell for _, cell in same]) for same in zip(*columns, strict=True)]
    return Table([one.head for one in systems], rows, "section")


def _remarks(systems: Sequence[System], unknown: Unknown) -> Iterator[str]:
    """Yield lines on unknown words, and a warning where the columns do not compare."""
    for one in systems:
        if one.facts["unit"] == "token":
            yield f"{one.head}: the table contains tokens, not words, so a word of several tokens is unknown"
        for kind in ("unknown_words", "guessed_words"):
            found = (some for some in one.facts["sets"] if some.get(kind, {}).get("count"))
            yield from (f"{one.head}: {_unknown_words_line(some, kind)}" for some in found)
    known = [[one.get("known", one.get("seen")) for one in system.facts["sets"]] for system in systems]
    if unknown == "drop" and any(one != known[0] for one in known):
        yield "the tables know different words, so do not compare their figures; --unknown zero counts all pairs and questions"


def _unknown_words_line(found: dict[str, Any], kind: str) -> str:
    """Return a line with the number of unknown or guessed words and the first few."""
    what = f"outside the {found['among']:,} most frequent words" if "among" in found else "unknown"
    what = "not in the table, so with vectors computed from their letters" if kind == "guessed_words" else what
    return f"{counted(found[kind]['count'], 'words')} of {found['name']} {what}: {some_words(found[kind])}"
