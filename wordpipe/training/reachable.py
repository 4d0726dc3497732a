"""How many tokens per second a device could train on at best, so that a speed can be read as a share of it.

Operations of one token in a training step (forward and backward), N the weights of the blocks' matrices:

    6 · (N + share of positions predicted · (V · D + D² of a head)) + 12 · width of all heads · context · layers

A GPU is also limited by its memory. If every kernel were fused as far as can be, a layer would move 24 D + 6 F numbers of
two bytes forward (4 F without a gate) and twice that backward, and each predicted position 8 · V bytes of logits. "Reachable"
is compute at 80 % of the card's peak, followed by memory traffic at 90 % of its bandwidth, not overlapped. For GPT-2 124M on
an H100 that gives 0.53 million tokens/s, where the best public runs reach 0.47 to 0.60.

A CPU, and a GPU whose figures are not known here, is measured instead: one large matrix product in the run's numbers and
threads, for a moment.
"""

import time
from dataclasses import dataclass
from functools import lru_cache

import torch

from wordpipe.model.config import ModelConfig

__all__ = ["Card", "Reachable", "bytes_per_token", "card_named", "flops_per_token", "measured_flops"]

_OF_PEAK, _OF_BANDWIDTH = 0.8, 0.9
_SECONDS = 0.2
_SIDES = {"cpu": (512, 1024)}  # of the measured matrices; on a busy machine only the small ones are done undisturbed
_GPU_SIDES = (4096,)


@dataclass(frozen=True)
class Card:
    """A GPU by its makers' figures.

    Attributes:
        flops: of dense products of 16-bit numbers, per second.
        bandwidth: of its memory, bytes per second.
    """

    flops: float
    bandwidth: float


# 16-bit, dense, sums in float32. The first name that the device's begins with counts, so the longer ones come first.
_CARDS = {
    "NVIDIA B200": Card(2250e12, 8.0e12),
    "NVIDIA GH200": Card(989e12, 4.0e12),
    "NVIDIA H200": Card(989e12, 4.8e12),
    "NVIDIA H100 PCIe": Card(756e12, 2.0e12),
    "NVIDIA H100 NVL": Card(835e12, 3.9e12),
    "NVIDIA H100": Card(989e12, 3.35e12),
    "NVIDIA A100-SXM4-80GB": Card(312e12, 2.04e12),
    "NVIDIA A100 80GB PCIe": Card(312e12, 1.94e12),
    "NVIDIA A100": Card(312e12, 1.55e12),
    "NVIDIA A10G": Card(70e12, 0.6e12),
    "NVIDIA L40S": Card(362e12, 0.864e12),
    "NVIDIA L4": Card(121e12, 0.3e12),
    "NVIDIA GeForce RTX 5090": Card(209e12, 1.79e12),
    "NVIDIA GeForce RTX 4090": Card(165e12, 1.01e12),
    "NVIDIA GeForce RTX 3090": Card(71e12, 0.936e12),
    "Tesla V100": Card(125e12, 0.9e12),
    "Tesla T4": Card(65e12, 0.32e12),
}


@dataclass(frozen=True)
class Reachable:
    """The limit of one training on one device.

    Attributes:
        config: the model.
        seq_len: positions of a sequence.
        device: where it trains.
        dtype: of its matrix products.
        devices: how many such devices train together.
    """

    config: ModelConfig
    seq_len: int
    device: torch.device
    dtype: torch.dtype
    devices: int = 1

    def tokens_per_s(self, predicted: float) -> float:
        """Positions per second; takes a moment when it is first asked on a device that must be measured.

        Args:
            predicted: share of the positions at which something is predicted.
        """
        flops, card = flops_per_token(self.config, self.seq_len, predicted), self._card()
        if card is None:
            seconds = flops / measured_flops(self.device, self.dtype, torch.get_num_threads())
        else:
            traffic = bytes_per_token(self.config, predicted)
            seconds = flops / (_OF_PEAK * card.flops) + traffic / (_OF_BANDWIDTH * card.bandwidth)
        return self.devices / seconds

    def _card(self) -> Card | None:
        if self.device.type != "cuda" or self.dtype is torch.float32:
            return None
        return card_named(torch.cuda.get_device_name(self.device))


def card_named(name: str) -> Card | None:
    """A GPU's figures by the name that its driver gives it, None if it is not known."""
    return next((card for known, card in _CARDS.items() if name.startswith(known)), None)


def flops_per_token(config: ModelConfig, seq_len: int, predicted: float) -> float:
    """Floating-point operations of a training step per position; the equation is this file's first."""
    heads, kv_heads = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    attention = config.dim * (heads + 2 * kv_heads) + heads * config.dim
    feedforward = (3 if config.gated else 2) * config.dim * config.ffn_dim
    head = config.dim * (config.vocab_size + (config.dim if config.head else 0))
    contexts = sum(_context(config, window, seq_len) for window in config.windows)
    return 6.0 * (config.n_layers * (attention + feedforward) + predicted * head) + 12.0 * heads * contexts


def bytes_per_token(config: ModelConfig, predicted: float) -> float:
    """Bytes that a perfectly fused training step in 16-bit numbers moves per position."""
    numbers = 24 * config.dim + (6 if config.gated else 4) * config.ffn_dim
    return 3.0 * 2.0 * config.n_layers * numbers + 8.0 * config.vocab_size * predicted


def _context(config: ModelConfig, window: int, seq_len: int) -> float:
    """Positions that one attends to on average."""
    if config.attention == "linear":  # a sum of outer products instead
        return float(config.head_dim)
    sides = 1 if config.causal else 2
    whole = seq_len / 2 if config.causal else float(seq_len)
    return min(whole, sides * window + 1.0) if window else whole


@lru_cache
def measured_flops(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    """Operations per second of the fastest of many large matrix products, as torch computes them here.

    Args:
        device: where.
        dtype: of the matrices.
        threads: of the CPU, already set; another number is another measurement.
    """
    sides = _SIDES.get(device.type, _GPU_SIDES)
    return max(2.0 * side**3 / _fastest_product(side, device, dtype, _SECONDS / len(sides)) for side in sides)


def _fastest_product(side: int, device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    """Seconds that it takes, the best of all tries in a given time."""
    a = torch.ones(side, side, dtype=dtype, device=device)
    out = torch.empty_like(a)
    torch.mm(a, a, out=out)  # the first one prepares
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        begun = time.perf_counter()
        torch.mm(a, a, out=out)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        best = min(best, time.perf_counter() - begun)
        if time.perf_counter() >= end:
            return best
