"""The task of a reader: answers out of passages, learned window by window, measured question by question."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wordpipe.errors import InputError
from wordpipe.heads import (
    Candidates,
    Encoded,
    Passage,
    PassageEncoder,
    Reading,
    answered,
    best_candidates,
    choose_no_answer,
    probabilities_of,
)
from wordpipe.heads.settings import ReaderSettings
from wordpipe.metrics import answer_f1, exact_match
from wordpipe.model import HeadConfig
from wordpipe.stages.train.head_tasks import Calibrated, HeadTask, Scores, calibrated_by
from wordpipe.stages.train.labelled import Labelled, Record

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WITH, WITHOUT = "with an answer", "without an answer"

Span = tuple[int, int]


@dataclass(frozen=True)
class _Question:
    """A held-out question.

    Attributes:
        passage: with its windows.
        spans: the answers that are right, in characters; empty: there is none.
    """

    passage: Passage
    spans: tuple[Span, ...]

    @property
    def answers(self) -> list[str]:
        """What is right to say."""
        return [self.passage.text[start:end] for start, end in self.spans] or [""]


class ReaderTask(HeadTask):
    """Answers of questions."""

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
        """The answers as pairs of characters, none of a question without one; None where nobody wrote them down."""
        if value is None:
            return None
        spans = tuple((span["start"], span["end"]) for span in value)
        if wrong := [(start, end) for start, end in spans if not text[start:end].strip() or end > len(text)]:
            raise InputError(
                "an answer is no stretch of its passage", where=where, got=f"characters {wrong[0][0]} to {wrong[0][1]}",
                expected=f"characters of its text, 0 to {len(text)}",
            )  # fmt: skip
        return spans

    def names_of(self, label: Any) -> list[str]:
        """See `LabelReader`."""
        return [WITH if label else WITHOUT]

    def head(self, labelled: Labelled, dropout: float) -> HeadConfig:
        """See `HeadTask`."""
        del labelled
        return HeadConfig("span", dropout=dropout)

    def width(self, labelled: Labelled) -> int:
        """Where an answer begins and ends."""
        del labelled
        return 2

    def encoder(self, tokenizer: "Tokenizer", max_len: int) -> PassageEncoder:
        """See `HeadTask`."""
        return PassageEncoder(tokenizer, max_len, self.reading)

    def examples(
        self, records: Sequence[Record], encoder: Any, labelled: Labelled
    ) -> Iterator[list[tuple[Encoded, Sequence[float]]]]:
        """The windows of each question; of several answers the commonest is learned, of equal ones the first."""
        del labelled
        for record, passage in zip(records, encoder.encode([record.texts for record in records]), strict=True):
            tokens = passage.tokens_of(*_commonest(record.label, passage.text)) if record.label else None
            targets = passage.targets(tokens)
            self.counts["windows"] += len(targets)
            self.counts["answers_in_no_window"] += bool(record.label) and not any(map(any, targets))
            if record.held_out:
                self._held_out.append(_Question(passage, record.label))
            yield [(window.encoded, target) for window, target in zip(passage.windows, targets, strict=True)]

    def cut_message(self, texts: int, cut: int, max_len: int, unit: str) -> str:
        """See `HeadTask`."""
        del max_len, unit
        return (
            f"{texts:,} questions are longer than the tokens of a question that are read, {self.reading.max_query:,} or half "
            f"of the model's: {cut:,} tokens at their ends were left out"
        )

    def _candidates(self, found: Scores) -> list[Candidates]:
        """The best answers of each held-out question; `found` are the scores of all windows."""
        windows = iter(found)
        return [
            best_candidates(one.passage, [next(windows) for _ in one.passage.windows], self.reading)
            for one in self._held_out
        ]

    def figures(self, found: Scores, wanted: Scores, labelled: Labelled) -> Mapping[str, float]:
        """F1 of the words of an answer, and how many are right to the word, as SQuAD counts them; one is always given."""
        del wanted, labelled
        said = [
            answered(one.passage, best, self.reading, 1.0, self._threshold_of_training).answer
            for one, best in zip(self._held_out, self._candidates(found), strict=True)
        ]
        return self._measured(said)

    @property
    def _threshold_of_training(self) -> float | None:
        """Before a threshold is chosen: no answer, where that is likelier than not; where all have one it is always given."""
        return None if all(one.spans for one in self._held_out) else 0.5

    def _measured(self, said: Sequence[str]) -> dict[str, float]:
        right = [one.answers for one in self._held_out]
        return {
            "f1": float(answer_f1(said, right).mean()),
            "exact_match": float(exact_match(said, right, normalised=True).mean()),
        }

    def calibrated(self, found: Scores, wanted: Scores) -> Calibrated:
        """A temperature, by the questions whose answer is among the best; a threshold where some have no answer."""
        del wanted
        candidates, questions = self._candidates(found), self._held_out
        logits_NC = np.stack([one.logits(self.reading.n_best) for one in candidates])
        true_N = np.array([_right(*pair) for pair in zip(questions, candidates, strict=True)], np.int64)
        found_by = calibrated_by(logits_NC, true_N)
        if all(one.spans for one in questions):
            return found_by
        temperature = found_by.temperature
        no_answer_N = probabilities_of(logits_NC, temperature, "single")[:, 0]
        best = [
            answered(one.passage, some, self.reading, temperature, None).answer
            for one, some in zip(questions, candidates, strict=True)
        ]
        f1_N = answer_f1(best, [one.answers for one in questions])
        threshold = choose_no_answer(no_answer_N, f1_N, np.array([not one.spans for one in questions]))
        said = ["" if sure >= threshold else text for sure, text in zip(no_answer_N, best, strict=True)]
        more = {f"{name}_by_threshold": value for name, value in self._measured(said).items()}
        note = f"; no answer is said from a probability of {threshold:.2f} on: F1 {more['f1_by_threshold']:.4f} there"
        return Calibrated(temperature, [threshold], {**found_by.figures, **more}, found_by.note + note)


def _commonest(spans: Sequence[Span], text: str) -> Span:
    said = [text[start:end] for start, end in spans]
    return max(spans, key=lambda span: said.count(text[span[0] : span[1]]))


def _right(question: _Question, found: Candidates) -> int:
    """Which of no answer and the candidates is right; -1: none of them."""
    if not question.spans:
        return 0
    known = {
        question.passage.characters_of(*tokens): place for place, tokens in reversed([*enumerate(found.tokens, 1)])
    }
    return min((known[span] for span in question.spans if span in known), default=-1)
