"""Answers out of passages: what a reader says of a question, the windows of a passage taken together.

The score of a stretch of tokens is the sum of two numbers of the model: that its first token begins the answer, and that its
last one ends it. Of several windows that have it whole the best counts. "No answer" is the stretch of the first token, in the
window where it is the least likely. Probabilities are shared among the n best stretches and no answer, at the temperature that
was chosen on held-out questions.

Source: Devlin et al. 2019, section 4.2 and 4.3 (arXiv 1810.04805); Rajpurkar et al. 2018 (SQuAD 2.0).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.heads.calibration import probabilities_of
from wordpipe.heads.predict import Answered, HeadPredictor, Text
from wordpipe.heads.windows import Passage, PassageEncoder, Reading
from wordpipe.model import HeadedModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

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
        """No answer, then the candidates, (1 + n_best,); those that there are not never come."""
        found = np.full(1 + n_best, _NEVER)
        found[0], found[1 : 1 + len(self.scores)] = self.none, self.scores
        return found


def span_table(passage: Passage, scores: Sequence[npt.NDArray[Any]], max_answer: int) -> tuple[npt.NDArray[Any], float]:
    """The score of every answer of a passage, and that of none.

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
    """The n best answers of a passage; of equal ones the first, and the shorter. White space is none."""
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
    """What is said of a question.

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
    """Answers of questions out of passages.

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
        """What is said of each passage and question, in their order."""
        while some := list(islice(texts, _PASSAGES_AT_ONCE)):
            passages = self._passages.encode(some)
            scores = iter(self._scores([window.encoded for one in passages for window in one.windows]))
            for passage in passages:
                found = best_candidates(passage, [next(scores) for _ in passage.windows], self.reading)
                yield answered(passage, found, self.reading, self.temperature, self.threshold)
