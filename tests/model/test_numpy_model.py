"""The blocks in numpy against the blocks in torch: the same hidden states of random models of every kind."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.support.models import each_kind, kind_config, small_config
from wordpipe.errors import ConfigError
from wordpipe.model import NumpyModel, new_model, read_arrays, save_hf

LENGTHS = np.array([1, 1, 5, 5, 5, 24])
SHAPES = [(2, 1), (3, 5), (1, 24)]


def folder(config, seed=1):
    model, files = new_model(config, seed).eval(), {}
    with torch.no_grad():  # as fresh weights are, biases and norms would hide a missing one
        for weight in model.parameters():
            weight += torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())) * 0.1
    save_hf(model, config, files.__setitem__)
    return model, files


@pytest.mark.parametrize("name", each_kind())
def test_hidden_states_are_those_of_torch(name):
    config = kind_config(name)
    model, files = folder(config)
    found = read_arrays(files.__getitem__)
    if config.is_variant:
        assert found is None
        return
    array_model = NumpyModel(*found)
    ids = np.random.default_rng(7).integers(7, 96, LENGTHS.sum())
    hidden_ND = array_model.encode(array_model.embed(ids, LENGTHS), SHAPES)
    with torch.inference_mode():
        expected = [model.encode(torch.from_numpy(one)[None])[0] for one in np.split(ids, np.cumsum(LENGTHS)[:-1])]
    np.testing.assert_allclose(hidden_ND, torch.cat(expected).numpy(), atol=2e-5, rtol=1e-5)


def test_a_table_of_positions_that_is_not_stored_is_left_to_torch():
    _, files = folder(small_config("encoder", positions="sinusoidal"))
    assert read_arrays(files.__getitem__) is None


def test_scores_that_do_not_fit_at_once_are_made_in_parts(monkeypatch):
    _, files = folder(small_config("encoder"))
    array_model = NumpyModel(*read_arrays(files.__getitem__))
    x_ND = array_model.embed(np.arange(7, 47), np.full(8, 5))
    whole = array_model.encode(x_ND, [(8, 5)])
    monkeypatch.setattr("wordpipe.model.numpy_model._MAX_SCORES", 250)
    np.testing.assert_allclose(array_model.encode(x_ND, [(8, 5)]), whole, atol=1e-6)


def test_a_sequence_longer_than_the_table_of_positions_is_refused():
    _, files = folder(small_config("encoder", "classic"))
    with pytest.raises(ConfigError, match="more tokens than the model has positions; got 25; expected 24"):
        NumpyModel(*read_arrays(files.__getitem__)).embed(np.full(25, 9), np.array([25]))


@pytest.mark.parametrize(
    "change",
    [
        {"config.json": b"{}"},
        {"config.json": b"nonsense"},
        {"model.safetensors": b"nonsense"},
        {"model.safetensors": b""},
    ],
)
def test_what_is_no_folder_of_ours_is_left_to_torch(change):
    _, files = folder(small_config("encoder"))
    assert read_arrays((files | change).__getitem__) is None


def test_weights_that_are_not_finite_or_not_there_are_left_to_torch():
    from safetensors.numpy import load, save

    _, files = folder(small_config("encoder"))
    weights = load(files["model.safetensors"])
    name = "model.final_norm.weight"
    for other in (
        {**weights, name: np.full_like(weights[name], np.nan)},
        {k: v for k, v in weights.items() if k != name},
    ):
        assert read_arrays((files | {"model.safetensors": save(other)}).__getitem__) is None


def test_it_needs_neither_torch_nor_numba():
    code = (
        "import sys; import wordpipe.model.numpy_model; "
        "assert not {'torch', 'numba', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
