"""Continuing a sequence of token ids with a decoder, one token after another.

    read the prompt → logits of the last position → choose → read the one new token → …

What was read is kept in a cache. When the model's positions are full, the window slides: the last half of the sequence is
read again, from position 0, and the text goes on. That is what training showed the model: sequences that begin anywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wordpipe.errors import ConfigError, DivergedError
from wordpipe.model.cache import Cache
from wordpipe.model.language_model import LanguageModel
from wordpipe.model.sampling import choose
from wordpipe.model.seeds import seed_of
from wordpipe.model.settings import GenerateSettings

__all__ = ["Draw", "Generation"]


@dataclass(frozen=True, slots=True)
class Draw:
    """One new token.

    Attributes:
        sample: which of the sequences it continues.
        token_id: what was drawn.
        logprob: natural logarithm of the probability that the model itself gives it, before anything was done to its logits.
    """

    sample: int
    token_id: int
    logprob: float


class Generation:
    """Several continuations of one prompt.

    Every sample has numbers of chance of its own, which depend on the seed and its number alone: the third of five samples is
    the third of ten.

    Args:
        model: a decoder in evaluation mode.
        prompt_ids: at least one id. Of a prompt longer than the model only the last `max_len` ids are read.
        settings: length, choice, samples, seed.
        allowed_V: bool, on the model's device: the ids that may come, the stop id among them.
        stop_id: ends a sample once it is drawn; None: nothing does.

    Attributes:
        n_cut: ids at the beginning of the prompt that are not read.
        n_slides: how often the window slid so far.
        finished: which samples are at their end.

    Raises:
        ConfigError: the model is an encoder, or there is no prompt.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt_ids: Sequence[int],
        settings: GenerateSettings,
        *,
        allowed_V: Tensor,
        stop_id: int | None,
    ) -> None:
        if not model.config.causal or not prompt_ids:
            raise ConfigError(
                "generation needs a decoder and a token to start from",
                got=f"{model.config.architecture}, {len(prompt_ids)} tokens",
            )
        self._model, self._settings = model, settings
        self._forbidden_V, self._stop_id = ~allowed_V, stop_id
        self._max_len = model.config.max_len
        self._ids_NT = torch.tensor([prompt_ids] * settings.samples, device=allowed_V.device)
        self._cache: Cache | None = None
        self._chances = [
            torch.Generator().manual_seed(seed_of(settings.seed, "generate", sample))
            for sample in range(settings.samples)
        ]
        self.n_cut = max(0, len(prompt_ids) - self._max_len)
        self.n_slides = 0
        self.finished = [False] * settings.samples

    def steps(self) -> Iterator[list[Draw]]:
        """Draw until every sample is finished or has all its tokens; each step is the draws of the unfinished samples.

        Raises:
            DivergedError: the model's logits are not finite.
        """
        for _ in range(self._settings.max_tokens):
            yield self._step()
            if all(self.finished):
                return

    def finish(self, sample: int) -> None:
        """Draw no more for a sample: its reader has enough."""
        self.finished[sample] = True

    @torch.inference_mode()
    def _step(self) -> list[Draw]:
        logits_NV = self._model.logits_at(self._read()).float()
        if not torch.isfinite(logits_NV).all():
            raise DivergedError(
                "the model gave logits that are not finite", hint="its weights may have diverged in training"
            )
        uniforms_N = torch.cat([torch.rand(1, dtype=torch.float64, generator=chance) for chance in self._chances])
        possible_NV = logits_NV.masked_fill(self._forbidden_V, -torch.inf)
        next_N1 = choose(possible_NV, self._ids_NT, self._settings, uniforms_N)[:, None]
        logprobs_N = logits_NV.log_softmax(dim=-1).gather(1, next_N1)[:, 0].tolist()
        self._ids_NT = torch.cat((self._ids_NT, next_N1), dim=1)
        draws = []
        for sample, token_id in enumerate(next_N1[:, 0].tolist()):
            if not self.finished[sample]:
                draws.append(Draw(sample, token_id, logprobs_N[sample]))
                self.finished[sample] = token_id == self._stop_id
        return draws

    def _read(self) -> Tensor:
        """The hidden states (N, D) of the last position, after reading what the cache does not hold."""
        if self._cache is None:
            return self._read_anew(min(self._ids_NT.shape[1], self._max_len))
        if self._cache.length == self._cache.max_len:
            self.n_slides += 1
            return self._read_anew(max(1, self._max_len // 2))
        return self._model.encode(self._ids_NT[:, -1:], cache=self._cache)[:, -1]

    def _read_anew(self, n_last: int) -> Tensor:
        """Read the last ids as if the sequence began with them."""
        room = min(self._max_len, n_last + self._settings.max_tokens)
        self._cache = Cache(self._model.config, len(self._ids_NT), room, self._ids_NT.device)
        return self._model.encode(self._ids_NT[:, -n_last:], cache=self._cache)[:, -1]
