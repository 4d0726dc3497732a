"""Choosing the next token: repetition control, temperature, top-k, top-p, one draw; in this order.

Each step takes logits (N, V) and gives logits (N, V), float32; a token that is out has minus infinity.
"""

import torch
from torch import Tensor

from wordpipe.model.settings import GenerateSettings

__all__ = ["choose", "draw", "forbid_repeated_ngrams", "keep_top_k", "keep_top_p", "penalise_repeats"]

_NUCLEUS = 1024  # tokens sorted at first for top-p


_COLDEST = 1e-30  # below, 0 / temperature is no number in float32


def choose(logits_NV: Tensor, ids_NT: Tensor, settings: GenerateSettings, uniforms_N: Tensor) -> Tensor:
    """The next token of every sequence.

    Args:
        logits_NV: float32; minus infinity at tokens that must not come.
        ids_NT: the sequences so far, int64, prompt included.
        settings: of the choice. Temperature 0 takes the likeliest token that repetition control leaves (of equals the one
            with the lowest id) and needs no chance.
        uniforms_N: float64 in [0, 1), one number of chance per sequence.

    Returns:
        next_N: int64, on the logits' device.
    """
    if settings.repetition_penalty != 1.0:
        logits_NV = penalise_repeats(logits_NV, ids_NT, settings.repetition_penalty)
    if settings.no_repeat_ngram:
        logits_NV = forbid_repeated_ngrams(logits_NV, ids_NT, settings.no_repeat_ngram)
    if settings.temperature == 0.0:
        return logits_NV.argmax(dim=-1)
    # the largest becomes 0 first: a small temperature would make infinities, whose differences are not numbers
    logits_NV = (logits_NV - logits_NV.amax(dim=-1, keepdim=True)) / max(settings.temperature, _COLDEST)
    if settings.top_k:
        logits_NV = keep_top_k(logits_NV, settings.top_k)
    if settings.top_p < 1.0:
        logits_NV = keep_top_p(logits_NV, settings.top_p)
    return draw(logits_NV, uniforms_N)


def penalise_repeats(logits_NV: Tensor, ids_NT: Tensor, penalty: float) -> Tensor:
    """Make tokens that are in the sequence less likely: x / penalty where x > 0, else x · penalty.

    Source: Keskar et al. 2019 (CTRL), section 4.1, which divides all; for negative logits that would be a reward.
    """
    seen_NT = logits_NV.gather(1, ids_NT)
    return logits_NV.scatter(1, ids_NT, torch.where(seen_NT < 0, seen_NT * penalty, seen_NT / penalty))


def forbid_repeated_ngrams(logits_NV: Tensor, ids_NT: Tensor, size: int) -> Tensor:
    """Take out every token that would end a run of `size` tokens which is in the sequence already.

    Where no token would be left, the rule does not hold. Source: Paulus et al. 2017, section 2.5.
    """
    T = ids_NT.shape[1]
    if size > T:
        return logits_NV
    runs_NRS = ids_NT.unfold(1, size, 1)
    latest_NS = ids_NT[:, T - size + 1 :]
    same_NR = (runs_NRS[:, :, :-1] == latest_NS[:, None]).all(dim=-1)
    times_NV = torch.zeros_like(logits_NV).scatter_add(1, runs_NRS[:, :, -1], same_NR.to(logits_NV.dtype))
    left_NV = logits_NV.masked_fill(times_NV > 0, -torch.inf)
    return torch.where(left_NV.isneginf().all(dim=-1, keepdim=True), logits_NV, left_NV)


def keep_top_k(logits_NV: Tensor, k: int) -> Tensor:
    """Keep the k likeliest tokens, and those that equal the last of them."""
    kth_N1 = logits_NV.topk(min(k, logits_NV.shape[-1])).values[:, -1:]
    return logits_NV.masked_fill(logits_NV < kth_N1, -torch.inf)


def keep_top_p(logits_NV: Tensor, p: float) -> Tensor:
    """Keep the likeliest tokens until their probabilities reach p; the one that takes them there is the last.

    Tokens that equal the last one are kept, too. Mostly some hundred tokens reach p, so only these are sorted at first: 2 ms
    and not 30 for a vocabulary of 128,000 on one core.

    Source: Holtzman et al. 2020, equation 2 (nucleus sampling).
    """
    whole_N1 = logits_NV.logsumexp(dim=-1, keepdim=True)
    best_NC = logits_NV.topk(min(_NUCLEUS, logits_NV.shape[-1])).values
    if ((best_NC - whole_N1).exp().sum(dim=-1) < p).any():
        best_NC = logits_NV.sort(dim=-1, descending=True).values
    reached_NC = (best_NC - whole_N1).exp().cumsum(dim=-1)
    n_kept_N1 = 1 + (reached_NC[:, :-1] < p).sum(dim=-1, keepdim=True)
    return logits_NV.masked_fill(logits_NV < best_NC.gather(1, n_kept_N1 - 1), -torch.inf)


def draw(logits_NV: Tensor, uniforms_N: Tensor) -> Tensor:
    """One token per row, with the probabilities softmax(logits): the first at which their sum exceeds the uniform number.

    On the CPU and in float64, so that the same numbers of chance choose the same tokens on every device as far as its
    logits agree, and so that rare tokens keep their share.

    Args:
        logits_NV: any device; at least one finite number per row.
        uniforms_N: float64 in [0, 1), on the CPU.
    """
    sums_NV = logits_NV.cpu().double().softmax(dim=-1).cumsum(dim=-1)
    # a double below 1 times the whole sum is below it, also when rounded, so there is always a token, and never one with
    # probability 0
    points_N1 = uniforms_N[:, None] * sums_NV[:, -1:]
    return torch.searchsorted(sums_NV, points_N1, right=True)[:, 0].to(logits_NV.device)
