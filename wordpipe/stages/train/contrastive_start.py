"""What the contrastive training of a transformer starts from: a model's weights, vectors of tokens, or nothing."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load
from tokenizers import Tokenizer

from wordpipe.artifacts import WEIGHTS_FILE, Artifact
from wordpipe.errors import ArtifactError
from wordpipe.model import LanguageModel, new_model
from wordpipe.stages.job import Job
from wordpipe.stages.train.initial_weights import (
    check_memory,
    given_model,
    special_ids,
    vectors_of_words,
    with_special_ids,
)
from wordpipe.tokens import number_of_ids
from wordpipe.training import SpecialIds, model_config
from wordpipe.training.contrastive import start_as_mean, word_weights
from wordpipe.training.contrastive.settings import DEFAULT_POOLING, ContrastiveSettings, Pooling
from wordpipe.training.settings import MaskedSettings

Floats = npt.NDArray[np.float32]
_HEAD = 64  # width of a head of most presets


@dataclass(frozen=True)
class EncoderStart:
    """A transformer before its first step.

    Attributes:
        model: with its first weights and the dropout it trains with.
        special: the tokenizer's special ids; [CLS] and [SEP] are there.
        pooling: mean or weighted.
        weights: what each token weighs in the mean, (V,) float32; None: all alike.
        kept: whether those weights are of the model that it starts from.
    """

    model: LanguageModel
    special: SpecialIds
    pooling: Pooling
    weights: Floats | None
    kept: bool = False


def encoder_start(
    job: Job, settings: ContrastiveSettings, tokenizer: Tokenizer, data: bytes, counts_V: npt.NDArray[np.int64]
) -> EncoderStart:
    """The model that the settings name.

    A token weighs a / (a + p), p its share of the text, times the length of the vector it began with, whose own weight that
    is. Special tokens say nothing of a text and weigh nothing. What they weighed in the model that is trained further, they
    weigh still: its weights have learned beside them.

    Args:
        job: what the settings name becomes its input.
        settings: `init`, `init_embeddings`, `preset`, `dropout`, `pooling`, `sif_a`.
        tokenizer: of the tokens.
        data: its file, byte by byte.
        counts_V: how often each token occurs.

    Raises:
        ArtifactError: a model of another tokenizer, or a decoder; vectors that are not of these tokens.
        BudgetError: a model that this machine cannot hold.
    """
    given, pooling = None, settings.pooling or DEFAULT_POOLING
    if settings.init is not None:
        given = given_model(job, settings.init, tokenizer, "encoder", settings.seed)
    special = special_ids(tokenizer, "encoder", given)
    for name, number in (("[CLS]", special.cls), ("[SEP]", special.sep)):
        if number is None:
            raise ArtifactError(
                f"the tokenizer has no {name} token",
                hint="train a tokenizer with `wordpipe tokenize`, which gives it all special tokens",
            )
    weights_V = word_weights(counts_V, settings.sif_a)
    if given is not None:
        model = with_special_ids(given.model, replace(given.model.config, dropout=settings.dropout), special)
        pooling, kept_V = _pooling_of(given.artifact, settings, number_of_ids(tokenizer))
        if kept_V is not None:
            return EncoderStart(model, special, pooling, kept_V, kept=True)
    elif settings.init_embeddings is None:
        model = _new(settings, tokenizer, special, None)
    else:
        vectors = job.open_input(settings.init_embeddings, ["words", "model"])
        table_VD, found_V = _token_vectors(job, vectors, tokenizer, data)
        model = _new(settings, tokenizer, special, table_VD.shape[1])
        lengths_V = start_as_mean(model, table_VD, found_V, seed=settings.seed)
        job.counts["embeddings_given"] = int(found_V.sum())
        # the rows of a static encoder have their tokens' weights in them already
        weights_V = lengths_V if vectors.kind == "model" else weights_V * lengths_V
    if pooling == "mean":
        return EncoderStart(model, special, pooling, None)
    weights_V[list(special.present())] = 0.0
    return EncoderStart(model, special, pooling, weights_V.astype(np.float32))


def _pooling_of(given: Artifact | None, settings: ContrastiveSettings, n_ids: int) -> tuple[Pooling, Floats | None]:
    """How the encoder pools: as is asked, else as the given model does, with what its tokens weigh there.

    Raises:
        ArtifactError: weights of another number of tokens.
    """
    if settings.pooling is not None or given is None:
        return settings.pooling or DEFAULT_POOLING, None
    if given.manifest.facts.get("pooling") == "mean":
        return "mean", None
    if WEIGHTS_FILE not in given.names():
        return DEFAULT_POOLING, None
    weights_V = load(given.read(WEIGHTS_FILE))["weights"]
    if weights_V.shape != (n_ids,):
        raise ArtifactError(
            "the weights of the tokens are of another tokenizer", where=given.path / WEIGHTS_FILE,
            got=weights_V.shape, expected=(n_ids,), hint="give --pooling weighted, which counts them anew",
        )  # fmt: skip
    return "weighted", weights_V


def _new(settings: ContrastiveSettings, tokenizer: Tokenizer, special: SpecialIds, width: int | None) -> LanguageModel:
    """A model with fresh weights, as wide as the vectors it begins with where heads of 64 divide them."""
    dim = settings.dim or (width if width and width % _HEAD == 0 else None)
    shape = {"preset": settings.preset, "dropout": settings.dropout, "dim": dim, "n_layers": settings.n_layers}
    config = model_config(MaskedSettings.make(shape), "encoder", n_tokens=number_of_ids(tokenizer), special=special)
    check_memory(config)
    return new_model(config, settings.seed)


def _token_vectors(
    job: Job, vectors: Artifact, tokenizer: Tokenizer, data: bytes
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """A row for each token id, and which ids have one."""
    facts = vectors.manifest.facts
    if vectors.kind == "model" and facts.get("encoder") != "static":
        raise ArtifactError(
            "this model is no table of vectors",
            where=vectors.path,
            hint=f"start from all of it with --init {vectors.path}",
        )
    if facts.get("unit") != "token":
        command = "train word2vec" if vectors.kind == "words" else "train contrastive"
        hint = f"train them with: wordpipe {command} TOKENS --unit token"
        raise ArtifactError("the vectors are of words, not of tokens", where=vectors.path, hint=hint)
    if vectors.kind == "words":
        return vectors_of_words(job, vectors, tokenizer, data)
    table_VD = load(vectors.read("model.safetensors"))["embedding.weight"]
    if len(table_VD) != (n_ids := number_of_ids(tokenizer)):
        raise ArtifactError("a table of another tokenizer", where=vectors.path, got=len(table_VD), expected=n_ids)
    return table_VD, np.linalg.norm(table_VD, axis=1) > 0
