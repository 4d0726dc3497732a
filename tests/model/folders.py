"""Models whose weights all show, and folders in memory, for the tests of `wordpipe.model.formats`."""

import json
from zlib import crc32

import torch
from safetensors.torch import load, save

from wordpipe.model import save_hf


def shaken(model):
    """The model with norms and biases that are not at 1 and 0, where a missing one would not show."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spread = 0.5 if weight.dim() == 1 else max(float(weight.std()), 0.02)
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(crc32(name.encode())))
            weight.add_(noise * spread)
    return model.eval()


def files_of(model):
    """Name → bytes of the files of the model's folder."""
    files: dict[str, bytes] = {}
    save_hf(model, model.config, files.__setitem__)
    return files


def edited(files, **values):
    """The folder with other values in its config."""
    return files | {"config.json": json.dumps(json.loads(files["config.json"]) | values).encode()}


def without(files, *keys):
    """The folder with fewer keys in its config."""
    config = json.loads(files["config.json"])
    return files | {"config.json": json.dumps({key: config[key] for key in config.keys() - set(keys)}).encode()}


def weights_of(files):
    return load(files["model.safetensors"])


def with_weights(files, change):
    """The folder after `change` had its dict of weights."""
    weights = weights_of(files)
    change(weights)
    return files | {"model.safetensors": save(weights)}
