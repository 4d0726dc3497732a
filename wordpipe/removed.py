"""What earlier versions had and this one has not: the one table of removed commands, options and values.

Whoever asks for one is told what to use instead. An artifact that was made without asking for it stays fresh: its recipe held
the option's default, which is kept here and hashed as before.
"""

from dataclasses import dataclass
from typing import Any

__all__ = [
    "COMMANDS",
    "OPTIONS",
    "VALUES",
    "Removed",
    "recipe_before",
    "why_no_command",
    "why_no_option",
    "why_no_value",
]

_NOT_IN_RECIPES: Any = object()


@dataclass(frozen=True)
class Removed:
    """An option that is gone.

    Attributes:
        instead: what to do now, as a sentence without a full stop.
        was: what recipes hold for it where nobody asked for it; left out where it was no part of a recipe.
    """

    instead: str
    was: Any = _NOT_IN_RECIPES


COMMANDS: dict[str, str] = {}
"""Command → what to do instead."""

OPTIONS: dict[str, dict[str, Removed]] = {
    "tokenize": {},
    "train word2vec": {},
    "train mlm": {"verify_resume": Removed("the tests prove it; a training on a CPU always resumes exactly")},
    "train clm": {"verify_resume": Removed("the tests prove it; a training on a CPU always resumes exactly")},
    "train contrastive": {
        "objective": Removed("train on pairs; the nearest to it is pair_deletion = 1", was="contrast"),
        "denoise_rate": Removed("pairs of deleted texts have deletion_rate", was=0.6),
        "queue": Removed("give a larger --batch-size, whose texts are all negatives", was=0),
        "mlm_weight": Removed("train the model longer by train mlm first, or with a lower --lr here", was=0.0),
        "mask_rate": Removed("it belonged to mlm_weight; train mlm has its own --mask-rate", was=0.3),
    },
    "embed": {},
    "index": {},
    "query": {},
    "evaluate tokenizer": {},
    "evaluate words": {},
    "evaluate model": {},
    "evaluate sts": {},
    "evaluate retrieval": {},
}
"""Command → setting (or option, with underscores) → what became of it."""

VALUES: dict[str, dict[str, dict[str, str]]] = {
    "train word2vec": {},
    "train mlm": {},
    "train clm": {},
    "train contrastive": {},
    "index": {},
    "export": {},
}
"""Command → setting → value that it no longer takes → what to do instead."""


def recipe_before(command: str) -> dict[str, Any]:
    """The removed settings of a command, as recipes hold them where nobody asked for them."""
    gone = OPTIONS.get(command, {})
    return {name: removed.was for name, removed in gone.items() if removed.was is not _NOT_IN_RECIPES}


def why_no_command(name: str) -> str | None:
    """What to say to somebody who calls a removed command; None: there never was one."""
    return f"{name} was removed: {COMMANDS[name]}" if name in COMMANDS else None


def why_no_option(command: str, name: str) -> str | None:
    """What to say to somebody who gives a removed option; None: there never was one."""
    removed = OPTIONS.get(command, {}).get(name)
    return f"{name} was removed: {removed.instead}" if removed else None


def why_no_value(command: str, name: str, value: object) -> str | None:
    """What to say to somebody who gives a removed value of an option; None: there never was one."""
    instead = VALUES.get(command, {}).get(name, {}).get(str(value))
    return f"{name} = {value} was removed: {instead}" if instead else None
