import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from tests.model.shapes import small_config
from wordpipe.model.initialise import new_model
from wordpipe.training.cross_entropy import cross_entropy_sum
from wordpipe.training.objectives import Causal, Masked, loss_sum

SPECIAL = (0, 1, 2, 3, 4, 5, 6)


def masked(rate=0.15, mask_share=0.8, random_share=0.1, n_tokens=90):
    return Masked(
        rate=rate, mask_share=mask_share, random_share=random_share, mask_id=4, special_ids=SPECIAL,
        n_tokens=n_tokens, device=torch.device("cpu"),
    )  # fmt: skip


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def blocks(B, T, seed=0, special_share=0.1):
    random = np.random.default_rng(seed)
    ids = random.integers(7, 90, (B, T))
    ids[random.random((B, T)) < special_share] = 3
    ids[:, 0], ids[:, -1] = 2, 3
    return torch.from_numpy(ids)


def test_shares_of_masks_random_tokens_and_unchanged_ones():
    ids_BT = blocks(2000, 130, special_share=0.02)
    targets = masked().targets(ids_BT, generator())
    assert targets.positions.shape == (2000, 19)  # 15 % of 128
    shown = targets.inputs.gather(1, targets.positions)
    is_mask, is_same = shown == 4, shown == targets.labels
    n = targets.labels.numel()
    assert abs(int(is_mask.sum()) / n - 0.8) < 0.01
    assert abs(int(is_same.sum()) / n - 0.1 - 0.1 / 83) < 0.01  # a random token is the same one in 83 times
    assert abs(int((~is_mask & ~is_same).sum()) / n - 0.1) < 0.01
    places = torch.bincount(targets.positions.flatten(), minlength=130)[1:129] / 2000
    assert float((places - 19 / 128).abs().max()) < 0.05  # no place is preferred


def test_random_tokens_are_spread_over_the_ordinary_ones():
    targets = masked(rate=0.9, mask_share=0.0, random_share=1.0).targets(blocks(2000, 66), generator())
    drawn = torch.bincount(targets.inputs.gather(1, targets.positions)[targets.weights > 0], minlength=96)
    assert drawn[:7].sum() == 0
    assert drawn[90:].sum() == 0  # padding of the embedding table
    assert float(drawn[7:90].max() / drawn[7:90].min()) < 1.35


@given(
    T=st.integers(3, 40),
    rate=st.floats(0.001, 0.9),
    special_share=st.sampled_from([0.0, 0.3, 0.9]),
    seed=st.integers(0, 99),
)
def test_special_tokens_are_never_chosen_and_the_rest_is_untouched(T, rate, special_share, seed):
    ids_BT = blocks(6, T, seed, special_share)
    targets = masked(rate).targets(ids_BT, generator(seed))
    counted = targets.weights > 0
    assert not torch.isin(targets.labels[counted], torch.tensor(SPECIAL)).any()
    assert torch.equal(targets.labels, ids_BT.gather(1, targets.positions))
    assert all(len(set(row.tolist())) == targets.positions.shape[1] for row in targets.positions)
    chosen = torch.zeros_like(ids_BT, dtype=torch.bool)
    for row in range(6):
        chosen[row, targets.positions[row][counted[row]]] = True
    assert torch.equal(targets.inputs[~chosen], ids_BT[~chosen])
    n_ordinary = (~torch.isin(ids_BT, torch.tensor(SPECIAL))).sum(dim=1)
    assert torch.equal(counted.sum(dim=1), n_ordinary.clamp_max(max(1, round(rate * (T - 2)))))


def test_masks_are_a_function_of_the_generators_seed():
    ids_BT = blocks(8, 32)
    one, same, other = (masked().targets(ids_BT, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.inputs, same.inputs)
    assert not torch.equal(one.positions, other.positions)


def test_causal_shifts_once_and_never_asks_for_a_document_to_begin():
    ids_BT = torch.tensor([[5, 10, 11, 6, 5, 12]])
    targets = Causal(bos_id=5).targets(ids_BT, generator())
    assert targets.inputs.tolist() == [[5, 10, 11, 6, 5]]
    assert targets.labels.tolist() == [[10, 11, 6, 5, 12]]
    assert targets.weights.tolist() == [[1, 1, 1, 0, 1]]


@pytest.mark.parametrize("kind", ["mlm", "clm"])
def test_loss_is_the_sum_over_targets_alone(kind):
    """Twin: logits at every position by the plain forward pass, picked one by one."""
    model = new_model(small_config("encoder" if kind == "mlm" else "decoder"), 0)
    ids_BT = blocks(5, 17, special_share=0.6)  # so that some rows have fewer ordinary tokens than places
    objective = masked(0.5) if kind == "mlm" else Causal(bos_id=3)
    targets = objective.targets(ids_BT, generator())
    with torch.no_grad():
        log_p_BTV = model(targets.inputs).log_softmax(dim=-1)
        got = float(loss_sum(model, targets))
    want = 0.0
    for b in range(5):
        for k in range(targets.labels.shape[1]):
            t = k if targets.positions is None else int(targets.positions[b, k])
            want -= float(targets.weights[b, k]) * float(log_p_BTV[b, t, targets.labels[b, k]])
    assert 0 < float(targets.weights.sum()) < targets.weights.numel()
    assert got == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("n", "vocab"), [(1, 5), (700, 4096), (1500, 4096), (2, 3_000_000)])
def test_cross_entropy_in_chunks_equals_torch(n, vocab, with_bias):
    dim = 2 if vocab > 1_000_000 else 12
    parts = [torch.randn(n, dim, generator=generator(1)), torch.randn(vocab, dim, generator=generator(2))]
    if with_bias:
        parts.append(torch.randn(vocab, generator=generator(3)))
    labels = torch.randint(0, vocab, (n,), generator=generator(4))
    weights = torch.rand(n, generator=generator(5)).round()
    mine, theirs = ([part.clone().requires_grad_() for part in parts] for _ in range(2))
    got = cross_entropy_sum(mine[0], mine[1], mine[2] if with_bias else None, labels, weights)
    want = (F.cross_entropy(F.linear(*theirs), labels, reduction="none") * weights).sum()
    (got * 0.3).backward()
    (want * 0.3).backward()
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4 if vocab < 10_000 else 5e-3, atol=1e-5)
    with torch.no_grad():
        assert cross_entropy_sum(mine[0], mine[1], mine[2] if with_bias else None, labels, weights) == got


def test_cross_entropy_holds_where_softmax_underflows():
    hidden = torch.tensor([[200.0, 0.0]], requires_grad=True)
    output = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    loss = cross_entropy_sum(hidden, output, None, torch.tensor([1]), torch.ones(1))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(200.0)
    assert hidden.grad.tolist() == [[1.0, -1.0]]


def test_cross_entropy_under_bfloat16_is_close_and_float32():
    hidden, output, bias = (
        torch.randn(*s, generator=generator(i)) for i, s in enumerate([(300, 64), (500, 64), (500,)])
    )
    output *= 0.1
    labels, weights = torch.randint(0, 500, (300,), generator=generator(7)), torch.ones(300)
    results = []
    for enabled in (False, True):
        leaves = [x.clone().requires_grad_() for x in (hidden, output, bias)]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = cross_entropy_sum(*leaves, labels, weights)
        loss.backward()
        assert loss.dtype is torch.float32
        assert all(leaf.grad.dtype is torch.float32 for leaf in leaves)
        results.append((loss.detach(), *(leaf.grad for leaf in leaves)))
    for exact, rough in zip(*results, strict=True):
        assert float((exact - rough).norm() / exact.norm()) < 0.02
