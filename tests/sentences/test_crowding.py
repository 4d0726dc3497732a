"""How crowded vectors are, told while they stream by."""

import numpy as np
import pytest

from wordpipe.metrics import mean_cosine, unit_rows
from wordpipe.sentences import MAX_MEAN_COSINE, MeanCosine
from wordpipe.stages import NORMS


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_it_is_the_mean_over_all_pairs_however_they_are_parted(shift):
    unit_ND, _ = unit_rows((np.random.default_rng(1).standard_normal((70, 9)) + shift).astype(np.float32))
    running = MeanCosine(9)
    for part in np.split(unit_ND, [1, 1, 40]):
        running.add(part)
    cosines = [float(a @ b) for i, a in enumerate(unit_ND) for b in unit_ND[:i]]
    assert running.value == pytest.approx(np.mean(cosines), abs=1e-6)
    assert running.value == pytest.approx(mean_cosine(unit_ND), abs=1e-6)


def test_a_few_vectors_say_nothing():
    running = MeanCosine(2)
    assert running.value is None
    running.add(np.tile(np.float32([[1, 0]]), (15, 1)))
    assert running.value is None
    running.add(np.float32([[1, 0]]))
    assert running.value == 1.0


def test_what_is_said_unasked_the_doctor_calls_sick():
    assert next(norm.sick for norm in NORMS if norm.name == "mean_cosine") <= MAX_MEAN_COSINE
