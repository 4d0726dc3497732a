"""The commands `train classifier`, `tagger` and `reader`: a labelled corpus and a trained model → a model with a head."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from tokenizers import Tokenizer

from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.heads import (
    ExampleWriter,
    HeadLearner,
    LabelledExamples,
    SeenRows,
    head_trainer,
    open_examples,
)
from wordpipe.heads.settings import ClassifierSettings, HeadSettings, ReaderSettings, TaggerSettings
from wordpipe.model import HeadConfig, LanguageModel, headed_class, save_headed, seed_of, start_headed
from wordpipe.runtime import keep_torch_cache
from wordpipe.stages.inputs import open_corpus
from wordpipe.stages.job import Job, Made, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import SourceLike
from wordpipe.stages.train.head_tasks import ClassifierTask, HeadTask, ReaderTask, TaggerTask
from wordpipe.stages.train.labelled import Labelled, check_contradictions, read_labelled
from wordpipe.stages.train.run import ending_of, train_to_end, write_log
from wordpipe.stages.train.start import open_given
from wordpipe.stages.train.static_heads import StaticStart, names_word_vectors
from wordpipe.tokens import transformers_files
from wordpipe.training import Step, Trainer, make_execution

_AT_ONCE = 1024  # records that are encoded together


@public(ClassifierSettings)
def train_classifier(corpus: SourceLike, *, output: Any, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a classifier of texts, or of pairs of texts, on a trained transformer or on word vectors.

    A run that was stopped is continued by the same call, exactly.

    Args:
        corpus: a corpus with labels (`ingest --label-field`), and with second texts where pairs are labelled.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `ClassifierSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> rows = [{"text": f"{i} is {w}", "label": w} for i in range(30) for w in ("red", "blue")]
        >>> _ = wordpipe.ingest(rows, output="new/labelled", label_field="label")
        >>> made = wordpipe.train_classifier("new/labelled", output="new/colours", init="run/model", epochs=1)
        >>> made.kind, made.counts["labels"]
        ('model', 2)
    """
    return train_head(ClassifierTask, corpus, output, run, settings)


@public(TaggerSettings)
def train_tagger(corpus: SourceLike, *, output: Any, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a tagger of words (names, parts of speech) on a trained transformer or on word vectors.

    A run that was stopped is continued by the same call, exactly.

    Args:
        corpus: a corpus with a tag for each word, as white space parts them (`ingest --tags-field`).
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `TaggerSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> rows = [{"text": f"see Rome {i}", "tags": ["O", "B-LOC", "O"]} for i in range(40)]
        >>> _ = wordpipe.ingest(rows, output="new/tagged", tags_field="tags")
        >>> made = wordpipe.train_tagger("new/tagged", output="new/names", init="run/model", epochs=1)
        >>> made.kind, made.counts["labels"]
        ('model', 2)
    """
    return train_head(TaggerTask, corpus, output, run, settings)


@public(ReaderSettings)
def train_reader(corpus: SourceLike, *, output: Any, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a reader, which finds the answers of questions in passages, on a trained transformer.

    A run that was stopped is continued by the same call, exactly.

    Args:
        corpus: passages with questions and answers: SQuAD's JSON, or records with `text_b` (the question) and `spans` (the
            answers that are right; an empty list: there is none).
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `ReaderSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> rows = [{"text": f"{i}: {n} is here.", "q": "Who?", "a": [[len(f"{i}: "), len(f"{i}: {n}"), None]]}
        ...         for i, n in enumerate(["Ada", "Ben", "Eve"] * 20)]
        >>> _ = wordpipe.ingest(rows, output="new/asked", text_b="q", spans_field="a")
        >>> made = wordpipe.train_reader("new/asked", output="new/reader", init="run/model", epochs=1)
        >>> made.kind, made.counts["windows"]
        ('model', 60)
    """
    return train_head(ReaderTask, corpus, output, run, settings)


class Start(Protocol):
    """The start of the heads of all seeds: a transformer, or word vectors.

    Attributes:
        unit: what texts are read as, in words.
    """

    unit: str

    def resolved(self, settings: HeadSettings, n_texts: int) -> HeadSettings:
        """Return the settings with all defaults. Raises ConfigError: some do not go together."""
        ...

    def prepare(self, job: Job, labelled: Labelled, task: HeadTask) -> None:
        """Look at the texts, where that is needed before they are encoded."""
        ...

    def encoder(self, settings: HeadSettings, task: HeadTask) -> Any:
        """Return what turns records into ids, see `TextEncoder`."""
        ...

    def trainer(
        self, settings: HeadSettings, head: HeadConfig, task: HeadTask, labelled: Labelled, examples: LabelledExamples,
        held_out: LabelledExamples, **given: Any,
    ) -> Trainer[HeadLearner[Any]]:  # fmt: skip
        """Return a training of a fresh head on a transformer; `given`: see `head_trainer`."""
        ...

    def shown(self, learner: HeadLearner[Any]) -> str:
        """Return the kind and the size of the trained model, in words."""
        ...

    def numbers(self, learner: HeadLearner[Any]) -> tuple[int, int]:
        """Return the number of weights, and of those that are trained."""
        ...

    def save(self, job: Job, learner: HeadLearner[Any]) -> dict[str, Any]:
        """Write the model's folder, and return its facts."""
        ...


@dataclass
class _TransformerStart:
    """The start of a head on a transformer, with its tokenizer."""

    base: LanguageModel
    tokenizer: Tokenizer
    names: dict[str, str]  # role → special token
    unit = "tokens"
    _seen: SeenRows | None = field(default=None, init=False)

    def resolved(self, settings: HeadSettings, n_texts: int) -> HeadSettings:
        most = self.base.config.max_len
        if (wanted := settings.seq_len or most) > most:
            raise ConfigError(
                "the model cannot read sequences of this length", where="seq_len", got=wanted,
                expected=f"at most {most}",
            )  # fmt: skip
        return settings.of_transformer(n_texts).model_copy(update={"seq_len": wanted})

    def prepare(self, job: Job, labelled: Labelled, task: HeadTask) -> None:
        """Do nothing, see `Start`: the tokenizer knows all texts."""

    def encoder(self, settings: HeadSettings, task: HeadTask) -> Any:
        assert settings.seq_len is not None
        # a copy: cutting is a setting of the tokenizer, and what the folder gets cuts nothing
        return task.encoder(Tokenizer.from_str(self.tokenizer.to_str()), settings.seq_len)

    def trainer(
        self, settings: HeadSettings, head: HeadConfig, task: HeadTask, labelled: Labelled, examples: LabelledExamples,
        held_out: LabelledExamples, **given: Any,
    ) -> Trainer[HeadLearner[Any]]:  # fmt: skip
        execution = make_execution(settings)
        # a start of its own for each seed: the head's weights are drawn by it
        model = start_headed(self.base, head, seed_of(given["seed"], "start"), settings.dropout)
        task.prepare(model, labelled)
        objective = task.objective(labelled, execution.device)
        if self._seen is None:  # of all seeds the same
            self._seen = SeenRows(self.base.embedding, (examples, held_out))
        return head_trainer(
            settings, model, objective, examples, held_out, execution=execution, seen=self._seen, **given
        )

    def numbers(self, learner: HeadLearner[Any]) -> tuple[int, int]:
        assert self._seen is not None
        weights, table, left_out = [*learner.model.parameters()], learner.model.embedding, self._seen.n_left_out
        trained = sum(one.numel() for one in weights if one.requires_grad) + left_out * table.requires_grad
        return sum(one.numel() for one in weights) + left_out, trained

    def shown(self, learner: HeadLearner[Any]) -> str:
        return f"{learner.model.config.architecture} of {learner.model.config.n_layers} layers"

    def save(self, job: Job, learner: HeadLearner[Any]) -> dict[str, Any]:
        """Write the folder of a model with a trained head."""
        assert self._seen is not None
        model = self._seen.whole(learner.model)
        save_headed(model, job.write)
        config = model.config
        side = "left" if config.causal else "right"
        files = transformers_files(
            self.tokenizer, self.names, max_len=config.max_len, padding_side=side, segments=config.segments > 0
        )
        for name, content in files.items():
            job.write(name, content)
        theirs = headed_class(model.language_config, model.head_config.kind)
        if theirs is None:
            job.warn("Hugging Face transformers has no class for this model, so only wordpipe can load the folder")
        return {
            "architecture": config.architecture, "dim": config.dim, "max_len": config.max_len, "n_layers": config.n_layers,
            "transformers": theirs,
        }  # fmt: skip


@dataclass
class _Training:
    """The training of a head with all seeds; its settings are resolved."""

    job: Job
    settings: HeadSettings
    task: HeadTask
    start: Start
    labelled: Labelled
    truncated: int = field(default=0, init=False)
    measured: int = field(default=0, init=False)

    @property
    def head(self) -> HeadConfig:
        """Return the head that is going to be trained."""
        return self.task.head(self.labelled, self.settings.dropout)

    def write_examples(self) -> tuple[LabelledExamples, LabelledExamples]:
        """Write the texts that a head learns from, and those held out, as flat files.

        Raises:
            InputError: no text is held out whose label is among those that are learned.
        """
        # what turns records into ids
        self.start.prepare(self.job, self.labelled, self.task)
        encoder = self.start.encoder(self.settings, self.task)
        width = self.task.width(self.labelled)
        writers = {held: ExampleWriter(self.job.scratch / f"examples-{int(held)}", width) for held in (False, True)}
        # each record to the file of its side
        cut = 0
        try:
            for records in self.labelled.batches(self.job, _AT_ONCE):
                for record, examples in zip(records, self.task.examples(records, encoder, self.labelled), strict=True):
                    for one, target in examples:
                        writers[record.held_out].add(one, target)
                        self.truncated += one.cut > 0
                        cut += one.cut
                    self.measured += record.held_out
        finally:  # of a run that fails, too: what tidies up needs descriptors
            for writer in writers.values():
                writer.close()
        # what was cut, and whether texts are held out
        self.job.counts |= {"texts_cut": self.truncated, "tokens_cut": cut} | self.task.counts
        if self.truncated:
            self.job.warn(self.task.cut_message(self.truncated, cut, self.settings.seq_len or 0, self.start.unit))
        train, held_out = (open_examples(self.job.scratch / f"examples-{int(held)}", width) for held in (False, True))
        if not len(held_out):
            raise InputError(
                "no held-out record has a label that occurs in the training records", where=self.labelled.source.path,
                got=f"{self.labelled.n_held_out} held-out records with other labels",
                hint="add more records, or use a larger --held-out",
            )  # fmt: skip
        return train, held_out

    def train_all(self, examples: LabelledExamples, held_out: LabelledExamples) -> Trainer[HeadLearner[Any]]:
        """Train a head for each seed, and return the best model."""
        best: Trainer[HeadLearner[Any]] | None = None
        scores: list[float] = []
        made = 0  # steps of all models
        job, limit, seeds = self.job, self.job.limit, self.settings.seeds
        # one model after the other; its share of the time is what the others leave
        for number in range(seeds):
            seed = self.settings.seed + number
            if seeds > 1:
                job.note(f"training model {number + 1} of {seeds} with seed {seed}")
            try:
                trainer = self.start.trainer(
                    self.settings, self.head, self.task, self.labelled, examples, held_out,
                    figures=lambda found, wanted: self.task.figures(found, wanted, self.labelled), seed=seed,
                    state_dir=job.partial / f"seed-{seed}", run_key=f"{job.recipe}-{seed}",
                    ending=ending_of(job, None if limit is None else limit.share(seeds - number)),
                )  # fmt: skip
            except ArtifactError:
                if best is None or not job.run.finish:
                    raise
                job.warn(f"the stopped run has no usable checkpoint for seed {seed}")
                break
            # the time that it took is no longer there for the others
            if limit is not None and trainer.limit is not None:
                limit.follow(trainer.limit)
            if not number:
                self._announce(trainer)
            # its best weights, compared with those of the models before
            train_to_end(job, trainer, _note_figures)
            trainer.learner.take_best()
            assert trainer.learner.best is not None
            scores.append(trainer.learner.best)
            made += trainer.step
            if best is None or trainer.learner.best > (best.learner.best or -np.inf):
                best = trainer
        # what is said of all models
        assert best is not None
        if best.finished_from is None and (len(scores) < seeds or trainer.finished_from is not None):
            job.end_early(made, seeds * best.planned, 0)  # the best is whole, but not all are
        if len(scores) > 1:
            self.job.metrics |= {
                "seeds_mean": round(float(np.mean(scores)), 6),
                "seeds_sd": round(float(np.std(scores)), 6),
            }
            shown = ", ".join(f"{score:.4f}" for score in scores)
            self.job.note(f"held-out scores of {len(scores)} seeds: {shown}; the model with the best score is kept")
        return best

    def finish(self, trainer: Trainer[HeadLearner[Any]]) -> None:
        """Measure a head's best weights, calibrate, and write the folder."""
        job, learner = self.job, trainer.learner
        write_log(job, trainer)
        # the figures of the best weights take the place of the last ones
        scores, wanted, loss = learner.measured()
        for name in [name for name in job.metrics if name in trainer.metrics]:
            del job.metrics[name]
        found = self.task.figures(scores, wanted, self.labelled)
        calibrated = self.task.calibrated(scores, wanted)
        job.metrics |= {"valid_loss": round(loss, 6)} | {
            f"valid_{name}": round(float(one), 6) for name, one in found.items()
        }
        job.metrics |= {f"valid_{name}": round(float(one), 6) for name, one in calibrated.figures.items()}
        # what is said and recorded
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in found.items())
        job.note(f"results on {self.measured:,} held-out texts: {shown}")
        if calibrated.note:
            job.note(calibrated.note)
        job.facts |= self.task.facts | {
            "task": self.task.name, "problem": self.head.problem, "labels": [*self.head.labels],
            "temperature": calibrated.temperature, "thresholds": calibrated.thresholds,
            "read_tokens": self.settings.seq_len, "epochs": self.settings.epochs, "lr": self.settings.lr,
            "pairs": self.labelled.pairs,
            "best_of": {"seed": trainer.plan.seed, "validation": learner.best_step},
            **self.start.save(job, learner),
        }  # fmt: skip

    def _announce(self, trainer: Trainer[HeadLearner[Any]]) -> None:
        """Note and record the head's training before its first step."""
        job, learner, plan = self.job, trainer.learner, trainer.plan
        job.device = str(learner.execution.device)
        weights, trained = self.start.numbers(learner)
        job.counts |= {"steps": plan.steps, "parameters": weights, "parameters_trained": trained}
        job.facts |= {
            "batch_size": plan.batch_size, "dtype": trainer.execution.facts()["dtype"], "epochs": self.settings.epochs,
            "lr": self.settings.lr,
        }  # fmt: skip
        frozen = "" if trained == weights else f" ({weights - trained:,} frozen weights)"
        job.note(
            f"{self.start.shown(learner)}, {weights / 1e6:.1f}M weights{frozen}; training: "
            f"{trainer.length(f'{plan.batch_size:,} texts')}, on {job.device} in {job.facts['dtype']}"
        )


def train_head(
    head: type[HeadTask], corpus: SourceLike, output: Any, run: RunOptions | None, given: dict[str, Any]
) -> Made:
    """Train the head of a task on a corpus of labelled records, and write the model's folder."""
    settings = head.settings.make(given)
    task = head(settings)
    keep_torch_cache()
    with open_job("model", output, settings, run) as job:
        job.libraries, job.arguments = ("torch", "safetensors", "tokenizers", "numpy", "pyarrow"), [corpus]
        if settings.init is None:
            raise ConfigError(
                "a head must start from a trained model", where="init",
                expected="a model made by `train mlm` or `train clm`, or word vectors",
                hint="run wordpipe train mlm TOKENS -o MODEL and use --init MODEL, or use --init with a Hugging Face "
                "transformers folder",
            )  # fmt: skip
        source = open_corpus(job, corpus)
        start = _open_start(job, settings.init, settings.seed, task)
        labelled = read_labelled(job, source, task, settings.held_out)
        check_contradictions(job, labelled)
        training = _Training(job, start.resolved(settings, labelled.n_train), task, start, labelled)
        examples, held_out = training.write_examples()
        with torch.random.fork_rng(devices=[]):
            best = training.train_all(examples, held_out)
        training.finish(best)
    return job.made


def _open_start(job: Job, init: Path, seed: int, task: HeadTask) -> Start:
    """Open the transformer, or the word vectors, that a head starts from."""
    if names_word_vectors(init):
        if task.reads_order:
            raise _no_reader("word vectors, which do not contain the order of words")
        return StaticStart.open(job, init)
    _, (loaded, tokenizer, names) = open_given(job, init, seed)
    if task.reads_order and loaded.language_model.config.causal:
        raise _no_reader("a left-to-right decoder, which cannot read the text after a token")
    for text in loaded.notes:
        job.warn(f"{init.name}: {text}")
    return _TransformerStart(loaded.language_model, tokenizer, names)


def _no_reader(got: str) -> ConfigError:
    """Return the error of a start that a reader cannot be trained on."""
    return ConfigError(
        "a reader needs an encoder", where="init", got=got,
        expected="a model made by `train mlm`, or a model folder of BERT or ModernBERT",
        hint="run wordpipe train mlm TOKENS -o MODEL and use --init MODEL",
    )  # fmt: skip


def _note_figures(job: Job, trainer: Trainer[HeadLearner[Any]], step: Step) -> None:
    """Note the figures of held-out texts at a step."""
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in trainer.metrics.items())
    job.note(f"step {step.step:,}: held-out loss {step.loss:.4f}, {shown}")
