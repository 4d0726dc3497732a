"""Texts to what a head says of them: labels with probabilities, scores, spans with their places; answers: `answers`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.heads.calibration import Floats, Kind, probabilities_of
from wordpipe.heads.labels import best_tags, chunks_of, words_of

if TYPE_CHECKING:  # torch comes with the first model of it: a static head does without
    from tokenizers import Tokenizer

    from wordpipe.heads.examples import Encoded
    from wordpipe.model import HeadedModel

_TEXTS_AT_ONCE = 1024  # read before those of about one length are computed together
_IDS_AT_ONCE = 16_384

Text = tuple[str, ...]
"""A text, or a pair."""


@dataclass(frozen=True)
class Classified:
    """The answer of a classifier to a text.

    Attributes:
        labels: those that it has, the most probable first; of a score none.
        probabilities: of every label, in the model's order; of a score none.
        score: the number, where that is what was learned.
        cut: tokens that were not read, because the model is shorter.
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    score: float | None
    cut: int


@dataclass(frozen=True)
class TaggedSpan:
    """A labelled span of a tagged text.

    Attributes:
        start: its first character.
        end: the character after its last one.
        label: what it is.
        text: the characters.
        probability: of its tags, the mean over its words.
    """

    start: int
    end: int
    label: str
    text: str
    probability: float


@dataclass(frozen=True)
class Tagged:
    """The answer of a tagger to a text.

    Attributes:
        tags: one a word, as white space parts them; O where the model did not read the word.
        spans: what they mean.
        cut: words that were not read, because the model is shorter.
    """

    tags: tuple[str, ...]
    spans: tuple[TaggedSpan, ...]
    cut: int


@dataclass(frozen=True)
class Answered:
    """The answer of a reader to a question.

    Attributes:
        answer: the characters of the passage; empty: it has none.
        start: its first character; -1: it has none.
        end: the character after its last one; -1 likewise.
        probability: of what is said: of the answer, or that there is none.
        no_answer: that the passage has none.
        score: of the best answer, over that of none, as the model has it: by it answers of several passages are compared.
        cut: tokens of the question that were not read.
    """

    answer: str
    start: int
    end: int
    probability: float
    no_answer: float
    score: float
    cut: int


Prediction = Classified | Tagged | Answered
"""What is said of a text."""


def classified(
    scores_V: Floats, labels: Sequence[str], problem: str, temperature: float, thresholds: npt.NDArray[np.floating], cut: int
) -> Classified:  # fmt: skip
    """Return the predicted labels that the scores of a text mean.

    Args:
        scores_V: of the head.
        labels: their names.
        problem: `single_label`, `multi_label` or `regression`.
        temperature: what logits are divided by, see `calibration`.
        thresholds: of several labels: the probability from which on each is given, (V,).
        cut: tokens that were not read.
    """
    if problem == "regression":
        return Classified((), (), float(scores_V[0]), cut)
    kind: Kind = "single" if problem == "single_label" else "several"
    known_V = probabilities_of(scores_V[None], temperature, kind)[0]
    ranked = np.argsort(-known_V, kind="stable")
    chosen = ranked[:1] if kind == "single" else [place for place in ranked if known_V[place] >= thresholds[place]]
    return Classified(tuple(labels[place] for place in chosen), tuple(map(float, known_V)), None, cut)


def tagged(
    text: str, scores_WV: Floats, read: npt.NDArray[np.bool_], labels: Sequence[str], temperature: float
) -> Tagged:
    """Return the predicted tags that the scores of a text's words mean; the sequence of tags is a legal one.

    Args:
        text: as it was given.
        scores_WV: of the words that were read.
        read: which words of the text these are.
        labels: the names of the scores.
        temperature: what logits are divided by.
    """
    words, known_WV = words_of(text), probabilities_of(scores_WV, temperature, "single")
    best = best_tags(np.log(np.maximum(known_WV, 1e-300)), labels)
    place = {tag: number for number, tag in enumerate(labels)}
    found, sure = iter(best), iter([row[place[tag]] for row, tag in zip(known_WV, best, strict=True)])
    tags = tuple(next(found) if one else "O" for one in read)
    sure_W = np.array([next(sure) if one else 1.0 for one in read])
    spans = []
    for label, first, end in chunks_of(tags):
        start, stop = words[first][0], words[end - 1][1]
        spans.append(TaggedSpan(start, stop, label, text[start:stop], float(sure_W[first:end].mean())))
    return Tagged(tags, tuple(spans), int((~read).sum()))


class HeadPredictor:
    """Predictor by a model with a head: texts in batches of about one length, without padding."""

    def __init__(self, model: "HeadedModel", tokenizer: "Tokenizer", max_len: int, temperature: float) -> None:
        from wordpipe.heads.examples import TextEncoder

        self.model, self.temperature = model.eval(), temperature
        self._encoder = TextEncoder(tokenizer, min(max_len, model.config.max_len))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the scores."""
        return self.model.head_config.labels

    def _scored(self, texts: Iterator[Text], *, words: bool) -> Iterator[tuple[Text, "Encoded", np.ndarray[Any, Any]]]:
        """Yield the texts of a stream with their scores, in their order."""
        while some := list(islice(texts, _TEXTS_AT_ONCE)):
            encoded = self._encoder.encode(some, words=words)
            yield from zip(some, encoded, self._scores(encoded), strict=True)

    def _scores(self, encoded: Sequence["Encoded"]) -> list[np.ndarray[Any, Any]]:
        """Return the scores of texts to predict, in batches of about one length."""
        found: list[Any] = [None] * len(encoded)
        order = sorted(range(len(encoded)), key=lambda place: len(encoded[place].ids))
        while order:
            size, here = 0, list[int]()
            while order and (not here or size + len(encoded[order[0]].ids) <= _IDS_AT_ONCE):
                size += len(encoded[order[0]].ids)
                here.append(order.pop(0))
            for place, scores in zip(*self._batch([encoded[place] for place in here]), strict=True):
                found[here[int(place)]] = scores
        return found

    def _batch(self, some: Sequence["Encoded"]) -> tuple[Any, list[np.ndarray[Any, Any]]]:
        """Return the places and the scores of a batch of texts to predict."""
        import torch

        from wordpipe.heads.examples import segments_of
        from wordpipe.model import pack

        lengths = np.array([len(one.ids) for one in some], np.int64)
        device = self.model.embedding.device
        packed, segments = pack(np.concatenate([one.ids for one in some]), lengths).to(device), None
        if self.model.config.segments:
            which = segments_of(lengths, np.array([one.second for one in some], np.int64))
            segments = pack(which, lengths).ids.to(device)
        with torch.inference_mode():
            scores = self.model.scores_packed(packed, segments).float().cpu()
        if self.model.head_config.kind == "sequence":
            return packed.order, list(scores.numpy())
        return packed.order, [row for run in packed.runs(scores) for row in run.numpy()]


class Classifier(HeadPredictor):
    """Predictor of labels of texts, or of pairs.

    Args:
        model: with a head for sequences.
        tokenizer: its tokenizer, with its template.
        max_len: tokens of a text that are read.
        temperature: what logits are divided by, see `calibration`.
        thresholds: of several labels: the probability from which on each is given; None: 0.5.
    """

    def __init__(
        self, model: "HeadedModel", tokenizer: "Tokenizer", *, max_len: int, temperature: float = 1.0,
        thresholds: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(model, tokenizer, max_len, temperature)
        self.thresholds = np.array(thresholds if thresholds is not None else [0.5] * len(self.labels))

    def predict(self, texts: Iterator[Text]) -> Iterator[Classified]:
        """Yield the prediction for each text, in their order."""
        problem = self.model.head_config.problem
        for _, encoded, scores_V in self._scored(texts, words=False):
            yield classified(scores_V, self.labels, problem, self.temperature, self.thresholds, encoded.cut)


class Tagger(HeadPredictor):
    """Predictor of tags of words, as white space parts them, and the spans that they mean.

    Args:
        model: with a head for tokens.
        tokenizer: its tokenizer, with its template.
        max_len: tokens of a text that are read.
        temperature: what logits are divided by.
    """

    def __init__(self, model: "HeadedModel", tokenizer: "Tokenizer", *, max_len: int, temperature: float = 1.0) -> None:
        super().__init__(model, tokenizer, max_len, temperature)

    def predict(self, texts: Iterator[Text]) -> Iterator[Tagged]:
        """Yield the tags of each text, in their order; sequences of tags are legal ones."""
        for (text, *_), encoded, scores_TV in self._scored(texts, words=True):
            read = encoded.firsts >= 0
            yield tagged(text, scores_TV[encoded.firsts[read]], read, self.labels, self.temperature)
