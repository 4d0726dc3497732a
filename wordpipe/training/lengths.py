"""How long the sequences are, and what that means for a model that has its own length."""

from dataclasses import replace

from wordpipe.errors import ConfigError
from wordpipe.model.config import ModelConfig
from wordpipe.model.presets import PRESETS
from wordpipe.training.settings import PretrainSettings

__all__ = ["fitted"]


def fitted(settings: PretrainSettings, config: ModelConfig, before: int | None = None) -> tuple[ModelConfig, int]:
    """The model's shape with the dropout and the length that it is trained with, and the positions of a sequence.

    A fresh model is as long as its sequences. One that was given keeps its length if they are shorter; if they are longer it
    grows, unless its positions are a table of weights.

    Args:
        settings: what was asked for.
        config: of the model.
        before: positions of a sequence in the training that is extended.

    Raises:
        ConfigError: sequences longer than the model's table of positions.
    """
    usual = PRESETS[settings.preset].max_len if settings.init is not None else config.max_len
    seq_len = settings.seq_len or before or min(usual, config.max_len)
    if seq_len > config.max_len and config.positions == "learned":
        raise ConfigError(
            "the model has a learned position for each place, and no more",
            where="seq_len",
            got=seq_len,
            expected=f"at most {config.max_len}",
        )
    return replace(config, dropout=settings.dropout, max_len=max(seq_len, config.max_len)), seq_len
