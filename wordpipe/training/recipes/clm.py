"""Causal language modelling: each token is guessed from those before it; of pairs, the second text from the first.

Documents are <s> … </s>; … </s> where one token is both, as in GPT-2, which then is a target like any other. What `generate`
is given as a prompt is, of a model of pairs, a first text, whole.
"""

from typing import Any

import torch

from wordpipe.training.objectives_and_masking import LanguageObjective, Targets
from wordpipe.training.recipes.data import PairTexts, Texts
from wordpipe.training.recipes.table import Opened, Recipe
from wordpipe.training.seq2seq_pairs import SecondTexts
from wordpipe.training.settings import CausalSettings
from wordpipe.training.token_stream import Rows, causal_blocks


class Causal(LanguageObjective):
    """Causal language modelling: each position predicts the next id.

    Args:
        bos_id: never a target: that a document begins after another's end is no knowledge of language. None: where the same
            token ends a document, which a model should know.
    """

    def __init__(self, *, bos_id: int | None) -> None:
        self.bos_id = bos_id

    def targets(self, rows: Rows, generator: torch.Generator, progress: float) -> Targets:
        """Shift ids by one: rows of T + 1 ids give T inputs and T labels. Nothing is drawn."""
        labels_BT = rows.ids_BT[:, 1:]
        counts_BT = torch.ones_like(labels_BT) if self.bos_id is None else labels_BT != self.bos_id
        return Targets(rows.ids_BT[:, :-1], None, labels_BT, counts_BT.float())


def _before(opened: Opened) -> tuple[int, ...]:
    """Return the ids before each document of a causal stream: <s>, or nothing where </s> is the same token."""
    ids = opened.special.completed("decoder")
    return () if ids.need("bos") == ids.need("eos") else (ids.need("bos"),)


def _cut(ids: Any, seq_len: int, starts: Any = None) -> Any:
    """Cut a stream of ids into sequences for a decoder."""
    del starts
    return causal_blocks(ids, seq_len=seq_len)


def _data(opened: Opened, settings: CausalSettings) -> Texts | PairTexts:
    """Lay out the texts of `train clm`; of pairs, <s> source </s> is read, target </s> is learned."""
    del settings
    ids = opened.special.completed("decoder")
    begin, end = (ids.need("bos"),), (ids.need("eos"),)
    if opened.is_paired:
        return PairTexts(opened.n_tokens, opened.seq_len, before=begin, after=end, end=end, together=True)
    return Texts(opened.n_tokens, opened.seq_len, _cut, before=_before(opened), after=end)


def _objective(settings: CausalSettings, opened: Opened, device: torch.device) -> LanguageObjective:
    """Return the objective of `train clm`: the next tokens of texts, or the second texts of pairs."""
    del settings
    if opened.is_paired:
        return SecondTexts(device=device)
    before = _before(opened)
    return Causal(bos_id=before[0] if before else None)


RECIPE = Recipe(
    name="clm",
    settings=CausalSettings,
    architecture="decoder",
    does="Train a causal transformer by next-token prediction. From pairs of texts, it learns to write the second "
    "text after the first text.",
    data=_data,
    objective=_objective,
    accepts=lambda config: "" if config.architecture == "decoder" else "decoder",
    pairs="some",
)
