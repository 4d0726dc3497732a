"""Texts to vectors by a transformer: pooled hidden states, long texts read in windows."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from wordpipe.errors import ConfigError, DivergedError
from wordpipe.metrics.directions import unit_rows
from wordpipe.runtime import pick_device, torch_threads
from wordpipe.sentences.batches import padded, token_batches
from wordpipe.sentences.encoder import ENCODER_FILE, TRANSFORM_FILE, EncodedBatch, EncoderKind, Read, Write, in_pieces
from wordpipe.sentences.pooling import Pooling, merge_windows, pool_hidden
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.transforms import Transform
from wordpipe.sentences.windows import token_windows

__all__ = ["HiddenModel", "TransformerEncoder"]


class HiddenModel(Protocol):
    """What the encoder needs of a model."""

    def encode(self, ids_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
        """Hidden states (B, T, D) of int64 ids (B, T), where mask (B, T) bool is True."""
        ...


class TransformerEncoder:
    """Pooled hidden states, transformed. No token is left out: a text too long for the model is read in windows.

    Args:
        model: a torch module with `encode`; it is put in evaluation mode on the chosen device.
        tokenizer: its tokenizer; the special tokens that it puts around a text are put around every window.
        settings: the settings.
        dim: width of the hidden states.
        max_len: positions of the model, special tokens included.
        transform: what is applied to every vector; nothing where None.
        model_files: gives the bytes of the model's files by name, for `save`.
        model_names: those names.
        identity: what the caller wants to find again in the saved file (digests), JSON values.

    Raises:
        ConfigError: a pooling that a model does not have, a device that is not there, or a window larger than the model.
    """

    kind: EncoderKind = "transformer"

    def __init__(
        self,
        model: HiddenModel,
        tokenizer: Tokenizer,
        settings: EmbedSettings,
        *,
        dim: int,
        max_len: int,
        transform: Transform | None = None,
        model_files: Read | None = None,
        model_names: Sequence[str] = (),
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        if settings.pooling == "sif":
            raise ConfigError("not a pooling of a model", where="pooling", got="sif", expected="mean, cls or max")
        self.pooling: Pooling = "mean" if settings.pooling == "auto" else settings.pooling
        self.dim, self.max_len = dim, max_len
        self.transform = transform or Transform.none(dim)
        self.identity = dict(identity or {})
        self.device = pick_device(settings.device)
        half = settings.dtype == "bfloat16" or (settings.dtype == "auto" and self.device.type == "cuda")
        self.dtype = torch.bfloat16 if half else torch.float32
        self._model = cast("torch.nn.Module", model).to(self.device).eval()
        self._tokenizer = _unlimited(tokenizer)
        self._prefix, self._suffix = _special_ids(self._tokenizer)
        self._settings, self._model_files, self._model_names = settings, model_files, tuple(model_names)
        self.window = _window(settings, max_len - len(self._prefix) - len(self._suffix))
        self.overlap = min(settings.overlap, self.window // 2)

    def with_transform(self, transform: Transform) -> "TransformerEncoder":
        """The same encoder, sharing the model, with another transform."""
        return TransformerEncoder(
            cast("HiddenModel", self._model),
            self._tokenizer,
            self._settings,
            dim=self.dim,
            max_len=self.max_len,
            transform=transform,
            model_files=self._model_files,
            model_names=self._model_names,
            identity=self.identity,
        )

    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode texts.

        Raises:
            DivergedError: a vector is not finite; names the texts.
        """
        return in_pieces(texts, self._encode)

    def _encode(self, texts: Sequence[str]) -> EncodedBatch:
        ids_of_text = self._ids(texts)
        spans = [token_windows(len(ids), self.window, self.overlap) for ids in ids_of_text]
        windows = [
            [*self._prefix, *ids[start:stop], *self._suffix]
            for ids, parts in zip(ids_of_text, spans, strict=True)
            for start, stop in parts
        ]
        tokens_W = np.array([stop - start for parts in spans for start, stop in parts], dtype=np.int64)
        counts_N = np.array([len(parts) for parts in spans], dtype=np.int64)
        pooled_ND = merge_windows(self._pooled(windows), tokens_W, counts_N, self.pooling)
        _check_finite(pooled_ND, texts)
        vectors_ND, empty_N = self.transform.apply(unit_rows(pooled_ND)[0])
        return EncodedBatch(vectors_ND, empty_N, [[] for _ in texts], counts_N)

    def lengths(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Tokens of each text, without special ones."""
        return np.array([len(ids) for ids in self._ids(texts)], dtype=np.int64)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [item.ids for item in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def _pooled(self, windows: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """One vector (W, D) per window."""
        pooled_WD = np.zeros((len(windows), self.dim), dtype=np.float32)
        lengths_W = np.array([len(window) for window in windows], dtype=np.int64)
        with torch.inference_mode(), torch_threads(self._settings.threads), self._autocast():
            for group in token_batches(lengths_W, self._settings.batch_tokens):
                ids_BT, mask_BT = (
                    torch.from_numpy(array).to(self.device) for array in padded([windows[number] for number in group])
                )
                hidden_BTD = cast("HiddenModel", self._model).encode(ids_BT, mask_BT)
                pooled_WD[group] = pool_hidden(hidden_BTD, mask_BT, self.pooling).cpu().numpy()
        return pooled_WD

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def save(self, write: Write) -> None:
        """Write encoder.json, transform.safetensors and the model's files."""
        assert self._model_files is not None, "an encoder made without model_files cannot be saved"
        about = {
            "kind": self.kind,
            "pooling": self.pooling,
            "dim": self.dim,
            "max_len": self.max_len,
            "transform": self.transform.kind,
            "settings": self._settings.model_dump(mode="json", exclude={"device", "threads"}),  # of the machine asked
            "model_names": list(self._model_names),
            "identity": self.identity,
        }
        write(ENCODER_FILE, json.dumps(about, indent=2, sort_keys=True).encode())
        write(TRANSFORM_FILE, self.transform.to_bytes())
        for name in self._model_names:
            write(name, self._model_files(name))

    @classmethod
    def load(
        cls, about: Mapping[str, Any], read: Read, model: HiddenModel, tokenizer: Tokenizer
    ) -> "TransformerEncoder":
        """Load what `save` wrote; `about` is the content of its encoder.json."""
        return cls(
            model,
            tokenizer,
            EmbedSettings.make(about["settings"]),
            dim=about["dim"],
            max_len=about["max_len"],
            transform=Transform.from_bytes(read(TRANSFORM_FILE), about["transform"], where=TRANSFORM_FILE),
            model_files=read,
            model_names=about["model_names"],
            identity=about["identity"],
        )


def _unlimited(tokenizer: Tokenizer) -> Tokenizer:
    """A copy that neither truncates nor pads, whatever its file asks for."""
    own = Tokenizer.from_str(tokenizer.to_str())
    own.no_truncation()
    own.no_padding()
    return own


def _special_ids(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer puts before and after a text."""
    probe = tokenizer.encode("a")
    marks = probe.special_tokens_mask
    before = marks.index(0) if 0 in marks else len(marks)
    after = marks[::-1].index(0) if 0 in marks else 0
    return probe.ids[:before], probe.ids[len(marks) - after :]


def _window(settings: EmbedSettings, room: int) -> int:
    """Tokens of a text that a window holds."""
    if room < 1:
        raise ConfigError("the model has no room for text between its special tokens", where="max_len", got=room)
    if settings.window > room:
        raise ConfigError(
            "the window is larger than the model", where="window", got=settings.window, expected=f"at most {room}"
        )
    return settings.window or room


def _check_finite(pooled_ND: npt.NDArray[np.float32], texts: Sequence[str]) -> None:
    bad = np.flatnonzero(~np.isfinite(pooled_ND).all(axis=1))
    if len(bad):
        raise DivergedError(
            f"the model gave vectors that are not finite for {len(bad)} of {len(texts)} texts",
            where="; ".join(repr(texts[number][:60]) for number in bad[:3]),
            hint="its weights may have diverged in training; try --dtype float32",
        )
