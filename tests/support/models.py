"""Small models for tests: configurations of every kind, weights that all show, folders in memory."""

import json
from dataclasses import asdict
from typing import Any
from zlib import crc32

import pytest
import torch
from safetensors.torch import load, save

from tests.support.variants import covering
from wordpipe.model import STYLES, ModelConfig, save_hf


def small_config(architecture: str, style: str = "modern", **changes: object) -> ModelConfig:
    values: dict[str, object] = {
        "architecture": architecture,
        "vocab_size": 96,
        "dim": 32,
        "n_layers": 3,
        "n_heads": 4,
        "n_kv_heads": 4,
        "ffn_dim": 48,
        "max_len": 24,
        "pad_id": 0,
        "bos_id": 5,
        "eos_id": 6,
        "cls_id": 2,
        "sep_id": 3,
        "mask_id": 4,
    }
    return ModelConfig(**(values | STYLES[architecture, style] | changes))  # type: ignore[arg-type, index]


def pair_config(style: str, **changes: object) -> ModelConfig:
    """A small encoder-decoder."""
    values: dict[str, object] = {
        "architecture": "encoder-decoder",
        "vocab_size": 96,
        "dim": 32,
        "n_layers": 2,
        "n_decoder_layers": 3,
        "n_heads": 4,
        "n_kv_heads": 4,
        "ffn_dim": 48,
        "max_len": 24,
        "pad_id": 0,
        "bos_id": 5,
        "eos_id": 6,
        "start_id": 6 if style == "bart" else 0,
    }
    return ModelConfig(**(values | STYLES["encoder-decoder", style] | changes))  # type: ignore[arg-type, index]


# Every kind of position, attention, norm and feed-forward at least once in each architecture.
KINDS: dict[str, tuple[str, str, dict[str, object]]] = {
    f"{architecture} {name}": (architecture, style, changes)
    for architecture in ("encoder", "decoder")
    for name, style, changes in [
        ("modern", "modern", {}),
        ("classic", "classic", {}),
        ("grouped queries", "modern", {"n_kv_heads": 2}),
        ("one key head", "classic", {"n_kv_heads": 1}),
        ("wide heads", "modern", {"head_dim": 12}),
        ("sinusoidal", "classic", {"positions": "sinusoidal"}),
        ("alibi", "modern", {"positions": "alibi"}),
        ("alibi, six heads", "classic", {"positions": "alibi", "dim": 48, "n_heads": 6, "n_kv_heads": 6}),
        ("t5", "modern", {"positions": "t5"}),
        ("learned t5", "classic", {"positions": "learned-t5"}),
        ("windows", "modern", {"windows": (0, 3, 3), "local_rope_theta": 100.0}),
        ("windows with t5", "classic", {"windows": (2, 0, 5), "positions": "t5"}),
        ("global tokens", "modern", {"windows": (0, 2, 2), "global_tokens": 2}),
        ("additive", "modern", {"attention": "additive"}),
        ("additive with alibi", "classic", {"attention": "additive", "positions": "alibi"}),
        ("linear", "modern", {"attention": "linear"}),
        ("linear, learned positions", "classic", {"attention": "linear", "n_kv_heads": 2}),
        ("relu after rms", "classic", {"norm": "rms", "feedforward": "relu"}),
        ("gated in the classic", "classic", {"feedforward": "swiglu", "norm_place": "pre"}),
        ("norm after", "modern", {"norm_place": "post"}),
        ("untied", "modern", {"tied": False}),
        ("performer", "modern", {"attention": "performer"}),
        ("state spaces", "modern", {"mixers": ("ssm",) * 3, "state_dim": 6}),
    ]
} | {
    name: (name.partition(" ")[0], style, changes)
    for name, style, changes in [
        ("encoder relative", "classic", {"attention": "relative", "positions": "none", "segments": 0, "n_kv_heads": 2}),
        ("encoder relative, windows", "modern", {"attention": "relative", "positions": "learned", "windows": (2, 0, 3)}),
        ("decoder relative", "modern", {"attention": "relative", "positions": "none"}),
        ("decoder memory", "classic", {"attention": "relative", "positions": "none", "mem_len": 3, "n_kv_heads": 1}),
        ("decoder memory, mixed", "modern", {"mixers": ("relative", "dot", "ssm"), "mem_len": 5, "state_dim": 2}),
        ("decoder mixed", "classic", {"mixers": ("dot", "ssm", "performer"), "state_dim": 2, "windows": (3, 0, 0)}
         | {"n_kv_heads": 2}),
        ("encoder fourier", "modern", {"mixers": ("fourier",) * 3}),
        ("encoder fourier, norm after", "classic", {"mixers": ("fourier",) * 3}),
        ("encoder linformer", "classic", {"attention": "linformer", "linformer_dim": 30, "n_kv_heads": 2}),
        ("encoder all mixed", "modern", {"mixers": ("fourier", "linformer", "ssm", "performer", "linear"), "n_layers": 5}
         | {"linformer_dim": 7, "state_dim": 8}),
    ]
}  # fmt: skip


XLNET = {"attention": "relative", "positions": "none", "embedding_norm": False, "head": False, "two_streams": True}
"""What an XLNet has otherwise than a BERT."""


def kind_config(name: str, **changes: object) -> ModelConfig:
    architecture, style, own = KINDS[name]
    return small_config(architecture, style, **(own | changes))


def each_kind(architecture: str = "", rest: pytest.MarkDecorator = pytest.mark.slow) -> list[Any]:
    """The kinds as parameters: a few that have every value of every field of a config, and the rest marked."""
    names = [name for name in KINDS if name.startswith(architecture)]
    chosen = covering([asdict(kind_config(name)).items() for name in names], 1)
    return [pytest.param(name, marks=() if at in chosen else rest) for at, name in enumerate(names)]


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
