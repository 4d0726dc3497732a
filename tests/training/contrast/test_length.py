"""The number of steps that settings come to, for both encoders alike."""

import pytest

from wordpipe.training.contrastive import pair_plan
from wordpipe.training.contrastive.settings import ContrastiveSettings

PAIRS = 640


@pytest.mark.parametrize(
    ("given", "n_pairs", "expected"),
    [
        ({"steps": 7}, 40 * PAIRS, 7),
        ({"epochs": 2.5}, 40 * PAIRS, 100),
        ({"epochs": 1}, 40 * PAIRS + 1, 41),  # the last pair is not left out
        ({"epochs": 1.1}, 10 * PAIRS, 11),
        ({"epochs": 0.001}, 40 * PAIRS, 1),
        ({}, 40 * PAIRS, 200),
        ({}, 300 * PAIRS - 1, 300),
    ],
)
@pytest.mark.parametrize("encoder", ["static", "transformer"])
def test_the_steps_of_a_text(encoder: str, given: dict[str, float], n_pairs: int, expected: int) -> None:
    settings = ContrastiveSettings.make({"encoder": encoder, "batch_size": PAIRS} | given)
    assert pair_plan(settings, n_pairs).steps == expected
