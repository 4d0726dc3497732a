"""Sequence to sequence: an encoder-decoder writes the second text of a pair, having read the first.

Source: Sutskever et al. 2014, equation 1; Vaswani et al. 2017.
"""

from typing import Any

import torch

from wordpipe.errors import ConfigError
from wordpipe.model import PRESETS, pad_vocab
from wordpipe.training.recipes.data import PairTexts
from wordpipe.training.recipes.table import Opened, Recipe
from wordpipe.training.seq2seq_pairs import Pairs
from wordpipe.training.settings import Seq2SeqSettings, TwoStackSettings


def two_stack_parts(settings: TwoStackSettings, opened: Opened) -> dict[str, Any]:
    """Return the fields of a fresh model's config that only an encoder-decoder has.

    Raises:
        ConfigError: a style with one table of embeddings for two tokenizers.
    """
    n_layers = settings.n_decoder_layers or settings.n_layers or PRESETS[settings.preset].n_layers
    # BART's decoder begins with the end of a text, the others' with padding
    start = opened.special.need("eos" if settings.style == "bart" else "pad")
    parts: dict[str, Any] = {"n_decoder_layers": n_layers, "start_id": start}
    if opened.n_target_tokens:
        if settings.style != "vaswani":
            raise ConfigError(
                "T5 and BART need one vocabulary for source and target texts, but this tokens artifact has two "
                "vocabularies",
                where="style", got=settings.style, expected="vaswani",
                hint="use --style vaswani, or tokenize the corpus with --vocabulary joint",
            )  # fmt: skip
        parts["decoder_vocab_size"] = pad_vocab(opened.n_target_tokens)
    return parts


def _data(opened: Opened, settings: Seq2SeqSettings) -> PairTexts:
    """Lay out the pairs of `train seq2seq`: the source in its frame, its prefix, and the end of the target."""
    before, after = opened.frame
    ids = opened.special
    return PairTexts(
        opened.n_tokens, opened.seq_len, before=(ids.need(before),) if before else (),
        after=(ids.need(after),) if after else (), end=(ids.need("eos"),), n_target_tokens=opened.n_target_tokens,
        prefix=settings.prefix, prefix_field=settings.prefix_field,
    )  # fmt: skip


def _objective(settings: Seq2SeqSettings, opened: Opened, device: torch.device) -> Pairs:
    """Return the objective of `train seq2seq`: write the second text of a pair."""
    del settings
    assert opened.start_id is not None
    return Pairs(start_id=opened.start_id, device=device)


RECIPE = Recipe(
    name="seq2seq",
    settings=Seq2SeqSettings,
    architecture="encoder-decoder",
    does="Train an encoder-decoder on pairs of texts, for example for translations, titles or answers.",
    example="""
        >>> pairs = [{"text": f"{i} und {i}", "text_b": f"{i} and {i}"} for i in range(40)]
        >>> _ = wordpipe.ingest(pairs, output="new/pairs", text_b="text_b")
        >>> _ = wordpipe.tokenize("new/pairs", output="new/pair-tokens", vocab_size=300)
        >>> made = wordpipe.train_seq2seq("new/pair-tokens", output="new/seq2seq", preset="tiny", steps=2, batch_size=8)
        >>> made.kind, made.counts["steps"]
        ('model', 2)
    """,
    data=_data,
    objective=_objective,
    accepts=lambda config: "" if config.architecture.startswith("encoder") else "encoder-decoder or encoder",
    parts=two_stack_parts,
    pairs="always",
)
