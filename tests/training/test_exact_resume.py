"""A training that was stopped ends with the bytes of one that was not: its weights and every number of its optimiser."""

import pytest
import torch

from tests.support.small_trainings import run_to_end, settings_of, training
from tests.support.variants import some_of
from wordpipe.errors import BudgetError
from wordpipe.runtime import StopFlag
from wordpipe.training import learner


def differing(settings, folder, n=3, **others):
    """The tensors that differ between 2n steps in one go, and n, a checkpoint, everything anew from the disk, n more."""
    torch.manual_seed(5)
    straight = training(settings, folder / "straight", **others)
    begun = straight.step
    list(straight.steps(StopFlag(), until=begun + 2 * n))
    list(training(settings, folder / "halves", **others).steps(StopFlag(), until=begun + n))
    torch.manual_seed(99)  # whatever else draws random numbers must not matter
    again = training(settings, folder / "halves", **others)
    assert again.resumed_from == begun + n
    list(again.steps(StopFlag(), until=begun + 2 * n))
    want, got = straight.snapshot().tensors, again.snapshot().tensors
    assert {part: tensors.keys() for part, tensors in want.items()} == {part: ts.keys() for part, ts in got.items()}
    return [
        name for part in want for name in want[part]
        if want[part][name].numpy().tobytes() != got[part][name].numpy().tobytes()
    ]  # fmt: skip


@pytest.mark.landing
@pytest.mark.parametrize(
    ("kind", "dtype", "optimiser"), some_of(["mlm", "clm"], ["float32", "bfloat16"], ["muon", "adamw"])
)
def test_a_training_resumes_exactly(kind, dtype, optimiser, tmp_path):
    settings = settings_of(kind, dtype=dtype, dropout=0.2, micro_batch=4, optimiser=optimiser)
    assert differing(settings, tmp_path) == []


def test_an_optimiser_that_forgets_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(learner, "load_optimiser", lambda *_: None)
    assert "embedding" in differing(settings_of("clm"), tmp_path)


def test_dropout_that_goes_on_where_the_generator_is_would_be_found(tmp_path, monkeypatch):
    seed_of = learner.seed_of
    monkeypatch.setattr(
        learner,
        "seed_of",
        lambda seed, what, *of: torch.initial_seed() if what == "dropout" else seed_of(seed, what, *of),
    )
    assert differing(settings_of("clm"), tmp_path / "without") == []
    assert differing(settings_of("clm", dropout=0.2), tmp_path / "with") != []


def test_a_run_that_extends_another_resumes_exactly(tmp_path):
    first = training(settings_of("mlm"), tmp_path / "first")
    run_to_end(first)
    assert differing(settings_of("mlm", steps=20), tmp_path / "check", begin=first.snapshot()) == []


def test_a_micro_batch_of_a_checkpoint_wins_over_the_planned_one(tmp_path):
    """The bytes are those of the run that is continued."""
    values = {"batch_size": 8, "report_every": 3}
    want = run_to_end(training(settings_of("mlm", micro_batch=2, **values), tmp_path / "two"))
    list(training(settings_of("mlm", micro_batch=2, **values), tmp_path / "halves").steps(StopFlag(), until=5))
    again = training(settings_of("mlm", **values), tmp_path / "halves")
    assert (again.resumed_from, again.plan.micro_batch) == (5, 2)
    assert run_to_end(again) == want


@pytest.fixture
def full(monkeypatch):
    """A device that gives out at more than so many sequences."""
    holds = {"at_once": 3, "tried": []}

    def fill(run):
        loss_sum = run.learner._loss_sum

        def counted(model, targets, label_smoothing=0.0):
            holds["tried"].append(len(targets.inputs))
            if len(targets.inputs) > holds["at_once"]:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.81 GiB")
            return loss_sum(model, targets, label_smoothing)

        run.learner._loss_sum = counted
        return run

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    return fill, holds


@pytest.mark.slow
def test_a_step_that_does_not_fit_is_computed_in_halves(full, tmp_path):
    fill, holds = full
    run = fill(training(settings_of("mlm", micro_batch=8, dropout=0.1, eval_every=100), tmp_path / "full"))
    list(run.steps(StopFlag(), until=2))
    assert holds["tried"] == [8, 4, 2, 2, 2, 2, 2, 2, 2, 2]
    assert run.snapshot().log["micro_batch"] == run.learner.micro_batch == 2
    want = training(settings_of("mlm", micro_batch=2, dropout=0.1), tmp_path / "two")
    list(want.steps(StopFlag(), until=2))
    assert torch.equal(run.learner.model.embedding, want.learner.model.embedding)


@pytest.mark.slow
def test_a_sequence_that_does_not_fit_says_what_to_do(full, tmp_path):
    fill, holds = full
    holds["at_once"] = 0
    with pytest.raises(BudgetError, match="too small for one sequence") as caught:
        run_to_end(fill(training(settings_of("mlm"), tmp_path)))
    assert "--recompute" in caught.value.hint
