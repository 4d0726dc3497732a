"""`wordpipe train contrastive`: tokens → model, an encoder of texts; here that of a transformer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, WEIGHTS_FILE, Artifact
from wordpipe.model import native_class, save_hf, seed_of
from wordpipe.sentences import sentence_transformers_files
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.train.contrastive_start import EncoderStart, encoder_start
from wordpipe.stages.train.contrastive_text import contrast_text, pair_kinds, token_ids
from wordpipe.stages.train.run import TrainingRun
from wordpipe.tokens import framed_tokenizer, number_of_ids, open_tokenizer, transformers_files
from wordpipe.training import Trainer
from wordpipe.training.contrastive import Pairs, Teacher, assemble_encoder, held_out_pairs
from wordpipe.training.contrastive.settings import ContrastiveSettings


def train_contrastive(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train an encoder of texts, without labels: texts that belong together come near, others are kept apart.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which sentence-transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `ContrastiveSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = ContrastiveSettings.make(settings)
    with open_job("model", "train contrastive", output, chosen, run) as job:
        job.libraries = ("torch", "safetensors", "tokenizers", "numpy", "pyarrow")
        source = job.open_input(tokens, ["tokens"])
        if chosen.encoder == "static":
            from wordpipe.stages.train.contrastive_static import train_static

            train_static(job, source, chosen)
        else:
            _train_transformer(job, source, chosen)
    return job.made


def _train_transformer(job: Job, source: Artifact, settings: ContrastiveSettings) -> None:
    """Train, and write the model's folder.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    data = source.read(TOKENIZER)
    tokenizer = open_tokenizer(data, where=str(source.path / TOKENIZER))
    text, given = contrast_text(
        job, source, settings, token_ids(tokenizer), vocab_size=number_of_ids(tokenizer), column="ids"
    )
    start = encoder_start(job, settings, tokenizer, data, text.counts)
    if settings.init is not None and settings.pooling is None:
        job.note(f"pooling: {start.pooling}{', by the weights of the given model' if start.kept else ''}")
    teacher = None if settings.teacher is None else _teacher(job, settings, tokenizer)
    pairs = Pairs(text, settings, given=given)
    run = TrainingRun(job)
    training = assemble_encoder(
        settings, start.model, pairs, special=start.special, weights=start.weights, teacher=teacher,
        held_out=held_out_pairs(settings, text), state_dir=job.partial, run_key=job.recipe,
        seed=seed_of(settings.seed, "contrast"), tick=run.tick,
    )  # fmt: skip
    config, plan, weights = start.model.config, training.plan, sum(one.numel() for one in start.model.parameters())
    job.device, job.facts["dtype"] = str(training.execution.device), training.execution.facts()["dtype"]
    job.facts |= {"lr": plan.lr, "batch_size": plan.batch_size}
    job.note(
        f"encoder of {config.n_layers} layers, width {config.dim}, {weights / 1e6:.1f}M weights: {plan.steps:,} steps of "
        f"{plan.batch_size:,} pairs on {job.device} in {job.facts['dtype']}"
    )
    job.counts["parameters"] = weights
    train_on_pairs(job, run, training, pairs)
    job.counts["tokens_cut"] = training.cut
    _write(job, start, data, settings)


def train_on_pairs(job: Job, run: TrainingRun, training: Trainer[Any], pairs: Pairs) -> None:
    """Train either encoder to the end, and say and count what is to be known of its pairs."""
    for line in (*pairs.notes, *training.notes):
        job.warn(line)
    job.counts |= {name: count for name, count in pairs.counts.items() if count} | {"steps": training.plan.steps}
    job.threads = training.threads
    if training.resumed_from is not None:
        job.note(f"continuing a stopped run at step {training.resumed_from:,}")
    run.train(training)
    if not training.metrics:
        job.note("too few documents are held out to validate on")
    last = training.history[-1]
    job.rates["pairs_per_s"] = round(last.step * training.plan.batch_size / max(last.seconds, 1e-9), 1)


def _teacher(job: Job, settings: ContrastiveSettings, tokenizer: Tokenizer) -> Teacher:
    """The encoder that `--teacher` names, asked with the text that ids stand for."""
    from wordpipe.sentences.settings import EmbedSettings
    from wordpipe.stages.loaders import open_encoder

    assert settings.teacher is not None
    origin = job.open_input(settings.teacher, ["model", "words"])
    encoder = open_encoder(origin, EmbedSettings.make({"device": settings.device}))

    def vectors(rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        return encoder.encode(tokenizer.decode_batch([list(row) for row in rows], skip_special_tokens=True)).vectors

    return Teacher(vectors, settings.teacher_weight, settings.teacher_temperature)


def _write(job: Job, start: EncoderStart, data: bytes, settings: ContrastiveSettings) -> None:
    """The model's folder: transformers loads it, and sentence-transformers gives the same vectors."""
    model, config = start.model, start.model.config
    ids = config.special_ids | {"unk": start.special.unk}
    tokenizer, names = framed_tokenizer(data, ids, causal=False, vocab_size=config.vocab_size)
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
        "pairs": pair_kinds(settings), "dim": config.dim, "architecture": config.architecture, "max_len": config.max_len,
        "transformers": native_class(config),
    }  # fmt: skip
