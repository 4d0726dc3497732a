"""InfoNCE against its formula in float64, and its gradient against finite differences."""

import numpy as np
import numpy.typing as npt
import pytest
import torch

from wordpipe.training.contrastive import info_nce_loss, nearest_share

Array = npt.NDArray[np.float64]


def unit(rng: np.random.Generator, n: int, dim: int = 6) -> Array:
    vectors = rng.standard_normal((n, dim))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def of_one_document(*document: int) -> torch.Tensor:
    return torch.from_numpy(np.equal.outer(document, document))


def slow_loss(first: Array, second: Array, temperature: float, same: npt.NDArray[np.bool_], most: float) -> float:
    losses = []
    for mine, theirs in ((first, second), (second, first)):
        for i in range(len(mine)):
            cosines = [float(mine[i] @ other) for other in theirs]
            kept = [
                np.exp(cosine / temperature)
                for j, cosine in enumerate(cosines)
                if j == i or not (same[i, j] or cosine > most)
            ]
            losses.append(-np.log(np.exp(cosines[i] / temperature) / sum(kept)))
    return float(np.mean(losses))


@pytest.mark.parametrize("most", [1.0, 0.3])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_equals_the_formula(temperature: float, most: float) -> None:
    rng = np.random.default_rng(0)
    first, second = unit(rng, 8), unit(rng, 8)
    same = of_one_document(*rng.integers(0, 4, 8))
    loss = info_nce_loss(
        torch.from_numpy(first),
        torch.from_numpy(second),
        temperature=temperature,
        same_BB=same,
        max_similarity=most,
    )
    assert float(loss) == pytest.approx(slow_loss(first, second, temperature, same.numpy(), most), rel=1e-10)


def test_gradient_equals_finite_differences() -> None:
    rng = np.random.default_rng(1)
    first, second = (torch.from_numpy(unit(rng, 5)).requires_grad_() for _ in range(2))
    same = of_one_document(0, 1, 1, 2, 3)
    assert torch.autograd.gradcheck(lambda a, b: info_nce_loss(a, b, temperature=0.3, same_BB=same), (first, second))


def test_the_best_is_zero_and_chance_is_the_log_of_the_batch() -> None:
    apart = torch.eye(8)
    assert float(info_nce_loss(apart, apart, temperature=0.01)) == pytest.approx(0, abs=1e-6)
    alike = torch.ones(8, 1)
    assert float(info_nce_loss(alike, alike, temperature=0.05)) == pytest.approx(np.log(8))
    assert float(info_nce_loss(alike, alike, temperature=0.05, same_BB=torch.ones(8, 8, dtype=torch.bool))) == 0


def test_sixteen_bits_are_computed_in_thirty_two() -> None:
    rng = np.random.default_rng(2)
    first, second = (torch.from_numpy(unit(rng, 6)).bfloat16() for _ in range(2))
    assert info_nce_loss(first, second, temperature=0.05).dtype is torch.float32


def test_nearest_share() -> None:
    first = torch.eye(4)
    assert nearest_share(first, first) == 1
    assert nearest_share(first, first.roll(1, 0)) == 0
    assert nearest_share(torch.ones(3, 2), torch.ones(3, 2)) == 0  # ties are no success
    assert nearest_share(first, first[[0, 1, 3, 2]]) == 0.5
