"""A transformer that begins as the weighted mean of word vectors, and learns context on top of it.

Every block begins by adding nothing to the residual stream (its two output matrices are zero), and the embeddings are the
given vectors, so that the first mean of the hidden states is the mean of the vectors. What the norms take away, the length of
every vector, goes into the token's weight in the mean. From then on training can only be an improvement: the encoder need not
find again what the vectors know.

Source of blocks that begin as nothing: Zhang et al. 2019, "Fixup Initialization"; Bachlechner et al. 2021, "ReZero".
"""

import numpy as np
import numpy.typing as npt
import torch

from wordpipe.errors import ArtifactError, InputError
from wordpipe.model.config import EMBEDDING_STD
from wordpipe.model.initialise import orthonormal
from wordpipe.model.language_model import LanguageModel

__all__ = ["start_as_mean"]

_SILENT = ("attention.out.weight", "attention.out.bias", "feedforward.down.weight", "feedforward.down.bias")


@torch.no_grad()
def start_as_mean(
    model: LanguageModel, vectors_VD: npt.NDArray[np.float32], found_V: npt.NDArray[np.bool_], *, seed: int
) -> npt.NDArray[np.float32]:
    """Fill the embedding table with directions of vectors, and silence the blocks.

    Args:
        model: changed in place.
        vectors_VD: one row per token id, float32, of any width; rows that were not found are not looked at.
        found_V: which token ids have a vector.
        seed: of the orthonormal map to the model's width, where it is another.

    Returns:
        lengths_V: of the vectors, float32, their mean being 1; 1 for tokens that have none, whose embeddings stay as they are.

    Raises:
        ArtifactError: more rows than the model's vocabulary, or numbers that are not finite.
        InputError: no token has a vector of any length.
    """
    table_VD = model.embedding
    if len(found_V) > len(table_VD) or len(vectors_VD) != len(found_V):
        raise ArtifactError(
            "the vectors do not fit the vocabulary", got=f"{len(vectors_VD)} vectors",
            expected=f"one each for at most {len(table_VD)} tokens",
        )  # fmt: skip
    given_VD = np.asarray(vectors_VD, dtype=np.float64)
    if not np.isfinite(given_VD[found_V]).all():
        raise ArtifactError("the vectors are not finite", hint="train them again")
    lengths_V = np.linalg.norm(given_VD, axis=1)
    rows = np.flatnonzero(found_V & (lengths_V > 0))
    if not len(rows):
        raise InputError("no token has a vector", hint="train them on the same tokens, with --unit token")
    unit_ND = given_VD[rows] / lengths_V[rows, None]
    mapped_ND = unit_ND @ orthonormal(given_VD.shape[1], table_VD.shape[1], seed)
    scale = EMBEDDING_STD * np.sqrt(table_VD.shape[1])
    table_VD[torch.from_numpy(rows)] = torch.from_numpy(mapped_ND * scale).to(table_VD)
    for name, weight in model.named_parameters():
        if name.endswith(_SILENT):
            weight.zero_()
    found_lengths = np.ones(len(found_V))
    found_lengths[rows] = lengths_V[rows] / lengths_V[rows].mean()
    return found_lengths.astype(np.float32)
