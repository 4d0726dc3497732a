import numpy as np
import pytest

from wordpipe.errors import InputError
from wordpipe.stages import NORMS, Figures, Sample, best_transform, diagnose, rate, unit_sample


def space(n: int, dim: int, *, cone: float = 0.0, length: float = 0.0, flat: float = 1.0, seed: int = 1) -> Sample:
    """Vectors around a common direction, with a direction that says how long the text is; few directions are strong."""
    draw = np.random.default_rng(seed)
    lengths_N = draw.uniform(1, 5, n)
    vectors_ND = draw.standard_normal((n, dim))
    vectors_ND[:, 4:] *= flat
    vectors_ND[:, 0] += cone
    vectors_ND[:, 1] += length * (lengths_N - 3)
    return unit_sample(Sample(vectors_ND.astype(np.float32), lengths_N, np.full(n, np.nan)), 1)


def states(figures: Figures) -> dict[str, str]:
    return {verdict["name"]: verdict["state"] for verdict in rate(figures)}


def test_an_even_space_is_healthy() -> None:
    spaces = diagnose(space(2_000, 32))
    assert set(states(spaces["none"]).values()) == {"healthy"}
    assert best_transform(spaces) == "none"
    assert spaces["none"]["frequency_told"] is None
    assert "frequency_in_cosine" not in states(spaces["none"])


def test_a_cone_is_sick_and_centring_mends_it() -> None:
    spaces = diagnose(space(2_000, 32, cone=9))
    assert states(spaces["none"])["mean_cosine"] == "sick"
    assert states(spaces["none"])["effective_rank"] == "weak"
    assert set(states(spaces["centre"]).values()) == {"healthy"}
    assert best_transform(spaces) == "centre"


def test_of_equals_the_strongest_mends_what_lies_in_next_to_no_directions() -> None:
    spaces = diagnose(space(2_000, 32, cone=40))
    assert states(spaces["none"])["effective_rank"] == "sick"
    assert set(states(spaces["centre"]).values()) == set(states(spaces["whiten"]).values()) == {"healthy"}
    assert best_transform(spaces) == "whiten"


def test_a_flat_cone_needs_whitening() -> None:
    spaces = diagnose(space(4_000, 48, cone=3, flat=0.03))
    assert states(spaces["none"])["mean_cosine"] == "sick"
    assert states(spaces["centre"])["effective_rank"] == "weak"
    assert best_transform(spaces) == "whiten"
    assert spaces["whiten"]["effective_rank"] > 40


def test_a_weak_space_is_left_alone() -> None:
    spaces = diagnose(space(2_000, 32, cone=3))
    assert states(spaces["none"])["mean_cosine"] == "weak"
    assert best_transform(spaces) == "none"


def test_length_in_the_vectors_is_found() -> None:
    figures = diagnose(space(2_000, 32, length=3))["none"]
    assert states(figures)["length_in_cosine"] == "sick"
    assert figures["length_told"] is not None
    assert figures["length_told"] > 0.5


def test_every_state_has_words() -> None:
    assert all(len(set(norm.says)) == 3 for norm in NORMS)
    assert all(norm.weak < norm.sick for norm in NORMS)
    assert {norm.name for norm in NORMS} < set(diagnose(space(100, 8))["none"])


def test_what_cannot_be_fitted_is_left_out() -> None:
    assert list(diagnose(space(100, 2), components=2)) == ["none", "centre", "whiten"]
    with pytest.raises(InputError, match="too few different vectors"):
        diagnose(space(63, 8))


def test_a_sample_has_every_vector_once() -> None:
    vectors_ND = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0) * np.array([[1], [2], [3], [4]] * 3, np.float32)
    read = Sample(np.vstack([vectors_ND, np.zeros((2, 3), np.float32)]), np.arange(14.0), np.arange(14.0))
    sample = unit_sample(read, 1)
    assert sorted(sample.lengths) == [0.0, 4.0, 8.0]
    np.testing.assert_array_equal(np.sort(sample.vectors.sum(axis=1)), [1, 1, 1])
