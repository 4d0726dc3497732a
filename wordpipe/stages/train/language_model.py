"""`wordpipe train mlm` and `wordpipe train clm`: tokens → model, in one process or several."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, Artifact
from wordpipe.metrics import perplexity
from wordpipe.model import Architecture, LanguageModel, ModelConfig, native_class, new_model, save_hf, seed_of, why_not
from wordpipe.runtime import stop_signal
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.train.initial_weights import (
    check_memory,
    extended_training,
    given_model,
    special_ids,
    start_from_words,
    state_files,
    with_special_ids,
)
from wordpipe.stages.train.run import TrainingRun, token_rows
from wordpipe.tokens import framed_tokenizer, number_of_ids, open_tokenizer, transformers_files
from wordpipe.training import (
    LanguageLearner,
    Snapshot,
    SpecialIds,
    Stream,
    Task,
    Trainer,
    WordStarts,
    World,
    assemble,
    fitted,
    join_world,
    make_execution,
    model_config,
    unigram_entropy,
    write_streams,
)
from wordpipe.training.settings import CausalSettings, MaskedSettings, PretrainSettings


def train_mlm(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a bidirectional transformer by masked language modelling.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `MaskedSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    return _train("train mlm", tokens, output, MaskedSettings.make(settings), run)


def train_clm(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a causal transformer by next-token prediction.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `CausalSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    return _train("train clm", tokens, output, CausalSettings.make(settings), run)


def _train(command: str, path: PathLike, output: PathLike, settings: PretrainSettings, run: RunOptions | None) -> Made:
    """Train as the one process, as the first of several, or along with the first, which reads and writes for all."""
    with join_world(settings.device) as world:
        if not world.leads:
            work = _Work.from_json(world.first_does(lambda: None))
            training = work.training(settings, LanguageModel(work.config), world)  # the first process fills its weights
            with stop_signal(lambda _: None) as flag:
                for _ in training.steps(flag):
                    pass
            return Made(**world.share(None))
        with ExitStack() as stack:
            begun: list[tuple[Job, _Prepared]] = []

            def begin() -> dict[str, Any]:
                job = stack.enter_context(open_job("model", command, output, settings, run))
                job.libraries = ("torch", "safetensors", "tokenizers", "numpy", "pyarrow")
                begun.append((job, _prepare(job, path, settings)))
                return begun[0][1][0].to_json()

            world.first_does(begin)  # what goes wrong here ends the other processes too
            [(job, (work, model, begin_with, data))] = begun
            tokenizer_files = _tokenizer_files(data, work)  # what cannot be written is better known now
            telling = TrainingRun(job)
            training = work.training(
                settings, model, world, state_dir=job.partial, run_key=job.recipe, begin=begin_with,
                warn=job.warn, tick=telling.tick,
            )  # fmt: skip
            _announce(job, work, training)
            telling.train(training)
            _write(job, training, tokenizer_files, settings)
        world.share(asdict(job.made))
        return job.made


@dataclass(frozen=True)
class _Work:
    """What every process of a training knows; the first one prepares it and tells the others.

    Attributes:
        config: of the model.
        special: the tokenizer's special ids.
        n_tokens: its ids.
        streams: split → its file of ids.
        seq_len: positions of a sequence.
        scratch: a folder for the time of the training.
        seed: of order, masks and dropout. One that starts from a model's weights does not see its text again in the very
            order, and behind the very masks, that the model was trained with.
    """

    config: ModelConfig
    special: SpecialIds
    n_tokens: int
    streams: Mapping[str, Stream]
    seq_len: int
    scratch: Path
    seed: int

    def to_json(self) -> dict[str, Any]:
        """As JSON values; the counts of the tokens stay here."""
        return json.loads(json.dumps(asdict(self), default=lambda value: str(value) if isinstance(value, Path) else []))  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "_Work":
        """What `to_json` made, in another process."""
        streams = {
            split: Stream(**stream | {"path": Path(stream["path"]), "counts": np.zeros(0, np.int64),
                                      "starts_path": stream["starts_path"] and Path(stream["starts_path"])})
            for split, stream in values["streams"].items()
        }  # fmt: skip
        config = ModelConfig(**values["config"] | {"windows": tuple(values["config"]["windows"])})
        special, scratch = SpecialIds(**values["special"]), Path(values["scratch"])
        return cls(config, special, values["n_tokens"], streams, values["seq_len"], scratch, values["seed"])

    def training(
        self, settings: PretrainSettings, model: LanguageModel, world: World, *, state_dir: Path | None = None,
        run_key: str = "", begin: Snapshot | None = None, warn: Any = None, tick: Any = None,
    ) -> Trainer[LanguageLearner]:  # fmt: skip
        """The training, ready to run; what only the first process has is left out in the others."""
        return assemble(
            settings, self.task(settings), model, self.streams["train"].open(), self.streams["valid"].open(),
            seq_len=self.seq_len, word_starts=self.streams["train"].open_starts(),
            execution=make_execution(settings, world), state_dir=state_dir or self.scratch, run_key=run_key,
            world=world, begin=begin, unigram_entropy=self.entropy if world.leads else None, warn=warn, tick=tick,
            seed=self.seed,
        )  # fmt: skip

    def task(self, settings: PretrainSettings) -> Task:
        """What is trained."""
        return Task(settings, n_tokens=self.n_tokens, special=self.special)

    @property
    def entropy(self) -> float:
        """Of single tokens, in nats."""
        return unigram_entropy(self.streams["train"].counts)


_Prepared = tuple[_Work, LanguageModel, Snapshot | None, bytes]


def _prepare(job: Job, path: PathLike, settings: PretrainSettings) -> _Prepared:
    """Open the inputs, write the streams of ids, and make the model as it is before its first step.

    Returns:
        What all processes know; the model; the end of the finished training that is extended, or None; the tokenizer's file.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    source = job.open_input(path, ["tokens"])
    data = source.read(TOKENIZER)
    tokenizer = open_tokenizer(data, where=str(source.path / TOKENIZER))
    model, begin, special = _first_model(job, settings, tokenizer, data)
    n_tokens = number_of_ids(tokenizer)
    task = Task(settings, n_tokens=n_tokens, special=special)
    config, seq_len = fitted(settings, model.config, None if begin is None else begin.log.get("seq_len"))
    model = with_special_ids(model, config, special)
    streams = _write_streams(job, source, task, tokenizer)
    parent = None if settings.init is None else job.inputs[-1].digest
    seed = settings.seed if parent is None else seed_of(settings.seed, "init", parent)
    work = _Work(model.config, special, n_tokens, streams, seq_len, job.scratch, seed)
    return work, model, begin, data


def _first_model(
    job: Job, settings: PretrainSettings, tokenizer: Tokenizer, data: bytes
) -> tuple[LanguageModel, Snapshot | None, SpecialIds]:
    """The model before its first step, the training that it goes on with, and the special ids."""
    architecture: Architecture = "encoder" if isinstance(settings, MaskedSettings) else "decoder"
    if settings.init is not None:
        given = given_model(job, settings.init, tokenizer, architecture, settings.seed)
        return given.model, None, special_ids(tokenizer, architecture, given)
    special = special_ids(tokenizer, architecture)
    if settings.extend is not None:
        return *extended_training(job, settings.extend, settings), special
    config = model_config(settings, architecture, n_tokens=number_of_ids(tokenizer), special=special)
    words = None if settings.init_embeddings is None else job.open_input(settings.init_embeddings, ["words"])
    check_memory(config)
    model = new_model(config, settings.seed)
    if words is not None:
        start_from_words(job, model, words, tokenizer, data, settings.seed)
    return model, None, special


def _write_streams(job: Job, source: Artifact, task: Task, tokenizer: Tokenizer) -> dict[str, Stream]:
    """The training and held-out ids as flat files that are mapped into memory."""
    paths = {split: job.scratch / f"{split}.ids" for split in ("train", "valid")}
    streams = write_streams(
        token_rows(job, source, "ids"), paths, vocab_size=number_of_ids(tokenizer), before=task.before, after=task.after,
        find_starts=WordStarts(tokenizer) if task.needs_word_starts else None,
    )  # fmt: skip
    for split, stream in streams.items():
        job.counts |= {f"tokens_{split}": stream.n_tokens, f"documents_{split}": stream.n_documents}
    job.counts["sentences_empty"] = sum(stream.n_empty for stream in streams.values())
    return streams


def _announce(job: Job, work: _Work, training: Trainer[LanguageLearner]) -> None:
    """Say and record what is going to be trained, and what it is compared with."""
    config, plan = training.learner.model.config, training.plan
    weights = sum(weight.numel() for weight in training.learner.model.parameters())
    job.counts |= {"steps": plan.steps, "sequences": len(training.learner.blocks), "parameters": weights}
    job.counts["tokens_repeated_to_fill"] = training.learner.blocks.n_repeated
    job.device, job.threads = str(training.execution.device), training.threads
    job.facts |= {
        "n_layers": config.n_layers, "n_heads": config.n_heads, "n_kv_heads": config.n_kv_heads, "ffn_dim": config.ffn_dim,
        "positions": config.positions, "seq_len": plan.seq_len, "batch_size": plan.batch_size, "lr": plan.lr,
        "unigram_entropy": round(work.entropy, 6), "tokens_per_step": plan.tokens_per_step,
        "dtype": training.execution.facts()["dtype"], "processes": training.world.size,
    }  # fmt: skip
    several = "" if training.world.is_alone else f", {training.world.size} processes"
    job.note(
        f"{config.architecture} of {config.n_layers} layers, width {config.dim}, {weights / 1e6:.1f}M weights: "
        f"{plan.steps:,} steps of {plan.tokens_per_step:,} tokens on {job.device} in {job.facts['dtype']}{several}"
    )
    job.note(f"a model that knows only how frequent each token is has loss {work.entropy:.3f}")
    if native_class(config) is None:
        job.warn(why_not(config))
    _warn_of_the_plan(job, work, training)
    if not work.streams["valid"].n_ids:
        job.note(
            "no document is held out, so there is no validation loss; ingest more documents, or with a larger --valid"
        )
    for text in training.notes:
        job.warn(text)
    if training.extended_from is not None:
        job.facts["extended_from"] = training.extended_from
    if training.resumed_from is not None:
        job.note(f"continuing a stopped run at step {training.resumed_from:,}")


def _warn_of_the_plan(job: Job, work: _Work, training: Trainer[LanguageLearner]) -> None:
    """What was asked for that the text, or the length of the training, does not give."""
    plan, blocks, text = training.plan, training.learner.blocks, work.streams["train"].n_ids
    if plan.seq_len < work.seq_len:
        job.warn(f"the text is too short for sequences of {work.seq_len:,}: they have {plan.seq_len:,} positions")
    elif blocks.n_repeated > text // 10:
        job.warn(
            f"the last sequence repeats {blocks.n_repeated:,} of {text:,} tokens to be full: --seq-len is long for this text"
        )
    if plan.batch_size > len(blocks):
        job.warn(
            f"a batch of {plan.batch_size:,} takes each of the {len(blocks):,} sequences several times in one step"
        )
    if plan.warmup >= plan.steps > 1:
        job.warn(f"the warm-up of {plan.warmup:,} steps is the whole training: the learning rate never falls")


def _write(
    job: Job, training: Trainer[LanguageLearner], tokenizer_files: Mapping[str, bytes], settings: PretrainSettings
) -> None:
    """The files of the model's folder."""
    if training.learner.skipped:
        job.counts["steps_skipped_overflow"] = training.learner.skipped
    if "valid_loss" in job.metrics and (ppl := perplexity(job.metrics["valid_loss"])) is not None:
        job.metrics["perplexity"] = round(ppl, 3)
    config = training.learner.model.config
    save_hf(training.learner.model, config, job.write)
    for name, content in tokenizer_files.items():
        job.write(name, content)
    if settings.keep_state:
        for name, data, log in state_files(training.snapshot()):
            job.write(name, data, log=log)
    job.facts |= {
        "dim": config.dim, "architecture": config.architecture, "max_len": config.max_len,
        "transformers": native_class(config),
    }  # fmt: skip


def _tokenizer_files(data: bytes, work: _Work) -> dict[str, bytes]:
    """The tokenizer for the model's folder, which adds what each training sequence had."""
    config = work.config
    ids = config.special_ids | {"unk": work.special.unk}
    tokenizer, names = framed_tokenizer(data, ids, causal=config.causal, vocab_size=config.vocab_size)
    side = "left" if config.causal else "right"  # a decoder goes on from the last position
    return transformers_files(tokenizer, names, max_len=config.max_len, padding_side=side)
