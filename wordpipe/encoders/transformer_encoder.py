"""Texts to vectors by a transformer: pooled hidden states, long texts read in windows.

`TransformerEncoder` cuts and merges windows; the hidden states come from `ArrayStates` (NumPy, for a query that should not
wait for the import of torch) or `TorchStates` (packed without padding on a CPU, padded on a GPU). Torch is imported when it
computes.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts import read_fact
from wordpipe.encoders.encoder import (
    ENCODER_FILE,
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
from wordpipe.encoders.layers import LAYERS_FILE, Layers
from wordpipe.encoders.pooling import POOLINGS, Floats, Pooling, pooling_named, token_shares
from wordpipe.encoders.prompts import Prompts
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.encoders.states import ArrayStates, HiddenModel, TorchStates
from wordpipe.encoders.transforms import Transform
from wordpipe.encoders.windows import Ids, Windows, frame, gathered, token_batches
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics import unit_rows
from wordpipe.tokens import frame_of, library_errors

if TYPE_CHECKING:
    from wordpipe.model import ModelConfig
    from wordpipe.tokens import RowEncoder

_MIN_COMPILED_TEXTS = 256  # texts from which on the compiled tokenizer is loaded: importing numba takes 0.5 s


class TransformerEncoder(TextEncoder):
    """Pooled hidden states, transformed. No token is left out: a text too long for the model is read in windows.

    A prompt is text that stands before every window, one before texts and another before queries (`for_queries`).

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
        layers: what comes after the pooling.
        prompts: the prompts of `text` and `query`; "" or missing: none.

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
        layers: Layers | None = None,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        self._pooling = _pooling(settings, trained, token_weights)
        self.pooling = self._pooling.name
        self._layers = layers or Layers()
        width = self._layers.width(dim * self._pooling.joins)
        self.max_len, self.transform = max_len, transform or Transform.none(width)
        self.identity = dict(identity or {})
        # where it computes, and the tokens around every window
        self._model = model if isinstance(model, ArrayStates) else TorchStates(model, settings)
        self.device = self._model.device
        self._tokenizer = _unlimited(tokenizer)
        self._before, self._suffix = frame_of(self._tokenizer)
        self._prompts = Prompts.of(prompts or {}, self._tokenizer)
        self._settings, self._model_files, self._model_names = settings, model_files, tuple(model_names)
        self._width, self._trained = dim, trained
        self._weights_V = token_weights if self._pooling.is_weighted else None
        shape = getattr(model.model if isinstance(model, ArrayStates) else model, "config", None)  # of a model of ours
        _check_widths(shape, dim, max_len, width, self.transform)
        # ids that the model, and the weights of a weighted mean, know
        known = [
            *([] if shape is None else [shape.vocab_size]),
            *([] if token_weights is None else [len(token_weights)]),
        ]
        self._n_ids = min(known, default=None)
        self.window = _window(settings, max_len - len(self._before) - self._prompts.longest - len(self._suffix))
        self.overlap = min(settings.overlap, self.window // 2)

    @property
    def for_queries(self) -> Self:
        """Return the encoder with the prompt of queries before each text; model and tokenizer are shared."""
        other = copy.copy(self)
        other._prompts = self._prompts.of_queries
        return other

    @property
    def _prefix(self) -> list[int]:
        """The ids before every window: special ones, and those of the prompt."""
        return [*self._before, *self._prompts.ids]

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
        pooled_ND = self._layers.apply(pooled_ND)
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
        if not self._layers.is_linear:
            what = "scores cannot be explained with this encoder, because the layers after its pooling are not linear"
            raise ConfigError(what, where=LAYERS_FILE, hint="use an encoder without these layers to explain scores")
        if not self._pooling.is_linear:
            what = "scores cannot be explained with this pooling, because the vector is not a sum over tokens"
            hint = "to explain scores, run wordpipe embed with --pooling mean"
            expected = " or ".join(name for name, one in POOLINGS.items() if one.is_linear)
            raise ConfigError(what, where="pooling", got=self.pooling, expected=expected, hint=hint)
        # tokens, windows, and the weight of each
        with library_errors("the tokenizer cannot encode the text", "tokenizer.json"):
            found = self._tokenizer.encode(self._prompts.text + text, add_special_tokens=False)
        skipped, letters = len(self._prompts.ids), len(self._prompts.text)
        found_ids = found.ids[skipped:]
        offsets = [(max(0, start - letters), max(0, stop - letters)) for start, stop in found.offsets[skipped:]]
        n, before, after = len(found_ids), len(self._prefix), len(self._suffix)
        windows = self._windows(np.array(found_ids, dtype=np.int64), np.array([0, n]))
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
        end = max((stop for _, stop in offsets), default=0)
        spans = [*offsets, *[(0, 0)] * before, *[(end, end)] * after]
        return TextParts(spans, shares(self._layers.linear(sums_PD), self.transform, text))

    def lengths(self, texts: Sequence[str]) -> Ids:
        """Tokens of each text, without special ones."""
        return np.diff(self._ids(texts)[1])

    def _ids(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """Return the token ids of all texts, and where each begins and ends, (N + 1,).

        A text's tokens are what follows those of its prompt: the two are cut together, as they are read.
        """
        return self._prompts.cut(*self._plain_ids(self._prompts.before(texts)))

    def _plain_ids(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
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
        pooled_WD = np.zeros((len(windows.lengths), self._width * self._pooling.joins), dtype=np.float32)
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
        own = {
            "dim": self._width,
            "trained": self._trained,
            "max_len": self.max_len,
            "prompts": dict(self._prompts.texts),
        }
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
            layers=Layers.from_bytes(files[LAYERS_FILE]) if LAYERS_FILE in about["model_names"] else None,
            prompts=read_fact(about, "prompts", dict, ENCODER_FILE, default={}),
        )


def _within(watch: Watch, before: float, share: float) -> Watch:
    """Return a watch for a part of the texts to encode, which reports to `watch` the share of all texts."""
    return lambda done: watch(before + share * done)


def _check_widths(shape: "ModelConfig | None", dim: int, max_len: int, width: int, transform: Transform) -> None:
    """Refuse parts of a transformer encoder that do not belong together (ArtifactError)."""
    what = "the files of the encoder do not match each other"
    if len(transform.mean) != width:
        raise ArtifactError(what, where=TRANSFORM_FILE, got=f"width {len(transform.mean)}", expected=width)
    if shape is not None and (dim != shape.dim or max_len > shape.max_len):
        got, expected = f"width {dim}, {max_len} positions", f"width {shape.dim}, at most {shape.max_len} positions"
        raise ArtifactError(what, where="config.json", got=got, expected=expected)


def _pooling(settings: EmbedSettings, trained: str, token_weights: Floats | None) -> Pooling:
    """Return the pooling of a transformer encoder that the settings mean for this model."""
    pooling = pooling_named(name := trained if settings.pooling == "auto" else settings.pooling)
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
