"""Passes of a small model whose layers all have one mixer, timed; and the memory that they take."""

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from peers.model_ours import special_of
from wordpipe.errors import ConfigError
from wordpipe.model import LanguageModel, ModelConfig, new_model
from wordpipe.runtime import peak_memory_bytes
from wordpipe.training import model_config
from wordpipe.training.settings import CausalSettings, MaskedSettings

Task = dict[str, Any]
Found = dict[str, Any]

FIRST_ID, GUESSED = 7, 0.15  # ids before are special; share of the positions, as in BERT

REFUSED = ("allocate memory", "bad_alloc", "MemoryError")
"""What an error says of memory that there is not."""


def mix(task: Task) -> Found:
    """Tokens per second and memory, first of forward passes, then of forward and backward; None: too much memory.

    Args:
        task: `mixer`, `seq_len`, `batch_tokens`, `shape`, `n_tokens`, `threads`, `seconds`, `memory_gb`.
    """
    torch.set_num_threads(task["threads"])
    config = config_of(task)
    model = new_model(config, 1)
    ids_BT, at_BK = batch(task)
    limit = round(task["memory_gb"] * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    found: Found = {"architecture": config.architecture, "parameters": sum(one.numel() for one in model.parameters())}
    before = peak_memory_bytes()

    def forward() -> None:
        with torch.no_grad():
            loss_of(model, ids_BT, at_BK)

    def training() -> None:
        model.zero_grad()
        loss_of(model, ids_BT, at_BK).backward()

    for name, work in (("forward", forward), ("training", training)):  # in this order, as a peak never falls
        try:
            seconds = timed(work, task["seconds"])
        except (RuntimeError, MemoryError) as error:
            if not any(says in str(error) for says in REFUSED):
                raise
            found[name] = None
        else:
            found[name] = {"tokens_per_s": ids_BT.numel() / seconds, "memory_bytes": peak_memory_bytes() - before}
    return found


def config_of(task: Task) -> ModelConfig:
    """An encoder; a decoder where the mixer sees one side alone.

    Raises:
        ConfigError: it fits neither.
    """
    given = task["shape"] | {"mixers": task["mixer"], "seq_len": task["seq_len"]}
    try:
        return model_config(MaskedSettings.make(given), "encoder", n_tokens=task["n_tokens"], special=special_of())
    except ConfigError:
        return model_config(CausalSettings.make(given), "decoder", n_tokens=task["n_tokens"], special=special_of())


def batch(task: Task) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids (B, T), and the positions whose tokens are guessed (B, K)."""
    T = task["seq_len"]
    B = max(1, task["batch_tokens"] // T)
    draw = torch.Generator().manual_seed(1)
    ids_BT = torch.randint(FIRST_ID, task["n_tokens"], (B, T), generator=draw)
    return ids_BT, torch.rand((B, T), generator=draw).topk(max(1, round(GUESSED * T)), dim=1).indices


def loss_of(model: LanguageModel, ids_BT: torch.Tensor, at_BK: torch.Tensor) -> torch.Tensor:
    """The mean loss of the tokens at these positions."""
    hidden_BTD = model.encode(ids_BT)
    picked_BKD = hidden_BTD.gather(1, at_BK[..., None].expand(-1, -1, hidden_BTD.shape[-1]))
    return F.cross_entropy(model.logits_at(picked_BKD).flatten(0, 1), ids_BT.gather(1, at_BK).flatten())


def timed(work: Callable[[], None], seconds: float) -> float:
    """The median seconds of a pass, after one that warms up; where that one takes as long as this, its seconds."""
    times = [_seconds(work)]
    if times[0] < seconds:
        times = []
        while len(times) < 2 or sum(times) < seconds:
            times.append(_seconds(work))
    return statistics.median(times)


def _seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
