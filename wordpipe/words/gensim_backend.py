"""word2vec by gensim's compiled kernels, on the packed files of `corpus_file`.

The kernels are called per part instead of through `Word2Vec.train(corpus_file=...)`, because that splits one file among
its threads by bytes (ranges trained twice or never), lets the learning rate fall only a `1 / threads` part of its way in
each epoch, and cannot be interrupted. With one thread and one part the numbers are the same as from `train`, to the bit.
"""

import copy
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError, DivergedError
from wordpipe.runtime import StopFlag, cpu_count
from wordpipe.words.corpus_file import CorpusFiles, Part
from wordpipe.words.probe import Probe
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.step import Step
from wordpipe.words.vocabulary import Vocabulary

__all__ = ["GensimTraining", "require_gensim", "threads_of"]


def require_gensim() -> None:
    """Check that gensim is there, before any work is done.

    Raises:
        ConfigError: it is not installed.
    """
    if importlib.util.find_spec("gensim") is None:
        raise ConfigError(
            "training word2vec needs gensim, which is not installed",
            where="backend",
            expected="gensim 4.4 or newer",
            hint="pip install gensim; it has no wheel for Python 3.14 yet, so use Python 3.11 to 3.13",
        )


def threads_of(settings: Word2VecPlan) -> int:
    """How many threads the gensim backend trains with."""
    if settings.deterministic:
        return 1
    return settings.threads or cpu_count()


class GensimTraining:
    """One training: a fresh model, and the steps that train it.

    Args:
        text: the packed training text.
        vocabulary: its rows and counts.
        settings: the settings.
        probe: what the loss is measured on, or None for no loss.

    Attributes:
        threads: threads that train.
        bitwise: True for one thread: the same input then gives the same bytes.
    """

    def __init__(
        self, text: CorpusFiles, vocabulary: Vocabulary, settings: Word2VecPlan, probe: Probe | None = None
    ) -> None:
        require_gensim()
        self.threads = threads_of(settings)
        self.bitwise = self.threads == 1
        self._text = text
        self._settings = settings
        self._probe = probe
        self.device = "cpu"
        self.progress: dict[str, float] = {}
        self._model = _untrained(vocabulary, settings)

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """The words' vectors (V, D), in the order of the vocabulary."""
        vectors: npt.NDArray[np.float32] = self._model.wv.vectors
        return vectors

    @property
    def outputs(self) -> npt.NDArray[np.float32]:
        """The output vectors (V, D), in the order of the vocabulary."""
        outputs: npt.NDArray[np.float32] = self._model.syn1neg
        return outputs

    def arrays(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """Nothing: gensim's training cannot be continued."""
        return {}

    def steps(self, flag: StopFlag, due: Callable[[], bool] = lambda: False) -> Iterator[Step]:
        """Train; a report after every part, with the loss of the probe at the end of each epoch. It never rests.

        Raises:
            Stopped: the flag rose; the vectors are then unfinished.
            DivergedError: the vectors are no longer finite.
        """
        from gensim.models.word2vec_corpusfile import CythonVocab

        start = time.monotonic()
        words = CythonVocab(self._model.wv)
        total, tokens = self._total, 0
        for epoch in range(1, self._settings.epochs + 1):
            for part in self._train_epoch(words, tokens, total, flag):
                tokens += part.words
                at_end = tokens == epoch * self._text.words
                loss = self._measure(epoch) if at_end else None
                split = self._probe.split if self._probe is not None and at_end else "train"
                yield Step(epoch, tokens, total, split, loss, self._lr(tokens / total), time.monotonic() - start)

    @property
    def _total(self) -> int:
        return self._text.words * self._settings.epochs

    def _train_epoch(self, words: Any, tokens: int, total: int, flag: StopFlag) -> Iterator[Part]:
        """Train every part once, several at a time; gives each as soon as it and all before it are done."""
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="word2vec")
        try:
            futures = []
            for part in self._text.parts:
                futures.append((part, pool.submit(self._train_part, part, words, tokens / total, flag)))
                tokens += part.words
            for part, future in futures:
                future.result()
                flag.raise_if_set()
                yield part
        finally:
            pool.shutdown(cancel_futures=True)

    def _train_part(self, part: Part, words: Any, progress: float, flag: StopFlag) -> None:
        """Train one part; `progress` is the share of the whole training that lies before it."""
        if flag.signum is not None:
            return
        total = self._total
        model = copy.copy(self._model)  # shares the matrices; its own learning rate
        model.alpha, model.min_alpha = self._lr(progress), self._lr(progress + part.words / total)
        expected = part.words + part.marks
        memory = model._get_thread_working_mem()
        _, _, read = model._do_train_epoch(str(part.path), 0, 0, words, memory, 0, total_words=expected)
        assert read == expected, f"gensim read {read} of {expected} words of {part.path.name}"

    def _lr(self, progress: float) -> float:
        """Linear decay from `lr` to `min_lr`."""
        return self._settings.lr - (self._settings.lr - self._settings.min_lr) * progress

    def _measure(self, epoch: int) -> float | None:
        """The loss after an epoch."""
        if not (np.isfinite(self.vectors).all() and np.isfinite(self.outputs).all()):
            raise DivergedError(
                "the word vectors are no longer finite",
                where=f"epoch {epoch}",
                hint=f"lower --lr (it was {self._settings.lr})",
            )
        return None if self._probe is None else self._probe.loss(self.vectors, self.outputs)


def _untrained(vocabulary: Vocabulary, settings: Word2VecPlan) -> Any:
    """A gensim model with this vocabulary, its rows in our order, and its initial vectors."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=settings.dim,
        window=settings.window,
        min_count=1,  # rare words are already gone
        workers=1,  # each call of a kernel trains one whole part
        sg=int(settings.architecture == "skipgram"),
        hs=0,
        negative=settings.negatives,
        ns_exponent=settings.ns_exponent,
        sample=settings.subsample,
        alpha=settings.lr,
        min_alpha=settings.min_lr,
        epochs=1,
        seed=settings.seed,
        sorted_vocab=0,  # gensim's sort turns words of equal count around
    )
    model.build_vocab_from_freq({str(row): int(count) for row, count in enumerate(vocabulary.counts)})
    return model
