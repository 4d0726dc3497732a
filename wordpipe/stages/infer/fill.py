"""`wordpipe fill`: masked positions filled by an encoder, and what is missing written by a denoised encoder-decoder.

    encoder       The [MASK] fly.           → the most probable tokens at the masked position
    T5            The <extra_id_0> fly.     → <extra_id_0> bees</s>          between the sentinels stands what is missing
    BART          The <mask> fly.           → The bees fly.</s>              the whole text

An encoder knows one token for a mask. The others write as many as it takes, for all masks at once, so their candidates are
whole texts, found by beam search. Sources: Raffel et al. 2020, figure 2; Lewis et al. 2020, section 2.2.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.model.settings import FillSettings
from wordpipe.runtime import torch_threads
from wordpipe.stages.job import PathLike, storage_errors
from wordpipe.stages.models import DENOISING, OpenModel, open_model
from wordpipe.stages.python_calls import printable, public
from wordpipe.tokens import MaskTokenizer

if TYPE_CHECKING:
    from wordpipe.model import Hypothesis

_SENTINEL = re.compile(r"<extra_id_\d+>")
_USUAL_MASK = "[MASK]"  # for the sentinels of a tokenizer without a mask
_OTHER_MASKS = ("<mask>", "<MASK>")  # as tokenizers spell it; taken for a mask where theirs has such a token
_LEAST_BEAMS, _MOST_BEAMS = 5, 1_000
_SEARCHES = 4  # each with twice the beams of the one before, until there are as many different texts as were asked for
_FILL_PARTS = "split the text into parts and fill each part separately"
_TOKENS_OF_A_SPAN = 16  # at most; in training it has 3 on average


@dataclass(frozen=True)
class Candidate:
    """One token for one masked position.

    Attributes:
        mask: number of the masked position, from 1.
        rank: from 1, the most probable.
        token: as text; with the space before it where the vocabulary has it.
        probability: its share among all tokens that text is made of.
        filled: the text with it in this position, and the most probable tokens in the others.
    """

    mask: int
    rank: int
    token: str
    probability: float
    filled: str


@dataclass(frozen=True)
class Filling:
    """One text that an encoder-decoder writes for all masks of a text.

    Attributes:
        rank: from 1, the best.
        filled: the text; of BART the one that it wrote, where a part was cut without that.
        spans: what stands at each mask; empty of BART, which does not say.
        score: mean log-probability (natural) of the tokens that were written.
        logprob: their sum.
    """

    rank: int
    filled: str
    spans: list[str]
    score: float
    logprob: float


@dataclass(frozen=True)
class Filled:
    """A text with its masked positions filled.

    Attributes:
        text: with the masks.
        filled: with the most probable token in every masked position.
        masks: for each masked position its candidates, the most probable first; all others were masked, too. Empty where an
            encoder-decoder filled them.
        cut: tokens of the text that were not read, because the model is shorter; masked positions are always read.
        fillings: the candidates of an encoder-decoder, the best first.
    """

    text: str
    filled: str
    masks: list[list[Candidate]]
    cut: int = 0
    fillings: list[Filling] = field(default_factory=list)


class Filler:
    """An encoder that fills masked positions.

    Args:
        opened: an encoder.
        settings: how.

    Attributes:
        mask: the mask as it is written in a text.
        max_len: positions of the model.

    Raises:
        ArtifactError: the model is a decoder, or its tokenizer has no mask.
        ConfigError: no such device.
    """

    def __init__(self, opened: OpenModel, settings: FillSettings) -> None:
        opened.need("encoder")
        opened.need_guesses()
        opened.move_to(settings.device)
        if "mask" not in opened.special:
            raise ArtifactError("the tokenizer has no mask token, so the model cannot fill masks", where=opened.path)
        self._opened, self._settings = opened, settings
        self._mask_id, self.max_len = opened.special["mask"], opened.max_len
        self.mask = str(opened.tokenizer.id_to_token(self._mask_id))
        self._masked = MaskTokenizer(opened.tokenizer, self.mask, self._mask_id)
        self._allowed_V = opened.tokens_that_come()

    def fill(self, text: str) -> Filled:
        """Fill the masked positions of one text.

        Raises:
            InputError: no mask in it, or masks too far apart for the model.
            DivergedError: the model's logits are not finite.
        """
        from wordpipe.model import most_probable

        text = printable(text)
        if self.mask not in text:
            raise _nothing_to_fill(text, self.mask)
        ids, cut = _read_part(self._opened, self._masked.ids(text), {self._mask_id})
        sequence = [*self._opened.before, *ids, *self._opened.after]
        positions = [position for position, number in enumerate(sequence) if number == self._mask_id]
        with storage_errors(), torch_threads(self._settings.threads):
            ids_KC, shares_KC = most_probable(
                self._opened.language_model, sequence, positions, self._allowed_V, self._settings.top_k
            )
        return self._result(text, ids_KC.tolist(), shares_KC.tolist(), cut)

    def _result(self, text: str, ids_KC: list[list[int]], shares_KC: list[list[float]], cut: int) -> Filled:
        """Return the text with masks filled, with the candidates of each masked position."""
        best = [ids[0] for ids in ids_KC]
        masks = [
            [
                Candidate(
                    mask=number + 1,
                    rank=rank,
                    token=self._masked.shown(token_id),
                    probability=share,
                    filled=self._masked.filled(text, [*best[:number], token_id, *best[number + 1 :]]),
                )
                for rank, (token_id, share) in enumerate(zip(ids, shares, strict=True), start=1)
            ]
            for number, (ids, shares) in enumerate(zip(ids_KC, shares_KC, strict=True))
        ]
        return Filled(text, self._masked.filled(text, best), masks, cut)


class DenoisingFiller:
    """An encoder-decoder that was trained to restore texts, used to fill masks.

    Args:
        opened: the model; its tokenizer has T5's sentinels (<extra_id_0>, …), or a mask.
        settings: how. Of the beams the best different texts are kept, without those that fill nothing, if there are others;
            where they are too few, more beams search.

    Attributes:
        mask: the mask as it is written in a text; [MASK] and sentinels may be written, too.
        max_len: positions of the model.

    Raises:
        ArtifactError: the model was trained to write other texts, or its tokenizer has nothing for what is missing.
        ConfigError: more candidates than there may be beams, or no such device.
    """

    def __init__(self, opened: OpenModel, settings: FillSettings) -> None:
        # The model must have learned to restore texts, and its tokenizer needs a token for what is missing.
        self._opened, self._model, self.max_len = opened, opened.pair_model, opened.max_len
        tokenizer = opened.tokenizer
        self._sentinels = _sentinels_of(opened)
        apart = opened.target_tokenizer is not None
        if not (self._sentinels or "mask" in opened.special) or opened.made_by not in ("", DENOISING) or apart:
            made = (
                "separate vocabularies for source and target"
                if apart
                else "a tokenizer without sentinel and mask tokens"
            )
            made = f"a model made by `wordpipe {opened.made_by}`" if opened.made_by else made
            raise ArtifactError(
                "the model was not trained for denoising, so it cannot fill masks", where=opened.path, got=made,
                expected="a model made by `wordpipe train denoising`",
                hint="wordpipe train denoising TOKENS -o MODEL --style t5|bart",
            )  # fmt: skip
        if settings.top_k > _MOST_BEAMS:
            raise ConfigError(
                "the number of candidates is larger than the maximum number of beams",
                where="top_k",
                got=settings.top_k,
                expected=f"at most {_MOST_BEAMS}",
            )
        opened.move_to(settings.device)
        self._settings = settings
        # The mask as it may be written in a text, and the tokens that the model knows for it.
        own = tokenizer.id_to_token(opened.special["mask"]) if "mask" in opened.special else None
        self.mask = str(own or _USUAL_MASK)
        names = {str(tokenizer.id_to_token(number)): number for number in self._sentinels}
        first, *_ = names.items() or [(self.mask, opened.special.get("mask", -1))]
        self._gaps = MaskTokenizer(tokenizer, *first, names)
        spelled = [self.mask, _USUAL_MASK, *(one for one in _OTHER_MASKS if tokenizer.token_to_id(one) is not None)]
        self._written = re.compile("|".join([*map(re.escape, spelled), *([_SENTINEL.pattern] if names else [])]))
        self._after = opened.after or (opened.special["eos"],)

    def fill(self, text: str) -> Filled:
        """Fill what is missing in one text.

        Raises:
            InputError: no mask in it, more than there are sentinels, or masks too far apart for the model.
            DivergedError: the model's logits are not finite.
        """
        text = printable(text)
        parts = self._written.split(text)  # between the masks
        if len(parts) == 1:
            raise _nothing_to_fill(text, self.mask)
        names = self._names(len(parts) - 1)
        source = parts[0] + "".join(name + part for name, part in zip(names, parts[1:], strict=True))
        gaps = set(self._sentinels) or {self._opened.special["mask"]}
        ids, cut = _read_part(self._opened, self._gaps.ids(source), gaps)
        sequence, beams = [*self._opened.before, *ids, *self._after], max(_LEAST_BEAMS, self._settings.top_k)
        for _ in range(_SEARCHES):
            with storage_errors(), torch_threads(self._settings.threads):
                found = self._search(sequence, len(parts) - 1, beams)
            best = self._different(found, parts, gaps)[: self._settings.top_k]
            if len(best) == self._settings.top_k or beams == _MOST_BEAMS:
                break
            beams = min(_MOST_BEAMS, 2 * beams)
        best = [replace(one, rank=rank) for rank, one in enumerate(best, start=1)]
        return Filled(text, best[0].filled, [], cut, best)

    def _different(self, found: "list[Hypothesis]", parts: list[str], gaps: set[int]) -> list[Filling]:
        """Return the different filled texts that a beam search found; those that fill no mask only if there are no others."""
        fillings: dict[str, Filling] = {}
        for one in found:
            spans = [one.ids] if not self._sentinels else _spans(one.ids, self._sentinels[: len(parts) - 1], gaps)
            shown = [self._opened.tokenizer.decode(list(span), skip_special_tokens=True).strip() for span in spans]
            filled = self._gaps.joined(parts, spans) if self._sentinels else shown[0]
            kept = Filling(0, filled, shown if self._sentinels else [], one.score, one.logprob)
            fillings.setdefault(filled, kept)
        bare = "".join("".join(parts).split())
        return [one for text, one in fillings.items() if "".join(text.split()) != bare] or list(fillings.values())

    def _names(self, n_masks: int) -> list[str]:
        """Return the token of each mask to fill: the n-th mask of a text is the n-th sentinel."""
        if not self._sentinels:
            return [self.mask] * n_masks
        if n_masks > len(self._sentinels):
            raise InputError(
                "the text has more masks than the tokenizer has sentinel tokens", got=n_masks,
                expected=f"at most {len(self._sentinels)}",
                hint=_FILL_PARTS,
            )  # fmt: skip
        return [str(self._opened.tokenizer.id_to_token(number)) for number in self._sentinels[:n_masks]]

    def _search(self, ids: list[int], n_masks: int, beams: int) -> "list[Hypothesis]":
        """Search the best fillings of masks; of T5 with the sentinels of this text."""
        import torch

        from wordpipe.model import Rules, beam_search

        allowed_V = self._opened.tokens_that_come("eos")
        most = 2 * len(ids) + 20
        if self._sentinels:
            allowed_V[list(self._sentinels)] = False
            allowed_V[list(self._sentinels[: n_masks + 1])] = True
            most = _TOKENS_OF_A_SPAN * n_masks + 2
        rules = Rules(
            allowed_V=allowed_V, stop_id=self._opened.special["eos"], max_tokens=min(most, self.max_len),
            first_id=self._model.config.first_id,
        )  # fmt: skip
        with torch.inference_mode():
            source = self._model.read(torch.tensor([ids], device=allowed_V.device))
            return beam_search(self._model, source, rules, beams=beams, n_best=beams)[0]


def filler_of(opened: OpenModel, settings: FillSettings) -> "Filler | DenoisingFiller":
    """Return the object that fills texts with this model."""
    return DenoisingFiller(opened, settings) if opened.writes_targets else Filler(opened, settings)


def _sentinels_of(opened: OpenModel) -> tuple[int, ...]:
    """Return the ids of T5's sentinels <extra_id_0>, …, which stand for masks to fill."""
    found: list[int] = []
    while (number := opened.tokenizer.token_to_id(f"<extra_id_{len(found)}>")) is not None:
        found.append(number)
    return tuple(found)


def _spans(ids: Sequence[int], wanted: Sequence[int], sentinels: set[int]) -> list[Sequence[int]]:
    """Return the ids that fill each of the wanted sentinels, up to the next sentinel; none where the sentinel is missing.

    >>> _spans([90, 5, 6, 91, 92, 7], [90, 91, 92, 93], {90, 91, 92, 93})
    [[5, 6], [], [7], []]
    """
    places = [place for place, number in enumerate(ids) if number in sentinels]
    ends = dict(pairwise([*places, len(ids)]))
    first = {ids[place]: place for place in reversed(places)}
    return [ids[first[one] + 1 : ends[first[one]]] if one in first else [] for one in wanted]


def _nothing_to_fill(text: str, mask: str) -> InputError:
    """Return the error of a text without a mask."""
    return InputError(
        "the text has no mask to fill",
        got=repr(text[:80]),
        hint=f'write {mask} where a word is missing, for example "the {mask}"',
    )


def _read_part(opened: OpenModel, ids: list[int], gaps: set[int]) -> tuple[list[int], int]:
    """Return the part of a text to fill that the model has room for, with all masks, and how many ids not.

    Raises:
        InputError: the masks are too far apart.
    """
    from wordpipe.model import span_of_masks

    room = opened.max_len - len(opened.before) - max(len(opened.after), int(opened.writes_targets))
    positions = [position for position, number in enumerate(ids) if number in gaps]
    span = span_of_masks(positions, len(ids), room)
    if span is None:
        raise InputError(
            "the first and the last mask are too far apart: the model cannot read all masks together",
            got=f"{positions[-1] - positions[0] + 1} tokens from the first to the last mask",
            expected=f"at most {room} tokens",
            hint=_FILL_PARTS,
        )
    return ids[slice(*span)], len(ids) - (span[1] - span[0])


@public(FillSettings)
def fill(model: PathLike | OpenModel, text: str, *, verify: bool = True, **settings: Any) -> Filled:
    """Fill the masked positions of a text with an encoder, or with a denoised encoder-decoder.

    Args:
        model: a model artifact, a folder of transformers, or one that `open_model` has opened.
        text: with the tokenizer's mask (most often [MASK]) wherever something is missing.
        verify: check the artifact's hashes first.
        settings: fields of `FillSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> filled = wordpipe.fill("run/model", "the high [MASK] of the day", top_k=3)
        >>> len(filled.masks), len(filled.masks[0])
        (1, 3)
    """
    chosen = FillSettings.make(settings)
    opened = model if isinstance(model, OpenModel) else open_model(model, verify=verify)
    return filler_of(opened, chosen).fill(text)
