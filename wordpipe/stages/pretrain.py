"""`wordpipe train mlm` and `wordpipe train clm`: tokens → model."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import STEPS
from wordpipe.artifacts.tables import read_batches, row_count
from wordpipe.errors import ArtifactError
from wordpipe.model.checkpoint import save_hf
from wordpipe.model.config import ModelConfig
from wordpipe.model.initialise import new_model
from wordpipe.model.language_model import LanguageModel
from wordpipe.model.vectors import init_embeddings
from wordpipe.runtime import stop_signal
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.tokens import special as tokens
from wordpipe.tokens.formats.reading import open_tokenizer
from wordpipe.tokens.formats.transformers_files import framed_tokenizer, transformers_files
from wordpipe.tokens.vocabulary import number_of_ids
from wordpipe.training.assemble import assemble
from wordpipe.training.execution import Execution, make_execution
from wordpipe.training.loop import Training
from wordpipe.training.plan import Plan, SpecialIds, model_config
from wordpipe.training.settings import CausalSettings, MaskedSettings, PretrainSettings
from wordpipe.training.step import Step
from wordpipe.training.stream import Stream, unigram_entropy, write_streams
from wordpipe.training.tasks import Task, make_task
from wordpipe.training.validation import perplexity
from wordpipe.words.table import WordVectors

__all__ = ["train_clm", "train_mlm"]


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
    with making("model", command, output, settings, run) as job:
        job.libraries = ("torch", "safetensors", "tokenizers", "numpy", "pyarrow")
        source = job.open_input(path, ["tokens"])
        words = None if settings.init_embeddings is None else job.open_input(settings.init_embeddings, ["words"])
        data = source.read("tokenizer.json")
        tokenizer = open_tokenizer(data, where=str(source.path / "tokenizer.json"))
        special = _special_ids(tokenizer)
        task = make_task(settings, n_tokens=number_of_ids(tokenizer), special=special)
        config = model_config(settings, task.architecture, n_tokens=number_of_ids(tokenizer), special=special)
        execution = make_execution(settings)
        streams = _write_streams(job, source, task, number_of_ids(tokenizer))
        model = new_model(config, settings.seed)
        if words is not None:
            _start_from_words(job, model, words, tokenizer, data, settings.seed)
        training = assemble(
            settings,
            task,
            model,
            streams["train"].open(),
            streams["valid"].open(),
            execution=execution,
            state_dir=job.partial,
            run_key=job.recipe,
        )
        _announce(job, model, training, streams, execution)
        _run(job, training)
        save_hf(model, config, job.write)
        for name, content in _tokenizer_files(data, config, special.unk).items():
            job.write(name, content)
        job.facts |= {"dim": config.dim, "architecture": config.architecture, "max_len": config.max_len}
    return job.made


def _special_ids(tokenizer: Tokenizer) -> SpecialIds:
    names = {"pad": tokens.PAD, "unk": tokens.UNK, "cls": tokens.CLS, "sep": tokens.SEP, "mask": tokens.MASK,
             "bos": tokens.BOS, "eos": tokens.EOS}  # fmt: skip
    return SpecialIds(**{role: tokenizer.token_to_id(token) for role, token in names.items()})


def _tokenizer_files(data: bytes, config: ModelConfig, unk_id: int | None) -> dict[str, bytes]:
    """The tokenizer for the model's folder, which adds what each training sequence had."""
    roles = ("pad", "bos", "eos", "cls", "sep", "mask")
    ids = {role: getattr(config, f"{role}_id") for role in roles} | {"unk": unk_id}
    tokenizer, names = framed_tokenizer(data, ids, causal=config.causal, vocab_size=config.vocab_size)
    side = "left" if config.causal else "right"  # a decoder goes on from the last position
    return transformers_files(tokenizer, names, max_len=config.max_len, padding_side=side)


def _write_streams(job: Job, source: Artifact, task: Task, vocab_size: int) -> dict[str, Stream]:
    """The training and held-out ids as flat files that are mapped into memory."""
    paths = {split: job.scratch / f"{split}.ids" for split in ("train", "valid")}
    streams = write_streams(_rows(job, source), paths, vocab_size=vocab_size, before=task.before, after=task.after)
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


def _start_from_words(
    job: Job, model: LanguageModel, words: Artifact, tokenizer: Tokenizer, data: bytes, seed: int
) -> None:
    """Fill the embedding table with word vectors of the same tokens."""
    if words.manifest.facts["unit"] != "token":
        hint = "train them with: wordpipe train word2vec TOKENS --unit token"
        raise ArtifactError("the vectors are of words, not of tokens", where=words.path, hint=hint)
    if words.read("tokenizer.json") != data:
        raise ArtifactError(
            "the vectors were trained with another tokenizer",
            where=words.path,
            got=words.manifest.inputs[0].digest[:16],
            expected=job.inputs[0].digest[:16],
            hint="train them on the same tokens artifact",
        )
    table = WordVectors.from_batches(read_batches(words, "words"))
    vectors_VD = np.zeros((number_of_ids(tokenizer), table.dim), dtype=np.float32)
    found_V = np.zeros(len(vectors_VD), dtype=np.bool_)
    for word, vector in zip(table.words, table.vectors, strict=True):
        if (number := tokenizer.token_to_id(word)) is not None:
            vectors_VD[number], found_V[number] = vector, True
    job.counts["embeddings_from_words"] = init_embeddings(model, vectors_VD, found_V, seed=seed)


def _announce(
    job: Job, model: LanguageModel, training: Training, streams: dict[str, Stream], execution: Execution
) -> None:
    config, plan = model.config, training.plan
    weights = sum(weight.numel() for weight in model.parameters())
    job.counts |= {"steps": plan.steps, "sequences": len(training.blocks), "parameters": weights}
    job.counts["tokens_repeated_to_fill"] = training.blocks.n_repeated
    job.device, job.threads = str(execution.device), training.threads
    entropy = unigram_entropy(streams["train"].counts)
    job.facts |= {"unigram_entropy": round(entropy, 6), "tokens_per_step": plan.tokens_per_step}
    job.note(
        f"{config.architecture} of {config.n_layers} layers, width {config.dim}, {weights / 1e6:.1f}M weights: "
        f"{plan.steps:,} steps of {plan.tokens_per_step:,} tokens on {execution.device}"
    )
    job.note(f"a model that knows only how frequent each token is has loss {entropy:.3f}")
    if not streams["valid"].n_ids:
        job.note(
            "no document is held out, so there is no validation loss; ingest more documents, or with a larger --valid"
        )
    for text in training.notes:
        job.warn(text)
    if training.resumed_from is not None:
        job.note(f"continuing a stopped run at step {training.resumed_from:,}")


def _run(job: Job, training: Training) -> None:
    """Train, report, and write the log of all runs that the training took."""
    with stop_signal(lambda _: job.note("stopping after this step, saving (press again to stop now)")) as flag:
        for step in training.steps(flag):
            _report(job, step, training.plan)
    job.bitwise = training.bitwise
    with job.table("steps", STEPS, single=True, log=True) as log:
        rows = [{name: getattr(step, name) for name in STEPS.names} for step in training.history]
        log.write(pa.RecordBatch.from_pylist(rows, schema=STEPS))
    _figures(job, training)


def _report(job: Job, step: Step, plan: Plan) -> None:
    if step.split == "valid":
        job.note(f"step {step.step:,}: validation loss {step.loss:.4f}, perplexity {perplexity(step.loss):.1f}")
        return
    figures = {"loss": f"{step.loss:.3f}", "lr": f"{step.lr:.2e}", "tokens/s": f"{step.tokens_per_s:,.0f}"}
    job.report("training", step.step, plan.steps, "steps", **figures)


def _figures(job: Job, training: Training) -> None:
    """The last losses, and the speed over all."""
    for split, prefix in (("train", ""), ("valid", "valid_")):
        losses = [step.loss for step in training.history if step.split == split]
        if losses:
            job.metrics[f"{prefix}loss"] = round(losses[-1], 6)
    if "valid_loss" in job.metrics:
        ppl = perplexity(job.metrics["valid_loss"])
        job.metrics["perplexity"] = round(ppl, 3) if math.isfinite(ppl) else 1e308
    last = training.history[-1]
    job.rates = {"tokens_per_s": round(last.tokens / max(last.seconds, 1e-9), 1)}
