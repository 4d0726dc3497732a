"""ELECTRA: a small masked model, the generator, and the discriminator that learns which tokens are the generator's.

Both read by the same embeddings. The generator is a fraction as wide; its guesses are drawn from its probabilities, and the
discriminator says of every token whether it is the text's own. After the training the discriminator is the model.

Source: Clark et al. 2020, "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators", section 2 and 3.2
(a quarter to a half as wide; embeddings shared).
"""

from dataclasses import replace

from torch import nn

from wordpipe.model.config import ModelConfig
from wordpipe.model.init import initialise
from wordpipe.model.transformer import LanguageModel

_SHARED = ("embedding", "position_embedding", "segment_embedding", "embedding_norm")


class Electra(nn.Module):
    """Generator and discriminator with one set of embeddings.

    The generator's own weights are uninitialised memory: `start_electra` fills them.

    Args:
        discriminator: what the model will be; it has `replaced_head`.
        share: width of the generator as a share of the discriminator's.

    Attributes:
        config: of the discriminator.
        discriminator: as given.
        generator: what makes its task.
    """

    def __init__(self, discriminator: LanguageModel, share: float) -> None:
        super().__init__()
        self.config, self.discriminator = discriminator.config, discriminator
        self.generator = LanguageModel(generator_config(self.config, share))

    @property
    def recompute(self) -> bool:
        """True if only the input of each block is kept while training (`LanguageModel.recompute`)."""
        return self.discriminator.recompute

    @recompute.setter
    def recompute(self, wanted: bool) -> None:
        self.discriminator.recompute = self.generator.recompute = wanted


def generator_config(config: ModelConfig, share: float) -> ModelConfig:
    """Return the shape of a generator that is about so wide, with whole heads."""
    n_heads = max(1, round(share * config.n_heads))
    return replace(
        config, dim=n_heads * config.head_dim, n_heads=n_heads, n_kv_heads=n_heads,
        ffn_dim=max(8, round(share * config.ffn_dim)), embedding_dim=config.table_dim, head=True, output_bias=True,
        replaced_head=False,
    )  # fmt: skip


def start_electra(discriminator: LanguageModel, share: float, seed: int) -> Electra:
    """Return a discriminator, with its weights, and a fresh generator that reads by the discriminator's embeddings."""
    model = Electra(discriminator, share)
    initialise(model.generator, seed)
    for name in _SHARED:
        setattr(model.generator, name, getattr(discriminator, name))
    return model
