"""`wordpipe evaluate words`: word vectors on sets of word similarity and of analogies; nothing is made."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from wordpipe.artifacts import Artifact
from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import Progress
from wordpipe.stages.calls import public
from wordpipe.stages.encoders import read_word_vectors
from wordpipe.stages.evaluate.inputs import distinct_names, files_of, mean_of, read_whole, report_on
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.sources import as_list, refuse_artifacts
from wordpipe.words import Method, Pairs, Questions, Unknown, evaluate_analogies, evaluate_similarity, read_set

_ENDINGS = (".txt", ".tsv", ".csv")  # of the files that are taken from a folder


@public()
def evaluate_words(
    words: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    restrict_vocab: int = 30_000,
    analogy: Method = "cosadd",
    unknown: Unknown = "drop",
    run: RunOptions | None = None,
) -> dict[str, Any]:
    r"""Evaluate word vectors on word similarity and analogies.

    Args:
        words: words artifacts.
        data: sets of scored pairs (`word word score`) and of analogies (`: section`, then four words a line): files, or
            folders of .txt, .tsv and .csv files.
        restrict_vocab: ask and answer analogies with so many of the commonest words; 0 takes all.
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
    run = run or RunOptions()
    if restrict_vocab < 0:
        raise ConfigError("not a number of words", where="restrict_vocab", got=restrict_vocab, expected="0 or more")
    for name, got, choices in (("analogy", analogy, get_args(Method)), ("unknown", unknown, get_args(Unknown))):
        if got not in choices:
            raise ConfigError("no such choice", where=name, got=got, expected=" or ".join(choices))

    def evaluate(path: str) -> dict[str, Any]:
        """One table on all sets; it is out of memory before the next one is read."""
        run.report(Progress(f"reading {path}"))
        with Artifact(path, ["words"], verify=run.verify) as artifact:
            table = read_word_vectors(artifact)
            unit = artifact.manifest.facts.get("unit", "word")
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
        head = {"name": path, "distinct": len(table), "dim": table.dim, "unit": unit}
        return {**head, "metrics": _metrics(found), "sets": found}

    with storage_errors():
        sets, skipped = _read_sets(data)
        evaluated = [evaluate(path) for path in as_list(words)]
    how = {"restrict_vocab": restrict_vocab, "analogy": analogy, "unknown": unknown}
    return report_on("words", data, "words", evaluated, skipped=skipped, **how)


def _report(run: RunOptions, phase: str, done: int, among: int) -> None:
    run.report(Progress(phase, done, among, "words"))


def _read_sets(data: PathLike | Iterable[PathLike]) -> tuple[list[tuple[str, Path, Pairs | Questions]], dict[str, int]]:
    """Read files and folders; of a folder, and the folders in it, the .txt, .tsv and .csv files that are not hidden.

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
        hint = f"name the files, or let their names end in {' '.join(_ENDINGS)}"
        raise InputError("there is no set of words to evaluate on", where=", ".join(paths), hint=hint)
    sets = [(name, file, read_set(read_whole(file), str(file))) for name, file in distinct_names(files).items()]
    return sets, dict(sorted(skipped.items()))


def _metrics(sets: list[dict[str, Any]]) -> dict[str, float | None]:
    """The mean figure over the sets of each kind, and every set's own."""
    means, figures = dict[str, float | None](), dict[str, float | None]()
    for measure, kind in (("spearman", "similarity"), ("accuracy", "analogies")):
        values = {f"{measure}/{one['name']}": one[measure] for one in sets if one["kind"] == kind}
        means[measure] = mean_of(values.values())
        figures |= values
    return means | figures
