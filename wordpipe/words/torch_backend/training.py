"""word2vec in torch: a batch is some thousands of windows, whose gradients are summed per row and added at once.

What a batch of B words costs at D numbers per vector, window W, groups of A = 32 centres with N = 64 noise words. Every group
fetches A rows of one matrix and X = A + 2 W + N of the other (106 for W = 5) and multiplies A × D by D × X three times:

    flops   6 D X B                   81,000 per word at D = 128: 30 million words/s are 2.4 TFLOP/s, in full float32
    bytes   about 10 (1 + X / A) 4 D B    for rows fetched, moved, combined and added back: 22 kB per word
            about 25 · 4 X B              for scores, weights and masks, read and written a dozen times: 11 kB per word

so the 3.3 TB/s of an H100 allow some 100 million words/s that survive subsampling. A batch is 77 kernels for skip-gram and 114
for CBOW; at 6 µs to launch each, batches of 8,192 words, the largest for most English texts, cannot come faster than 18 and
12 million such words/s. The host waits for the device once per shard and once per report, never per batch. None of this has
been measured: benchmarks/words_gpu.py does.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch

from wordpipe.errors import DivergedError
from wordpipe.runtime import StopFlag, Stopwatch, cpu_count, pick_device
from wordpipe.words.probe import Probe
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.step import Step
from wordpipe.words.text import TrainingText
from wordpipe.words.torch_backend.ascent import cbow, skipgram
from wordpipe.words.torch_backend.batch_size import batch_words, largest_batch, steep_share, variety
from wordpipe.words.torch_backend.climbing import climb
from wordpipe.words.torch_backend.matrices import Matrices, check_memory
from wordpipe.words.torch_backend.shards import SHARD, Shard, read_shards
from wordpipe.words.torch_backend.windows import GROUP, NOISE, Sampler, Windows
from wordpipe.words.vocabulary import Vocabulary

__all__ = ["TorchTraining"]

_MARGIN = 64  # words looked at beyond a shard, in windows: enough unless subsampling drops 63 of 64 words there
_REPORT = {"cpu": 1 << 17, "cuda": SHARD}  # words between two reports


class TorchTraining:
    """One training: fresh vectors, and the steps that train them.

    Args:
        text: the training text.
        vocabulary: its rows and counts.
        settings: the settings, none of them open.
        probe: what the held-out loss is measured on, or None for none.
        device: auto (a GPU where there is one), cpu or cuda.

    Attributes:
        threads: threads of the host.
        bitwise: True on the CPU, and with `deterministic` on a GPU: the same input then gives the same bytes.
        progress: words trained over all epochs, always at the end of a batch, and the losses of the present epoch; set
            together with what is in `arrays`, before `steps`, to go on from there.

    Raises:
        ConfigError: a device that is not there.
        BudgetError: the matrices do not fit on the device.
    """

    def __init__(
        self,
        text: TrainingText,
        vocabulary: Vocabulary,
        settings: Word2VecPlan,
        probe: Probe | None = None,
        device: str = "auto",
    ) -> None:
        self._device = _pick(device)
        self.device = self._device.type
        self.threads = _make_ready(settings)
        self.bitwise = self._device.type == "cpu" or settings.deterministic
        self._text, self._settings, self._probe = text, settings, probe
        various = variety(vocabulary, settings.subsample)
        self._largest, self._share = largest_batch(text.words, various), steep_share(various, settings.dim)
        if self._device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self._device)
            check_memory(len(vocabulary), settings.dim, self._batch_bytes(), free)
        self._matrices = Matrices(len(vocabulary), settings.dim, settings.seed, self._device)
        self._sampler = Sampler(vocabulary, settings, self._device)
        self._batch = skipgram if settings.architecture == "skipgram" else cbow
        self._sums = torch.zeros(2, device=self._device)  # loss and predictions since they were last read
        self.progress = {"words": 0, "loss": 0.0, "predictions": 0.0}

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """The words' vectors (V, D), in the order of the vocabulary."""
        return self.arrays()["inputs"]

    @property
    def outputs(self) -> npt.NDArray[np.float32]:
        """The output vectors (V, D), in the order of the vocabulary."""
        return self.arrays()["outputs"]

    @property
    def total(self) -> int:
        """Words that will have been trained at the end."""
        return self._text.words * self._settings.epochs

    @property
    def _position(self) -> int:
        return int(self.progress["words"])

    def arrays(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """The vectors, "inputs" and "outputs", each (V, D); what is written to them before `steps` is where it begins."""
        return self._matrices.arrays()

    def steps(self, flag: StopFlag, due: Callable[[], bool] = lambda: False) -> Iterator[Step]:
        """Train; a report now and then, and at the end of each epoch the mean losses; see `Training.steps`.

        Raises:
            DivergedError: the loss or the vectors are no longer finite.
        """
        with self._matrices.on_device(), _deterministic(self._settings.deterministic):
            yield from self._reports(flag, due)

    def _reports(self, flag: StopFlag, due: Callable[[], bool]) -> Iterator[Step]:
        """The same, with the matrices in place."""
        watch, report_at = Stopwatch(), self._position + _REPORT[self._device.type]
        for _ in self._batches():
            at_end, stopped = self._position % self._text.words == 0, flag.signum is not None
            if self._position >= report_at:
                report_at = self._position + _REPORT[self._device.type]
                self._read_sums()
                yield self._step(watch)
            if at_end or stopped or due():
                self._read_sums()
                if not self._matrices.finite():
                    raise self._diverged()
                if at_end:
                    yield from self._epoch_end(watch)
                yield self._step(watch, resting=True)
            if stopped:
                return

    def _batches(self) -> Iterator[None]:
        """Train a batch each time."""
        while self._position < self.total:
            epoch, at = divmod(self._position, self._text.words)
            for shard in read_shards(self._text, at, _MARGIN * self._settings.window, self._device):
                yield from self._train_shard(shard, epoch)

    def _train_shard(self, shard: Shard, epoch: int) -> Iterator[None]:
        """Train the batches of a shard that lie behind the position; `epoch` counts from 0."""
        before = epoch * self._text.words
        windows, positions = self._sampler.windows(shard.text, shard.first, shard.begin, shard.end, epoch)
        begin = max(int(np.searchsorted(positions, self._position - before, side="right")) - 1, 0)
        while begin < len(windows):
            end = min(begin + batch_words(self._position, self._largest) // GROUP, len(windows))
            self._train(windows.part(begin, end))
            self.progress["words"] = before + int(positions[end])
            begin = end
            yield
        if not len(windows):  # subsampling left nothing
            self.progress["words"] = before + shard.end
            yield

    def _train(self, windows: Windows) -> None:
        """One batch."""
        matrices, lr = self._matrices, self._lr()
        batch = self._batch(matrices.inputs, matrices.outputs, windows, self._settings.negatives, self._share)
        climb(matrices.inputs, batch.inputs, matrices.slots, lr)
        climb(matrices.outputs, batch.outputs, matrices.slots, lr)
        self._sums += torch.stack([batch.loss, batch.predictions])

    def _lr(self) -> float:
        """Linear decay from `lr` to `min_lr` over the whole training."""
        return self._settings.lr - (self._settings.lr - self._settings.min_lr) * self._position / self.total

    def _epoch_end(self, watch: Stopwatch) -> Iterator[Step]:
        """The true mean over the epoch's predictions, then the mean over the held-out sample."""
        if self.progress["predictions"]:
            yield self._step(watch, loss=self.progress["loss"] / self.progress["predictions"])
        if self._probe is not None:
            arrays = self.arrays()
            held_out = self._probe.loss(arrays["inputs"], arrays["outputs"])
            yield self._step(watch, split=self._probe.split, loss=held_out)
        self.progress |= {"loss": 0.0, "predictions": 0.0}

    def _step(self, watch: Stopwatch, split: str = "train", loss: float | None = None, resting: bool = False) -> Step:
        epoch = max(1, -(-self._position // self._text.words))
        return Step(epoch, self._position, self.total, split, loss, self._lr(), watch.seconds, resting)

    def _read_sums(self) -> None:
        """Add what the device summed up to `progress`; waits for it."""
        loss, predictions = self._sums.tolist()
        self._sums.zero_()
        self.progress["loss"] += loss
        self.progress["predictions"] += predictions
        if not np.isfinite(loss):
            raise self._diverged()

    def _diverged(self) -> DivergedError:
        return DivergedError(
            "the word vectors are no longer finite",
            where=f"epoch {max(1, -(-self._position // self._text.words))}",
            hint=f"lower --lr (it was {self._settings.lr})",
        )

    def _batch_bytes(self) -> int:
        """Bytes that a batch and the draws of a shard take at most, roughly: see the head of this file."""
        words_X = GROUP + 2 * self._settings.window + NOISE
        rows = 4 * (GROUP + words_X) * self._settings.dim
        scores = 6 * GROUP * words_X + words_X * NOISE
        return 4 * (self._largest // GROUP) * (rows + scores) + (1 << 30)


def _pick(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return pick_device("cuda" if device == "cuda" else "cpu")


def _make_ready(settings: Word2VecPlan) -> int:
    """Set torch's threads and the choice of its kernels; gives the threads."""
    threads = 1 if settings.deterministic else settings.threads or cpu_count()
    torch.set_num_threads(threads)
    if settings.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when CUDA starts
    return threads


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    """Let torch take slower, repeatable kernels inside; what the caller chose for himself comes back."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
