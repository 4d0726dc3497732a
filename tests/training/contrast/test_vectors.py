"""Pooling of packed sequences against a loop over them."""

from itertools import chain

import numpy as np
import pytest
import torch

from tests.training.contrast.encoders import V, model_of, ragged
from wordpipe.model import pack
from wordpipe.training.contrastive import Framing, pool_packed, text_vectors

ROWS = [[9, 10, 11], [12], [13, 14, 15, 16, 9], [20, 21, 22]]


@pytest.mark.parametrize("weighted", [False, True])
def test_vectors_are_the_weighted_means_of_each_text_alone(weighted):
    model = model_of().eval()
    weights_V = torch.rand(64) if weighted else None
    got = text_vectors(model, Framing(2, 3, 16, torch.device("cpu")).packed(ragged(*ROWS)), weights_V)
    for row, vector in zip(ROWS, got, strict=True):
        ids = torch.tensor([[2, *row, 3]])
        hidden_TD = model.encode(ids)[0]
        share_T = torch.ones(len(row) + 2) if weights_V is None else weights_V[ids[0]]
        mean_D = (hidden_TD * share_T[:, None]).sum(0) / share_T.sum()
        torch.testing.assert_close(vector, mean_D / mean_D.norm(), atol=1e-6, rtol=1e-5)


def test_padding_weighs_nothing():
    ids, lengths = np.array([*chain(*ROWS)]), np.array([len(row) for row in ROWS])
    hidden = torch.rand(V, 5)
    pooled = [
        pool_packed(hidden[packed.ids], packed, None)
        for packed in (pack(ids, lengths), pack(ids, lengths, multiple=4, pad_id=7))
    ]
    torch.testing.assert_close(*pooled)


def test_a_text_whose_tokens_weigh_nothing_has_no_direction():
    packed = pack(np.array([2, 3]), np.array([2]))
    assert not pool_packed(torch.rand(2, 5), packed, torch.zeros(V)).any()
