"""Pairs: every one once an epoch, in batches of like lengths; the loss of a plain twin; training that resumes exactly."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.models import pair_config, shaken
from wordpipe.model import new_encoder_decoder, shifted
from wordpipe.runtime import StopFlag
from wordpipe.training import (
    PairBlocks,
    Pairs,
    PairWriter,
    assemble_learner,
    loss_sum,
    make_execution,
    open_pairs,
    seq2seq_pairs,
)
from wordpipe.training.settings import Seq2SeqSettings

CPU = torch.device("cpu")
STYLES = ("t5", "bart", "vaswani")


def pairs_in(folder, n=60, seed=1, longest=9, copies=True):
    """Pairs of which the target is the source turned round, so that there is something to learn."""
    random = np.random.default_rng(seed)
    writer = PairWriter(folder / "train", vocab_size=96, before=(), after=(6,), end=(6,), max_len=24)
    for _ in range(n):
        source = random.integers(7, 96, random.integers(1, longest))
        writer.add(source, source[::-1] if copies else random.integers(7, 96, random.integers(1, longest)))
    writer.close()
    return open_pairs(folder / "train", 96), writer


def training(folder, blocks, style="vaswani", *, valid=None, **values):
    settings = Seq2SeqSettings.make(
        {"preset": "tiny", "steps": 8, "batch_size": 16, "lr": 1e-2, "threads": 1, "device": "cpu", "dtype": "float32",
         "report_every": 2} | values
    )  # fmt: skip
    config = pair_config(style, dropout=settings.dropout)
    objective = Pairs(start_id=config.start_id, device=CPU)
    return assemble_learner(
        settings, new_encoder_decoder(config, 3), blocks, valid, objective=objective, valid_objective=objective,
        execution=make_execution(settings), state_dir=folder / "state", run_key="key",
    )  # fmt: skip


def targets_of(blocks, index, start_id=0):
    objective = Pairs(start_id=start_id, device=CPU)
    return objective.targets(blocks.rows(np.asarray(index, dtype=np.int64)), torch.Generator(), 0.0)


def test_what_was_written_is_read_back(tmp_path):
    writer = PairWriter(tmp_path / "train", vocab_size=70_000, before=(5, 8), after=(6,), end=(6,), max_len=7)
    writer.add(np.array([10, 69_999]), np.array([20]))
    writer.add(np.array([10, 11, 12, 13, 14]), np.array([20]))  # 8 positions with its frame
    writer.add(np.array([10]), np.arange(10, 17))
    writer.add(np.array([30]), np.array([40, 41]))
    writer.close()
    assert (writer.n_pairs, writer.left_out, writer.n_ids) == (2, [1, 1], [9, 5])
    blocks = open_pairs(tmp_path / "train", 70_000)
    rows = blocks.rows(np.array([1, 0]))
    assert rows.sources[0].tolist() == [5, 8, 30, 6, 5, 8, 10, 69_999, 6]
    assert rows.labels[0].tolist() == [40, 41, 6, 20, 6]
    assert [one.tolist() for one in (rows.sources[1], rows.labels[1])] == [[4, 5], [3, 2]]
    assert (len(blocks), blocks.seq_len) == (2, 7)


@pytest.mark.parametrize(("n", "batch_size"), [(640, 10), (100, 16), (5, 16), (64, 1)])
def test_every_pair_comes_once_an_epoch_in_batches_of_like_lengths(tmp_path, n, batch_size):
    blocks, _ = pairs_in(tmp_path, n, longest=20, copies=False)
    pool = max(1, min(64, n // batch_size))
    drawn = [blocks.order(step, batch_size=batch_size, seed=4) for step in range(pool)]
    _, counts = np.unique(np.concatenate(drawn), return_counts=True)
    assert counts.sum() == pool * batch_size
    assert counts.max() == max(1, math.ceil(batch_size / n))
    assert all(len(one) for one in drawn)
    if n == 640:
        ids = [int(sum(np.diff(starts)[one].sum() for starts in blocks.starts)) for one in drawn]
        assert max(ids) < 1.35 * min(ids)
        spread = [np.ptp(np.diff(blocks.starts[1])[one]) for one in drawn]
        assert np.mean(spread) < 2.0  # of 19
        sizes = [len(one) for one in drawn]
        assert sizes != sorted(sizes), "the short ones come together"


def test_the_order_is_a_function_of_seed_and_step(tmp_path):
    blocks, _ = pairs_in(tmp_path, 200)
    first, same, other = (blocks.order(7, batch_size=8, seed=seed) for seed in (1, 1, 2))
    assert first.tolist() == same.tolist() != other.tolist()
    assert blocks.order(7 + 25, batch_size=8, seed=1).tolist() != first.tolist()  # another epoch


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_pairs_one_by_one(tmp_path, style, smoothing):
    blocks, _ = pairs_in(tmp_path, 12, copies=False)
    model = new_encoder_decoder(pair_config(style), 2)
    start = model.config.start_id
    targets = targets_of(blocks, range(12), start)
    total = loss_sum(model, targets, smoothing)
    want = torch.zeros(())
    for i in range(12):
        one = targets.rows(i, i + 1)
        source, labels = (torch.from_numpy(flat[0])[None] for flat in (one.sources, one.labels))
        logits = model(source, shifted(labels, start))
        want = want + F.cross_entropy(logits[0], labels[0], reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(total, want, rtol=1e-5, atol=1e-3)
    total.backward()
    got = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    want.backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(got[name], weight.grad, rtol=1e-3, atol=1e-4)


def test_a_pair_beside_it_changes_no_loss(tmp_path):
    blocks, _ = pairs_in(tmp_path, 20, copies=False)
    model = new_encoder_decoder(pair_config("vaswani"), 2)
    with torch.no_grad():
        alone = float(loss_sum(model, targets_of(blocks, [3])))
        beside = float(loss_sum(model, targets_of(blocks, [3, 8, 1]))) - float(
            loss_sum(model, targets_of(blocks, [8, 1]))
        )
    assert alone == pytest.approx(beside, abs=1e-3)


@pytest.mark.landing
@pytest.mark.parametrize("style", [STYLES[0], *(pytest.param(style, marks=pytest.mark.slow) for style in STYLES[1:])])
def test_a_training_starts_near_chance_moves_every_weight_and_learns_a_batch_by_heart(tmp_path, style):
    blocks, _ = pairs_in(tmp_path, 16)
    run = training(tmp_path, blocks, style, steps=150, average=0.0, dropout=0.0, label_smoothing=0.0, report_every=1)
    before = {name: weight.detach().clone() for name, weight in run.learner.model.named_parameters()}
    list(run.steps(StopFlag()))
    losses = [step.loss for step in run.history if step.split == "train"]
    # scaled embeddings that are also the output matrix expect the token just read: a little worse than chance
    assert math.log(96) - 0.2 < losses[0] < math.log(96) + (0.2 if style == "bart" else 1.5)
    assert losses[-1] < 0.05
    for name, weight in run.learner.model.named_parameters():
        assert not torch.equal(weight, before[name]), f"{name} has not moved"


@pytest.mark.landing
@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_a_training_resumes_exactly(tmp_path, optimiser):
    blocks, _ = pairs_in(tmp_path, 60)
    values = {"dropout": 0.2, "average": 0.9, "optimiser": optimiser}
    straight = training(tmp_path / "straight", blocks, **values)
    list(straight.steps(StopFlag()))
    list(training(tmp_path / "halves", blocks, **values).steps(StopFlag(), until=3))
    torch.manual_seed(99)
    again = training(tmp_path / "halves", blocks, **values)
    assert again.resumed_from == 3
    list(again.steps(StopFlag()))
    for part, tensors in straight.snapshot().tensors.items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, again.snapshot().tensors[part][name]), f"{part}/{name}"
    assert straight.learner.take_mean() == again.learner.take_mean() == 8
    assert torch.equal(straight.learner.model.embedding, again.learner.model.embedding)


def test_the_mean_of_weights_is_that_of_the_steps_it_names(tmp_path):
    blocks, _ = pairs_in(tmp_path, 60)
    run = training(tmp_path, blocks, steps=20, average=0.5)
    kept = [
        run.learner.model.embedding.detach().clone()
        for report in run.every_step(StopFlag())
        if report is None and run.plan.averages(run.step)
    ]
    assert len(kept) == 10
    assert run.learner.take_mean() == 10
    torch.testing.assert_close(run.learner.model.embedding.detach(), torch.stack(kept).mean(dim=0))


def test_gradients_add_up_over_micro_batches(tmp_path):
    blocks, _ = pairs_in(tmp_path, 60)
    grads = []
    for micro_batch in (16, 3):
        run = training(tmp_path / str(micro_batch), blocks, micro_batch=micro_batch, dropout=0.0)
        run.learner.gradients(0)
        grads.append([weight.grad for weight in run.learner.model.parameters()])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_held_out_pairs_are_measured_without_smoothing(tmp_path):
    blocks, _ = pairs_in(tmp_path, 30, copies=False)
    run = training(tmp_path, blocks, valid=blocks, label_smoothing=0.3, valid_tokens=10**6)
    measured = run.learner.validate()
    with torch.no_grad():
        targets = targets_of(blocks, range(30))
        want = float(loss_sum(run.learner.model.eval(), targets)) / len(targets.labels[0])
    assert measured.loss == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("style", STYLES)
def test_lengths_that_are_rounded_up_may_pass_the_last_position(tmp_path, monkeypatch, style):
    """As on a GPU: sequences of all 24 positions are filled up to 32, and what fills them has no position."""
    writer = PairWriter(tmp_path / "train", vocab_size=96, before=(), after=(6,), end=(6,), max_len=24)
    for source, target in ((23, 4), (3, 23), (16, 16)):
        writer.add(np.arange(10, 10 + source), np.arange(40, 40 + target))
    writer.close()
    targets = targets_of(open_pairs(tmp_path / "train", 96), range(3))
    model, losses = shaken(new_encoder_decoder(pair_config(style), 3)), []
    for multiple in (1, 16):
        monkeypatch.setitem(seq2seq_pairs._MULTIPLES, "cpu", multiple)
        losses.append(float(loss_sum(model, targets).detach()))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_blocks_know_their_size(tmp_path):
    blocks, writer = pairs_in(tmp_path, 30)
    assert isinstance(blocks, PairBlocks)
    assert (len(blocks), blocks.n_repeated) == (30, 0)
    assert blocks.seq_len == math.ceil(sum(writer.n_ids) / 30)


@pytest.mark.parametrize(("sizes", "widths"), [((96, 70_000), (2, 4)), ((70_000, 96), (4, 2)), ((96, 0), (2, 2))])
def test_each_side_is_as_wide_as_its_vocabulary_needs(tmp_path, sizes, widths):
    writer = PairWriter(
        tmp_path / "train", vocab_size=sizes[0], target_vocab_size=sizes[1], before=(), after=(6,), end=(6,), max_len=7
    )
    pairs = [([sizes[0] - 1, 8], [(sizes[1] or sizes[0]) - 1]), ([9], [10, 11])]
    for source, target in pairs:
        writer.add(np.array(source), np.array(target))
    writer.close()
    blocks = open_pairs(tmp_path / "train", *sizes)
    assert tuple(ids.dtype.itemsize for ids in blocks.ids) == widths
    rows = blocks.rows(np.array([0, 1]))
    assert rows.sources[0].tolist() == [*pairs[0][0], 6, 9, 6]
    assert rows.labels[0].tolist() == [*pairs[0][1], 6, 10, 11, 6]
