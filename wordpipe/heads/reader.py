"""Questions and passages: how a model reads them, in windows that overlap, and the answers that it finds, window by window.

    [CLS] question [SEP] passage, tokens 0 to r - 1          [SEP]
    [CLS] question [SEP] passage, tokens s to s + r - 1      [SEP]          s: the stride, at most half the room r
    …

Every answer of at most r - s + 1 tokens is whole in one of them. Where a window has no answer, it points at the first token.

The score of a stretch of tokens is the sum of two numbers of the model: that its first token begins the answer, and that its
last one ends it. Of several windows that have it whole the best counts. "No answer" is the stretch of the first token, in the
window where it is the least likely. Probabilities are shared among the n best stretches and no answer, at the temperature that
was chosen on held-out questions.

Source: Devlin et al. 2019, section 4.2 and 4.3 (arXiv 1810.04805), and the published `run_squad.py` (document stride 128,
query 64); Rajpurkar et al. 2018 (SQuAD 2.0).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.heads.calibration import probabilities_of
from wordpipe.heads.examples import Encoded, Ints
from wordpipe.heads.predict import Answered, HeadPredictor, Text
from wordpipe.model import HeadedModel

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


_NO_FIRSTS: Ints = np.zeros(0, np.int32)
_SAMPLES = ("a", "the", "1", ".", "x y z")  # texts of which a tokenizer has a token


@dataclass(frozen=True)
class Reading:
    """The way in which questions and passages are read: lengths, stride, number of answers.

    Attributes:
        max_query: tokens of a question, at most; the others are cut, and counted.
        max_answer: tokens of an answer, at most.
        stride: tokens of a passage from the beginning of a window to that of the next.
        n_best: answers among which probabilities are shared.
    """

    max_query: int = 64
    max_answer: int = 30
    stride: int = 128
    n_best: int = 20


@dataclass(frozen=True)
class Window:
    """A stretch of a passage behind its question.

    Attributes:
        encoded: what the model reads; `cut` are tokens of the question that it does not.
        place: where the passage's tokens begin among the ids.
        first: the number of the first of them in the passage.
        n_tokens: how many there are.
    """

    encoded: Encoded
    place: int
    first: int
    n_tokens: int


@dataclass(frozen=True)
class Passage:
    """A passage with its question.

    Attributes:
        text: as it was given.
        offsets: characters where each token begins and ends, (N, 2), int32.
        windows: one at least.
    """

    text: str
    offsets: Ints
    windows: tuple[Window, ...]

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and the last token that have characters of a stretch of the passage; None where none has."""
        first = int(np.searchsorted(self.offsets[:, 1], start, "right"))
        last = int(np.searchsorted(self.offsets[:, 0], end, "left")) - 1
        return (first, last) if first <= last else None

    def characters_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the stretch of a passage that a reader answers with, between two tokens, without white space at its ends."""
        start, end = int(self.offsets[first, 0]), int(self.offsets[last, 1])
        found = self.text[start:end]
        start += len(found) - len(found.lstrip())
        return start, max(start, end - (len(found) - len(found.rstrip())))

    def targets(self, tokens: tuple[int, int] | None) -> list[tuple[int, int]]:
        """Return where an answer begins and ends among the ids of each window that a reader sees; else 0 and 0.

        0 and 0 where it is not whole there.
        """
        found = []
        for window in self.windows:
            inside = tokens is not None and window.first <= tokens[0] and tokens[1] < window.first + window.n_tokens
            shift = window.place - window.first
            found.append((tokens[0] + shift, tokens[1] + shift) if inside and tokens is not None else (0, 0))
        return found


class PassageEncoder:
    """Encoder of questions and passages to windows, by the template that the model's tokenizer carries.

    Args:
        tokenizer: with its template; cutting and padding are turned off.
        max_len: ids of a window at most.
        reading: how passages are read; of a short model a question has at most half of what special tokens leave.

    Raises:
        ConfigError: the tokenizer puts no special token in front, or the model has no room for a passage.
    """

    def __init__(self, tokenizer: "Tokenizer", max_len: int, reading: Reading) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer, self.max_len, self.reading = tokenizer, max_len, reading
        self._before, self._between, self._after, self._kinds = _frame_of(tokenizer)
        if not self._before:
            raise ConfigError(
                "the tokenizer adds no special token before a question", where="init",
                expected="a special token such as [CLS]",
                hint="the reader needs this token to mark a window without an answer",
            )  # fmt: skip
        free = max_len - len(self._before) - len(self._between) - len(self._after)
        self._most_query = min(reading.max_query, free // 2)
        if self._most_query < 1:
            raise ConfigError("seq_len is too small for a question and a passage", where="seq_len", got=max_len)
        self._free = free

    def encode(self, pairs: Sequence[tuple[str, ...]]) -> list[Passage]:
        """Return passages with their windows, for a reader.

        Args:
            pairs: a passage and a question each; equal passages are encoded once.
        """
        texts = dict.fromkeys(passage for passage, _ in pairs)
        known = dict(zip(texts, map(_ids_and_offsets, self._encoded([*texts])), strict=True))
        questions = self._encoded([question for _, question in pairs])
        return [
            Passage(
                passage, known[passage][1], tuple(self._windows(np.array(question.ids, np.int32), known[passage][0]))
            )
            for (passage, _), question in zip(pairs, questions, strict=True)
        ]

    def _encoded(self, texts: list[str]) -> "list[Encoding]":
        return self._tokenizer.encode_batch(texts, add_special_tokens=False)

    def _windows(self, question: Ints, passage: Ints) -> list[Window]:
        """Return the windows in which a reader sees a passage."""
        cut, question = max(0, len(question) - self._most_query), question[: self._most_query]
        before = np.concatenate([self._before, question, self._between]).astype(np.int32)
        room = self._free - len(question)
        found = []
        for first in _firsts(len(passage), room, min(self.reading.stride, max(1, room // 2))):
            tokens = passage[first : first + room]
            ids = np.concatenate([before, tokens, self._after]).astype(np.int32)
            second = len(before) if self._kinds else len(ids)
            found.append(Window(Encoded(ids, second, cut, _NO_FIRSTS), len(before), first, len(tokens)))
            cut = 0  # counted once
        return found


def _firsts(n_tokens: int, room: int, stride: int) -> range:
    """Return where the windows of a passage begin: the last one reaches the end."""
    return range(0, max(1, n_tokens - room + stride), stride)


def _ids_and_offsets(found: "Encoding") -> tuple[Ints, Ints]:
    return np.array(found.ids, np.int32), np.array(found.offsets, np.int32).reshape(-1, 2)


def _frame_of(tokenizer: "Tokenizer") -> tuple[list[int], list[int], list[int], bool]:
    """Return the special ids around a question and a passage, and whether the passage has a segment of its own."""
    for sample in _SAMPLES:
        found = tokenizer.encode(sample, sample)
        part = np.array([-1 if one is None else one for one in found.sequence_ids])
        if 0 in part and 1 in part:
            ids, first, second = np.array(found.ids), np.flatnonzero(part == 0), np.flatnonzero(part == 1)
            between = ids[first[-1] + 1 : second[0]]
            kinds = found.type_ids[second[0]] != found.type_ids[first[0]]
            return ids[: first[0]].tolist(), between.tolist(), ids[second[-1] + 1 :].tolist(), kinds
    return [], [], [], False


def whole_in_one(passages: Sequence[Passage], tokens: Sequence[tuple[int, int] | None]) -> npt.NDArray[np.bool_]:
    """Return whether each answer is whole in a window of the reader; True where there is no answer."""
    return np.array(
        [one is None or any(target != (0, 0) for target in passage.targets(one))
         for passage, one in zip(passages, tokens, strict=True)], bool,
    )  # fmt: skip


_PASSAGES_AT_ONCE = 64
_NEVER = -1e9  # the score of what is no candidate


@dataclass(frozen=True)
class Candidates:
    """The best answers of a passage.

    Attributes:
        tokens: the first and the last token of each, the best first, (C, 2).
        scores: of each, (C,), float64.
        none: the score of no answer.
    """

    tokens: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    none: float

    def logits(self, n_best: int) -> npt.NDArray[np.float64]:
        """Return the scores of no answer, then of the candidates, (1 + n_best,); those that there are not never come."""
        found = np.full(1 + n_best, _NEVER)
        found[0], found[1 : 1 + len(self.scores)] = self.none, self.scores
        return found


def span_table(passage: Passage, scores: Sequence[npt.NDArray[Any]], max_answer: int) -> tuple[npt.NDArray[Any], float]:
    """Return the reader's score of every answer of a passage, and that of no answer.

    Args:
        passage: N tokens in some windows.
        scores: of each window, (T, 2): that a position begins the answer, and that it ends it.
        max_answer: L, tokens of an answer at most.

    Returns:
        (N, L): of the answer that begins at a token and goes on for so many more; -1e9 where there is none.
    """
    table_NL = np.full((len(passage.offsets), max_answer), _NEVER)
    none = np.inf
    for window, given_T2 in zip(passage.windows, scores, strict=True):
        found_T2 = given_T2.astype(np.float64)
        none = min(none, float(found_T2[0].sum()))
        part_W2 = found_T2[window.place : window.place + window.n_tokens]
        for more in range(min(max_answer, window.n_tokens)):
            n_spans = window.n_tokens - more
            here = table_NL[window.first : window.first + n_spans, more]
            np.maximum(here, part_W2[:n_spans, 0] + part_W2[more:, 1], out=here)
    return table_NL, none


def best_candidates(passage: Passage, scores: Sequence[npt.NDArray[Any]], reading: Reading) -> Candidates:
    """Return the reader's n best answers of a passage; of equal ones the first, and the shorter."""
    table_NL, none = span_table(passage, scores, reading.max_answer)
    flat = table_NL.ravel()
    n = min(reading.n_best, len(flat))
    best = np.argpartition(-flat, n - 1)[:n] if n else np.zeros(0, np.int64)
    if n:  # equal ones beside the last that was taken: the first of all
        best = np.flatnonzero(flat >= flat[best].min())
    best = best[np.lexsort((best, -flat[best]))][:n]
    best = best[flat[best] > _NEVER]
    firsts, more = np.divmod(best, reading.max_answer)
    tokens = np.stack([firsts, firsts + more], 1).astype(np.int64)
    there = np.array([start < end for start, end in (passage.characters_of(*one) for one in tokens)], bool)
    return Candidates(tokens[there], flat[best][there], none)


def answered(
    passage: Passage, found: Candidates, reading: Reading, temperature: float, threshold: float | None
) -> Answered:
    """Return the reader's answer to a question.

    Args:
        passage: with its question.
        found: its best answers.
        reading: how passages are read.
        temperature: what scores are divided by.
        threshold: the probability of no answer from which on none is given; None: one is always given.
    """
    cut = sum(window.encoded.cut for window in passage.windows)
    known = probabilities_of(found.logits(reading.n_best)[None], temperature, "single")[0]
    no_answer = float(known[0])
    score = float(found.scores[0] - found.none) if len(found.scores) else -np.inf
    if not len(found.scores) or (threshold is not None and no_answer >= threshold):
        return Answered("", -1, -1, no_answer, no_answer, score, cut)
    start, end = passage.characters_of(*found.tokens[0])
    return Answered(passage.text[start:end], start, end, float(known[1]), no_answer, score, cut)


class Reader(HeadPredictor):
    """Predictor of answers to questions out of passages.

    Args:
        model: with a head for spans.
        tokenizer: its tokenizer, with its template.
        max_len: tokens of a window that are read.
        temperature: what scores are divided by.
        threshold: see `answered`.
        reading: how passages are read.
    """

    def __init__(
        self, model: HeadedModel, tokenizer: "Tokenizer", *, max_len: int, temperature: float = 1.0,
        threshold: float | None = None, reading: Reading | None = None,
    ) -> None:  # fmt: skip
        super().__init__(model, tokenizer, max_len, temperature)
        self.threshold, self.reading = threshold, reading or Reading()
        self._passages = PassageEncoder(tokenizer, min(max_len, model.config.max_len), self.reading)

    def predict(self, texts: Iterator[Text]) -> Iterator[Answered]:
        """Yield the reader's answer to each passage and question, in their order."""
        while some := list(islice(texts, _PASSAGES_AT_ONCE)):
            passages = self._passages.encode(some)
            scores = iter(self._scores([window.encoded for one in passages for window in one.windows]))
            for passage in passages:
                found = best_candidates(passage, [next(scores) for _ in passage.windows], self.reading)
                yield answered(passage, found, self.reading, self.temperature, self.threshold)
