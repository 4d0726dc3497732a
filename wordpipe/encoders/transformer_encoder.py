"""Texts to vectors by a transformer: pooled hidden states, long texts read in windows.

`TransformerEncoder` cuts and merges windows; the hidden states come from `ArrayStates` (NumPy, for a query that should not
wait for the import of torch) or `TorchStates` (packed without padding on a CPU, padded on a GPU). Torch is imported when it
computes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.encoders.encoder import (
    TRANSFORM_FILE,
    EncodedBatch,
    EncoderKind,
    TextEncoder,
    TextParts,
    Watch,
    check_finite,
    encoder_facts,
    joined,
    shares,
    text_runs,
)
from wordpipe.encoders.pooling import POOLINGS, Floats, Pooling, token_shares
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.encoders.transforms import Transform
from wordpipe.encoders.windows import Ids, Windows, frame, gathered, padded, runs_of, token_batches
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics import unit_rows
from wordpipe.runtime import pick_device, torch_threads
from wordpipe.tokens import frame_of, library_errors

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from wordpipe.model import LanguageModel, ModelConfig, NumpyModel
    from wordpipe.tokens import RowEncoder

Batches: TypeAlias = Iterable[tuple[Ids, Ids]]
"""Ids of S sequences, one after the other, the longest first, and the length of each, (S,)."""
_MIN_COMPILED_TEXTS = 256  # texts from which on the compiled tokenizer is loaded: importing numba takes 0.5 s
_CPU_TOKENS = 2048
"""Ids per batch on a CPU, so that activations stay in the caches. One core, 382 texts of Wikipedia of 76 tokens, float32,
4 layers of 256, thousand tokens/s: 1024 16.9, 2048 15.8, 4096 16.3, 8192 13.8; 6 layers of 384: 4.7, 4.9, 5.0, 4.8."""


class ArrayStates:
    """Hidden states by NumPy: torch is not imported.

    Args:
        model: the model.
        batch_tokens: ids that it likes to read at once, at most.
    """

    device = "cpu"
    in_bulk = False  # not made for so many texts that it pays to compile what prepares them

    def __init__(self, model: "NumpyModel", batch_tokens: int = 2048) -> None:
        self.model, self.batch_tokens = model, batch_tokens

    def pooled(self, batches: Batches, pooling: Pooling, weights_V: Floats | None) -> Iterator[Floats]:
        """Yield one pooled vector per sequence of each batch, (S, D) float32, by NumPy."""
        for ids_N, lengths_S in batches:
            yield pooling.rows(self._states(ids_N, lengths_S, pooling), ids_N, lengths_S, weights_V)

    def states(self, ids_T: Ids, pooling: Pooling) -> Floats:
        """Return the hidden states of one sequence that the pooling averages, (T, D) float32."""
        return self._states(ids_T, np.array([len(ids_T)]), pooling)

    def _states(self, ids_N: Ids, lengths_S: Ids, pooling: Pooling) -> Floats:
        first_ND = self.model.embed(ids_N, lengths_S)
        last_ND = self.model.encode(first_ND, runs_of(lengths_S))
        return (first_ND + last_ND) * np.float32(0.5) if pooling.layers == "ends" else last_ND


class HiddenModel(Protocol):
    """A torch module that computes hidden states."""

    def encode(self, ids_BT: "Tensor", mask_BT: "Tensor") -> "Tensor":
        """Hidden states (B, T, D) of int64 ids (B, T), where mask (B, T) bool is True."""
        ...


class TorchStates:
    """Hidden states by torch: packed without padding on a CPU, padded and without waiting for each other on a GPU.

    Args:
        model: put in evaluation mode on the chosen device.
        settings: device, dtype, threads and batch_tokens are looked at.

    Raises:
        ConfigError: a device that is not there.
    """

    in_bulk = True

    def __init__(self, model: HiddenModel, settings: EmbedSettings) -> None:
        import torch

        from wordpipe.model import LanguageModel

        self._device = pick_device(settings.device)
        self.device = str(self._device)
        half = settings.dtype == "bfloat16" or (settings.dtype == "auto" and self._device.type == "cuda")
        self._dtype = torch.bfloat16 if half else torch.float32
        self._model = cast("nn.Module", model).to(self._device).eval()
        self._packs = self._device.type == "cpu" and isinstance(model, LanguageModel)
        self._threads = settings.threads
        self.batch_tokens = min(settings.batch_tokens, _CPU_TOKENS) if self._packs else settings.batch_tokens

    def pooled(self, batches: Batches, pooling: Pooling, weights_V: Floats | None) -> Iterator[Floats]:
        """Yield one pooled vector per sequence of each batch, (S, D) float32, by a transformer in torch."""
        if self._packs:
            for ids_N, lengths_S in batches:
                yield self._pooled_packed(ids_N, lengths_S, pooling, weights_V)
            return
        weights = None if weights_V is None else self._sent(weights_V)
        waiting = None
        for ids_N, lengths_S in batches:
            coming = self._start_padded(ids_N, lengths_S, pooling, weights)
            if waiting is not None:  # taken while the next batch is computed
                yield _arrived(*waiting)
            waiting = coming
        if waiting is not None:
            yield _arrived(*waiting)

    def states(self, ids_T: Ids, pooling: Pooling) -> Floats:
        """Return the hidden states of one sequence that the pooling averages, (T, D) float32, by torch."""
        ids_1T, mask_1T = padded(ids_T, np.array([len(ids_T)]))
        with self._computing():
            states: Floats = self._hidden(self._sent(ids_1T), self._sent(mask_1T), pooling)[0].float().cpu().numpy()
            return states

    def _pooled_packed(self, ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: Floats | None) -> Floats:
        """Return pooled vectors (S, D) of sequences that are packed without padding."""
        from wordpipe.model import pack

        packed = pack(ids_N, lengths_S)
        with self._computing(), _first_input(self._model, pooling) as first:
            last_1ND = cast("LanguageModel", self._model).encode_packed(packed)[None]
            states_ND = _halfway(first, last_1ND)[0].float().numpy()
        # by NumPy, so that a text has the same bits in every batch
        pooled_SD = np.empty((len(lengths_S), states_ND.shape[1]), dtype=np.float32)
        pooled_SD[packed.order] = pooling.rows(states_ND, packed.ids.numpy(), lengths_S[packed.order], weights_V)
        return pooled_SD

    def _start_padded(
        self, ids_N: Ids, lengths_S: Ids, pooling: Pooling, weights_V: "Tensor | None"
    ) -> "tuple[Tensor, torch.cuda.Event | None]":
        """Return a transformer's pooled vectors (S, D) on their way from a GPU, and the event of their arrival."""
        import torch

        with self._computing():
            ids_BT, mask_BT = (self._sent(array) for array in padded(ids_N, lengths_S))
            pooled_BD = pooling.hidden(self._hidden(ids_BT, mask_BT, pooling).float(), ids_BT, mask_BT, weights_V)
            if self._device.type != "cuda":
                return pooled_BD, None
            pinned_BD = torch.empty(pooled_BD.shape, pin_memory=True).copy_(pooled_BD, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            return pinned_BD, event

    def _hidden(self, ids_BT: "Tensor", mask_BT: "Tensor", pooling: Pooling) -> "Tensor":
        """Return the hidden states to pool of a padded batch."""
        with _first_input(self._model, pooling) as first:
            return _halfway(first, cast("HiddenModel", self._model).encode(ids_BT, mask_BT))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Enter torch's modes for computing hidden states: no gradients, the layers' precision."""
        import torch

        half = torch.autocast(self._device.type, self._dtype, enabled=self._dtype != torch.float32)
        with torch.inference_mode(), torch_threads(self._threads), half:
            yield

    def _sent(self, array: npt.NDArray[Any]) -> "Tensor":
        """Return an array of ids for the transformer on the device; on its way while the CPU prepares the next."""
        import torch

        tensor = torch.from_numpy(array)
        if self._device.type != "cuda":
            return tensor.to(self._device)
        return tensor.pin_memory().to(self._device, non_blocking=True)


def _arrived(vectors_SD: "Tensor", event: "torch.cuda.Event | None") -> Floats:
    """Return a transformer's pooled vectors that `_start_padded` has sent on their way, once they are there."""
    if event is not None:
        event.synchronize()
    arrived_SD: Floats = vectors_SD.cpu().numpy()
    return arrived_SD


@contextmanager
def _first_input(model: "nn.Module", pooling: Pooling) -> "Iterator[list[Tensor]]":
    """Return a list to which the input of the transformer's first block is added, for `first-last` alone."""
    from wordpipe.model import LanguageModel

    kept: list[Tensor] = []
    if pooling.layers == "last":
        yield kept
        return
    if not isinstance(model, LanguageModel):
        raise ConfigError(
            "this model does not have this pooling", where="pooling", got=pooling.name, expected="mean, cls or max"
        )
    hook = model.blocks[0].register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0]))
    try:
        yield kept
    finally:
        hook.remove()


def _halfway(first: "list[Tensor]", last: "Tensor") -> "Tensor":
    """Return the states to pool: the last hidden states, or their mean with the input of the first block."""
    # packed positions are filled up on their way through the blocks
    return (first[0][:, : last.shape[1]].float() + last.float()) / 2 if first else last


class TransformerEncoder(TextEncoder):
    """Pooled hidden states, transformed. No token is left out: a text too long for the model is read in windows.

    Args:
        model: computes hidden states; a torch module with `encode` is wrapped by `TorchStates`.
        tokenizer: its tokenizer; the special tokens that it puts around a text are put around every window.
        settings: the settings.
        dim: width of the hidden states.
        max_len: positions of the model, special tokens included.
        transform: what is applied to every vector; nothing where None.
        model_files: has the model's files by name, for `files`.
        model_names: those names.
        identity: what the caller wants to find again in the saved file (digests), JSON values.
        trained: the pooling that the model was trained with, which `auto` stands for.
        token_weights: what each token id weighs in a weighted mean, (V,); None: the model has no such weights.

    Attributes:
        device: where the model computes.

    Raises:
        ConfigError: a pooling that a model does not have, a device that is not there, or a window larger than the model.
    """

    kind: EncoderKind = "transformer"
    pooling: str

    def __init__(
        self,
        model: ArrayStates | HiddenModel,
        tokenizer: Tokenizer,
        settings: EmbedSettings,
        *,
        dim: int,
        max_len: int,
        transform: Transform | None = None,
        model_files: Mapping[str, bytes] | None = None,
        model_names: Sequence[str] = (),
        identity: Mapping[str, Any] | None = None,
        trained: str = "mean",
        token_weights: Floats | None = None,
    ) -> None:
        self._pooling = _pooling(settings, trained, token_weights)
        self.pooling = self._pooling.name
        self.max_len, self.transform = max_len, transform or Transform.none(dim)
        self.identity = dict(identity or {})
        # where it computes, and the tokens around every window
        self._model = model if isinstance(model, ArrayStates) else TorchStates(model, settings)
        self.device = self._model.device
        self._tokenizer = _unlimited(tokenizer)
        self._prefix, self._suffix = frame_of(self._tokenizer)
        self._settings, self._model_files, self._model_names = settings, model_files, tuple(model_names)
        self._width, self._trained = dim, trained
        self._weights_V = token_weights if self._pooling.is_weighted else None
        shape = getattr(model.model if isinstance(model, ArrayStates) else model, "config", None)  # of a model of ours
        _check_widths(shape, dim, max_len, self.transform)
        # ids that the model, and the weights of a weighted mean, know
        known = [
            *([] if shape is None else [shape.vocab_size]),
            *([] if token_weights is None else [len(token_weights)]),
        ]
        self._n_ids = min(known, default=None)
        self.window = _window(settings, max_len - len(self._prefix) - len(self._suffix))
        self.overlap = min(settings.overlap, self.window // 2)

    def encode(self, texts: Sequence[str], watch: Watch | None = None) -> EncodedBatch:
        """Encode texts by the transformer, see `TextEncoder.encode`; the error names the texts."""
        batches, done = list[EncodedBatch](), 0
        for run in text_runs(texts):
            batches.append(self._encode(run, watch and _within(watch, done / len(texts), len(run) / len(texts))))
            done += len(run)
        return joined(batches)

    def _encode(self, texts: Sequence[str], watch: Watch | None) -> EncodedBatch:
        windows = self._windows(*self._ids(texts))
        pooled_ND = self._pooling.merge_windows(self._pooled(windows, watch), self._weight_of(windows), windows.counts)
        check_finite(
            pooled_ND,
            texts,
            "model",
            "try --dtype float32; if the error remains, the training of the model may have diverged",
        )
        vectors_ND, empty_N = self.transform.apply(unit_rows(pooled_ND)[0])
        return EncodedBatch(vectors_ND, empty_N, [[] for _ in texts], windows.counts)

    def parts(self, text: str) -> TextParts:
        """Return the tokens of a text, and special ids with empty spans, with their shares of the text's vector."""
        if not self._pooling.is_linear:
            what = "scores cannot be explained with this pooling, because the vector is not a sum over tokens"
            hint = "to explain scores, run wordpipe embed with --pooling mean"
            expected = " or ".join(name for name, one in POOLINGS.items() if one.is_linear)
            raise ConfigError(what, where="pooling", got=self.pooling, expected=expected, hint=hint)
        # tokens, windows, and the weight of each
        with library_errors("the tokenizer cannot encode the text", "tokenizer.json"):
            found = self._tokenizer.encode(text, add_special_tokens=False)
        n, before, after = len(found.ids), len(self._prefix), len(self._suffix)
        windows = self._windows(np.array(found.ids, dtype=np.int64), np.array([0, n]))
        weights_W = self._weight_of(windows)
        if not weights_W.any():
            raise InputError("the text has no vector", hint="write a text that contains words")
        # the tokens and, behind them, one part for each special id; what is in two windows has the sum of both
        sums_PD = np.zeros((n + before + after, self._width))
        weights_W = weights_W / float(weights_W.sum(dtype=np.float64))
        # what every position of every window adds to the mean
        for start, length, first, tokens, weight in zip(
            windows.starts, windows.lengths, windows.firsts, windows.tokens, weights_W, strict=True
        ):
            ids_T = windows.ids[start : start + length]
            shares_T = token_shares(ids_T, np.array([length]), self._weights_V) * weight
            brought_TD = self._model.states(ids_T, self._pooling).astype(np.float64) * shares_T[:, None]
            sums_PD[first : first + tokens] += brought_TD[before : before + tokens]
            sums_PD[n : n + before] += brought_TD[:before]
            sums_PD[n + before :] += brought_TD[before + tokens :]
        # special ids stand at the ends of the text, without letters
        end = max((stop for _, stop in found.offsets), default=0)
        spans = [*found.offsets, *[(0, 0)] * before, *[(end, end)] * after]
        return TextParts(spans, shares(sums_PD, self.transform, text))

    def lengths(self, texts: Sequence[str]) -> Ids:
        """Tokens of each text, without special ones."""
        return np.diff(self._ids(texts)[1])

    def _ids(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """Return the token ids that the transformer reads of all texts, and where each begins and ends, (N + 1,)."""
        if self._model.in_bulk and len(texts) >= _MIN_COMPILED_TEXTS:
            ids, offsets = self._fast.encode(pa.array(texts, pa.string()))
            return ids.astype(np.int64), offsets
        with library_errors("the tokenizer cannot encode the text", "tokenizer.json"):
            found = [item.ids for item in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in found], dtype=np.int64)])
        return np.fromiter((number for ids in found for number in ids), np.int64, int(offsets[-1])), offsets

    @cached_property
    def _fast(self) -> "RowEncoder":
        from wordpipe.tokens import Encoder

        return Encoder(self._tokenizer).for_thread()

    def _windows(self, ids: Ids, offsets: Ids) -> Windows:
        windows = frame(ids, offsets, size=self.window, overlap=self.overlap, before=self._prefix, after=self._suffix)
        # a whole vocabulary is not read for one query; what a text has of it is looked at
        if self._n_ids is not None and int(windows.ids.max(initial=0)) >= self._n_ids:
            got, expected = f"id {windows.ids.max()}", f"ids below {self._n_ids}"
            raise ArtifactError(
                "the tokenizer gives ids that the model does not have",
                where="tokenizer.json",
                got=got,
                expected=expected,
            )
        return windows

    def _weight_of(self, windows: Windows) -> npt.NDArray[Any]:
        """Return the weight of each window in the transformer's vector of its text."""
        if self._weights_V is None or not len(windows.lengths):
            return windows.tokens
        weighed: Floats = np.add.reduceat(self._weights_V[windows.ids], windows.starts)
        return weighed

    def _pooled(self, windows: Windows, watch: Watch | None) -> Floats:
        """Return one pooled vector per window by the transformer, (W, D)."""
        pooled_WD = np.zeros((len(windows.lengths), self._width), dtype=np.float32)
        groups, starts_W = [*token_batches(windows.lengths, self._model.batch_tokens)], windows.starts
        batches = (
            (gathered(windows.ids, starts_W[group], windows.lengths[group]), windows.lengths[group]) for group in groups
        )
        pooled = self._model.pooled(batches, self._pooling, self._weights_V)
        done, total = 0, int(windows.lengths.sum())
        for group, vectors_SD in zip(groups, pooled, strict=True):
            pooled_WD[group] = vectors_SD
            done += int(windows.lengths[group].sum())
            if watch is not None:
                watch(done / total)
        return pooled_WD

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a transformer encoder: its facts and the model's files."""
        own = {"dim": self._width, "trained": self._trained, "max_len": self.max_len}
        assert self._model_files is not None, "an encoder made without model_files cannot be saved"
        yield from encoder_facts(self, self._settings, **own, model_names=list(self._model_names))
        yield from ((name, self._model_files[name]) for name in self._model_names)

    @classmethod
    def load(
        cls,
        about: Mapping[str, Any],
        files: Mapping[str, bytes],
        model: ArrayStates | HiddenModel,
        tokenizer: Tokenizer,
        token_weights: Floats | None = None,
    ) -> "TransformerEncoder":
        """Load a transformer encoder from its files; `about` is the content of its encoder.json."""
        return cls(
            model,
            tokenizer,
            EmbedSettings.make(about["settings"]),
            dim=about["dim"],
            max_len=about["max_len"],
            transform=Transform.from_bytes(files[TRANSFORM_FILE], about["transform"], where=TRANSFORM_FILE),
            model_files=files,
            model_names=about["model_names"],
            identity=about["identity"],
            trained=about["trained"],
            token_weights=token_weights,
        )


def _within(watch: Watch, before: float, share: float) -> Watch:
    """Return a watch for a part of the texts to encode, which reports to `watch` the share of all texts."""
    return lambda done: watch(before + share * done)


def _check_widths(shape: "ModelConfig | None", dim: int, max_len: int, transform: Transform) -> None:
    """Refuse parts of a transformer encoder that do not belong together (ArtifactError)."""
    what = "the files of the encoder do not match each other"
    if len(transform.mean) != dim:
        raise ArtifactError(what, where=TRANSFORM_FILE, got=f"width {len(transform.mean)}", expected=dim)
    if shape is not None and (dim != shape.dim or max_len > shape.max_len):
        got, expected = f"width {dim}, {max_len} positions", f"width {shape.dim}, at most {shape.max_len} positions"
        raise ArtifactError(what, where="config.json", got=got, expected=expected)


def _pooling(settings: EmbedSettings, trained: str, token_weights: Floats | None) -> Pooling:
    """Return the pooling of a transformer encoder that the settings mean for this model."""
    pooling = POOLINGS.get(name := trained if settings.pooling == "auto" else settings.pooling)
    if pooling is None:
        raise ConfigError(
            "a model does not support this pooling", where="pooling", got=name, expected="mean, cls or max"
        )
    if pooling.is_weighted and token_weights is None:
        expected, hint = "a model made by `wordpipe train contrastive --pooling weighted`", "use --pooling mean"
        raise ConfigError("the model has no token weights", where="pooling", got=name, expected=expected, hint=hint)
    return pooling


def _unlimited(tokenizer: Tokenizer) -> Tokenizer:
    """Return a copy of a transformer encoder's tokenizer that neither truncates nor pads."""
    own = Tokenizer.from_str(tokenizer.to_str())
    own.no_truncation()
    own.no_padding()
    return own


def _window(settings: EmbedSettings, room: int) -> int:
    """Return the number of tokens of a text that a window of the transformer encoder holds."""
    if room < 1:
        raise ConfigError(
            "the input of the model is too short for text between the special tokens", where="max_len", got=room
        )
    if settings.window > room:
        raise ConfigError(
            "the window is longer than the longest input of the model",
            where="window",
            got=settings.window,
            expected=f"at most {room}",
        )
    return settings.window or room
