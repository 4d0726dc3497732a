"""`wordpipe train mlm`, `clm`, `electra` and `permutation`: tokens → model, in one process or several."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, TOKENIZER_B, Artifact, read_schema
from wordpipe.errors import ArtifactError
from wordpipe.model import Architecture, LanguageModel, one_stack, seed_of, transformers_class, why_no_class
from wordpipe.stages.calls import public
from wordpipe.stages.job import Job, Made, PathLike, RunOptions
from wordpipe.stages.train.run import (
    SPLITS,
    compare_with_frequencies,
    fresh_model,
    special_ids,
    train_together,
    with_pair_head,
    with_special_ids,
    write_token_streams,
)
from wordpipe.tokens import FRAMES, framed_tokenizer, number_of_ids, open_tokenizer, transformers_files
from wordpipe.training import (
    Execution,
    LanguageLearner,
    Snapshot,
    SpecialIds,
    Stream,
    Task,
    Trainer,
    WordStarts,
    assemble,
    model_config,
    open_ids,
    open_starts,
    trained_shape,
    unigram_entropy,
)
from wordpipe.training.settings import (
    CausalSettings,
    ElectraSettings,
    MaskedSettings,
    PermutationSettings,
    PretrainSettings,
)

if TYPE_CHECKING:
    from wordpipe.stages.train.initial_weights import Given


@public(MaskedSettings)
def train_mlm(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a bidirectional transformer by masked language modelling.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `MaskedSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.train_mlm("run/tokens", output="new/model", preset="tiny", steps=2, seq_len=64)
        >>> made.kind, made.counts["steps"]
        ('model', 2)
    """
    return _train(tokens, output, MaskedSettings.make(settings), run)


@public(CausalSettings)
def train_clm(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a causal transformer by next-token prediction; of pairs, it learns to go on from a first text with the second.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `CausalSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.train_clm("run/tokens", output="new/clm", preset="tiny", steps=2, seq_len=64)
        >>> made.kind, made.counts["steps"]
        ('model', 2)
    """
    return _train(tokens, output, CausalSettings.make(settings), run)


@public(ElectraSettings)
def train_electra(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a bidirectional transformer to find tokens that a small masked model has put in (ELECTRA).

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `ElectraSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.train_electra("run/tokens", output="new/electra", preset="tiny", steps=2, seq_len=64)
        >>> made.kind, made.counts["steps"]
        ('model', 2)
    """
    return _train(tokens, output, ElectraSettings.make(settings), run)


@public(PermutationSettings)
def train_permutation(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a bidirectional transformer to guess tokens in a random order, each from those before it in that order (XLNet).

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `PermutationSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.train_permutation("run/tokens", output="new/xlnet", preset="tiny", steps=2, seq_len=64)
        >>> made.kind, made.counts["steps"]
        ('model', 2)
    """
    return _train(tokens, output, PermutationSettings.make(settings), run)


def _train(path: PathLike, output: PathLike, settings: PretrainSettings, run: RunOptions | None) -> Made:
    return train_together(output, settings, run, path, lambda job: _prepare(job, path, settings))


@dataclass(frozen=True)
class _Start:
    """A training before its first step.

    Attributes:
        source: the tokens artifact.
        tokenizer: its tokenizer.
        tokenizer_json: the file of that.
        special: its special ids.
        task: what is trained.
        model: with its first weights.
        begin: the end of the finished training that is extended, or None.
        seq_len: positions of a sequence.
        seed: of order, masks and dropout. A training that starts from a model's weights does not see its text again in the
            very order, and behind the very masks, that the model was trained with.
        settings: how to train.
        streams: what was written.
        teacher: from which it learns, too.
        frame: of what the tokenizer of the model's folder reads, see `FRAMES`.
    """

    source: Artifact
    tokenizer: Tokenizer
    tokenizer_json: bytes
    special: SpecialIds
    task: Task
    model: LanguageModel
    begin: Snapshot | None
    seq_len: int
    seed: int
    settings: PretrainSettings
    streams: dict[str, Stream] = field(default_factory=dict)
    teacher: LanguageModel | None = None
    frame: tuple[str, str] = ("", "")

    @property
    def n_tokens(self) -> int:
        """Ids of the tokenizer."""
        return number_of_ids(self.tokenizer)

    def write_inputs(self, job: Job) -> None:
        """The training and held-out ids as flat files that are mapped into memory."""
        task = self.task
        streams = write_token_streams(
            job, self.source, vocab_size=self.n_tokens, before=task.before, after=task.after,
            find_starts=WordStarts(self.tokenizer) if task.needs_word_starts else None,
        )  # fmt: skip
        self.streams.update(streams)

    def trainer(self, folder: Path, execution: Execution, **given: Any) -> Trainer[LanguageLearner]:
        """The training on what the first process wrote to a folder."""
        train_ids, valid_ids = (open_ids(folder / f"{split}.ids", self.n_tokens) for split in SPLITS)
        return assemble(
            self.settings, self.task, self.model, train_ids, valid_ids, seq_len=self.seq_len,
            word_starts=open_starts(folder / "train.ids") if self.task.needs_word_starts else None,
            execution=execution, begin=self.begin, seed=self.seed, teacher=self.teacher,
            unigram_entropy=unigram_entropy(self.streams["train"].counts, self.settings.label_smoothing)
            if self.streams else None, **given,
        )  # fmt: skip

    def announce(self, job: Job, trainer: Trainer[LanguageLearner]) -> None:
        """Say what is going to be trained."""
        _announce(job, self, self.streams, trainer)

    def tokenizer_files(self) -> dict[str, bytes]:
        """The tokenizer for the model's folder."""
        return _tokenizer_files(self)


@dataclass(frozen=True)
class _OnPairs(_Start):
    """The second texts of pairs, by a decoder: what `generate` is given as a prompt is a first text, whole.

    What pairs need is loaded where there are some.
    """

    def write_inputs(self, job: Job) -> None:
        """The pairs as flat files: <s> source </s> is read, target </s> is learned."""
        from wordpipe.stages.train.pair_files import Prefixes, count_pairs, write_pairs
        from wordpipe.training import PairWriter

        begin, end = self.special.need("bos"), self.special.need("eos")
        max_len = self.seq_len
        writers = {
            split: PairWriter(
                job.scratch / split, vocab_size=self.n_tokens, before=(begin,), after=(end,), end=(end,), max_len=max_len,
                together=True,
            )
            for split in SPLITS
        }  # fmt: skip
        empty = write_pairs(job, self.source, writers, Prefixes(self.tokenizer, ""))
        left_out = {"empty": empty, "long": sum(writer.left_out[0] for writer in writers.values())}
        count_pairs(job, writers, left_out, max_len)

    def trainer(self, folder: Path, execution: Execution, **given: Any) -> Trainer[LanguageLearner]:
        """The training on what the first process wrote to a folder."""
        from wordpipe.training import SecondTexts, assemble_learner, open_pairs

        train, valid = (open_pairs(folder / split, self.n_tokens) for split in SPLITS)
        objective = SecondTexts(device=execution.device)
        return assemble_learner(
            self.settings, self.model, train, valid if len(valid) else None, objective=objective,
            valid_objective=objective, execution=replace(execution, compiled=False), begin=self.begin, seed=self.seed,
            unigram_entropy=unigram_entropy(train.label_counts(self.n_tokens), self.settings.label_smoothing), **given,
        )  # fmt: skip

    def announce(self, job: Job, trainer: Trainer[LanguageLearner]) -> None:
        """Say and record what is going to be trained."""
        from wordpipe.stages.train.pair_files import note_pairs
        from wordpipe.training import PairBlocks

        blocks = trainer.learner.blocks
        job.facts["answers"] = True
        job.note("the texts are pairs: the first ones are read, the second ones are learned")
        _note_shape(job, trainer, f"{trainer.plan.batch_size:,} pairs, {blocks.seq_len:,} tokens each,")
        assert isinstance(blocks, PairBlocks)
        compare_with_frequencies(job, blocks.label_counts(self.n_tokens), trainer.plan.label_smoothing)
        note_pairs(job, len(blocks), trainer.plan.batch_size)


def _prepare(job: Job, path: PathLike, settings: PretrainSettings) -> _Start:
    """Open the inputs, and make the model as it is before its first step.

    Raises:
        WordpipeError: its class and its hint say what to do.
    """
    source = job.open_input(path, ["tokens"])
    data = source.read(TOKENIZER)
    tokenizer = open_tokenizer(data, where=str(source.path / TOKENIZER))
    teacher = _teacher_of(job, settings, tokenizer)
    model, begin, special = _first_model(job, settings, tokenizer, data, teacher)
    task = Task(settings, n_tokens=number_of_ids(tokenizer), special=special)
    config, seq_len = trained_shape(settings, model.config, None if begin is None else begin.log.get("seq_len"))
    parent = None if settings.init is None else job.inputs[-1].digest
    answers = isinstance(settings, CausalSettings) and "ids_b" in read_schema(source, "tokens").names
    if answers and TOKENIZER_B in source.names():
        raise ArtifactError(
            "the second texts have a vocabulary of their own, and a decoder has one for both", where=source.path,
            hint="tokenize the corpus with --vocabulary joint, or train an encoder-decoder: wordpipe train seq2seq",
        )  # fmt: skip
    trained: Any = with_special_ids(model, config, special)
    if isinstance(settings, ElectraSettings):
        from wordpipe.model import start_electra

        trained = start_electra(trained, settings.generator_size, settings.seed)
    return (_OnPairs if answers else _Start)(
        source, tokenizer, data, special, task, trained, begin, seq_len,
        seed=settings.seed if parent is None else seed_of(settings.seed, "init", parent), settings=settings,
        frame=FRAMES["framed source" if answers else config.architecture],
        teacher=None if teacher is None else teacher.model,
    )  # fmt: skip


def _teacher_of(job: Job, settings: PretrainSettings, tokenizer: Tokenizer) -> "Given | None":
    """The model that `--teacher` names, if there is one."""
    if not isinstance(settings, MaskedSettings) or settings.teacher is None:
        return None
    from wordpipe.stages.train.initial_weights import given_model, refuse_other_streams

    given = given_model(job, settings.teacher, tokenizer, "encoder", settings.seed)
    refuse_other_streams(given.model.config, settings.teacher, wanted=False)
    return given


def _first_model(
    job: Job, settings: PretrainSettings, tokenizer: Tokenizer, data: bytes, teacher: "Given | None"
) -> tuple[LanguageModel, Snapshot | None, SpecialIds]:
    """The model before its first step, the training that it goes on with, and the special ids."""
    architecture: Architecture = "encoder" if isinstance(settings, MaskedSettings) else "decoder"
    if teacher is not None:
        from wordpipe.training.pretraining import start_from_teacher, student_config

        shape = student_config(teacher.model.config, settings.n_layers)
        student = start_from_teacher(teacher.model, shape, settings.seed)
        job.note(
            f"a student of {shape.n_layers} layers, which begins with some of its teacher's {teacher.model.config.n_layers}"
        )
        return student, None, special_ids(tokenizer, architecture, teacher.special)
    if settings.init is not None:
        from wordpipe.stages.train.initial_weights import given_model, refuse_other_streams

        given = given_model(job, settings.init, tokenizer, architecture, settings.seed)
        refuse_other_streams(given.model.config, settings.init, wanted=isinstance(settings, PermutationSettings))
        has_pairs = isinstance(settings, MaskedSettings) and settings.pair != "none"
        start = with_pair_head(given.model, settings.seed, wanted=has_pairs)
        return start, None, special_ids(tokenizer, architecture, given.special)
    special = special_ids(tokenizer, architecture)
    if settings.extend is not None:
        from wordpipe.stages.train.initial_weights import extended_training

        extended, begin = extended_training(job, settings.extend, settings)
        return one_stack(extended), begin, special
    config = model_config(settings, architecture, n_tokens=number_of_ids(tokenizer), special=special)
    words = None if settings.init_embeddings is None else job.open_input(settings.init_embeddings, ["words"])
    model = fresh_model(config, settings.seed)
    if words is not None:
        from wordpipe.stages.train.initial_weights import start_from_words

        start_from_words(job, model, words, tokenizer, data, settings.seed)
    return model, None, special


def _note_shape(job: Job, training: Trainer[LanguageLearner], step: str) -> None:
    """Say and record what is going to be trained; `step` is what one consists of."""
    config, plan = training.learner.model.config, training.plan
    weights = sum(weight.numel() for weight in training.learner.model.parameters())
    job.counts |= {"steps": plan.steps, "parameters": weights}
    job.device = str(training.execution.device)
    job.facts |= {
        "n_layers": config.n_layers, "n_heads": config.n_heads, "n_kv_heads": config.n_kv_heads, "ffn_dim": config.ffn_dim,
        "positions": config.positions, "seq_len": plan.seq_len, "batch_size": plan.batch_size, "lr": plan.lr,
        "dtype": training.execution.facts()["dtype"], "processes": training.world.size,
    }  # fmt: skip
    several = "" if training.world.is_alone else f", {training.world.size} processes"
    job.note(
        f"{config.architecture} of {config.n_layers} layers, width {config.dim}, {weights / 1e6:.1f}M weights: "
        f"{training.length(step)} on {job.device} in {job.facts['dtype']}{several}"
    )
    if transformers_class(config) is None:
        job.warn(why_no_class(config))
    if training.extended_from is not None:
        job.facts["extended_from"] = training.extended_from


def _announce(job: Job, start: _Start, streams: Mapping[str, Stream], training: Trainer[LanguageLearner]) -> None:
    """Say and record what is going to be trained, and what it is compared with."""
    plan, blocks = training.plan, training.learner.blocks
    job.counts |= {"sequences": len(blocks), "tokens_repeated_to_fill": blocks.n_repeated}
    job.facts["tokens_per_step"] = plan.tokens_per_step
    _note_shape(job, training, f"{plan.tokens_per_step:,} tokens")
    if not isinstance(start.settings, ElectraSettings):  # whose loss is of several parts
        compare_with_frequencies(job, streams["train"].counts, plan.label_smoothing)
    _warn_of_the_plan(job, start.seq_len, streams["train"].n_ids, training)
    if not streams["valid"].n_ids:
        job.note(
            "no document is held out, so there is no validation loss; ingest more documents, or with a larger --valid"
        )


def _warn_of_the_plan(job: Job, seq_len: int, text: int, training: Trainer[LanguageLearner]) -> None:
    """What was asked for that the text, or the length of the training, does not give."""
    plan, blocks = training.plan, training.learner.blocks
    if plan.seq_len < seq_len:
        job.warn(f"the text is too short for sequences of {seq_len:,}: they have {plan.seq_len:,} positions")
    elif blocks.n_repeated > text // 10:
        job.warn(
            f"the last sequence repeats {blocks.n_repeated:,} of {text:,} tokens to be full: --seq-len is long for this text"
        )
    if plan.batch_size > len(blocks):
        job.warn(
            f"a batch of {plan.batch_size:,} takes each of the {len(blocks):,} sequences several times in one step"
        )
    if plan.warmup >= plan.steps > 1 and training.limit is None:
        job.warn(f"the warm-up of {plan.warmup:,} steps is the whole training: the learning rate never falls")


def _tokenizer_files(start: _Start) -> dict[str, bytes]:
    """The tokenizer for the model's folder, which adds what each training sequence had."""
    config = start.model.config
    ids = config.special_ids | {"unk": start.special.unk}
    tokenizer, names = framed_tokenizer(start.tokenizer_json, ids, frame=start.frame, vocab_size=config.vocab_size)
    side = "left" if config.causal else "right"  # a decoder goes on from the last position
    return transformers_files(tokenizer, names, max_len=config.max_len, padding_side=side)
