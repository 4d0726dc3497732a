"""InfoNCE against its formula in float64, and its gradient against finite differences."""

import numpy as np
import numpy.typing as npt
import pytest
import torch

from wordpipe.training.contrast.loss import info_nce, nearest_share
from wordpipe.training.contrast.queue import VectorQueue

Array = npt.NDArray[np.float64]


def unit(rng: np.random.Generator, n: int, dim: int = 6) -> Array:
    vectors = rng.standard_normal((n, dim))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def of_one_document(*document: int) -> torch.Tensor:
    return torch.from_numpy(np.equal.outer(document, document))


def slow_loss(
    first: Array, second: Array, temperature: float, queue: Array, same: npt.NDArray[np.bool_], most: float
) -> float:
    losses = []
    for mine, theirs in ((first, second), (second, first)):
        others = np.concatenate([theirs, queue])
        for i in range(len(mine)):
            cosines = [float(mine[i] @ other) for other in others]
            kept = [
                np.exp(cosine / temperature)
                for j, cosine in enumerate(cosines)
                if j == i or not (same[i, j] or cosine > most)
            ]
            losses.append(-np.log(np.exp(cosines[i] / temperature) / sum(kept)))
    return float(np.mean(losses))


@pytest.mark.parametrize("most", [1.0, 0.3])
@pytest.mark.parametrize("queued", [0, 5])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_equals_the_formula(temperature: float, queued: int, most: float) -> None:
    rng = np.random.default_rng(queued)
    first, second, queue = unit(rng, 8), unit(rng, 8), unit(rng, queued)
    same = torch.cat([of_one_document(*rng.integers(0, 4, 8)), torch.from_numpy(rng.random((8, queued)) < 0.3)], dim=1)
    loss = info_nce(
        torch.from_numpy(first),
        torch.from_numpy(second),
        temperature=temperature,
        queue_QD=torch.from_numpy(queue),
        same_BN=same,
        max_similarity=most,
    )
    assert float(loss) == pytest.approx(slow_loss(first, second, temperature, queue, same.numpy(), most), rel=1e-10)


def test_a_mask_of_the_batch_alone_leaves_the_queue_in() -> None:
    rng = np.random.default_rng(3)
    first, second, queue = unit(rng, 4), unit(rng, 4), unit(rng, 3)
    same = of_one_document(0, 0, 1, 2)
    loss = info_nce(
        torch.from_numpy(first),
        torch.from_numpy(second),
        temperature=0.2,
        queue_QD=torch.from_numpy(queue),
        same_BN=same,
    )
    wide = np.concatenate([same.numpy(), np.zeros((4, 3), bool)], axis=1)
    assert float(loss) == pytest.approx(slow_loss(first, second, 0.2, queue, wide, 1.0), rel=1e-10)


def test_gradient_equals_finite_differences() -> None:
    rng = np.random.default_rng(1)
    first, second = (torch.from_numpy(unit(rng, 5)).requires_grad_() for _ in range(2))
    queue, same = torch.from_numpy(unit(rng, 3)), of_one_document(0, 1, 1, 2, 3)
    assert torch.autograd.gradcheck(
        lambda a, b: info_nce(a, b, temperature=0.3, queue_QD=queue, same_BN=same), (first, second)
    )


def test_the_best_is_zero_and_chance_is_the_log_of_the_batch() -> None:
    apart = torch.eye(8)
    assert float(info_nce(apart, apart, temperature=0.01)) == pytest.approx(0, abs=1e-6)
    alike = torch.ones(8, 1)
    assert float(info_nce(alike, alike, temperature=0.05)) == pytest.approx(np.log(8))
    assert float(info_nce(alike, alike, temperature=0.05, same_BN=torch.ones(8, 8, dtype=torch.bool))) == 0


def test_sixteen_bits_are_computed_in_thirty_two() -> None:
    rng = np.random.default_rng(2)
    first, second = (torch.from_numpy(unit(rng, 6)).bfloat16() for _ in range(2))
    assert info_nce(first, second, temperature=0.05).dtype is torch.float32


def test_nearest_share() -> None:
    first = torch.eye(4)
    assert nearest_share(first, first) == 1
    assert nearest_share(first, first.roll(1, 0)) == 0
    assert nearest_share(torch.ones(3, 2), torch.ones(3, 2)) == 0  # ties are no success
    assert nearest_share(first, first[[0, 1, 3, 2]]) == 0.5


def test_queue_keeps_the_last_and_goes_on_from_its_state() -> None:
    queue, twin = VectorQueue(5, 2), VectorQueue(5, 2)
    kept: list[float] = []
    for step in range(6):
        new = torch.full((3, 2), float(step)) + torch.arange(3)[:, None] / 10
        queue.add(new, *torch.tensor([[step, step, step], [10 + step, 10 + step, 10 + step]]))
        kept += new[:, 0].tolist()
        assert sorted(queue.vectors[:, 0].tolist()) == pytest.approx(sorted(kept[-5:]))
        assert queue.documents.tolist() == [int(value) for value in queue.vectors[:, 0]]
        if step == 3:
            twin.load({name: tensor.clone() for name, tensor in queue.state().items()})
        if step > 3:
            twin.add(new, *torch.tensor([[step, step, step], [10 + step, 10 + step, 10 + step]]))
    assert torch.equal(queue.vectors, twin.vectors)
    assert torch.equal(queue.texts, twin.texts)
    assert torch.equal(queue.texts, 10 + queue.documents)
    with pytest.raises(ValueError, match="queue of"):
        VectorQueue(4, 2).load(queue.state())


def test_a_batch_longer_than_the_queue_leaves_its_end() -> None:
    queue = VectorQueue(2, 1)
    queue.add(torch.arange(5.0)[:, None], torch.arange(5), torch.arange(5))
    assert sorted(queue.vectors[:, 0].tolist()) == [3, 4]
    empty = VectorQueue(0, 1)
    empty.add(torch.ones(3, 1), *torch.zeros(2, 3, dtype=torch.int64))
    assert len(empty.vectors) == 0
