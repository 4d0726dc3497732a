"""Transforms of the space against the textbook, and the mean cosine of vectors that stream by."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.encoders import MAX_MEAN_COSINE, Moments, Transform, TransformKind, mean_cosine_of_sum, shrinkage
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics import mean_cosine, unit_rows
from wordpipe.stages import NORMS

KINDS: tuple[TransformKind, ...] = ("none", "centre", "remove-components", "whiten")


def crowd(n: int, dim: int, seed: int) -> np.ndarray:
    """Unit vectors in a narrow cone, stretched along one direction."""
    rng = np.random.default_rng(seed)
    vectors_ND = rng.standard_normal((n, dim)) + 4 * rng.standard_normal(dim)
    vectors_ND += 2 * rng.standard_normal((n, 1)) * rng.standard_normal(dim)
    return unit_rows(vectors_ND.astype(np.float32))[0]


@settings(deadline=None)
@given(st.integers(0, 9_999), st.integers(20, 60), st.integers(1, 6), st.integers(1, 17))
def test_streamed_fit_matches_the_textbook(seed: int, n: int, components: int, block: int) -> None:
    vectors_ND = crowd(n, 8, seed)
    moments = Moments(8)
    for first in range(0, n, block):
        moments.add(vectors_ND[first : first + block])
    fitted = moments.fit("remove-components", components)

    centred_ND = vectors_ND.astype(np.float64) - vectors_ND.astype(np.float64).mean(axis=0)
    _, _, directions = np.linalg.svd(centred_ND, full_matrices=False)
    removed_ND = centred_ND - centred_ND @ directions[:components].T @ directions[:components]
    expected_ND = removed_ND / np.linalg.norm(removed_ND, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.apply(vectors_ND)[0], expected_ND, atol=2e-4)
    np.testing.assert_allclose(fitted.components @ fitted.components.T, np.eye(components), atol=1e-5)


def test_centring_spreads_a_cone() -> None:
    vectors_ND = crowd(500, 16, 1)
    moments = Moments(16)
    moments.add(vectors_ND)
    before = np.triu(vectors_ND @ vectors_ND.T, 1).sum() / (500 * 499 / 2)
    for kind in ("centre", "remove-components"):
        spread_ND, lost_N = moments.fit(kind, 1).apply(vectors_ND)  # type: ignore[arg-type]
        after = np.triu(spread_ND @ spread_ND.T, 1).sum() / (500 * 499 / 2)
        assert abs(after) < 0.05 < 0.5 < before
        assert not lost_N.any()
        np.testing.assert_allclose(np.linalg.norm(spread_ND, axis=1), 1, atol=1e-6)


def test_nothing_is_changed_by_none() -> None:
    vectors_ND = crowd(30, 8, 2)
    moments = Moments(8)
    moments.add(vectors_ND)
    unchanged_ND, lost_N = moments.fit("none", 5).apply(vectors_ND)
    np.testing.assert_allclose(unchanged_ND, vectors_ND, atol=1e-7)
    assert not lost_N.any()


def test_zero_rows_are_not_counted_and_stay_zero_and_what_vanishes_is_said() -> None:
    vectors_ND = np.vstack([crowd(30, 8, 3), np.zeros((5, 8), np.float32)])
    moments, clean = Moments(8), Moments(8)
    moments.add(vectors_ND)
    clean.add(vectors_ND[:30])
    transform = moments.fit("centre", 1)
    np.testing.assert_array_equal(transform.mean, clean.fit("centre", 1).mean)
    mended_ND, lost_N = transform.apply(np.vstack([vectors_ND, transform.mean]))
    assert np.flatnonzero(lost_N).tolist() == [30, 31, 32, 33, 34, 35]
    assert not mended_ND[30:].any()


def test_bytes_come_back() -> None:
    moments = Moments(8)
    moments.add(crowd(50, 8, 4))
    transform = moments.fit("remove-components", 3)
    back = Transform.from_bytes(transform.to_bytes(), "remove-components")
    np.testing.assert_array_equal(back.mean, transform.mean)
    np.testing.assert_array_equal(back.components, transform.components)
    assert transform.to_bytes() == back.to_bytes()
    poisoned = Transform("centre", np.full(8, np.nan, np.float32), transform.components)
    uneven = Transform("centre", transform.mean[:5], transform.components)
    for data in (b"", b"nonsense" * 9, transform.to_bytes()[:-9], poisoned.to_bytes(), uneven.to_bytes()):
        with pytest.raises(ArtifactError):
            Transform.from_bytes(data, "centre")


def test_too_few_texts_and_too_many_components_are_refused() -> None:
    moments = Moments(8)
    moments.add(crowd(1, 8, 5))
    with pytest.raises(InputError, match="too few texts"):
        moments.fit("centre", 1)
    moments.add(crowd(4, 8, 6))
    with pytest.raises(InputError, match="got 5; expected 6 or more"):
        moments.fit("remove-components", 5)
    with pytest.raises(ConfigError, match="below 8"):
        moments.fit("remove-components", 8)


def test_fit_is_the_same_bytes_again() -> None:
    fits = []
    for _ in range(2):
        moments = Moments(8)
        moments.add(crowd(50, 8, 7))
        fits.append(moments.fit("remove-components", 2).to_bytes())
    assert fits[0] == fits[1]


def fitted(vectors_ND: np.ndarray, kind: TransformKind, components: int = 1, dims: int = 0) -> Transform:
    moments = Moments(vectors_ND.shape[1])
    moments.add(vectors_ND)
    return moments.fit(kind, components, dims=dims)


def test_whitened_vectors_vary_alike_in_all_directions() -> None:
    vectors_ND = crowd(20_000, 8, 8)
    for dims in (0, 5):
        transform = fitted(vectors_ND, "whiten", dims=dims)
        assert transform.dim == (dims or 8)
        turned_NK = transform.turn(vectors_ND - transform.mean)
        np.testing.assert_allclose(np.cov(turned_NK.T), np.eye(dims or 8), atol=0.02)
        assert transform.apply(vectors_ND)[0].shape == (20_000, dims or 8)


def test_shrinkage_is_the_papers() -> None:
    for n in (3, 30, 3_000):
        vectors_ND = crowd(n, 8, 15).astype(np.float64)
        S = np.cov(vectors_ND.T, bias=True)
        tr, trS2, p = np.trace(S), np.trace(S @ S), 8
        expected = ((1 - 2 / p) * trS2 + tr**2) / ((n + 1 - 2 / p) * (trS2 - tr**2 / p))
        assert shrinkage(np.linalg.eigvalsh(S), n) == pytest.approx(min(1, expected))
    assert shrinkage(np.ones(4), 10) == 1.0


def test_few_texts_are_whitened_by_a_covariance_drawn_towards_equal_variances() -> None:
    vectors_ND = crowd(30, 64, 9)
    covariance_DD = np.cov(vectors_ND.T.astype(np.float64), bias=True)
    share = shrinkage(np.linalg.eigvalsh(covariance_DD), 30)
    assert 0.02 < share < 0.98  # so it matters
    drawn_DD = (1 - share) * covariance_DD + share * np.trace(covariance_DD) / 64 * np.eye(64)
    matrix_DK = fitted(vectors_ND, "whiten", dims=29).matrix
    np.testing.assert_allclose(matrix_DK.T @ drawn_DD @ matrix_DK, np.eye(29), atol=0.04)
    assert np.abs(matrix_DK.T @ covariance_DD @ matrix_DK - np.eye(29)).max() > 0.1


@pytest.mark.slow
def test_few_texts_are_whitened_less_as_scikit_learn_shrinks() -> None:
    covariance = pytest.importorskip("sklearn.covariance")
    vectors_ND = crowd(30, 64, 9)  # scikit-learn leaves out the paper's 2 / D, so D is not too small
    shrunk_DD = covariance.OAS().fit(vectors_ND.astype(np.float64)).covariance_
    matrix_DK = fitted(vectors_ND, "whiten", dims=29).matrix
    np.testing.assert_allclose(matrix_DK.T @ shrunk_DD @ matrix_DK, np.eye(29), atol=0.03)


def test_reducing_to_all_dims_gives_the_same_cosines() -> None:
    vectors_ND = crowd(200, 8, 10)
    one_ND, other_ND = (fitted(vectors_ND, "whiten", dims=dims).apply(vectors_ND)[0] for dims in (0, 8))
    np.testing.assert_allclose(one_ND @ one_ND.T, other_ND @ other_ND.T, atol=1e-4)


def test_directions_in_which_nothing_varies_are_not_blown_up() -> None:
    vectors_ND = np.hstack([crowd(300, 6, 11), np.zeros((300, 2), np.float32)])
    transform = fitted(vectors_ND, "whiten")
    assert np.abs(transform.matrix[6:]).max() == 0
    with pytest.raises(InputError, match="got 6; expected 7"):
        fitted(vectors_ND, "whiten", dims=7)
    with pytest.raises(ConfigError, match="at most 8"):
        fitted(vectors_ND, "whiten", dims=9)
    with pytest.raises(InputError, match="got 0; expected 1"):
        fitted(vectors_ND[[0, 0, 0]], "whiten")


@pytest.mark.parametrize("kind", KINDS)
def test_every_transform_is_one_linear_form(kind: TransformKind) -> None:
    vectors_ND = crowd(50, 8, 12)
    transform = fitted(vectors_ND, kind, 2)
    linear_NK = vectors_ND @ transform.matrix - transform.offset
    np.testing.assert_allclose(unit_rows(linear_NK)[0], transform.apply(vectors_ND)[0], atol=1e-5)
    back = Transform.from_bytes(transform.to_bytes(), kind)
    np.testing.assert_array_equal(back.apply(vectors_ND)[0], transform.apply(vectors_ND)[0])
    assert back.to_bytes() == transform.to_bytes()


def test_what_is_only_the_mean_vanishes_when_whitened() -> None:
    vectors_ND = crowd(50, 8, 13)
    transform = fitted(vectors_ND, "whiten")
    mended_ND, lost_N = transform.apply(np.vstack([vectors_ND, transform.mean, np.zeros(8, np.float32)]))
    assert np.flatnonzero(lost_N).tolist() == [50, 51]
    assert not mended_ND[50:].any()


def test_weights_belong_to_whiten_alone() -> None:
    whitened = fitted(crowd(50, 8, 14), "whiten")
    with pytest.raises(ArtifactError, match="other transforms must not have weights"):
        Transform.from_bytes(whitened.to_bytes(), "centre")
    with pytest.raises(ArtifactError, match="other transforms must not have weights"):
        Transform.from_bytes(fitted(crowd(50, 8, 14), "centre").to_bytes(), "whiten")
    uneven = Transform("whiten", whitened.mean, whitened.components, whitened.weights[:5])  # type: ignore[index]
    with pytest.raises(ArtifactError, match="have different widths"):
        Transform.from_bytes(uneven.to_bytes(), "whiten")


def test_dims_without_whiten_are_refused() -> None:
    assert EmbedSettings.make({"transform": "whiten", "dims": 3}).dims == 3
    with pytest.raises(ConfigError, match="dims = 3 needs transform = whiten, but transform is auto"):
        EmbedSettings.make({"dims": 3})


# ---- the mean cosine


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_the_sum_says_the_mean_over_all_pairs(shift):
    unit_ND, _ = unit_rows((np.random.default_rng(1).standard_normal((70, 9)) + shift).astype(np.float32))
    found = mean_cosine_of_sum(unit_ND.sum(axis=0, dtype=np.float64), 70)
    cosines = [float(a @ b) for i, a in enumerate(unit_ND) for b in unit_ND[:i]]
    assert found == pytest.approx(np.mean(cosines), abs=1e-6)
    assert found == pytest.approx(mean_cosine(unit_ND), abs=1e-6)


def test_what_is_said_unasked_the_doctor_calls_sick():
    assert next(norm.sick for norm in NORMS if norm.name == "mean_cosine") <= MAX_MEAN_COSINE
