"""Baselines of heads: labels, tags and answers without a transformer, so that a low score is not taken for learning.

    majority     what most training texts are, for every text
    tfidf        TF-IDF of words and pairs of words, and a linear model: logistic regression, ridge regression for scores
    gazetteer    the spans of the training texts by heart: the longest match, with its commonest tags
    sentence     the sentence of a passage that answers a question best by BM25

The linear models are those of scikit-learn (`LogisticRegression(C=10)`, one for each label where a text may have several,
`Ridge(alpha=1)`), which the tests compare; it is no dependency of ours.

Shapes: N texts, F features, V outputs.

Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification"; for gazetteers the
baseline of the CoNLL-2003 shared task (Tjong Kim Sang and De Meulder 2003, section 3).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from wordpipe.corpus import split_sentences
from wordpipe.heads.labels import OUTSIDE, chunks_of
from wordpipe.search import LexicalIndex, Tfidf
from wordpipe.search.settings import LexicalSettings
from wordpipe.sparse import SparseRows

Floats = npt.NDArray[np.float64]
Outputs = Literal["single", "several", "score"]
T = TypeVar("T", bound=Hashable)

_WORD = re.compile(r"\w\w+")
_PENALTY = {"single": 0.1, "several": 0.1, "score": 1.0}  # 1 / C of the regressions, alpha of the ridge
_MOST_WEIGHTS = 1 << 22  # F × V; L-BFGS holds some 25 times as many float64
_ROUNDS, _REMEMBERED, _TRIED = 1_000, 10, 40  # steps of L-BFGS; those it bends by; calls for each
_FLAT, _LITTLE = 1e-5, 1e-10  # where it ends
_PASSAGES = 64  # whose sentences are kept, for the next question on them


def commonest(values: Iterable[T]) -> T:
    """Return the most frequent label or tag, the baseline that reads nothing; of equals the first by its name.

    >>> commonest(["b", "a", "b", "a"])
    'a'
    """
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], str(value)))


def terms_of(texts: tuple[str, ...]) -> list[str]:
    """Return a text's TF-IDF terms: words of two letters or more and pairs of neighbours; of pairs of texts also shared words.

    >>> terms_of(("The old mill",))
    ['the', 'old', 'mill', 'the old', 'old mill']
    """
    found: list[str] = []
    for number, text in enumerate(texts):
        words = _WORD.findall(text.lower())
        terms = words + [f"{one} {other}" for one, other in pairwise(words)]
        found += [f"{number}:{term}" for term in terms] if number else terms
    if len(texts) > 1:
        one, other = ({*_WORD.findall(text.lower())} for text in texts)
        found += [f"=:{word}" for word in sorted(one & other)]
    return found


@dataclass(frozen=True)
class TfidfModel:
    """The baseline of classifiers: TF-IDF and a linear model.

    Attributes:
        tfidf: of the training texts.
        kept: columns of its terms that have weights, (F,), int64: all, but where they would be too many.
        labels: names of the outputs; of a score none.
        weights: of each feature for each output, (F, V).
        bias: of each output, (V,).
        outputs: what the outputs mean.
    """

    tfidf: Tfidf
    kept: npt.NDArray[np.int64]
    labels: tuple[str, ...]
    weights: Floats
    bias: Floats
    outputs: Outputs

    @classmethod
    def fit(cls, texts: Sequence[tuple[str, ...]], wanted: Sequence[Any], outputs: Outputs) -> "TfidfModel":
        """Learn a baseline from N texts, or N pairs of texts.

        Args:
            texts: one or two strings each.
            wanted: a label, a collection of labels, or a number of each.
            outputs: which of these.
        """
        tfidf = Tfidf.fit(texts, terms_of)
        names = sorted({*wanted}) if outputs == "single" else sorted({name for some in wanted for name in some}) \
            if outputs == "several" else []  # fmt: skip
        place = {name: number for number, name in enumerate(names)}
        features_NF = _in_float64(tfidf.vectors(texts))
        n_outputs = 1 if outputs == "score" or (len(names) == 2 and outputs == "single") else max(1, len(names))
        kept = _commonest_columns(features_NF, _MOST_WEIGHTS // n_outputs)
        features_NF = features_NF.narrowed(kept)
        if outputs == "score":
            wanted_NV = np.array(wanted, np.float64)[:, None]
            weights_FV, bias_V = fit_linear(features_NF, wanted_NV, _squared, _PENALTY[outputs])
        elif outputs == "several" or len(names) == 2:
            # of two labels that part all texts between them one number says which, as in scikit-learn
            wanted_NV = np.zeros((len(texts), n_outputs))
            for row, some in enumerate(wanted):
                for name in some if outputs == "several" else [some] * (some == names[1]):
                    wanted_NV[row, place[name] if outputs == "several" else 0] = 1.0
            weights_FV, bias_V = fit_linear(features_NF, wanted_NV, _sigmoid, _PENALTY[outputs])
        else:
            wanted_NV = np.eye(len(names))[[place[name] for name in wanted]]
            weights_FV, bias_V = fit_linear(features_NF, wanted_NV, _softmax, _PENALTY[outputs])
        return cls(tfidf, kept, tuple(names), weights_FV, bias_V, outputs)

    def scores(self, texts: Sequence[tuple[str, ...]]) -> Floats:
        """Return the logits, or scores, of texts, (N, V); of two labels alone those of the second, (N, 1)."""
        return _in_float64(self.tfidf.vectors(texts)).narrowed(self.kept) @ self.weights + self.bias

    def predict(self, texts: Sequence[tuple[str, ...]]) -> list[Any]:
        """Return the baseline's label, tuple of labels, or number for each text."""
        scores_NV = self.scores(texts)
        if self.outputs == "score":
            return [float(one) for one in scores_NV[:, 0]]
        if self.outputs == "several":
            return [tuple(self.labels[place] for place in np.flatnonzero(row > 0)) for row in scores_NV]
        places = (scores_NV[:, 0] > 0).astype(int) if len(self.labels) == 2 else scores_NV.argmax(1)
        return [self.labels[int(place)] for place in places]


def _in_float64(features_NF: SparseRows) -> SparseRows:
    return features_NF.with_values(features_NF.values.astype(np.float64))


def _commonest_columns(features_NF: SparseRows, most: int) -> npt.NDArray[np.int64]:
    """Return the columns of terms that stand in most texts, in their order; all, where they are no more than `most`."""
    texts_F = np.bincount(features_NF.columns, minlength=features_NF.shape[1])
    return np.sort(np.argsort(-texts_F, kind="stable")[: max(1, most)])


Loss = Callable[[Floats, Floats], tuple[float, Floats]]
"""Scores (N, V) and what is wanted, (N, V), to the loss summed over all and its gradient by the scores, (N, V)."""


def fit_linear(features_NF: SparseRows, wanted_NV: Floats, loss: Loss, penalty: float) -> tuple[Floats, Floats]:
    """Return the weights (F, V) and bias (V,) of a linear baseline with the least penalised loss, by L-BFGS.

    The loss is divided by N in the search: the gradient at which it ends (1e-5) then means the same for few texts and many.

    Args:
        features_NF: of N texts, float64.
        wanted_NV: what is to be.
        loss: of scores.
        penalty: of the weights; the bias has none.
    """
    (N, F), V, turned_FN = features_NF.shape, wanted_NV.shape[1], features_NF.turned()

    def value(flat: Floats) -> tuple[float, Floats]:
        weights_FV, bias_V = flat[: F * V].reshape(F, V), flat[F * V :]
        total, gradient_NV = loss(features_NF @ weights_FV + bias_V, wanted_NV)
        gradient_FV = turned_FN @ gradient_NV + penalty * weights_FV
        total += penalty / 2 * float((weights_FV * weights_FV).sum())
        return total / N, np.concatenate([gradient_FV.ravel(), gradient_NV.sum(0)]) / N

    found = _lowest(value, np.zeros((F + 1) * V))
    return found[: F * V].reshape(F, V), found[F * V :]


def _lowest(value: Callable[[Floats], tuple[float, Floats]], at: Floats) -> Floats:
    """Return where a convex function is lowest, by torch's L-BFGS: the baselines' loss of their weights.

    It ends where no slope is above 1e-5 or a step takes less than 1e-10 away, or after 1,000 steps.

    Args:
        value: the function and its gradient.
        at: where to begin.

    Source: Nocedal and Wright 2006, "Numerical Optimization", algorithms 3.5, 3.6 and 7.5.
    """
    import torch

    found = torch.from_numpy(at.copy())

    def loss() -> float:
        total, gradient = value(found.numpy())
        found.grad = torch.from_numpy(gradient)
        return total

    search = torch.optim.LBFGS(
        [found], max_iter=_ROUNDS, max_eval=_TRIED * _ROUNDS, history_size=_REMEMBERED, tolerance_grad=_FLAT,
        tolerance_change=_LITTLE, line_search_fn="strong_wolfe",
    )  # fmt: skip
    search.step(loss)  # type: ignore[no-untyped-call]
    return found.numpy()


def _softmax(scores_NV: Floats, wanted_NV: Floats) -> tuple[float, Floats]:
    shifted_NV = scores_NV - scores_NV.max(1, keepdims=True)
    total_N1 = np.log(np.exp(shifted_NV).sum(1, keepdims=True))
    return float(((total_N1 - shifted_NV) * wanted_NV).sum()), np.exp(shifted_NV - total_N1) - wanted_NV


def _sigmoid(scores_NV: Floats, wanted_NV: Floats) -> tuple[float, Floats]:
    loss = float(np.logaddexp(0.0, np.where(wanted_NV == 1, -scores_NV, scores_NV)).sum())
    return loss, np.exp(-np.logaddexp(0.0, -scores_NV)) - wanted_NV


def _squared(scores_NV: Floats, wanted_NV: Floats) -> tuple[float, Floats]:
    off_NV = scores_NV - wanted_NV
    return float((off_NV * off_NV).sum()) / 2, off_NV


@dataclass(frozen=True)
class Gazetteer:
    """The baseline of taggers: the spans of tagged texts, by heart.

    Attributes:
        tags: words of a span → its tags as they came most often.
        longest: words of the longest one.
        usual: the tag of a word that is in none: the commonest one of all.
    """

    tags: dict[tuple[str, ...], tuple[str, ...]]
    longest: int
    usual: str

    @classmethod
    def fit(cls, texts: Iterable[Sequence[str]], tags: Iterable[Sequence[str]]) -> "Gazetteer":
        """Learn the baseline of tags from the words of texts and their tags."""
        seen: defaultdict[tuple[str, ...], Counter[tuple[str, ...]]] = defaultdict(Counter)
        every: Counter[str] = Counter()
        for words, own in zip(texts, tags, strict=True):
            every.update(own)
            for _, first, end in chunks_of(own):
                seen[tuple(words[first:end])][tuple(own[first:end])] += 1
        known = {span: min(found, key=lambda one: (-found[one], one)) for span, found in seen.items()}
        usual = OUTSIDE if not every else commonest(every.elements())
        return cls(known, max(map(len, known), default=0), usual)

    def predict(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the baseline's tags of a text's words: from left to right the longest span that is known."""
        found: list[str] = []
        while len(found) < len(words):
            at = len(found)
            for size in range(min(self.longest, len(words) - at), 0, -1):
                if (tags := self.tags.get(tuple(words[at : at + size]))) is not None:
                    found += tags
                    break
            else:
                found.append(self.usual)
        return tuple(found)


def best_sentence(passage: str, question: str) -> str:
    """Return the sentence of a passage with the highest BM25 for a question: the baseline of readers.

    The first one where none has a word of the question.
    """
    sentences, index = _sentences(passage)
    if index is None:
        return sentences[0] if sentences else ""
    hits = index.search([question], 1)[0]
    return sentences[int(hits.rows[0])] if len(hits) else sentences[0]


@lru_cache(maxsize=_PASSAGES)
def _sentences(passage: str) -> tuple[list[str], LexicalIndex | None]:
    """Return the sentences of a passage, and their BM25 index where there is a choice."""
    found = [one.strip() for one in split_sentences(passage) if one.strip()]
    return found, LexicalIndex.build(found, LexicalSettings()) if len(found) > 1 else None
