"""Adam on touched rows against torch's, and threads that change nothing."""

import numpy as np
import pytest
import torch

from wordpipe.training.contrastive import RowAdam


def ragged(rng: np.random.Generator, texts: int, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    lengths = rng.integers(1, 9, texts)
    return rng.integers(0, vocab_size, lengths.sum()).astype(np.int32), lengths


def test_sums_equal_the_rows_added_up() -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((20, 5)).astype(np.float32)
    ids, lengths = ragged(rng, 30, 20)
    sums = RowAdam(table, np.ones(20, np.float32), beta1=0.9, beta2=0.99, threads=1).sums(ids, lengths)
    for text, some in enumerate(np.split(ids, np.cumsum(lengths)[:-1])):
        assert sums[text] == pytest.approx(table[some].sum(axis=0), abs=1e-5)


def test_equals_sparse_adam_of_torch() -> None:
    rng = np.random.default_rng(1)
    start = rng.standard_normal((40, 7)).astype(np.float32)
    ours = RowAdam(start.copy(), np.ones(40, np.float32), beta1=0.8, beta2=0.95, threads=2)
    bag = torch.nn.EmbeddingBag(40, 7, mode="sum", sparse=True, _weight=torch.from_numpy(start.copy()))
    theirs = torch.optim.SparseAdam(bag.parameters(), lr=0.05, betas=(0.8, 0.95))
    for step in range(1, 12):
        ids, lengths = ragged(rng, 10, 40)
        goal = rng.standard_normal((10, 7)).astype(np.float32)
        theirs.zero_grad()
        offsets = np.cumsum(lengths) - lengths
        sums = bag(torch.from_numpy(ids).long(), torch.from_numpy(offsets))
        ((sums - torch.from_numpy(goal)) ** 2).sum().backward()
        theirs.step()  # type: ignore[no-untyped-call]
        ours.update(ids, lengths, 2 * (ours.sums(ids, lengths) - goal), lr=0.05, step=step)
    assert ours.table_VD == pytest.approx(bag.weight.detach().numpy(), abs=1e-4)


def test_threads_change_no_bit() -> None:
    tables = []
    for threads in (1, 3):
        rng = np.random.default_rng(2)
        optimiser = RowAdam(
            np.ones((50, 4), np.float32), np.ones(50, np.float32), beta1=0.9, beta2=0.99, threads=threads
        )
        for step in range(1, 6):
            ids, lengths = ragged(rng, 40, 50)
            sums = optimiser.sums(ids, lengths)
            optimiser.update(ids, lengths, np.sin(sums * step), lr=0.1, step=step)
        optimiser.close()
        tables.append(optimiser.table_VD.tobytes())
    assert tables[0] == tables[1]


def test_rows_change_at_their_pace_and_only_where_a_text_has_them() -> None:
    optimiser = RowAdam(
        np.ones((3, 2), np.float32), np.array([1, 1, 0.5], np.float32), beta1=0.9, beta2=0.99, threads=1
    )
    optimiser.update(np.array([1, 2], np.int32), np.array([2]), np.ones((1, 2), np.float32), lr=0.1, step=1)
    assert optimiser.table_VD.tolist() == [[1, 1], [pytest.approx(0.9)] * 2, [pytest.approx(0.95)] * 2]
