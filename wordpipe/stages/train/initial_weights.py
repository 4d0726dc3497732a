"""The initial weights that a training is given: vectors of tokens, a model's weights, or those of a finished training."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors.torch import load as load_tensors
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, Artifact, parse_json_object, read_batches, read_fact
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import (
    Architecture,
    EncoderDecoder,
    LanguageModel,
    Loaded,
    ModelConfig,
    init_embeddings,
    load_hf,
    start_from_encoder,
)
from wordpipe.stages.job import Job
from wordpipe.stages.train.run import OPTIMISER, STATE
from wordpipe.tokens import FRAMES, frame_of, number_of_ids, special_names
from wordpipe.training import Snapshot, SpecialIds
from wordpipe.training.recipes import recipe_for
from wordpipe.training.settings import EXTENSION_SETTINGS, LEARNING_RATE_SETTINGS, PretrainSettings

if TYPE_CHECKING:
    from wordpipe.model import Transformer

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Given:
    """The model that `--init` names.

    Attributes:
        model: with its weights.
        special: role → id, as the folder itself names them.
        frame: roles of what stands before and after a text, see `FRAMES`; None where its tokenizer does not say.
        artifact: that it is from; None: from a folder of transformers.
    """

    model: Any
    special: Mapping[str, int]
    frame: tuple[str, str] | None
    artifact: Artifact | None = None


def given_model(
    job: Job, path: Path, tokenizer: Tokenizer, architecture: Architecture, seed: int,
    accepts: Callable[[ModelConfig], str] | None = None, target: Tokenizer | None = None,
) -> Given:  # fmt: skip
    """The model that `--init` names, an artifact or a folder of transformers, recorded as an input.

    Args:
        job: that starts from it.
        path: of it.
        tokenizer: of the tokens. The model's may have more tokens behind them if it is for an encoder-decoder: sentinels.
        architecture: that is trained.
        seed: of what a folder lacks.
        accepts: "" for a model that will do, else what would; None: all of the architecture will.
        target: the tokenizer of the second texts, where it is another one.

    Raises:
        ArtifactError: it has another tokenizer, too few embeddings for it, or is of another kind than the task trains.
        InputError: nothing there.
    """
    # what it is, and whether this objective can go on with it
    artifact, (loaded, theirs, names) = open_given(job, path, seed)
    for text in loaded.notes:
        job.warn(f"{path.name}: {text}")
    config, is_pair = loaded.config, architecture == "encoder-decoder"
    wanted = ("" if config.architecture == architecture else architecture) if accepts is None else accepts(config)
    if wanted:
        raise ArtifactError(
            "this objective trains another kind of model", where=path,
            got="an XLNet, with a query stream" if config.two_streams else config.architecture, expected=wanted,
            hint=f"go on with it by: wordpipe {recipe_for(config).command} TOKENS --init {path}",
        )  # fmt: skip
    # whether its ids stand for the same tokens
    known, ours = theirs.get_vocab(), tokenizer.get_vocab()
    if is_pair:
        known = {token: number for token, number in known.items() if number < len(ours)}
    _check_same_tokens(known, ours, path)
    if config.architecture == "encoder-decoder":
        _check_target(artifact or path, config.decoder_vocab_size, target, path)
    elif not is_pair and (n_ids := number_of_ids(tokenizer)) > config.vocab_size:
        raise ArtifactError(
            "the tokenizer has more tokens than the model has embeddings", where=path, got=n_ids,
            expected=f"at most {config.vocab_size}",
            hint="give the folder with the tokenizer that the model was trained with",
        )  # fmt: skip
    # what the config says, where the tokenizer has it, and above that what the tokenizer's own files name
    known_roles = {
        role: number
        for role, number in config.special_ids.items()
        if number is not None and tokenizer.id_to_token(number)
    }
    named = {role: tokenizer.token_to_id(token) for role, token in names.items()}
    there = {role: number for role, number in named.items() if number is not None}
    return Given(loaded.model, known_roles | there, read_frame(theirs), artifact)


def with_fresh_decoder(
    encoder: LanguageModel,
    path: Path,
    *,
    n_layers: int | None,
    special: SpecialIds,
    seed: int,
    target_vocab_size: int = 0,
) -> EncoderDecoder:
    """An encoder-decoder whose encoder has the weights of an encoder; see `start_from_encoder`.

    Args:
        encoder: from `path`.
        path: for errors.
        n_layers: of the decoder; None: as many as the encoder has.
        special: ids of the tokenizer.
        seed: of the decoder.
        target_vocab_size: rows of the decoder's own table of embeddings; 0: the two share one.

    Raises:
        ArtifactError: it has parts that no encoder-decoder has.
    """
    try:
        config = encoder.config.with_decoder(n_layers or encoder.config.n_layers, special.need("pad"))
    except ConfigError as error:
        raise ArtifactError(
            f"no encoder-decoder starts from this encoder: it has {error.where}", where=path, got=error.got,
            expected="dot-product attention, and every layer sees everything",
            hint="train one without: wordpipe train mlm with --window 0, any --style, any --positions",
        ) from None  # fmt: skip
    return start_from_encoder(
        encoder, replace(config, decoder_vocab_size=target_vocab_size, **special.of_config()), seed
    )


def read_frame(tokenizer: Tokenizer) -> tuple[str, str] | None:
    """The roles of what a tokenizer puts before and after a text, if that is one of our frames of a source."""
    ids = {name: tokenizer.token_to_id(token) for name, token in special_names(tokenizer).items()}
    before, after = frame_of(tokenizer)
    for first, last in (FRAMES["encoder"], FRAMES["framed source"], FRAMES["source"]):
        if (before, after) == ([ids.get(first)] if first else [], [ids.get(last)]):
            return first, last
    return None


def _check_target(model: Artifact | Path, decoder_vocab_size: int, target: Tokenizer | None, path: Path) -> None:
    """Refuse a model that writes other tokens than the second texts have."""
    from wordpipe.stages.models import target_tokenizer

    theirs = target_tokenizer(model) if decoder_vocab_size else None
    if theirs is not None and target is not None:
        _check_same_tokens(theirs.get_vocab(), target.get_vocab(), path)
    elif theirs is not target:
        one, two = "one vocabulary for both texts", "a vocabulary for each text"
        raise ArtifactError(
            "the model has another tokenizer than the tokens", where=path, got=one if theirs is None else two,
            expected=one if target is None else two,
            hint=f"tokenize the corpus with the model's: wordpipe tokenize CORPUS -o TOKENS --tokenizer {path}",
        )  # fmt: skip


def open_given(job: Job, path: Path, seed: int) -> tuple[Artifact | None, tuple[Loaded, Tokenizer, dict[str, str]]]:
    """The model that `--init` names, its tokenizer, and role → special token; the artifact, if it is one."""
    from wordpipe.stages.inputs import model_entry, reading
    from wordpipe.stages.models import read_artifact, read_folder

    if (path / "manifest.json").is_file() or not path.is_dir():
        artifact = job.open_input(path, ["model"])
        return artifact, read_artifact(artifact)
    with reading(job, model_entry, path):
        return None, read_folder(path, allow_missing_head=True, seed=seed)


def _check_same_tokens(known: Mapping[str, int], wanted: Mapping[str, int], path: Path) -> None:
    if known == wanted:
        return
    other = min(token for token in known.keys() | wanted.keys() if known.get(token) != wanted.get(token))
    raise ArtifactError(
        "the model has another tokenizer than the tokens",
        where=path,
        got=f"{other!r} is {known.get(other, 'missing')} there and {wanted.get(other, 'missing')} here",
        hint=f"tokenize the corpus with the model's: wordpipe tokenize CORPUS -o TOKENS --tokenizer {path}",
    )


def start_from_words(
    job: Job, model: LanguageModel, words: Artifact, tokenizer: Tokenizer, data: bytes, seed: int
) -> None:
    """Fill the embedding table with word vectors of the same tokens.

    Raises:
        ArtifactError: vectors of words, or of the tokens of another tokenizer.
    """
    if words.fact("unit", str) != "token":
        hint = "train them with: wordpipe train word2vec TOKENS --unit token"
        raise ArtifactError("the vectors are of words, not of tokens", where=words.path, hint=hint)
    vectors_VD, found_V = vectors_of_words(job, words, tokenizer, data)
    job.counts["embeddings_from_words"] = init_embeddings(model, vectors_VD, found_V, seed=seed)


def vectors_of_words(
    job: Job, words: Artifact, tokenizer: Tokenizer, data: bytes
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """A row for each token id, and which ids have one.

    Raises:
        ArtifactError: vectors of the tokens of another tokenizer.
    """
    from wordpipe.words import WordVectors

    if words.read(TOKENIZER) != data:
        raise ArtifactError(
            "the vectors were trained with another tokenizer", where=words.path,
            got=words.manifest.inputs[0].digest[:16], expected=job.inputs[0].digest[:16],
            hint="train them on the same tokens artifact",
        )  # fmt: skip
    table = WordVectors.from_batches(read_batches(words, "words"))
    vectors_VD = np.zeros((number_of_ids(tokenizer), table.dim), dtype=np.float32)
    found_V = np.zeros(len(vectors_VD), dtype=np.bool_)
    for word, vector in zip(table.words, table.vectors, strict=True):
        if (number := tokenizer.token_to_id(word)) is not None:
            vectors_VD[number], found_V[number] = vector, True
    return vectors_VD, found_V


def extended_training(job: Job, path: Path, settings: PretrainSettings) -> "tuple[Transformer, Snapshot]":
    """The model and the state of the finished training that `--extend` names, recorded as an input.

    Raises:
        ArtifactError: it kept no state, or was trained on other tokens.
        ConfigError: the settings are others, but for those that say how long and how fast to train.
    """
    artifact = job.open_input(path, ["model"])
    manifest = artifact.manifest
    if STATE not in artifact.names():
        raise ArtifactError(
            "this model kept no state of its training",
            where=path,
            hint="start from its weights with --init, or train it with keep_state on",
        )
    if (before := manifest.inputs[0].digest) != job.inputs[0].digest:
        raise ArtifactError(
            "this model was trained on other tokens", where=path, got=job.inputs[0].digest[:16], expected=before[:16],
            hint="start from its weights with --init",
        )  # fmt: skip
    _check_same_settings(settings, manifest.command, manifest.settings, job.settings.command, path)
    _warn_of_new_rates(job, settings, manifest.settings)
    model = load_hf(artifact.read, artifact.names()).model
    log = parse_json_object(artifact.read(STATE), artifact.path / STATE)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    with artifact.damage_of(OPTIMISER):
        tensors = {"model": weights, "optimiser": load_tensors(artifact.read(OPTIMISER))}
    return model, Snapshot(read_fact(log, "step", int, artifact.path / STATE, least=0), tensors, log)


def _check_same_settings(
    settings: PretrainSettings, command: str, before: Mapping[str, Any], now: str, where: Path
) -> None:
    wanted = {
        name: value for name, value in settings.recipe().items() if name in before and name not in EXTENSION_SETTINGS
    }
    other = [name for name, value in wanted.items() if before[name] != value]
    if not other and command == now:
        return
    flags = " ".join(_flag(type(settings), name, before[name]) for name in other)
    raise ConfigError(
        "a training is extended with the settings it had",
        where=where,
        got=", ".join(f"{name} {json.dumps(before[name])} → {json.dumps(wanted[name])}" for name in other) or now,
        expected=None if command == now else command,
        hint=f"give {flags}, or start from its weights with --init" if flags else "start from its weights with --init",
    )


def _warn_of_new_rates(job: Job, settings: PretrainSettings, before: Mapping[str, Any]) -> None:
    """Name the settings of the learning rate that are others than they were because nobody gave them again."""
    unsaid = [
        name
        for name in LEARNING_RATE_SETTINGS
        if name not in settings.model_fields_set and before.get(name) != getattr(settings, name)
    ]
    if unsaid:
        flags = " ".join(_flag(type(settings), name, before.get(name)) for name in unsaid)
        job.warn(f"the learning rate is planned anew; the finished training had {flags}")


def _flag(cls: type[PretrainSettings], name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if not cls.model_fields[name].option and value is not None:
        return f"--set {name}={json.dumps(value) if isinstance(value, bool) else value}"
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"no --{flag}" if value is None else f"--{flag} {value}"
