"""Which numbers a device computes in, and the scale of a float16 training (here in float32, which overflows later)."""

import math
from dataclasses import asdict

import pytest
import torch

from tests.support.small_trainings import run_to_end, settings_of, training, weights_hash
from wordpipe.errors import ConfigError, DivergedError
from wordpipe.runtime import StopFlag
from wordpipe.training import LossScaler, execution, make_execution, resolve_dtype

CPU, CUDA, MPS = (torch.device(name) for name in ("cpu", "cuda", "mps"))


@pytest.fixture
def capability(monkeypatch):
    def pretend(major, minor):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _=None: (major, minor))

    return pretend


UNITS = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")


@pytest.mark.parametrize(
    ("has", "want"),
    [((True, True), torch.bfloat16), ((False, True), torch.bfloat16), ((False, False), torch.float32)],
)
def test_a_cpu_takes_bfloat16_if_it_has_units_for_it(has, want, monkeypatch):
    for name, one in zip(UNITS, has, strict=True):
        monkeypatch.setattr(torch.cpu, name, lambda one=one: one, raising=False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert resolve_dtype("auto", CPU) is want
    assert make_execution(settings_of("mlm", dtype="auto")).dtype is want


def test_a_cpu_whose_units_are_switched_off(monkeypatch):
    for name in UNITS:
        monkeypatch.setattr(torch.cpu, name, lambda: True, raising=False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert resolve_dtype("auto", CPU) is torch.float32


def test_a_torch_that_does_not_know_them(monkeypatch):
    for name in UNITS:
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert resolve_dtype("auto", CPU) is torch.float32


def test_cuda_takes_bfloat16_and_older_cards_float16(capability):
    capability(9, 0)
    assert [resolve_dtype(each, CUDA) for each in ("auto", "float16")] == [torch.bfloat16, torch.float16]
    capability(7, 5)
    assert [resolve_dtype(each, CUDA) for each in ("auto", "float32")] == [torch.float16, torch.float32]
    with pytest.raises(ConfigError, match="does not support bfloat16"):
        resolve_dtype("bfloat16", CUDA)


@pytest.mark.parametrize(("wanted", "device"), [("float16", CPU), ("float16", MPS), ("bfloat16", MPS)])
def test_numbers_that_a_device_lacks_are_refused(wanted, device):
    with pytest.raises(ConfigError, match="16") as caught:
        resolve_dtype(wanted, device)
    assert caught.value.where == "dtype"
    assert resolve_dtype("auto", MPS) is torch.float32


def test_the_scale_follows_the_overflows():
    scaler = LossScaler(scale=8.0)
    taken = [scaler.accepts(torch.tensor(norm)) for norm in (1.0, math.inf, math.nan, 2.0)]
    assert taken == [True, False, False, True]
    assert (scaler.scale, scaler.skipped, scaler.good_steps) == (2.0, 2, 1)
    for _ in range(1999):
        assert scaler.accepts(torch.tensor(1.0))
    assert (scaler.scale, scaler.good_steps) == (4.0, 0)
    assert LossScaler(**asdict(scaler)) == scaler
    assert not scaler.is_exhausted
    for _ in range(3):
        scaler.accepts(torch.tensor(math.inf))
    assert scaler.is_exhausted


def scaled(path, scale, **values):
    """A float32 training that scales its loss as one in float16 would."""
    run = training(settings_of("mlm", report_every=1, checkpoint_steps=2, dropout=0.1, **values), path)
    run.learner.scaler = run.learner.scaler or LossScaler(scale=scale)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("micro_batch", [8, 2])
def test_a_scale_changes_only_the_rounding(micro_batch, tmp_path):
    plain = training(settings_of("mlm", report_every=1, dropout=0.1, micro_batch=micro_batch), tmp_path / "plain")
    run = scaled(tmp_path / "scaled", 65536.0, micro_batch=micro_batch)
    run_to_end(plain)
    run_to_end(run)
    want = [step.loss for step in plain.history]
    assert [step.loss for step in run.history] == pytest.approx(want, rel=1e-5)
    assert run.learner.skipped == 0


def test_a_step_whose_gradient_overflows_is_skipped_and_the_rest_resumes_exactly(tmp_path, monkeypatch):
    enough = 2.0**69  # the squares of float32 end at 2^64
    whole = scaled(tmp_path / "whole", enough)
    before = weights_hash(whole)
    unchanged = [weights_hash(whole) == before for step in whole.steps(StopFlag()) if step.split == "train"]
    assert 0 < whole.learner.skipped < 12
    assert unchanged == [True] * whole.learner.skipped + [False] * (12 - whole.learner.skipped)
    assert all(math.isfinite(step.loss) for step in whole.history)
    first = scaled(tmp_path / "halves", enough)
    list(first.steps(StopFlag(), until=5))
    monkeypatch.setattr("wordpipe.training.learner.LossScaler", lambda **was: LossScaler(**({"scale": 1.0} | was)))
    again = make_float16(scaled(tmp_path / "halves", 1.0), first)
    assert run_to_end(again) == weights_hash(whole)
    assert again.learner.skipped == whole.learner.skipped


def make_float16(run, before):
    """What `Training` does with the scaler of a checkpoint, where the numbers are float16."""
    run.learner.scaler = LossScaler()
    run._continue(before.snapshot())
    return run


def test_a_loss_that_overflows_at_any_scale_is_a_divergence(tmp_path):
    run = scaled(tmp_path, 4.0)
    with torch.no_grad():
        run.learner.model.embedding.fill_(math.nan)
    with pytest.raises(DivergedError, match="no longer a finite number") as caught:
        run_to_end(run)
    assert caught.value.where == "step 3"  # 4, 2, 1
    assert run.learner.skipped == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlm", "clm"])
def test_what_the_device_computes_is_as_repeatable_in_bfloat16(kind, tmp_path):
    values = {"dtype": "bfloat16", "dropout": 0.2, "micro_batch": 4}
    want = run_to_end(training(settings_of(kind, **values), tmp_path / "whole"))
    list(training(settings_of(kind, **values), tmp_path / "halves").steps(StopFlag(), until=5))
    again = training(settings_of(kind, **values), tmp_path / "halves")
    assert again.resumed_from == 5
    assert run_to_end(again) == want
    assert execution.Number.__args__ == settings_of(kind).__class__.model_fields["dtype"].annotation.__args__
