"""The micro-batch that a GPU takes: the search, its memory limit (with a pretended GPU), and what a checkpoint keeps."""

import doctest
from itertools import pairwise

import pytest
import torch

from tests.training.parts import run_to_end, settings_of, training
from wordpipe.errors import BudgetError
from wordpipe.runtime import StopFlag
from wordpipe.training import learner as assembling
from wordpipe.training import probe
from wordpipe.training.precision import make_execution
from wordpipe.training.probe import first_that_fits, largest_micro_batch, sizes_to_try


def test_the_examples_hold():
    assert doctest.testmod(probe).failed == 0


@pytest.mark.parametrize("sequences", [1, 6, 7, 64, 96, 360])
def test_sizes_to_try_divide_the_batch_and_halve(sequences):
    for seq_len in (1, 16_384, 10**6):
        sizes = sizes_to_try(sequences, seq_len)
        assert all(sequences % size == 0 for size in sizes)
        assert sizes[-1] == 1
        assert all(after <= max(1, before // 2) for before, after in pairwise(sizes))
        bound = max(1, min(sequences, (1 << 17) // seq_len))
        assert sizes[0] == max(size for size in range(1, bound + 1) if sequences % size == 0)


def test_the_first_that_fits_is_taken():
    tried = []
    assert first_that_fits([8, 4, 2, 1], lambda size: tried.append(size) or size < 5) == 4
    assert tried == [8, 4]
    with pytest.raises(BudgetError, match="one sequence alone") as caught:
        first_that_fits([2, 1], lambda _: False)
    assert "--recompute" in caught.value.hint


@pytest.fixture
def gpu(monkeypatch):
    """A device with 100 MB, of which a sequence takes 10, that gives out at more than 120."""
    used = {"peak": 0}
    loss_sum = probe.loss_sum

    def counted(model, targets):
        used["peak"] = len(targets.inputs) * 10_000_000
        if used["peak"] > 120_000_000:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss_sum(model, targets)

    monkeypatch.setattr(probe, "loss_sum", counted)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: used.update(peak=0))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: used["peak"])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 30_000_000)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (70_000_000, 200_000_000))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)


@pytest.mark.parametrize(("batch_size", "want"), [(8, 8), (9, 3), (10, 5), (16, 8), (40, 5), (7, 7)])
def test_the_largest_that_fits_with_room_to_spare(batch_size, want, gpu, tmp_path):
    """Nine would fit into the memory, but not into nine tenths of it."""
    settings = settings_of("mlm", batch_size=batch_size, dropout=0.1)
    run = training(settings, tmp_path)
    before = {name: weight.clone() for name, weight in run.model.named_parameters()}
    found = largest_micro_batch(run.model, run._batches.largest(), make_execution(settings), sequences=batch_size)
    assert found == want
    for name, weight in run.model.named_parameters():
        assert weight.grad is None
        assert torch.equal(weight, before[name])


def test_the_number_found_is_kept_for_the_runs_after(tmp_path, monkeypatch):
    settings = settings_of("mlm", batch_size=8)

    class Cuda:
        type = "cuda"

    def decide(before):
        run = training(settings, tmp_path / "unused")
        world, execution = run.world, type("Execution", (), {"device": Cuda})
        return assembling._micro_batch(settings, run.plan, run.model, run._batches, execution, world, before)

    monkeypatch.setattr(assembling, "largest_micro_batch", lambda *_, sequences: sequences // 4)
    assert decide(None) == 2
    run = training(settings_of("mlm", batch_size=8, micro_batch=2), tmp_path / "run")
    list(run.steps(StopFlag(), until=3))
    monkeypatch.setattr(assembling, "largest_micro_batch", None)
    snapshot = run.snapshot()
    assert snapshot.log["micro_batch"] == 2
    assert decide(snapshot) == 2
    del snapshot.log["micro_batch"]  # as before it was kept
    assert decide(snapshot) == run.plan.batch_size


def test_on_a_cpu_the_checkpoint_says_it_too(tmp_path):
    """A micro-batch that a checkpoint has wins over the planned one: the bytes are those of the run that it continues."""
    values = {"batch_size": 8, "report_every": 3}
    want = run_to_end(training(settings_of("mlm", micro_batch=2, **values), tmp_path / "two"))
    list(training(settings_of("mlm", micro_batch=2, **values), tmp_path / "halves").steps(StopFlag(), until=5))
    again = training(settings_of("mlm", **values), tmp_path / "halves")
    assert (again.resumed_from, again.plan.micro_batch) == (5, 2)
    assert run_to_end(again) == want


def test_a_step_that_does_not_fit_names_the_setting(tmp_path):
    run = training(settings_of("mlm", micro_batch=4), tmp_path)

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.81 GiB")

    run._gradient_step._loss_sum = full
    with pytest.raises(BudgetError, match="does not hold a step") as caught:
        run_to_end(run)
    assert "--micro-batch 2" in caught.value.hint
