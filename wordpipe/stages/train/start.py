"""The start of a training: its inputs are opened, and its model has its first weights.

These are fresh, fresh but for vectors of tokens, those of a given model or of a teacher, or those with which a finished
training stopped: see `initial_weights`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, TOKENIZER_B, Artifact, read_schema
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model import EncoderDecoder, LanguageModel, one_stack, pad_vocab, seed_of
from wordpipe.stages.job import Job, PathLike
from wordpipe.stages.train.initial_weights import (
    Given,
    extended_training,
    given_model,
    read_frame,
    start_from_words,
    with_fresh_decoder,
)
from wordpipe.stages.train.run import fresh_model, reshaped, special_ids, with_special_ids
from wordpipe.tokens import FRAMES, N_SENTINELS, number_of_ids, open_tokenizer, with_sentinels
from wordpipe.training import Snapshot, trained_shape
from wordpipe.training.recipes import Opened, Recipe, fresh_config, start_from_teacher, student_config
from wordpipe.training.settings import PretrainSettings

_STYLES = {"t5": "t5", "learned": "bart"}  # of an encoder-decoder that is given, by its positions


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
    """Open the inputs of a training, and make its model as it is before the first step.

    Raises:
        WordpipeError: its class and its hint say what to do.
    """
    # the tokens
    source = job.open_input(path, ["tokens"])
    data, where = source.read(TOKENIZER), str(source.path / TOKENIZER)
    has_two_stacks, is_paired = recipe.architecture == "encoder-decoder", _is_paired(source, recipe)
    tokenizer = open_tokenizer(data, where=where)
    target = _target_tokenizer(source, tokenizer) if is_paired else None
    # the weights that it begins with, if not fresh ones; of a T5 that learns to denoise the tokenizer has sentinels
    begun = _begun(job, recipe, settings, tokenizer, target)
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
    model = begun.model if begun.model is not None else _fresh(job, settings, opened, data)
    if opened.n_tokens > model.config.vocab_size:
        raise ArtifactError(
            "the model has no embeddings for the sentinels", where=settings.given("init"), got=model.config.vocab_size,
            expected=f"{opened.n_tokens}", hint="start from a model of train denoising --style t5",
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
    if recipe.architecture == "encoder-decoder":
        return FRAMES["framed source" if style == "bart" else "source"]
    return FRAMES["framed source" if is_paired else recipe.architecture]


def _is_paired(source: Artifact, recipe: Recipe[Any]) -> bool:
    """Whether second texts are learned.

    Raises:
        ArtifactError: there are none, or they have a vocabulary of their own, which a decoder has not.
    """
    if recipe.pairs == "never":
        return False
    has_pairs = "ids_b" in read_schema(source, "tokens").names
    if recipe.pairs == "always" and not has_pairs:
        raise ArtifactError(
            "the tokens have no second text", where=source.path, expected="a column ids_b",
            hint="ingest pairs with --text-b FIELD or --parallel A B, and tokenize them",
        )  # fmt: skip
    if has_pairs and recipe.architecture == "decoder" and TOKENIZER_B in source.names():
        raise ArtifactError(
            "the second texts have a vocabulary of their own, and a decoder has one for both", where=source.path,
            hint="tokenize the corpus with --vocabulary joint, or train an encoder-decoder: wordpipe train seq2seq",
        )  # fmt: skip
    return has_pairs


def _target_tokenizer(source: Artifact, of_sources: Tokenizer) -> tuple[Tokenizer, bytes] | None:
    """The tokenizer of the second texts, and its file, where they have one of their own.

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
                "the tokenizers of the two texts have special tokens of other ids", where=where, got=f"{role} {own[role]}",
                expected=f"{role} {number}, as in {TOKENIZER}",
                hint="let `wordpipe tokenize --vocabulary separate` train both",
            )  # fmt: skip
    return tokenizer, data


@dataclass(frozen=True)
class _Begun:
    """The weights that a training begins with, and what goes with them; without a model: fresh ones."""

    seed: int
    model: Any = None
    state: Snapshot | None = None  # of the finished training that is extended
    special: Mapping[str, int] = field(default_factory=dict)
    frame: tuple[str, str] | None = None
    style: str = ""
    seq_len: int | None = None
    teacher: LanguageModel | None = None


def _begun(
    job: Job,
    recipe: Recipe[Any],
    settings: PretrainSettings,
    tokenizer: Tokenizer,
    target: tuple[Tokenizer, bytes] | None,
) -> _Begun:
    """The weights of a teacher, of a given model, or of a finished training."""
    has_two_stacks, seed = recipe.architecture == "encoder-decoder", settings.seed
    if (path := settings.given("teacher")) is not None:
        given = given_model(job, path, tokenizer, recipe.architecture, seed, recipe.accepts)
        return _student(job, given, settings)
    if (path := settings.given("init")) is not None:
        given = given_model(
            job,
            path,
            tokenizer,
            recipe.architecture,
            0 if has_two_stacks else seed,
            recipe.accepts,
            target and target[0],
        )
        if has_two_stacks:
            both, frame = _two_stacks(job, path, given, settings, tokenizer, target)
            return _Begun(seed, both, frame=frame, style=_STYLES.get(both.config.positions, "vaswani"))
        return _Begun(seed_of(seed, "init", job.inputs[-1].digest), one_stack(given.model), special=given.special)
    if (path := settings.given("extend")) is not None:
        model, state = extended_training(job, path, settings)
        if not has_two_stacks:
            return _Begun(seed, one_stack(model), state, seq_len=state.log.get("seq_len"))
        with Artifact(path, ["model"], verify=False) as before:
            frame = read_frame(open_tokenizer(before.read(TOKENIZER), where=str(path / TOKENIZER)))
            seq_len = before.fact("seq_len", int, model.config.max_len, least=1)
        is_t5 = recipe.has_sentinels and frame != FRAMES["framed source"]
        style = "t5" if is_t5 else "bart" if frame == FRAMES["framed source"] else ""
        return _Begun(seed, model, state, frame=frame, style=style, seq_len=seq_len)
    return _Begun(seed)


def _student(job: Job, teacher: Given, settings: Any) -> _Begun:
    """A smaller model with some layers of its teacher's."""
    its = one_stack(teacher.model)
    shape = student_config(its.config, settings.n_layers)
    student = start_from_teacher(its, shape, settings.seed)
    job.note(f"a student of {shape.n_layers} layers, which begins with some of its teacher's {its.config.n_layers}")
    return _Begun(settings.seed, student, special=teacher.special, teacher=its)


def _two_stacks(
    job: Job, path: Path, given: Given, settings: Any, tokenizer: Tokenizer, target: tuple[Tokenizer, bytes] | None
) -> tuple[EncoderDecoder, tuple[str, str] | None]:
    """The model to start from, or one with a fresh decoder whose encoder that is, and how it frames a source."""
    if isinstance(given.model, EncoderDecoder):
        has, wanted = given.model.config.n_decoder_layers, settings.n_decoder_layers
        if wanted not in (None, has):
            raise ConfigError(
                "the model of init has its own decoder", where="n_decoder_layers", got=wanted, expected=has
            )
        return given.model, given.frame
    job.note("the encoder begins with the given weights, the decoder is fresh")
    model = with_fresh_decoder(
        given.model, path, n_layers=settings.n_decoder_layers, special=special_ids(tokenizer, "encoder-decoder"),
        seed=settings.seed, target_vocab_size=pad_vocab(number_of_ids(target[0])) if target else 0,
    )  # fmt: skip
    job.counts["parameters_given"] = sum(weight.numel() for weight in model.encoder.parameters())
    return model, given.frame or FRAMES["encoder"]


def _fresh(job: Job, settings: PretrainSettings, opened: Opened, data: bytes) -> Any:
    """A model with fresh weights, but for the embeddings of tokens that have word vectors."""
    config, path = fresh_config(settings, opened), settings.given("init_embeddings")
    words = None if path is None else job.open_input(path, ["words"])
    model = fresh_model(config, settings.seed)
    if words is not None:
        assert opened.tokenizer is not None
        start_from_words(job, one_stack(model), words, opened.tokenizer, data, settings.seed)
    return model
