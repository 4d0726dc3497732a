"""Target texts out of source texts: beam search, and greedy or sampled decoding, of many sources at once.

    read the sources → [start] → logits of the last position → go on with the best K of each source → … → the best finished

A source that has all its results leaves the batch, so that the last sentences of a batch cost what they are. The K
sequences of one source read it together (see `attention`).

The score of a finished sequence Y of n tokens, its end included, is its log-probability divided by a penalty of its length:

    hf      n^α                    as in Hugging Face transformers; α = 1 is the mean, 0 the sum
    gnmt    ((5 + n) / 6)^α        Wu et al. 2016, equation 14; Vaswani et al. 2017, section 6.1, with α = 0.6

A search ends when no running sequence, divided by the penalty of the present length, is better than the worst of K finished
ones. That is the default of Hugging Face transformers (`early_stopping=False`), whose results these are. It is a heuristic: a
longer sequence may have a better mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from wordpipe.errors import DivergedError
from wordpipe.model.attention import Cache, Source
from wordpipe.model.config import seed_of
from wordpipe.model.encoder_decoder import EncoderDecoder
from wordpipe.model.generation import choose, forbid_repeated_ngrams
from wordpipe.model.settings import GenerateSettings

LengthPenalty = Literal["hf", "gnmt"]

_NUMBERS_AT_ONCE = 1 << 21  # logits
_BLOCK = 64  # tokens


@dataclass(frozen=True)
class Hypothesis:
    """A target text that was found.

    Attributes:
        ids: its ids, without the start, what every target begins with, and the end.
        score: what it was ranked by.
        logprob: log-probability (natural) of all its tokens, the end included, under the model.
        finished: it ends with the model's end; else it has as many tokens as were allowed.
    """

    ids: tuple[int, ...]
    score: float
    logprob: float
    finished: bool


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of which tokens may follow in a target text.

    Attributes:
        allowed_V: ids that may come, the end among them, bool.
        stop_id: the end.
        max_tokens: most tokens of a target, its end included.
        min_tokens: tokens before the end may come.
        no_repeat_ngram: no run of this many tokens comes twice; 0: it may.
        limits: most tokens of the target of each source, none above `max_tokens`; empty: that is the limit of all.
        first_id: the first token of every target, which is certain; None: any.
    """

    allowed_V: Tensor  # noqa: N815
    stop_id: int
    max_tokens: int
    min_tokens: int = 0
    no_repeat_ngram: int = 0
    limits: tuple[int, ...] = ()
    first_id: int | None = None

    @property
    def n_given(self) -> int:
        """Return the number of ids that are there before a token is chosen."""
        return 1 if self.first_id is None else 2

    def limits_of(self, n_sources: int) -> tuple[int, ...]:
        """Return the most tokens of the target of each source."""
        return self.limits or (self.max_tokens,) * n_sources

    @cached_property
    def _never(self) -> Tensor:
        """Return the ids of the tokens that are never written, int64."""
        return (~self.allowed_V).nonzero()[:, 0]

    def applied(self, scores_NV: Tensor, ids_NT: Tensor) -> Tensor:
        """Return scores for decoding, changed in place: minus infinity at tokens that may not follow the ids (N, T)."""
        if self.first_id is not None and ids_NT.shape[1] == 1:
            scores_NV.fill_(-torch.inf)[:, self.first_id] = 0.0
            return scores_NV
        scores_NV = scores_NV.index_fill_(1, self._never, -torch.inf)
        if ids_NT.shape[1] <= self.min_tokens:
            scores_NV[:, self.stop_id] = -torch.inf
        if self.no_repeat_ngram:
            scores_NV = forbid_repeated_ngrams(scores_NV, ids_NT, self.no_repeat_ngram)
        return scores_NV


def length_penalty(n_tokens: int, alpha: float, kind: LengthPenalty) -> float:
    """Return the length penalty of beam search: the divisor of the log-probability of a sequence.

    >>> length_penalty(4, 1.0, "hf"), length_penalty(7, 1.0, "gnmt")
    (4.0, 2.0)
    """
    return float(n_tokens**alpha if kind == "hf" else ((5.0 + n_tokens) / 6.0) ** alpha)


@torch.inference_mode()
def beam_search(
    model: EncoderDecoder, source: Source, rules: Rules, *, beams: int, alpha: float = 1.0, penalty: LengthPenalty = "hf",
    n_best: int = 1,
) -> list[list[Hypothesis]]:  # fmt: skip
    """Find the best targets of each source by beam search with K beams, the best first.

    Args:
        model: in evaluation mode.
        source: what `model.read` made of C source texts.
        rules: what may come.
        beams: K, sequences of each source that are followed.
        alpha: of the length penalty.
        penalty: its kind.
        n_best: results of each source, at most K.

    Raises:
        DivergedError: the model's logits are not finite.
    """
    search = _Beams(model, source, rules, beams)
    for length in range(1, rules.max_tokens + 1):
        search.advance(length, length_penalty(length, alpha, penalty))
        if search.is_done:
            break
    return [found[:n_best] for found in search.results]


class _Beams:
    """The state of a search: C sources that are not finished, K running sequences of each, the best first."""

    def __init__(self, model: EncoderDecoder, source: Source, rules: Rules, beams: int) -> None:
        device, C = rules.allowed_V.device, source.size
        self._model, self._source, self._rules, self._K = model, source, rules, beams
        # all sequences begin alike: one goes on, if it has enough candidates for all
        first = 1 if 2 * beams <= len(rules.allowed_V) else beams
        self._ids_CKT = _started(model, C * first, device).view(C, first, 1)
        self._scores_CK = torch.full((C, first), -torch.inf, device=device)
        self._scores_CK[:, 0] = 0.0
        self._numbers = list(range(C))  # of the sources that are not finished, among those that were given
        self._limits = rules.limits_of(C)
        self._cache = Cache(model.decoder.config, C * first, rules.max_tokens, device)
        self.results: list[list[Hypothesis]] = [[] for _ in range(C)]

    @property
    def is_done(self) -> bool:
        """True if the beam search of every source has its results."""
        return not self._numbers

    def advance(self, length: int, divisor: float) -> None:
        """Extend every running sequence of the beam search by a token.

        Args:
            length: tokens that the running sequences then have.
            divisor: penalty of that length.
        """
        C, K, running = len(self._numbers), self._K, self._ids_CKT.shape[1]
        ids_NT = self._ids_CKT.flatten(0, 1)
        hidden_ND = _next_hidden(self._model, ids_NT, self._source, self._cache)
        # one token ends a sequence, so of the best 2K candidates of a source at least K go on
        logprobs_NM, tokens_NM = _likeliest(self._model, hidden_ND, self._rules, ids_NT, 2 * K)
        M = logprobs_NM.shape[1]
        best = (logprobs_NM + self._scores_CK.view(-1, 1)).view(C, -1).topk(min(2 * K, running * M), dim=1)
        beam, token = best.indices // M, tokens_NM.view(C, -1).gather(1, best.indices)
        ends = token == self._rules.stop_id
        self._collect(best.values[:, :K], beam[:, :K], token[:, :K], length, divisor)
        self._scores_CK, place_CK = best.values.masked_fill(ends, -torch.inf).topk(K, dim=1)
        beam_CK = beam.gather(1, place_CK)
        kept_CKT = self._ids_CKT.gather(1, beam_CK[:, :, None].expand(-1, -1, length))
        self._ids_CKT = torch.cat((kept_CKT, token.gather(1, place_CK)[:, :, None]), dim=2)
        self._leave(beam_CK, running, length, divisor)

    def _collect(self, scores_CK: Tensor, beam_CK: Tensor, token_CK: Tensor, length: int, divisor: float) -> None:
        """Take the finished targets of a beam search among the best K candidates of each source; keep the best K."""
        scores, beams, tokens = scores_CK.tolist(), beam_CK.tolist(), token_CK.tolist()
        for i, number in enumerate(self._numbers):
            found = self.results[number]
            for k, logprob in enumerate(scores[i]):
                ends = tokens[i][k] == self._rules.stop_id
                if (ends or length == self._limits[number]) and logprob > -math.inf:
                    ids = self._ids_CKT[i, beams[i][k], self._rules.n_given :].tolist()
                    ids += [] if ends else [tokens[i][k]]
                    found.append(Hypothesis(tuple(ids), logprob / divisor, logprob, finished=ends))
            found.sort(key=lambda one: -one.score)
            del found[self._K :]

    def _leave(self, beam_CK: Tensor, running: int, length: int, divisor: float) -> None:
        """Drop the sources whose beam search can hardly find a better target; the cache follows the sequences that go on.

        Args:
            beam_CK: which of the sequences that ran each one goes on from.
            running: how many of each source ran.
            length: tokens that the running sequences have.
            divisor: penalty of that length.
        """
        best, stay = self._scores_CK[:, 0].tolist(), []
        for i, number in enumerate(self._numbers):
            found = self.results[number]
            is_full = len(found) == self._K and best[i] / divisor <= found[-1].score
            if length < self._limits[number] and not is_full and best[i] > -math.inf:
                stay.append(i)
        index_C = torch.tensor(stay, dtype=torch.int64, device=beam_CK.device)
        if len(stay) < len(self._numbers):
            self._numbers = [self._numbers[i] for i in stay]
            self._ids_CKT, self._scores_CK = self._ids_CKT[index_C], self._scores_CK[index_C]
            self._source = self._source.rows(index_C)
        self._cache.select((index_C[:, None] * running + beam_CK[index_C]).flatten())


@torch.inference_mode()
def sample_targets(
    model: EncoderDecoder, source: Source, rules: Rules, settings: GenerateSettings, numbers: Sequence[int]
) -> list[list[Hypothesis]]:
    """Decode the targets of sources token by token (`generation.choose`), without beams: greedily or at random.

    Args:
        model: in evaluation mode.
        source: what `model.read` made of C source texts.
        rules: what may come.
        settings: temperature, top_k, top_p, samples, seed.
        numbers: of the C sources, from which their random numbers are made: the same text under the same number gets the same
            target, whatever stands beside it.

    Returns:
        For each source `settings.samples` targets.

    Raises:
        DivergedError: the model's logits are not finite.
    """
    device, S = rules.allowed_V.device, settings.samples
    ids_NT = _started(model, source.size * S, device)
    generators = [
        torch.Generator().manual_seed(seed_of(settings.seed, "target", number, sample))
        for number in numbers
        for sample in range(S)
    ]
    # the running targets, by their number among all
    cache = Cache(model.decoder.config, len(ids_NT), rules.max_tokens, device)
    running, sums = list(range(len(ids_NT))), [0.0] * len(ids_NT)
    limits = [limit for limit in rules.limits_of(source.size) for _ in range(S)]
    results: list[Hypothesis | None] = [None] * len(ids_NT)
    for length in range(1, rules.max_tokens + 1):
        # one token more of each, and its log-probability under the model
        logits_NV = _next_logits(model, ids_NT, source, cache)
        uniforms_N = torch.cat([torch.rand(1, dtype=torch.float64, generator=generators[one]) for one in running])
        logprobs_NV = logits_NV.log_softmax(dim=-1)
        next_N = choose(rules.applied(logits_NV, ids_NT), ids_NT, settings, uniforms_N)
        is_given = length == 1 and rules.first_id is not None
        logprobs = [0.0] * len(next_N) if is_given else logprobs_NV.gather(1, next_N[:, None])[:, 0].tolist()
        ids_NT = torch.cat((ids_NT, next_N[:, None]), dim=1)
        # a target ends with its end, or is cut
        stay = []
        for i, (one, token, logprob) in enumerate(zip(running, next_N.tolist(), logprobs, strict=True)):
            sums[one] += logprob
            if (ends := token == rules.stop_id) or length == limits[one]:
                ids = ids_NT[i, rules.n_given : length + (not ends)].tolist()
                results[one] = Hypothesis(tuple(ids), sums[one] / length, sums[one], finished=ends)
            else:
                stay.append(i)
        if not stay:
            break
        if len(stay) < len(running):
            # a source stays as often as it has running targets, so that they need not be equally many
            index_N = torch.tensor(stay, device=device)
            source = source.rows(index_N // (len(running) // source.size))
            ids_NT, running = ids_NT[index_N], [running[i] for i in stay]
            cache.select(index_N)
    found = [one for one in results if one is not None]
    return [found[first : first + S] for first in range(0, len(found), S)]


def _started(model: EncoderDecoder, n: int, device: torch.device) -> Tensor:
    """Return the start token of n targets to decode, (n, 1)."""
    assert model.config.start_id is not None, "an encoder-decoder needs start_id to generate text"
    return torch.full((n, 1), model.config.start_id, device=device)


def _next_hidden(model: EncoderDecoder, ids_NT: Tensor, source: Source, cache: Cache) -> Tensor:
    """Return the hidden states (N, D) after the last ids."""
    return model.write(ids_NT[:, -1:], source, cache=cache)[:, -1]


def _likeliest(
    model: EncoderDecoder, hidden_ND: Tensor, rules: Rules, ids_NT: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Return the likeliest tokens after each of N sequences of a beam search, and log-probabilities, (N, M).

    On a CPU as many rows at once as leave their logits in the cache: each operation on all of them reads them from memory.
    """
    V = len(rules.allowed_V)
    rows = max(64, _NUMBERS_AT_ONCE // V // 64 * 64) if hidden_ND.device.type == "cpu" else len(hidden_ND)
    found = []
    for first in range(0, len(hidden_ND), rows):
        logprobs_RV = model.decoder.logits_at(hidden_ND[first : first + rows]).float().log_softmax(dim=-1)
        found.append(largest(rules.applied(logprobs_RV, ids_NT[first : first + rows]), min(count, V)))
    logprobs_NM, tokens_NM = (torch.cat([part[side] for part in found]) for side in (0, 1))
    if logprobs_NM.isnan().any():  # of one logit that is not finite all of a row are
        raise _diverged()
    return logprobs_NM, tokens_NM


def largest(scores_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest scores of each row, for a beam search, and their places, (N, count), the largest first.

    On a CPU the largest of each block come first: none of a block beyond the best `count` can be among the best.
    256 rows of 8,000, 10 of each, ms: 1.1 → 0.6.
    """
    N, V = scores_NV.shape
    blocks = V // _BLOCK
    if scores_NV.device.type != "cpu" or blocks <= 4 * count:
        return scores_NV.topk(count, dim=1)
    even_NBI, rest = scores_NV[:, : blocks * _BLOCK].view(N, blocks, _BLOCK), scores_NV[:, blocks * _BLOCK :]
    block_NM = even_NBI.amax(dim=2).topk(count, dim=1).indices
    places_NP = torch.cat(
        [
            (block_NM[:, :, None] * _BLOCK + torch.arange(_BLOCK)).flatten(1),
            torch.arange(blocks * _BLOCK, V).expand(N, -1),
        ],
        dim=1,
    )
    candidates_NP = torch.cat((even_NBI.gather(1, block_NM[:, :, None].expand(-1, -1, _BLOCK)).flatten(1), rest), dim=1)
    best, at_NM = candidates_NP.topk(count, dim=1)
    return best, places_NP.gather(1, at_NM)


def _next_logits(model: EncoderDecoder, ids_NT: Tensor, source: Source, cache: Cache) -> Tensor:
    """Return the logits (N, V) after the last ids of targets that are decoded, in float32."""
    logits_NV = model.decoder.logits_at(_next_hidden(model, ids_NT, source, cache)).float()
    if not torch.isfinite(logits_NV).all():
        raise _diverged()
    return logits_NV


def _diverged() -> DivergedError:
    """Return the error of a model whose logits are not finite."""
    return DivergedError(
        "the model computed logits that are not finite", hint="the model's weights may have diverged in training"
    )
