"""The evaluation of word vectors: their agreement with people on the similarity of pairs of words, and analogies.

A similarity set has a line per pair: two words and a score, parted by tabs, commas or spaces. What stands between the words
and the first number (a part of speech), or after it, is not looked at, and the first line may be a header of as many fields.
An analogy set begins with a line `: name of a section`, and has four words a line. Empty lines and lines that begin with `#`
say nothing.

Analogies ("man is to king as woman is to …") are answered among the commonest words of a table. A question is asked only where
all four of its words are among them, and the three words of the question are no answer. What a share of right answers means
therefore depends on the cut: figures of different cuts are not comparable.
"""

import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError, wrong_line
from wordpipe.metrics import has_direction, spearman, unit_rows
from wordpipe.words.vectors import WordVectors

Method = Literal["cosadd", "cosmul"]
Unknown = Literal["drop", "zero"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?")
_UNKNOWN_SHOWN = 20
_EPSILON = 0.001  # of 3CosMul, so that nothing is divided by zero
_SIMILARITY_BYTES = 32 << 20  # of the table of question words by possible answers that is held at a time
_LEAST_WORDS, _MOST_WORDS = 64, 2048
_QUESTIONS = 64  # scored at once: half a megabyte, which stays in the cache


class Pairs(NamedTuple):
    """A similarity set: P pairs of words, with the scores of people."""

    words: list[tuple[str, str]]  # the two words of each
    scores: npt.NDArray[np.float64]  # how alike people found them, float64, in any unit


class Questions(NamedTuple):
    """A set of Q analogies: the first word is to the second as the third is to the fourth."""

    words: list[tuple[str, str, str, str]]  # the four words of each
    section_of: list[int]  # the section of each, a place in `sections`
    sections: list[str]  # their names, all different


def read_set(data: bytes, where: str) -> Pairs | Questions:
    """Read a set to evaluate words on: word pairs or analogies, UTF-8; what it holds says of which kind it is.

    Raises:
        InputError: not text, nothing in it, or a line that does not belong; names file (`where`) and line.
    """
    lines: list[tuple[int, str]] = []
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        try:
            line = raw.decode().strip()
        except UnicodeDecodeError as error:
            hint = "convert the file to UTF-8 first: iconv -f LATIN1 -t UTF-8 FILE; if the file is compressed, unpack it first"
            raise InputError("not UTF-8 text", where=f"{where}:{number}", got=error.reason, hint=hint) from None
        if line and not line.startswith("#"):
            lines.append((number, line))
    return _questions(lines, where) if lines and lines[0][1].startswith(":") else _pairs(lines, where)


def _questions(lines: list[tuple[int, str]], where: str) -> Questions:
    """Read the analogies of a set, with their sections."""
    found, sections, section = Questions([], [], []), dict[str, int](), 0
    for number, line in lines:
        if line.startswith(":"):
            section = sections.setdefault(line.removeprefix(":").strip(), len(sections))
            continue
        match line.split():
            case [a, b, c, d]:
                found.words.append((a, b, c, d))
                found.section_of.append(section)
            case _:
                raise wrong_line(f"{where}:{number}", line, "four words, or a colon and the name of a section")
    if not found.words:
        raise InputError("the file has no analogy questions", where=where, expected="four words on each line")
    return found._replace(sections=list(sections))


def _pairs(lines: list[tuple[int, str]], where: str) -> Pairs:
    """Read the pairs of words of a similarity set, with the scores of people."""
    words: list[tuple[str, str]] = []
    scores: list[float] = []
    for place, (number, line) in enumerate(lines):
        first, second, *rest = [*_fields(line), "", ""]
        score = next((float(text) for text in rest if _NUMBER.fullmatch(text)), None)
        is_header = place == 0 and len(lines) > 1 and len(_fields(line)) == len(_fields(lines[1][1]))
        if score is not None and first and second:
            words.append((first, second))
            scores.append(score)
        elif not is_header:
            expected = "two words and a score; a file of analogies begins with a line such as ': family'"
            raise wrong_line(f"{where}:{number}", line, expected)
    if not words:
        raise InputError("the file has no pairs of words", where=where, expected="two words and a score on each line")
    return Pairs(words, np.array(scores, dtype=np.float64))


def _fields(line: str) -> list[str]:
    """Return the fields of a line of a similarity set."""
    separator = next((one for one in "\t," if one in line), None)
    return [field.strip() for field in line.split(separator)]


def evaluate_similarity(table: WordVectors, pairs: Pairs, *, unknown: Unknown = "drop") -> dict[str, Any]:
    """Evaluate word vectors: compare the cosines of a table with the scores of people.

    Pairs with a word that has no vector are left out ("drop"), or given the cosine 0 ("zero").

    Returns:
        spearman: of the cosines and the scores, -1 to 1; None where it is not defined. pairs: in the set. known: those whose
        words both have a vector. unknown_words: those that have none. guessed_words: those whose vector is put together from
        their n-grams, as they are not in the table. Of both count, and the first in the order of the set.

    Source: Finkelstein et al. 2002, "Placing Search in Context"; for the treatment of unknown words, gensim's
    `evaluate_word_pairs` and its `dummy4unknown`.
    """
    asked = dict.fromkeys(word for pair in pairs.words for word in pair)
    found = {word: vector for word in asked if (vector := table.vector_of(word)) is not None and has_direction(vector)}
    known_P = np.array([one in found and other in found for one, other in pairs.words])
    cosines_P = np.zeros(len(known_P))
    cosines_P[known_P] = [
        _cosine(found[one], found[other]) for one, other in pairs.words if {one, other} <= found.keys()
    ]
    counted_P = known_P | (unknown == "zero")
    figure = spearman(cosines_P[counted_P], pairs.scores[counted_P])
    return {
        "kind": "similarity",
        "spearman": None if figure is None else round(figure, 6),
        "pairs": len(known_P),
        "known": int(known_P.sum()),
        "unknown_words": _shown([word for word in asked if word not in found]),
        "guessed_words": _shown([word for word in found if table.find(word) is None]),
    }


def _shown(words: list[str]) -> dict[str, Any]:
    """Return the number of words, and the first 20."""
    return {"count": len(words), "first": words[:_UNKNOWN_SHOWN]}


def _cosine(one_D: npt.NDArray[np.float32], other_D: npt.NDArray[np.float32]) -> float:
    """Return the cosine in double precision, rounded, so that equally near pairs are equal whatever their lengths."""
    one, other = one_D.astype(np.float64), other_D.astype(np.float64)
    return round(float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other))), 12)


def evaluate_analogies(
    table: WordVectors, questions: Questions, *, restrict: int = 30_000, method: Method = "cosadd",
    unknown: Unknown = "drop", report: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:  # fmt: skip
    """Evaluate word vectors: let a table answer analogies.

    Args:
        table: the commonest first.
        questions: the set.
        restrict: ask and answer with so many of the commonest words; 0 takes all.
        method: 3CosAdd adds the cosines with the second and third word and takes away that with the first; 3CosMul multiplies
            and divides them, shifted to 0..1.
        unknown: whether questions with a word that cannot be asked are left out of the accuracy ("drop"), or wrong ("zero").
        report: gets how many of the possible answers have been gone through, and how many there are.

    Returns:
        among: how many of the commonest words could be asked for and answered. Over all sections, and in `sections`: correct,
        answered as expected; seen, all four words being among the possible answers; asked, in the set; accuracy. The same of
        the sections whose name begins with "gram", as in Mikolov's set (syntactic), and of the others (semantic); None where
        sections are not so named. unknown_words, as of similarity.

    Source: Mikolov et al. 2013, "Efficient Estimation of Word Representations", section 4.1, and its `compute-accuracy`, which
    cuts at 30,000; Levy and Goldberg 2014, "Linguistic Regularities in Sparse and Explicit Word Representations", 3CosAdd and
    3CosMul, with their epsilon.
    """
    # the rows of the words; -1 for words that are not among the commonest
    among = min(restrict or len(table), len(table))
    found = {word: table.find(word) for four in questions.words for word in four}
    rows = {
        word: -1 if row is None or row >= among or not has_direction(table.vectors[row]) else row
        for word, row in found.items()
    }
    rows_Q4 = np.array([[rows[word] for word in four] for four in questions.words])
    seen_Q: npt.NDArray[np.bool_] = np.all(rows_Q4 >= 0, axis=1)
    # the answers, counted in each section
    right_Q = np.zeros(len(rows_Q4), dtype=np.bool_)
    right_Q[seen_Q] = _answers(table.vectors[:among], rows_Q4[seen_Q, :3], method, report) == rows_Q4[seen_Q, 3]
    n, of = len(questions.sections), questions.section_of
    counts_S3 = np.stack([np.bincount(of, some, n) for some in (right_Q, seen_Q, None)], axis=1).astype(np.int64)
    is_grammar_S = np.array([name.startswith("gram") for name in questions.sections])

    # shares of right answers: of all, of semantic and syntactic sections, of each section
    def figures(counts_3: npt.NDArray[np.int64]) -> dict[str, Any]:
        correct, seen, asked = counts_3.tolist()
        whole = asked if unknown == "zero" else seen
        accuracy = round(correct / whole, 6) if whole else None
        return {"accuracy": accuracy, "correct": correct, "seen": seen, "asked": asked}

    # semantic and syntactic only where the names of sections tell the two apart
    return {
        "kind": "analogies",
        "among": among,
        **figures(counts_S3.sum(axis=0)),
        "semantic": figures(counts_S3[~is_grammar_S].sum(axis=0)) if 0 < is_grammar_S.sum() < n else None,
        "syntactic": figures(counts_S3[is_grammar_S].sum(axis=0)) if is_grammar_S.any() else None,
        "sections": [{"name": name, **figures(some)} for name, some in zip(questions.sections, counts_S3, strict=True)],
        "unknown_words": _shown([word for word, row in rows.items() if row < 0]),
    }


def _answers(
    vectors_VD: npt.NDArray[np.float32], asked_Q3: npt.NDArray[np.int64], method: Method, report: Callable[[int, int], None]
) -> npt.NDArray[np.int64]:  # fmt: skip
    """Return the row of the best answer to each analogy, the commoner of equals; -1 where there is none.

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
    # a block of possible answers, and some questions at a time
    for first in range(0, len(vectors_VD) if len(asked_Q3) else 0, step):
        units_WD, valid_W = unit_rows(vectors_VD[first : first + step])
        combine, for_UW, against_UW = _sides(units_UD @ units_WD.T, method)
        for start in range(0, len(asked_Q3), _QUESTIONS):
            part = slice(start, start + _QUESTIONS)
            one, two, three = place_Q3[part].T
            scores_qW = for_UW[two]
            combine(scores_qW, for_UW[three], out=scores_qW)
            combine(scores_qW, against_UW[one], out=scores_qW)
            # no answer: a word without a direction, and the words of the question
            scores_qW[:, ~valid_W] = -np.inf
            asked_q3 = asked_Q3[part] - first  # those outside 0..W-1 lie in other blocks
            question, which = np.nonzero((asked_q3 >= 0) & (asked_q3 < len(units_WD)))
            scores_qW[question, asked_q3[question, which]] = -np.inf
            # the best answer of this block, if it is better than those before
            column_q = scores_qW.argmax(axis=1)
            score_q = scores_qW[np.arange(len(column_q)), column_q]
            better_q = score_q > best_Q[part]
            best_Q[part][better_q] = score_q[better_q]
            answer_Q[part][better_q] = first + column_q[better_q]
        report(first + len(units_WD), len(vectors_VD))
    return answer_Q


def _sides(
    cosines_UW: npt.NDArray[np.float32], method: Method
) -> tuple[np.ufunc, npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return how much the cosines of U question words and W answers count for and against, and the operation of the score."""
    if method == "cosadd":
        return np.add, cosines_UW, -cosines_UW
    shifted_UW: npt.NDArray[np.float32] = np.clip(cosines_UW, -1, 1) * np.float32(0.5) + np.float32(0.5)
    return np.multiply, shifted_UW, np.reciprocal(shifted_UW + np.float32(_EPSILON))
