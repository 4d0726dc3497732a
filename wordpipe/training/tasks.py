"""The two pretraining tasks, each with the model, the document boundaries, the blocks and the objective that go together."""

from typing import Protocol

import torch

from wordpipe.errors import ArtifactError
from wordpipe.model.config import Architecture
from wordpipe.training.blocks import Blocks, causal_blocks, masked_blocks
from wordpipe.training.objectives import Causal, Masked, Objective
from wordpipe.training.plan import SpecialIds
from wordpipe.training.settings import MaskedSettings, PretrainSettings
from wordpipe.training.stream import Flags, Ids

__all__ = ["VALID_MASKS", "Task", "make_task"]

VALID_MASKS = {"mask_rate": 0.15, "mask_unit": "token", "mask_share": 0.8, "random_share": 0.1}
"""Held-out loss is always measured with BERT's masks, so that runs with different ones compare."""


class Task(Protocol):
    """What `train mlm` and `train clm` differ in.

    Attributes:
        architecture: of the model.
        before: ids put before each document of the stream.
        after: ids put after each document.
        needs_word_starts: whether `blocks` wants to know where words begin.
    """

    architecture: Architecture
    before: tuple[int, ...]
    after: tuple[int, ...]
    needs_word_starts: bool

    def blocks(self, ids: Ids, seq_len: int, word_starts: Flags | None = None) -> Blocks:
        """The stream as sequences of `seq_len` positions.

        Args:
            ids: the stream.
            seq_len: positions that the model sees.
            word_starts: whether a word begins at each id; only training needs it, not validation.
        """
        ...

    def objective(self, device: torch.device, *, valid: bool = False) -> Objective:
        """What is trained, or (`valid`) what the held-out loss measures."""
        ...


def make_task(settings: PretrainSettings, *, n_tokens: int, special: SpecialIds) -> Task:
    """The task of these settings.

    Args:
        settings: `MaskedSettings` or `CausalSettings`.
        n_tokens: ids of the tokenizer.
        special: its special ids.

    Raises:
        ArtifactError: the tokenizer lacks a special token that the task needs.
    """
    if isinstance(settings, MaskedSettings):
        return _MaskedTask(settings, n_tokens, special.completed("encoder"))
    return _CausalTask(special.completed("decoder"))


class _MaskedTask:
    """Documents end in [SEP]; every sequence is [CLS] … [SEP]."""

    def __init__(self, settings: MaskedSettings, n_tokens: int, special: SpecialIds) -> None:
        self.architecture: Architecture = "encoder"
        self._settings, self._n_tokens, self._special = settings, n_tokens, special
        self._cls_id, self._sep_id = _needed(special.cls, "[CLS]"), _needed(special.sep, "[SEP]")
        self._mask_id = _needed(special.mask, "[MASK]")
        self.before: tuple[int, ...] = ()
        self.after: tuple[int, ...] = (self._sep_id,)
        self.needs_word_starts = settings.mask_unit != "token"

    def blocks(self, ids: Ids, seq_len: int, word_starts: Flags | None = None) -> Blocks:
        return masked_blocks(ids, seq_len=seq_len, cls_id=self._cls_id, sep_id=self._sep_id, word_starts=word_starts)

    def objective(self, device: torch.device, *, valid: bool = False) -> Masked:
        settings = MaskedSettings.make(VALID_MASKS) if valid else self._settings
        return Masked(
            rate=settings.mask_rate,
            rate_end=settings.mask_rate_end,
            unit=settings.mask_unit,
            mask_share=settings.mask_share,
            random_share=settings.shown_at_random,
            mask_id=self._mask_id,
            special_ids=self._special.present(),
            n_tokens=self._n_tokens,
            device=device,
        )


class _CausalTask:
    """Documents are <s> … </s>; … </s> where one token is both, as in GPT-2, which then is a target like any other."""

    def __init__(self, special: SpecialIds) -> None:
        self.architecture: Architecture = "decoder"
        self._bos_id = _needed(special.bos, "<s>")
        self.after: tuple[int, ...] = (_needed(special.eos, "</s>"),)
        self._is_both = self.after == (self._bos_id,)
        self.before: tuple[int, ...] = () if self._is_both else (self._bos_id,)
        self.needs_word_starts = False

    def blocks(self, ids: Ids, seq_len: int, word_starts: Flags | None = None) -> Blocks:
        return causal_blocks(ids, seq_len=seq_len)

    def objective(self, device: torch.device, *, valid: bool = False) -> Causal:
        return Causal(bos_id=None if self._is_both else self._bos_id)


def _needed(token_id: int | None, name: str) -> int:
    if token_id is None:
        raise ArtifactError(
            f"the tokenizer has no {name} token",
            hint="train a tokenizer with `wordpipe tokenize`, which gives it all special tokens",
        )
    return token_id
