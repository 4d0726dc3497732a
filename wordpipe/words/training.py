"""The native word2vec training: threads that train chunks of the text side by side on shared vectors, without locks.

Two threads that change one vector at the same time may lose a part of one change; that costs nothing measurable (Recht et al.
2011, "Hogwild!"), but makes runs differ. With one thread a run is a pure function of text, settings and seed, and goes on
exactly from any job.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import kernel
from wordpipe.errors import DivergedError
from wordpipe.runtime import StopFlag, cpu_count
from wordpipe.words.heldout_loss import HeldOutLoss, keep_probabilities, noise_distribution
from wordpipe.words.kernels.draws_and_huffman import Noise, Tree, keep_limits, key_of
from wordpipe.words.kernels.simd import padded
from wordpipe.words.kernels.skipgram_cbow import (
    NEGATIVE,
    SOFTMAX,
    TREE,
    Objective,
    Rows,
    Windows,
    scratch_size,
    train_chunk,
)
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.vocabulary import TrainingText, Vocabulary

_SHOW_SECONDS = 0.2
_MAX_PRODUCTS = 10**10  # numbers multiplied in one job: seconds at most
_HOT = 1_024  # rows that each thread has a copy of: CBOW, 100 MB, two threads: 4.4 million words/s, not 2.7
_UNSEEN = 64  # windows of all threads together that may change such a row before they see each other's changes
_MAX_MARGIN = 65_536  # words looked at beyond a chunk, enough to hold the window of its last word nearly always
_BLOCK = 65_536  # rows looked at together
_SKIPPING, _REACH, _NOISE = range(3)  # what random numbers are for
_INPUTS, _NGRAMS = 0x1217, 0x6261  # separate the initial draws from each other and from every other use of the seed

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One report of a word2vec training.

    At the end of each epoch there is a `loss`, in nats: for `train` the mean over all predictions of the epoch, as each was
    made, where the backend counts them (native: no score counts as beyond 30); for `valid` the mean over a fixed sample of
    held-out text.
    """

    epoch: int  # the epoch it belongs to, from 1
    tokens: int  # words seen so far, over all epochs
    total: int  # words that will have been seen at the end
    split: str  # what `loss` was measured on, `train` or `valid`; `train` where there is none
    loss: float | None
    lr: float  # learning rate reached
    seconds: float  # since the start, or since this training was taken up again
    resting: bool = False  # nothing is being trained: the weights and the position belong together, and may be kept


class Parts(NamedTuple):
    """The n-grams that words are made of: those of row r are `numbers[starts[r] : starts[r + 1]]`, below `total`."""

    starts: Offsets
    numbers: Ints
    total: int


_NO_PARTS = Parts(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), 0)
_NO_TREE = Tree(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))


@dataclass(frozen=True, slots=True)
class Weights:
    """Rows of float32, padded with zeros to a multiple of `simd.LANES`."""

    dim: int  # numbers of a row that mean something, D
    inputs: Floats  # (V, padded D), what predicts
    outputs: Floats  # (V or nodes, padded D), what is predicted
    ngrams: Floats  # (G, padded D), parts of the words

    @classmethod
    def initial(cls, dim: int, n_words: int, n_outputs: int, n_ngrams: int, seed: int) -> "Weights":
        """Return the weights before word2vec's training: inputs uniform within 1 / D of zero, outputs zero.

        word2vec.c takes half of that, which CBOW grows out of more slowly: 2.579 nats held out after two epochs of 10 MB
        instead of 2.566.
        """
        return cls(
            dim,
            _random_rows(n_words, dim, np.random.default_rng([seed, _INPUTS])),
            np.zeros((n_outputs, padded(dim)), dtype=np.float32),
            _random_rows(n_ngrams, dim, np.random.default_rng([seed, _NGRAMS])),
        )

    def arrays(self) -> Mapping[str, Floats]:
        """Return all arrays by name."""
        return {"inputs": self.inputs, "outputs": self.outputs, "ngrams": self.ngrams}

    def words(self, part_starts: Offsets, parts: Ints) -> Floats:
        """Return the trained words' vectors, (V, D): their own rows, or the mean with those of their n-grams."""
        if not len(part_starts):
            return self.inputs[:, : self.dim]
        composed = np.empty((len(self.inputs), self.dim), dtype=np.float32)
        _add_ngrams(self.inputs, part_starts, parts, self.ngrams, composed)
        return composed

    def finite(self) -> bool:
        """True if every number is finite."""
        return all(
            bool(np.isfinite(array[first : first + _BLOCK]).all())
            for array in self.arrays().values()
            for first in range(0, len(array), _BLOCK)
        )


def _random_rows(n: int, dim: int, rng: np.random.Generator) -> Floats:
    """Return the vectors of n words or n-grams before training: uniform within 1 / D of zero."""
    rows = np.zeros((n, padded(dim)), dtype=np.float32)
    for first in range(0, n, _BLOCK):
        some = rows[first : first + _BLOCK, :dim]
        some[:] = (2 * rng.random(some.shape, dtype=np.float32) - 1) / np.float32(dim)
    return rows


@kernel
def _add_ngrams(inputs: Floats, part_starts: Offsets, parts: Ints, ngrams: Floats, composed: Floats) -> None:
    dim = composed.shape[1]
    for row in range(len(composed)):
        total = inputs[row, :dim].copy()
        for at in range(part_starts[row], part_starts[row + 1]):
            total += ngrams[parts[at], :dim]
        composed[row] = total / np.float32(1 + part_starts[row + 1] - part_starts[row])


@kernel
def _subtract_ngrams(
    inputs: Floats, found: npt.NDArray[np.bool_], part_starts: Offsets, parts: Ints, ngrams: Floats
) -> None:
    """Turn trained words' rows in `inputs`, which are means with n-grams, into their own rows."""
    for row in range(len(inputs)):
        if found[row]:
            inputs[row] *= np.float32(1 + part_starts[row + 1] - part_starts[row])
            for at in range(part_starts[row], part_starts[row + 1]):
                inputs[row] -= ngrams[parts[at]]


class NativeTraining:
    """One training: fresh weights, and the steps that train them. `held_out` is what the held-out loss is measured on.

    Attributes:
        threads: threads that train.
        bitwise: True for one thread: the same input then gives the same bytes.
        tree: of hierarchical softmax; empty for the others.
        progress: words trained over all epochs, and of this epoch's predictions so far the sum of losses in nats and how many
            there were, as JSON values; set together with `arrays`, before `steps`, to go on from there.
        weights: what is trained; may be filled with others before `steps`.
        total: words that will have been trained at the end; may be changed on the way, as may be how the learning rate falls.
    """

    def __init__(
        self, text: TrainingText, vocabulary: Vocabulary, settings: Word2VecPlan,
        held_out: HeldOutLoss | None = None, parts: Parts = _NO_PARTS,
    ) -> None:  # fmt: skip
        self.threads = 1 if settings.deterministic else settings.threads or cpu_count()
        self.bitwise = self.threads == 1
        self.progress: dict[str, float] = {"words": 0, "loss": 0.0, "predictions": 0.0}
        self.total = text.words * settings.epochs
        self._falls_from = 0, settings.lr  # words, and the learning rate there
        self._text, self._settings, self._held_out, self._parts = text, settings, held_out, parts
        assert len(parts.starts) in (0, len(vocabulary) + 1), (
            "the n-grams belong to other words"
        )  # kernels check no bounds
        assert parts.numbers.max(initial=-1) < parts.total, "the number of an n-gram is too large"
        keep = keep_probabilities(vocabulary.counts, settings.subsample)
        self._keep = keep_limits(keep)
        self.tree = Tree.of(vocabulary.counts) if settings.loss == "hs" else _NO_TREE
        self._objective = _objective(settings, vocabulary, self.tree)
        n_outputs = max(len(vocabulary) - 1, 1) if settings.loss == "hs" else len(vocabulary)
        self.weights = Weights.initial(settings.dim, len(vocabulary), n_outputs, parts.total, settings.seed)
        self._chunk = chunk_size(text.words, settings.window * self._objective.most * settings.dim)
        kept_share = float((keep * vocabulary.counts).sum() / vocabulary.counts.sum())
        self._margin = min(64 + int(4 * settings.window / kept_share), _MAX_MARGIN)

    @property
    def vectors(self) -> Floats:
        """Return the words' vectors (V, D), in the order of the vocabulary."""
        return self.weights.words(self._parts.starts, self._parts.numbers)

    @property
    def outputs(self) -> Floats:
        """Return the output vectors (V, D), in the order of the vocabulary; of the tree's nodes for hierarchical softmax."""
        return self.weights.outputs[:, : self._settings.dim]

    @property
    def ngrams(self) -> Floats:
        """Return the n-grams' vectors (G, D)."""
        return self.weights.ngrams[:, : self._settings.dim]

    def arrays(self) -> Mapping[str, Floats]:
        """Return the arrays that training changes, by name, C-contiguous."""
        return self.weights.arrays()

    def subtract_ngrams(self, found: npt.NDArray[np.bool_]) -> None:
        """Turn the rows of these words in `inputs`, whole vectors, into the words' own rows, without n-grams."""
        _subtract_ngrams(self.weights.inputs, found, self._parts.starts, self._parts.numbers, self.weights.ngrams)

    @property
    def _done(self) -> int:
        """Return the number of words trained so far."""
        return int(self.progress["words"])

    def end_early(self, more: int) -> None:
        """End after `more` words, in which the learning rate falls from where it is."""
        self._falls_from = self._done, self._lr(self._done)
        self.total = self._done + more

    def steps(self, flag: StopFlag, due: Callable[[], bool] = lambda: False) -> Iterator[Step]:
        """Train, until the flag rises; a report now and then, and at the end of each epoch the mean losses.

        Where `due` says so, or the flag has risen, and at the end of an epoch, the threads come to rest and a report with
        `resting` follows.

        Raises:
            DivergedError: the loss or the vectors are no longer finite.
        """
        start = shown = time.monotonic()
        if self._done and self._done == self.total:  # ended early: the losses of the epoch so far
            yield from self._epoch_end(start)
        while self._done < self.total:
            epoch = self._done // self._text.words
            before = epoch * self._text.words
            stop = min(self._text.words, self.total - before)
            begins = range(self._done - before, stop, self._chunk)
            # jobs in threads; the work done so far is always everything before some job
            jobs = done_in_order(
                self._work_of(epoch, stop), begins, self.threads, lambda: flag.signum is None and not due()
            )
            for begin, (loss, predictions) in jobs:
                more = {"words": min(self._chunk, stop - begin), "loss": loss, "predictions": predictions}
                self.progress = {name: done + more[name] for name, done in self.progress.items()}
                if time.monotonic() - shown > _SHOW_SECONDS:
                    shown = time.monotonic()
                    yield self._step(start)
            # the threads rest: the losses of an epoch that has ended, and where training stands
            if not (np.isfinite(self.progress["loss"]) and self.weights.finite()):
                raise not_finite(epoch + 1, self._settings)
            self.total = max(self.total, self._done)  # which may have been lowered meanwhile
            if self._done in (before + self._text.words, self.total):
                yield from self._epoch_end(start)
            stopping = flag.signum is not None
            yield self._step(start, resting=True)
            if stopping:
                return

    def _epoch_end(self, start: float) -> Iterator[Step]:
        """Report the true mean loss over the trained epoch's predictions, then over the held-out sample."""
        if self.progress["predictions"]:
            yield self._step(start, loss=self.progress["loss"] / self.progress["predictions"])
        if self._held_out is not None:
            loss = self._held_out.loss(self.vectors, self.outputs, self.tree)
            yield self._step(start, split=self._held_out.split, loss=loss)
        self.progress = self.progress | {"loss": 0.0, "predictions": 0.0}

    def _step(self, start: float, split: str = "train", loss: float | None = None, resting: bool = False) -> Step:
        """Return a report of the training at this moment."""
        words = self._done
        epoch = max(1, -(-words // self._text.words))
        return Step(epoch, words, self.total, split, loss, self._lr(words), time.monotonic() - start, resting)

    def _work_of(self, epoch: int, stop: int) -> Callable[[int], tuple[float, float]]:
        """Return a function that trains a chunk of an epoch up to `stop`; it returns the sum of losses and their number."""
        s, weights = self._settings, self.weights
        keys = np.array([key_of(s.seed, epoch, use) for use in (_SKIPPING, _REACH, _NOISE)], dtype=np.uint64)
        windows = Windows(s.architecture == "skipgram", s.window, s.dynamic_window, self._keep, keys)
        # the commonest rows have copies where threads would wait for each other
        hot = 0 if self.threads == 1 or s.loss == "softmax" else min(_HOT, len(weights.outputs))
        rows = Rows(
            weights.inputs,
            weights.outputs,
            self._parts.starts,
            self._parts.numbers,
            weights.ngrams,
            hot,
            max(1, _UNSEEN // self.threads),
        )
        done = epoch * self._text.words

        # a chunk is read with a margin, as windows reach beyond it
        def work(begin: int) -> tuple[float, float]:
            end = min(begin + self._chunk, stop)
            first = max(begin - self._margin, 0)
            chunk = self._text.read(first, end + self._margin)
            lr = (self._lr(done + begin), self._lr(done + end))
            scratch = np.empty(scratch_size(s.window, weights.inputs.shape[1], hot), dtype=np.float32)
            sums = np.zeros(2)
            train_chunk(chunk, first, begin, end, lr, windows, self._objective, rows, scratch, sums)
            return float(sums[0]), float(sums[1])

        return work

    def _lr(self, words: int) -> float:
        """Return the learning rate: linear decay from `lr` to `min_lr` over the whole training, or the rest after a stop."""
        (begin, lr), done = self._falls_from, min(words, self.total)
        return lr - (lr - self._settings.min_lr) * (done - begin) / max(1, self.total - begin)


def not_finite(epoch: int, settings: Word2VecPlan) -> DivergedError:
    """Return the error of a training whose numbers overflowed."""
    hint = f"lower --lr (now {settings.lr})"
    return DivergedError("the word vectors are no longer finite", where=f"epoch {epoch}", hint=hint)


def _objective(settings: Word2VecPlan, vocabulary: Vocabulary, tree: Tree) -> Objective:
    """Return the objective of training in the terms of the kernel."""
    noise = Noise.of(noise_distribution(vocabulary.counts, settings.ns_exponent))
    kind = {"ns": NEGATIVE, "hs": TREE, "softmax": SOFTMAX}[settings.loss]
    longest = int(np.diff(tree.path_starts).max(initial=1))
    most = {NEGATIVE: 1 + settings.negatives, TREE: longest, SOFTMAX: len(vocabulary)}[kind]
    return Objective(
        kind, settings.negatives, noise.limits, noise.others, tree.path_starts, tree.path_nodes, tree.path_signs, most
    )


def chunk_size(words: int, cost: int) -> int:
    """Return the words of one job of training: worth a start, and few enough to share a small text.

    It does not follow the number of threads, so a run can be continued with more of them. Where many numbers are multiplied
    for each word (`cost`; softmax) a job has fewer words, to last seconds at most.
    """
    return max(64, min(16_384, max(1_024, words // 16), _MAX_PRODUCTS // max(cost, 1)))


def done_in_order(
    work: Callable[[int], T], begins: range, threads: int, go_on: Callable[[], bool]
) -> Iterator[tuple[int, T]]:
    """Do the jobs of training that begin at `begins`, several at a time, and give each as it ends; of one thread in order.

    Jobs are taken in order, and none is taken once `go_on` says no or one has failed; those that were taken are finished. So
    what was done is always everything before some job.

    Raises:
        Exception: what `work` raised.
    """
    waiting = iter(begins)
    running: dict[Future[T], int] = {}
    with ThreadPoolExecutor(threads, thread_name_prefix="word2vec") as pool:
        while True:
            # one more than there are threads, so that none waits for this one
            while len(running) <= threads and go_on() and (begin := next(waiting, None)) is not None:
                running[pool.submit(work, begin)] = begin
            if not running:
                return
            for job in sorted(wait(running, return_when=FIRST_COMPLETED).done, key=running.__getitem__):
                yield running.pop(job), job.result()
