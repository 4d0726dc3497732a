"""The loss of a model of any kind on a bounded sample of text, by its own objective; and sequences to look at it with.

    masked, causal      masked or next tokens, as in `evaluate model`
    denoising           what the corruption of the training takes out
    pairs               the tokens of the targets, given their sources; of a decoder that answers likewise
    classifier, tagger  the loss of the labels
    electra             none: what replaced tokens in its training is not kept; it reads the text as it is

The text is that of `data`, or what the model's manifest names: what is held out of it, and all of it where nothing is. The
sample is the same in every call, masks too, so that two figures differ by what was switched off and by nothing else.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch

from wordpipe.artifacts import Artifact, is_artifact, manifest_at, read_batches
from wordpipe.corpus import shown_path
from wordpipe.errors import ArtifactError, InputError
from wordpipe.heads import IGNORED, HeadTargets, Rows, head_loss_sum
from wordpipe.heads.settings import ClassifierSettings, ReaderSettings
from wordpipe.model import HeadConfig, HeadedModel
from wordpipe.runtime import Progress, torch_threads
from wordpipe.stages.evaluate.inputs import Ints, batches_of, flat, held_out_split
from wordpipe.stages.evaluate.language_model import known_of, tokenized
from wordpipe.stages.evaluate.pairs_and_labels import read_pairs
from wordpipe.stages.evaluate.settings import Seq2SeqEvaluationSettings
from wordpipe.stages.infer.generate import source_ids
from wordpipe.stages.inputs import corpus_to_evaluate
from wordpipe.stages.inspected_models import Inspected, see_its_vectors
from wordpipe.stages.job import RunOptions
from wordpipe.stages.models import DENOISING, OpenModel
from wordpipe.stages.sources import SourceLike, shown_names
from wordpipe.stages.train.head_tasks import ClassifierTask, ReaderTask, TaggerTask
from wordpipe.stages.train.labelled import Labelled, Record, require_columns, share_held_out
from wordpipe.storage import as_path
from wordpipe.tokens import number_of_ids
from wordpipe.training import (
    Blocks,
    Execution,
    Flat,
    PairRows,
    PairTargets,
    Validation,
    loss_sum,
    open_ids,
    open_starts,
    spread,
    write_streams,
)
from wordpipe.training.recipes import Texts, recipe_for, recipe_named

_READ = 4  # times as many tokens are read as are sampled from, so that the sample is spread over more documents
_SEQUENCES = 32  # looked at
_AT_ONCE = 4_096  # positions of a batch
_MAX_LEN = 512  # positions of a sequence: attention grows with the square
_SMALL = (
    2_000_000  # weights: below, threads wait for each other longer than they compute, and on busy cores many times so
)
_READING = ("max_query", "max_answer", "stride", "n_best")
_DAMAGE = ("noise", "mean_span")
_PROBLEMS = {"single_label": "single", "multi_label": "several", "regression": "score"}


@dataclass(frozen=True)
class Read:
    """One sequence as the model reads it; of an encoder-decoder with what its decoder reads."""

    ids: Ints
    target: Ints | None = None
    segments: Ints | None = None


@dataclass(frozen=True)
class HeldOut:
    """A sample.

    Attributes:
        what: what the loss is of, in words.
        where: what was read.
        split: the part of it; None: all, which the model may have been trained on.
        n_targets: of the loss.
        n_positions: that a measurement reads.
        measure: reads all of it with the model as it is now; gives the loss where the model has one.
        sequences: some of it.
        left_out: records that the model cannot say anything of.
        no_loss: why the model has no loss; None: it has.
    """

    what: str
    where: str
    split: str | None
    n_targets: int
    n_positions: int
    measure: Callable[[], float]
    sequences: list[Read]
    left_out: int = 0
    no_loss: ArtifactError | None = None

    def loss(self) -> float:
        """The loss of the model as it is now, nats per target (of a score: squared error). Raises ArtifactError: `no_loss`."""
        if self.no_loss is not None:
            raise self.no_loss
        return self.measure()


@contextmanager
def held_out(model: Inspected, data: SourceLike | None, n_tokens: int, run: RunOptions) -> Iterator[HeldOut]:
    """Open a held-out sample of about so many tokens, whole sequences, to measure a model's loss on.

    It stays open as long as its loss is measured.

    Args:
        model: to be measured.
        data: a corpus artifact or sources of text; None: what the model's manifest names.
        n_tokens: about so many tokens of it.
        run: progress, verification.

    Raises:
        InputError: no text, or no data is named and none is found.
        ArtifactError: a corpus without what the objective needs, or a model without an objective that is measured here:
            an encoder of texts.
    """
    if model.facts.get("objective") == "contrast":
        raise ArtifactError(
            "the model is a text encoder with a contrastive loss, so single texts have no loss", where=model.path,
            expected="a language model, an encoder-decoder, a classifier or a tagger", hint=see_its_vectors(model.path),
        )  # fmt: skip
    # the sample of the model's own objective
    small = sum(weight.numel() for weight in model.model.parameters()) < _SMALL
    # labels of a head, pairs of texts, or plain text
    with ExitStack() as stack, torch_threads(1 if small else 0):
        if model.opened is None:
            sample = _sample_of_head(model, _corpus(model, data, stack, run), n_tokens, given=data is not None)
        elif model.opened.answers or (model.writes_targets and model.command != DENOISING):
            sample = _sample_of_pairs(
                model.opened, data if data is not None else [_input_path(model, "corpus")], n_tokens, run
            )
        else:
            sample = _sample_of_text(model, _token_rows(model, data, stack, run), n_tokens, stack)
        # the figures of text that the model has seen may be too good
        if sample.split is None:
            run.report(
                Progress(
                    "note",
                    note=f"{sample.where} has no held-out part, so the whole text is used and the figures may be too good",
                )
            )
        yield sample


# ---- what is read


@dataclass(frozen=True)
class _Source:
    """Rows of a table of tokens."""

    where: str
    split: str | None
    rows: Iterator[pa.RecordBatch]  # doc_id, sentence_id, split, ids


def _input_path(model: Inspected, kind: str) -> str:
    """Return the path of the corpus or the tokens whose held-out part a sample is of.

    Raises:
        InputError: they are not where they were.
    """
    for found, path in model.inputs:
        if found == kind:
            return str(path)
        if found == "tokens":
            for entry in manifest_at(path).inputs:
                corpus = as_path(path.parent / (entry.path or ""))
                if entry.kind == kind and is_artifact(corpus):
                    return str(corpus)
    raise InputError(
        "the training text of the model was not found", where=model.path,
        expected=f"the {kind} artifact of the training, at the same path as in training",
        hint="give another text with --data (a corpus artifact or files)",
    )  # fmt: skip


def _corpus(model: Inspected, data: SourceLike | None, stack: ExitStack, run: RunOptions) -> Artifact:
    """Open the corpus that a held-out sample is taken from."""
    return stack.enter_context(corpus_to_evaluate([_input_path(model, "corpus")] if data is None else data, run))[0]


def _token_rows(model: Inspected, data: SourceLike | None, stack: ExitStack, run: RunOptions) -> _Source:
    """Return the ids of one split of the text that a held-out sample is taken from."""
    names = ["doc_id", "sentence_id", "split"]
    if data is None and any(kind == "tokens" for kind, _ in model.inputs):
        tokens = stack.enter_context(Artifact(_input_path(model, "tokens"), ["tokens"], verify=run.verify))
        split = held_out_split(tokens, "tokens")
        batches = (_rows_of_split(batch, split) for batch in read_batches(tokens, "tokens", [*names, "ids"]))
        return _Source(shown_path(tokens.path), split, batches)
    corpus = _corpus(model, data, stack, run)
    split = held_out_split(corpus)
    batches = (_rows_of_split(batch, split) for batch in read_batches(corpus, "corpus", [*names, "text"]))
    return _Source(shown_path(corpus.path), split, tokenized(batches, model.tokenizer))


def _rows_of_split(batch: pa.RecordBatch, split: str | None) -> pa.RecordBatch:
    """Return the rows of one split of the text; None: all rows."""
    return batch if split is None else batch.filter(pc.equal(batch.column("split"), split))


def _first_rows(source: _Source, n_tokens: int) -> Iterator[pa.RecordBatch]:
    """Yield rows for a held-out sample until there are several times as many tokens as are wanted."""
    there = 0
    for batch in source.rows:
        sizes = np.cumsum(pc.list_value_length(batch.column("ids")).to_numpy(zero_copy_only=False))
        last = int(np.searchsorted(sizes, _READ * n_tokens - there)) + 1
        some = batch.slice(0, last)
        place = some.schema.get_field_index("split")
        yield some.set_column(place, "split", pa.array(["all"] * len(some), pa.string()))
        there += int(sizes[-1]) if len(sizes) else 0
        if there >= _READ * n_tokens:
            return


# ---- the objectives


def _sample_of_text(model: Inspected, source: _Source, n_tokens: int, stack: ExitStack) -> HeldOut:
    """Return the held-out sample of a language model: plain text, damaged as in training."""
    # the recipe, and how it lays texts out
    opened, cpu = model.opened, torch.device("cpu")
    assert opened is not None
    config, trained = opened.model.config, int(model.facts.get("seq_len") or 0)
    recipe = recipe_named("denoising") if opened.writes_targets else recipe_for(config)
    seq_len = trained or config.max_len if opened.writes_targets else min(model.max_len, _MAX_LEN, trained or _MAX_LEN)
    known = known_of(opened, seq_len, style="t5" if config.positions == "t5" else "bart")
    given = {name: model.settings[name] for name in _DAMAGE if name in model.settings}
    settings = recipe.settings.make(given if opened.writes_targets else {})
    data = recipe.data(known, settings)
    assert isinstance(data, Texts)
    # the text, in sequences
    file, n_ids = (
        Path(stack.enter_context(TemporaryDirectory(prefix="wordpipe-"))) / "ids",
        number_of_ids(model.tokenizer),
    )
    stream = write_streams(
        _first_rows(source, n_tokens), {"all": file}, vocab_size=n_ids, before=data.before, after=data.after,
        find_starts=None if data.find_starts is None else data.find_starts(),
    )["all"]  # fmt: skip
    if not stream.n_ids:
        raise InputError("there is no text to measure the model on", where=source.where)
    blocks = data.held_out(open_ids(file, n_ids), data.seq_len, None if data.find_starts is None else open_starts(file))
    if config.replaced_head:
        return _sample_of_electra(model, blocks, source, n_tokens)
    what = {"decoder": "next tokens", "encoder": "masked tokens", "encoder-decoder": "damaged tokens"}
    objective = recipe.measured_by(settings, known, cpu)
    return _validated_sample(model, blocks, objective, what[config.architecture], source, n_tokens)


def _validated_sample(
    model: Inspected, blocks: Blocks, objective: Any, what: str, source: _Source, n_tokens: int
) -> HeldOut:
    """Return the held-out sample whose loss is that of a `Validation`."""
    cpu = torch.device("cpu")
    validation = Validation(
        blocks, objective, Execution(cpu, torch.float32, torch.get_num_threads(), compiled=False, bitwise=True),
        n_positions=max(n_tokens, blocks.seq_len), micro_batch=max(1, _AT_ONCE // blocks.seq_len),
    )  # fmt: skip
    numbers = np.linspace(0, len(blocks) - 1, min(len(blocks), _SEQUENCES)).astype(np.int64)
    generator = torch.Generator().manual_seed(1)
    targets = objective.targets(blocks.rows(np.unique(numbers)), generator, 1.0)
    if isinstance(targets, PairTargets):
        sequences = _pair_sequences(targets.sources, targets.labels, targets.start_id)
    else:  # not those with masks: the text itself
        rows = blocks.rows(np.unique(numbers)).ids_BT.numpy().astype(np.int64)
        sequences = [Read(ids[: blocks.seq_len]) for ids in rows]
    total = validation.total(model.model, loss_sum)
    return HeldOut(
        what, source.where, source.split, total.n_targets, validation.n_positions,
        lambda: validation.total(model.model, loss_sum).loss, sequences,
    )  # fmt: skip


def _sample_of_electra(model: Inspected, blocks: Blocks, source: _Source, n_tokens: int) -> HeldOut:
    """Return a held-out sample for an ELECTRA, which reads plain text and has no loss."""
    assert model.opened is not None
    encoder, at_once = model.opened.language_model, max(1, _AT_ONCE // blocks.seq_len)
    ids_NT = blocks.rows(spread(len(blocks), n_tokens // blocks.seq_len)).ids_BT[:, : blocks.seq_len]

    def read() -> float:
        with torch.inference_mode():
            for first in range(0, len(ids_NT), at_once):
                encoder.encode(ids_NT[first : first + at_once])
        return math.nan

    n_positions, sequences = ids_NT.numel(), [Read(one.numpy().astype(np.int64)) for one in ids_NT[:_SEQUENCES]]
    no_loss = ArtifactError(
        "an ELECTRA model has no measurable loss, because the generator of its training is not stored",
        where=model.path, expected="a language model, an encoder-decoder, a classifier or a tagger",
    )  # fmt: skip
    return HeldOut(
        "positions", source.where, source.split, n_positions, n_positions, read, sequences, no_loss=no_loss
    )  # fmt: skip


def _sample_of_pairs(opened: OpenModel, data: SourceLike, n_tokens: int, run: RunOptions) -> HeldOut:
    """Return the held-out sample of a model that was trained on pairs of texts."""
    # pairs in random order, until there are tokens enough
    settings = Seq2SeqEvaluationSettings(prefix_field=opened.prefix_field)
    pairs = read_pairs(data, settings, run)
    end = opened.special["eos"]
    first = () if (start := opened.model.config.first_id) is None else (start,)
    sources, labels, size = list[list[int]](), list[list[int]](), 0
    # ids of source and target, as the model was trained
    for number in np.random.default_rng(1).permutation(len(pairs)):
        prefix = pairs.prefixes[number] if opened.prefix_field else opened.prefix
        sources.append(source_ids(opened, prefix, pairs.sources[number])[0])
        labels.append([*first, *opened.encode_target(pairs.references[number][0]), end][: opened.max_len])
        if opened.answers:  # both are one sequence
            labels[-1] = labels[-1][: max(1, opened.max_len - len(sources[-1]))]
        size += len(sources[-1]) + len(labels[-1])
        if size >= n_tokens:
            break
    # as in training, those of about one length together
    recipe, start_id = recipe_named("clm" if opened.answers else "seq2seq"), opened.model.config.start_id
    known = known_of(opened, opened.max_len, is_paired=True)
    objective, draw = recipe.objective(recipe.settings(), known, torch.device("cpu")), torch.Generator()
    batches = [
        objective.targets(
            PairRows(flat([sources[one] for one in some]), flat([labels[one] for one in some])), draw, 1.0
        )
        for some in _by_size([len(one) + len(other) for one, other in zip(sources, labels, strict=True)])
    ]
    # what is looked at: of a decoder both texts as one
    if start_id is None:
        joined = [np.array(one + other[:-1], np.int64) for one, other in zip(sources, labels, strict=True)]
        sequences = [Read(ids) for ids in joined[:_SEQUENCES]]
    else:
        sequences = _pair_sequences(flat(sources[:_SEQUENCES]), flat(labels[:_SEQUENCES]), start_id)
    return _sample_of_batches(
        opened.model, batches, loss_sum, "tokens of targets", ", ".join(shown_names(data)), pairs.split, sequences
    )


def _pair_sequences(sources: Flat, labels: Flat, start_id: int) -> list[Read]:
    """Yield each source of a held-out sample of pairs, and what the decoder reads of its labels."""
    (ids, sizes), (wanted, more) = sources, labels
    one, other = np.split(ids, np.cumsum(sizes)[:-1]), np.split(wanted, np.cumsum(more)[:-1])
    return [
        Read(np.asarray(a, np.int64), np.concatenate(([start_id], b[:-1])).astype(np.int64))
        for a, b in zip(one, other, strict=True)
    ]


def _by_size(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of examples, those of about one size together."""
    return batches_of(sizes, np.argsort(sizes, kind="stable").tolist(), _AT_ONCE)


def _sample_of_batches(
    model: Any, batches: Sequence[Any], sum_of: Callable[[Any, Any], torch.Tensor], what: str, where: str, split: str | None,
    sequences: list[Read], left_out: int = 0,
) -> HeldOut:  # fmt: skip
    """Return the held-out sample whose loss is the mean over batches."""
    n_targets = sum(float(batch.n_targets) for batch in batches)

    def loss() -> float:
        with torch.inference_mode():
            return math.fsum(float(sum_of(model, batch)) for batch in batches) / max(1.0, n_targets)

    positions = sum(batch.n_positions for batch in batches)
    return HeldOut(what, where, split, round(n_targets), positions, loss, sequences, left_out)


def _sample_of_head(model: Inspected, corpus: Artifact, n_tokens: int, *, given: bool) -> HeldOut:
    """Return the held-out sample of a model with a head; records with an unknown label are left out."""
    # the task that the head was trained for
    headed = model.model
    assert isinstance(headed, HeadedModel)
    head = headed.head_config
    task: ReaderTask | TaggerTask | ClassifierTask
    if head.kind == "span":
        own = {name: model.settings[name] for name in _READING if name in model.settings}
        task = ReaderTask(ReaderSettings.make(own))
    elif head.kind == "token":
        task = TaggerTask()
    else:
        task = ClassifierTask(ClassifierSettings.make({"problem": _PROBLEMS[head.problem]}))
    # the records that were held out; all where none were
    names = require_columns(corpus, task)
    share = 0.0 if given else share_held_out(corpus, task, float(model.settings.get("held_out") or 0.0))[0]
    labelled = Labelled(corpus, task, share, "text_b" in names)
    kept = any(record.held_out for record in labelled.records())
    encoder = task.encoder(model.tokenizer, model.max_len)
    # examples until there are tokens enough; the tokenizer cuts long texts meanwhile
    rows, size, left_out = list[tuple[Any, list[float]]](), 0, 0
    records = (record for record in labelled.records() if record.held_out or not kept)
    try:
        while size < n_tokens and (some := list(islice(records, 256))):
            for one, target in _head_examples(task, some, encoder, labelled, head):
                if target is None:
                    left_out += 1
                elif size < n_tokens:
                    rows.append((one, target))
                    size += len(one.ids)
    finally:
        model.tokenizer.no_truncation()
    # none of them may be known
    if not rows:
        raise InputError(
            "no record has a label that the model knows",
            where=corpus.path,
            got=f"{left_out:,} records with other labels",
        )
    # batches of about one length, and what is looked at of them
    batches = [
        HeadTargets(_head_rows([rows[one] for one in some], task.per_word), task.per_word)
        for some in _by_size([len(one.ids) for one, _ in rows])
    ]
    has_segments = headed.config.segments > 0
    sequences = [
        Read(one.ids.astype(np.int64), None,
                  (np.arange(len(one.ids)) >= one.second).astype(np.int64) if has_segments else None)
        for one, _ in rows[:_SEQUENCES]
    ]  # fmt: skip
    # what the loss is of
    what = {"token": "tags of words", "sequence": "labels of texts", "span": "ends of answers"}[head.kind]
    return _sample_of_batches(
        headed, batches, head_loss_sum, "scores of texts" if head.problem == "regression" else what, str(corpus.path),
        "held out" if kept else None, sequences, left_out,
    )  # fmt: skip


def _head_examples(
    task: Any, records: Sequence[Record], encoder: Any, labelled: Labelled, head: HeadConfig
) -> Iterator[tuple[Any, list[float] | None]]:
    """Yield the ids of each held-out record for a head, and their target; None: an unknown label.

    None where a label is unknown to the model.
    """
    if head.kind == "span":
        for windows in task.examples(records, encoder, labelled):
            yield from ((one, [*target]) for one, target in windows)
        return
    encoded = encoder.encode([record.texts for record in records], words=task.per_word)
    for record, one in zip(records, encoded, strict=True):
        yield one, _head_target(record, head.labels, head.problem, one.firsts, len(one.ids), task.per_word)


def _head_target(
    record: Record, labels: Sequence[str], problem: str, firsts: npt.NDArray[np.int32], n: int, per_word: bool
) -> list[float] | None:
    """Return the target of a held-out labelled record; None where the head does not know its label."""
    label = record.label
    if problem == "regression":
        return [float(label)]
    names = list(label) if isinstance(label, tuple | list) else [label]
    if not {*names} <= {*labels}:
        return None
    if per_word:
        found = [float(IGNORED)] * n
        for place, name in reversed([*zip(firsts.tolist(), names, strict=True)]):
            if place >= 0:
                found[place] = float(labels.index(name))
        return found
    if problem == "multi_label":
        return [float(name in names) for name in labels]
    return [float(labels.index(names[0]))]


def _head_rows(some: Sequence[tuple[Any, list[float]]], per_word: bool) -> Rows:
    """Return held-out examples of a head as rows of ids with their targets."""
    targets = [np.array(target, np.float32) for _, target in some]
    return Rows(
        np.concatenate([one.ids for one, _ in some]), np.array([len(one.ids) for one, _ in some], np.int64),
        np.array([one.second for one, _ in some], np.int64), np.concatenate(targets) if per_word else np.stack(targets),
        torch.device("cpu"),
    )  # fmt: skip
