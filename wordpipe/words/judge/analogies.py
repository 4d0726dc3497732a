"""Analogies: "man is to king as woman is to …", answered among the commonest words of a table.

A question is asked only where all four of its words are among them, and the three words of the question are no answer.
What a share of right answers means therefore depends on the cut: figures of different cuts are not comparable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.vectors import unit_rows
from wordpipe.words.judge.lookup import row_of
from wordpipe.words.judge.sets import Questions
from wordpipe.words.table import WordVectors

__all__ = ["Analogies", "Method", "Tally", "judge_analogies"]

Method = Literal["cosadd", "cosmul"]

_EPSILON = 0.001  # of 3CosMul, so that nothing is divided by zero
_SIMILARITY_BYTES = 32 << 20  # of the table of question words by possible answers that is held at a time
_LEAST_WORDS, _MOST_WORDS = 64, 2048
_QUESTIONS = 64  # scored at once: half a megabyte, which stays in the cache


@dataclass(frozen=True, slots=True)
class Tally:
    """How many questions were right.

    Attributes:
        correct: answered as expected.
        seen: asked, all four words being among the possible answers.
        asked: questions in the set.
    """

    correct: int = 0
    seen: int = 0
    asked: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.correct + other.correct, self.seen + other.seen, self.asked + other.asked)


@dataclass(frozen=True, slots=True)
class Analogies:
    """How well a table did on a set of questions.

    Attributes:
        sections: name → tally, in the order of the set.
        among: how many of the commonest words could be asked for and answered.
        unknown_words: words of the set that are not among them, in its order.
    """

    sections: dict[str, Tally]
    among: int
    unknown_words: list[str]

    @property
    def total(self) -> Tally:
        """Over all sections."""
        return sum(self.sections.values(), Tally())

    @property
    def syntactic(self) -> Tally | None:
        """Over the sections whose name begins with "gram", as in Mikolov's set; None where there is none."""
        found = [tally for name, tally in self.sections.items() if _is_syntactic(name)]
        return sum(found, Tally()) if found else None

    @property
    def semantic(self) -> Tally | None:
        """Over the other sections; None where none is marked as syntactic, or all are."""
        found = [tally for name, tally in self.sections.items() if not _is_syntactic(name)]
        return sum(found, Tally()) if found and len(found) < len(self.sections) else None


def judge_analogies(
    table: WordVectors,
    questions: Questions,
    *,
    restrict: int = 30_000,
    method: Method = "cosadd",
    on_words: Callable[[int, int], None] | None = None,
) -> Analogies:
    """Let a table answer analogies.

    Args:
        table: the word vectors, the commonest first.
        questions: the set.
        restrict: ask and answer with so many of the commonest words; 0 takes all.
        method: 3CosAdd adds the cosines with the second and third word and takes away that with the first; 3CosMul multiplies
            and divides them, shifted to 0..1.
        on_words: told how many of the possible answers have been gone through, and how many there are.

    Source: Mikolov et al. 2013, "Efficient Estimation of Word Representations", section 4.1, and its `compute-accuracy`, which
    cuts at 30,000; Levy and Goldberg 2014, "Linguistic Regularities in Sparse and Explicit Word Representations", 3CosAdd and
    3CosMul, with their epsilon.
    """
    among = min(restrict or len(table), len(table))
    rows = {word: row_of(table, word, among) for question in questions.words for word in question}
    rows_Q4 = np.array([[-1 if (row := rows[word]) is None else row for word in four] for four in questions.words])
    seen_Q: npt.NDArray[np.bool_] = np.all(rows_Q4 >= 0, axis=1)
    right_Q = np.zeros(len(rows_Q4), dtype=np.bool_)
    answers = _answers(table.vectors[:among], rows_Q4[seen_Q, :3], method, on_words or (lambda *_: None))
    right_Q[seen_Q] = answers == rows_Q4[seen_Q, 3]
    return Analogies(_tallies(questions, right_Q, seen_Q), among, [word for word, row in rows.items() if row is None])


def _answers(
    vectors_VD: npt.NDArray[np.float32],
    asked_Q3: npt.NDArray[np.int64],
    method: Method,
    on_words: Callable[[int, int], None],
) -> npt.NDArray[np.int64]:
    """The row of the best answer to each question, the commoner of equals; -1 where there is none.

    Questions share their words (Mikolov's 19,544 have 905), so each cosine is computed once, for a block of possible answers
    at a time, and a question combines three lines of that block. Among 30,000 words that takes 0.7 s on one thread whatever
    the dimensions, where a product of all questions' vectors with all answers took 0.6, 0.9 and 2.6 s at 50, 100 and 300; and
    the memory taken does not grow with the table.
    """
    words_U, place_Q3 = np.unique(asked_Q3, return_inverse=True)
    place_Q3 = place_Q3.reshape(asked_Q3.shape)
    units_UD, _ = unit_rows(vectors_VD[words_U])
    best_Q = np.full(len(asked_Q3), -np.inf, dtype=np.float32)
    answer_Q = np.full(len(asked_Q3), -1, dtype=np.int64)
    step = int(np.clip(_SIMILARITY_BYTES // (8 * max(1, len(words_U))), _LEAST_WORDS, _MOST_WORDS))
    for first in range(0, len(vectors_VD) if len(asked_Q3) else 0, step):
        units_WD, valid_W = unit_rows(vectors_VD[first : first + step])
        block = _Block(units_UD @ units_WD.T, valid_W, method)
        for start in range(0, len(asked_Q3), _QUESTIONS):
            part = slice(start, start + _QUESTIONS)
            column_q, score_q = block.best(place_Q3[part], asked_Q3[part] - first)
            better_q = score_q > best_Q[part]
            best_Q[part][better_q] = score_q[better_q]
            answer_Q[part][better_q] = first + column_q[better_q]
        on_words(first + len(units_WD), len(vectors_VD))
    return answer_Q


class _Block:
    """W possible answers, with their cosines to the U words of all questions.

    Args:
        cosines_UW: float32.
        valid_W: which of the answers have a direction.
        method: how the three cosines of a question become a score.
    """

    def __init__(self, cosines_UW: npt.NDArray[np.float32], valid_W: npt.NDArray[np.bool_], method: Method) -> None:
        self._invalid = np.flatnonzero(~valid_W)
        self._combine: np.ufunc
        if method == "cosadd":
            self._combine, self._for, self._against = np.add, cosines_UW, -cosines_UW
        else:
            shifted_UW: npt.NDArray[np.float32] = np.clip(cosines_UW, -1, 1) * np.float32(0.5) + np.float32(0.5)
            self._combine, self._for = np.multiply, shifted_UW
            self._against = np.reciprocal(shifted_UW + np.float32(_EPSILON))

    def best(
        self, place_Q3: npt.NDArray[np.int64], asked_Q3: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The best answer in this block to each question, and its score; -inf where there is none.

        Args:
            place_Q3: the three words of each question among the U.
            asked_Q3: their columns in this block; those outside 0..W-1 lie in other blocks.
        """
        first, second, third = place_Q3.T
        scores_QW = self._for[second]
        self._combine(scores_QW, self._for[third], out=scores_QW)
        self._combine(scores_QW, self._against[first], out=scores_QW)
        scores_QW[:, self._invalid] = -np.inf
        question, which = np.nonzero((asked_Q3 >= 0) & (asked_Q3 < scores_QW.shape[1]))
        scores_QW[question, asked_Q3[question, which]] = -np.inf
        column_Q = scores_QW.argmax(axis=1)
        return column_Q, scores_QW[np.arange(len(column_Q)), column_Q]


def _tallies(questions: Questions, right_Q: npt.NDArray[np.bool_], seen_Q: npt.NDArray[np.bool_]) -> dict[str, Tally]:
    n = len(questions.sections)
    counts = [np.bincount(questions.section_of, weights=of, minlength=n) for of in (right_Q, seen_Q, None)]
    return {name: Tally(*(int(count[number]) for count in counts)) for number, name in enumerate(questions.sections)}


def _is_syntactic(section: str) -> bool:
    return section.startswith("gram")
