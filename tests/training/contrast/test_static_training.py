"""Training of a table: it learns, repeats and goes on exactly, and says when it fails."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.contrast.pair_texts import Document, made_text
from tests.training.contrast.slow_false_negatives import slow_false_negatives
from wordpipe.errors import DivergedError
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.training.contrast.loss import info_nce
from wordpipe.training.contrast.pair_text import PairText
from wordpipe.training.contrast.positives import Pairs
from wordpipe.training.contrast.settings import ContrastSettings
from wordpipe.training.contrast.static_training import StaticTraining

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


def training(text: PairText, *, table: Any = None, save: Any = None, **values: Any) -> StaticTraining:
    settings = ContrastSettings.make(
        {"batch_size": 32, "steps": 60, "lr": 0.02, "pair_neighbour": 1, "threads": 1, "queue": 40, "valid_pairs": 30}
        | values
    )
    if table is None:
        table = np.random.default_rng(0).standard_normal((VOCAB, 8)).astype(np.float32)
    valid = Pairs(text, settings, split="valid", batch_size=settings.valid_pairs)
    return StaticTraining(Pairs(text, settings), table, settings, valid=valid, save=save)


def test_words_of_a_family_come_together(text: PairText) -> None:
    run = training(text)
    reports = [*run.steps(StopFlag())]
    losses = {split: [row.loss for row in reports if row.split == split] for split in ("train", "valid")}
    assert losses["train"][-1] < losses["train"][0] - 0.5
    assert losses["valid"][-1] < losses["valid"][0]
    assert run.step == run.n_steps == 60
    assert reports == run.history
    unit = run.table / np.linalg.norm(run.table, axis=1, keepdims=True)
    cosines = unit @ unit.T
    same = np.equal.outer(np.arange(VOCAB) // 6, np.arange(VOCAB) // 6)
    assert cosines[same].mean() > cosines[~same].mean() + 0.3


def test_the_same_run_gives_the_same_bytes_on_any_threads(text: PairText) -> None:
    tables = []
    for threads in (1, 1, 2):
        run = training(text, steps=8, threads=threads)
        list(run.steps(StopFlag()))
        tables.append(run.table)
    assert tables[0].tobytes() == tables[1].tobytes()
    assert tables[2] == pytest.approx(tables[0], abs=1e-5)


@pytest.mark.parametrize("stop", [1, 7, 13])
def test_a_run_that_goes_on_ends_with_the_same_bytes(text: PairText, stop: int) -> None:
    whole = training(text, steps=20)
    list(whole.steps(StopFlag()))
    first = training(text, steps=20)
    list(first.steps(StopFlag(), until=stop))
    tensors, log = first.state()
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    list(first.steps(StopFlag()))  # what was kept is a copy
    second = training(text, steps=20)
    second.load(kept, log)
    list(second.steps(StopFlag()))
    assert second.resumed_from == stop
    assert second.table.tobytes() == whole.table.tobytes() == first.table.tobytes()
    assert [(row.step, row.split, row.loss) for row in second.history] == [
        (row.step, row.split, row.loss) for row in whole.history
    ]


def test_threads_that_are_not_there_are_remembered_by_every_run_after(text: PairText) -> None:
    tensors, log = training(text).state()
    second = training(text)
    second.load(tensors, log | {"threads": 100_000})
    assert not second.bitwise
    third = training(text)
    third.load(*second.state())
    assert not third.bitwise
    fourth = training(text)
    fourth.load(tensors, log)
    assert fourth.bitwise


def test_a_state_of_another_table_is_refused(text: PairText) -> None:
    tensors, log = training(text).state()
    with pytest.raises(ValueError, match="table of"):
        training(text, table=np.ones((VOCAB, 4), np.float32)).load(tensors, log)
    with pytest.raises(ValueError, match="queue of"):
        training(text, queue=3).load(tensors, log)


def test_a_stop_signal_saves_first(text: PairText) -> None:
    flag, saved = StopFlag(), list[int]()

    def save(run: StaticTraining) -> str:
        saved.append(run.step)
        return "there"

    reports = training(text, save=save, checkpoint_steps=10).steps(flag)
    while next(reports).step < 20:
        pass
    flag.signum = 15
    with pytest.raises(Stopped) as stopped:
        next(reports)
    assert stopped.value.saved == "there"
    assert saved == [10, 20]


def test_a_loss_that_is_no_number_stops_the_run(text: PairText) -> None:
    table = np.ones((VOCAB, 4), np.float32)
    table[:30] = np.nan
    with pytest.raises(DivergedError, match="no longer a number"):
        list(training(text, table=table).steps(StopFlag()))


def test_texts_without_a_vector_do_no_harm(text: PairText) -> None:
    table = np.zeros((VOCAB, 4), np.float32)
    table[30:] = np.random.default_rng(0).standard_normal((30, 4))
    run = training(text, table=table, steps=30)
    list(run.steps(StopFlag()))
    assert np.isfinite(run.table).all()
    assert run.table[:30].any(axis=1).all()  # and they learn


def test_queued_texts_of_the_same_document_are_no_negatives(text: PairText) -> None:
    run = training(text, batch_size=64, queue=100, temperature=0.2, report_every=1)
    reports = run.steps(StopFlag())
    next(reports)
    before, batch = run._pairs.batch(0), run._pairs.batch(1)
    same = slow_false_negatives(batch, before)
    assert any(True in row[64:] for row in same)
    sides = [torch.from_numpy(run._optimiser.sums(side.ids, side.lengths)) for side in (batch.first, batch.second)]
    first, second = (torch.nn.functional.normalize(side, dim=1) for side in sides)
    queued = run._queue.vectors.clone()
    want = info_nce(first, second, temperature=0.2, queue_QD=queued, same_BN=torch.tensor(same))
    assert next(reports).loss == pytest.approx(float(want), abs=1e-5)


def test_masks_follow_the_settings(text: PairText) -> None:
    losses = []
    for kept in ("keep", "drop"):
        run = training(text, steps=1, false_negatives=kept, batch_size=256, temperature=1.0)
        losses.append(next(run.steps(StopFlag())).loss)
    assert losses[1] < losses[0]  # fewer negatives


def test_torch_is_given_back_its_threads(text: PairText) -> None:
    before = torch.get_num_threads()
    list(training(text, steps=2, threads=1).steps(StopFlag()))
    assert torch.get_num_threads() == before


def test_nothing_is_written_to_the_text(text: PairText, tmp_path: Path) -> None:
    before = text.rows.ids.tobytes()
    list(training(text, steps=2).steps(StopFlag()))
    assert text.rows.ids.tobytes() == before
