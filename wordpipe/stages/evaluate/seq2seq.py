"""`wordpipe evaluate seq2seq`: target texts that an encoder-decoder writes, measured against references, beside baselines.

Every system gives one text for each of N pairs:

    model            what a search finds (`TargetWriter`)
    copy             the source itself
    first_sentence   the first sentence of the source
    nearest          the target of the training pair whose source is nearest by BM25, where training pairs are given

Every measure is a sum over the pairs, `rows` (N, K), and a score of the sum; so one bootstrap serves all of them, a model and
a baseline are drawn together (Koehn 2004), and a task's figures are those of its rows.

The loss is that of the first reference, every id of it and its end, with the reference before it at hand (teacher forcing) and
without label smoothing. It depends on the tokenizer: models with different ones do not compare by it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.artifacts import atomic_file
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.metrics import (
    INSTALL_SACREBLEU,
    MEASURES,
    Evaluation,
    Figure,
    Measured,
    Part,
    System,
    beside_models,
    bleu_score,
    bleu_statistics,
    chrf_score,
    chrf_statistics,
    exact_match,
    has_sacrebleu,
    json_of,
    ratio_of,
    rouge_l,
    side_by_side,
    signatures,
)
from wordpipe.model import EncoderDecoder
from wordpipe.model.settings import GenerateSettings
from wordpipe.runtime import Progress, torch_threads
from wordpipe.stages.evaluate.inputs import Ints, batches_of, evaluation_of, flat
from wordpipe.stages.evaluate.pairs_and_labels import (
    TextPairs,
    first_sentence,
    nearest_targets,
    read_pairs,
    read_training_pairs,
    with_field_of_training,
)
from wordpipe.stages.evaluate.settings import Seq2SeqEvaluationSettings
from wordpipe.stages.infer.generate import TargetWriter, Written, source_ids
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.models import OpenModel, open_model
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import SourceLike, as_list, refuse_source_as_output, shown_names
from wordpipe.training import PairTargets
from wordpipe.wording import counted, short_name

Floats = npt.NDArray[np.float64]
Writer = Callable[[Sequence[str]], list[Written]]
"""Source texts without their prefix to target texts."""

_COMPARED = ("bleu", "bleu_lc", "chrf", "rouge_l", "exact_match")  # by which a model is compared with baselines
_SOURCES_AT_ONCE = 512  # written between two reports
_POSITIONS_AT_ONCE = {"cpu": 1 << 12, "mps": 1 << 14, "cuda": 1 << 15}  # of both sides, for the loss
_LOGITS_AT_ONCE = 1 << 22
_MOST_NATS = 700.0  # of which a float holds the exponential
_SAMPLES = 0x5A3  # separates this draw from every other use of a seed
_ENDINGS = (".tsv", ".parquet")
_NAME_WIDTH, _PREFIX_WIDTH = 20, 40
_HEADS = {"copy": "copy of\nthe source", "first_sentence": "first\nsentence", "nearest": "nearest in\ntraining (BM25)"}
_PLAIN = {"copy": "the copy", "first_sentence": "the first sentence", "nearest": "the nearest in training"}
_LABELS = {"loss": {"label": "loss (nats/token)"}, "perplexity": {"label": "perplexity"}}


class _System(NamedTuple):
    """A system and what it gave for N pairs."""

    system: str  # model, copy, first_sentence or nearest
    name: str  # its own, or the path of the model
    outputs: list[str]  # N
    measures: dict[str, Measured]
    counts: dict[str, int]
    scores: list[float | None]  # N, of the search
    prefix: str | None = None  # that stood before every source; None where each has its own, or none has one


@public(Seq2SeqEvaluationSettings)
def evaluate_seq2seq(
    models: PathLike | Sequence[PathLike],
    data: SourceLike,
    *,
    train: SourceLike | None = None,
    output: PathLike | None = None,
    run: RunOptions | None = None,
    **settings: Any,
) -> Evaluation:
    r"""Evaluate encoder-decoders by the target texts that they write, beside baselines that need no training.

    Args:
        models: model artifacts, or folders of transformers. An empty list evaluates the baselines only.
        data: pairs: a corpus artifact with second texts; a tsv file of source, target and further references; records with
            the fields text and text_b (jsonl, csv, Parquet, a tsv file with a header); two or more files of plain text, line
            by line, the sources first; or rows in memory.
        train: the training pairs (of a corpus its split train), for a baseline: the target of the nearest source.
        output: a file for the texts that the model wrote, .tsv or .parquet; with one model only.
        run: progress, verification.
        settings: fields of `Seq2SeqEvaluationSettings`.

    Returns:
        evaluated ("seq2seq"), data, train, split (None for all), settings, counts, signatures (of bleu, bleu_lc and chrf),
        metrics, systems and samples. Without sacrebleu there are no bleu, bleu_lc, chrf and length_ratio, and no signatures.

        systems is a list of system ("model", "copy", "first_sentence", "nearest"), name, prefix (before every source),
        metrics, intervals (95 %, low and high), against (of a model: baseline → measure → difference, interval and p),
        counts, and by_prefix (prefix → metrics, intervals, against, pairs; empty without `prefix_field`). Metrics: bleu
        (tokenizer 13a, cased), bleu_lc (lower-cased, split at white space), chrf (0 to 100); rouge_l, exact_match (after
        `normalise_answer`; 0 to 1), length_ratio (words of the outputs over words of the references, as BLEU counts them);
        and of models loss (nats per token of the first reference, its end included), perplexity, and unfinished (share of
        outputs that the model did not end). Counts: outputs_empty; of models sources_cut and tokens_cut (what the model did
        not read, because it is shorter), targets_cut (references that the loss is of a part of) and targets (tokens that the
        loss is of).

        samples is a list of source, prefix, references and outputs (one for each system that is a model).

        metrics are those of the first system and, by the name of each system, those of its first.

    Raises:
        ConfigError: a setting is out of its bounds, or an output of another ending.
        StorageError: the output is a file that is read.
        InputError: there is no pair, or a file cannot be read as pairs; names file and line.
        ArtifactError: something is no encoder-decoder, or the corpus has no second texts.

    Example:
        >>> rows = ["the sea is high\tthe sea", "bread rises\tbread"]
        >>> _ = Path("titles.tsv").write_text("\n".join(rows))
        >>> found = wordpipe.evaluate_seq2seq([], "titles.tsv", draws=0)
        >>> [one["system"] for one in found["systems"]], found["metrics"]["length_ratio"]
        (['copy', 'first_sentence'], 2.0)
    """
    run, chosen = run or RunOptions(), Seq2SeqEvaluationSettings.make(settings)
    paths, file = as_list(models), None if output is None else Path(output)
    chosen = with_field_of_training(paths, chosen, run)
    chosen.generation(chosen.prefix)  # what does not go together is refused before anything is read
    _check_output(file, paths, [data] if train is None else [data, train])
    with storage_errors():
        pairs = read_pairs(data, chosen, run)
        trained = None if train is None else read_training_pairs(train, chosen, run)
        for path in paths[1:]:  # a search takes minutes: the last model is refused before
            open_model(path, verify=False).need("encoder-decoder")
        systems = [*_models(paths, pairs, chosen, run), *_baselines(pairs, trained, run)]
        run.report(Progress("computing the intervals"))
        shown, tables = _shown(systems, pairs, chosen)
        if file is not None:
            _write(file, pairs, systems[0])
    counts = pairs.counts
    if trained is not None:  # those of the training, to the character and with the same prefix
        known = {*zip(trained.prefixes, trained.sources, strict=True)}
        seen = sum(one in known for one in zip(pairs.prefixes, pairs.sources, strict=True))
        counts = counts | {"train_pairs": len(trained), "sources_in_train": seen}
    counted_by, samples = signatures(pairs.references) if has_sacrebleu() else {}, _samples(systems, pairs, chosen)
    said = [f"{MEASURES[name].label}: {signature}" for name, signature in counted_by.items()]
    return evaluation_of(
        "seq2seq", data, shown, main=shown[0].facts["system"], train=None if train is None else shown_names(train),
        split=pairs.split, settings=chosen.model_dump(mode="json"), counts=counts, signatures=counted_by, samples=samples,
        parts=[*tables, *said, *_said(samples)],
        remarks=_remarks(shown, counts, pairs.split, has_train=train is not None),
    )  # fmt: skip


def _check_output(file: Path | None, models: Sequence[str], read: Sequence[SourceLike]) -> None:
    """Refuse a file for the texts of `evaluate seq2seq` that cannot be written."""
    if file is None:
        return
    if file.suffix not in _ENDINGS:
        raise ConfigError("unknown format", where=file, got=file.suffix or "no ending", expected=" or ".join(_ENDINGS))
    if len(models) != 1:
        raise ConfigError(
            "the output file can hold the texts of one model only", where=file, got=f"{len(models)} models"
        )
    for source in read:
        refuse_source_as_output(file, shown_names(source))


# ---- systems


def _models(
    paths: Sequence[str], pairs: TextPairs, settings: Seq2SeqEvaluationSettings, run: RunOptions
) -> Iterator[_System]:
    """Yield seq2seq model after model; one is out of memory before the next is read."""
    for path in paths:
        run.report(Progress(f"reading {path}"))
        opened = open_model(path, verify=run.verify)
        opened.need("encoder-decoder")
        opened.move_to(settings.device)
        yield _written(opened, path, pairs, settings, run)


def make_writer(opened: OpenModel, settings: GenerateSettings, run: RunOptions) -> Writer:
    """Return the function by which a seq2seq model writes target texts."""
    writer = TargetWriter(opened, settings)
    for note in writer.notes:
        run.report(Progress("note", note=f"{Path(opened.path).name}: {note}"))
    return writer.write


def _written(
    opened: OpenModel, path: str, pairs: TextPairs, settings: Seq2SeqEvaluationSettings, run: RunOptions
) -> _System:
    """Let a seq2seq model write, one prefix after the other, and measure the texts."""
    # prefix after prefix: the loss of the references, and the texts of the search
    found = dict[int, Written]()
    nats_N, tokens_N, n_cut = np.zeros(len(pairs)), np.zeros(len(pairs), np.int64), 0
    for prefix in dict.fromkeys(pairs.prefixes) if settings.prefix_field else (settings.prefix,):
        own = [number for number, one in enumerate(pairs.prefixes) if not settings.prefix_field or one == prefix]
        sources, targets = [pairs.sources[one] for one in own], [pairs.references[one][0] for one in own]
        with torch_threads(settings.threads):
            loss = pair_losses(opened, sources, targets, prefix, run)
        nats_N[own], tokens_N[own], n_cut = loss.nats, loss.tokens, n_cut + loss.cut
        # the search
        write, some = make_writer(opened, settings.generation(prefix), run), list[Written]()
        for first in range(0, len(sources), _SOURCES_AT_ONCE):
            run.report(Progress(f"writing with {Path(path).name}", first, len(sources), "texts"))
            some += write(sources[first : first + _SOURCES_AT_ONCE])
        found |= zip(own, some, strict=True)
    # the measures of the best text of each source
    written = [found[number] for number in range(len(pairs))]
    best = [one.targets[0] for one in written]
    losses_N2 = np.stack([nats_N, tokens_N], axis=1)
    measures = _measures([one.text for one in best], pairs.references) | {
        "loss": Measured(losses_N2, ratio_of),
        "perplexity": Measured(losses_N2, lambda sums: np.exp(np.minimum(ratio_of(sums), _MOST_NATS))),
        "unfinished": _of_each(np.array([not one.finished for one in best], np.float64)),
    }
    # what was cut or came out empty
    counts = {
        "outputs_empty": sum(not one.text.strip() for one in best),
        "sources_cut": sum(one.cut > 0 for one in written),
        "tokens_cut": sum(one.cut for one in written),
        "targets_cut": n_cut,
        "targets": int(tokens_N.sum()),
    }
    scores: list[float | None] = [one.score for one in best]
    own_prefix = opened.prefix if settings.prefix is None else settings.prefix
    before = None if settings.prefix_field else own_prefix or None
    return _System("model", path, [one.text for one in best], measures, counts, scores, before)


def _baselines(pairs: TextPairs, train: TextPairs | None, run: RunOptions) -> Iterator[_System]:
    """Yield the systems of `evaluate seq2seq` without a model, which read sources without prefixes."""
    run.report(Progress("evaluating the baselines"))
    given = {"copy": pairs.sources, "first_sentence": [*map(first_sentence, pairs.sources)]}
    if train is not None:
        given["nearest"] = nearest_targets(pairs, train)
    for name, outputs in given.items():
        counts = {"outputs_empty": sum(not text for text in outputs)}
        yield _System(name, name, outputs, _measures(outputs, pairs.references), counts, [None] * len(outputs))


# ---- figures


def _measures(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Measured]:
    """Return the measures of seq2seq texts that need no model; without sacrebleu those counted here."""
    own = {
        "rouge_l": _of_each(rouge_l(outputs, references)),
        "exact_match": _of_each(exact_match(outputs, references, normalised=True)),
    }
    if not has_sacrebleu():
        return own
    bleu_NK = bleu_statistics(outputs, references)
    lower_NK = bleu_statistics(outputs, references, tokenizer="none", lowercase=True)
    return {
        "bleu": Measured(bleu_NK, bleu_score),
        "bleu_lc": Measured(lower_NK, bleu_score),
        "chrf": Measured(chrf_statistics(outputs, references), chrf_score),
        **own,
        "length_ratio": Measured(bleu_NK[:, :2], ratio_of),
    }


def _of_each(values_N: Floats) -> Measured:
    """A mean."""
    return Measured(np.stack([values_N, np.ones(len(values_N))], axis=1), ratio_of)


def _shown(
    systems: Sequence[_System], pairs: TextPairs, settings: Seq2SeqEvaluationSettings
) -> tuple[list[System], list[Part]]:
    """Return all seq2seq systems in the report, and for each prefix its number of pairs and a table."""
    # the pairs of each prefix, then all of them
    prefixes, heads = np.array(pairs.prefixes, dtype=object), [_HEADS.get(one.system) for one in systems]
    named = [head or short_name(one.name, _NAME_WIDTH) for head, one in zip(heads, systems, strict=True)]
    by_prefix, parts = [dict[str, Any]() for _ in systems], list[Part]()
    for task in dict.fromkeys(pairs.prefixes) if settings.prefix_field else ():
        of_N = prefixes == task
        found, n = _figures(systems, of_N, settings), int(of_N.sum())
        for own, (figures, against) in zip(by_prefix, found, strict=True):
            own[task] = {"pairs": n, **json_of(figures), "against": against}
        parts.append(f"{short_name(task, _PREFIX_WIDTH) or 'without a prefix'} ({counted(n, 'pairs')})")
        parts.append(side_by_side([System(head, figures) for head, (figures, _) in zip(named, found, strict=True)]))
    shown = []
    whole = _figures(systems, np.ones(len(pairs), np.bool_), settings)
    for one, head, own, (figures, against) in zip(systems, named, by_prefix, whole, strict=True):
        facts = {"system": one.system, "name": one.name, "prefix": one.prefix, "against": against, "counts": one.counts}
        shown.append(System(head, figures, facts | {"by_prefix": own}))
    return shown, [side_by_side(shown), *parts]


def _figures(
    systems: Sequence[_System], of_N: npt.NDArray[np.bool_], settings: Seq2SeqEvaluationSettings
) -> list[tuple[list[Figure], dict[str, Any]]]:
    """Return the figures of each seq2seq system for some of the pairs, compared with each baseline.

    And how a model differs from each baseline, as JSON.
    """
    draws, seed = settings.draws, settings.seed
    measures = [{name: one.rows_at(of_N) for name, one in system.measures.items()} for system in systems]
    named = [(one.name, one.system == "model") for one in systems]
    beside = beside_models(named, measures, draws, seed, keys=_COMPARED, floors_only=True)
    return [
        ([one.figure(key, draws, seed, below=below[key], **_LABELS.get(key, {})) for key, one in own.items()], against)
        for own, (below, against) in zip(measures, beside, strict=True)
    ]


def _said(samples: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Return source, references and outputs of each seq2seq sample below each other."""
    for number, sample in enumerate(samples, start=1):
        outputs = sample["outputs"]
        lines = [("prefix", sample["prefix"])] if sample["prefix"] else []
        lines += [("source", sample["source"]), *(("reference", text) for text in sample["references"])]
        lines += [(short_name(name, 9) if len(outputs) > 1 else "output", text) for name, text in outputs.items()]
        yield f"\nsample {number}"
        yield from (f"{label:<9}  {' '.join(text.split())}" for label, text in lines)


def _remarks(systems: Sequence[System], counts: dict[str, int], split: str | None, *, has_train: bool) -> Iterator[str]:
    """Yield remarks of `evaluate seq2seq`: on how much the figures stand, what was cut or left out."""
    # on how many pairs
    part = f" of the split {split}" if split else ""
    more = f", {counts['references']:,} references" if counts["references"] > counts["pairs"] else ""
    yield f"{counted(counts['pairs'], 'pairs')}{part}{more}"
    said = {
        "sources_empty": ("left out: ", "pairs", " without a source"),
        "targets_empty": ("left out: ", "pairs", " without a target"),
        "sources_in_train": ("also in the training pairs: ", "sources", ""),
    }
    yield from (f"{a}{counted(counts[name], what)}{b}" for name, (a, what, b) in said.items() if counts.get(name))
    # what each model did not read or write
    for one in systems:
        name, own = _PLAIN.get(one.facts["system"], one.head), one.facts["counts"]
        if cut := own.get("sources_cut"):
            unread = counted(own["tokens_cut"], "tokens")
            yield f"{name} did not read {unread} of {counted(cut, 'sources')}: the model cannot read longer sources"
        if cut := own.get("targets_cut"):
            yield f"{name} read only the beginning of {counted(cut, 'references')}, so the loss covers only this part"
        if empty := own["outputs_empty"]:
            yield f"{name}: {counted(empty, 'empty outputs')}"
    # measures and baselines that are missing
    if not has_sacrebleu():
        yield f"BLEU, chrF and the length ratio are not measured, because sacrebleu is not installed; {INSTALL_SACREBLEU}"
    if not has_train:
        yield "to add the nearest training pair as a baseline, use --train"


def _samples(systems: Sequence[_System], pairs: TextPairs, settings: Seq2SeqEvaluationSettings) -> list[dict[str, Any]]:
    """Return pairs with what the seq2seq models wrote, in order: the same ones for the same seed."""
    written = [one for one in systems if one.system == "model"]
    drawn = np.random.default_rng([settings.seed, _SAMPLES]).permutation(len(pairs))[: settings.samples]
    return [
        {
            "source": pairs.sources[number], "prefix": pairs.prefixes[number], "references": pairs.references[number],
            "outputs": {one.name: one.outputs[number] for one in written},
        }
        for number in sorted(drawn.tolist())
    ]  # fmt: skip


# ---- the loss


class PairLosses(NamedTuple):
    """The loss of N target texts."""

    nats: Floats  # (N,) summed over the tokens of each
    tokens: Ints  # (N,) how many each has, its end included
    cut: int  # targets that are longer than the model, so that the loss is of their beginning


def pair_losses(
    opened: OpenModel, sources: Sequence[str], targets: Sequence[str], prefix: str | None, run: RunOptions
) -> PairLosses:
    """Return a seq2seq model's -Σ log p of the tokens of each target text, given its source, float32.

    A model whose every target begins with a token of its own (forced_bos_token_id) reads it first, and its loss counts.
    Pairs of like lengths are computed together, packed: on a CPU nothing is padded.

    Args:
        opened: an encoder-decoder, where it is to compute.
        sources: N texts without prefix; of those that are longer than the model the beginning is read.
        targets: N texts.
        prefix: of the sources; None: what the model was trained with.
        run: progress.

    Raises:
        ArtifactError: the tokenizer has no token that ends a text, or the model's probabilities are not numbers.
    """
    if "eos" not in opened.special:
        raise ArtifactError("the model has no token for the end of a text", where=opened.path, expected="eos_token_id")
    # ids of all sources and targets
    end = opened.special["eos"]
    ids = [source_ids(opened, opened.prefix if prefix is None else prefix, text)[0] for text in sources]
    first = () if opened.pair_model.config.first_id is None else (opened.pair_model.config.first_id,)
    labels = [[*first, *opened.encode_target(text), end] for text in targets]
    cut = sum(len(some) > opened.max_len for some in labels)
    labels = [some[: opened.max_len] for some in labels]
    tokens_N = np.array([len(some) for some in labels], np.int64)
    nats_N, device = np.zeros(len(labels)), opened.pair_model.embedding.device
    # pairs of like lengths together, in batches
    order = sorted(range(len(labels)), key=lambda number: (len(labels[number]), len(ids[number])))
    done, phase = 0, f"evaluating {Path(opened.path).name}"
    sizes = [len(one) + len(some) for one, some in zip(ids, labels, strict=True)]
    for batch in batches_of(sizes, order, _POSITIONS_AT_ONCE[device.type]):
        run.report(Progress(phase, done, len(labels), "pairs"))
        nats_N[batch] = _packed_losses(opened.pair_model, [ids[one] for one in batch], [labels[one] for one in batch])
        done += len(batch)
    if not np.isfinite(nats_N).all():
        raise ArtifactError(
            "the probabilities of the model are not finite numbers", where=opened.path, hint="train the model again"
        )
    return PairLosses(nats_N, tokens_N, cut)


@torch.inference_mode()
def _packed_losses(model: EncoderDecoder, sources: Sequence[list[int]], labels: Sequence[list[int]]) -> Floats:
    """Return a seq2seq model's loss of each pair of a batch, (B,)."""
    assert model.config.start_id is not None, "an encoder-decoder has a start token"
    targets = PairTargets(flat(sources), flat(labels), model.embedding.device, model.config.start_id)
    source, seen, wanted = targets.packed()
    hidden_ND = model.write_packed(seen, model.read_packed(source))
    labels_N, losses = wanted.ids, list[Tensor]()
    at_once = max(1, _LOGITS_AT_ONCE // len(model.output_matrix))
    for first in range(0, len(labels_N), at_once):
        logits_NV = model.decoder.logits_at(hidden_ND[first : first + at_once]).float()
        losses.append(F.cross_entropy(logits_NV, labels_N[first : first + at_once], reduction="none"))
    nats_N = torch.cat(losses).double().cpu().numpy()
    pair_N = np.repeat(wanted.order, np.concatenate([np.full(B, T) for B, T in wanted.shapes]))
    real_N = np.concatenate([np.full(B * T, 1.0) if mask is None else mask.double().cpu().numpy().ravel()
                             for (B, T), mask in zip(wanted.shapes, wanted.real, strict=True)])  # fmt: skip
    return np.bincount(pair_N, weights=nats_N * real_N, minlength=len(labels)).astype(np.float64)


# ---- the file of outputs


def _write(file: Path, pairs: TextPairs, one: _System) -> None:
    """Write a file of the seq2seq texts: prefix, source, references, output and score of all pairs."""
    columns = {"prefix": pairs.prefixes} if any(pairs.prefixes) else {}
    columns["source"] = pairs.sources
    for k in range(max(map(len, pairs.references))):
        name = f"reference_{k + 1}" if k else "reference"
        columns[name] = [texts[k] if k < len(texts) else "" for texts in pairs.references]
    columns["output"] = one.outputs
    with atomic_file(file) as out:
        if file.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            arrays = {name: pa.array(column, pa.string()) for name, column in columns.items()}
            pq.write_table(pa.table(arrays | {"score": pa.array(one.scores, pa.float64())}), out)
            return
        # what parts cells and lines of a tsv file is written as an escape
        out.write(("\t".join([*columns, "score"]) + "\n").encode())
        for *texts, score in zip(*columns.values(), one.scores, strict=True):
            shown = "" if score is None or not math.isfinite(score) else f"{score:.6f}"
            out.write(("\t".join([*(text.translate(_ESCAPES) for text in texts), shown]) + "\n").encode())


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
