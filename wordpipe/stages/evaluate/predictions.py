"""`wordpipe evaluate predictions`: models with heads and baselines, measured on labelled texts.

Every system says something of each of N texts:

    model        a model, asked now, or predictions that were stored
    majority     what most training texts are; of a score the mean; of tags the commonest tag; of questions "no answer"
    tfidf        TF-IDF and a linear model, learned from the same texts as the model
    gazetteer    of tags: the spans of the training texts by heart
    sentence     of questions: the sentence of the passage that is best by BM25

All are measured on the same texts. Every measure but Spearman's correlation is a sum over the texts, `rows` (N, K), and a
score of the sum: one bootstrap serves all of them, and two systems are drawn together (Koehn 2004).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import Artifact, is_artifact, predicted_task, read_batches, read_schema
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.heads import Gazetteer, TfidfModel, best_sentence, calibration_error, chunks_of, commonest, words_of
from wordpipe.metrics import (
    SIGNIFICANT,
    Apart,
    Evaluation,
    Figure,
    Measured,
    Part,
    System,
    Table,
    answer_f1,
    beside_models,
    correlation_interval,
    correlation_of,
    correlation_statistics,
    exact_match,
    f1_of,
    label_score,
    label_statistics,
    listed,
    macro_f1_of,
    most_confused,
    ratio_of,
    right_given_there,
    rounded,
    side_by_side,
    spearman,
    table_of_labels,
)
from wordpipe.runtime import Progress, torch_threads
from wordpipe.stages.evaluate.inputs import evaluation_of
from wordpipe.stages.evaluate.pairs_and_labels import (
    Kind,
    LabelledTexts,
    TrainingCorpus,
    collect,
    gold_column,
    kind_of,
    read_labelled_texts,
    read_training_texts,
    training_corpus,
)
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings
from wordpipe.stages.infer.predict import answer_of, open_predictor
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import SourceLike, as_list, shown_names
from wordpipe.wording import counted, short_name

Floats = npt.NDArray[np.float64]
MAIN: dict[Kind, str] = {
    "single": "accuracy", "several": "micro_f1", "score": "pearson", "tags": "span_f1", "answers": "f1",
}  # fmt: skip
"""Kind → the measure by which a model and a baseline are compared."""

_MOST_NUMBERS = 1 << 24  # texts × labels × 3 of which the macro F1 is drawn
_ROWS_AT_ONCE = 4_096
_WHOLE_TABLE, _MOST_CONFUSED = 30, 20  # labels of a confusion table; pairs that are listed beside it
_MOST_COLUMNS, _MOST_PAIRS = 10, 10  # the same on the screen; JSON has more
_NAME_WIDTH, _LABEL_WIDTH, _HEAD_WIDTH = 20, 24, 12
_HEADS = {
    ("majority", "single"): "most frequent\nlabel", ("majority", "several"): "most frequent\nlabels",
    ("majority", "score"): "mean",
    ("majority", "tags"): "most frequent\ntag", ("majority", "answers"): "no answer", ("tfidf", ""): "TF-IDF,\nlinear model",
    ("gazetteer", ""): "gazetteer", ("sentence", ""): "best sentence\n(BM25)",
}  # fmt: skip
_ORDER: dict[Kind, tuple[str, ...]] = {
    "single": ("accuracy", "macro_f1", "calibration_error"),
    "several": ("micro_f1", "macro_f1", "exact_match", "calibration_error"),
    "score": ("pearson", "spearman", "rmse"),
    "tags": ("span_f1", "span_precision", "span_recall", "accuracy", "calibration_error"),
    "answers": ("f1", "exact_match", "answered_f1", "unanswered_exact", "calibration_error"),
}
_WITHOUT_INTERVAL = ("span_precision", "span_recall", "calibration_error")


@dataclass
class _System:
    """A system and what it says of N texts."""

    system: str  # model, majority, tfidf, gazetteer or sentence
    name: str  # its own, or the path of the model
    said: list[Any]  # as the gold labels are; of questions one answer
    # probabilities of what a model says: of a label, of each label, of each span, of the answer
    sure: list[Any] = field(default_factory=list)
    labels: tuple[str, ...] = ()  # that a model knows
    counts: dict[str, int] = field(default_factory=dict)


@public(PredictionsEvaluationSettings)
def evaluate_predictions(
    models: PathLike | Sequence[PathLike],
    data: SourceLike | None = None,
    *,
    train: SourceLike | None = None,
    run: RunOptions | None = None,
    **settings: Any,
) -> Evaluation:
    """Evaluate models with heads on labelled texts, beside baselines that need no transformer.

    Args:
        models: models made by `train classifier`, `train tagger` or `train reader`, or model folders of transformers with a
            class for these tasks; or predictions artifacts of a labelled corpus, without `data`.
        data: labelled texts: a corpus artifact, or files, or rows in memory. None with predictions.
        train: the labelled texts on which the baselines are trained; None: the training corpus of the first model.
        run: progress, verification.
        settings: fields of `PredictionsEvaluationSettings`.

    Returns:
        evaluated ("predictions"), data, task ("single", "several", "score", "tags" or "answers"), measure (the main one),
        train, train_note (why there is none), split (None for all), settings, counts (texts, unlabelled, and with training
        texts train_texts and texts_in_train), metrics and systems.

        systems is a list of system ("model", "majority", "tfidf", "gazetteer", "sentence"), name, metrics, intervals (95 %,
        low and high), against (other system → measure → difference, interval and p), best_baseline (of a model: baseline,
        difference, p, and whether the model is significantly above it), by_label (label → precision, recall, f1, support;
        of tags those of spans), confusion (labels, and table: a row for each true label, of at most 30), confused (true,
        given, count and first, of the pairs that differ most often), unknown_labels (label → count and first: gold labels
        that a model does not know) and counts. Metrics are

        single: accuracy, macro_f1, micro_f1 (the same number), calibration_error;
        several: micro_f1, macro_f1, exact_match, calibration_error;
        score: pearson, spearman, rmse;
        tags: span_f1, span_precision, span_recall (conlleval's), accuracy (of tags), calibration_error (of spans);
        answers: exact_match and f1 of SQuAD, calibration_error; where some questions have no answer answered_f1 and
        unanswered_exact, of either part.

        metrics are those of the first system and, by the name of each system, those of its first.

    Raises:
        InputError: no labels, or one that cannot be; names file and line.
        ArtifactError: something is no model with a head, or predictions of other texts.
        ConfigError: a setting is out of its bounds, or models of different tasks.

    Example:
        >>> rows = [{"text": f"{i} is {w}", "label": w} for i in range(30) for w in ("red", "blue")]
        >>> _ = wordpipe.ingest(rows, output="new/labelled", label_field="label", test=0.2)
        >>> _ = wordpipe.train_classifier("new/labelled", output="new/colours", init="run/model", epochs=1)
        >>> found = wordpipe.evaluate_predictions("new/colours", "new/labelled", draws=100)
        >>> [one["system"] for one in found["systems"]], found["split"]
        (['model', 'majority', 'tfidf'], 'test')
    """
    run, chosen, paths = run or RunOptions(), PredictionsEvaluationSettings.make(settings), as_list(models)
    if not paths:
        raise ConfigError(
            "no model to evaluate",
            hint="give a model made by `train classifier`, `train tagger` or `train reader`, or a predictions artifact",
        )
    with storage_errors(), torch_threads(chosen.threads):
        learned = training_corpus(paths[0])
        # what models say, what baselines learned from training texts say, and the figures of both
        said = _answers_of_models(paths, data, learned, chosen, run)
        kind, texts, _ = said[0]
        pairs = len(texts.texts[0]) > 1
        source = learned.path if train is None else train
        trained = None if source is None else read_training_texts(
            source, kind, chosen, run, pairs=pairs, evaluated=texts
        )  # fmt: skip
        systems = [*(one.system for one in said), *_baselines(kind, texts, trained, run)]
        run.report(Progress("computing the intervals"))
        shown = _Figures(kind, texts, systems, chosen).systems()
    # on how many texts, and whether the training had the same ones
    counts = {"texts": len(texts), "unlabelled": texts.unlabelled}
    if trained is not None:
        known = {*trained.texts}
        counts |= {"train_texts": len(trained), "texts_in_train": sum(one in known for one in texts.texts)}
    note = "" if source is not None else learned.note
    return evaluation_of(
        "predictions", paths if data is None else data, shown, main=shown[0].facts["system"], task=kind, measure=MAIN[kind],
        train=None if source is None else shown_names(source), train_note=note, split=texts.split,
        settings=chosen.model_dump(mode="json"), counts=counts, parts=[*_parts(shown, kind)],
        remarks=_remarks(shown, kind, counts, texts.split, note, chosen.draws),
    )  # fmt: skip


# ---- what models say


class _Said(NamedTuple):
    """The answers of one model, with the texts."""

    kind: Kind
    texts: LabelledTexts
    system: _System


def _is_predictions(path: str) -> bool:
    """True if the path is a predictions artifact."""
    if not is_artifact(Path(path)):
        return False
    with Artifact(path, verify=False) as artifact:
        return artifact.kind == "predictions"


def _answers_of_models(
    paths: Sequence[str], data: SourceLike | None, learned: TrainingCorpus, settings: PredictionsEvaluationSettings,
    run: RunOptions,
) -> list[_Said]:  # fmt: skip
    """Return the predictions of models, or stored ones; one model is out of memory before the next is read."""
    # stored predictions have their labels; models need labelled texts
    stored = any(map(_is_predictions, paths))
    if stored and data is not None:
        raise ConfigError(
            "predictions are evaluated with the labels stored in their artifact", got=f"--data {' '.join(shown_names(data))}",
            hint="leave out --data, or give the models instead of their predictions",
        )  # fmt: skip
    if not stored and data is None:
        raise ConfigError("labelled texts are needed to evaluate a model", where=paths[0], hint="add --data LABELLED")
    # model after model, each on the texts of the first
    found = list[_Said]()
    for path in paths:
        run.report(Progress(f"reading {path}"))
        first = found[0] if found else None
        one = (
            _stored_answers(path, run)
            if data is None
            else _model_answers(path, data, first, learned.digest, settings, run)
        )
        # all models answer the same task on the same texts
        if first is not None and one.kind != first.kind:
            raise ConfigError(
                "models of different tasks cannot be compared", where=path, got=one.kind,
                expected=f"{first.kind}, as {paths[0]}", hint="evaluate each model alone",
            )  # fmt: skip
        if first is not None and (one.texts.texts, one.texts.gold) != (first.texts.texts, first.texts.gold):
            raise ArtifactError(
                "these predictions and the first predictions have different texts or different labels", where=path,
                expected=f"the texts and labels of {paths[0]}",
                hint="wordpipe predict MODEL CORPUS -o OUTPUT, with the same corpus for each model",
            )  # fmt: skip
        found.append(one)
    return found


def _model_answers(
    path: str, data: SourceLike, first: _Said | None, trained: str, settings: PredictionsEvaluationSettings, run: RunOptions
) -> _Said:  # fmt: skip
    """Let a model predict the labels of the texts of the first one.

    `trained` is the digest of the corpus that the first one learned from.
    """
    opened = open_predictor(path, device=settings.device, verify=run.verify)
    for note in opened.notes:
        run.report(Progress("note", note=f"{Path(path).name}: {note}"))
    kind, system = (
        kind_of(opened.task, opened.problem),
        _System("model", path, [], labels=opened.labels, counts={"texts_cut": 0}),
    )
    if first is not None and kind != first.kind:
        return _Said(kind, first.texts, system)  # to be refused
    texts = first.texts if first is not None else read_labelled_texts(
        data, kind, settings, run, pairs=opened.pairs, trained=trained
    )  # fmt: skip
    given = (one[0] if len(one) == 1 else (one[0], one[1]) for one in texts.texts)
    for done, found in enumerate(opened.predict(given)):
        _add_answer(system, kind, answer_of(opened.task, found, ""))
        system.counts["texts_cut"] += found.cut > 0
        run.report(Progress(f"predicting with {Path(path).name}", done, len(texts), "texts"))
    return _Said(kind, texts, system)


def _stored_answers(path: str, run: RunOptions) -> _Said:
    """Read stored predictions, and the labels that are stored beside the predictions."""
    with Artifact(path, ["predictions"], verify=run.verify) as artifact:
        schema, facts = read_schema(artifact, "predictions"), artifact.manifest.facts
        task = predicted_task(schema)
        assert task is not None, "the table was checked"
        kind = kind_of(task, str(facts.get("problem", "single_label")))
        column = gold_column(schema.names, kind, path)
        rows = [row for batch in read_batches(artifact, "predictions") for row in batch.to_pylist()]
    texts, labels = collect(rows, kind, path, pairs="text_b" in schema.names, gold=column), facts.get("labels")
    system = _System("model", path, [], labels=tuple(labels) if isinstance(labels, list) else ())
    for number in texts.numbers:
        _add_answer(system, kind, rows[number])
    return _Said(kind, texts, system)


def _add_answer(system: _System, kind: Kind, row: dict[str, Any]) -> None:
    """Take the prediction for a text out of a row of predictions."""
    if kind == "score":
        system.said.append(float(row["score"]))
        return
    if kind == "tags":
        system.said.append(tuple(row["tags"]))
        system.sure.append([one["probability"] for one in row["spans"]])
    elif kind == "answers":
        system.said.append(row["answer"])
        system.sure.append(row["probability"] if row["answer"] else row["no_answer"])
    elif kind == "several":
        system.said.append(tuple(row["labels"]))
        system.sure.append(np.array(row["probabilities"], np.float32))
    else:
        system.said.append(row["labels"][0])
        system.sure.append(max(row["probabilities"]))


# ---- baselines


def _baselines(kind: Kind, texts: LabelledTexts, trained: LabelledTexts | None, run: RunOptions) -> Iterator[_System]:
    """Yield the predictions of systems without a transformer."""
    run.report(Progress("evaluating the baselines"))
    # questions: no answer, and the best sentence
    seen = texts.gold if trained is None else trained.gold
    if kind == "answers":
        if any("" in gold for gold in texts.gold):
            yield _System("majority", "majority", [""] * len(texts))
        yield _System("sentence", "sentence", [best_sentence(one[0], one[-1]) for one in texts.texts])
        return
    # tags: the commonest, and spans by heart
    if kind == "tags":
        usual = commonest(tag for tags in seen for tag in tags)
        yield _System("majority", "majority", [(usual,) * len(tags) for tags in texts.gold])
        if trained is not None:
            gazetteer = Gazetteer.fit((one[0].split() for one in trained.texts), trained.gold)
            words = ([one[0][start:end] for start, end in words_of(one[0])] for one in texts.texts)
            yield _System("gazetteer", "gazetteer", [gazetteer.predict(some) for some in words])
        return
    # texts: the commonest label or the mean, and a linear model
    usual = float(np.mean(seen)) if kind == "score" else commonest(seen)
    yield _System("majority", "majority", [usual] * len(texts))
    if trained is not None:
        run.report(Progress(f"training the TF-IDF baseline on {len(trained):,} texts"))
        model = TfidfModel.fit(trained.texts, trained.gold, kind)
        yield _System("tfidf", "tfidf", model.predict(texts.texts))


# ---- figures


class _Figures:
    """The figures of all systems for the same texts."""

    def __init__(
        self, kind: Kind, texts: LabelledTexts, systems: Sequence[_System], settings: PredictionsEvaluationSettings
    ) -> None:
        self._kind, self._texts, self._systems, self._settings = kind, texts, systems, settings
        self._sets = [_as_sets(kind, one.said) for one in systems]
        self._gold = _as_sets(kind, texts.gold)
        self._labels = sorted(
            {_label_of(one) for some in (self._gold, *self._sets) for things in some for one in things}
        )
        self._measures = [dict(self._measured(number)) for number in range(len(systems))]

    def systems(self) -> list[System]:
        """Every system in the report."""
        named = [(one.name, one.system == "model") for one in self._systems]
        beside = beside_models(named, self._measures, self._settings.draws, self._settings.seed)
        return [self._system(number, *one) for number, one in enumerate(beside)]

    def _system(
        self, number: int, below: Mapping[str, Mapping[str, Apart | None]], against: dict[str, dict[str, Any]]
    ) -> System:
        """Return a model or baseline of predictions in the report."""
        one, draws, seed = self._systems[number], self._settings.draws, self._settings.seed
        figures = [
            measured.figure(key, draws, seed, below=below[key]) for key, measured in self._measures[number].items()
        ]
        # figures that are no sums; what the table shows of all
        found = {one.key: one for one in [*figures, *self._others(number, figures)]}
        order = _ORDER[self._kind]
        changes: dict[str, Any] = {key: {"interval": None, "below": {}} for key in _WITHOUT_INTERVAL}
        changes |= {"accuracy": {"label": "accuracy of tags"}} if self._kind == "tags" else {}
        shown = [replace(found[key], **changes.get(key, {})) for key in order if key in found]
        facts = {
            "system": one.system, "name": one.name, "against": against, "best_baseline": self._best_baseline(number, against),
            "by_label": self._by_label(number), **self._confusion(number), "unknown_labels": self._unknown(one),
            "counts": one.counts,
        }  # fmt: skip
        return System(_head(one.system, one.name, self._kind), [*found.values()], facts, shown)

    def _others(self, number: int, figures: Sequence[Figure]) -> Iterator[Figure]:
        """Return the figures of predictions that are no sums over the texts."""
        draws, seed = self._settings.draws, self._settings.seed
        there = {one.key: one for one in figures}
        if self._kind == "single":
            yield replace(there["accuracy"], key="micro_f1")
        if self._kind in ("single", "several") and "macro_f1" not in there:
            yield Figure("macro_f1", rounded(float(macro_f1_of(self._sums(number)))))
        if self._kind == "score":
            given, true = np.array(self._systems[number].said, np.float64), np.array(self._texts.gold, np.float64)
            drawn = correlation_interval(given, true, ranked=True, draws=draws, seed=seed) if draws else None
            yield Figure("spearman", rounded(spearman(given, true) or 0.0), listed(drawn), drawn=True)
        if (error := self._calibration(number)) is not None:
            yield Figure("calibration_error", rounded(error))

    def _measured(self, number: int) -> Iterator[tuple[str, Measured]]:
        """Return the measures of a system's predictions that are sums."""
        # measures of scores, of answers, of tags, and of labels
        said, gold, sets = self._systems[number].said, self._texts.gold, self._sets[number]
        if self._kind == "score":
            given, true = np.array(said, np.float64), np.array(gold, np.float64)
            yield "pearson", Measured(correlation_statistics(given, true), correlation_of)
            yield "rmse", Measured(_mean((given - true) ** 2).rows, lambda sums: np.sqrt(ratio_of(sums)))
        elif self._kind == "answers":
            exact, f1 = exact_match(said, gold, normalised=True), answer_f1(said, gold)
            yield "f1", _mean(f1)
            yield "exact_match", _mean(exact)
            # questions without an answer, and those with one
            none = np.array(["" in one for one in gold])
            if none.any() and not none.all():
                yield "answered_f1", Measured(np.stack([f1 * ~none, ~none], axis=1).astype(np.float64), ratio_of)
                yield "unanswered_exact", Measured(np.stack([exact * none, none], axis=1).astype(np.float64), ratio_of)
        # F1 of spans, and the share of right tags
        elif self._kind == "tags":
            found = right_given_there(sets, self._gold)
            yield "span_f1", Measured(found, f1_of)
            yield "span_precision", Measured(found[:, [0, 1]], ratio_of)
            yield "span_recall", Measured(found[:, [0, 2]], ratio_of)
            same = [[a == b for a, b in zip(one, other, strict=True)] for one, other in zip(said, gold, strict=True)]
            yield "accuracy", Measured(np.array([(sum(one), len(one)) for one in same], np.float64), ratio_of)
        # labels: right ones, and F1 where the draws fit into memory
        else:
            right = np.array([one == other for one, other in zip(sets, self._gold, strict=True)], np.float64)
            if self._kind == "single":
                yield "accuracy", _mean(right)
            else:
                yield "micro_f1", Measured(right_given_there(sets, self._gold), f1_of)
            if 3 * len(gold) * len(self._labels) <= _MOST_NUMBERS:
                yield "macro_f1", Measured(label_statistics(sets, self._gold, self._labels), macro_f1_of)
            if self._kind == "several":
                yield "exact_match", _mean(right)

    def _sums(self, number: int) -> Floats:
        """Return for each label how often it was right, predicted and true, (3 V,)."""
        sums, sets = np.zeros(3 * len(self._labels)), self._sets[number]
        if self._kind == "tags":
            for place, label in enumerate(self._labels):
                some = (
                    [{one for one in things if one.label == label} for things in every] for every in (sets, self._gold)
                )
                sums[place :: len(self._labels)] = right_given_there(*some).sum(axis=0)
            return sums
        for first in range(0, len(sets), _ROWS_AT_ONCE):
            at = slice(first, first + _ROWS_AT_ONCE)
            sums += label_statistics(sets[at], self._gold[at], self._labels).sum(axis=0, dtype=np.float64)
        return sums

    def _by_label(self, number: int) -> dict[str, dict[str, float]]:
        """Return precision, recall, F1 and support of each label."""
        if self._kind in ("score", "answers"):
            return {}
        found = {}
        for label, sums in zip(self._labels, self._sums(number).reshape(3, -1).T.astype(int).tolist(), strict=True):
            one = label_score(*sums)
            found[label] = {
                "precision": round(one.precision, 6), "recall": round(one.recall, 6), "f1": round(one.f1, 6),
                "support": one.support,
            }  # fmt: skip
        return found

    def _calibration(self, number: int) -> float | None:
        """Return the calibration error of a model's predicted probabilities; None without probabilities."""
        one, sets = self._systems[number], self._sets[number]
        if not one.sure:
            return None
        if self._kind == "several":
            there = np.array([[label in gold for label in one.labels] for gold in self._gold], np.bool_)
            return calibration_error(np.stack(one.sure).ravel(), there.ravel())
        if self._kind == "tags":
            spans = [chunks_of(tags) for tags in one.said]
            right = [span in gold for some, gold in zip(spans, self._gold, strict=True) for span in some]
            sure = [probability for some in one.sure for probability in some]
            return calibration_error(np.array(sure), np.array(right)) if len(sure) == len(right) > 0 else None
        if self._kind == "answers":
            good = exact_match(one.said, self._texts.gold, normalised=True) > 0
        else:
            good = np.array([a == b for a, b in zip(sets, self._gold, strict=True)])
        return calibration_error(np.array(one.sure), good)

    def _best_baseline(self, number: int, against: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        """Return the baseline with the best predictions, and whether a model is better."""
        main = MAIN[self._kind]
        floors = [place for place, one in enumerate(self._systems) if one.system != "model"]
        if not against or not floors:
            return None
        best = max(floors, key=lambda place: self._measures[place][main].value())
        found = against[self._systems[best].name][main]
        if found is None:
            return None
        above = found["difference"] > 0 and found["p"] < SIGNIFICANT
        return {"baseline": self._systems[best].name, "measure": main, **found, "significant": bool(above)}

    def _confusion(self, number: int) -> dict[str, Any]:
        """Return the table of true and predicted labels, and the pairs that are confused most often."""
        if self._kind != "single":
            return {"confusion": None, "confused": []}
        said, gold = self._systems[number].said, self._texts.gold
        first = dict[tuple[str, str], str]()
        counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        for given, true, where in zip(said, gold, self._texts.where, strict=True):
            first.setdefault((true, given), where)
            counts[true, given] += 1
        table = [[counts[true, given] for given in self._labels] for true in self._labels] \
            if len(self._labels) <= _WHOLE_TABLE else None  # fmt: skip
        return {
            "confusion": None if table is None else {"labels": self._labels, "table": table},
            "confused": [
                {"true": true, "given": given, "count": count, "first": first[true, given]}
                for true, given, count in most_confused(said, gold, _MOST_CONFUSED)
            ],
        }

    def _unknown(self, one: _System) -> dict[str, dict[str, Any]]:
        """Return gold labels that a model does not know: its predictions for these texts are wrong."""
        if not one.labels or self._kind in ("score", "answers"):
            return {}
        known = {label.label for label in chunks_of(one.labels)} if self._kind == "tags" else {*one.labels}
        found: dict[str, dict[str, Any]] = {}
        for things, where in zip(self._gold, self._texts.where, strict=True):
            for label in sorted({_label_of(thing) for thing in things} - known):
                found.setdefault(label, {"count": 0, "first": where})["count"] += 1
        return found


def _as_sets(kind: Kind, values: Sequence[Any]) -> list[set[Any]]:
    """Return the answer to each text as a set of labels, or of spans of tags; an empty set for other kinds."""
    if kind in ("score", "answers"):
        return [set() for _ in values]
    return [{*chunks_of(one)} if kind == "tags" else {one} if kind == "single" else {*one} for one in values]


def _label_of(thing: Any) -> str:
    """Return the label of a text or of a span."""
    return thing if isinstance(thing, str) else str(thing.label)


def _mean(values_N: Floats) -> Measured:
    """Return the measure that is the mean of a value of each text."""
    return Measured(np.stack([values_N, np.ones(len(values_N))], axis=1), ratio_of)


# ---- for people


def _head(system: str, name: str, kind: Kind) -> str:
    """Return the head of a system's column."""
    return _HEADS.get((system, kind)) or _HEADS.get((system, "")) or short_name(name, _NAME_WIDTH)


def _parts(systems: Sequence[System], kind: Kind) -> Iterator[Part]:
    """Return the tables of predictions: the figures of all systems; of each model its labels."""
    yield side_by_side(systems, corner="x 100" if kind != "score" else "")
    models = [one for one in systems if one.facts["system"] == "model"]
    for one in models:
        if one.facts["by_label"]:
            name = f"{one.head}, " if len(models) > 1 else ""
            yield from table_of_labels(
                one.facts["by_label"], f"{name}{'spans of ' if kind == 'tags' else ''}each label", spans=kind == "tags"
            )
        if one.facts["confused"]:
            yield _confused(one.facts)


def _confused(facts: Mapping[str, Any]) -> Table:
    """Return a table of true and predicted labels; of many labels the pairs that are confused most often."""
    table = facts["confusion"]
    if table and len(table["labels"]) <= _MOST_COLUMNS:
        heads = [short_name(label, _HEAD_WIDTH) for label in table["labels"]]
        rows = [
            (head, [f"{n:,}" if n else "·" for n in some]) for head, some in zip(heads, table["table"], strict=True)
        ]
        return Table(heads, rows, "true ↓  predicted →", "true and predicted labels")
    pairs = [
        (short_name(one["true"], _LABEL_WIDTH), [short_name(one["given"], _LABEL_WIDTH), f"{one['count']:,}", one["first"]])
        for one in facts["confused"][:_MOST_PAIRS]
    ]  # fmt: skip
    return Table(("predicted", "times", "first"), pairs, "true", "most frequent confusions")


def _remarks(
    systems: Sequence[System], kind: Kind, counts: Mapping[str, int], split: str | None, note: str, draws: int
) -> Iterator[str]:
    """Yield remarks on predictions: on how much the figures stand, what is unknown, cut or missing.

    Args:
        systems: all of them.
        kind: of what is said.
        counts: of texts.
        split: of the corpus.
        note: why there are no training texts; empty: there are.
        draws: of the bootstrap.
    """
    # on how many texts
    yield f"{counted(counts['texts'], 'texts')}{f' of the split {split}' if split else ''}"
    if counts["unlabelled"]:
        yield f"left out: {counted(counts['unlabelled'], 'texts')} without a label"
    if known := counts.get("texts_in_train"):
        yield (
            f"{counted(known, 'texts')} of {counts['texts']:,} are also training texts, which a model can remember, "
            "so the figures may be too good"
        )
    # of each model: what it did not read, labels that it does not know, and whether it pays
    for one in systems:
        if one.facts["system"] != "model":
            continue
        if cut := one.facts["counts"].get("texts_cut"):
            yield f"{one.head} read only the beginning of {counted(cut, 'texts')}: the model cannot read longer texts"
        for label, unknown in one.facts["unknown_labels"].items():
            many = "once" if unknown["count"] == 1 else f"{unknown['count']:,} times"
            yield f"{one.head} does not know the label {label}, so it was wrong {many} (first at {unknown['first']})"
        if (best := one.facts["best_baseline"]) is not None:
            yield _verdict(one.head, best, kind, draws)
    # the baseline that is missing
    missing = {"tags": "gazetteer", "answers": ""}.get(kind, "TF-IDF")
    if note and missing:
        yield f"no {missing} baseline: {note}"


def _verdict(name: str, best: Mapping[str, Any], kind: Kind, draws: int) -> str:
    """Return a sentence on a model's predictions and the best baseline."""
    figure, apart = Figure(best["measure"], None), Apart(best["difference"], best["interval"], best["p"], draws)
    floor = " ".join(_head(best["baseline"], "", kind).split())
    by = f"{figure.measure.label} {figure.signed(apart.difference)}, {apart.shown_p}"
    if best["significant"]:
        return f"{name} is better than the best baseline ({floor}): {by}"
    how = "worse" if apart.difference < 0 and apart.p < SIGNIFICANT else "not measurably better"
    return f"{name} is {how} than the best baseline ({floor}), which is simpler: {by}"
