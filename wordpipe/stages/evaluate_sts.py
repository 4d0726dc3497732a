"""`wordpipe evaluate sts`: how well the cosines of sentence vectors agree with people; nothing is made."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wordpipe.artifacts.reader import Artifact
from wordpipe.errors import ConfigError
from wordpipe.metrics.statistics import Interval, correlation_interval, pearson, spearman
from wordpipe.runtime import Progress
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.stages.inputs import as_list
from wordpipe.stages.judged_encoders import first_words, open_judged
from wordpipe.stages.making import PathLike, RunOptions, storage_errors
from wordpipe.stages.sts_sets import StsSet, read_sts_sets
from wordpipe.stages.sts_systems import FLOORS, Array, SetScores, check_language, encoder_scores, floor_scores

__all__ = ["evaluate_sts"]

_UNKNOWN_SHOWN = 20


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
    """Judge encoders of texts on pairs of sentences that people have scored, beside floors that need no training.

    Args:
        encoders: model or words artifacts; or sentences or index artifacts, whose encoder is judged with the transform that
            it carries. None at all judges the floors.
        data: sets: files (see `sentences/scored_pairs.py` for the layouts), or folders; the files of a folder are one set,
            whose pairs are ranked together, as SemEval's sets of one year are.
        words: a words artifact; the plain mean of its vectors is judged as one more floor. None: the first of the encoders
            that is one.
        floors: whether to judge TF-IDF, latent semantic indexing, the overlap of words and the mean of word vectors.
        language: whose endings the floors cut off: a Snowball language, none, or auto.
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

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    run, chosen = run or RunOptions(), EmbedSettings.make(settings)
    if draws < 0 or lsi_dim < 1:
        raise ConfigError("no such number", where="draws, lsi_dim", got=(draws, lsi_dim), expected="at least 0 and 1")
    check_language(language)
    with storage_errors():
        _check_encoders([*as_list(encoders), *([words] if words else [])])
        sets, skipped = read_sts_sets(data)
        judge = _Judge(sets, draws, run)
        for path in as_list(encoders):
            judge.encoder("dense", path, chosen)
        if floors and (plain := words or first_words(as_list(encoders))) is not None:
            judge.encoder("words_mean", plain, chosen.model_copy(update={"pooling": "mean"}))
        if floors:
            judge.floors(language, lsi_dim)
    if not judge.systems:
        raise ConfigError("there is nothing to judge", hint="name a model, or leave the floors on")
    where = as_list(data)
    return {
        "evaluated": "sts",
        "data": where[0] if len(where) == 1 else where,
        "skipped": skipped,
        "sets": [
            {"name": one.name, "path": str(one.path), "pairs": len(one.pairs), "unscored": one.pairs.unscored}
            for one in sets
        ],
        "metrics": _metrics(judge.systems),
        "systems": judge.systems,
    }


def _check_encoders(paths: Sequence[PathLike]) -> None:
    """Refuse the last of several encoders before the first is judged: a transformer takes minutes."""
    for path in paths:
        Artifact(path, ["model", "words", "sentences", "index"], verify=False).close()


@dataclass
class _Judge:
    """Judges one system after the other on all sets."""

    sets: list[StsSet]
    draws: int
    run: RunOptions

    def __post_init__(self) -> None:
        self.systems: list[dict[str, Any]] = []

    def encoder(self, system: str, path: PathLike, settings: EmbedSettings) -> None:
        """An encoder; it is out of memory before the next one is read."""
        with open_judged(path, settings, self.run) as judged:
            scores = [encoder_scores(judged, one.pairs) for one in self.sets]
        self._add(system, str(path), scores)

    def floors(self, language: str, lsi_dim: int) -> None:
        """Those that need no training."""
        found = []
        for number, one in enumerate(self.sets):
            self.run.report(Progress("judging the floors", number, len(self.sets), "sets"))
            found.append(floor_scores(one.pairs, language, lsi_dim))
        for name in FLOORS:
            self._add(name, name, [scores[name] for scores in found])

    def _add(self, system: str, name: str, scores: Sequence[SetScores]) -> None:
        self.run.report(Progress(f"judging {name}"))
        sets = [self._set(one, found) for one, found in zip(self.sets, scores, strict=True)]
        metrics: dict[str, float | None] = {}
        for measure in ("spearman", "pearson"):
            there = [one[measure] for one in sets if one[measure] is not None]
            metrics[measure] = round(sum(there) / len(there), 6) if there else None
            for one in sets:
                metrics[f"{measure}/{one['name']}"] = one[measure]
                metrics |= {f"{measure}/{one['name']}/{part['name']}": part[measure] for part in one.get("parts", [])}
        self.systems.append({"system": system, "name": name, "metrics": metrics, "sets": sets})

    def _set(self, one: StsSet, found: SetScores) -> dict[str, Any]:
        figures = {
            "name": one.name,
            **self._figures(found.cosines, one.pairs.scores),
            "sentences_without_vector": found.without_vector,
            "unknown_words": {"count": len(found.unknown), "first": [*dict.fromkeys(found.unknown)][:_UNKNOWN_SHOWN]},
        }
        if one.parts:
            figures["parts"] = [
                {"name": name, **self._figures(found.cosines[place], one.pairs.scores[place])}
                for name, place in one.parts.items()
            ]
        return figures

    def _figures(self, cosines_P: Array, scores_P: Array) -> dict[str, Any]:
        intervals: list[Interval | None] = [
            correlation_interval(cosines_P, scores_P, ranked=ranked, draws=self.draws) if self.draws else None
            for ranked in (True, False)
        ]
        values = (spearman(cosines_P, scores_P), pearson(cosines_P, scores_P))
        return {
            "pairs": len(scores_P),
            "spearman": _shown(values[0]),
            "pearson": _shown(values[1]),
            "spearman_interval": _both(intervals[0]),
            "pearson_interval": _both(intervals[1]),
        }


def _shown(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _both(interval: Interval | None) -> list[float] | None:
    return None if interval is None else np.round(interval, 6).tolist()


def _metrics(systems: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The first system's figures, and those of the first of each name."""
    by_name = {one["system"]: one["metrics"] for one in reversed(systems)}
    return {**systems[0]["metrics"], **dict(reversed(by_name.items()))}
