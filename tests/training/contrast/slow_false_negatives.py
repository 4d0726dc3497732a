"""The slow twin of the mask of false negatives."""

import numpy as np

from wordpipe.training.contrast.batch import PairBatch, Ragged

__all__ = ["slow_false_negatives"]


def texts_of(side: Ragged) -> list[tuple[int, ...]]:
    return [tuple(ids.tolist()) for ids in np.split(side.ids, np.cumsum(side.lengths)[:-1])]


def slow_false_negatives(batch: PairBatch, before: PairBatch | None = None) -> list[list[bool]]:
    """Pair by pair, with the second texts of the step before behind those of the batch."""
    pairs = [
        *zip(batch.document, map(set, zip(texts_of(batch.first), texts_of(batch.second), strict=True)), strict=True)
    ]
    others = list(pairs)
    if before is not None:
        others += [(document, {text}) for document, text in zip(before.document, texts_of(before.second), strict=True)]
    return [[bool(mine == theirs or texts & more) for theirs, more in others] for mine, texts in pairs]
