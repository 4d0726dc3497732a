"""Measures of generated text against references: BLEU, chrF, ROUGE-L; exact match and F1 of answers.

Everywhere, `references` has one entry for each of the N hypotheses: a text, or a list of texts, of which one segment may have
more than another. (sacrebleu takes them the other way round: one list of N texts for each reference.) ValueError: there are
not as many entries as hypotheses, or a list is empty.

BLEU and chrF are scores of the whole set, 0 to 100, and no means. What a segment adds is a row of whole numbers, its
sufficient statistics, (N, K); the score is one of their sum, so `score_interval` and `paired_score_difference` draw segments
and need no text. ROUGE-L, exact match and F1 are a number for each segment, (N,), 0 to 1; the score is their mean, and
`mean_interval` and `paired_difference` serve.
"""

import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise, zip_longest
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import regex

from wordpipe import __version__

RougeTokenizer = Literal["unicode", "ascii"]
BleuTokenizer = Literal["13a", "none"]
Texts = Sequence[str]
References = Sequence[str | Sequence[str]]
Split = Callable[[str], Sequence[str]]
T = TypeVar("T")
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_BLEU_ORDER = 4
_CHRF_ORDER = 6  # of characters
_BETA = 2  # recall counts so many times as much as precision
_CHARACTERS_AT_ONCE = 1 << 18  # and one segment more: some 20 MB for each order of n-grams


class CorpusBleu(NamedTuple):
    """BLEU of a set of segments, and what it is made of."""

    score: float  # 0 to 100
    precisions: tuple[float, ...]  # of n-grams of 1 to 4 words, in percent, smoothed; all 0 where no word is right
    brevity_penalty: float
    hypothesis_length: int  # in words
    reference_length: int  # of the references nearest in length
    signature: str  # how it was counted: figures of two signatures are not to be compared


class CorpusChrf(NamedTuple):
    """The chrF of a set of segments."""

    score: float  # 0 to 100
    signature: str


def corpus_bleu(
    hypotheses: Texts, references: References, *, tokenizer: BleuTokenizer = "13a", lowercase: bool = False
) -> CorpusBleu:
    """BLEU, equal to sacrebleu's `corpus_bleu` of the same settings.

        BLEU = BP · exp(¼ Σ_n ln p_n),  p_n = clipped matches of n-grams / n-grams of the hypotheses
        BP = 1 where hypotheses are at least as long as references, else exp(1 - references / hypotheses)

    An n-gram of a segment is right at most as often as the reference that has it most often has it. Of the references' lengths
    the nearest to the hypothesis counts, of two the shorter. The k-th order without a match has p_n = 1 / (2^k · n-grams)
    (smoothing "exp"); where no hypothesis has four words, the score is 0.

    The tokenizer "13a" is that of WMT (mteval-v13a), for plain text in scripts with spaces; "none" splits at white space, for
    text that is tokenized already. The signature has sacrebleu's format, but the version of this program, as sacrebleu did not
    run; the figures are those of sacrebleu 2.6.

    Source: Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation"; Post 2018, "A Call for
    Clarity in Reporting BLEU Scores"; smoothing: Chen and Cherry 2014, method 3.

    >>> found = corpus_bleu(["the cat sat on a mat"], ["the cat sat on the mat"])
    >>> round(found.score, 2), [round(precision, 1) for precision in found.precisions]
    (53.73, [83.3, 60.0, 50.0, 33.3])
    """
    sums_K = bleu_statistics(hypotheses, references, tokenizer=tokenizer, lowercase=lowercase).sum(axis=0)
    precisions, penalty = _bleu_parts(sums_K)
    words, reference = sums_K[:2].tolist()
    signature = _signature(references, lowercase, f"eff:no|tok:{tokenizer}|smooth:exp")
    return CorpusBleu(
        float(bleu_score(sums_K)), tuple(precisions.tolist()), float(penalty), words, reference, signature
    )


def bleu_statistics(
    hypotheses: Texts, references: References, *, tokenizer: BleuTokenizer = "13a", lowercase: bool = False
) -> Ints:
    """What each segment adds to BLEU, (N, 10): words, words of the nearest reference, n-grams right, n-grams, by order."""
    found = [np.zeros((0, 2 + 2 * _BLEU_ORDER), dtype=np.int64)]
    for texts_CS, there_RS in _batches(hypotheses, references, lowercase):
        right_ORS, totals_OCS = _matches(texts_CS, _SPLITS[tokenizer], _BLEU_ORDER, pooled=True)
        words_S, references_RS = totals_OCS[0, 0], totals_OCS[0, 1:]
        apart_RS = 2 * np.abs(references_RS - words_S) + (references_RS > words_S)
        nearest_S = np.where(there_RS, apart_RS, np.iinfo(np.int64).max).argmin(axis=0)
        nearest_1S = np.take_along_axis(references_RS, nearest_S[None], axis=0)
        found.append(np.concatenate([words_S[None], nearest_1S, right_ORS[:, 0], totals_OCS[:, 0]]).T)
    return np.concatenate(found)


def bleu_score(sums: npt.NDArray[np.number], *, effective_order: bool = False) -> Floats:
    """BLEU, (...), of statistics or sums of them, (..., 10).

    With `effective_order`, orders without an n-gram are left out of the mean: of the statistics themselves this is the BLEU of
    each segment, equal to sacrebleu's `sentence_bleu`, to look at and not to average.
    """
    precisions, penalty = _bleu_parts(sums)
    orders = (sums[..., 2 + _BLEU_ORDER :] > 0).sum(axis=-1) if effective_order else np.full(penalty.shape, _BLEU_ORDER)
    factors = np.where(np.arange(_BLEU_ORDER) < orders[..., None], precisions, 1.0)
    return np.where(orders > 0, penalty * factors.prod(axis=-1) ** (1 / np.maximum(orders, 1)), 0.0)


def _bleu_parts(sums: npt.NDArray[np.number]) -> tuple[Floats, Floats]:
    """The precisions in percent, (..., 4), and the brevity penalty, (...), of statistics, (..., 10)."""
    sums = np.asarray(sums, dtype=np.float64)
    words, reference = sums[..., 0], sums[..., 1]
    right, totals = sums[..., 2 : 2 + _BLEU_ORDER], sums[..., 2 + _BLEU_ORDER :]
    missed = (right == 0) & (totals > 0)
    halved = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), right)
    precisions = np.where(right.any(axis=-1, keepdims=True), 100 * halved / np.maximum(totals, 1), 0.0)
    penalty = np.where(words > 0, np.exp(np.minimum(1 - reference / np.maximum(words, 1), 0)), reference == 0)
    return precisions, penalty


def corpus_chrf(
    hypotheses: Texts, references: References, *, word_order: int = 0, lowercase: bool = False
) -> CorpusChrf:
    """The chrF, or chrF++ with `word_order` 2, equal to sacrebleu's `corpus_chrf` of the same settings.

        chrF = 100 · (1 + β²) P R / (β² P + R),  β = 2

    P and R are the means of precision and recall over n-grams of 1 to 6 characters, white space left out, and of 1 to
    `word_order` words, at which one mark at the end, or else at the beginning, is a word of its own. Orders that hypotheses or
    references are too short for do not count; of several references, the one by which a segment scores best does.

    Source: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation"; Popović 2017, "chrF++: words helping
    character n-grams".

    >>> round(corpus_chrf(["the cat sat on a mat"], ["the cat sat on the mat"]).score, 2)
    65.98
    """
    found = chrf_statistics(hypotheses, references, word_order=word_order, lowercase=lowercase)
    signature = _signature(references, lowercase, f"eff:yes|nc:{_CHRF_ORDER}|nw:{word_order}|space:no")
    return CorpusChrf(float(chrf_score(found.sum(axis=0))), signature)


def chrf_statistics(hypotheses: Texts, references: References, *, word_order: int = 0, lowercase: bool = False) -> Ints:
    """What each segment adds to chrF, (N, 3 · orders): n-grams of the hypothesis, of the reference, and in both, by order."""
    found = [np.zeros((0, 3 * (_CHRF_ORDER + word_order)), dtype=np.int64)]
    for texts_CS, there_RS in _batches(hypotheses, references, lowercase):
        parts = [_matches(texts_CS, lambda text: "".join(text.split()), _CHRF_ORDER)]
        if word_order:
            parts.append(_matches(texts_CS, _words_and_marks, word_order))
        both_ORS, totals_OCS = (np.concatenate(each) for each in zip(*parts, strict=True))
        reference_ORS = totals_OCS[:, 1:]
        ours_ORS = np.where(reference_ORS > 0, totals_OCS[:, :1], 0)  # an order that the reference is too short for
        each_RSK = np.stack([ours_ORS, reference_ORS, both_ORS]).transpose(2, 3, 1, 0).reshape(*there_RS.shape, -1)
        best_S = np.where(there_RS, chrf_score(each_RSK), -1.0).argmax(axis=0)
        found.append(each_RSK[best_S, np.arange(len(best_S))])
    return np.concatenate(found)


def chrf_score(sums: npt.NDArray[np.number]) -> Floats:
    """The chrF, (...), of statistics or sums of them, (..., 3 · orders); of the rows themselves: of each segment."""
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
_13A_STEPS = (
    (re.compile(r"([{-~[-` -&(-+:-@/])"), r" \1 "),  # ASCII punctuation but ' , - .
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),  # full stop and comma: where no digit stands before them,
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),  # or none after them
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def _tokenize_13a(text: str) -> list[str]:
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "")
    if "&" in text:
        text = text.replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    return list(chain.from_iterable(map(_split_13a, text.split())))


_SPLITS: dict[BleuTokenizer, Split] = {"13a": _tokenize_13a, "none": str.split}


@lru_cache(maxsize=1 << 16)
def _split_13a(word: str) -> tuple[str, ...]:
    """The steps look no further than one character, and white space is as good as any: words can be split one by one."""
    word = f" {word} "
    for pattern, put in _13A_STEPS:
        word = pattern.sub(put, word)
    return tuple(word.split())


def _words_and_marks(text: str) -> list[str]:
    """The words of chrF++: a punctuation mark at the end of a word, or else at its beginning, is split off."""
    found: list[str] = []
    for word in text.split():
        at = len(word) - 1 if word[-1] in string.punctuation else int(word[0] in string.punctuation)
        found += filter(None, (word[:at], word[at:]))
    return found


def _lists(hypotheses: Texts, references: References) -> list[Sequence[str]]:
    """The references of each segment, one or more."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses, but {len(references)} references or lists of them")
    found = [[each] if isinstance(each, str) else each for each in references]
    for segment, texts in enumerate(found):
        if not texts:
            raise ValueError(f"no reference for hypothesis {segment} (from 0)")
    return found


def _batches(
    hypotheses: Texts, references: References, lowercase: bool
) -> Iterator[tuple[list[list[str]], npt.NDArray[np.bool_]]]:
    """Texts of S segments, (C, S), hypotheses and R columns of references, "" where one has fewer; which it has, (R, S)."""
    lists = _lists(hypotheses, references)
    sizes = [len(text) + sum(map(len, texts)) + 1 for text, texts in zip(hypotheses, lists, strict=True)]
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _CHARACTERS_AT_ONCE)) + 1
    for first, end in pairwise([0, *cuts.tolist(), len(lists)] if lists else []):
        columns = [hypotheses[first:end], *zip_longest(*lists[first:end])]
        texts_CS = [[(text or "").lower() if lowercase else text or "" for text in column] for column in columns]
        yield texts_CS, np.array([[text is not None for text in column] for column in columns[1:]])


def _matches(texts_CS: list[list[str]], split: Split, order: int, *, pooled: bool = False) -> tuple[Ints, Ints]:
    """How many n-grams of hypotheses are in references, (O, R, S), and how many each text has, (O, C, S).

    Pooled, R is 1: a reference that has each n-gram as often as the one that has it most often. An n-gram is named by the rank
    of (name of its first n - 1 symbols, last symbol), where that of no symbol is its segment: exact, never of two segments.
    """
    lines = [split(text) for column in texts_CS for text in column]
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    symbols_T = np.fromiter(map(numbers.__getitem__, chain.from_iterable(lines)), dtype=np.int64)
    columns, segments = len(texts_CS), len(texts_CS[0])
    lengths = np.array([len(line) for line in lines])
    text_T = np.repeat(np.arange(len(lines)), lengths)
    left_T = np.cumsum(lengths)[text_T] - np.arange(len(text_T))  # symbols from here to the end of the text
    at, names, segments_M = np.arange(len(text_T)), text_T % segments, np.arange(segments)
    found_ORS = np.zeros((order, 1 if pooled else columns - 1, segments), dtype=np.int64)
    for n in range(order):
        inside = left_T[at] > n
        at, names = at[inside], names[inside]
        kinds_M, names = np.unique(names * len(numbers) + symbols_T[at + n], return_inverse=True)
        segments_M = segments_M[kinds_M // max(len(numbers), 1)]
        places = text_T[at] // segments * len(kinds_M) + names
        counts_CM = np.bincount(places, minlength=columns * len(kinds_M)).reshape(columns, -1)
        for r, others_M in enumerate(counts_CM[1:].max(axis=0, keepdims=True) if pooled else counts_CM[1:]):
            found_ORS[n, r] = np.bincount(segments_M, np.minimum(counts_CM[0], others_M), segments)
    return found_ORS, np.maximum(lengths.reshape(columns, -1) - np.arange(order)[:, None, None], 0)


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


def _signature(references: References, lowercase: bool, options: str) -> str:
    counts = {1 if isinstance(each, str) else len(each) for each in references}
    nrefs, case = counts.pop() if len(counts) == 1 else "var", "lc" if lowercase else "mixed"
    return f"nrefs:{nrefs}|case:{case}|{options}|version:wordpipe-{__version__}"
