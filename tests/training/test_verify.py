"""`--verify-resume`: it proves what holds, and finds what does not."""

import pytest
import torch

from tests.training.parts import run_to_end, settings_of, training
from wordpipe.errors import ConfigError, WordpipeError
from wordpipe.runtime import StopFlag
from wordpipe.training import trainer
from wordpipe.training.checkpoint import Snapshot
from wordpipe.training.verify import ResumeCheck, compare, refuse_inexact, verify_resume


def check(settings, tmp_path, **others):
    return verify_resume(lambda folder: training(settings, folder, **others), tmp_path)


@pytest.mark.parametrize("kind", ["mlm", "clm"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_training_that_resumes_exactly(kind, dtype, tmp_path):
    torch.manual_seed(5)
    found = check(settings_of(kind, dtype=dtype, dropout=0.2, micro_batch=4), tmp_path)
    assert found == ResumeCheck(6, identical=True)
    refuse_inexact(found, training_is_bitwise=True)


@pytest.mark.parametrize(("steps", "want"), [(1, 0), (2, 2), (5, 4), (12, 6)])
def test_it_trains_no_further_than_the_run(steps, want, tmp_path):
    assert check(settings_of("mlm", steps=steps), tmp_path) == ResumeCheck(want, identical=True)


def test_an_optimiser_that_forgets_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "load_optimiser", lambda *_: None)
    found = check(settings_of("clm"), tmp_path)
    assert not found.identical
    assert found.differs.startswith("model/")
    assert found.difference > 1e-5


def test_dropout_that_goes_on_where_the_generator_is_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr("wordpipe.training.learner.seed_of", lambda *_: torch.initial_seed())
    assert check(settings_of("clm"), tmp_path / "without").identical
    assert not check(settings_of("clm", dropout=0.2), tmp_path / "with").identical


def test_a_checkpoint_that_is_not_used_is_an_error(tmp_path):
    keys = iter("abc")
    with pytest.raises(WordpipeError, match="was not continued"):
        verify_resume(lambda folder: training(settings_of("mlm"), folder, run_key=next(keys)), tmp_path)


def test_a_run_that_extends_another_is_checked_from_where_it_begins(tmp_path):
    first = training(settings_of("mlm"), tmp_path / "first")
    run_to_end(first)
    found = check(settings_of("mlm", steps=20), tmp_path / "check", begin=first.snapshot())
    assert found == ResumeCheck(6, identical=True)


def test_the_real_run_is_not_disturbed(tmp_path):
    settings = settings_of("mlm", dropout=0.2)
    want = run_to_end(training(settings, tmp_path / "alone"))
    assert check(settings, tmp_path / "check").identical
    assert run_to_end(training(settings, tmp_path / "after")) == want


def snapshot(**weights):
    return Snapshot(4, {name: torch.tensor(values) for name, values in weights.items()}, {}, {})


def test_comparing_byte_by_byte():
    a = snapshot(u=[1.0, 2.0], w=[1.0, float("nan")], z=[0.0])
    assert compare(a, a, steps=4) == ResumeCheck(4, identical=True)
    found = compare(a, snapshot(u=[1.0, 2.5], w=[1.0, float("nan")], z=[3.0]), steps=4)
    assert found == ResumeCheck(4, identical=False, differs="model/u", difference=3.0)
    assert not compare(a, snapshot(u=[1.0, 2.0], w=[1.0, float("nan")], z=[-0.0]), steps=4).identical
    assert compare(a, snapshot(u=[1.0, 2.0], z=[0.0]), steps=4).differs == "model/w"
    assert compare(snapshot(u=[1.0]), snapshot(u=[1]), steps=4).differs == "model/u"


@pytest.mark.parametrize(
    ("bitwise", "kind", "says"), [(False, ConfigError, "--deterministic"), (True, WordpipeError, "report")]
)
def test_what_the_user_is_told(bitwise, kind, says):
    with pytest.raises(kind, match="would not end with the same bytes") as caught:
        refuse_inexact(ResumeCheck(6, identical=False, differs="model/embedding", difference=1e-7), bitwise)
    assert says in caught.value.hint
    assert "1e-07 after 6 steps" in caught.value.message
    assert StopFlag().signum is None
