"""The start of a training: its inputs are opened, and its model has its first weights.

These are fresh, fresh but for vectors of tokens, those of a given model or of a teacher, or those with which a finished
training stopped.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors.torch import load as load_tensors
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, TOKENIZER_B, Artifact, parse_json_object, read_batches, read_fact, read_schema
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import (
    Architecture,
    EncoderDecoder,
    LanguageModel,
    Loaded,
    ModelConfig,
    init_embeddings,
    load_hf,
    one_stack,
    pad_vocab,
    seed_of,
    start_from_encoder,
)
from wordpipe.stages.job import Job, PathLike
from wordpipe.stages.train.run import OPTIMISER, STATE, fresh_model, reshaped, special_ids, with_special_ids
from wordpipe.tokens import FRAMES, N_SENTINELS, frame_of, number_of_ids, open_tokenizer, special_names, with_sentinels
from wordpipe.training import Snapshot, trained_shape
from wordpipe.training.recipes import Opened, Recipe, fresh_config, recipe_for, start_from_teacher, student_config
from wordpipe.training.settings import EXTENSION_SETTINGS, LEARNING_RATE_SETTINGS, PretrainSettings

if TYPE_CHECKING:
    from wordpipe.model import Transformer


Floats = npt.NDArray[np.float32]

_STYLES = {"t5": "t5", "learned": "bart"}  # of an encoder-decoder that is given, by its positions


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


@dataclass(frozen=True)
class Start:
    """A training before its first step: its inputs are open, its model has its first weights.

    Attributes:
        source: the tokens artifact.
        tokenizer_json: the file of its tokenizer, with sentinels if the model has some.
        opened: what is known of the texts.
        model: what is trained.
        begin: the end of the finished training that is extended, or None.
        seed: of order, masks and dropout. A training of one stack that starts from a model's weights does not see its text
            again in the very order, and behind the very masks, that the model was trained with.
        target: the tokenizer of the second texts, and its file; None where it is the same.
    """

    source: Artifact
    tokenizer_json: bytes
    opened: Opened
    model: Any
    begin: Snapshot | None
    seed: int
    target: tuple[Tokenizer, bytes] | None


def open_start(job: Job, path: PathLike, recipe: Recipe[Any], settings: PretrainSettings) -> Start:
    """Open the inputs of a training, and make its model as it is before the first step."""
    # the tokens
    source = job.open_input(path, ["tokens"])
    data, where = source.read(TOKENIZER), str(source.path / TOKENIZER)
    has_two_stacks, is_paired = recipe.architecture == "encoder-decoder", _is_paired(source, recipe)
    tokenizer = open_tokenizer(data, where=where)
    target = _target_tokenizer(source, tokenizer) if is_paired else None
    # the weights that it begins with, if not fresh ones; of a T5 that learns to denoise the tokenizer has sentinels
    begun = _start_weights(job, recipe, settings, tokenizer, target)
    style = begun.style or settings.style
    if recipe.has_sentinels and style == "t5":
        data = with_sentinels(data, N_SENTINELS)
        tokenizer = open_tokenizer(data, where=where)
    special = special_ids(tokenizer, recipe.architecture, begun.special)
    opened = Opened(
        special=special, n_tokens=number_of_ids(tokenizer), tokenizer=tokenizer, style=style, is_paired=is_paired,
        n_target_tokens=0 if target is None else number_of_ids(target[0]), teacher=begun.teacher,
        frame=begun.frame or _usual_frame(recipe, style, is_paired=is_paired),
    )  # fmt: skip
    if has_two_stacks:
        special.need("eos")
    model = begun.model if begun.model is not None else _new_model(job, settings, opened, data)
    if opened.n_tokens > model.config.vocab_size:
        raise ArtifactError(
            "the model has no embeddings for the sentinel tokens", where=settings.given("init"),
            got=model.config.vocab_size, expected=f"{opened.n_tokens}",
            hint="start from a model made by `train denoising --style t5`",
        )  # fmt: skip
    # its length, its dropout and its special ids; the targets of an encoder-decoder begin with their first token from now on
    config = replace(model.config, first_id=None) if has_two_stacks else model.config
    config, seq_len = trained_shape(settings, config, begun.seq_len)
    model = reshaped(model, config) if has_two_stacks else with_special_ids(model, config, special)
    return Start(
        source, data, replace(opened, seq_len=seq_len, start_id=model.config.start_id), recipe.model(model, settings),
        begun.state, begun.seed, target,
    )  # fmt: skip


def _usual_frame(recipe: Recipe[Any], style: str, *, is_paired: bool) -> tuple[str, str]:
    """Return the roles of the tokens that a recipe usually puts before and after a text."""
    if recipe.architecture == "encoder-decoder":
        return FRAMES["framed source" if style == "bart" else "source"]
    return FRAMES["framed source" if is_paired else recipe.architecture]


def _is_paired(source: Artifact, recipe: Recipe[Any]) -> bool:
    """Return True if the training that starts learns second texts of pairs.

    Raises:
        ArtifactError: there are none, or they have a vocabulary of their own, which a decoder has not.
    """
    if recipe.pairs == "never":
        return False
    has_pairs = "ids_b" in read_schema(source, "tokens").names
    if recipe.pairs == "always" and not has_pairs:
        raise ArtifactError(
            "the tokens artifact has no second texts", where=source.path, expected="a column ids_b",
            hint="ingest pairs with --text-b FIELD or --parallel A B, then tokenize that corpus",
        )  # fmt: skip
    if has_pairs and recipe.architecture == "decoder" and TOKENIZER_B in source.names():
        raise ArtifactError(
            "these tokens have a separate vocabulary for the second texts, but a decoder needs one vocabulary for "
            "both texts", where=source.path,
            hint="tokenize the corpus with --vocabulary joint, or train an encoder-decoder with wordpipe train "
            "seq2seq",
        )  # fmt: skip
    return has_pairs


def _target_tokenizer(source: Artifact, of_sources: Tokenizer) -> tuple[Tokenizer, bytes] | None:
    """Return the tokenizer of the second texts, and its file, as a training starts.

    Raises:
        ArtifactError: its special tokens have other ids: a model has one start, one end and one padding for both sides.
    """
    if TOKENIZER_B not in source.names():
        return None
    data, where = source.read(TOKENIZER_B), source.path / TOKENIZER_B
    tokenizer = open_tokenizer(data, where=str(where))
    own, others = (special_ids(one, "encoder-decoder").of_config() for one in (tokenizer, of_sources))
    for role, number in others.items():
        if own[role] != number:
            raise ArtifactError(
                "the tokenizers of the two texts use different ids for their special tokens", where=where,
                got=f"the id {own[role]} for {role}", expected=f"the id {number} for {role}, as in {TOKENIZER}",
                hint="train both tokenizers with `wordpipe tokenize --vocabulary separate`",
            )  # fmt: skip
    return tokenizer, data


@dataclass(frozen=True)
class _StartWeights:
    """The weights that a training begins with, and what goes with them; without a model: fresh ones."""

    seed: int
    model: Any = None
    state: Snapshot | None = None  # of the finished training that is extended
    special: Mapping[str, int] = field(default_factory=dict)
    frame: tuple[str, str] | None = None
    style: str = ""
    seq_len: int | None = None
    teacher: LanguageModel | None = None


def _start_weights(
    job: Job, recipe: Recipe[Any], settings: PretrainSettings, tokenizer: Tokenizer, target: tuple[Tokenizer, bytes] | None
) -> _StartWeights:  # fmt: skip
    """Return the weights that a training starts with: of a teacher, of a given model, or a finished one."""
    has_two_stacks, seed = recipe.architecture == "encoder-decoder", settings.seed
    # a student of a teacher
    if (path := settings.given("teacher")) is not None:
        given = given_model(job, path, tokenizer, recipe.architecture, seed, recipe.accepts)
        return _student(job, given, settings)
    # the weights of a model
    if (path := settings.given("init")) is not None:
        its_seed, its_target = 0 if has_two_stacks else seed, target and target[0]
        given = given_model(job, path, tokenizer, recipe.architecture, its_seed, recipe.accepts, its_target)
        if has_two_stacks:
            both, frame = _two_stacks(job, path, given, settings, tokenizer, target)
            return _StartWeights(seed, both, frame=frame, style=_STYLES.get(both.config.positions, "vaswani"))
        return _StartWeights(
            seed_of(seed, "init", job.inputs[-1].digest), one_stack(given.model), special=given.special
        )
    # the end of a finished training
    if (path := settings.given("extend")) is not None:
        model, state = extended_training(job, path, settings)
        if not has_two_stacks:
            return _StartWeights(seed, one_stack(model), state, seq_len=state.log.get("seq_len"))
        with Artifact(path, ["model"], verify=False) as before:
            frame = read_frame(open_tokenizer(before.read(TOKENIZER), where=str(path / TOKENIZER)))
            seq_len = before.fact("seq_len", int, model.config.max_len, least=1)
        is_t5 = recipe.has_sentinels and frame != FRAMES["framed source"]
        style = "t5" if is_t5 else "bart" if frame == FRAMES["framed source"] else ""
        return _StartWeights(seed, model, state, frame=frame, style=style, seq_len=seq_len)
    return _StartWeights(seed)


def _student(job: Job, teacher: Given, settings: Any) -> _StartWeights:
    """Return the weights that a smaller model starts with: some layers of its teacher's."""
    its = one_stack(teacher.model)
    shape = student_config(its.config, settings.n_layers)
    student = start_from_teacher(its, shape, settings.seed)
    job.note(
        f"the student model has {shape.n_layers} layers, which were copied from the {its.config.n_layers} layers "
        "of the teacher model"
    )
    return _StartWeights(settings.seed, student, special=teacher.special, teacher=its)


def _two_stacks(
    job: Job, path: Path, given: Given, settings: Any, tokenizer: Tokenizer, target: tuple[Tokenizer, bytes] | None
) -> tuple[EncoderDecoder, tuple[str, str] | None]:
    """Return the encoder-decoder to start from, and its source's frame."""
    if isinstance(given.model, EncoderDecoder):
        has, wanted = given.model.config.n_decoder_layers, settings.n_decoder_layers
        if wanted not in (None, has):
            raise ConfigError(
                "the number of decoder layers cannot be changed, because the init model already has a decoder",
                where="n_decoder_layers", got=wanted, expected=has,
            )  # fmt: skip
        return given.model, given.frame
    # the given encoder, and a decoder of the same parts
    job.note("the encoder starts with the given weights, and the decoder starts with new weights")
    special = special_ids(tokenizer, "encoder-decoder")
    encoder: LanguageModel = given.model
    try:
        config = encoder.config.with_decoder(settings.n_decoder_layers or encoder.config.n_layers, special.need("pad"))
    except ConfigError as error:
        raise ArtifactError(
            f"an encoder-decoder cannot start from this encoder, because {error.where} does not fit", where=path,
            got=error.got,
            expected="dot-product attention in every layer, without a window",
            hint="train another encoder with wordpipe train mlm --window 0 (any --style and any --positions)",
        ) from None  # fmt: skip
    own_table = pad_vocab(number_of_ids(target[0])) if target else 0
    config = replace(config, decoder_vocab_size=own_table, **special.of_config())
    model = start_from_encoder(encoder, config, settings.seed)
    job.counts["parameters_given"] = sum(weight.numel() for weight in model.encoder.parameters())
    return model, given.frame or FRAMES["encoder"]


def _new_model(job: Job, settings: PretrainSettings, opened: Opened, data: bytes) -> Any:
    """Return a model with fresh weights to start from, but for embeddings by word vectors.

    Raises:
        ArtifactError: vectors of words, or of the tokens of another tokenizer.
    """
    config, path = fresh_config(settings, opened), settings.given("init_embeddings")
    words = None if path is None else job.open_input(path, ["words"])
    model = fresh_model(config, settings.seed)
    if words is not None:
        assert opened.tokenizer is not None
        if words.fact("unit", str) != "token":
            hint = "train token vectors: wordpipe train word2vec TOKENS --unit token"
            raise ArtifactError("these are word vectors, but token vectors are needed", where=words.path, hint=hint)
        vectors_VD, found_V = vectors_of_words(job, words, opened.tokenizer, data)
        filled = init_embeddings(one_stack(model), vectors_VD, found_V, seed=settings.seed)
        job.counts["embeddings_from_words"] = filled
    return model


def given_model(
    job: Job, path: Path, tokenizer: Tokenizer, architecture: Architecture, seed: int,
    accepts: Callable[[ModelConfig], str] | None = None, target: Tokenizer | None = None,
) -> Given:  # fmt: skip
    """Open the model that `--init` names, an artifact or a folder of transformers, recorded as an input.

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
            "this command cannot train this kind of model", where=path,
            got="an XLNet model (with a query stream)" if config.two_streams else config.architecture, expected=wanted,
            hint=f"to train this model further: wordpipe {recipe_for(config).command} TOKENS --init {path}",
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
            hint="use a model folder with the tokenizer that the model was trained with",
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


def read_frame(tokenizer: Tokenizer) -> tuple[str, str] | None:
    """Return the roles of what a start model's tokenizer puts before and after a text."""
    ids = {name: tokenizer.token_to_id(token) for name, token in special_names(tokenizer).items()}
    before, after = frame_of(tokenizer)
    for first, last in (FRAMES["encoder"], FRAMES["framed source"], FRAMES["source"]):
        if (before, after) == ([ids.get(first)] if first else [], [ids.get(last)]):
            return first, last
    return None


def _check_target(model: Artifact | Path, decoder_vocab_size: int, target: Tokenizer | None, path: Path) -> None:
    """Refuse to start from a model that writes other tokens than the second texts have."""
    from wordpipe.stages.models import target_tokenizer

    theirs = target_tokenizer(model) if decoder_vocab_size else None
    if theirs is not None and target is not None:
        _check_same_tokens(theirs.get_vocab(), target.get_vocab(), path)
    elif theirs is not target:
        one, two = "one vocabulary for both texts", "a vocabulary for each text"
        raise ArtifactError(
            "the model and the tokens have different tokenizers", where=path, got=one if theirs is None else two,
            expected=one if target is None else two,
            hint="tokenize the corpus with the tokenizer of the model: wordpipe tokenize CORPUS -o TOKENS "
            f"--tokenizer {path}",
        )  # fmt: skip


def open_given(job: Job, path: Path, seed: int) -> tuple[Artifact | None, tuple[Loaded, Tokenizer, dict[str, str]]]:
    """Open the model that `--init` names, its tokenizer, and role → special token; the artifact, if it is one."""
    from wordpipe.stages.inputs import model_entry, reading
    from wordpipe.stages.models import read_artifact, read_folder

    if (path / "manifest.json").is_file() or not path.is_dir():
        artifact = job.open_input(path, ["model"])
        return artifact, read_artifact(artifact, allow_missing_head=True, seed=seed)
    with reading(job, model_entry, path):
        return None, read_folder(path, allow_missing_head=True, seed=seed)


def _check_same_tokens(known: Mapping[str, int], wanted: Mapping[str, int], path: Path) -> None:
    """Refuse to start from a model whose tokenizer gives tokens other ids."""
    if known == wanted:
        return
    other = min(token for token in known.keys() | wanted.keys() if known.get(token) != wanted.get(token))
    raise ArtifactError(
        "the model and the tokens have different tokenizers",
        where=path,
        got=f"for the token {other!r}: id {known.get(other, 'missing')} in the model, id "
        f"{wanted.get(other, 'missing')} in the tokens",
        hint="tokenize the corpus with the tokenizer of the model: wordpipe tokenize CORPUS -o TOKENS --tokenizer "
        f"{path}",
    )


def vectors_of_words(
    job: Job, words: Artifact, tokenizer: Tokenizer, data: bytes
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return word vectors to start from, a row for each token id, and which ids have one.

    Raises:
        ArtifactError: vectors of the tokens of another tokenizer.
    """
    from wordpipe.words import WordVectors

    if words.read(TOKENIZER) != data:
        raise ArtifactError(
            "the vectors were trained with another tokenizer", where=words.path,
            got=words.manifest.inputs[0].digest[:16], expected=job.inputs[0].digest[:16],
            hint="train the vectors on the same tokens artifact",
        )  # fmt: skip
    table = WordVectors.from_batches(read_batches(words, "words"))
    vectors_VD = np.zeros((number_of_ids(tokenizer), table.dim), dtype=np.float32)
    found_V = np.zeros(len(vectors_VD), dtype=np.bool_)
    for word, vector in zip(table.words, table.vectors, strict=True):
        if (number := tokenizer.token_to_id(word)) is not None:
            vectors_VD[number], found_V[number] = vector, True
    return vectors_VD, found_V


def extended_training(job: Job, path: Path, settings: PretrainSettings) -> "tuple[Transformer, Snapshot]":
    """Open the model and the state of the finished training that `--extend` names, recorded as an input.

    Raises:
        ArtifactError: it kept no state, or was trained on other tokens.
        ConfigError: the settings are others, but for those that say how long and how fast to train.
    """
    artifact = job.open_input(path, ["model"])
    manifest = artifact.manifest
    if STATE not in artifact.names():
        raise ArtifactError(
            "--extend needs a saved training state, but this model has no saved training state",
            where=path,
            hint="start from the weights of this model with --init, or train the model with --set keep_state=true",
        )
    if (before := manifest.inputs[0].digest) != job.inputs[0].digest:
        raise ArtifactError(
            "this model was trained on a different tokens artifact", where=path,
            got=job.inputs[0].digest[:16], expected=before[:16], hint="start from the weights of this model with --init",
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
    """Refuse to start the extension of a finished training with other settings."""
    wanted = {
        name: value for name, value in settings.recipe().items() if name in before and name not in EXTENSION_SETTINGS
    }
    other = [name for name, value in wanted.items() if before[name] != value]
    if not other and command == now:
        return
    flags = " ".join(_flag(type(settings), name, before[name]) for name in other)
    raise ConfigError(
        "an extended training must have the same settings as the finished training",
        where=where,
        got=", ".join(f"{name} {json.dumps(before[name])} → {json.dumps(wanted[name])}" for name in other) or now,
        expected=None if command == now else command,
        hint=f"use {flags}, or start from the weights of this model with --init"
        if flags
        else "start from the weights of this model with --init",
    )


def _warn_of_new_rates(job: Job, settings: PretrainSettings, before: Mapping[str, Any]) -> None:
    """Warn, as an extension starts, of settings of the learning rate that were not given again."""
    unsaid = [
        name
        for name in LEARNING_RATE_SETTINGS
        if name not in settings.model_fields_set and before.get(name) != getattr(settings, name)
    ]
    if unsaid:
        flags = " ".join(_flag(type(settings), name, before.get(name)) for name in unsaid)
        job.warn(f"the learning rate follows the default settings, but the finished training used {flags}")


def _flag(cls: type[PretrainSettings], name: str, value: Any) -> str:
    """Return how a setting of a training that starts is written on a command line."""
    flag = name.replace("_", "-")
    if not cls.model_fields[name].option and value is not None:
        return f"--set {name}={json.dumps(value) if isinstance(value, bool) else value}"
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"no --{flag}" if value is None else f"--{flag} {value}"
