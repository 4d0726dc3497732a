"""The recipes: what each objective of a language model is made of, one file each beside this one.

A new objective is a class of settings in `training/settings.py` and a file here with its `RECIPE`. The stage, the plan, the
learner and the measurements ask the recipe. This file is light: a recipe is loaded when it is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from wordpipe.model import Architecture, ModelConfig
from wordpipe.training.plan import SpecialIds, model_config
from wordpipe.training.settings import OBJECTIVES, PretrainSettings

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

    from wordpipe.model import LanguageModel, Transformer
    from wordpipe.training.objectives_and_masking import LanguageObjective
    from wordpipe.training.recipes.data import PairTexts, Texts

S = TypeVar("S", bound=PretrainSettings)

NAMES = tuple(settings.command.removeprefix("train ") for settings in OBJECTIVES)
"""Of all recipes; the command is "train " and the name."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Facts of tokens and a model that must be known before texts are laid out, for a training or a measurement.

    Attributes:
        special: the special ids of the tokenizer.
        n_tokens: its ids.
        seq_len: most positions of a sequence.
        tokenizer: of the texts; None: nobody asks where words begin.
        n_target_tokens: ids of the tokenizer of the second texts, where it is another one; else 0.
        frame: roles of what stands before and after a text that is read, see `FRAMES`.
        style: of an encoder-decoder.
        start_id: what a decoder begins with that reads another text.
        is_paired: whether the texts are pairs.
        teacher: a model to learn from.
    """

    special: SpecialIds
    n_tokens: int
    seq_len: int = 0
    tokenizer: "Tokenizer | None" = None
    n_target_tokens: int = 0
    frame: tuple[str, str] = ("", "eos")
    style: str = ""
    start_id: int | None = None
    is_paired: bool = False
    teacher: "LanguageModel | None" = None


def no_parts(settings: Any, opened: Opened) -> dict[str, Any]:
    """Return no further config fields: the settings name all fields of a fresh model."""
    del settings, opened
    return {}


def as_it_is(model: Any, settings: Any) -> Any:
    """Return the model itself, which is trained as it is."""
    del settings
    return model


@dataclass(frozen=True, kw_only=True)
class Recipe(Generic[S]):
    """An objective with its settings, texts, targets, loss and models.

    Attributes:
        name: the command is "train " and this.
        settings: their class.
        architecture: of the model.
        does: what the function in Python does, a sentence.
        more: what else there is to know of it.
        example: how it is called, the body of a doctest; empty: as all others are.
        data: how the texts are laid out. Raises ArtifactError: a special token is missing.
        objective: what is learned, on this device.
        valid_objective: what held-out text is measured by; None: as in training.
        accepts: "" for a model that one can start from; else which ones are.
        parts: fields of a fresh model's config that the settings do not say.
        model: what is trained, of the model with its first weights.
        saved: what is kept of it.
        pairs: whether second texts are learned: never, where there are some, or always.
        has_sentinels: whether a T5's tokenizer has them, and learns to write them.
    """

    name: str
    settings: type[S]
    architecture: Architecture
    does: str
    data: "Callable[[Opened, S], Texts | PairTexts]"
    objective: "Callable[[S, Opened, torch.device], LanguageObjective]"
    accepts: Callable[[ModelConfig], str]
    valid_objective: "Callable[[S, Opened, torch.device], LanguageObjective] | None" = None
    parts: Callable[[S, Opened], dict[str, Any]] = no_parts
    model: Callable[[Any, S], Any] = as_it_is
    saved: "Callable[[Any], Transformer]" = lambda model: model
    pairs: Literal["never", "some", "always"] = "never"
    has_sentinels: bool = False
    example: str = ""
    more: str = "To continue a stopped run, repeat the call: the result is the same as without a stop."

    @property
    def command(self) -> str:
        """Return the name of the command, such as "train mlm"."""
        return f"train {self.name}"

    def measured_by(self, settings: S, opened: Opened, device: "torch.device") -> "LanguageObjective":
        """Return the objective of the held-out loss."""
        return (self.valid_objective or self.objective)(settings, opened, device)


@cache
def recipe_named(name: str) -> Recipe[Any]:
    """Return the recipe of an objective by its name."""
    recipe: Recipe[Any] = import_module(f"wordpipe.training.recipes.{name}").RECIPE
    return recipe


def recipe_of(settings: PretrainSettings) -> Recipe[Any]:
    """Return the recipe that takes these settings."""
    return recipe_named(settings.command.removeprefix("train "))


def recipe_for(config: ModelConfig) -> Recipe[Any]:
    """Return the first recipe that can go on with a model of this shape, which is also measured by that recipe."""
    return next(recipe for recipe in map(recipe_named, NAMES) if not recipe.accepts(config))


def fresh_config(settings: PretrainSettings, opened: Opened) -> ModelConfig:
    """Return the config of a fresh model by the recipe of its settings. Raises ConfigError: see `model_config`."""
    recipe = recipe_of(settings)
    return model_config(
        settings,
        recipe.architecture,
        n_tokens=opened.n_tokens,
        special=opened.special,
        **recipe.parts(settings, opened),
    )
