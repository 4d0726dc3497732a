"""`wordpipe train contrastive`: tokens → model, a transformer that encodes texts.

the text     rows of the tokens, titles of the corpus behind them, pairs of a file: `contrast_text`, of `train static` too
the start    a model, a mean of vectors, or fresh weights: `_first_encoder`
the training `assemble_encoder` of `training/contrastive`
the folder   which transformers and sentence-transformers load: `_write`
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, WEIGHTS_FILE, Artifact, is_artifact, manifest_at
from wordpipe.encoders import TABLE_FILE, UNKNOWN_PAIRS, sentence_transformers_files, static_table
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import LanguageModel, one_stack, save_hf, seed_of, start_as_mean, transformers_class
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.train.pair_text import check_pairs, contrast_text, pair_kinds, token_ids
from wordpipe.stages.train.run import ending_of, fresh_model, special_ids, train_on_pairs, with_special_ids
from wordpipe.stages.train.start import given_model, vectors_of_words
from wordpipe.tokens import FRAMES, framed_tokenizer, number_of_ids, open_tokenizer, transformers_files
from wordpipe.training import SpecialIds, model_config
from wordpipe.training.contrastive import (
    Pairs,
    TeacherVectors,
    assemble_encoder,
    held_out_pairs,
    word_weights,
)
from wordpipe.training.contrastive.settings import (
    DEFAULT_POOLING,
    IDLE_BESIDE_LAYER,
    ContrastiveSettings,
    Pooling,
    refuse_idle,
)
from wordpipe.training.settings import MaskedSettings

Floats = npt.NDArray[np.float32]
_HEAD = 64  # width of a head of most presets


@public(ContrastiveSettings)
def train_contrastive(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a transformer encoder of texts without labels: texts that belong together get near vectors, others do not.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which sentence-transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `ContrastiveSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.train_contrastive("run/tokens", output="new/encoder", init="run/model", steps=2)
        >>> with wordpipe.open(made, "model") as encoder:
        ...     encoder.encode(["why does the sea have tides", "the moon pulls the water"]).shape
        (2, 32)
    """
    chosen = ContrastiveSettings.make(settings)
    with open_job("model", output, chosen, run) as job:
        job.libraries, job.arguments = ("torch", "safetensors", "tokenizers", "numpy", "pyarrow"), [tokens]
        source = job.open_input(tokens, ["tokens"])
        job.note_first_texts(source)
        check_pairs(chosen)
        if chosen.teacher is not None:
            Artifact(chosen.teacher, ["model", "words"], verify=False).close()
        if (resolved := _with_what_learns(chosen)).learn == "layer":
            from wordpipe.stages.train.adapt import adapt

            adapt(job, source, resolved)
        else:
            _train(job, source, resolved)
    return job.made


def _with_what_learns(settings: ContrastiveSettings) -> ContrastiveSettings:
    """Return the settings with what auto stands for: a layer alone behind an imported encoder, unless a length is given.

    A few steps through all weights of an encoder that has seen a billion pairs cost hours and unteach as much as they teach.

    Raises:
        ConfigError: settings that a layer does not have.
    """
    if settings.learn != "auto":
        return settings
    learn: Literal["all", "layer"] = "all"
    if (
        settings.init is not None
        and is_artifact(settings.init)
        and not (settings.steps or settings.epochs or settings.minutes)
    ):
        learn = "layer" if manifest_at(settings.init).command == "import" else "all"
    resolved = settings.model_copy(update={"learn": learn})
    try:
        refuse_idle(resolved, IDLE_BESIDE_LAYER)
    except ValueError as error:
        raise ConfigError(str(error), where="learn", got="auto", expected="all") from None
    return resolved


def _train(job: Job, source: Artifact, settings: ContrastiveSettings) -> None:
    """Train a transformer encoder, and write the model's folder."""
    data = source.read(TOKENIZER)
    tokenizer = open_tokenizer(data, where=str(source.path / TOKENIZER))
    text, given = contrast_text(
        job, source, settings, token_ids(tokenizer), vocab_size=number_of_ids(tokenizer), column="ids"
    )
    # the first weights, and what they learn from
    start = _first_encoder(job, settings, tokenizer, data, text.counts)
    teacher = None if settings.teacher is None else _teacher(job, settings, tokenizer)
    pairs = Pairs(text, settings, given=given)
    training = assemble_encoder(
        settings, start.model, pairs, special=start.special, weights=start.weights, teacher=teacher,
        held_out=held_out_pairs(settings, text), state_dir=job.partial, run_key=job.recipe,
        seed=seed_of(settings.seed, "contrast"), ending=ending_of(job),
    )  # fmt: skip
    # what is said of it before the first step
    config, plan, weights = start.model.config, training.plan, sum(one.numel() for one in start.model.parameters())
    job.device, job.facts["dtype"] = str(training.execution.device), training.execution.facts()["dtype"]
    job.facts |= {"lr": plan.lr, "batch_size": plan.batch_size}
    job.note(
        f"encoder of {config.n_layers} layers, width {config.dim}, {weights / 1e6:.1f}M weights; training: "
        f"{training.length(f'{plan.batch_size:,} pairs')}, on {job.device} in {job.facts['dtype']}"
    )
    job.counts["parameters"] = weights
    train_on_pairs(job, training, pairs)
    job.counts["tokens_cut"] = training.cut
    _write(job, start, data, settings)


@dataclass(frozen=True)
class _FirstEncoder:
    """A transformer encoder before its first step.

    Attributes:
        model: with its first weights and the dropout it trains with.
        special: the tokenizer's special ids; [CLS] and [SEP] are there.
        pooling: mean or weighted.
        weights: what each token weighs in the mean, (V,) float32; None: all alike.
        elsewhere: whether it learned from other people's pairs before.
    """

    model: LanguageModel
    special: SpecialIds
    pooling: Pooling
    weights: Floats | None
    elsewhere: bool = False


def _first_encoder(
    job: Job, settings: ContrastiveSettings, tokenizer: Tokenizer, data: bytes, counts_V: npt.NDArray[np.int64]
) -> _FirstEncoder:
    """Return the transformer encoder of a contrastive training before its first step.

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
    # the given model, and the special tokens
    given, elsewhere, pooling = None, False, settings.pooling or DEFAULT_POOLING
    if settings.init is not None:
        given = given_model(job, settings.init, tokenizer, "encoder", settings.seed)
    special = special_ids(tokenizer, "encoder", None if given is None else given.special)
    for role in ("cls", "sep"):
        special.need(role)
    weights_V = word_weights(counts_V, settings.sif_a)
    # a given model pools as before, unless the settings say otherwise
    if given is not None:
        model = with_special_ids(given.model, replace(given.model.config, dropout=settings.dropout), special)
        pooling, kept_V = _pooling_of(given.artifact, settings, number_of_ids(tokenizer))
        elsewhere = given.artifact is not None and UNKNOWN_PAIRS in given.artifact.manifest.facts.get("pairs", ())
        if settings.pooling is None:
            kept = "" if kept_V is None else ", with the token weights of the --init model"
            job.note(f"pooling: {pooling}{kept}")
        if kept_V is not None:
            return _FirstEncoder(model, special, pooling, kept_V, elsewhere)
    # fresh weights, or the mean of given vectors
    elif settings.init_embeddings is None:
        model = _fresh_encoder(settings, tokenizer, special, None)
    else:
        vectors = job.open_input(settings.init_embeddings, ["words", "model"])
        table_VD, found_V = _token_vectors(job, vectors, tokenizer, data)
        model = _fresh_encoder(settings, tokenizer, special, table_VD.shape[1])
        lengths_V = start_as_mean(model, table_VD, found_V, seed=settings.seed)
        job.counts["embeddings_given"] = int(found_V.sum())
        # the rows of a static encoder have their tokens' weights in them already
        weights_V = lengths_V if vectors.kind == "model" else weights_V * lengths_V
    # special tokens say nothing of a text
    if pooling == "mean":
        return _FirstEncoder(model, special, pooling, None, elsewhere)
    weights_V[list(special.present())] = 0.0
    return _FirstEncoder(model, special, pooling, weights_V.astype(np.float32), elsewhere)


def _pooling_of(given: Artifact | None, settings: ContrastiveSettings, n_ids: int) -> tuple[Pooling, Floats | None]:
    """Return the pooling of a contrastive training's settings, else that of the given model.

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
            "the token weights of the model belong to another tokenizer", where=given.path / WEIGHTS_FILE,
            got=weights_V.shape, expected=(n_ids,), hint="use --pooling weighted to compute new weights",
        )  # fmt: skip
    return "weighted", weights_V


def _fresh_encoder(
    settings: ContrastiveSettings, tokenizer: Tokenizer, special: SpecialIds, width: int | None
) -> LanguageModel:
    """Return a transformer with fresh weights for contrastive training."""
    dim = settings.dim or (width if width and width % _HEAD == 0 else None)
    shape = {"preset": settings.preset, "dropout": settings.dropout, "dim": dim, "n_layers": settings.n_layers}
    config = model_config(MaskedSettings.make(shape), "encoder", n_tokens=number_of_ids(tokenizer), special=special)
    return one_stack(fresh_model(config, settings.seed))


def _token_vectors(
    job: Job, vectors: Artifact, tokenizer: Tokenizer, data: bytes
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return a row of given vectors for each token id of a contrastive training, and which ids have one."""
    # vectors of words, or of a model that is no table, are refused
    facts = vectors.manifest.facts
    if vectors.kind == "model" and facts.get("encoder") != "static":
        raise ArtifactError(
            "this model is not a static encoder",
            where=vectors.path,
            hint=f"to start from this model, use --init {vectors.path} instead of --init-embeddings",
        )
    if facts.get("unit") != "token":
        command = "train word2vec" if vectors.kind == "words" else "train static"
        hint = f"train token vectors: wordpipe {command} TOKENS --unit token"
        raise ArtifactError("these are word vectors, but token vectors are needed", where=vectors.path, hint=hint)
    # the rows of a words artifact, else of a static encoder
    if vectors.kind == "words":
        return vectors_of_words(job, vectors, tokenizer, data)
    table_VD = static_table(vectors.read(TABLE_FILE))
    if len(table_VD) != (n_ids := number_of_ids(tokenizer)):
        raise ArtifactError(
            "the static encoder and the tokens artifact have different tokenizers", where=vectors.path, got=len(table_VD),
            expected=n_ids,
        )  # fmt: skip
    return table_VD, np.linalg.norm(table_VD, axis=1) > 0


def _teacher(job: Job, settings: ContrastiveSettings, tokenizer: Tokenizer) -> TeacherVectors:
    """Return the encoder that `--teacher` names, for contrastive training, as a function.

    It reads the text that ids stand for.
    """
    from wordpipe.encoders.settings import EmbedSettings
    from wordpipe.stages.encoders import open_encoder

    assert settings.teacher is not None
    origin = job.open_input(settings.teacher, ["model", "words"])
    encoder = open_encoder(origin, EmbedSettings.make({"device": settings.device}))

    def vectors(rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        return encoder.encode(tokenizer.decode_batch([list(row) for row in rows], skip_special_tokens=True)).vectors

    return vectors


def _write(job: Job, start: _FirstEncoder, data: bytes, settings: ContrastiveSettings) -> None:
    """Write the folder of the transformer encoder that contrastive training made."""
    model, config = start.model, start.model.config
    ids = config.special_ids | {"unk": start.special.unk}
    tokenizer, names = framed_tokenizer(data, ids, frame=FRAMES["encoder"], vocab_size=config.vocab_size)
    save_hf(model, config, job.write)
    if start.weights is not None:
        job.write(WEIGHTS_FILE, save({"weights": start.weights}))
    tokens = [tokenizer.id_to_token(number) or f"[unused{number}]" for number in range(number_of_ids(tokenizer))]
    folder = sentence_transformers_files(
        "transformer", dim=config.dim, pooling=start.pooling, max_len=config.max_len, weights_V=start.weights,
        tokens=tokens,
    )  # fmt: skip
    for name, content in (transformers_files(tokenizer, names, max_len=config.max_len) | folder).items():
        job.write(name, content)
    job.facts |= {
        "encoder": "transformer", "pooling": start.pooling, "goal": settings.goal, "objective": "contrast",
        "pairs": [UNKNOWN_PAIRS] * start.elsewhere + pair_kinds(settings), "dim": config.dim,
        "architecture": config.architecture, "max_len": config.max_len, "transformers": transformers_class(config),
    }  # fmt: skip
