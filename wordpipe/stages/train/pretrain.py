"""`wordpipe train mlm`, `clm`, `electra`, `permutation`, `denoising` and `seq2seq`: tokens → model, whatever it learns.

What they do otherwise is in `wordpipe/training/recipes`, one file each. The way of all:

    open_start          tokens → tokenizer, the model with its first weights         start.py
    recipe.data         how the texts are laid out                                   training/recipes
    write_inputs        streams of ids, or pairs, as files                           first process
    assemble            data and objective → a trainer                               training/learner.py
    announce            what is going to be trained, and what it is compared with    first process
    run_training        step after step                                              run.py
    write_model         a folder that transformers loads                             first process

Several processes may train together; each goes the same way, the first alone writes and reports.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache, partial
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import TARGET
from wordpipe.model import GENERATION, generation_config, save_hf, transformers_class, why_no_class
from wordpipe.model.settings import GenerateSettings
from wordpipe.pace import now
from wordpipe.runtime import Report
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job, refuse_url
from wordpipe.stages.python_calls import public
from wordpipe.stages.train.pair_files import Prefixes, prefixes_of, write_pairs
from wordpipe.stages.train.run import ending_of, run_training, special_ids, state_files, token_rows
from wordpipe.stages.train.start import Start, open_start
from wordpipe.tokens import FRAMES, framed_tokenizer, sentinel_ids, text_ids, transformers_files
from wordpipe.training import (
    LanguageLearner,
    Stream,
    Trainer,
    assemble,
    join_world,
    make_execution,
    perplexity,
    unigram_entropy,
    write_streams,
)
from wordpipe.training.recipes import NAMES, SPLITS, PairTexts, Recipe, Texts, recipe_named
from wordpipe.training.settings import PretrainSettings

_LIBRARIES = ("torch", "safetensors", "tokenizers", "numpy", "pyarrow")
_DOC = """{recipe.does}

{recipe.more}

Args:
    tokens: a tokens artifact{of_pairs}.
    output: folder of the model artifact, which transformers loads as it is.
    run: progress, fresh start, verification.
    settings: fields of `{recipe.settings.__name__}`.

Raises:
    WordpipeError: its class and its hint say what to do.

Example:
{example}
"""
_EXAMPLE = """
>>> made = wordpipe.train_{recipe.name}("run/tokens", output="new/{recipe.name}", preset="tiny", steps=2, seq_len=64)
>>> made.kind, made.counts["steps"]
('model', 2)
"""
Trained = Trainer[LanguageLearner]


@cache
def _function_of(name: str) -> Callable[..., Made]:
    """Return the public function that pretrains by a recipe, such as `train_mlm`."""
    recipe = recipe_named(name)

    def train(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
        return pretrain(recipe, tokens, output, recipe.settings.make(settings), run)

    of_pairs = " of pairs (the corpus has a second text, see `ingest --text-b` and `ingest --parallel`)"
    example = cleandoc(recipe.example or _EXAMPLE.format(recipe=recipe))
    train.__name__ = train.__qualname__ = f"train_{recipe.name}"
    train.__doc__ = _DOC.format(
        recipe=recipe, of_pairs=of_pairs if recipe.pairs == "always" else "", example=indent(example, "    ")
    )
    return public(recipe.settings)(train)


def __getattr__(name: str) -> Any:
    objective = name.removeprefix("train_")
    if objective == name or objective not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _function_of(objective)


def pretrain(
    recipe: Recipe[Any], tokens: PathLike, output: PathLike, settings: PretrainSettings, run: RunOptions | None
) -> Made:
    """Train a language model as the one process, or with others: all prepare and train, the first alone writes and reports.

    Args:
        recipe: what is learned.
        tokens: a tokens artifact.
        output: folder of the model artifact.
        settings: how to train.
        run: progress, fresh start, verification.
    """
    if run is not None and run.engine == "ray":
        return _train_on_ray(recipe, tokens, output, settings, run)
    with join_world(settings.device) as world:
        with ExitStack() as stack:
            with world.first_goes_ahead():  # what goes wrong there ends the other processes too
                if world.leads:
                    job = stack.enter_context(open_job("model", output, settings, run))
                else:  # it opens the same inputs and publishes nothing
                    job = Job("model", Path(output), settings, RunOptions(verify=False), stack)
                job.libraries, job.arguments = _LIBRARIES, [tokens]
                start = open_start(job, tokens, recipe, settings)
                data = recipe.data(start.opened, settings)
                prefixes = prefixes_of(job, start.source, data, start.opened.tokenizer, settings)
                streams = _write_inputs(job, start, data, prefixes) if world.leads else {}
            # the same training in every process: the first one's inputs, and its weights are sent to all
            held = data.open(Path(world.share(str(job.scratch) if world.leads else None)))
            counts_V = data.label_counts(held.train, streams["train"].counts if streams else None)
            trainer = assemble(
                settings, start.opened, start.model, held, execution=make_execution(settings, world),
                state_dir=job.partial, run_key=job.recipe, world=world, begin=start.begin, seed=start.seed,
                ending=ending_of(job),
                unigram_entropy=None if counts_V is None else unigram_entropy(counts_V, settings.label_smoothing),
            )  # fmt: skip
            if world.leads:
                tokenizer_files = _tokenizer_files(recipe, start)  # what cannot be written is better known now
                _announce(job, trainer, start, data, streams, counts_V)
                run_training(job, trainer)
                _take_mean(job, trainer)
                _write_model(job, trainer, recipe.saved(trainer.learner.model), tokenizer_files, settings)
            else:
                trainer.follow()
        return Made(**world.share(asdict(job.made) if world.leads else None))


def _train_on_ray(
    recipe: Recipe[Any], tokens: PathLike, output: PathLike, settings: PretrainSettings, run: RunOptions
) -> Made:
    """Pretrain in processes that Ray starts, which are sent names, paths and settings."""
    from wordpipe.engines import EngineOptions, work_together

    refuse_url(output)
    called = time.time() - (0.0 if run.called is None else now() - run.called)  # by the clock that machines share
    options = {"fresh": run.fresh, "verify": run.verify, "finish": run.finish}
    call = partial(_train_there, recipe.name, tokens, output, settings, options, called)
    needs_gpu = {"auto": None, "cuda": True}.get(settings.device, False)
    engine = EngineOptions(run.engine, run.address, run.workers)
    return work_together(call, engine, run.report, needs_gpu=needs_gpu, libraries=_LIBRARIES)


def _train_there(
    name: str, tokens: PathLike, output: PathLike, settings: PretrainSettings, options: Mapping[str, Any], called: float,
    report: Report,
) -> Made:  # fmt: skip
    """Pretrain a language model in a process that Ray started."""
    begun = now() - max(0.0, time.time() - called)
    return pretrain(recipe_named(name), tokens, output, settings, RunOptions(report=report, called=begun, **options))


def _write_inputs(job: Job, start: Start, data: Texts | PairTexts, prefixes: Prefixes | None) -> dict[str, Stream]:
    """Write the training and held-out ids of a pretraining as flat files; return the streams of documents."""
    if prefixes is not None:
        assert isinstance(data, PairTexts)
        write_pairs(job, start.source, data, prefixes)
        return {}
    assert isinstance(data, Texts)
    job.note_first_texts(start.source)
    streams = write_streams(
        token_rows(job, start.source, "ids"), {split: job.scratch / f"{split}.ids" for split in SPLITS},
        vocab_size=data.n_tokens, before=data.before, after=data.after,
        find_starts=None if data.find_starts is None else data.find_starts(),
    )  # fmt: skip
    for split, stream in streams.items():
        job.counts |= {f"tokens_{split}": stream.n_tokens, f"documents_{split}": stream.n_documents}
    job.counts["sentences_empty"] = sum(stream.n_empty for stream in streams.values())
    return streams


def _announce(
    job: Job, trainer: Trained, start: Start, data: Texts | PairTexts, streams: Mapping[str, Stream],
    counts_V: npt.NDArray[np.number] | None,
) -> None:  # fmt: skip
    """Say and record what is going to be pretrained, and what it is compared with."""
    plan, blocks = trainer.plan, trainer.learner.blocks
    is_pair = trainer.learner.model.config.architecture == "encoder-decoder"
    # what a step consists of
    if isinstance(data, PairTexts):
        step = f"{plan.batch_size:,} pairs of {blocks.seq_len:,} tokens"
        if not is_pair:
            job.facts["answers"] = True
            job.note("the texts are pairs, so the model reads the first text and learns to write the second text")
    else:
        job.counts |= {"sequences": len(blocks), "tokens_repeated_to_fill": blocks.n_repeated}
        step = f"{plan.batch_size:,} sequences of {blocks.seq_len:,} tokens"
        if not is_pair:
            job.facts["tokens_per_step"] = plan.tokens_per_step
            step = f"{plan.tokens_per_step:,} tokens"
    # the model, and the loss that it should fall below
    _note_shape(job, trainer, step, start.opened.seq_len if is_pair else plan.seq_len)
    if counts_V is not None:
        _compare_with_frequencies(job, counts_V, plan.label_smoothing)
    # what was asked for that the texts, or the length of the training, do not give
    if isinstance(data, Texts):
        _warn_of_the_plan(job, trainer, data.seq_len, streams["train"].n_ids)
    elif plan.batch_size > len(blocks):
        job.warn(
            f"the batch size {plan.batch_size:,} is larger than the number of pairs ({len(blocks):,}), so a step uses "
            "pairs more than once"
        )
    # whether there is a validation
    if not job.counts.get("pairs_valid" if isinstance(data, PairTexts) else "tokens_valid"):
        what, more = ("pair", "pairs") if isinstance(data, PairTexts) else ("document", "documents")
        job.note(
            f"no {what} is held out, so there is no validation loss. For a validation loss, ingest more {more}, or "
            "ingest with a larger --valid"
        )


def _note_shape(job: Job, trainer: Trained, step: str, seq_len: int) -> None:
    """Say and record what a pretraining consists of; `step` is what one step consists of."""
    config, plan = trainer.learner.model.config, trainer.plan
    weights = sum(weight.numel() for weight in trainer.learner.model.parameters())
    dtype, is_pair = trainer.execution.facts()["dtype"], config.architecture == "encoder-decoder"
    job.counts |= {"steps": plan.steps, "parameters": weights}
    job.device = str(trainer.execution.device)
    job.facts |= {
        "n_layers": config.n_layers, "n_heads": config.n_heads, "ffn_dim": config.ffn_dim, "positions": config.positions,
        "seq_len": seq_len, "batch_size": plan.batch_size, "lr": plan.lr, "dtype": dtype,
        "processes": trainer.world.size,
    } | ({"n_decoder_layers": config.n_decoder_layers} if is_pair else {"n_kv_heads": config.n_kv_heads})  # fmt: skip
    layers = f"{config.n_layers} + {config.n_decoder_layers}" if is_pair else f"{config.n_layers}"
    several = "" if trainer.world.is_alone else f", {trainer.world.size} processes"
    job.note(
        f"{config.architecture} of {layers} layers, width {config.dim}, {weights / 1e6:.1f}M weights; training: "
        f"{trainer.length(step)}, on {job.device} in {dtype}{several}"
    )
    if transformers_class(config) is None:
        job.warn(why_no_class(config))
    if trainer.extended_from is not None:
        job.facts["extended_from"] = trainer.extended_from


def _compare_with_frequencies(job: Job, counts_V: npt.NDArray[np.number], label_smoothing: float) -> None:
    """Say and record, before pretraining, the loss of a model that knows only frequencies."""
    entropy = unigram_entropy(counts_V)
    job.facts["unigram_entropy"] = round(entropy, 6)
    job.note(f"for comparison, a model that knows only the frequency of each token has a loss of {entropy:.3f}")
    if label_smoothing:
        certain_V = np.zeros(len(counts_V))
        certain_V[0] = 1.0
        job.note(
            "with label smoothing, a model that knows only the frequency of each token has a training loss of "
            f"{unigram_entropy(counts_V, label_smoothing):.3f}, and a perfect model has a training loss of "
            f"{unigram_entropy(certain_V, label_smoothing):.3f}"
        )


def _warn_of_the_plan(job: Job, trainer: Trained, seq_len: int, text: int) -> None:
    """Warn before pretraining of short sequences, repeated text, a learning rate that never falls."""
    plan, blocks = trainer.plan, trainer.learner.blocks
    if blocks.seq_len < seq_len:
        job.warn(
            f"the text is too short for sequences of {seq_len:,} positions, so the sequences have {blocks.seq_len:,} "
            "positions"
        )
    elif blocks.n_repeated > text // 10:
        job.warn(
            f"{blocks.n_repeated:,} of {text:,} tokens are repeated to fill the last sequence. A smaller --seq-len is "
            "better for this text"
        )
    if plan.batch_size > len(blocks):
        job.warn(
            f"the batch size {plan.batch_size:,} is larger than the number of sequences ({len(blocks):,}), so a step "
            "uses sequences more than once"
        )
    if plan.warmup >= plan.steps > 1 and trainer.limit is None:
        job.warn(
            f"the warm-up of {plan.warmup:,} steps is as long as the whole training, so the learning rate never falls"
        )


def _take_mean(job: Job, trainer: Trained) -> None:
    """Take the mean of the pretrained weights where they were averaged, and measure the model once more."""
    if (n_sets := trainer.learner.take_mean()) < 2:  # of one they are its own
        return
    job.counts["weights_averaged"] = n_sets
    if (found := trainer.learner.validate()) is not None:
        job.metrics["valid_loss"] = round(found.loss, 6)
        job.note(
            f"the final weights are the mean of {n_sets} sets of weights and have a validation loss of {found.loss:.4f}"
        )


def _write_model(
    job: Job, trainer: Trained, model: Any, tokenizer_files: Mapping[str, bytes], settings: PretrainSettings
) -> None:
    """Write the files of the pretrained language model's folder."""
    if trainer.learner.skipped:
        job.counts["steps_skipped_overflow"] = trainer.learner.skipped
    has_perplexity = "unigram_entropy" in job.facts and "valid_loss" in job.metrics
    if has_perplexity and (ppl := perplexity(job.metrics["valid_loss"])) is not None:
        job.metrics["perplexity"] = round(ppl, 3)
    config = trainer.learner.model.config
    save_hf(model, config, job.write)
    for name, content in tokenizer_files.items():
        job.write(name, content)
    if getattr(settings, "keep_state", False):  # an ELECTRA is never extended
        for name, content, log in state_files(trainer.snapshot()):
            job.write(name, content, log=log)
    job.facts |= {
        "dim": config.dim, "architecture": config.architecture, "max_len": config.max_len,
        "transformers": transformers_class(config),
    }  # fmt: skip


def _tokenizer_files(recipe: Recipe[Any], start: Start) -> dict[str, bytes]:
    """Return the tokenizer's files of a pretrained model, which frame a text as in training.

    Of an encoder-decoder also those of the targets.
    """
    config, special = start.model.config, start.opened.special
    ids = config.special_ids | {"unk": special.unk}
    tokenizer, names = framed_tokenizer(
        start.tokenizer_json, ids, frame=start.opened.frame, vocab_size=config.vocab_size
    )
    side = "left" if config.causal else "right"  # a decoder goes on from the last position
    files = transformers_files(tokenizer, names, max_len=config.max_len, padding_side=side)
    if config.architecture != "encoder-decoder":
        return files
    if start.target is not None:  # labels end as in training, and nothing stands before them
        ids |= {"unk": special_ids(start.target[0], "encoder-decoder").unk}
        size, frame = config.decoder_vocab_size, FRAMES["source"]
        tokenizer, names = framed_tokenizer(start.target[1], ids, frame=frame, vocab_size=size)
        its_files = transformers_files(tokenizer, names, max_len=config.max_len)
        files |= {TARGET + name: content for name, content in its_files.items()}
    if transformers_class(config) is None:
        return files
    # transformers writes no special token, but for those that were learned
    taken = {number for number in ids.values() if number is not None}
    may_come = text_ids(tokenizer, taken, config.decoder_vocab_size or config.vocab_size)
    learned = sentinel_ids(tokenizer) if recipe.has_sentinels else []
    may_come[[special.need("eos"), *learned]] = True
    beams = GenerateSettings().of_pairs().beams
    assert beams is not None, "the settings say a number"
    suppressed = np.flatnonzero(~may_come).tolist()
    return files | {GENERATION: generation_config(config, suppressed=suppressed, beams=beams)}
