"""Tensors cut out of a safetensors file: the others keep their bytes, whatever their type."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from safetensors.torch import load as load_torch
from safetensors.torch import save as save_torch

from tests.stages.made_models import model_files
from tests.stages.test_export_encoder import ROLES, word_tokenizer
from wordpipe.model import config_from_hf
from wordpipe.stages import is_of_head, without_tensors


def test_the_others_stay_as_they_were():
    draw = np.random.default_rng(1)
    tensors = {
        "b.head": draw.standard_normal((3, 5)).astype(np.float32),
        "a": draw.integers(0, 9, 7, dtype=np.int8),
        "c": draw.standard_normal((2, 2)).astype(np.float64),
        "d": np.zeros((0, 4), np.float32),
        "ä": draw.standard_normal(1).astype(np.float16),
    }
    found = load(without_tensors(save(tensors, metadata={"format": "pt"}), lambda name: name.endswith("head")))
    assert found.keys() == tensors.keys() - {"b.head"}
    for name, array in found.items():
        np.testing.assert_array_equal(array, tensors[name], strict=True)


def test_types_that_numpy_does_not_have_and_metadata_are_kept():
    data = save_torch({"x": torch.arange(6, dtype=torch.bfloat16), "y": torch.ones(2)}, {"format": "pt"})
    cut = without_tensors(data, {"y"}.__contains__)
    assert torch.equal(load_torch(cut)["x"], torch.arange(6, dtype=torch.bfloat16))
    assert json.loads(cut[8 : 8 + int.from_bytes(cut[:8], "little")])["__metadata__"] == {"format": "pt"}
    assert load_torch(without_tensors(data, lambda _: True)) == {}


def test_nothing_to_leave_out_changes_no_tensor():
    data = save({"x": np.arange(3, dtype=np.float32)})
    assert without_tensors(data, lambda _: False) == data


@pytest.mark.parametrize(
    ("architecture", "style"), [("encoder", "modern"), ("encoder", "classic"), ("decoder", "modern")]
)
def test_the_head_is_what_transformers_base_class_has_no_place_for(architecture, style):
    transformers = pytest.importorskip("transformers")
    files = model_files(word_tokenizer(ROLES).to_str().encode(), architecture, style)
    family, config = config_from_hf(json.loads(files["config.json"]))
    cut = load(without_tensors(files["model.safetensors"], is_of_head(family, config)))
    about = transformers.AutoConfig.for_model(**json.loads(files["config.json"]))
    with torch.device("meta"):
        wanted = transformers.AutoModel.from_config(about).state_dict().keys()
    whole = load(files["model.safetensors"])
    assert cut.keys() == {name for name in whole if name.removeprefix(family.prefix) in wanted}
    assert len(cut) > 3  # and not nothing
