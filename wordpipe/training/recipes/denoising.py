"""Denoising: an encoder-decoder restores texts that were damaged: T5's spans, or BART's masks and mixed-up sentences.

What damages them is in `span_corruption` and `text_infilling`. A T5's stream has no ends of texts: so its inputs are all of
one length, as no span is cut in two by an end. A BART's has them, and knows where its sentences begin.

Source: Raffel et al. 2020, section 3.1.4; Lewis et al. 2020, section 2.2.
"""

from functools import partial
from typing import Any

import numpy as np
import torch

from wordpipe.errors import ConfigError
from wordpipe.model import ModelConfig
from wordpipe.tokens import N_SENTINELS, sentinel_ids
from wordpipe.training.objectives_and_masking import LanguageObjective
from wordpipe.training.recipes.data import Counts, Texts
from wordpipe.training.recipes.seq2seq import two_stack_parts
from wordpipe.training.recipes.span_corruption import SpanCorruption
from wordpipe.training.recipes.table import Opened, Recipe
from wordpipe.training.recipes.text_infilling import TextInfilling
from wordpipe.training.seq2seq_pairs import PairTargets
from wordpipe.training.settings import DenoisingSettings
from wordpipe.training.token_stream import Blocks, Rows, refuse_short, row_starts

Corruption = SpanCorruption | TextInfilling


class Denoising(LanguageObjective):
    """The denoising objective: a text is learned from a damaged copy.

    Args:
        corruption: what damages the sequences of a stream.
        start_id: what the decoder begins with.
        device: where the model is.
    """

    compiled = False

    def __init__(self, corruption: Corruption, *, start_id: int, device: torch.device) -> None:
        self.corruption, self.start_id, self.device = corruption, start_id, device

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> PairTargets:
        """Damage the sequences for denoising; what is drawn depends on the generator alone."""
        del progress
        random, ids_BT = np.random.Generator(np.random.Philox(generator.initial_seed())), rows.ids_BT.cpu().numpy()
        if isinstance(self.corruption, SpanCorruption):
            sources, labels = self.corruption.corrupt(ids_BT, random)
        else:
            starts = None if rows.word_starts_BT is None else rows.word_starts_BT.cpu().numpy()
            sources, labels = self.corruption.corrupt(ids_BT, random, sentence_starts_BT=starts)
        return PairTargets(sources, labels, self.device, self.start_id)


def corruption_of(opened: Opened, settings: DenoisingSettings) -> tuple[Corruption, int]:
    """Return the corruption that denoising undoes (T5's or BART's), and the tokens of an undamaged text.

    Raises:
        ArtifactError: the tokenizer lacks a special token.
        ConfigError: there are more spans than sentinels.
    """
    special = opened.special
    if opened.style == "bart":
        infilling = TextInfilling(
            rate=settings.noise or 0.3, mean_span=settings.mean_span or 3.5, mask_id=special.need("mask"),
            bos_id=special.need("bos"), eos_id=special.need("eos"), special_ids=special.present(),
            n_tokens=opened.n_tokens, max_len=opened.seq_len,
        )  # fmt: skip
        return infilling, opened.seq_len * 3 // 4 - 2  # a span of no token makes a source longer than its text
    assert opened.tokenizer is not None
    spans = SpanCorruption(
        noise_density=settings.noise or 0.15, mean_span=settings.mean_span or 3.0,
        sentinels=sentinel_ids(opened.tokenizer), eos_id=special.need("eos"), special_ids=special.present(),
    )  # fmt: skip
    raw_len = spans.lengths_for(opened.seq_len)[0]
    if (needed := spans.sentinels_for(raw_len)) > N_SENTINELS:
        raise ConfigError(
            f"sequences of {opened.seq_len:,} positions need more sentinel tokens than a tokenizer can have",
            where="seq_len",
            got=needed, expected=f"at most {N_SENTINELS}", hint="use a smaller --seq-len, or a larger --mean-span",
        )  # fmt: skip
    return spans, raw_len


def _data(opened: Opened, settings: DenoisingSettings) -> Texts:
    """Lay out the texts of `train denoising`; BART also needs to know where sentences begin."""
    corruption, raw_len = corruption_of(opened, settings)
    labels = partial(_label_counts, opened, corruption, raw_len)
    if opened.style == "bart":
        after, find = (opened.special.need("eos"),), lambda: row_starts
        return Texts(opened.n_tokens, raw_len, _cut, after=after, find_starts=find, labels=labels)
    return Texts(opened.n_tokens, raw_len, _cut, labels=labels)


def _cut(ids: Any, seq_len: int, starts: Any = None) -> Blocks:
    """Cut a stream of ids into texts to damage."""
    refuse_short(len(ids), 1)
    width = min(seq_len, len(ids))
    return Blocks(ids, width=width, stride=width, word_starts=starts)


def _label_counts(opened: Opened, corruption: Corruption, raw_len: int, counts_V: Counts) -> Counts:
    """Count how often each id is a label: of BART all ids of the text, of T5 a share of these ids, and the sentinels."""
    eos = opened.special.need("eos")
    if isinstance(corruption, TextInfilling):
        counts_V = counts_V.copy()
        counts_V[eos] += counts_V.sum() // raw_len
        return counts_V
    n_noise, n_spans = corruption.noise_of(raw_len)
    shares_V: Counts = counts_V * (n_noise / max(1, counts_V.sum()))
    shares_V[[*sentinel_ids(opened.tokenizer)[:n_spans], eos]] += 1.0  # type: ignore[arg-type]
    return shares_V


def _objective(settings: DenoisingSettings, opened: Opened, device: torch.device) -> Denoising:
    """Return the objective of `train denoising`."""
    assert opened.start_id is not None
    return Denoising(corruption_of(opened, settings)[0], start_id=opened.start_id, device=device)


def _accepts(config: ModelConfig) -> str:
    """Return "" for an encoder-decoder that can be trained by denoising, else the kind of model that can."""
    if config.architecture != "encoder-decoder":
        return "encoder-decoder"
    return "" if config.positions in ("t5", "learned") else "an encoder-decoder with T5 or BART positions"


RECIPE = Recipe(
    name="denoising",
    settings=DenoisingSettings,
    architecture="encoder-decoder",
    does="Train an encoder-decoder to restore damaged texts. This training needs no pairs of texts.",
    more="The model can fill gaps in texts, and `train_seq2seq` can start from this model. To continue a stopped "
    "run, repeat the call: the result is the same as without a stop.",
    data=_data,
    objective=_objective,
    accepts=_accepts,
    parts=two_stack_parts,
    has_sentinels=True,
)
