"""How long a contrastive training takes, whatever it trains."""

import math

from wordpipe.training.contrast.settings import ContrastSettings

__all__ = ["LEAST_STEPS", "steps_of"]

LEAST_STEPS = 200  # where nobody says how long


def steps_of(settings: ContrastSettings, n_pairs: int) -> int:
    """How many steps the settings come to: those given, else by epochs, else one pass and at least 200.

    The last step of the last pass is a whole one and reaches into the next pass, so that no sentence is left out.

    Args:
        settings: `steps`, `epochs`, and the batch size.
        n_pairs: of one pass over the training text.
    """
    if settings.steps is not None:
        return settings.steps
    passes = 1.0 if settings.epochs is None else settings.epochs
    least = LEAST_STEPS if settings.epochs is None else 1
    # 1.1 · 30 / 3 comes to a little more than 11
    return max(least, math.ceil(passes * n_pairs / settings.pairs_per_step - 1e-9))
