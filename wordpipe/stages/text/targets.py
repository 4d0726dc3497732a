"""Target texts of many source texts by an encoder-decoder: cut to the model, in batches of like lengths, in their order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from wordpipe.errors import ArtifactError
from wordpipe.model import Hypothesis, Rules, beam_search, sample_targets
from wordpipe.model.settings import GenerateSettings
from wordpipe.runtime import torch_threads
from wordpipe.stages.job import storage_errors
from wordpipe.stages.models import OpenModel

_SOURCES_AT_ONCE = 32


@dataclass(frozen=True)
class Target:
    """One target text.

    Attributes:
        text: what was written.
        score: what it was ranked by.
        logprob: log-probability (natural) of its tokens, the end included.
        tokens: their number, without the end.
        finished: whether it ends where the model ended it.
    """

    text: str
    score: float
    logprob: float
    tokens: int
    finished: bool


@dataclass(frozen=True)
class Written:
    """The target texts of one source text.

    Attributes:
        source: without the prefix.
        targets: the best first.
        cut: tokens at the end of the source that were not read, because the model is shorter.
    """

    source: str
    targets: list[Target]
    cut: int


class TargetWriter:
    """An encoder-decoder that writes target texts.

    Args:
        opened: an encoder-decoder.
        settings: how.

    Raises:
        ArtifactError: the model is another, or has no token that ends a text.
        ConfigError: no such device.
    """

    def __init__(self, opened: OpenModel, settings: GenerateSettings) -> None:
        self._model = opened.pair_model
        opened.move_to(settings.device)
        if "eos" not in opened.special:
            raise ArtifactError("the tokenizer has no token that ends a text", where=opened.path)
        self._opened, self._settings = opened, settings
        self._rules = Rules(
            allowed_V=opened.tokens_that_come("eos"), stop_id=opened.special["eos"],
            max_tokens=min(settings.max_tokens, opened.max_len), min_tokens=settings.min_tokens,
            no_repeat_ngram=settings.no_repeat_ngram,
        )  # fmt: skip

    def write(self, sources: Sequence[str]) -> list[Written]:
        """The target texts of each source.

        Raises:
            DivergedError: the model's logits are not finite.
        """
        opened, room = self._opened, self._opened.max_len - len(self._opened.before) - len(self._opened.after)
        ids = [opened.encode(self._settings.prefix + source) for source in sources]
        framed = [[*opened.before, *some[:room], *opened.after] for some in ids]
        order = sorted(range(len(sources)), key=lambda number: len(framed[number]))
        found: list[list[Hypothesis]] = [[] for _ in sources]
        with storage_errors(), torch_threads(self._settings.threads):
            for first in range(0, len(order), _SOURCES_AT_ONCE):
                batch = order[first : first + _SOURCES_AT_ONCE]
                for number, some in zip(batch, self._search([framed[number] for number in batch], batch), strict=True):
                    found[number] = some
        return [
            Written(source, [self._target(one) for one in some], max(0, len(whole) - room))
            for source, some, whole in zip(sources, found, ids, strict=True)
        ]

    @torch.inference_mode()
    def _search(self, framed: list[list[int]], numbers: list[int]) -> list[list[Hypothesis]]:
        lengths = np.array([len(some) for some in framed])
        real_BS = np.arange(lengths.max()) < lengths[:, None]
        ids_BS = np.zeros(real_BS.shape, np.int64)
        ids_BS[real_BS] = np.concatenate(framed)
        device, settings = self._model.embedding.device, self._settings
        source = self._model.read(torch.from_numpy(ids_BS).to(device), torch.from_numpy(real_BS).to(device))
        if settings.beams == 1:
            return sample_targets(self._model, source, self._rules, settings, numbers)
        return beam_search(
            self._model, source, self._rules, beams=settings.beams, alpha=settings.length_penalty,
            penalty=settings.length_penalty_by, n_best=settings.n_best,
        )  # fmt: skip

    def _target(self, found: Hypothesis) -> Target:
        text = self._opened.tokenizer.decode(list(found.ids))
        return Target(text.strip(), found.score, found.logprob, len(found.ids), found.finished)
