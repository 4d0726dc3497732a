"""Scores of what was found, said or written, against what is right: of rankings, of labels, of texts and answers.

Texts: `references` has one entry for each of the N hypotheses: a text, or a list of texts, of which one segment may have more
than another. (sacrebleu takes them the other way round: one list of N texts for each reference.) ValueError: there are not as
many entries as hypotheses, or a list is empty.

Scores of a whole set, as F1, BLEU and chrF are, are no means. What an example adds is a row of numbers, its sufficient
statistics, (N, K); the score is one of their sum, so `score_interval` and `paired_score_difference` draw examples and need
nothing else. What is a number for each example, (N,), 0 to 1, has its mean as the score: `mean_interval`, `paired_difference`.
"""

import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import regex

from wordpipe.errors import ConfigError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# ---- rankings, exactly as trec_eval (and pytrec_eval, BEIR and MTEB) count them
#
# Conventions that published figures depend on, and that are kept here:
#
# - Documents are ordered by their score as a float32, equal scores by their id from the last to the first. What order a
#   system found them in does not matter.
# - The gain of a document is its grade itself (not 2^grade - 1), discounted by log2(rank + 1); the ideal ranking is made of
#   all graded documents, found or not.
# - Average precision, recall and reciprocal rank take a document of grade 1 or more for relevant; those without a grade
#   are not.

_NDCG_DEPTH = 10
_RECALL_DEPTH = 100


class QueryFigures(NamedTuple):
    """The figures of one query, each from 0 to 1."""

    # normalised discounted cumulative gain of the first ten (trec_eval's ndcg_cut_10). Source: Järvelin and Kekäläinen
    # 2002, "Cumulated gain-based evaluation of IR techniques"
    ndcg_at_10: float = 0.0
    map: float = 0.0  # average precision over all that was found; what was not found counts as precision 0
    recall_at_100: float = 0.0  # the share of the relevant documents among the first hundred
    mrr: float = 0.0  # 1 / rank of the first relevant document, 0 where none was found (trec_eval's recip_rank)


def trec_order(names: Sequence[str], scores: npt.NDArray[np.floating]) -> list[int]:
    """Return documents' places in the order in which trec_eval scores them: best first, of equal ones the last name.

    >>> trec_order(["a", "b", "c"], np.array([0.5, 0.5, 0.9]))
    [2, 1, 0]
    """
    rounded = np.asarray(scores, dtype=np.float32).tolist()
    by_name = sorted(range(len(names)), key=names.__getitem__, reverse=True)
    return sorted(by_name, key=lambda place: -rounded[place])


def score_ranking(found: Sequence[str], grades: Mapping[str, int]) -> QueryFigures:
    """Return the figures of one query's results: ids of documents, all different, in the order of `trec_order`, maybe none.

    A document of a grade below 1 is not relevant; where nothing is relevant, all figures are 0.
    """
    relevant = sum(grade > 0 for grade in grades.values())
    if not relevant or not found:
        return QueryFigures()
    grades_K = np.array([max(grades.get(name, 0), 0) for name in found], dtype=np.float64)
    ideal = np.array(sorted((grade for grade in grades.values() if grade > 0), reverse=True), dtype=np.float64)
    ranks_H = np.flatnonzero(grades_K) + 1  # of the relevant documents that were found
    return QueryFigures(
        ndcg_at_10=_discounted(grades_K[:_NDCG_DEPTH]) / _discounted(ideal[:_NDCG_DEPTH]),
        map=float((np.arange(1, len(ranks_H) + 1) / ranks_H).sum()) / relevant,
        recall_at_100=int((ranks_H <= _RECALL_DEPTH).sum()) / relevant,
        mrr=1 / int(ranks_H[0]) if len(ranks_H) else 0.0,
    )


def _discounted(gains_K: npt.NDArray[np.float64]) -> float:
    """Return the discounted cumulative gain of grades in the order of a ranking."""
    return float((gains_K / np.log2(np.arange(2, len(gains_K) + 2))).sum())


# ---- labels: accuracy, precision, recall and F1 of each and in the mean, confusion


@dataclass(frozen=True)
class LabelScore:
    """The scores of one label.

    Attributes:
        precision: share of what was given this label that has it; 0 where nothing was.
        recall: share of what has it that was given it; 0 where nothing has.
        f1: their harmonic mean.
        support: how many have it.
    """

    precision: float
    recall: float
    f1: float
    support: int


def label_score(right: int, given: int, there: int) -> LabelScore:
    """Return the score of a label from three numbers: given and true, given at all, true at all."""
    precision, recall = (right / number if number else 0.0 for number in (given, there))
    f1 = 2.0 * right / (given + there) if given + there else 0.0
    return LabelScore(precision, recall, f1, there)


def micro_score(found_N: Sequence[Iterable[object]], wanted_N: Sequence[Iterable[object]]) -> LabelScore:
    """Return one score over all labels, or spans, of all texts together."""
    right = given = there = 0
    for found, wanted in zip(found_N, wanted_N, strict=True):
        one, other = {*found}, {*wanted}
        right, given, there = right + len(one & other), given + len(one), there + len(other)
    return label_score(right, given, there)


# ---- figures as sums over texts, for the bootstrap: what each text adds, and the score of the sum


def right_given_there(found_N: Sequence[Iterable[object]], wanted_N: Sequence[Iterable[object]]) -> Floats:
    """Return what each text adds to a micro score (F1), (N, 3): given and true, given at all, true at all."""
    rows = []
    for found, wanted in zip(found_N, wanted_N, strict=True):
        one, other = {*found}, {*wanted}
        rows.append((len(one & other), len(one), len(other)))
    return np.array(rows, np.float64).reshape(-1, 3)


def label_statistics(
    found_N: Sequence[Iterable[str]], wanted_N: Sequence[Iterable[str]], labels: Sequence[str]
) -> npt.NDArray[np.int8]:
    """Return what each text adds to the scores of V labels, (N, 3 V): V right, V given, V there."""
    place, V = {label: number for number, label in enumerate(labels)}, len(labels)
    table_N3V = np.zeros((len(wanted_N), 3, V), np.int8)
    for row, (found, wanted) in enumerate(zip(found_N, wanted_N, strict=True)):
        one, other = {*found}, {*wanted}
        for part, some in enumerate((one & other, one, other)):
            table_N3V[row, part, [place[label] for label in some]] = 1
    return table_N3V.reshape(len(wanted_N), 3 * V)


def f1_of(sums: npt.NDArray[np.number]) -> Floats:
    """Return the F1 of sums of `right_given_there`, (...) of (..., 3); 0 where nothing is given and nothing there."""
    both = sums[..., 1] + sums[..., 2]
    found: Floats = 2.0 * sums[..., 0] / np.maximum(both, 1)
    return found


def macro_f1_of(sums: npt.NDArray[np.number]) -> Floats:
    """Return the mean F1 of the labels that come or were given, (...) of (..., 3 V), as in scikit-learn."""
    right, given, there = np.split(np.asarray(sums), 3, axis=-1)
    both = given + there
    f1 = 2.0 * right / np.maximum(both, 1)
    found: Floats = f1.sum(-1) / np.maximum(1, (both > 0).sum(-1))
    return found


def ratio_of(sums: npt.NDArray[np.number]) -> Floats:
    """Return the first of two sums divided by the other, (...) of (..., 2): a mean, an accuracy."""
    found: Floats = sums[..., 0] / np.maximum(sums[..., 1], np.finfo(np.float64).tiny)
    return found


def most_confused(found_N: Sequence[str], wanted_N: Sequence[str], most: int) -> list[tuple[str, str, int]]:
    """Return true label, given label and how often, of the pairs that differ, the most frequent first; equals by name."""
    pairs = Counter((wanted, found) for found, wanted in zip(found_N, wanted_N, strict=True) if found != wanted)
    ranked = sorted(pairs.items(), key=lambda one: (-one[1], one[0]))
    return [(wanted, found, count) for (wanted, found), count in ranked[:most]]


# ---- texts: BLEU and chrF, whose rows are counted by sacrebleu through what it offers of a sentence; ROUGE-L; answers

RougeTokenizer = Literal["unicode", "ascii"]
BleuTokenizer = Literal["13a", "none"]
Texts = Sequence[str]
References = Sequence[str | Sequence[str]]
T = TypeVar("T")

INSTALL_SACREBLEU = 'pip install "sacrebleu>=2.6"'
_BLEU_ORDER = 4
_CHRF_ORDER = 6  # of characters
_BETA = 2  # recall counts so many times as much as precision


def has_sacrebleu() -> bool:
    """True if sacrebleu, which counts BLEU and chrF, is installed."""
    return find_spec("sacrebleu") is not None


def _sacrebleu() -> Any:
    """Return the library sacrebleu. Raises ConfigError: it is not installed."""
    if not has_sacrebleu():
        raise ConfigError("sacrebleu, which counts BLEU and chrF, is not installed", hint=INSTALL_SACREBLEU)
    import sacrebleu

    return sacrebleu


def bleu_statistics(
    hypotheses: Texts, references: References, *, tokenizer: BleuTokenizer = "13a", lowercase: bool = False
) -> Ints:
    """Return what each segment adds to BLEU, (N, 10): words, words of the nearest reference, n-grams right, n-grams, by order.

    The tokenizer "13a" is that of WMT (mteval-v13a), for plain text in scripts with spaces; "none" splits at white space, for
    text that is tokenized already.

    Source: Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation"; Post 2018, "A Call for
    Clarity in Reporting BLEU Scores".
    """
    lists, rows = _lists(hypotheses, references), np.zeros((len(hypotheses), 2 + 2 * _BLEU_ORDER), np.int64)
    # the order is effective for the score of a sentence alone, which is not read
    bleu = _sacrebleu().BLEU(tokenize=tokenizer, lowercase=lowercase, effective_order=True)
    for row, text, others in zip(rows, hypotheses, lists, strict=True):
        found = bleu.sentence_score(text, others)
        row[:] = [found.sys_len, found.ref_len, *found.counts, *found.totals]
    return rows


def bleu_score(sums: npt.NDArray[np.number]) -> Floats:
    """Return BLEU, (...), of statistics or sums of them, (..., 10), equal to sacrebleu's `corpus_bleu`.

        BLEU = BP · exp(¼ Σ_n ln p_n),  p_n = clipped matches of n-grams / n-grams of the hypotheses
        BP = 1 where hypotheses are at least as long as references, else exp(1 - references / hypotheses)

    The k-th order without a match has p_n = 1 / (2^k · n-grams) (Chen and Cherry 2014, method 3); where no hypothesis has four
    words, the score is 0. sacrebleu computes it of one sum at a time; of a thousand draws that took a second for each task.
    """
    sums = np.asarray(sums, dtype=np.float64)
    words, reference = sums[..., 0], sums[..., 1]
    right, totals = sums[..., 2 : 2 + _BLEU_ORDER], sums[..., 2 + _BLEU_ORDER :]
    missed = (right == 0) & (totals > 0)
    halved = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), right)
    precisions = np.where(right.any(axis=-1, keepdims=True), halved / np.maximum(totals, 1), 0.0)
    penalty = np.where(words > 0, np.exp(np.minimum(1 - reference / np.maximum(words, 1), 0)), 0.0)
    found: Floats = 100 * penalty * precisions.prod(axis=-1) ** (1 / _BLEU_ORDER)
    return found


def chrf_statistics(hypotheses: Texts, references: References) -> Ints:
    """Return what each segment adds to chrF, (N, 18): n-grams of the hypothesis, of the reference, and in both, by order.

    N-grams are of 1 to 6 characters, white space left out. Those of an order that the reference is too short for do not
    count; of several references, the one by which a segment scores best does.

    Source: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation".
    """
    lists, rows = _lists(hypotheses, references), np.zeros((len(hypotheses), 3 * _CHRF_ORDER), np.int64)
    characters = _sacrebleu().BLEU(tokenize="none", max_ngram_order=_CHRF_ORDER, effective_order=True)
    for row, text, others in zip(rows, hypotheses, lists, strict=True):
        each = np.zeros((len(others), _CHRF_ORDER, 3), np.int64)
        for one, other in zip(each, others, strict=True):
            found = characters.sentence_score(_apart(text), [_apart(other)])
            one[:, 1] = np.maximum(found.ref_len - np.arange(_CHRF_ORDER), 0)
            one[:, 0] = np.where(one[:, 1] > 0, found.totals, 0)
            one[:, 2] = found.counts
        flat = each.reshape(len(others), -1)
        row[:] = flat[chrf_score(flat).argmax()]
    return rows


def _apart(text: str) -> str:
    return " ".join("".join(text.split()))


def chrf_score(sums: npt.NDArray[np.number]) -> Floats:
    """Return chrF, (...), of statistics or sums of them, (..., 3 · orders), equal to sacrebleu's `corpus_chrf`.

    chrF = 100 · (1 + β²) P R / (β² P + R),  β = 2; P and R are the means of precision and recall over the orders
    """
    sums = np.asarray(sums, dtype=np.float64)
    ours, theirs, both = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
    counted = (ours > 0) & (theirs > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    # cumsum adds in order, as sacrebleu does: of references of equal score, rounding must not choose another one
    precision, recall = (
        np.cumsum(np.where(counted, both / np.maximum(each, 1), 0.0), axis=-1)[..., -1] / orders
        for each in (ours, theirs)
    )
    below = _BETA**2 * precision + recall
    found: Floats = 100 * ((1 + _BETA**2) * precision * recall / np.where(below > 0, below, 1.0))
    return found


def signatures(references: References) -> dict[str, str]:
    """Return the signatures of bleu, bleu_lc (lower case, split at white space) and chrf.

    Figures of different signatures do not compare.
    """
    library, counts = _sacrebleu(), [1 if isinstance(each, str) else len(each) for each in references]
    texts = [["x" if place < count else None for count in counts] for place in range(max(counts, default=1))]
    metrics = {
        "bleu": library.BLEU(), "bleu_lc": library.BLEU(tokenize="none", lowercase=True), "chrf": library.CHRF(),
    }  # fmt: skip
    for metric in metrics.values():
        metric.corpus_score(["x"] * len(counts), texts)  # which tells it how many references there are
    return {name: str(metric.get_signature()) for name, metric in metrics.items()}


def rouge_l(hypotheses: Texts, references: References, *, tokenizer: RougeTokenizer = "unicode") -> Floats:
    """Return ROUGE-L, each segment's F1, (N,), 0 to 1: the share of hypothesis and reference in a common subsequence of words.

        F1 = 2 P R / (P + R) = 2 LCS / (words of the hypothesis + words of the reference)

    Of several references the best counts; without a word it is 0. Texts are made lower case, words are not stemmed.

    The tokenizer "ascii" is that of the package `rouge_score`, for figures to compare with published ones: words are runs of
    a to z and 0 to 9, so "naïve" is two words and a Russian summary has none. "unicode" takes runs of letters, marks and
    digits of every script. Where there are no spaces (Chinese, Thai), a run is a whole clause: chrF serves better there.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries".
    """
    return _best(
        hypotheses, references, lambda text: _RUNS[tokenizer].findall(text.lower()),
        lambda one, other: 2 * _lcs(one, other) / max(len(one) + len(other), 1),
    )  # fmt: skip


def exact_match(hypotheses: Texts, references: References, *, normalised: bool = False) -> Floats:
    """Return 1 for a hypothesis that is one of its references, else 0, (N,): to the character, or after `normalise_answer`."""
    prepare = normalise_answer if normalised else str
    return _best(hypotheses, references, prepare, lambda one, other: float(one == other))


def answer_f1(hypotheses: Texts, references: References) -> Floats:
    """Return the F1 of each answer's words, as a bag, after `normalise_answer`, (N,), 0 to 1; of several references the best.

    Where nothing is left of one side, it is 1 if nothing is left of the other too, as "no answer" is right or wrong.

    Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text"; no answer: 2018, SQuAD 2.0.
    """
    return _best(
        hypotheses, references, lambda text: normalise_answer(text).split(),
        lambda one, other: 2 * (Counter(one) & Counter(other)).total() / (len(one) + len(other)) if one or other else 1.0,
    )  # fmt: skip


def normalise_answer(text: str) -> str:
    """Return an answer as SQuAD compares it: lower case, without ASCII punctuation, English articles and needless white space.

    >>> normalise_answer("The  U.S.A.,  a country!")
    'usa country'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_RUNS = {"unicode": regex.compile(r"[\p{L}\p{M}\p{N}]+"), "ascii": regex.compile(r"[a-z0-9]+")}


def _lists(hypotheses: Texts, references: References) -> list[Sequence[str]]:
    """Return the references of each segment as a list, one or more."""
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypotheses, but {len(references)} references or lists of references"
        )
    found = [[each] if isinstance(each, str) else each for each in references]
    for segment, texts in enumerate(found):
        if not texts:
            raise ValueError(f"hypothesis {segment} has no reference (the first hypothesis is number 0)")
    return found


def _best(
    hypotheses: Texts, references: References, prepare: Callable[[str], T], score: Callable[[T, T], float]
) -> Floats:
    """Return the best score of each hypothesis with one of its references, (N,)."""
    pairs = zip(map(prepare, hypotheses), _lists(hypotheses, references), strict=True)
    return np.array([max(score(one, prepare(other)) for other in others) for one, others in pairs], dtype=np.float64)


def _lcs(one: list[str], other: list[str]) -> int:
    """Return the length of the longest common subsequence, for ROUGE-L, by rows that are whole numbers.

    A bit is 0 where the row's length grows by one. Source: Hyyrö 2004, "Bit-parallel LCS-length computation revisited".
    """
    places: defaultdict[str, int] = defaultdict(int)
    for place, word in enumerate(one):
        places[word] |= 1 << place
    every = row = (1 << len(one)) - 1
    for word in other:
        same = row & places.get(word, 0)
        row = (row + same | row - same) & every
    return len(one) - row.bit_count()
