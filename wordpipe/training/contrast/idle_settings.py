"""Settings that would change nothing beside the others, so that nobody believes they did. Imports nothing heavy."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wordpipe.training.contrast.encoder_settings import ContrastiveSettings

__all__ = ["idle_settings"]


def _of_table(settings: "ContrastiveSettings") -> bool:
    return settings.encoder == "static"


def _goes_on(settings: "ContrastiveSettings") -> bool:
    return settings.init is not None


_RULES: tuple[tuple[tuple[str, ...], Callable[["ContrastiveSettings"], bool], str], ...] = (
    (
        ("lexical_weight", "lexical_dim", "lsi_weight", "lsi_dim", "weighting", "sif_a"),
        lambda one: _of_table(one) and _goes_on(one),
        "a static encoder of init begins with its own table",
    ),
    (("words_weight",), lambda one: one.words is None, "there are no words"),
    (("lexical_dim",), lambda one: not one.lexical_weight, "lexical_weight is 0"),
    (("lsi_dim",), lambda one: not one.lsi_weight, "lsi_weight is 0"),
    (("min_count",), lambda one: one.unit == "token", "every token of the tokenizer has a vector"),
    (
        ("sif_a",),
        lambda one: _of_table(one) and one.word_weighting == "idf",
        "words weigh by idf: give weighting = sif",
    ),
    (("sif_a",), lambda one: one.pooling == "mean", "in a mean all tokens weigh alike"),
    (
        ("sif_a",),
        lambda one: _goes_on(one) and one.pooling is None,
        "the weights of init are taken over: give pooling = weighted to count them anew",
    ),
    (
        ("pair_dropout",),
        lambda one: _of_table(one) and bool(one.pair_dropout),
        "a static table has no dropout that tells a text from itself",
    ),
    (("denoise_rate",), lambda one: one.objective == "contrast", "nothing is rebuilt: give objective = denoise"),
    (("mask_rate",), lambda one: not one.mlm_weight, "mlm_weight is 0"),
    (("decay",), lambda one: one.schedule != "wsd", "only schedule = wsd has such a fall"),
    (("min_lr_frac",), lambda one: one.schedule == "constant", "the learning rate of schedule = constant never falls"),
)
"""Settings, when they do nothing, and why."""


def idle_settings(settings: "ContrastiveSettings") -> str | None:
    """What is wrong with the settings that somebody gave; None: each of them does something."""
    given = {name for name in settings.model_fields_set if getattr(settings, name) is not None}
    for names, is_idle, why in _RULES:
        if (idle := sorted(given.intersection(names))) and is_idle(settings):
            return f"{', '.join(idle)} would change nothing: {why}"
    return None
