"""Contrastive training of a table: it learns, repeats and goes on exactly; Adam on touched rows against torch's."""

from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from tests.support.pair_texts import Document, made_text
from wordpipe.artifacts import Checkpoints
from wordpipe.errors import DivergedError
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.training import Snapshot, Trainer
from wordpipe.training.contrastive import (
    Pairs,
    PairText,
    RowAdam,
    StaticLearner,
    Threads,
    contrast,
    false_negatives,
    found_share,
    info_nce_loss,
    nearest_share,
    pair_plan,
    pair_trainer,
    same_texts,
)
from wordpipe.training.contrastive.settings import StaticSettings

VOCAB = 60


def families(n: int = 200) -> list[Document]:
    """Documents of two sentences, each of three of the six words of one family."""
    rng = np.random.default_rng(0)
    return [
        (
            f"d{i}",
            "valid" if i % 5 == 0 else "train",
            [(6 * family + rng.choice(6, 3, replace=False)).tolist() for _ in range(2)],
        )
        for i, family in enumerate(rng.integers(0, VOCAB // 6, n))
    ]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> PairText:
    return made_text(tmp_path_factory.mktemp("text"), families(), vocab_size=VOCAB)


def training(
    text: PairText, folder: Path, *, table: Any = None, found: Any = None, **values: Any
) -> Trainer[StaticLearner]:
    settings = StaticSettings.make(
        {"batch_size": 32, "steps": 60, "lr": 0.02, "pair_neighbour": 1, "threads": 1, "valid_pairs": 30} | values
    )
    if table is None:
        table = np.random.default_rng(0).standard_normal((VOCAB, 8)).astype(np.float32)
    valid = Pairs(text, settings, split="valid", batch_size=settings.valid_pairs)
    pairs, state = Pairs(text, settings), folder / "state"
    learner = StaticLearner(pairs, table, settings, held_out=valid)
    if found is None:
        return pair_trainer(learner, settings, pairs.n_pairs, state_dir=state, run_key="run")
    return Trainer(learner, pair_plan(settings, pairs.n_pairs), state=Checkpoints(state, "run"), found=found)


def test_words_of_a_family_come_together(text: PairText, tmp_path: Path) -> None:
    run = training(text, tmp_path / token_hex(4))
    reports = [*run.steps(StopFlag())]
    losses = {split: [row.loss for row in reports if row.split == split] for split in ("train", "valid")}
    assert losses["train"][-1] < losses["train"][0] - 0.5
    assert losses["valid"][-1] < losses["valid"][0]
    assert run.step == run.plan.steps == 60
    assert reports == run.history
    unit = run.learner.table / np.linalg.norm(run.learner.table, axis=1, keepdims=True)
    cosines = unit @ unit.T
    same = np.equal.outer(np.arange(VOCAB) // 6, np.arange(VOCAB) // 6)
    assert cosines[same].mean() > cosines[~same].mean() + 0.3


def test_the_same_run_gives_the_same_bytes_on_any_threads(text: PairText, tmp_path: Path) -> None:
    tables = []
    for threads in (1, 1, 2):
        run = training(text, tmp_path / token_hex(4), steps=8, threads=threads)
        list(run.steps(StopFlag()))
        tables.append(run.learner.table)
    assert tables[0].tobytes() == tables[1].tobytes() == tables[2].tobytes()


@pytest.mark.parametrize("stop", [1, 7, 13])
def test_a_run_that_goes_on_ends_with_the_same_bytes(text: PairText, stop: int, tmp_path: Path) -> None:
    whole = training(text, tmp_path / "whole", steps=20)
    list(whole.steps(StopFlag()))
    list(training(text, tmp_path / "halves", steps=20).steps(StopFlag(), until=stop))
    second = training(text, tmp_path / "halves", steps=20)
    list(second.steps(StopFlag()))
    assert second.resumed_from == stop
    assert second.learner.table.tobytes() == whole.learner.table.tobytes()
    assert [(row.step, row.split, row.loss) for row in second.history] == [
        (row.step, row.split, row.loss) for row in whole.history
    ]


def test_threads_that_are_not_there_are_remembered_by_every_run_after(text: PairText, tmp_path: Path) -> None:
    snapshot = training(text, tmp_path).snapshot()
    machine = snapshot.log["machine"] | {"threads": 100_000}
    second = training(text, tmp_path, found=Snapshot(0, snapshot.tensors, {**snapshot.log, "machine": machine}))
    assert not second.bitwise
    assert not training(text, tmp_path, found=second.snapshot()).bitwise
    assert training(text, tmp_path, found=snapshot).bitwise


def test_a_state_of_another_table_is_refused(text: PairText, tmp_path: Path) -> None:
    snapshot = training(text, tmp_path).snapshot()
    with pytest.raises(ValueError, match="table has the shape"):
        training(text, tmp_path, table=np.ones((VOCAB, 4), np.float32), found=snapshot)


def test_a_stop_signal_saves_first(text: PairText, tmp_path: Path) -> None:
    flag = StopFlag()
    run = training(text, tmp_path, checkpoint_steps=10)
    reports = run.steps(flag)
    while next(reports).step < 20:
        pass
    flag.signum = 15
    with pytest.raises(Stopped) as stopped:
        list(reports)
    assert stopped.value.saved == str(tmp_path / "state" / f"step-{run.step:08d}")
    assert training(text, tmp_path).resumed_from == run.step


def test_a_loss_that_is_no_number_stops_the_run(text: PairText, tmp_path: Path) -> None:
    table = np.ones((VOCAB, 4), np.float32)
    table[:30] = np.nan
    with pytest.raises(DivergedError, match="no longer a finite number"):
        list(training(text, tmp_path / token_hex(4), table=table).steps(StopFlag()))


def test_texts_without_a_vector_do_no_harm(text: PairText, tmp_path: Path) -> None:
    table = np.zeros((VOCAB, 4), np.float32)
    table[30:] = np.random.default_rng(0).standard_normal((30, 4))
    run = training(text, tmp_path / token_hex(4), table=table, steps=30)
    list(run.steps(StopFlag()))
    assert np.isfinite(run.learner.table).all()
    assert run.learner.table[:30].any(axis=1).all()  # and they learn


def test_masks_follow_the_settings(text: PairText, tmp_path: Path) -> None:
    losses = []
    for kept in ("keep", "drop"):
        run = training(text, tmp_path / token_hex(4), steps=1, false_negatives=kept, batch_size=256, temperature=1.0)
        losses.append(next(run.steps(StopFlag())).loss)
    assert losses[1] < losses[0]  # fewer negatives


def test_products_are_given_back_their_threads(text: PairText, tmp_path: Path) -> None:
    before = threadpool_info()
    list(training(text, tmp_path / token_hex(4), steps=2, threads=1).steps(StopFlag()))
    assert threadpool_info() == before


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("most", [1.0, 0.2])
@pytest.mark.parametrize(("n", "dim", "temperature"), [(1, 3, 0.05), (7, 4, 1.0), (300, 24, 0.05), (257, 5, 0.01)])
def test_the_contrast_of_sums_is_that_of_torch(n: int, dim: int, temperature: float, most: float, same: bool) -> None:
    rng = np.random.default_rng()
    sums = (rng.standard_normal((2 * n, dim)) * rng.choice([1, 1e-5, 30], (2 * n, 1))).astype(np.float32)
    document = rng.integers(0, max(2, n // 2), n)
    same_BB = np.equal.outer(document, document) if same else None
    given = torch.from_numpy(sums.astype(np.float64)).requires_grad_()
    first, second = torch.nn.functional.normalize(given, dim=1, eps=1e-3).chunk(2)
    mask = None if same_BB is None else torch.from_numpy(same_BB)
    wanted = info_nce_loss(first, second, temperature=temperature, same_BB=mask, max_similarity=most)
    wanted.backward()  # type: ignore[no-untyped-call]
    assert given.grad is not None
    found = []
    for threads in (1, 3):
        loss, gradient = contrast(
            sums, temperature=temperature, same_BB=same_BB, max_similarity=most, threads=Threads(threads)
        )
        assert loss == pytest.approx(float(wanted.detach()), rel=1e-4, abs=1e-5)
        scale = float(given.grad.abs().max()) + 1e-9
        assert gradient / scale == pytest.approx(given.grad.numpy() / scale, abs=2e-4)
        found.append(gradient.tobytes())
    assert found[0] == found[1]


def test_the_share_found_and_the_mask_are_those_of_torch(text: PairText) -> None:
    batch = Pairs(text, StaticSettings.make({"pair_neighbour": 1}), batch_size=90).batch(3)
    assert np.array_equal(same_texts(batch), false_negatives(batch).numpy())
    sums = np.random.default_rng().standard_normal((120, 3)).astype(np.float32)
    first, second = torch.nn.functional.normalize(torch.from_numpy(sums), dim=1).chunk(2)
    assert found_share(sums) == nearest_share(first, second)


def test_nothing_is_written_to_the_text(text: PairText, tmp_path: Path) -> None:
    before = text.rows.ids.tobytes()
    list(training(text, tmp_path / token_hex(4), steps=2).steps(StopFlag()))
    assert text.rows.ids.tobytes() == before


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
        tables.append(optimiser.table_VD.tobytes())
    assert tables[0] == tables[1]


def test_rows_change_at_their_pace_and_only_where_a_text_has_them() -> None:
    optimiser = RowAdam(
        np.ones((3, 2), np.float32), np.array([1, 1, 0.5], np.float32), beta1=0.9, beta2=0.99, threads=1
    )
    optimiser.update(np.array([1, 2], np.int32), np.array([2]), np.ones((1, 2), np.float32), lr=0.1, step=1)
    assert optimiser.table_VD.tolist() == [[1, 1], [pytest.approx(0.9)] * 2, [pytest.approx(0.95)] * 2]
