"""`wordpipe evaluate words`: how well word vectors agree with people, by measures; nothing is made."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from wordpipe.artifacts.reader import Artifact
from wordpipe.errors import ConfigError
from wordpipe.runtime import Progress
from wordpipe.stages.inputs import as_list
from wordpipe.stages.making import PathLike, RunOptions, storage_errors
from wordpipe.stages.word_sets import WordSet, read_word_sets
from wordpipe.stages.word_vectors import read_word_vectors
from wordpipe.words.judge.analogies import Analogies, Method, Tally, judge_analogies
from wordpipe.words.judge.sets import Pairs
from wordpipe.words.judge.similarity import Similarity, judge_similarity
from wordpipe.words.table import WordVectors

__all__ = ["evaluate_words"]

Unknown = Literal["drop", "zero"]

_UNKNOWN_SHOWN = 20


def evaluate_words(
    words: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    restrict_vocab: int = 30_000,
    analogy: Method = "cosadd",
    unknown: Unknown = "drop",
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Judge word vectors on word similarity and analogies.

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

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    run, norms = run or RunOptions(), _Norms(restrict_vocab, analogy, unknown)
    with storage_errors():
        found = read_word_sets(data)
        judged = [_judge(path, found.sets, norms, run) for path in as_list(words)]
    where = as_list(data)
    return {
        "evaluated": "words",
        "data": where[0] if len(where) == 1 else where,
        "skipped": found.skipped,
        **asdict(norms),
        "metrics": judged[0]["metrics"],
        "words": judged,
    }


@dataclass(frozen=True)
class _Norms:
    """How to judge, as `evaluate_words` takes it."""

    restrict_vocab: int
    analogy: Method
    unknown: Unknown

    def __post_init__(self) -> None:
        if self.restrict_vocab < 0:
            raise ConfigError(
                "not a number of words", where="restrict_vocab", got=self.restrict_vocab, expected="0 or more"
            )
        for name, choices in (("analogy", get_args(Method)), ("unknown", get_args(Unknown))):
            if (got := getattr(self, name)) not in choices:
                raise ConfigError("no such choice", where=name, got=got, expected=" or ".join(choices))


def _judge(path: str, sets: list[WordSet], norms: _Norms, run: RunOptions) -> dict[str, Any]:
    """One table on all sets; it is out of memory before the next one is read."""
    run.report(Progress(f"reading {path}"))
    with Artifact(path, ["words"], verify=run.verify) as artifact:
        table = read_word_vectors(artifact)
        unit = artifact.manifest.facts.get("unit", "word")
    found = [
        {"name": one.name, "path": str(one.path), **_judge_set(table, one, norms, run, f"judging {path} on {one.name}")}
        for one in sets
    ]
    head = {"name": path, "distinct": len(table), "dim": table.dim, "unit": unit}
    return {**head, "metrics": _metrics(found), "sets": found}


def _judge_set(table: WordVectors, one: WordSet, norms: _Norms, run: RunOptions, phase: str) -> dict[str, Any]:
    if isinstance(one.content, Pairs):
        return _similarity(judge_similarity(table, one.content, unknown=norms.unknown))

    def on_words(done: int, among: int) -> None:
        run.report(Progress(phase, done, among, "words"))

    found = judge_analogies(table, one.content, restrict=norms.restrict_vocab, method=norms.analogy, on_words=on_words)
    return _analogies(found, norms.unknown)


def _similarity(found: Similarity) -> dict[str, Any]:
    return {
        "kind": "similarity",
        "spearman": None if found.spearman is None else round(found.spearman, 6),
        "pairs": found.pairs,
        "known": found.known,
        "unknown_words": _shown(found.unknown_words),
        "guessed_words": _shown(found.guessed_words),
    }


def _analogies(found: Analogies, unknown: Unknown) -> dict[str, Any]:
    sections = [{"name": name, **_tally(tally, unknown)} for name, tally in found.sections.items()]
    return {
        "kind": "analogies",
        "among": found.among,
        **_tally(found.total, unknown),
        "semantic": None if found.semantic is None else _tally(found.semantic, unknown),
        "syntactic": None if found.syntactic is None else _tally(found.syntactic, unknown),
        "sections": sections,
        "unknown_words": _shown(found.unknown_words),
    }


def _tally(tally: Tally, unknown: Unknown) -> dict[str, Any]:
    whole = tally.asked if unknown == "zero" else tally.seen
    accuracy = round(tally.correct / whole, 6) if whole else None
    return {"accuracy": accuracy, "correct": tally.correct, "seen": tally.seen, "asked": tally.asked}


def _metrics(sets: list[dict[str, Any]]) -> dict[str, float | None]:
    """The mean figure over the sets of each kind, and every set's own."""
    figures: dict[str, dict[str, float | None]] = {"spearman": {}, "accuracy": {}}
    for one in sets:
        measure = "spearman" if one["kind"] == "similarity" else "accuracy"
        figures[measure][f"{measure}/{one['name']}"] = one[measure]
    means: dict[str, float | None] = {}
    for measure, values in figures.items():
        there = [value for value in values.values() if value is not None]
        means[measure] = round(sum(there) / len(there), 6) if there else None
    return means | figures["spearman"] | figures["accuracy"]


def _shown(words: list[str]) -> dict[str, Any]:
    return {"count": len(words), "first": words[:_UNKNOWN_SHOWN]}
