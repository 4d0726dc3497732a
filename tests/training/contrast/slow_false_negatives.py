"""The slow twin of the mask of false negatives."""

import numpy as np

from wordpipe.training.contrastive import PairBatch, Ragged

__all__ = ["slow_false_negatives"]


def texts_of(side: Ragged) -> list[tuple[int, ...]]:
    return [tuple(ids.tolist()) for ids in np.split(side.ids, np.cumsum(side.lengths)[:-1])]


def slow_false_negatives(batch: PairBatch) -> list[list[bool]]:
    """Pair by pair."""
    pairs = [
        *zip(batch.document, map(set, zip(texts_of(batch.first), texts_of(batch.second), strict=True)), strict=True)
    ]
    return [[bool(mine == theirs or texts & more) for theirs, more in pairs] for mine, texts in pairs]
