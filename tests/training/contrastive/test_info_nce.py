"""The losses against their formulas in float64 and finite differences; which texts are no negatives, pair by pair."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch.nn import functional as F

from tests.support.small_encoders import ragged
from wordpipe.training.contrastive import (
    PairBatch,
    Ragged,
    false_negatives,
    info_nce_loss,
    nearest_share,
    relational_loss,
)

__all__ = ["slow_false_negatives"]


def texts_of(side: Ragged) -> list[tuple[int, ...]]:
    return [tuple(ids.tolist()) for ids in np.split(side.ids, np.cumsum(side.lengths)[:-1])]


def slow_false_negatives(batch: PairBatch) -> list[list[bool]]:
    """Pair by pair."""
    pairs = [
        *zip(batch.document, map(set, zip(texts_of(batch.first), texts_of(batch.second), strict=True)), strict=True)
    ]
    return [[bool(mine == theirs or texts & more) for theirs, more in pairs] for mine, texts in pairs]


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


def pairs(first: list[list[int]], second: list[list[int]], document: list[int]) -> PairBatch:
    return PairBatch(ragged(*first), ragged(*second), np.array(document), np.zeros(len(document), np.int8))


def random_pairs(rng: np.random.Generator, n: int = 20) -> PairBatch:
    """Of 30 documents, and of texts of one or two of four ids, so that many are equal."""
    first, second = ([rng.integers(1, 5, rng.integers(1, 3)).tolist() for _ in range(n)] for _ in range(2))
    return pairs(first, second, rng.integers(0, 30, n).tolist())


def test_one_text_on_the_two_sides_of_other_documents() -> None:
    same = false_negatives(pairs([[7], [8], [9]], [[4], [7], [6]], [0, 1, 2]))
    assert same.tolist() == [[True, True, False], [True, True, False], [False, False, True]]


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_pairs(rng)
    same = false_negatives(batch)
    assert same.tolist() == slow_false_negatives(batch)
    assert torch.equal(same, same.T)


def unit_vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64), dim=-1)


def by_loops(student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    total = 0.0
    for i in range(len(student)):
        others = [j for j in range(len(student)) if j != i]
        mine, theirs = (np.exp([x[i] @ x[j] / temperature for j in others]) for x in (student, teacher))
        p, q = theirs / theirs.sum(), mine / mine.sum()
        total += float((p * np.log(p / q)).sum())
    return total / len(student)


def test_it_is_the_divergence_of_the_two_softmaxes():
    student, teacher = unit_vectors(7, 4), unit_vectors(7, 9, seed=1)
    expected = by_loops(student.numpy(), teacher.numpy(), 0.3)
    assert abs(float(relational_loss(student, teacher, 0.3)) - expected) < 1e-5


def test_a_turned_copy_of_the_teacher_has_nothing_to_learn():
    teacher = unit_vectors(7, 5)
    turned = teacher @ torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0]
    assert abs(float(relational_loss(turned, teacher, 0.05))) < 1e-5


def test_gradients_are_those_of_finite_differences_and_only_the_students():
    student, teacher = unit_vectors(4, 3).requires_grad_(), unit_vectors(4, 3, seed=2).requires_grad_()
    loss = relational_loss(student, teacher.detach(), 0.5)
    loss.backward()
    assert teacher.grad is None
    for place in [(0, 0), (2, 1)]:
        moved = student.detach().clone()
        moved[place] += 1e-3
        back = student.detach().clone()
        back[place] -= 1e-3
        slope = (
            by_loops(moved.numpy(), teacher.detach().numpy(), 0.5)
            - by_loops(back.numpy(), teacher.detach().numpy(), 0.5)
        ) / 2e-3
        assert abs(slope - float(student.grad[place])) < 1e-4


def test_two_texts_say_nothing_of_who_is_nearer():
    assert float(relational_loss(unit_vectors(2, 3), unit_vectors(2, 3, seed=1), 0.1)) == 0.0
