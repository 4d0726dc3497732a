import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.errors import InputError
from wordpipe.training import Rows, block_order, causal_blocks, masked_blocks, permute, spread

lengths = st.tuples(st.integers(1, 300), st.integers(3, 40))


@given(lengths)
def test_every_id_is_in_a_masked_block_and_all_blocks_are_full(case):
    n, seq_len = case
    ids = np.arange(100, 100 + n, dtype="<u2")
    blocks = masked_blocks(ids, seq_len=seq_len, cls_id=2, sep_id=3)
    rows = blocks.rows(np.arange(len(blocks))).ids_BT.numpy()
    assert rows.shape == (len(blocks), min(seq_len, n + 2))
    assert blocks.seq_len == rows.shape[1]
    assert set(rows[:, 0]) == {2}
    assert set(rows[:, -1]) == {3}
    inside = rows[:, 1:-1]
    assert (np.diff(inside, axis=1) == 1).all()  # nothing but consecutive ids: no padding
    assert sorted(set(inside.ravel())) == ids.tolist()
    assert inside.size - n == blocks.n_repeated
    assert blocks.n_repeated < inside.shape[1]


@given(lengths)
def test_every_id_but_the_first_is_a_causal_target(case):
    n, seq_len = case
    if n < 2:
        with pytest.raises(InputError, match="there is no text for the training"):
            causal_blocks(np.arange(n, dtype="<u2"), seq_len=seq_len)
        return
    ids = np.arange(100, 100 + n, dtype="<u2")
    blocks = causal_blocks(ids, seq_len=seq_len)
    rows = blocks.rows(np.arange(len(blocks))).ids_BT.numpy()
    assert rows.shape == (len(blocks), min(seq_len, n - 1) + 1)
    assert blocks.seq_len == rows.shape[1] - 1
    assert (np.diff(rows, axis=1) == 1).all()
    targets = rows[:, 1:].ravel()
    assert sorted(set(targets)) == ids[1:].tolist()
    assert len(targets) - (n - 1) == blocks.n_repeated < blocks.seq_len


@given(lengths)
def test_word_starts_go_with_their_ids(case):
    n, seq_len = case
    ids, starts = np.arange(100, 100 + n, dtype="<u2"), np.random.default_rng(n).random(n) < 0.5
    blocks = masked_blocks(ids, seq_len=seq_len, cls_id=2, sep_id=3, word_starts=starts)
    rows = blocks.rows(np.arange(len(blocks)))
    assert rows.ids_BT.dtype is torch.int64
    assert rows.word_starts_BT.dtype is torch.bool
    begins = rows.word_starts_BT.numpy()
    assert begins[:, [0, 1, -1]].all()  # [CLS], whatever stands first, [SEP]
    inside = rows.ids_BT.numpy()[:, 2:-1]
    assert (begins[:, 2:-1] == starts[inside - 100]).all()


def test_rows_are_sent_to_a_device_with_their_word_starts():
    rows = Rows(torch.arange(6).reshape(2, 3), torch.ones(2, 3, dtype=torch.bool))
    sent = rows.to(torch.device("meta"))
    assert sent.ids_BT.device.type == sent.word_starts_BT.device.type == "meta"
    assert Rows(rows.ids_BT).to(torch.device("meta")).word_starts_BT is None


def test_an_empty_stream_is_refused():
    with pytest.raises(InputError, match="there is no text for the training; got 0 tokens"):
        masked_blocks(np.zeros(0, dtype="<u2"), seq_len=16, cls_id=2, sep_id=3)


@given(n=st.integers(1, 3000), seed=st.integers(0, 2**63 - 1))
def test_permute_is_a_permutation(n, seed):
    assert sorted(permute(np.arange(n), n, seed)) == list(range(n))


def test_permutations_differ_by_seed_look_random_and_stay_the_same_for_ever():
    n = 10_000
    one, other = permute(np.arange(n), n, 1), permute(np.arange(n), n, 2)
    assert (one == other).sum() < 20  # one agreement expected
    assert abs(np.corrcoef(one, np.arange(n))[0, 1]) < 0.05
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.05
    assert permute(np.arange(6), 1000, 7).tolist() == [798, 924, 643, 502, 230, 16]
    assert permute(np.array([5]), 1 << 40, 3) < 1 << 40


@given(n_blocks=st.integers(1, 40), batch_size=st.integers(1, 50), seed=st.integers(0, 100))
def test_every_epoch_has_every_block_once(n_blocks, batch_size, seed):
    steps = -(-3 * n_blocks // batch_size)
    order = [block_order(step, batch_size=batch_size, n_blocks=n_blocks, seed=seed) for step in range(steps)]
    assert {len(batch) for batch in order} == {batch_size}
    epochs = np.concatenate(order)[: 3 * n_blocks].reshape(3, n_blocks)
    for epoch in epochs:
        assert sorted(epoch) == list(range(n_blocks))


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = [block_order(step, batch_size=50, n_blocks=50, seed=seed).tolist() for step in (0, 1) for seed in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


@given(n_blocks=st.integers(1, 500), wanted=st.integers(0, 600))
def test_validation_blocks_are_spread_evenly(n_blocks, wanted):
    chosen = spread(n_blocks, wanted)
    assert len(chosen) == max(1, min(n_blocks, wanted))
    assert chosen.min() >= 0
    assert chosen.max() < n_blocks
    gaps = np.diff(chosen)
    if len(gaps):
        assert gaps.min() >= 1
        assert gaps.max() - gaps.min() <= 1
