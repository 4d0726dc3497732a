"""`wordpipe evaluate predictions`: what models with heads say of labelled texts, measured, beside baselines.

Every system says something of each of N texts:

    model        a model, asked now, or predictions that were stored
    majority     what most training texts are; of a score the mean; of tags the commonest tag; of questions "no answer"
    tfidf        TF-IDF and a linear model, learned from the same texts as the model
    gazetteer    of tags: the spans of the training texts by heart
    sentence     of questions: the sentence of the passage that is best by BM25

All systems are measured on the same texts (`prediction_figures.py`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wordpipe.artifacts import Artifact, is_artifact, predicted_task, read_batches, read_schema
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.heads import Gazetteer, TfidfModel, best_sentence, commonest, words_of
from wordpipe.metrics import Evaluation
from wordpipe.runtime import Progress, torch_threads
from wordpipe.stages.calls import public
from wordpipe.stages.evaluate.inputs import evaluation_of
from wordpipe.stages.evaluate.labelled import (
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
from wordpipe.stages.evaluate.prediction_figures import MAIN, Figures, System, parts_of, remarks_on
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings
from wordpipe.stages.infer.predict import answer_of, open_predictor
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.sources import SourceLike, as_list, shown_names


@public(PredictionsEvaluationSettings)
def evaluate_predictions(
    models: PathLike | Sequence[PathLike],
    data: SourceLike | None = None,
    *,
    train: SourceLike | None = None,
    run: RunOptions | None = None,
    **settings: Any,
) -> Evaluation:
    """Evaluate models with heads by what they say of labelled texts, beside baselines that need no transformer.

    Args:
        models: artifacts of train classifier or tagger, or folders of transformers with such a class; or predictions
            artifacts, of a corpus with labels, in the place of all of these and of `data`.
        data: labelled texts: a corpus artifact, or files, or rows in memory. None with predictions.
        train: the labelled texts that the baselines learn from; None: what the first model says it learned from.
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
        raise ConfigError("no model to evaluate", hint="name a model of train classifier or tagger, or predictions")
    with storage_errors(), torch_threads(chosen.threads):
        learned = training_corpus(paths[0])
        if any(_is_predictions(path) for path in paths):
            kind, texts, systems = _stored(paths, data, run)
        else:
            kind, texts, systems = _asked(paths, data, learned, chosen, run)
        pairs = len(texts.texts[0]) > 1
        source = learned.path if train is None else train
        trained = None if source is None else read_training_texts(
            source, kind, chosen, run, pairs=pairs, evaluated=texts
        )  # fmt: skip
        systems += _baselines(kind, texts, trained, run)
        run.report(Progress("drawing texts for the intervals"))
        shown = Figures(kind, texts, systems, chosen).systems()
    counts = {"texts": len(texts), "unlabelled": texts.unlabelled}
    if trained is not None:
        known = {*trained.texts}
        counts |= {"train_texts": len(trained), "texts_in_train": sum(one in known for one in texts.texts)}
    note = "" if source is not None else learned.note
    return evaluation_of(
        "predictions", paths if data is None else data, shown, main=shown[0].facts["system"], task=kind, measure=MAIN[kind],
        train=None if source is None else shown_names(source), train_note=note, split=texts.split,
        settings=chosen.model_dump(mode="json"), counts=counts, parts=[*parts_of(shown, kind)],
        remarks=remarks_on(shown, kind, counts, texts.split, note, chosen.draws),
    )  # fmt: skip


# ---- what models say


def _is_predictions(path: str) -> bool:
    if not is_artifact(Path(path)):
        return False
    with Artifact(path, verify=False) as artifact:
        return artifact.kind == "predictions"


def _asked(
    paths: Sequence[str], data: SourceLike | None, learned: TrainingCorpus, settings: PredictionsEvaluationSettings,
    run: RunOptions,
) -> tuple[Kind, LabelledTexts, list[System]]:  # fmt: skip
    """Model after model; one is out of memory before the next is read."""
    if data is None:
        raise ConfigError("a model needs labelled texts to be evaluated on", where=paths[0], hint="--data LABELLED")
    kind: Kind | None = None
    texts: LabelledTexts | None = None
    systems = []
    for path in paths:
        run.report(Progress(f"reading {path}"))
        opened = open_predictor(path, device=settings.device, verify=run.verify)
        for note in opened.notes:
            run.report(Progress("note", note=f"{Path(path).name}: {note}"))
        own = kind_of(opened.task, opened.problem)
        if texts is None or kind is None:
            kind = own
            texts = read_labelled_texts(data, kind, settings, run, pairs=opened.pairs, trained=learned.digest)
        _check_same(path, own, kind, paths[0])
        system = System("model", path, [], [], opened.labels, {"texts_cut": 0})
        given = (one[0] if len(one) == 1 else (one[0], one[1]) for one in texts.texts)
        for done, found in enumerate(opened.predict(given)):
            _add(system, kind, answer_of(opened.task, found, ""))
            system.counts["texts_cut"] += found.cut > 0
            run.report(Progress(f"asking {Path(path).name}", done, len(texts), "texts"))
        systems.append(system)
    assert kind is not None
    assert texts is not None
    return kind, texts, systems


def _stored(paths: Sequence[str], data: SourceLike | None, run: RunOptions) -> tuple[Kind, LabelledTexts, list[System]]:
    """Predictions of the same texts."""
    if data is not None:
        raise ConfigError(
            "predictions are evaluated on the labels that stand beside them", got=f"--data {' '.join(shown_names(data))}",
            hint="leave --data out, or name the models in the place of their predictions",
        )  # fmt: skip
    kind: Kind | None = None
    texts: LabelledTexts | None = None
    systems = []
    for path in paths:
        run.report(Progress(f"reading {path}"))
        with Artifact(path, ["predictions"], verify=run.verify) as artifact:
            schema, facts = read_schema(artifact, "predictions"), artifact.manifest.facts
            task = predicted_task(schema)
            assert task is not None, "the table was checked"
            own = kind_of(task, str(facts.get("problem", "single_label")))
            column = gold_column(schema.names, own, path)
            rows = [row for batch in read_batches(artifact, "predictions") for row in batch.to_pylist()]
        texts_here = collect(rows, own, path, pairs="text_b" in schema.names, gold=column)
        kind = own if kind is None else kind
        texts = texts_here if texts is None else texts
        _check_same(path, own, kind, paths[0])
        if texts_here.texts != texts.texts or texts_here.gold != texts.gold:
            raise ArtifactError(
                "predictions of other texts, or with other labels", where=path, expected=f"those of {paths[0]}",
                hint="wordpipe predict MODEL CORPUS -o OUTPUT, with the same corpus for each model",
            )  # fmt: skip
        labels = facts.get("labels")
        system = System("model", path, [], [], tuple(labels) if isinstance(labels, list) else ())
        for number in texts_here.numbers:
            _add(system, kind, rows[number])
        systems.append(system)
    assert kind is not None
    assert texts is not None
    return kind, texts, systems


def _check_same(path: str, kind: Kind, wanted: Kind, first: str) -> None:
    if kind != wanted:
        raise ConfigError(
            "models of different tasks cannot be compared", where=path, got=kind, expected=f"{wanted}, as {first}",
            hint="evaluate them one by one",
        )  # fmt: skip


def _add(system: System, kind: Kind, row: dict[str, Any]) -> None:
    """Take what is said of a text out of a row of predictions."""
    assert system.sure is not None
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


def _baselines(kind: Kind, texts: LabelledTexts, trained: LabelledTexts | None, run: RunOptions) -> Iterator[System]:
    """What needs no transformer. Without training texts the commonest label is that of the texts themselves."""
    run.report(Progress("evaluating the baselines"))
    seen = texts.gold if trained is None else trained.gold
    if kind == "answers":
        if any("" in gold for gold in texts.gold):
            yield System("majority", "majority", [""] * len(texts))
        found = [best_sentence(*_passage_and_question(one)) for one in texts.texts]
        yield System("sentence", "sentence", found)
        return
    if kind == "tags":
        usual = commonest(tag for tags in seen for tag in tags)
        yield System("majority", "majority", [(usual,) * len(tags) for tags in texts.gold])
        if trained is not None:
            gazetteer = Gazetteer.fit((one[0].split() for one in trained.texts), trained.gold)
            yield System("gazetteer", "gazetteer", [gazetteer.predict(_words(one[0])) for one in texts.texts])
        return
    usual = float(np.mean(seen)) if kind == "score" else commonest(seen)
    yield System("majority", "majority", [usual] * len(texts))
    if trained is not None:
        run.report(Progress(f"learning the TF-IDF baseline from {len(trained):,} texts"))
        model = TfidfModel.fit(trained.texts, trained.gold, kind)
        yield System("tfidf", "tfidf", model.predict(texts.texts))


def _passage_and_question(texts: tuple[str, ...]) -> tuple[str, str]:
    return texts[0], texts[-1]


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in words_of(text)]
