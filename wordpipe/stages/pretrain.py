"""`wordpipe train mlm` and `wordpipe train clm`: tokens → model."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from wordpipe.model.formats.families import native_class
from wordpipe.model.formats.folder import save_hf
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.stages.model_start import Start
from wordpipe.stages.model_state import state_files
from wordpipe.stages.model_training import Telling, Work, announce, check_resume, prepare, train
from wordpipe.tokens.formats.writing import framed_tokenizer, transformers_files
from wordpipe.training.loop import Training
from wordpipe.training.parallel import World, join_world
from wordpipe.training.settings import CausalSettings, MaskedSettings, PretrainSettings

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
    with join_world(settings.device) as world:
        if not world.leads:
            return _follow(world, settings)
        with ExitStack() as stack:
            begun: list[tuple[Job, Start, Work]] = []

            def begin() -> dict[str, Any]:
                job = stack.enter_context(making("model", command, output, settings, run))
                job.libraries = ("torch", "safetensors", "tokenizers", "numpy", "pyarrow")
                start, work = prepare(job, path, settings)
                begun.append((job, start, work))
                return work.to_json()

            world.first_does(begin)  # what goes wrong here ends the other processes too
            [(job, start, work)] = begun
            _lead(world, job, start, work, settings)
        made = job.made
        world.share(asdict(made))
        return made


def _lead(world: World, job: Job, start: Start, work: Work, settings: PretrainSettings) -> None:
    """Train as the one process, or as the first of several, and write the model."""
    tokenizer_files = _tokenizer_files(start.tokenizer_json, work)  # what cannot be written is better known now
    check_resume(job, start, work, settings, world)
    telling = Telling(job)
    training = work.training(
        settings, start.model(), world, state_dir=job.partial, run_key=job.recipe, begin=start.begin, warn=job.warn,
        tick=telling.tick,
    )  # fmt: skip
    announce(job, work, training)
    train(telling, training)
    _write(job, training, tokenizer_files, settings)


def _follow(world: World, settings: PretrainSettings) -> Made:
    """Train along with the first process, which reads and writes for all."""
    work = Work.from_json(world.first_does(lambda: None))
    check_resume(None, work.start(), work, settings, world)
    training = work.training(settings, work.start().model(), world)
    train(None, training)
    return Made(**world.share(None))


def _write(job: Job, training: Training, tokenizer_files: Mapping[str, bytes], settings: PretrainSettings) -> None:
    """The files of the model's folder."""
    config = training.model.config
    save_hf(training.model, config, job.write)
    for name, content in tokenizer_files.items():
        job.write(name, content)
    if settings.keep_state:
        for name, data, log in state_files(training.snapshot()):
            job.write(name, data, log=log)
    job.facts |= {
        "dim": config.dim, "architecture": config.architecture, "max_len": config.max_len,
        "transformers": native_class(config),
    }  # fmt: skip


def _tokenizer_files(data: bytes, work: Work) -> dict[str, bytes]:
    """The tokenizer for the model's folder, which adds what each training sequence had."""
    config = work.config
    ids = config.special_ids | {"unk": work.special.unk}
    tokenizer, names = framed_tokenizer(data, ids, causal=config.causal, vocab_size=config.vocab_size)
    side = "left" if config.causal else "right"  # a decoder goes on from the last position
    return transformers_files(tokenizer, names, max_len=config.max_len, padding_side=side)
