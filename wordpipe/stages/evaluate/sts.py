"""`wordpipe evaluate sts`: how well the cosines of sentence vectors agree with people; nothing is made.

Every system gives a pair a number from -1 to 1. Beside the encoders there are baselines that need no training (`--no-floors`
leaves them out): they learn how rare a word is from the sentences of the set, without its scores; so their figure for one set
does not depend on the others. There is no BM25 among them: its scores have no bound and differ from one sentence to the other
and back; on sentences the cosine of TF-IDF vectors is what it comes to.

Shapes: P pairs, N different sentences, V stems, D numbers of a vector.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import Artifact
from wordpipe.errors import ConfigError
from wordpipe.metrics import correlation_interval, pearson, spearman
from wordpipe.runtime import Progress
from wordpipe.search import LatentSpace, Tfidf, looks_english, stemmer
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.stages.evaluate.inputs import (
    EvaluatedEncoder,
    by_system,
    first_words,
    mean_of,
    open_evaluated,
    report_on,
    shown_words,
)
from wordpipe.stages.evaluate.sts_sets import ScoredPairs, StsSet, read_sts_sets
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.sources import as_list
from wordpipe.tokens import WordSplitter

_BASELINES = ("tfidf", "lsi", "overlap")

Array = npt.NDArray[np.float64]


class _Scores(NamedTuple):
    """A system's cosines of the pairs of a set."""

    cosines: Array  # (P,)
    without_vector: int = 0  # different sentences that it knows nothing of; their pairs have cosine 0
    unknown: Sequence[str] = ()  # words without a vector, each time they came


def evaluate_sts(
    encoders: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    words: PathLike | None = None,
    floors: bool = True,
    language: str = "auto",
    lsi_dim: int = 300,
    draws: int = 1_000,
    run: RunOptions | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Evaluate encoders of texts on pairs of sentences that people have scored, beside baselines that need no training.

    Args:
        encoders: model or words artifacts; or sentences or index artifacts, whose encoder is evaluated with the transform
            that it carries. None at all evaluates the baselines.
        data: sets: files (see `sts_sets` for the layouts), or folders; the files of a folder are one set, whose pairs are
            ranked together, as SemEval's sets of one year are.
        words: a words artifact; the plain mean of its vectors is one more baseline. None: the first of the encoders that
            is one.
        floors: whether to evaluate TF-IDF, latent semantic indexing, the overlap of words and the mean of word vectors.
        language: whose endings the baselines cut off: a Snowball language, none, or auto.
        lsi_dim: directions of latent semantic indexing.
        draws: of the bootstrap, from which the intervals come; 0 leaves them out.
        run: progress, verification.
        settings: fields of `EmbedSettings` for model and words artifacts (pooling, device, …). A `transform` other than
            none is fitted on the sentences of each set, without their scores; auto is none here.

    Returns:
        evaluated ("sts"), data, skipped (files of folders that were not taken, by ending), sets (name, path, pairs,
        unscored), metrics and systems.

        systems is a list of system ("dense", "words_mean", "tfidf", "lsi", "overlap"), name, metrics and sets. Metrics are
        from -1 to 1: spearman and pearson, the means over the sets, and "spearman/SET" and "pearson/SET"; None where there
        is no figure. A set has name, pairs, spearman, pearson, spearman_interval and pearson_interval (95 %, low and high),
        sentences_without_vector, unknown_words (count and the first) and, of a folder, the same for each of its parts.

        metrics are those of the first system and, by the name of each system, those of its first.
    """
    run, chosen = run or RunOptions(), EmbedSettings.make(settings)
    if draws < 0 or lsi_dim < 1:
        raise ConfigError("no such number", where="draws, lsi_dim", got=(draws, lsi_dim), expected="at least 0 and 1")
    _analyser(language)  # one that nobody knows is refused before anything is evaluated
    paths = as_list(encoders)
    with storage_errors():
        for path in [*paths, *([words] if words else [])]:  # a transformer takes minutes: the last is refused before
            Artifact(path, ["model", "words", "sentences", "index"], verify=False).close()
        sets, skipped = read_sts_sets(data)
        named = [("dense", path, chosen) for path in paths]
        if floors and (plain := words or first_words(paths)) is not None:
            named.append(("words_mean", str(plain), chosen.model_copy(update={"pooling": "mean"})))
        systems = [_evaluated(*one, sets, draws, run) for one in named]
        if floors:
            systems += _baselines(sets, language, lsi_dim, draws, run)
    if not systems:
        raise ConfigError("there is nothing to judge", hint="name a model, or leave the floors on")
    shown = [
        {"name": one.name, "path": str(one.path), "pairs": len(one.pairs), "unscored": one.pairs.unscored}
        for one in sets
    ]
    metrics = {**systems[0]["metrics"], **by_system(systems)}
    return report_on("sts", data, "systems", systems, skipped=skipped, sets=shown, metrics=metrics)


def _evaluated(
    system: str, path: str, settings: EmbedSettings, sets: Sequence[StsSet], draws: int, run: RunOptions
) -> dict[str, Any]:
    """One encoder; it is out of memory before the next one is read."""
    with open_evaluated(path, settings, run) as encoder:
        scores = [encoder_scores(encoder, one.pairs) for one in sets]
    run.report(Progress(f"evaluating {path}"))
    return _system(system, path, sets, scores, draws)


def _baselines(
    sets: Sequence[StsSet], language: str, lsi_dim: int, draws: int, run: RunOptions
) -> list[dict[str, Any]]:
    """The baselines over words."""
    found = []
    for number, one in enumerate(sets):
        run.report(Progress("evaluating the baselines", number, len(sets), "sets"))
        found.append(_baseline_scores(one.pairs, language, lsi_dim))
    return [_system(name, name, sets, [scores[name] for scores in found], draws) for name in _BASELINES]


def _system(system: str, name: str, sets: Sequence[StsSet], scores: Sequence[_Scores], draws: int) -> dict[str, Any]:
    """A system in the report: its figures of every set, and its metrics."""
    found = [_figures_of(one, scored, draws) for one, scored in zip(sets, scores, strict=True)]
    return {"system": system, "name": name, "metrics": _metrics_of(found), "sets": found}


def _metrics_of(sets: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """The means over the sets, and the figures of each set and part."""
    metrics: dict[str, float | None] = {}
    for measure in ("spearman", "pearson"):
        metrics[measure] = mean_of(one[measure] for one in sets)
        for one in sets:
            metrics[f"{measure}/{one['name']}"] = one[measure]
            metrics |= {f"{measure}/{one['name']}/{part['name']}": part[measure] for part in one.get("parts", [])}
    return metrics


def _figures_of(one: StsSet, found: _Scores, draws: int) -> dict[str, Any]:
    """The figures of one set, and of its parts."""

    def figures(name: str, place: slice) -> dict[str, Any]:
        cosines_P, scores_P = found.cosines[place], one.pairs.scores[place]
        values = {"spearman": spearman(cosines_P, scores_P), "pearson": pearson(cosines_P, scores_P)}
        shown = {measure: None if value is None else round(value, 6) for measure, value in values.items()}
        intervals = dict[str, Any]()
        for measure in values:
            ranked = measure == "spearman"
            drawn = correlation_interval(cosines_P, scores_P, ranked=ranked, draws=draws) if draws else None
            intervals[f"{measure}_interval"] = None if drawn is None else np.round(drawn, 6).tolist()
        return {"name": name, "pairs": len(scores_P), **shown, **intervals}

    whole = figures(one.name, slice(None)) | {
        "sentences_without_vector": found.without_vector, "unknown_words": shown_words(found.unknown),
    }  # fmt: skip
    return whole | ({"parts": [figures(name, place) for name, place in one.parts.items()]} if one.parts else {})


def encoder_scores(evaluated: EvaluatedEncoder, pairs: ScoredPairs) -> _Scores:
    """Cosines of an encoder's vectors; a transform that is asked for is fitted on the sentences of the set."""
    texts, first_P, second_P = _numbered(pairs)
    raw = evaluated.encode(texts)
    found = raw.transformed(evaluated.fitted(raw)) if evaluated.settings.transform != "auto" else raw
    return _Scores(_cosines(found.vectors, first_P, second_P), int(found.empty.sum()), found.unknown)


def _baseline_scores(pairs: ScoredPairs, language: str, lsi_dim: int) -> dict[str, _Scores]:
    """What plain words say: TF-IDF over stems, latent semantic indexing of it, and the share of stems in common (Jaccard).

    Stop words count: without them TF-IDF scored 79.7 instead of 78.7 on STS-B dev and 72.9 instead of 72.5 on its training
    part, but 47.7 instead of 49.7 on STS12 and 58.0 instead of 61.2 on SICK (Spearman x 100).
    """
    texts, first_P, second_P = _numbered(pairs)
    analyse = _analyser("english" if language == "auto" and looks_english(texts) else language)
    sparse_NV = Tfidf.fit(texts, analyse).vectors(texts)
    latent_NK = LatentSpace.fit(sparse_NV, lsi_dim).vectors(sparse_NV)
    products_PV = sparse_NV[first_P].multiply(sparse_NV[second_P])
    stems = [{*analyse(text)} for text in texts]
    both = ((stems[one], stems[other]) for one, other in zip(first_P, second_P, strict=True))
    overlap_P = np.array([len(one & other) / max(len(one | other), 1) for one, other in both], dtype=np.float64)
    return {
        "tfidf": _Scores(_rounded(products_PV.sum(axis=1)), int((np.diff(sparse_NV.indptr) == 0).sum())),
        "lsi": _Scores(_cosines(latent_NK, first_P, second_P), int((~latent_NK.any(axis=1)).sum())),
        "overlap": _Scores(overlap_P),
    }


def _numbered(pairs: ScoredPairs) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All different sentences, and for each pair the places of its two among them."""
    number_of = {text: number for number, text in enumerate(dict.fromkeys([*pairs.first, *pairs.second]))}
    first_P, second_P = (np.array([number_of[text] for text in side]) for side in (pairs.first, pairs.second))
    return [*number_of], first_P, second_P


def _cosines(
    vectors_ND: npt.NDArray[np.float32], first_P: npt.NDArray[np.int64], second_P: npt.NDArray[np.int64]
) -> Array:
    return _rounded(np.einsum("pd,pd->p", vectors_ND[first_P], vectors_ND[second_P], dtype=np.float64))


def _rounded(cosines_P: npt.ArrayLike) -> Array:
    """Equal to six digits is equal: the same sentence twice is a tie with any other such pair, not above or below it."""
    rounded_P: Array = np.asarray(cosines_P, dtype=np.float64).round(6)
    return rounded_P


def _analyser(language: str) -> Callable[[str], list[str]]:
    """Text to the stems of its words, none left out.

    Raises:
        ConfigError: no such language; names those that are known.
    """
    split, stem = WordSplitter(), stemmer("none" if language == "auto" else language)
    return lambda text: [stem(word) for word in split(text)]
