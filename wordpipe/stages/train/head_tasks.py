"""The tasks of heads: how each reads its labels, writes its targets, measures held-out texts and calibrates its answers.

A reader's answers come out of passages: they are learned window by window, and measured question by question.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from wordpipe.errors import InputError
from wordpipe.heads import (
    IGNORED,
    Candidates,
    Encoded,
    HeadObjective,
    Passage,
    PassageEncoder,
    Reading,
    StaticModel,
    TextEncoder,
    answered,
    balanced_weights,
    best_candidates,
    best_tags,
    calibration_error,
    choose_no_answer,
    choose_temperature,
    choose_thresholds,
    chunks_of,
    is_no_score,
    probabilities_of,
    tag_vocabulary,
    words_of,
)
from wordpipe.heads.settings import ClassifierSettings, HeadSettings, ReaderSettings, TaggerSettings
from wordpipe.metrics import answer_f1, exact_match, label_statistics, macro_f1_of, micro_score, pearson, spearman
from wordpipe.model import HeadConfig, HeadedModel, Problem
from wordpipe.stages.train.labelled import Labelled, Record

if TYPE_CHECKING:
    from tokenizers import Tokenizer


Scores = Sequence[Any]  # of texts, float32 arrays
AnyHead = HeadedModel | StaticModel

_PROBLEMS: dict[str, Problem] = {"single": "single_label", "several": "multi_label", "score": "regression"}


@dataclass(frozen=True)
class Calibrated:
    """The temperature and the thresholds that were chosen on held-out texts.

    Attributes:
        temperature: what logits are divided by.
        thresholds: of several labels, one each; else None.
        figures: what it came to.
        note: for the user.
    """

    temperature: float = 1.0
    thresholds: list[float] | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


class HeadTask:
    """A task of a head: it reads records, makes examples, measures and calibrates; here each record is one example.

    Args:
        settings: what was asked for; some tasks need none.

    Attributes:
        name: as in the manifest.
        settings: the class of the settings of its command.
        column: of the corpus that holds the labels.
        option: of `ingest` that fills it.
        also: columns that are needed, too.
        least: how many different names of labels there must be.
        noun: what the names are.
        by_passage: a record is held out by its first text alone: none is on both sides.
        per_word: each word has a label, and not each text.
        reads_order: it needs a model that reads a whole text in its order: no word vectors, no decoder.
        facts: of the manifest, beside those that all tasks have.
        counts: likewise, of examples.
    """

    name: str
    settings: type[HeadSettings]
    column: str
    option: str
    also: tuple[str, ...] = ()
    least = 2
    noun = "labels"
    by_passage = False
    per_word = False
    reads_order = False

    def __init__(self, settings: Any = None) -> None:
        self._settings = settings
        self.facts: dict[str, Any] = {}
        self.counts: dict[str, int] = {}

    def look(self, value: Any, where: str) -> None:
        """Look at a record's label before any label is read: the kind of labels may depend on all labels."""

    def read(self, value: Any, text: str, where: str) -> Any:
        """Return the label of a record as the task keeps it; None: it has none. Raises InputError: it cannot be one."""
        raise NotImplementedError

    def names_of(self, label: Any) -> list[str]:
        """Return the names of a label that are counted; a score has none."""
        return list(label)

    def head(self, labelled: Labelled, dropout: float) -> HeadConfig:
        """Return the head that is trained."""
        raise NotImplementedError

    def width(self, labelled: Labelled) -> int:
        """Return the numbers of a target; 0: one for each position."""
        raise NotImplementedError

    def encoder(self, tokenizer: Tokenizer, max_len: int) -> Any:
        """Return what turns records into ids."""
        return TextEncoder(tokenizer, max_len)

    def examples(
        self, records: Sequence[Record], encoder: Any, labelled: Labelled
    ) -> Iterator[list[tuple[Encoded, Sequence[float]]]]:
        """Yield the examples of each record for the head's task, ids and their target.

        Most records have one, a long passage has several.
        """
        encoded = encoder.encode([record.texts for record in records], words=self.per_word)
        for record, one in zip(records, encoded, strict=True):
            yield [(one, self.target(record, labelled))]

    def target(self, record: Record, labelled: Labelled) -> Sequence[float]:
        """Return the target of a record."""
        raise NotImplementedError

    def cut_message(self, texts: int, cut: int, max_len: int, unit: str) -> str:
        """Return the task's warning that so many tokens, or words, of so many texts are not read."""
        return (
            f"{texts:,} texts are longer than {max_len:,} {unit}, so the end of these texts ({cut:,} {unit} in total) "
            "is not used"
        )

    def objective(self, labelled: Labelled, device: torch.device) -> HeadObjective:
        """Return the objective."""
        del labelled, device
        return HeadObjective(per_position=self.per_word)

    def prepare(self, model: AnyHead, labelled: Labelled) -> None:
        """Change a fresh head before its training, where that helps."""

    def figures(self, found: Scores, wanted: Scores, labelled: Labelled) -> Mapping[str, float]:
        """Return figures of held-out texts, the higher the better; the first decides which weights are best."""
        raise NotImplementedError

    def calibrated(self, found: Scores, wanted: Scores) -> Calibrated:
        """Return the temperature and thresholds that are chosen on held-out texts."""
        raise NotImplementedError


def calibrated_by(logits_NV: npt.NDArray[Any], true_N: npt.NDArray[np.int64]) -> Calibrated:
    """Return a temperature that calibrates a task's probabilities, where one answer is right.

    Args:
        logits_NV: of the answers.
        true_N: which is right; -1: none of them, which no temperature mends.
    """
    there_N = true_N >= 0
    temperature = choose_temperature(logits_NV[there_N], true_N[there_N], "single") if there_N.any() else 1.0
    errors = []
    for one in (1.0, temperature):
        known_NV = probabilities_of(logits_NV, one, "single")
        errors.append(calibration_error(known_NV.max(1), known_NV.argmax(1) == true_N))
    note = (
        f"calibration error of the probabilities: {errors[0]:.1%} without calibration, {errors[1]:.1%} with a "
        f"temperature of {temperature:.2f} (the temperature was chosen on the same held-out texts)"
    )
    return Calibrated(temperature, None, {"calibration_error": errors[1]}, note)


_FEW_WORDS = 0.25  # for each number: with more of them the numbers are names of classes
_FEW_NUMBERS = 5  # different ones, which may be names of classes


class ClassifierTask(HeadTask):
    """The task of a classifier: labels of texts, one, several, or a score."""

    name, column, option, settings = "classifier", "label", "--label-field", ClassifierSettings

    def __init__(self, settings: ClassifierSettings) -> None:
        super().__init__(settings)
        self._looks = {"list": False, "fraction": False}
        self._numbers, self._words, self._word, self._different = 0, 0, ("", ""), set[float]()

    @property
    def _kind(self) -> str:
        """Return the kind of labels of the task: one, several, or a score."""
        if self._settings.problem != "auto":
            return str(self._settings.problem)
        is_score = self._looks["fraction"] and self._words <= _FEW_WORDS * self._numbers
        is_score = is_score and (not self._words or len(self._different) > _FEW_NUMBERS)
        if is_score and self._words:
            raise InputError(
                f"most labels are numbers, but {self._words:,} of {self._words + self._numbers:,} labels are not "
                "numbers",
                where=self._word[1], got=repr(self._word[0]), expected="only numbers, or only names",
                hint="remove the records without a number, or use --problem single if the numbers are class names",
            )  # fmt: skip
        return "several" if self._looks["list"] else "score" if is_score else "single"

    @property
    def problem(self) -> Problem:
        """Return the meaning of the labels: that of the settings, else what all labels together look like."""
        return _PROBLEMS[self._kind]

    def look(self, value: Any, where: str) -> None:
        """Look at the labels of the task."""
        # a corpus has labels as strings, or as lists of strings
        if isinstance(value, list):
            self._looks["list"] = True
        elif value is not None:
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if math.isfinite(number):
                self._numbers += 1
                self._looks["fraction"] |= number % 1 != 0
                if len(self._different) <= _FEW_NUMBERS:
                    self._different.add(number)
            elif not is_no_score(value):
                self._words, self._word = self._words + 1, self._word if self._words else (str(value), where)

    def read(self, value: Any, text: str, where: str) -> Any:
        """Return the label of a text for the task: a name, a tuple of names, or a number."""
        del text
        if self._kind == "several" and isinstance(value, list | str | None):
            names = [value] if isinstance(value, str) else value or []
            return tuple(sorted({str(name) for name in names if str(name).strip()}))
        if isinstance(value, list):
            value = value[0] if len(value) == 1 else tuple(value)
        if self._kind == "score":
            return None if is_no_score(value) else self._number(value, where)
        if value is None or isinstance(value, tuple) or not str(value).strip():
            raise InputError(
                "a record does not have exactly one label", where=where, got=repr(value), expected="one label",
                hint="remove the record, or use --problem several for several labels per record",
            )  # fmt: skip
        return str(value).strip()

    @staticmethod
    def _number(value: Any, where: str) -> float:
        """Return the score of a text as a number, for the task."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError("a score is not a number", where=where, got=repr(value), expected="a finite number")
        return number

    def names_of(self, label: Any) -> list[str]:
        return [] if isinstance(label, float) else [label] if isinstance(label, str) else list(label)

    def head(self, labelled: Labelled, dropout: float) -> HeadConfig:
        labels = ("score",) if self.problem == "regression" else labelled.counts.names
        return HeadConfig("sequence", labels, self.problem, dropout=dropout)

    def width(self, labelled: Labelled) -> int:
        return len(labelled.counts.names) if self.problem == "multi_label" else 1

    def target(self, record: Record, labelled: Labelled) -> Sequence[float]:
        if self.problem == "regression":
            return [record.label]
        names = labelled.counts.names
        if self.problem == "single_label":
            return [float(names.index(record.label))]
        return [float(name in record.label) for name in names]

    def objective(self, labelled: Labelled, device: torch.device) -> HeadObjective:
        if self._settings.class_weights == "none" or self.problem != "single_label":
            return HeadObjective(per_position=False)
        weights = balanced_weights(labelled.counts.names, labelled.counts.counts)
        return HeadObjective(per_position=False, weights=torch.from_numpy(weights).to(device))

    def prepare(self, model: AnyHead, labelled: Labelled) -> None:
        """Let a score begin at the mean of all scores: otherwise the first passes only learn that."""
        if self.problem == "regression" and model.classifier.bias is not None:
            with torch.no_grad():
                model.classifier.bias.fill_(labelled.scores[0] / max(1.0, labelled.scores[1]))

    def figures(self, found: Scores, wanted: Scores, labelled: Labelled) -> Mapping[str, float]:
        """Return the figures of the task of labels on held-out texts."""
        scores_NV, wanted_NV = np.stack(found), np.stack(wanted)
        names = labelled.counts.names
        if self.problem == "regression":
            one, other = (values[:, 0].astype(np.float64) for values in (scores_NV, wanted_NV))
            ranked = spearman(one, other)
            return {"pearson": pearson(one, other) or 0.0, "spearman": ranked or 0.0,
                    "rmse": float(np.sqrt(((one - other) ** 2).mean()))}  # fmt: skip
        if self.problem == "single_label":
            given, true = ([[names[int(place)]] for place in some] for some in (scores_NV.argmax(1), wanted_NV[:, 0]))
            macro = float(macro_f1_of(label_statistics(given, true, names).sum(0)))
            return {"accuracy": micro_score(given, true).recall, "macro_f1": macro}
        sets = (scores_NV > 0, wanted_NV > 0.5)
        given, true = ([[names[int(place)] for place in np.flatnonzero(row)] for row in rows] for rows in sets)
        macro = float(macro_f1_of(label_statistics(given, true, names).sum(0)))
        return {"micro_f1": micro_score(given, true).f1, "macro_f1": macro}

    def calibrated(self, found: Scores, wanted: Scores) -> Calibrated:
        """Calibrate the task of labels on held-out texts."""
        if self.problem == "regression":
            return Calibrated()
        logits_NV, wanted_NV = np.stack(found), np.stack(wanted)
        if self.problem == "single_label":
            return calibrated_by(logits_NV, wanted_NV[:, 0].astype(np.int64))
        true_NV = wanted_NV.astype(np.int64)
        temperature = choose_temperature(logits_NV, true_NV, "several")
        known_NV = probabilities_of(logits_NV, temperature, "several")
        thresholds = choose_thresholds(known_NV, true_NV)
        sets = [[np.flatnonzero(row).tolist() for row in rows] for rows in (known_NV >= thresholds, true_NV)]
        f1 = micro_score(*sets).f1
        span = f"{min(thresholds):.2f} to {max(thresholds):.2f}"
        note = f"the held-out texts give thresholds of {span}; with these thresholds, the micro F1 is {f1:.4f}"
        return Calibrated(temperature, thresholds, {"micro_f1_by_thresholds": f1}, note)


class TaggerTask(HeadTask):
    """The task of a tagger: tags of words."""

    name, per_word, column, option, settings = "tagger", True, "tags", "--tags-field", TaggerSettings

    def read(self, value: Any, text: str, where: str) -> Any:
        """Return a tag for each word of a text, for the task of taggers."""
        n_words = len(words_of(text))
        if value is None or len(value) != n_words or not all(str(tag or "").strip() for tag in value):
            raise InputError(
                "a record does not have one tag for each word", where=where,
                got="none" if value is None else f"{len(value)} tags for {n_words} words",
                expected="one tag for each word",
                hint="words are separated by white space; write O for a word without a tag",
            )  # fmt: skip
        return tuple(value)

    @staticmethod
    def _tags(labelled: Labelled) -> tuple[str, ...]:
        return tag_vocabulary(labelled.counts.counts)

    def head(self, labelled: Labelled, dropout: float) -> HeadConfig:
        return HeadConfig("token", self._tags(labelled), dropout=dropout)

    def width(self, labelled: Labelled) -> int:
        del labelled
        return 0

    def target(self, record: Record, labelled: Labelled) -> Sequence[float]:
        tags = self._tags(labelled)
        return [float(tags.index(tag)) for tag in record.label]

    def figures(self, found: Scores, wanted: Scores, labelled: Labelled) -> Mapping[str, float]:
        """Return the task's F1 of spans, where the tags mean spans, and the share of right tags."""
        tags, right, total = self._tags(labelled), 0, 0
        given: list[list[Any]] = []
        true: list[list[Any]] = []
        for scores_TV, wanted_T in zip(found, wanted, strict=True):
            there = wanted_T != IGNORED
            known_WV = probabilities_of(scores_TV[there], 1.0, "single") if there.any() else np.zeros((0, len(tags)))
            best = best_tags(np.log(np.maximum(known_WV, 1e-300)), tags)
            meant = [tags[int(place)] for place in wanted_T[there]]
            right, total = right + sum(a == b for a, b in zip(best, meant, strict=True)), total + len(meant)
            given.append(list(chunks_of(best)))
            true.append(list(chunks_of(meant)))
        score = micro_score(given, true)
        figures = {"span_f1": score.f1, "span_precision": score.precision, "span_recall": score.recall}
        return figures | {"accuracy": right / max(1, total)}

    def calibrated(self, found: Scores, wanted: Scores) -> Calibrated:
        there = [wanted_T != IGNORED for wanted_T in wanted]
        logits_NV = np.concatenate([scores_TV[one] for scores_TV, one in zip(found, there, strict=True)])
        true_N = np.concatenate([wanted_T[one] for wanted_T, one in zip(wanted, there, strict=True)]).astype(np.int64)
        return calibrated_by(logits_NV, true_N)


WITH, WITHOUT = "with an answer", "without an answer"

Span = tuple[int, int]


@dataclass(frozen=True)
class _Question:
    """A held-out question of a reader.

    Attributes:
        passage: with its windows.
        spans: the answers that are right, in characters; empty: there is none.
    """

    passage: Passage
    spans: tuple[Span, ...]

    @property
    def answers(self) -> list[str]:
        """Return the right answers of a question."""
        return [self.passage.text[start:end] for start, end in self.spans] or [""]


class ReaderTask(HeadTask):
    """The task of a reader: answers of questions in passages."""

    name, column, option, settings = "reader", "spans", "--text-b QUESTION --spans-field", ReaderSettings
    least, noun, by_passage, reads_order = 1, "kinds of questions", True, True
    also = ("text_b",)

    def __init__(self, settings: ReaderSettings) -> None:
        super().__init__(settings)
        self.reading = Reading(settings.max_query, settings.max_answer, settings.stride, settings.n_best)
        self.facts = {
            "reading": {name: getattr(settings, name) for name in ("max_query", "max_answer", "stride", "n_best")}
        }
        self.counts = {"windows": 0, "answers_in_no_window": 0}
        self._held_out: list[_Question] = []

    def read(self, value: Any, text: str, where: str) -> Any:
        """Return the answers as pairs of characters, for the task of readers; None where answers are missing."""
        if value is None:
            return None
        spans = tuple((span["start"], span["end"]) for span in value)
        if wrong := [(start, end) for start, end in spans if not text[start:end].strip() or end > len(text)]:
            raise InputError(
                "an answer is not inside the passage", where=where, got=f"characters {wrong[0][0]} to {wrong[0][1]}",
                expected=f"character positions between 0 and {len(text)}",
            )  # fmt: skip
        return spans

    def names_of(self, label: Any) -> list[str]:
        return [WITH if label else WITHOUT]

    def head(self, labelled: Labelled, dropout: float) -> HeadConfig:
        del labelled
        return HeadConfig("span", dropout=dropout)

    def width(self, labelled: Labelled) -> int:
        """Return 2: a target says where an answer begins and where it ends."""
        del labelled
        return 2

    def encoder(self, tokenizer: "Tokenizer", max_len: int) -> PassageEncoder:
        """Return the encoder of passages for the task of readers."""
        return PassageEncoder(tokenizer, max_len, self.reading)

    def examples(
        self, records: Sequence[Record], encoder: Any, labelled: Labelled
    ) -> Iterator[list[tuple[Encoded, Sequence[float]]]]:
        """Yield the windows of each question, for the task of readers; the most frequent answer is learned.

        Of several answers the most frequent is learned, of equal ones the first.
        """
        del labelled
        for record, passage in zip(records, encoder.encode([record.texts for record in records]), strict=True):
            tokens = None
            if record.label:
                said = [passage.text[start:end] for start, end in record.label]
                tokens = passage.tokens_of(*record.label[said.index(max(said, key=said.count))])
            targets = passage.targets(tokens)
            self.counts["windows"] += len(targets)
            self.counts["answers_in_no_window"] += bool(record.label) and not any(map(any, targets))
            if record.held_out:
                self._held_out.append(_Question(passage, record.label))
            yield [(window.encoded, target) for window, target in zip(passage.windows, targets, strict=True)]

    def cut_message(self, texts: int, cut: int, max_len: int, unit: str) -> str:
        del max_len, unit
        return (
            f"{texts:,} questions are longer than {self.reading.max_query:,} tokens or half of the model length, so "
            f"the end of these questions ({cut:,} tokens in total) is not used"
        )

    def _candidates(self, found: Scores) -> list[Candidates]:
        """Return the reader's best answers of each held-out question, to calibrate the task.

        `found` are the scores of all windows.
        """
        windows = iter(found)
        return [
            best_candidates(one.passage, [next(windows) for _ in one.passage.windows], self.reading)
            for one in self._held_out
        ]

    def figures(self, found: Scores, wanted: Scores, labelled: Labelled) -> Mapping[str, float]:
        """Return the figures of the task of readers: F1 of the words of an answer, and exact matches.

        An answer is always given.
        """
        del wanted, labelled
        said = [
            answered(one.passage, best, self.reading, 1.0, self._threshold_of_training).answer
            for one, best in zip(self._held_out, self._candidates(found), strict=True)
        ]
        return self._measured(said)

    @property
    def _threshold_of_training(self) -> float | None:
        """Return the threshold for no answer in training: where that is likelier; None where all questions have one."""
        return None if all(one.spans for one in self._held_out) else 0.5

    def _measured(self, said: Sequence[str]) -> dict[str, float]:
        """Return F1 and exact match of answers to the held-out questions of the task."""
        right = [one.answers for one in self._held_out]
        return {
            "f1": float(answer_f1(said, right).mean()),
            "exact_match": float(exact_match(said, right, normalised=True).mean()),
        }

    def calibrated(self, found: Scores, wanted: Scores) -> Calibrated:
        """Calibrate the task of readers: a temperature, and a threshold where some have no answer."""
        del wanted
        # the temperature, by all questions
        candidates, questions = self._candidates(found), self._held_out
        logits_NC = np.stack([one.logits(self.reading.n_best) for one in candidates])
        true_N = np.array([_right(*pair) for pair in zip(questions, candidates, strict=True)], np.int64)
        found_by = calibrated_by(logits_NC, true_N)
        if all(one.spans for one in questions):
            return found_by
        # the threshold of no answer, where some questions have none
        temperature = found_by.temperature
        no_answer_N = probabilities_of(logits_NC, temperature, "single")[:, 0]
        best = [
            answered(one.passage, some, self.reading, temperature, None).answer
            for one, some in zip(questions, candidates, strict=True)
        ]
        f1_N = answer_f1(best, [one.answers for one in questions])
        threshold = choose_no_answer(no_answer_N, f1_N, np.array([not one.spans for one in questions]))
        # the figures with this threshold
        said = ["" if sure >= threshold else text for sure, text in zip(no_answer_N, best, strict=True)]
        more = {f"{name}_by_threshold": value for name, value in self._measured(said).items()}
        note = (
            f". The reader gives no answer if the probability of no answer is at least {threshold:.2f} (F1 on the "
            f"same texts: {more['f1_by_threshold']:.4f})"
        )
        return Calibrated(temperature, [threshold], {**found_by.figures, **more}, found_by.note + note)


def _right(question: _Question, found: Candidates) -> int:
    """Return the right place among a reader's answers, to calibrate the task; -1: none."""
    if not question.spans:
        return 0
    known = {
        question.passage.characters_of(*tokens): place for place, tokens in reversed([*enumerate(found.tokens, 1)])
    }
    return min((known[span] for span in question.spans if span in known), default=-1)
