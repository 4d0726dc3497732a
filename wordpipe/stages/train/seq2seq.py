"""`wordpipe train seq2seq`: tokens of pairs → encoder-decoder, in one process or several."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, Artifact, read_batches, read_schema, row_count
from wordpipe.errors import ArtifactError, InputError
from wordpipe.model import EncoderDecoder, new_encoder_decoder, transformers_class, why_no_class
from wordpipe.runtime import without_memory
from wordpipe.stages.calls import public
from wordpipe.stages.job import Job, Made, PathLike, RunOptions
from wordpipe.stages.train.run import refuse_too_large, special_ids, train_together
from wordpipe.tokens import FRAMES, framed_tokenizer, number_of_ids, open_tokenizer, transformers_files
from wordpipe.training import (
    Execution,
    LanguageLearner,
    Pairs,
    PairWriter,
    SpecialIds,
    Trainer,
    assemble_learner,
    model_config,
    open_pairs,
)
from wordpipe.training.settings import Seq2SeqSettings

_SPLITS = ("train", "valid")


@public(Seq2SeqSettings)
def train_seq2seq(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train an encoder-decoder on pairs: translations, titles, answers.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact of pairs: its corpus has a second text (`ingest --text-b`, `ingest --parallel`).
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.
        settings: fields of `Seq2SeqSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = Seq2SeqSettings.make(settings)
    return train_together(output, chosen, run, lambda job: _prepare(job, tokens, chosen))


@dataclass(frozen=True)
class _Start:
    """A training before its first step.

    Attributes:
        source: the tokens artifact.
        tokenizer: its tokenizer.
        tokenizer_json: the file of that.
        special: its special ids.
        model: with its first weights.
        settings: how to train.
        prefix: ids before every source.
    """

    source: Artifact
    tokenizer: Tokenizer
    tokenizer_json: bytes
    special: SpecialIds
    model: EncoderDecoder
    settings: Seq2SeqSettings
    prefix: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        """Ids of the tokenizer."""
        return number_of_ids(self.tokenizer)

    def write_inputs(self, job: Job) -> None:
        """The pairs as flat files that are mapped into memory."""
        begins = () if self.settings.style != "bart" else (self.special.need("bos"),)
        end = (self.special.need("eos"),)
        writers = {
            split: PairWriter(
                job.scratch / split, vocab_size=self.n_tokens, before=(*begins, *self.prefix), after=end, end=end,
                max_len=self.model.config.max_len,
            )
            for split in _SPLITS
        }  # fmt: skip
        total, done, empty = row_count(self.source, "tokens"), 0, 0
        for batch in read_batches(self.source, "tokens", ["split", "ids", "ids_b"]):
            for split, writer in writers.items():
                empty += _write_rows(writer, batch.filter(pc.equal(batch["split"], split)))
            done += len(batch)
            job.report("preparing", done, total, "pairs")
        for writer in writers.values():
            writer.close()
        self._count(job, writers, empty)

    def _count(self, job: Job, writers: dict[str, PairWriter], empty: int) -> None:
        for split, writer in writers.items():
            job.counts |= {f"pairs_{split}": writer.n_pairs, f"tokens_{split}": sum(writer.n_ids)}
        long_source, long_target = (sum(writer.left_out[side] for writer in writers.values()) for side in (0, 1))
        left_out = {"pairs_left_out_empty": empty, "pairs_left_out_long_source": long_source,
                    "pairs_left_out_long_target": long_target}  # fmt: skip
        job.counts |= {name: count for name, count in left_out.items() if count}
        if long_source or long_target:
            room = self.model.config.max_len
            job.warn(
                f"{long_source + long_target:,} pairs are left out, as a side of them is longer than {room:,} positions: "
                "a longer --seq-len keeps them"
            )
        if not writers["train"].n_pairs:
            raise InputError("no pair to train on", hint="look at the corpus: wordpipe show, or give more pairs")

    def trainer(self, folder: Path, execution: Execution, **given: Any) -> Trainer[LanguageLearner]:
        """The training on what the first process wrote to a folder."""
        train, valid = (open_pairs(folder / split, self.n_tokens) for split in _SPLITS)
        start_id = self.model.config.start_id
        assert start_id is not None
        objective = Pairs(start_id=start_id, device=execution.device)
        return assemble_learner(
            self.settings, self.model, train, valid if len(valid) else None, objective=objective,
            valid_objective=objective, execution=replace(execution, compiled=False), **given,
        )  # fmt: skip

    def announce(self, job: Job, trainer: Trainer[LanguageLearner]) -> None:
        """Say and record what is going to be trained."""
        config, plan, blocks = self.model.config, trainer.plan, trainer.learner.blocks
        weights = sum(weight.numel() for weight in self.model.parameters())
        job.counts |= {"steps": plan.steps, "parameters": weights}
        job.device = str(trainer.execution.device)
        job.facts |= {
            "n_layers": config.n_layers, "n_decoder_layers": config.n_decoder_layers, "n_heads": config.n_heads,
            "ffn_dim": config.ffn_dim, "positions": config.positions, "batch_size": plan.batch_size, "lr": plan.lr,
            "dtype": trainer.execution.facts()["dtype"], "processes": trainer.world.size, "prefix": self.settings.prefix,
        }  # fmt: skip
        several = "" if trainer.world.is_alone else f", {trainer.world.size} processes"
        job.note(
            f"encoder-decoder of {config.n_layers} + {config.n_decoder_layers} layers, width {config.dim}, "
            f"{weights / 1e6:.1f}M weights: {plan.steps:,} steps of {plan.batch_size:,} pairs, {blocks.seq_len:,} tokens "
            f"each, on {job.device} in {job.facts['dtype']}{several}"
        )
        if transformers_class(config) is None:
            job.warn(why_no_class(config))
        if not job.counts.get("pairs_valid"):
            job.note("no pair is held out, so there is no validation loss; ingest more pairs, or with a larger --valid")
        if plan.batch_size > len(blocks):
            job.warn(
                f"a batch of {plan.batch_size:,} takes each of the {len(blocks):,} pairs several times in one step"
            )

    def tokenizer_files(self) -> dict[str, bytes]:
        """The tokenizer, which frames a source as in training."""
        config = self.model.config
        ids = config.special_ids | {"unk": self.special.unk}
        frame = FRAMES["framed source" if self.settings.style == "bart" else "source"]
        tokenizer, names = framed_tokenizer(self.tokenizer_json, ids, frame=frame, vocab_size=config.vocab_size)
        return transformers_files(tokenizer, names, max_len=config.max_len)


def _write_rows(writer: PairWriter, rows: pa.RecordBatch) -> int:
    """Append pairs; how many had an empty side and were left out."""
    sides = []
    for column in ("ids", "ids_b"):
        lengths = pc.fill_null(pc.list_value_length(rows[column]), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        sides.append((rows[column].flatten().to_numpy(zero_copy_only=False), np.cumsum(lengths) - lengths, lengths))
    empty = 0
    for i in range(len(rows)):
        source, target = (ids[first[i] : first[i] + lengths[i]] for ids, first, lengths in sides)
        if not len(source) or not len(target):
            empty += 1
            continue
        writer.add(source, target)
    return empty


def _prepare(job: Job, path: PathLike, settings: Seq2SeqSettings) -> _Start:
    """Open the inputs, and make the model as it is before its first step.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    source = job.open_input(path, ["tokens"])
    if "ids_b" not in read_schema(source, "tokens").names:
        raise ArtifactError(
            "the tokens have no second text", where=source.path, expected="a column ids_b",
            hint="ingest pairs with --text-b FIELD or --parallel A B, and tokenize them",
        )  # fmt: skip
    data = source.read(TOKENIZER)
    tokenizer = open_tokenizer(data, where=str(source.path / TOKENIZER))
    special = special_ids(tokenizer, "encoder-decoder")
    special.need("eos")
    config = model_config(settings, "encoder-decoder", n_tokens=number_of_ids(tokenizer), special=special)
    with without_memory():
        refuse_too_large(EncoderDecoder(config))
    prefix = tuple(tokenizer.encode(settings.prefix, add_special_tokens=False).ids) if settings.prefix else ()
    return _Start(source, tokenizer, data, special, new_encoder_decoder(config, settings.seed), settings, prefix)
