"""A training, whatever its objective: fresh weights, special ids, progress, the log of its steps, the state it ends with."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts import STEPS, Artifact, read_batches, row_count
from wordpipe.errors import ArtifactError, BudgetError
from wordpipe.model import Architecture, ModelConfig
from wordpipe.pace import TimeLimit
from wordpipe.runtime import stop_signal, without_memory
from wordpipe.stages.job import Job
from wordpipe.storage import url_of
from wordpipe.tokens import special_names
from wordpipe.training import Ending, Snapshot, SpecialIds, Step, Trainer, perplexity

if TYPE_CHECKING:
    from wordpipe.model import Transformer
    from wordpipe.training.contrastive import Pairs

M = TypeVar("M", bound="Transformer")

OPTIMISER, STATE = "optimiser.safetensors", "training.json"  # the state of a finished training, beside its model
_ENOUGH_PAIRS = 50  # held-out ones, of which a share says something
_MANY_PASSES = 40  # beyond them repeated text is worth nothing (Muennighoff et al. 2023, arXiv 2305.16264)
_BYTES_PER_WEIGHT = 12  # float32: the weight, its gradient, its momentum


def fresh_model(config: ModelConfig, seed: int) -> "Transformer":
    """Return a model with fresh weights, for a run of a training.

    Raises:
        BudgetError: weights, gradients and one number per weight of the optimiser are more than all memory of this machine:
            the kernel would end the process without a word.
    """
    from wordpipe.model import EncoderDecoder, LanguageModel, new_encoder_decoder, new_model

    is_pair = config.architecture == "encoder-decoder"
    with without_memory():
        weights = sum(weight.numel() for weight in (EncoderDecoder if is_pair else LanguageModel)(config).parameters())
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if (needed := weights * _BYTES_PER_WEIGHT) > there:
        raise BudgetError(
            f"a model of {weights:,} weights needs more memory than this machine has",
            got=f"{needed / 1e9:,.1f} GB for weights, gradients and optimiser alone",
            expected=f"at most {there / 1e9:,.1f} GB",
            hint="use a smaller --dim, --n-layers, ffn_dim or vocabulary, or a smaller --preset",
        )
    return (new_encoder_decoder if is_pair else new_model)(config, seed)


def special_ids(tokenizer: Tokenizer, architecture: Architecture, given: Mapping[str, int] | None = None) -> SpecialIds:
    """Return the special ids of a training run: the tokenizer's, unless a given model names others."""
    roles: dict[str, int | None] = {
        role: tokenizer.token_to_id(name) for role, name in special_names(tokenizer).items()
    }
    return SpecialIds(**roles | dict(given or {})).completed(architecture)


def with_special_ids(model: M, config: ModelConfig, special: SpecialIds) -> M:
    """Return a model of this shape with the same weights and these special ids.

    A folder may not say which ids it was trained with, or name some that its tokenizer lacks.
    """
    return reshaped(model, replace(config, **special.of_config()))


def reshaped(model: M, config: ModelConfig) -> M:
    """Return a run's model with the same weights and another dropout, length or special ids."""
    if config == model.config:
        return model
    other: Any = type(model)(config)
    other.load_state_dict(model.state_dict())
    return other  # type: ignore[no-any-return]


def token_rows(job: Job, source: Artifact, column: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a tokens artifact that a training run reads, with one column of ids; how many are read is reported."""
    total, done = row_count(source, "tokens"), 0
    for batch in read_batches(source, "tokens", ["doc_id", "sentence_id", "split", column]):
        yield batch
        done += len(batch)
        job.report("preparing", done, total, "sentences")


def corpus_of(job: Job, tokens: Artifact, *, what: str) -> Artifact:
    """Open the corpus of the tokens of a training, as an input of the job.

    Args:
        job: that reads it.
        tokens: made of it; where both were moved together it is found.
        what: is read from it, for errors.

    Raises:
        ArtifactError: the tokens were made of no corpus, it is not where it was, or is another one now.
    """
    entry = tokens.manifest.inputs[0]
    if entry.kind != "corpus" or entry.path is None:
        raise ArtifactError(
            f"{what} must be read from a corpus, but these tokens were made without a corpus", where=tokens.path,
            hint="make a corpus with wordpipe ingest, and tokenize that corpus",
        )  # fmt: skip
    path = tokens.place.parent / entry.path
    again = f"tokenize the corpus again: wordpipe tokenize CORPUS -o {tokens.path}"
    if not path.is_dir() and url_of(path) is None:
        raise ArtifactError(
            f"{what} must be read from the corpus of the tokens, but there is no corpus at this path", where=path,
            hint=f"put the corpus back at this path, or {again}",
        )  # fmt: skip
    corpus = job.open_input(path, ["corpus"])
    if corpus.digest != entry.digest:
        raise ArtifactError(
            "this corpus is not the corpus that the tokens were made from", where=path, got=corpus.digest[:16],
            expected=entry.digest[:16], hint=again,
        )  # fmt: skip
    return corpus


def ending_of(job: Job, limit: TimeLimit | None = None) -> Ending:
    """Return when a training of this job ends, if not by its settings alone; `limit`: of one of several trainings."""
    return Ending(limit or job.limit, job.run.finish, job.about)


def run_training(job: Job, trainer: Trainer[Any]) -> None:
    """Train to the end, and write the log of all runs it took; see `train_to_end`."""
    train_to_end(job, trainer, _note_validation)
    write_log(job, trainer)


def train_to_end(job: Job, trainer: Trainer[Any], note: Callable[[Job, Trainer[Any], Step], None]) -> None:
    """Run a training to its end; report every step, and what was measured and noted.

    Args:
        job: that reports.
        trainer: is run.
        note: says what a validation found.
    """
    # where the training begins
    figures: dict[str, str] = {}
    warned, planned = _warn(job, trainer, 0), 0 if trainer.limit is None else len(trainer.limit.planned)
    if trainer.finished_from is not None:
        more = trainer.plan.steps - trainer.finished_from
        cooled = f"; the learning rate falls to zero in {more:,} more steps" if more else ""
        job.note(f"ending a stopped run after step {trainer.finished_from:,} of {trainer.planned:,}{cooled}")
    elif trainer.resumed_from is not None:
        job.note(f"continuing a stopped run at step {trainer.resumed_from:,}")
    # step by step: notes, plans, reports
    stopping = "saving and stopping after this step (press Ctrl-C again to stop now)"
    with stop_signal(lambda _: job.note(stopping)) as flag:
        job.report("training", trainer.step, trainer.plan.steps, "steps")
        for report in trainer.every_step(flag):
            warned = _warn(job, trainer, warned)
            planned = _note_plan(job, trainer, planned)
            if report is not None and report.split == "valid":
                note(job, trainer, report)
                continue
            if report is not None:  # shown beside the progress until the next one
                speed = f"{report.tokens_per_s:,.0f}"
                figures = {"loss": f"{report.loss:.3f}", "lr": f"{report.lr:.2e}", "tokens/s": speed}
            job.report("training", trainer.step, trainer.plan.steps, "steps", **figures)


def write_log(job: Job, trainer: Trainer[Any]) -> None:
    """Write the log of the steps of a training run, and take its figures as those of the job."""
    job.bitwise, job.threads = trainer.bitwise, trainer.threads
    note_ending(job, trainer)
    with job.table("steps", STEPS, single=True, log=True) as log:
        rows = [{name: getattr(step, name) for name in STEPS.names} for step in trainer.history]
        log.write(pa.RecordBatch.from_pylist(rows, schema=STEPS))
    for step in trainer.history:
        job.metrics["loss" if step.split == "train" else "valid_loss"] = round(step.loss, 6)
    job.metrics |= {name: round(one, 6) for name, one in trainer.metrics.items()}

    from wordpipe.pages import trend  # when all is done

    job.note(trend("loss", [step.loss for step in trainer.history if step.split == "train"], width=40))
    last = trainer.history[-1]
    job.rates = {"tokens_per_s": round(last.tokens / max(last.seconds, 1e-9), 1)}


def note_ending(job: Job, trainer: Trainer[Any]) -> None:
    """Record how many steps a training run had, where the settings alone do not tell."""
    if trainer.limit is not None:
        job.facts["within"] = trainer.limit.facts(trainer.step) | {"minutes": job.settings.model_dump()["minutes"]}
        job.bitwise = job.bitwise and trainer.plan.steps == trainer.limit.most
    if trainer.finished_from is not None:
        job.end_early(trainer.finished_from, trainer.planned, trainer.plan.steps - trainer.finished_from)
    if trainer.limit is not None or trainer.finished_from is not None:
        job.counts["steps"] = trainer.plan.steps


def _note_plan(job: Job, trainer: Trainer[Any], said: int) -> int:
    """Note how many steps a training run plans for the time, where that is new; return how many plans there were."""
    if trainer.limit is None or len(trainer.limit.planned) == said:
        return said
    total, limit = trainer.plan.steps, trainer.limit
    if total == trainer.step:
        job.note(f"the time limit is reached, so the training ends after step {total:,}")
    elif not limit.is_news():
        return len(limit.planned)
    elif said:
        job.note(f"the training speed has changed, so {total:,} steps now fit into the time limit of {limit.shown}")
    elif total < limit.most:
        job.note(f"{total:,} steps fit into the time limit of {limit.shown}")
    blocks = getattr(trainer.learner, "blocks", None)
    if not said and blocks is not None and (passes := total * trainer.plan.batch_size / len(blocks)) > _MANY_PASSES:
        job.warn(
            f"{total:,} steps are {passes:,.0f} passes over the text, but a model learns little after about "
            f"{_MANY_PASSES} passes. Add more text, or use a larger --preset or fewer --minutes"
        )
    return len(limit.planned)


def _warn(job: Job, trainer: Trainer[Any], warned: int) -> int:
    """Warn with the training's new notes, and return how many notes there are."""
    for text in trainer.notes[warned:]:
        job.warn(text)
    return len(trainer.notes)


def _note_validation(job: Job, trainer: Trainer[Any], step: Step) -> None:
    """Note the loss of a validation in a training run, with its perplexity."""
    # a perplexity is of guessed tokens, and of no sum of several losses
    is_of_tokens = "generator_loss" not in trainer.metrics
    more = "" if not is_of_tokens or (value := perplexity(step.loss)) is None else f", perplexity {value:.1f}"
    if (nearest := trainer.metrics.get("valid_nearest")) is not None:
        pairs = round(trainer.metrics["valid_pairs"])
        found = f"{nearest:.1%}" if pairs >= _ENOUGH_PAIRS else f"{round(nearest * pairs)}"
        more = f"; the matching text is the nearest text for {found} of {pairs:,} held-out texts"
        more += "" if pairs >= _ENOUGH_PAIRS else " (too few pairs for a reliable figure)"
    job.note(f"step {step.step:,}: validation loss {step.loss:.4f}{more}")


def state_files(snapshot: Snapshot) -> list[tuple[str, bytes, bool]]:
    """Return the state of a finished training run, kept beside its model so that it can be extended.

    Name, content and whether it is a log (it has times in it) of each file; the weights are the model's own.
    """
    from safetensors.torch import save

    text = json.dumps({"step": snapshot.step, **snapshot.log}, sort_keys=True)
    return [(OPTIMISER, save(dict(snapshot.tensors["optimiser"])), False), (STATE, f"{text}\n".encode(), True)]


def train_on_pairs(job: Job, trainer: Trainer[Any], pairs: "Pairs") -> None:
    """Run a training of either encoder to the end, and note and count its pairs."""
    for line in pairs.notes:
        job.warn(line)
    job.counts |= {name: count for name, count in pairs.counts.items() if count} | {"steps": trainer.plan.steps}
    run_training(job, trainer)
    if not trainer.metrics:
        job.note("there is no validation, because too few documents are held out")
    last = trainer.history[-1]
    job.rates["pairs_per_s"] = round(last.step * trainer.plan.batch_size / max(last.seconds, 1e-9), 1)
