"""The rate that a device could reach: against the figures of published models, and what is measured here."""

import pytest
import torch

from wordpipe.model.config import ModelConfig
from wordpipe.training import reachable
from wordpipe.training.reachable import Reachable, bytes_per_token, card_named, flops_per_token, measured_flops

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


def config_of(architecture, layers, dim, ffn_dim, vocab_size, **parts):
    defaults = {"feedforward": "gelu", "head": architecture == "encoder"}
    return ModelConfig(
        architecture=architecture, n_layers=layers, dim=dim, ffn_dim=ffn_dim, vocab_size=vocab_size, max_len=1024,
        n_heads=dim // 64, **{"n_kv_heads": dim // 64, **defaults, **parts},
    )  # fmt: skip


def ettin(layers, dim, ffn_dim, vocab_size):
    """As ModernBERT: two of three layers see 64 positions to either side."""
    windows = tuple(0 if layer % 3 == 0 else 64 for layer in range(layers))
    return config_of("encoder", layers, dim, ffn_dim, vocab_size, feedforward="geglu", windows=windows)


# millions of operations per token and millions of tokens per second on an H100, worked out by hand
TABLE = [
    (ettin(7, 256, 384, 50_368), 1024, 0.3, 58, 4.3),
    (ettin(7, 256, 384, 16_384), 512, 0.3, 37, 5.6),
    (config_of("encoder", 6, 384, 1536, 30_522), 128, 0.15, 78, 3.4),
    (config_of("encoder", 6, 384, 1536, 30_522), 128, 1.0, 138, 2.3),
    (ettin(10, 384, 576, 50_368), 1024, 0.3, 133, 2.2),
    (ettin(22, 768, 1152, 50_368), 1024, 0.3, 825, 0.46),
    (config_of("encoder", 12, 768, 3072, 30_522), 512, 0.15, 588, 0.67),
    (config_of("decoder", 12, 768, 3072, 50_304), 1024, 1.0, 798, 0.53),
]


@pytest.mark.parametrize(("config", "seq_len", "predicted", "operations", "rate"), TABLE)
def test_the_estimates_of_published_models(config, seq_len, predicted, operations, rate, monkeypatch):
    assert flops_per_token(config, seq_len, predicted) / 1e6 == pytest.approx(operations, rel=0.02)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100 80GB HBM3")
    limit = Reachable(config, seq_len, CUDA, torch.bfloat16)
    assert limit.tokens_per_s(predicted) / 1e6 == pytest.approx(rate, rel=0.05)
    assert Reachable(config, seq_len, CUDA, torch.bfloat16, devices=8).tokens_per_s(predicted) == pytest.approx(
        8 * limit.tokens_per_s(predicted)
    )


def test_operations_are_those_of_the_parts():
    """Six per weight of the matrices, and attention: counted from a model's own weights."""
    config = config_of("decoder", 3, 128, 320, 1000, feedforward="swiglu", n_kv_heads=1)
    matrices = 3 * (128 * (128 + 2 * 64) + 128 * 128 + 3 * 128 * 320)
    assert flops_per_token(config, 32, 1.0) == 6 * (matrices + 128 * 1000) + 12 * 128 * 16 * 3
    assert flops_per_token(config, 32, 0.5) == 6 * (matrices + 64 * 1000) + 12 * 128 * 16 * 3


@pytest.mark.parametrize(("architecture", "windows", "context"), [
    ("encoder", (0, 5, 5), 100 + 2 * 11), ("decoder", (0, 5, 5), 50 + 2 * 6), ("encoder", (90, 90, 90), 300),
])  # fmt: skip
def test_a_window_costs_what_it_sees(architecture, windows, context):
    parts = (architecture, 3, 128, 320, 1000)
    with_windows = flops_per_token(config_of(*parts, windows=windows), 100, 0.0)
    blind = flops_per_token(config_of(*parts), 100, 0.0) - 12 * 128 * 3 * (100 if architecture == "encoder" else 50)
    assert with_windows - blind == pytest.approx(12 * 128 * context)


def test_linear_attention_does_not_depend_on_the_length():
    config = config_of("decoder", 2, 128, 320, 1000, attention="linear")
    assert flops_per_token(config, 64, 1.0) == flops_per_token(config, 4096, 1.0)


def test_a_gate_moves_more():
    gated, plain = (config_of("decoder", 2, 128, 320, 1000, feedforward=kind) for kind in ("swiglu", "gelu"))
    assert bytes_per_token(gated, 0.0) - bytes_per_token(plain, 0.0) == 6 * 2 * 2 * 320
    assert bytes_per_token(gated, 0.5) - bytes_per_token(gated, 0.0) == 4 * 1000


@pytest.mark.parametrize(("name", "tera"), [
    ("NVIDIA H100 80GB HBM3", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA H200", 989), ("NVIDIA L40S", 362), ("NVIDIA L4", 121),
    ("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA A100-SXM4-40GB", 312), ("NVIDIA GeForce RTX 4090", 165), ("Tesla T4", 65),
])  # fmt: skip
def test_cards_by_name(name, tera):
    assert card_named(name).flops == tera * 1e12


def test_a_card_that_is_not_known_or_not_in_16_bits_is_measured(monkeypatch):
    monkeypatch.setattr(reachable, "measured_flops", lambda *_: 2e12)
    config = config_of("decoder", 2, 128, 320, 1000)
    want = 2e12 / flops_per_token(config, 64, 1.0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100 80GB HBM3")
    assert Reachable(config, 64, CUDA, torch.float32).tokens_per_s(1.0) == pytest.approx(want)
    assert Reachable(config, 64, CPU, torch.bfloat16).tokens_per_s(1.0) == pytest.approx(want)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Graphics 1")
    assert Reachable(config, 64, CUDA, torch.bfloat16).tokens_per_s(1.0) == pytest.approx(want)
    assert card_named("Graphics 1") is None


def test_a_cpu_is_measured_once():
    threads = torch.get_num_threads()
    measured_flops.cache_clear()
    first = measured_flops(CPU, torch.float32, threads)
    assert 1e9 < first < 1e14  # a core does at least a billion operations per second
    assert measured_flops(CPU, torch.float32, threads) == first
    assert measured_flops.cache_info().misses == 1
