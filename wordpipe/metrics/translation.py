"""Measures of generated text against references: BLEU and chrF by sacrebleu; ROUGE-L; exact match and F1 of answers.

Everywhere, `references` has one entry for each of the N hypotheses: a text, or a list of texts, of which one segment may have
more than another. (sacrebleu takes them the other way round: one list of N texts for each reference.) ValueError: there are
not as many entries as hypotheses, or a list is empty.

BLEU and chrF are scores of the whole set, 0 to 100, and no means. What a segment adds is a row of whole numbers, its
sufficient statistics, (N, K); the score is one of their sum, so `score_interval` and `paired_score_difference` draw segments
and need no text. The rows are counted by sacrebleu, through what it offers of a sentence: the words and n-grams of BLEU; of
chrF the same of texts whose characters stand apart. ROUGE-L, exact match and F1 are a number for each segment, (N,), 0 to 1;
the score is their mean, and `mean_interval` and `paired_difference` serve.
"""

import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import regex

from wordpipe.errors import ConfigError

RougeTokenizer = Literal["unicode", "ascii"]
BleuTokenizer = Literal["13a", "none"]
Texts = Sequence[str]
References = Sequence[str | Sequence[str]]
T = TypeVar("T")
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

INSTALL_SACREBLEU = 'pip install "sacrebleu>=2.6"'
_BLEU_ORDER = 4
_CHRF_ORDER = 6  # of characters
_BETA = 2  # recall counts so many times as much as precision


def has_sacrebleu() -> bool:
    """Whether BLEU and chrF can be counted."""
    return find_spec("sacrebleu") is not None


def _sacrebleu() -> Any:
    """The library. Raises ConfigError: it is not installed."""
    if not has_sacrebleu():
        raise ConfigError("sacrebleu, which counts BLEU and chrF, is not installed", hint=INSTALL_SACREBLEU)
    import sacrebleu

    return sacrebleu


def bleu_statistics(
    hypotheses: Texts, references: References, *, tokenizer: BleuTokenizer = "13a", lowercase: bool = False
) -> Ints:
    """What each segment adds to BLEU, (N, 10): words, words of the nearest reference, n-grams right, n-grams, by order.

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
    """BLEU, (...), of statistics or sums of them, (..., 10), equal to sacrebleu's `corpus_bleu`.

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
    """What each segment adds to chrF, (N, 18): n-grams of the hypothesis, of the reference, and in both, by order.

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
    """The chrF, (...), of statistics or sums of them, (..., 3 · orders), equal to sacrebleu's `corpus_chrf`.

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
    """How bleu, bleu_lc (lower case, split at white space) and chrf are counted: figures of two signatures do not compare."""
    library, counts = _sacrebleu(), [1 if isinstance(each, str) else len(each) for each in references]
    texts = [["x" if place < count else None for count in counts] for place in range(max(counts, default=1))]
    metrics = {
        "bleu": library.BLEU(), "bleu_lc": library.BLEU(tokenize="none", lowercase=True), "chrf": library.CHRF(),
    }  # fmt: skip
    for metric in metrics.values():
        metric.corpus_score(["x"] * len(counts), texts)  # which tells it how many references there are
    return {name: str(metric.get_signature()) for name, metric in metrics.items()}


def rouge_l(hypotheses: Texts, references: References, *, tokenizer: RougeTokenizer = "unicode") -> Floats:
    """ROUGE-L, the F1 of each segment, (N,), 0 to 1: how much of hypothesis and reference is a common subsequence of words.

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
    """Whether each hypothesis is one of its references, (N,), 0 or 1: to the character, or after `normalise_answer`."""
    prepare = normalise_answer if normalised else str
    return _best(hypotheses, references, prepare, lambda one, other: float(one == other))


def answer_f1(hypotheses: Texts, references: References) -> Floats:
    """F1 of the words of each answer, as a bag, after `normalise_answer`, (N,), 0 to 1; of several references the best.

    Where nothing is left of one side, it is 1 if nothing is left of the other too, as "no answer" is right or wrong.

    Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text"; no answer: 2018, SQuAD 2.0.
    """
    return _best(
        hypotheses, references, lambda text: normalise_answer(text).split(),
        lambda one, other: 2 * (Counter(one) & Counter(other)).total() / (len(one) + len(other)) if one or other else 1.0,
    )  # fmt: skip


def normalise_answer(text: str) -> str:
    """An answer as SQuAD compares it: lower case, without ASCII punctuation, English articles and needless white space.

    >>> normalise_answer("The  U.S.A.,  a country!")
    'usa country'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_RUNS = {"unicode": regex.compile(r"[\p{L}\p{M}\p{N}]+"), "ascii": regex.compile(r"[a-z0-9]+")}


def _lists(hypotheses: Texts, references: References) -> list[Sequence[str]]:
    """The references of each segment, one or more."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses, but {len(references)} references or lists of them")
    found = [[each] if isinstance(each, str) else each for each in references]
    for segment, texts in enumerate(found):
        if not texts:
            raise ValueError(f"no reference for hypothesis {segment} (from 0)")
    return found


def _best(
    hypotheses: Texts, references: References, prepare: Callable[[str], T], score: Callable[[T, T], float]
) -> Floats:
    """The best score of each hypothesis with one of its references, (N,)."""
    pairs = zip(map(prepare, hypotheses), _lists(hypotheses, references), strict=True)
    return np.array([max(score(one, prepare(other)) for other in others) for one, others in pairs], dtype=np.float64)


def _lcs(one: list[str], other: list[str]) -> int:
    """The length of the longest common subsequence: a row of the table of lengths is one whole number of a bit for each word.

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
