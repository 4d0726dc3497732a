"""Masked language modelling: hidden tokens are guessed from both sides; of two texts, and with a teacher, too.

Documents end in [SEP]; every sequence is [CLS] … [SEP].

Source: Devlin et al. 2019, section 3.1; two texts in a sequence: `text_pairs`; a teacher: `distillation`.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from wordpipe.model import LanguageModel, ModelConfig, new_model
from wordpipe.training.objectives import LanguageObjective, Masked
from wordpipe.training.recipes.data import Texts
from wordpipe.training.recipes.table import Opened, Recipe
from wordpipe.training.sequences import Blocks, masked_blocks, pair_blocks
from wordpipe.training.settings import ElectraSettings, MaskedSettings
from wordpipe.training.token_stream import Flags, Ids, WordStarts


def masked_texts(opened: Opened, unit: str = "token", **given: Any) -> Texts:
    """Documents for an encoder; `given`: further attributes.

    Raises:
        ArtifactError: the tokenizer lacks [CLS], [SEP] or [MASK].
    """
    ids = opened.special.completed("encoder")
    cut = partial(_cut, masked_blocks, cls_id=ids.need("cls"), sep_id=ids.need("sep"))
    ids.need("mask")
    given = {"blocks": cut, "valid_blocks": cut} | given
    return Texts(
        opened.n_tokens, opened.seq_len, after=(ids.need("sep"),),
        find_starts=None if unit == "token" else lambda: WordStarts(opened.tokenizer),  # type: ignore[arg-type]
        **given,
    )  # fmt: skip


def _cut(lay: Any, ids: Ids, seq_len: int, starts: Flags | None = None, *, cls_id: int, sep_id: int) -> Blocks:
    return lay(ids, seq_len=seq_len, cls_id=cls_id, sep_id=sep_id, word_starts=starts)  # type: ignore[no-any-return]


def hiding(opened: Opened, device: torch.device, **given: Any) -> Masked:
    """What hides tokens: with BERT's masks, but for what is given of the attributes of `Masked`."""
    ids = opened.special.completed("encoder")
    berts: dict[str, Any] = {"rate": 0.15, "unit": "token", "mask_share": 0.8, "random_share": 0.1}
    return Masked(
        mask_id=ids.need("mask"), special_ids=ids.present(), n_tokens=opened.n_tokens, device=device, **berts | given
    )


def as_set(
    settings: MaskedSettings | ElectraSettings, opened: Opened, device: torch.device, rate_end: float | None = None
) -> Masked:
    """What hides tokens as the settings say."""
    return hiding(
        opened, device, rate=settings.mask_rate, rate_end=rate_end, unit=settings.mask_unit,
        mask_share=settings.mask_share, random_share=settings.shown_at_random,
    )  # fmt: skip


def held_out(settings: Any, opened: Opened, device: torch.device) -> Masked:
    """The held-out loss is always measured with BERT's masks, so that trainings with different ones compare."""
    del settings
    return hiding(opened, device)


def _data(opened: Opened, settings: MaskedSettings) -> Texts:
    """Of two texts in a sequence none is held out: that loss is one of single texts, as of all encoders."""
    texts = masked_texts(opened, settings.mask_unit)
    if settings.pair == "none":
        return texts
    ids = opened.special.completed("encoder")
    return replace(texts, blocks=partial(_cut, pair_blocks, cls_id=ids.need("cls"), sep_id=ids.need("sep")))


def _objective(settings: MaskedSettings, opened: Opened, device: torch.device) -> LanguageObjective:
    masked = as_set(settings, opened, device, settings.mask_rate_end)
    # what few trainings use is loaded by these alone
    if opened.teacher is not None:
        from wordpipe.training.recipes.distillation import Distilled

        return Distilled(masked, opened.teacher.to(device))
    if settings.pair != "none":
        from wordpipe.training.recipes.text_pairs import MaskedPairs

        return MaskedPairs(masked, settings.pair)
    return masked


def _parts(settings: MaskedSettings, opened: Opened) -> dict[str, Any]:
    del opened
    return {"pair_head": settings.pair != "none"}


def _with_pair_head(model: LanguageModel, settings: MaskedSettings) -> LanguageModel:
    """The same weights in a model that has a second head for two texts, or has none; a new one is fresh.

    Raises:
        ConfigError: the model does not know two texts from each other.
    """
    wanted = settings.pair != "none"
    if model.config.pair_head == wanted:
        return model
    other = new_model(replace(model.config, pair_head=wanted), settings.seed)
    given = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in other.named_parameters():
            weight.copy_(given.get(name, weight))
    return other


def accepts_encoders(config: ModelConfig) -> str:
    """An encoder which guesses by the stream that it reads with."""
    if config.architecture != "encoder":
        return "encoder"
    return "an encoder with one stream" if config.two_streams else ""


RECIPE = Recipe(
    name="mlm",
    settings=MaskedSettings,
    architecture="encoder",
    does="Train a bidirectional transformer by masked language modelling.",
    data=_data,
    objective=_objective,
    valid_objective=held_out,
    accepts=accepts_encoders,
    parts=_parts,
    model=_with_pair_head,
)
