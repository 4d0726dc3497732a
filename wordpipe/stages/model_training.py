"""The work of training a transformer, shared out to one process or several, with its reports."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts.layout import STEPS
from wordpipe.artifacts.manifest import TOKENIZER
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches, row_count
from wordpipe.metrics.language import perplexity
from wordpipe.model.config import ROLES, Architecture, ModelConfig
from wordpipe.model.formats.families import native_class, why_not
from wordpipe.model.initialise import new_model
from wordpipe.model.language_model import LanguageModel
from wordpipe.model.seeds import seed_of
from wordpipe.report.sparkline import trend
from wordpipe.runtime import StopFlag, stop_signal
from wordpipe.stages.making import Job, PathLike
from wordpipe.stages.model_start import Start, check_memory, extended_training, given_model, start_from_words
from wordpipe.tokens.formats.reading import open_tokenizer
from wordpipe.tokens.formats.writing import special_names
from wordpipe.tokens.vocabulary import number_of_ids
from wordpipe.training.assemble import assemble
from wordpipe.training.execution import make_execution
from wordpipe.training.lengths import fitted
from wordpipe.training.loop import Training
from wordpipe.training.parallel import World
from wordpipe.training.plan import SpecialIds, model_config
from wordpipe.training.settings import MaskedSettings, PretrainSettings
from wordpipe.training.state import Snapshot
from wordpipe.training.step import Step
from wordpipe.training.stream import Stream, unigram_entropy, write_streams
from wordpipe.training.tasks import Task, make_task
from wordpipe.training.verify import refuse_inexact, verify_resume
from wordpipe.training.word_starts import WordStarts

__all__ = ["Telling", "Work", "announce", "check_resume", "prepare", "train"]


@dataclass(frozen=True)
class Work:
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
        streams = {
            split: asdict(replace(stream, counts=np.zeros(0, dtype=np.int64)))
            | {"path": str(stream.path), "starts_path": stream.starts_path and str(stream.starts_path), "counts": None}
            for split, stream in self.streams.items()
        }
        return {
            "config": asdict(self.config), "special": asdict(self.special), "n_tokens": self.n_tokens,
            "streams": streams, "seq_len": self.seq_len, "scratch": str(self.scratch), "seed": self.seed,
        }  # fmt: skip

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Work":
        """What `to_json` made, in another process."""
        streams = {
            split: Stream(**stream | {
                "path": Path(stream["path"]), "counts": np.zeros(0, dtype=np.int64),
                "starts_path": stream["starts_path"] and Path(stream["starts_path"]),
            })
            for split, stream in values["streams"].items()
        }  # fmt: skip
        config = ModelConfig(**values["config"] | {"windows": tuple(values["config"]["windows"])})
        special = SpecialIds(**values["special"])
        return cls(
            config, special, values["n_tokens"], streams, values["seq_len"], Path(values["scratch"]), values["seed"]
        )

    def start(self) -> Start:
        """In a process that follows: a model whose weights the first process fills."""
        return Start(LanguageModel(self.config))

    def training(
        self, settings: PretrainSettings, model: LanguageModel, world: World, *, state_dir: Path | None = None,
        run_key: str = "", begin: Snapshot | None = None, warn: Any = None, tick: Any = None,
    ) -> Training:  # fmt: skip
        """The training, ready to run; what only the first process has is left out in the others."""
        return assemble(
            settings,
            self.task(settings),
            model,
            self.streams["train"].open(),
            self.streams["valid"].open(),
            seq_len=self.seq_len,
            word_starts=self.streams["train"].open_starts(),
            execution=make_execution(settings, world),
            state_dir=state_dir or self.scratch,
            run_key=run_key,
            world=world,
            begin=begin,
            unigram_entropy=self.entropy if world.leads else None,
            warn=warn,
            tick=tick,
            seed=self.seed,
        )

    def task(self, settings: PretrainSettings) -> Task:
        """What is trained."""
        return make_task(settings, n_tokens=self.n_tokens, special=self.special)

    @property
    def entropy(self) -> float:
        """Of single tokens, in nats."""
        return unigram_entropy(self.streams["train"].counts)


def prepare(job: Job, path: PathLike, settings: PretrainSettings) -> tuple[Start, Work]:
    """Open the inputs, write the streams of ids, and make the model as it is before its first step.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    source = job.open_input(path, ["tokens"])
    data = source.read(TOKENIZER)
    tokenizer = open_tokenizer(data, where=str(source.path / TOKENIZER))
    model, begin, special = _first_model(job, settings, tokenizer, data)
    n_tokens = number_of_ids(tokenizer)
    task = make_task(settings, n_tokens=n_tokens, special=special)
    config, seq_len = fitted(settings, model.config, None if begin is None else begin.log.get("seq_len"))
    # a folder may not say which ids it was trained with, or name some that its tokenizer lacks
    ids = {f"{role}_id": getattr(special, role) for role in ROLES}
    config = replace(config, **ids)
    if config != model.config:
        model = _with_config(model, config)
    streams = _write_streams(job, source, task, tokenizer)
    parent = None if settings.init is None else job.inputs[-1].digest
    seed = settings.seed if parent is None else seed_of(settings.seed, "init", parent)
    return Start(model, begin, data), Work(config, special, n_tokens, streams, seq_len, job.scratch, seed)


def _first_model(
    job: Job, settings: PretrainSettings, tokenizer: Tokenizer, data: bytes
) -> tuple[LanguageModel, Snapshot | None, SpecialIds]:
    """The model before its first step, the training that it goes on with, and the special ids."""
    architecture: Architecture = "encoder" if isinstance(settings, MaskedSettings) else "decoder"
    names = special_names(tokenizer)
    roles: dict[str, int | None] = {role: tokenizer.token_to_id(name) for role, name in names.items()}
    if settings.init is not None:
        given = given_model(job, settings.init, tokenizer, architecture, settings.seed)
        return given.model, None, SpecialIds(**{**roles, **given.special}).completed(architecture)
    special = SpecialIds(**roles).completed(architecture)
    if settings.extend is not None:
        return *extended_training(job, settings.extend, settings), special
    config = model_config(settings, architecture, n_tokens=number_of_ids(tokenizer), special=special)
    words = None if settings.init_embeddings is None else job.open_input(settings.init_embeddings, ["words"])
    check_memory(config)
    model = new_model(config, settings.seed)
    if words is not None:
        start_from_words(job, model, words, tokenizer, data, settings.seed)
    return model, None, special


def _with_config(model: LanguageModel, config: ModelConfig) -> LanguageModel:
    """The same weights in a model that differs in what has none: dropout, length."""
    other = LanguageModel(config)
    other.load_state_dict(model.state_dict())
    return other


def _write_streams(job: Job, source: Artifact, task: Task, tokenizer: Tokenizer) -> dict[str, Stream]:
    """The training and held-out ids as flat files that are mapped into memory."""
    paths = {split: job.scratch / f"{split}.ids" for split in ("train", "valid")}
    streams = write_streams(
        _rows(job, source),
        paths,
        vocab_size=number_of_ids(tokenizer),
        before=task.before,
        after=task.after,
        find_starts=WordStarts(tokenizer) if task.needs_word_starts else None,
    )
    for split, stream in streams.items():
        job.counts |= {f"tokens_{split}": stream.n_tokens, f"documents_{split}": stream.n_documents}
    job.counts["sentences_empty"] = sum(stream.n_empty for stream in streams.values())
    return streams


def _rows(job: Job, source: Artifact) -> Iterator[pa.RecordBatch]:
    total, done = row_count(source, "tokens"), 0
    for batch in read_batches(source, "tokens", ["doc_id", "sentence_id", "split", "ids"]):
        yield batch
        done += len(batch)
        job.report("preparing", done, total, "sentences")


def check_resume(job: Job | None, start: Start, work: Work, settings: PretrainSettings, world: World) -> None:
    """`--verify-resume`: prove on this text and machine that a stopped training ends with the same bytes.

    Raises:
        ConfigError, WordpipeError: it does not.
    """
    if not settings.verify_resume:
        return

    def make(folder: Path) -> Training:
        return work.training(settings, start.model(), world, state_dir=folder, run_key="verify", begin=start.begin)

    if job is not None:
        job.note("verifying resume: a few steps in one go, and with everything read back from the disk between")
    check = verify_resume(make, work.scratch / "verify")
    refuse_inexact(check, make_execution(settings, world).bitwise)
    if job is not None and not check.steps:
        job.warn("the training is too short for its resume to be verified")
    elif job is not None:
        job.facts["resume_verified_steps"] = check.steps
        job.note(
            f"resume verified: {check.steps} steps in one go, and {check.steps // 2} + {check.steps // 2} with everything "
            "read back from the disk between, gave the same bytes"
        )


def announce(job: Job, work: Work, training: Training) -> None:
    """Say and record what is going to be trained, and what it is compared with."""
    config, plan = training.model.config, training.plan
    weights = sum(weight.numel() for weight in training.model.parameters())
    job.counts |= {"steps": plan.steps, "sequences": len(training.blocks), "parameters": weights}
    job.counts["tokens_repeated_to_fill"] = training.blocks.n_repeated
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


def _warn_of_the_plan(job: Job, work: Work, training: Training) -> None:
    """What was asked for that the text, or the length of the training, does not give."""
    plan, blocks, text = training.plan, training.blocks, work.streams["train"].n_ids
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


class Telling:
    """Tells how far a training is: the step at every step, what was measured whenever it is."""

    def __init__(self, job: Job) -> None:
        self.job, self.steps = job, 0
        self._figures: dict[str, str] = {}

    def tick(self, step: int) -> None:
        """A step is done."""
        self.job.report("training", step, self.steps, "steps", **self._figures)

    def report(self, step: Step) -> None:
        """Something was measured."""
        if step.split == "valid":
            hesitates = f", perplexity {value:.1f}" if (value := perplexity(step.loss)) is not None else ""
            self.job.note(f"step {step.step:,}: validation loss {step.loss:.4f}{hesitates}")
            return
        self._figures = {"loss": f"{step.loss:.3f}", "lr": f"{step.lr:.2e}", "tokens/s": f"{step.tokens_per_s:,.0f}"}
        if step.reachable is not None:
            self._figures["of reachable"] = f"{step.reachable:.0%}"
        if step.waiting is not None:
            self._figures["waiting"] = f"{step.waiting:.0%}"
        self.tick(step.step)


def train(telling: Telling | None, training: Training) -> None:
    """Train to the end; the first process tells, and writes the log of all runs that the training took."""
    if telling is None:
        with stop_signal(lambda _: None) as flag:
            _run_out(training, flag)
        return
    job, telling.steps = telling.job, training.plan.steps
    with stop_signal(lambda _: job.note("stopping after this step, saving (press again to stop now)")) as flag:
        telling.tick(training.step)
        for step in training.steps(flag):
            telling.report(step)
    job.bitwise = training.bitwise
    if training.skipped:
        job.counts["steps_skipped_overflow"] = training.skipped
    with job.table("steps", STEPS, single=True, log=True) as log:
        rows = [{name: getattr(step, name) for name in STEPS.names} for step in training.history]
        log.write(pa.RecordBatch.from_pylist(rows, schema=STEPS))
    _figures(job, training)


def _run_out(training: Training, flag: StopFlag) -> None:
    for _ in training.steps(flag):
        pass


def _figures(job: Job, training: Training) -> None:
    """The course of the loss, its last figures, and the speed over all."""
    for split, prefix in (("train", ""), ("valid", "valid_")):
        losses = [step.loss for step in training.history if step.split == split]
        if losses:
            job.metrics[f"{prefix}loss"] = round(losses[-1], 6)
    job.note(trend("loss", [step.loss for step in training.history if step.split == "train"], width=40))
    if "valid_loss" in job.metrics and (ppl := perplexity(job.metrics["valid_loss"])) is not None:
        job.metrics["perplexity"] = round(ppl, 3)
    last = training.history[-1]
    job.rates = {"tokens_per_s": round(last.tokens / max(last.seconds, 1e-9), 1)}
