"""Framing, cutting, packing and sharing out of sequences."""

from itertools import chain

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.contrast.encoders import ragged
from wordpipe.training.contrastive import Framing, joined, rows_at

ROWS = st.lists(st.lists(st.integers(7, 50), min_size=1, max_size=20), min_size=1, max_size=12)
FRAMING = Framing(cls_id=2, sep_id=3, longest=12, device=torch.device("cpu"))


@given(ROWS)
def test_every_sequence_is_its_text_between_the_marks_cut_at_the_end(rows):
    texts = ragged(*rows)
    packed = FRAMING.packed(texts)
    sequences = [row.tolist() for run in packed.runs(packed.ids) for row in run]
    assert sequences == [[2, *rows[number][:10], 3] for number in packed.order]
    assert FRAMING.n_cut(texts) == sum(max(0, len(row) - 10) for row in rows)
    assert FRAMING.cut(texts).lengths.tolist() == [min(10, len(row)) for row in rows]


@given(ROWS, st.integers(1, 60))
def test_chunks_share_out_all_rows_and_keep_to_their_size(rows, positions):
    chunks = FRAMING.chunks(ragged(*rows), positions)
    assert sorted(np.concatenate(chunks).tolist()) == list(range(len(rows)))
    sizes = [[min(12, len(rows[number]) + 2) for number in chunk] for chunk in chunks]
    assert all(sum(size) <= positions + max(size) for size in sizes)
    assert [size for chunk in sizes for size in chunk] == sorted(size for chunk in sizes for size in chunk)


@given(ROWS, st.randoms(use_true_random=False))
def test_rows_can_be_chosen_and_joined(rows, random):
    index = [random.randrange(len(rows)) for _ in range(5)]
    chosen = rows_at(ragged(*rows), np.array(index))
    assert np.split(chosen.ids, np.cumsum(chosen.lengths)[:-1])[2].tolist() == rows[index[2]]
    both = joined(chosen, ragged(*rows))
    assert both.ids.tolist() == [*chain(*(rows[number] for number in index), *rows)]
