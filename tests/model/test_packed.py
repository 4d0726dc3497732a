"""Packed sequences give what each gives alone, whatever the model is made of, and the same gradients."""

import numpy as np
import pytest
import torch

from tests.model.shapes import KINDS, kind_config, small_config
from wordpipe.errors import ConfigError
from wordpipe.model import new_model, pack

LENGTHS = np.array([7, 3, 12, 3, 1, 7, 20])


def ids_of(lengths: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).integers(7, 90, int(lengths.sum()))


def alone(model, ids: np.ndarray, lengths: np.ndarray) -> list[torch.Tensor]:
    parts = np.split(ids, np.cumsum(lengths)[:-1])
    return [model.encode(torch.from_numpy(part)[None])[0] for part in parts]


@pytest.mark.parametrize("multiple", [1, 4])
@pytest.mark.parametrize("kind", [name for name in KINDS if name.startswith("encoder")])
def test_every_sequence_is_encoded_as_if_it_were_alone(kind, multiple):
    model = new_model(kind_config(kind), 3).eval()
    ids = ids_of(LENGTHS)
    packed = pack(ids, LENGTHS, multiple=multiple)
    with torch.no_grad():
        expected, hidden = alone(model, ids, LENGTHS), model.encode_packed(packed)
    sequences = [row for run in packed.runs(hidden) for row in run]
    for number, got in zip(packed.order, sequences, strict=True):
        want = expected[number]
        torch.testing.assert_close(got[: len(want)], want, atol=2e-6, rtol=1e-5)


def test_gradients_are_those_of_the_sequences_one_by_one():
    ids, gradients = ids_of(LENGTHS), []
    for way in ("alone", "packed"):
        model = new_model(small_config("encoder"), 3)
        if way == "alone":
            loss = sum((hidden.cos() ** 2).sum() for hidden in alone(model, ids, LENGTHS))
        else:
            loss = (model.encode_packed(pack(ids, LENGTHS)).cos() ** 2).sum()
        loss.backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-4, rtol=1e-4)


def test_blocks_computed_again_for_the_gradient_change_nothing():
    ids, gradients = ids_of(LENGTHS), []
    for recompute in (False, True):
        model = new_model(small_config("encoder", dropout=0.1), 3).train()
        model.recompute = recompute
        torch.manual_seed(5)
        model.encode_packed(pack(ids, LENGTHS)).square().sum().backward()
        gradients.append(model.embedding.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("multiple", [1, 5])
def test_nothing_is_lost_and_padding_is_marked(multiple):
    ids = ids_of(LENGTHS)
    packed = pack(ids, LENGTHS, multiple=multiple, pad_id=0)
    rows = [row for run in packed.runs(packed.ids) for row in run]
    parts = np.split(ids, np.cumsum(LENGTHS)[:-1])
    assert sorted(packed.order) == list(range(len(LENGTHS)))
    for number, row in zip(packed.order, rows, strict=True):
        assert len(row) % multiple == 0
        assert row[: len(parts[number])].tolist() == parts[number].tolist()
        assert not row[len(parts[number]) :].any()
    assert (packed.places() < 20).all()


def test_a_sequence_longer_than_the_table_of_positions_is_refused():
    model = new_model(small_config("encoder", "classic"), 3)
    with pytest.raises(ConfigError, match="longer than the model's positions"):
        model.encode_packed(pack(ids_of(np.array([30])), np.array([30])))
