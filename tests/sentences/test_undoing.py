import numpy as np
import pytest

from wordpipe.metrics.vectors import unit_rows
from wordpipe.sentences.transforms import Moments, Transform
from wordpipe.sentences.undoing import can_undo, undone


@pytest.mark.parametrize("spread", [0.05, 1.0])
def test_what_centring_did_is_undone(spread) -> None:
    rng = np.random.default_rng(0)
    raw, _ = unit_rows((rng.normal(size=32) + spread * rng.normal(size=(500, 32))).astype(np.float32))  # a cone
    moments = Moments(32)
    moments.add(raw)
    transform = moments.fit("centre")
    assert np.abs(undone(transform, transform.apply(raw)[0]) - raw).max() < 1e-6


def test_nothing_is_undone_to_the_bit() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert undone(Transform.none(3), vectors) is vectors


def test_what_is_lost_is_said_to_be() -> None:
    lost = Transform("remove-components", np.zeros(3, np.float32), np.eye(3, dtype=np.float32)[:1])
    assert not can_undo(lost)
    assert can_undo(Transform.none(3))
