"""Generation by a decoder, token by token, and the tokens that an encoder predicts at masked positions.

    read the prompt → logits of the last position → choose → read the one new token → …

What was read is kept in a cache. When the model's positions are full, the window slides: the last half of the sequence is
read again, from position 0, and the text goes on. That is what training showed the model: sequences that begin anywhere. A
decoder with a memory (`ModelConfig.is_endless`) goes on without it.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wordpipe.errors import ConfigError, DivergedError
from wordpipe.model.attention import Cache
from wordpipe.model.config import seed_of
from wordpipe.model.settings import GenerateSettings
from wordpipe.model.transformer import LanguageModel

_SORTED_FIRST = 1024  # tokens sorted at first for top-p
_MIN_TEMPERATURE = 1e-30  # below, 0 / temperature is no number in float32


def choose(logits_NV: Tensor, ids_NT: Tensor, settings: GenerateSettings, uniforms_N: Tensor) -> Tensor:
    """Choose the next token that is generated for every sequence.

    Args:
        logits_NV: float32; minus infinity at tokens that must not come.
        ids_NT: the sequences so far, int64, prompt included.
        settings: of the choice. Temperature 0 takes the most probable token that repetition control leaves (of equals
            the one with the lowest id) and needs no chance.
        uniforms_N: float64 in [0, 1), one random number per sequence.

    Returns:
        next_N: int64, on the logits' device.
    """
    if settings.repetition_penalty != 1.0:
        logits_NV = penalise_repeats(logits_NV, ids_NT, settings.repetition_penalty)
    if settings.no_repeat_ngram:
        logits_NV = forbid_repeated_ngrams(logits_NV, ids_NT, settings.no_repeat_ngram)
    temperature = settings.chosen_temperature
    if temperature == 0.0:
        return logits_NV.argmax(dim=-1)
    # the largest becomes 0 first: a small temperature would make infinities, whose differences are not numbers
    logits_NV = (logits_NV - logits_NV.amax(dim=-1, keepdim=True)) / max(temperature, _MIN_TEMPERATURE)
    if settings.top_k:
        logits_NV = keep_top_k(logits_NV, settings.top_k)
    if settings.top_p < 1.0:
        logits_NV = keep_top_p(logits_NV, settings.top_p)
    return sample_tokens(logits_NV, uniforms_N)


def penalise_repeats(logits_NV: Tensor, ids_NT: Tensor, penalty: float) -> Tensor:
    """Make tokens that were generated already less likely: x / penalty where x > 0, else x · penalty.

    Source: Keskar et al. 2019 (CTRL), section 4.1, which divides all; for negative logits that would be a reward.
    """
    seen_NT = logits_NV.gather(1, ids_NT)
    return logits_NV.scatter(1, ids_NT, torch.where(seen_NT < 0, seen_NT * penalty, seen_NT / penalty))


def forbid_repeated_ngrams(logits_NV: Tensor, ids_NT: Tensor, size: int) -> Tensor:
    """Take out every token that would generate a run of `size` tokens which is in the sequence already.

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
    """Keep the k most probable tokens, and all that equal the last one."""
    kth_N1 = logits_NV.topk(min(k, logits_NV.shape[-1])).values[:, -1:]
    return logits_NV.masked_fill(logits_NV < kth_N1, -torch.inf)


def keep_top_p(logits_NV: Tensor, p: float) -> Tensor:
    """Keep the most probable next tokens until their probabilities reach p (top-p), before one is generated.

    The one that takes them there is the last.

    Tokens that equal the last one are kept, too. Mostly some hundred tokens reach p, so only these are sorted at first: 2 ms
    and not 30 for a vocabulary of 128,000 on one core.

    Source: Holtzman et al. 2020, equation 2 (nucleus sampling).
    """
    whole_N1 = logits_NV.logsumexp(dim=-1, keepdim=True)
    best_NC = logits_NV.topk(min(_SORTED_FIRST, logits_NV.shape[-1])).values
    if ((best_NC - whole_N1).exp().sum(dim=-1) < p).any():
        best_NC = logits_NV.sort(dim=-1, descending=True).values
    reached_NC = (best_NC - whole_N1).exp().cumsum(dim=-1)
    n_kept_N1 = 1 + (reached_NC[:, :-1] < p).sum(dim=-1, keepdim=True)
    return logits_NV.masked_fill(logits_NV < best_NC.gather(1, n_kept_N1 - 1), -torch.inf)


def sample_tokens(logits_NV: Tensor, uniforms_N: Tensor) -> Tensor:
    """Draw the next generated token of each row, with the probabilities softmax(logits).

    On the CPU and in float64, so that the same random numbers choose the same tokens on every device as far as its
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


@dataclass(frozen=True, slots=True)
class NewToken:
    """One new token of a continuation.

    Attributes:
        sample: which of the sequences it continues.
        token_id: what was sampled.
        logprob: natural logarithm of the probability that the model itself gives it, before anything was done to its logits.
    """

    sample: int
    token_id: int
    logprob: float


class Generation:
    """Several continuations of one prompt.

    Every sample has random numbers of its own, which depend on the seed and its number alone: the third of five samples is
    the third of ten.

    Args:
        model: a decoder in evaluation mode.
        prompt_ids: at least one id. Of a prompt longer than the model only the last `max_len` ids are read, unless the model
            has a memory.
        settings: length, choice, samples, seed.
        allowed_V: bool, on the model's device: the ids that may come, the stop id among them.
        stop_id: ends a sample once it is sampled; None: nothing does.
        slides: where the positions are full, go on from the last half of them; else nothing comes any more.

    Attributes:
        n_cut: ids at the beginning of the prompt that are not read.
        n_slides: how often the window slid so far.
        outgrown: whether the positions were full, so that nothing came any more.
        finished: which samples are at their end.

    Raises:
        ConfigError: the model is an encoder, there is no prompt, or the settings are those of an encoder-decoder.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt_ids: Sequence[int],
        settings: GenerateSettings,
        *,
        allowed_V: Tensor,
        stop_id: int | None,
        slides: bool = True,
    ) -> None:
        if not model.config.causal or not prompt_ids:
            raise ConfigError(
                "generation needs a decoder model and at least one prompt token",
                got=f"{model.config.architecture}, {len(prompt_ids)} prompt tokens",
            )
        self._model, self._settings = model, settings.of_decoder()
        self._max_tokens = settings.chosen_max_tokens
        self._forbidden_V, self._stop_id = ~allowed_V, stop_id
        self._max_len = sys.maxsize if model.config.is_endless else model.config.max_len
        self._ids_NT = torch.tensor([prompt_ids] * settings.samples, device=allowed_V.device)
        self._cache: Cache | None = None
        self._generators = [
            torch.Generator().manual_seed(seed_of(settings.seed, "generate", sample))
            for sample in range(settings.samples)
        ]
        self._n_prompt = len(prompt_ids)
        self.n_cut = max(0, len(prompt_ids) - self._max_len)
        self.n_slides, self.outgrown, self._slides = 0, False, slides
        self.finished = [False] * settings.samples

    def steps(self) -> Iterator[list[NewToken]]:
        """Yield the newly generated tokens of the unfinished samples, step by step, until all are finished.

        Raises:
            DivergedError: the model's logits are not finite.
        """
        for _ in range(self._max_tokens):
            if not self._slides and self._is_full:
                self.outgrown = True
                return
            yield self._step()
            if all(self.finished):
                return

    def finish(self, sample: int) -> None:
        """End a sample: its reader has enough."""
        self.finished[sample] = True

    @torch.inference_mode()
    def _step(self) -> list[NewToken]:
        """Choose the next generated token of every unfinished sample."""
        logits_NV = _logits(self._model, self._read())
        uniforms_N = torch.cat(
            [torch.rand(1, dtype=torch.float64, generator=generator) for generator in self._generators]
        )
        possible_NV = logits_NV.masked_fill(self._forbidden_V, -torch.inf)
        if self._stop_id is not None and self._ids_NT.shape[1] - self._n_prompt < self._settings.min_tokens:
            possible_NV[:, self._stop_id] = -torch.inf
        next_N1 = choose(possible_NV, self._ids_NT, self._settings, uniforms_N)[:, None]
        logprobs_N = logits_NV.log_softmax(dim=-1).gather(1, next_N1)[:, 0].tolist()
        self._ids_NT = torch.cat((self._ids_NT, next_N1), dim=1)
        new = []
        for sample, token_id in enumerate(next_N1[:, 0].tolist()):
            if not self.finished[sample]:
                new.append(NewToken(sample, token_id, logprobs_N[sample]))
                self.finished[sample] = token_id == self._stop_id
        return new

    def _read(self) -> Tensor:
        """Return the hidden states (N, D) of the last position for generation, reading what the cache does not hold."""
        if self._cache is None:
            return self._read_anew(min(self._ids_NT.shape[1], self._max_len))
        if self._is_full:
            self.n_slides += 1
            return self._read_anew(max(1, self._max_len // 2))
        return self._model.encode(self._ids_NT[:, -1:], cache=self._cache)[:, -1]

    @property
    def _is_full(self) -> bool:
        """True if the cache has no room for a further position."""
        return self._cache is not None and self._cache.length == self._cache.max_len

    def _read_anew(self, n_last: int) -> Tensor:
        """Fill a new cache with the last ids, as if the sequence began there."""
        room = min(self._max_len, n_last + self._max_tokens)
        self._cache = Cache(self._model.config, len(self._ids_NT), room, self._ids_NT.device)
        return self._model.encode(self._ids_NT[:, -n_last:], cache=self._cache)[:, -1]


def _logits(model: LanguageModel, hidden_ND: Tensor) -> Tensor:
    """Return the logits (N, V) of hidden states (N, D) for generation, float32, which must be finite."""
    logits_NV = model.logits_at(hidden_ND).float()
    if not torch.isfinite(logits_NV).all():
        raise DivergedError(
            "the model computed logits that are not finite", hint="the model's weights may have diverged in training"
        )
    return logits_NV


@torch.inference_mode()
def most_probable(
    model: LanguageModel, ids: Sequence[int], positions: Sequence[int], allowed_V: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Generate the most probable tokens at masked positions, each predicted while the others are masked as well.

    Args:
        model: an encoder in evaluation mode.
        ids: a whole sequence, special ids included.
        positions: K positions in it.
        allowed_V: bool, on the model's device: the probabilities are shared among these ids alone.
        k: how many.

    Returns:
        ids_KC, probabilities_KC: on the CPU, int64 and float32, the most probable first; C is k, or fewer where there are
        fewer tokens.

    Raises:
        DivergedError: the model's logits are not finite.
    """
    ids_1T, at_1K = (torch.tensor([numbers], device=allowed_V.device) for numbers in (ids, positions))
    hidden_KD = model.encode_to_guess(ids_1T, at_1K)[0]
    logits_KV = _logits(model, hidden_KD)
    shares_KV = logits_KV.masked_fill(~allowed_V, -torch.inf).softmax(dim=-1)
    best = shares_KV.topk(min(k, int(allowed_V.sum())))
    return best.indices.cpu(), best.values.cpu()


def span_of_masks(positions: Sequence[int], n_ids: int, room: int) -> tuple[int, int] | None:
    """Return the part of a sequence to read, to generate tokens at masks, where not all ids fit: all masks.

    Args:
        positions: of the masks, ascending.
        n_ids: ids of the whole sequence.
        room: ids that fit.

    Returns:
        First id and the one after the last; None where the masks are too far apart.

    >>> span_of_masks([50], n_ids=100, room=11)
    (45, 56)
    >>> span_of_masks([2], n_ids=100, room=11)
    (0, 11)
    >>> span_of_masks([3, 30], n_ids=100, room=11) is None
    True
    """
    width = positions[-1] - positions[0] + 1
    if width > room:
        return None
    start = max(0, min(positions[0] - (room - width) // 2, n_ids - room))
    return start, min(n_ids, start + room)
