"""word2vec by gensim, an epoch at a time, from an iterable of its words.

gensim cuts a list of more than 10,000 words, so longer texts are given to it in several lists and no word is lost. Its fast
path from files (`corpus_file`) is not used: it cuts jobs at 10,000 words too, and of several threads trains some parts of the
file twice and others never.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.runtime import StopFlag, cpu_count
from wordpipe.words.heldout_loss import HeldOutLoss
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.training import Step, not_finite
from wordpipe.words.vocabulary import TrainingText, Vocabulary

_LONGEST = 10_000  # words of a list that gensim trains in full
_AT_ONCE = 1_000_000  # words read together; a text that goes on beyond them is cut, which costs a few pairs


def require_gensim() -> None:
    """Check that gensim is there, before any work is done.

    Raises:
        ConfigError: it is not installed.
    """
    if importlib.util.find_spec("gensim") is None:
        hint = "pip install 'wordpipe[train]' with Python 3.11 to 3.13, because gensim has no wheel for Python 3.14 yet"
        what, expected = "this backend needs gensim, which is not installed", "gensim 4.4 or newer"
        raise ConfigError(what, where="backend", expected=expected, hint=hint)


class GensimTraining:
    """One training: a fresh model, and the steps that train the model, with the interface of `NativeTraining`.

    Attributes:
        total: words that will have been trained at the end; may be changed on the way.
        stretch: words that gensim is given at once, an epoch at most; a text that goes on beyond them is cut.
    """

    def __init__(
        self, text: TrainingText, vocabulary: Vocabulary, settings: Word2VecPlan, held_out: HeldOutLoss | None = None
    ) -> None:
        from gensim.models import Word2Vec

        self.threads = 1 if settings.deterministic else settings.threads or cpu_count()
        self.bitwise = self.threads == 1
        self.progress: dict[str, float] = {}
        self.total = text.words * settings.epochs
        self.stretch = text.words
        self._text, self._settings, self._held_out = text, settings, held_out
        self._read = 0  # words that gensim was given
        self._problem: OSError | None = None  # with the text; raised in gensim's thread it would leave others waiting
        self._model: Any = Word2Vec(
            vector_size=settings.dim, window=settings.window, sg=int(settings.architecture == "skipgram"), hs=0,
            negative=settings.negatives, ns_exponent=settings.ns_exponent, sample=settings.subsample,
            min_count=1,  # rare words are already gone
            sorted_vocab=0,  # gensim's sort turns words of equal count around
            workers=self.threads, seed=settings.seed,
        )  # fmt: skip
        self._model.build_vocab_from_freq({str(row): int(count) for row, count in enumerate(vocabulary.counts)})

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Return the words' vectors (V, D), in the order of the vocabulary."""
        vectors: npt.NDArray[np.float32] = self._model.wv.vectors
        return vectors

    @property
    def outputs(self) -> npt.NDArray[np.float32]:
        """Return the output vectors (V, D), in the order of the vocabulary."""
        outputs: npt.NDArray[np.float32] = self._model.syn1neg
        return outputs

    def arrays(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return no arrays: gensim's training cannot be continued."""
        return {}

    def steps(self, flag: StopFlag, due: Callable[[], bool] = lambda: False) -> Iterator[Step]:
        """Train by gensim; a report before each stretch, and at the end of an epoch with the held-out loss.

        Raises:
            Stopped: the flag rose; the vectors are then unfinished.
            DivergedError: the vectors are no longer finite.
        """
        start, done, words = time.monotonic(), 0, self._text.words

        def step(epoch: int, split: str = "train", loss: float | None = None) -> Step:
            lr = self._lr(min(1.0, self._read / self.total))
            return Step(epoch, self._read, self.total, split, loss, lr, time.monotonic() - start)

        while done < self.total:
            # a stretch of the epoch, with the learning rates of its ends
            epoch, begin = done // words + 1, done % words
            yield step(epoch)
            end = min(words, begin + self.stretch, begin + self.total - done)
            first, last = (self._lr(at / self.total) for at in (done, done + end - begin))
            self._model.train(
                self._lists(flag, begin, end), total_words=end - begin, epochs=1, start_alpha=first, end_alpha=last
            )
            # stopped, failed or overflowed: an error
            flag.raise_if_set()
            if self._problem is not None:
                raise self._problem
            if not (np.isfinite(self.vectors).all() and np.isfinite(self.outputs).all()):
                raise not_finite(epoch, self._settings)
            # at the end of an epoch the held-out loss
            done += end - begin
            if self._held_out is None or (end < words and done < self.total):
                yield step(epoch)
            else:
                yield step(epoch, self._held_out.split, self._held_out.loss(self.vectors, self.outputs))

    def _lists(self, flag: StopFlag, begin: int, end: int) -> Iterator[list[str]]:
        """Yield a stretch as gensim's words, a list for each text, until the flag rises."""
        names = self._model.wv.index_to_key
        for at in range(begin, end, _AT_ONCE):
            try:
                rows = self._text.read(at, min(end, at + _AT_ONCE))
            except OSError as error:
                self._problem = error
                return
            bounds = np.unique(np.concatenate([[0], np.flatnonzero(rows < 0), [len(rows)]])).tolist()
            whole = np.where(rows < 0, ~rows, rows).tolist()
            for this, after in pairwise(bounds):
                for first in range(this, after, _LONGEST):
                    if flag.signum is not None:
                        return
                    some = [names[row] for row in whole[first : min(first + _LONGEST, after)]]
                    self._read += len(some)
                    yield some

    def _lr(self, progress: float) -> float:
        """Return the learning rate, which falls linearly from `lr` to `min_lr`."""
        return self._settings.lr - (self._settings.lr - self._settings.min_lr) * progress
