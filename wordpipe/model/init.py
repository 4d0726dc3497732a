"""Initial weights: small random numbers, each weight a function of the seed and its own name; or word vectors."""

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from wordpipe.errors import ArtifactError, InputError
from wordpipe.model.config import EMBEDDING_STD, ModelConfig, seed_of
from wordpipe.model.transformer import LanguageModel

if TYPE_CHECKING:
    from wordpipe.model.encoder_decoder import EncoderDecoder, Transformer

_WRITE_TO_STREAM = (
    "attention.out.weight", "attention.out.bias", "cross.out.weight", "cross.out.bias", "feedforward.down.weight",
    "feedforward.down.bias",
)  # fmt: skip
_CUTOFF = 3.0  # standard deviations; a rare far-out weight would only have to be unlearned


def make_transformer(config: ModelConfig) -> "Transformer":
    """Return the model that the config describes, its weights not filled yet."""
    if config.architecture != "encoder-decoder":
        return LanguageModel(config)
    from wordpipe.model.encoder_decoder import EncoderDecoder  # most models are one stack, and do not load the module

    return EncoderDecoder(config)


def new_model(config: ModelConfig, seed: int) -> LanguageModel:
    """Return an encoder or a decoder with fresh weights."""
    model = LanguageModel(config)
    initialise(model, seed)
    return model


def new_encoder_decoder(config: ModelConfig, seed: int) -> "EncoderDecoder":
    """Return an encoder-decoder with fresh weights."""
    from wordpipe.model.encoder_decoder import EncoderDecoder

    model = EncoderDecoder(config)
    initialise(model, seed)
    return model


@torch.no_grad()
def start_from_encoder(encoder: LanguageModel, config: ModelConfig, seed: int) -> "EncoderDecoder":
    """Return an encoder-decoder that reads as a given encoder, with a fresh decoder.

    The decoder writes by the encoder's table of embeddings. A first segment that the encoder adds to every token goes into the
    table of positions, or where there is none into that of the tokens (which adds one number to all logits of a step).

    Args:
        encoder: its head is left behind.
        config: `encoder.config.with_decoder(…)`.
        seed: of the decoder.

    Source: Rothe et al. 2020, "Leveraging Pre-trained Checkpoints for Sequence Generation Tasks" (BERT2RND).
    """
    model = new_encoder_decoder(config, seed)
    given = dict(encoder.named_parameters())
    for name, weight in model.encoder.named_parameters():
        weight.copy_(given[name])
    if encoder.segment_embedding is not None:
        table = model.encoder.position_embedding
        (model.encoder.embedding if table is None else table).add_(encoder.segment_embedding[0])
    return model


@torch.no_grad()
def initialise(model: "Transformer", seed: int) -> None:
    """Fill a model with fresh weights, drawn on the CPU, so that every device starts from the same ones.

    Matrices get a truncated normal of deviation sqrt(2 / 5D), so that the size of their products does not depend on the
    width; those that write to the residual stream a further 1 / sqrt(2L), as 2L of them are added up. Norms start at 1,
    biases at 0. (Starting the output bias at the log frequencies of the tokens saves the first steps and then learns more
    slowly: tiny, 600 steps of 16 sequences of 20 MB of Wikipedia, held-out masked loss 7.18 and 7.22 for two seeds, from 0
    7.00 and 6.84.)

    The matrix of a Linformer gives keys of the variance of one where all positions are there; a state-space layer has its own
    beginning (`variants.state_space`).

    Embeddings that are multiplied by sqrt(D) have deviation 1 / sqrt(D), so that they enter the first block with 1.

    Source: Nguyen & Salazar 2019, section 2.2 (deviation); Radford et al. 2019, section 2.3 (residual factor).
    """
    config = model.config
    for name, weight in model.named_parameters():
        generator = torch.Generator().manual_seed(seed_of(seed, "init", name))
        if ".attention.mixer." in name:
            from wordpipe.model.variants.state_space import initial_weight

            weight.copy_(initial_weight(name.rpartition(".")[2], weight.shape, generator))
            continue
        if weight.dim() < 2:
            nn.init.constant_(weight, 0.0 if name.endswith("bias") else 1.0)
            continue
        deviation = _deviation(name, config)
        fresh, far = torch.empty(weight.shape), _CUTOFF * deviation
        weight.copy_(nn.init.trunc_normal_(fresh, 0.0, deviation, -far, far, generator=generator))


def _deviation(name: str, config: ModelConfig) -> float:
    """Return the standard deviation of the initial values of a weight."""
    own = name.removeprefix("encoder.").removeprefix("decoder.")
    if own in ("embedding", "output") and config.scale_embedding:
        return 1.0 / math.sqrt(config.dim)
    if own in ("embedding", "output", "position_embedding", "segment_embedding", "position_bias", "query_embedding"):
        return EMBEDDING_STD
    if name.endswith("attention.score"):
        return 1.0 / math.sqrt(config.head_dim)
    if name.endswith("attention.shorten"):
        return 1.0 / math.sqrt(config.max_len)
    deviation = math.sqrt(2.0 / (5.0 * config.dim))
    return deviation / math.sqrt(2.0 * config.n_layers) if name.endswith(_WRITE_TO_STREAM) else deviation


@torch.no_grad()
def init_embeddings(
    model: LanguageModel, vectors_VD: npt.NDArray[np.float32], found_V: npt.NDArray[np.bool_], *, seed: int
) -> int:
    """Replace rows of a new model's embedding table by word vectors.

    The vectors are centred, brought to the model's width by a random orthonormal map (which keeps their angles as well
    as the width allows) and rescaled to the deviation that fresh rows have: raw word vectors are ten times as large and
    hurt. Rows without a vector keep their fresh weights.

    Args:
        model: changed in place.
        vectors_VD: one row per token id, float32, of any width; rows that were not found are not looked at.
        found_V: which token ids have a vector.
        seed: of the map, where the widths differ.

    Returns:
        Rows replaced.

    Raises:
        ArtifactError: more rows than the model's vocabulary, or numbers that are not finite.
        InputError: fewer than two rows were found, or all vectors are the same.
    """
    rows, found_ND = _found_rows(model, vectors_VD, found_V)
    found_ND -= found_ND.mean(axis=0) if len(rows) else 0.0
    mapped_ND = found_ND @ orthonormal(found_ND.shape[1], model.config.dim, seed)
    deviation = float(mapped_ND.std()) if len(rows) > 1 else 0.0
    if deviation == 0.0:
        raise InputError(
            "the word vectors cannot initialise the model, because too few tokens have a vector",
            got=f"{len(rows)} of {len(found_V)} tokens",
            hint="train the word vectors on the same tokens, with --unit token",
        )
    _replace_rows(model, rows, mapped_ND * (EMBEDDING_STD / deviation))
    return len(rows)


@torch.no_grad()
def start_as_mean(
    model: LanguageModel, vectors_VD: npt.NDArray[np.float32], found_V: npt.NDArray[np.bool_], *, seed: int
) -> npt.NDArray[np.float32]:
    """Let the transformer begin as the weighted mean of word vectors; training then adds context.

    Every block begins by adding nothing to the residual stream (its two output matrices are zero), and the embeddings are
    the directions of the vectors, as long as fresh rows, so that the first mean of the hidden states is the mean of the
    vectors. What the norms take away, the length of every vector, goes into the token's weight in the mean. From then on
    training can only be an improvement: the encoder need not find again what the vectors know.

    Source of blocks that begin as nothing: Zhang et al. 2019, "Fixup Initialization"; Bachlechner et al. 2021, "ReZero".

    Args:
        model: changed in place.
        vectors_VD: as for `init_embeddings`.
        found_V: likewise.
        seed: likewise.

    Returns:
        lengths_V: of the vectors, float32, their mean being 1; 1 for tokens that have none, whose embeddings stay as they are.

    Raises:
        ArtifactError: more rows than the model's vocabulary, or numbers that are not finite.
        InputError: no token has a vector of any length.
    """
    rows, found_ND = _found_rows(model, vectors_VD, found_V)
    length_N = np.linalg.norm(found_ND, axis=1)
    rows, found_ND, length_N = (of_all[length_N > 0] for of_all in (rows, found_ND, length_N))
    if not len(rows):
        raise InputError(
            "no token of the model has a word vector",
            hint="train the word vectors on the same tokens, with --unit token",
        )
    mapped_ND = (found_ND / length_N[:, None]) @ orthonormal(found_ND.shape[1], model.config.dim, seed)
    _replace_rows(model, rows, mapped_ND * (EMBEDDING_STD * np.sqrt(model.config.dim)))
    for name, weight in model.named_parameters():
        if name.endswith(_WRITE_TO_STREAM):
            weight.zero_()
    lengths_V = np.ones(len(found_V), np.float32)
    lengths_V[rows] = length_N / length_N.mean()
    return lengths_V


def _found_rows(
    model: LanguageModel, vectors_VD: npt.NDArray[np.float32], found_V: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the N ids whose initial embedding is a word vector, and the vectors, (N, D)."""
    n_rows = len(model.embedding)
    if len(found_V) > n_rows or len(vectors_VD) != len(found_V):
        raise ArtifactError(
            "the number of vectors does not match the vocabulary", got=f"{len(vectors_VD)} vectors, {len(found_V)} flags",
            expected=f"one vector and one flag per token, for at most {n_rows} tokens",
        )  # fmt: skip
    rows = np.flatnonzero(found_V)
    found_ND = np.asarray(vectors_VD, dtype=np.float64)[rows]
    if not np.isfinite(found_ND).all():
        raise ArtifactError("the word vectors have numbers that are not finite", hint="train the word vectors again")
    return rows, found_ND


def _replace_rows(model: LanguageModel, rows: npt.NDArray[np.int64], values_ND: npt.NDArray[np.float64]) -> None:
    """Write word vectors into rows of the embedding table."""
    table_VD = model.embedding
    table_VD[torch.from_numpy(rows).to(table_VD.device)] = torch.from_numpy(values_ND).to(table_VD)


def orthonormal(n_in: int, n_out: int, seed: int) -> npt.NDArray[np.float64]:
    """Return an initial map from n_in to n_out numbers with orthonormal rows or columns.

    The identity where the widths agree.
    """
    if n_in == n_out:
        return np.eye(n_in)
    random = np.random.Generator(np.random.Philox(seed_of(seed, "vectors")))
    tall = random.standard_normal((max(n_in, n_out), min(n_in, n_out)))
    q, r = np.linalg.qr(tall)
    q *= np.sign(np.diagonal(r))  # makes the factorisation unique, whatever LAPACK does
    return q if n_in >= n_out else q.T
