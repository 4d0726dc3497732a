"""`wordpipe fill`: what an encoder expects in the gaps of a text."""

from dataclasses import dataclass
from typing import Any

from wordpipe.errors import ArtifactError, InputError
from wordpipe.model.filling import likeliest, span_of_masks
from wordpipe.model.settings import FillSettings
from wordpipe.runtime import torch_threads
from wordpipe.stages.making import PathLike, storage_errors
from wordpipe.stages.models import OpenModel, open_model, printable
from wordpipe.tokens.decoding import Gaps

__all__ = ["Candidate", "Filled", "Filler", "fill"]


@dataclass(frozen=True)
class Candidate:
    """One token for one gap.

    Attributes:
        mask: the gap, from 1.
        rank: from 1, the likeliest.
        token: as text; with the space before it where the vocabulary has it.
        probability: its share among all tokens that text is made of.
        filled: the text with it in this gap, and the likeliest tokens in the others.
    """

    mask: int
    rank: int
    token: str
    probability: float
    filled: str


@dataclass(frozen=True)
class Filled:
    """A text with its gaps filled.

    Attributes:
        text: with the gaps.
        filled: with the likeliest token in every gap.
        masks: for each gap its candidates, the likeliest first. All gaps were open while each was guessed.
        cut: tokens of the text that were not read, because the model is shorter; a gap is always read.
    """

    text: str
    filled: str
    masks: list[list[Candidate]]
    cut: int = 0


class Filler:
    """An encoder that fills gaps.

    Args:
        opened: an encoder.
        settings: how.

    Attributes:
        mask: the gap as it is written in a text.
        max_len: positions of the model.

    Raises:
        ArtifactError: the model is a decoder, or its tokenizer has no mask.
        ConfigError: no such device.
    """

    def __init__(self, opened: OpenModel, settings: FillSettings) -> None:
        opened.need("encoder")
        opened.move_to(settings.device)
        if "mask" not in opened.special:
            raise ArtifactError("the tokenizer has no mask, so there is nothing to write for a gap", where=opened.path)
        self._opened, self._settings = opened, settings
        self._mask_id, self.max_len = opened.special["mask"], opened.max_len
        self.mask = str(opened.tokenizer.id_to_token(self._mask_id))
        self._gaps = Gaps(opened.tokenizer, self.mask, self._mask_id)
        self._allowed_V = opened.tokens_that_come()

    def fill(self, text: str) -> Filled:
        """Fill the gaps of one text.

        Raises:
            InputError: no gap in it, or gaps too far apart for the model.
            DivergedError: the model's logits are not finite.
        """
        text = printable(text)
        if self.mask not in text:
            raise InputError(
                "there is nothing to fill",
                got=repr(text[:80]),
                hint=f'write {self.mask} for what is missing: "the {self.mask}"',
            )
        ids, cut = self._cut(self._gaps.ids(text))
        sequence = [*self._opened.before, *ids, *self._opened.after]
        places = [place for place, number in enumerate(sequence) if number == self._mask_id]
        with storage_errors(), torch_threads(self._settings.threads):
            ids_KC, shares_KC = likeliest(self._opened.model, sequence, places, self._allowed_V, self._settings.top_k)
        return self._result(text, ids_KC.tolist(), shares_KC.tolist(), cut)

    def _cut(self, ids: list[int]) -> tuple[list[int], int]:
        """The part that the model has room for, with all masks in it, and how many ids are not in it."""
        room = self.max_len - len(self._opened.before) - len(self._opened.after)
        places = [place for place, number in enumerate(ids) if number == self._mask_id]
        span = span_of_masks(places, len(ids), room)
        if span is None:
            raise InputError(
                "the gaps are too far apart for the model to see them together",
                got=f"{places[-1] - places[0] + 1} tokens from the first to the last",
                expected=f"at most {room}",
                hint="fill a part of the text at a time",
            )
        return ids[slice(*span)], len(ids) - (span[1] - span[0])

    def _result(self, text: str, ids_KC: list[list[int]], shares_KC: list[list[float]], cut: int) -> Filled:
        best = [ids[0] for ids in ids_KC]
        masks = [
            [
                Candidate(
                    mask=number + 1,
                    rank=rank,
                    token=self._gaps.shown(token_id),
                    probability=share,
                    filled=self._gaps.filled(text, [*best[:number], token_id, *best[number + 1 :]]),
                )
                for rank, (token_id, share) in enumerate(zip(ids, shares, strict=True), start=1)
            ]
            for number, (ids, shares) in enumerate(zip(ids_KC, shares_KC, strict=True))
        ]
        return Filled(text, self._gaps.filled(text, best), masks, cut)


def fill(model: PathLike | OpenModel, text: str, *, verify: bool = True, **settings: Any) -> Filled:
    """Fill the gaps of a text with an encoder.

    Args:
        model: a model artifact, a folder of transformers, or one that `open_model` has opened.
        text: with the tokenizer's mask (most often [MASK]) wherever something is missing.
        verify: check the artifact's hashes first.
        settings: fields of `FillSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = FillSettings.make(settings)
    opened = model if isinstance(model, OpenModel) else open_model(model, verify=verify)
    return Filler(opened, chosen).fill(text)
