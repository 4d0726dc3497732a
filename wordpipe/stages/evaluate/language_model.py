"""`wordpipe evaluate model`: the loss, perplexity and accuracy of language models on a text; no artifact is written."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import torch
from tokenizers import Tokenizer

from wordpipe.artifacts import KINDS, Artifact, Manifest, input_of, is_artifact, manifest_at
from wordpipe.compiled import watch_compilation
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics import Evaluation, Figure, System, side_by_side
from wordpipe.runtime import Progress, Report, pick_device, torch_threads
from wordpipe.stages.evaluate.inputs import evaluation_of, held_out_split, split_rows
from wordpipe.stages.inputs import corpus_to_evaluate
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.models import OpenModel, open_model
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import as_list
from wordpipe.tokens import Encoder, cut_words, list_array, number_of_ids, row_buffers, vocabulary_of
from wordpipe.training import (
    Execution,
    Scorer,
    SpecialIds,
    Validation,
    bits_per_byte,
    perplexity,
    write_streams,
)
from wordpipe.training.recipes import Opened, Texts, recipe_for
from wordpipe.wording import human_bytes, human_count, short_name

Seen = Literal["yes", "perhaps", "no", "unknown"]
"""Whether a model was trained on a text. Perhaps: on the same sources, but they were split in another way. Unknown: not all of
its inputs are found."""

_ALL = "all"
_SPLITS = ("train", "valid", "test", _ALL)
_MIN_SEQ_LEN, _MAX_DEFAULT_SEQ_LEN = 4, 2048  # attention grows with the square of the length
_POSITIONS_AT_ONCE = {"cpu": 1 << 12, "mps": 1 << 14, "cuda": 1 << 15}
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー々]+"  # as in tokens/words.py


@public()
def evaluate_model(
    models: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    split: str | None = None,
    seq_len: int | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    threads: int = 0,
    run: RunOptions | None = None,
) -> Evaluation:
    """Evaluate language models by the loss of a text.

    The text is tokenized by each model's own tokenizer and laid into sequences as in training: documents one after the
    other, with the ids around them that the model knows, cut every `seq_len` positions. A causal model has to expect every
    token and, where its documents have one, the end of each document; a masked model 15 % of the tokens, with the masks of
    the validation in training, which are the same in every call on the same kind of device. Everything is float32.

    Args:
        models: model artifacts, or model folders of transformers.
        data: a corpus artifact, or sources of text, which are ingested with the default settings into a temporary folder.
        split: train, valid, test or all; None: the held-out part of an artifact (valid, else test, else all), all of the
            sources.
        seq_len: positions of a sequence; None: the model's length, at most 2048.
        device: where the models run.
        threads: CPU threads, 0 = one per core.
        run: progress, verification.

    Returns:
        evaluated ("model"), data, split (None for all), metrics (of the first model), and models: a list of name,
        architecture, seq_len, parameters, vocab_size, metrics, nats (total surprise), counts, seen (see `Seen`), warnings.

        metrics: loss (nats per target), perplexity (per target), accuracy (share of targets given the highest probability),
        unknown_rate (share of tokens that stand for what the vocabulary cannot spell); of causal models also
        perplexity_per_word and bits_per_byte (of the text, so that models with different tokenizers compare), which are None
        for masked models. counts: sentences, bytes (of UTF-8, as the text came in), words (what the word pattern of the
        project finds; a run of a script without spaces is one word), unspaced_runs (such runs), documents (those that have a
        token), tokens, unknown_tokens, document_ends (targets that end a document), targets.

    Raises:
        ConfigError: a setting is out of its bounds, or a model has no such positions.
        InputError: there is no text, or too little.
        ArtifactError: something is no model, its tokenizer lacks a token that the task needs, or its probabilities are no
            numbers.

    Example:
        >>> found = wordpipe.evaluate_model("run/model", "run/corpus", split="valid")
        >>> found["metrics"]["perplexity"] > 1
        True
    """
    run = run or RunOptions()
    if split is not None and split not in _SPLITS:
        raise ConfigError("unknown split", where="split", got=split, expected=", ".join(_SPLITS))
    if seq_len is not None and seq_len < _MIN_SEQ_LEN:
        raise ConfigError("out of bounds", where="seq_len", got=seq_len, expected=f"{_MIN_SEQ_LEN} or more")
    sources = as_list(data)
    with storage_errors(), ExitStack() as stack:
        waiting = "compiling code for this machine, in the first run only"
        stack.enter_context(watch_compilation(lambda: run.report(Progress("note", note=waiting))))
        stack.enter_context(torch_threads(threads))
        corpus, is_made = stack.enter_context(corpus_to_evaluate(sources, run))
        text = _Text(corpus, _ALL if is_made and split is None else split, run.report)
        if text.split is None and split is None and not is_made:
            run.report(Progress("note", note="this corpus has no held-out split: the whole corpus is evaluated"))
        where = pick_device(device)
        systems = [_evaluate(path, text, where, seq_len, run) for path in as_list(models)]
    return evaluation_of(
        "model", sources, systems, under="models", split=text.split, parts=[side_by_side(systems)],
        remarks=_remarks(systems, text.split),
    )  # fmt: skip


class _Text:
    """The part of a corpus that models are evaluated on; the corpus stays open as long as this is used.

    `wanted` is train, valid, test or all; None: what is held out (valid, else test), and all of it where nothing is.
    """

    def __init__(self, corpus: Artifact, wanted: str | None, report: Report) -> None:
        self.corpus, self.report = corpus, report
        self.split = held_out_split(corpus) if wanted is None else None if wanted == _ALL else wanted  # None: all of it
        # how much text it is, whatever the tokenizer
        self.counts = dict.fromkeys(("sentences", "bytes", "words", "unspaced_runs"), 0)
        cut = cut_words()
        for batch in self.rows(["split", "text"], "counting"):
            texts = batch.column("text")
            self.counts["sentences"] += len(texts)
            self.counts["bytes"] += len(row_buffers(texts)[0])
            self.counts["words"] += len(cut(texts).starts)
            self.counts["unspaced_runs"] += pc.sum(pc.count_substring_regex(texts, _UNSPACED)).as_py() or 0
        if not self.counts["bytes"]:
            raise InputError(
                "there is no text to evaluate on", where=corpus.path, got=self.split and f"nothing in the split {self.split}",
                hint="use --split all, or ingest with --valid 0.1" if self.split else None,
            )  # fmt: skip

    def rows(self, columns: list[str], phase: str) -> Iterator[pa.RecordBatch]:
        return split_rows(self.corpus, columns, self.split, phase, self.report)


def tokenized(batches: Iterable[pa.RecordBatch], tokenizer: Tokenizer) -> Iterator[pa.RecordBatch]:
    """Yield rows with doc_id, sentence_id and text as rows of tokens, to evaluate a language model."""
    encoder = Encoder(tokenizer)
    worker, kind = encoder.for_thread(), pa.list_(pa.field("item", encoder.id_type, nullable=False))
    for batch in batches:
        ids = list_array(*worker.encode(batch.column("text")), kind)
        columns = [batch.column("doc_id"), batch.column("sentence_id"), pa.array([_ALL] * len(batch), pa.string()), ids]
        yield pa.RecordBatch.from_arrays(columns, names=["doc_id", "sentence_id", "split", "ids"])


def _evaluate(path: str, text: _Text, device: torch.device, wanted: int | None, run: RunOptions) -> System:
    """Evaluate a language model: tokenize the text, lay it into sequences as in training, add up the loss."""
    # the model, and how many positions it reads
    opened = open_model(path, verify=run.verify)
    opened.need_guesses()
    config, n_ids = opened.model.config, number_of_ids(opened.tokenizer)
    # more positions than the model was made for only where it needs no table of them
    if wanted is not None and wanted > config.max_len and (config.has_fixed_length or config.positions == "sinusoidal"):
        expected = f"at most {config.max_len}"
        raise ConfigError(
            "the sequences are longer than the model can read", where="seq_len", got=wanted, expected=expected
        )
    # what the model reads at once
    seq_len, model = wanted or min(config.max_len, _MAX_DEFAULT_SEQ_LEN), opened.language_model
    # the layout of texts by the recipe that can go on with such a model
    known, recipe = known_of(opened, seq_len), recipe_for(config)
    settings = recipe.settings()
    data = recipe.data(known, settings)
    assert isinstance(data, Texts), "a model with one stack reads plain texts"
    opened.model.to(device)
    # the token stream and the validation of a training, on the text alone
    with TemporaryDirectory(prefix="wordpipe-") as folder:
        files = {_ALL: Path(folder) / "ids"}
        rows = tokenized(text.rows(["doc_id", "sentence_id", "split", "text"], "tokenizing"), opened.tokenizer)
        stream = write_streams(rows, files, vocab_size=n_ids, before=data.before, after=data.after)[_ALL]
        blocks = data.held_out(stream.open(), seq_len)
        # the loss of the whole text
        validation = Validation(
            blocks,
            recipe.measured_by(settings, known, device),
            Execution(device, torch.float32, torch.get_num_threads(), compiled=False, bitwise=device.type == "cpu"),
            n_positions=None,
            micro_batch=max(1, _POSITIONS_AT_ONCE[device.type] // blocks.seq_len),
        )
        # the figures, with progress
        phase = f"evaluating {Path(opened.path).name}"
        scorer = Scorer(lambda done: text.report(Progress(phase, done, validation.n_positions, "positions")))
        total = validation.total(model, scorer)
    if not math.isfinite(total.nats):
        raise ArtifactError(
            "the probabilities of the model are not finite numbers", where=opened.path, hint="train the model again"
        )
    # the counts that the figures are shares of, and whether the model knows the text already
    counts = text.counts | {
        "documents": stream.n_documents,
        "tokens": stream.n_tokens,
        "unknown_tokens": int(stream.counts[vocabulary_of(opened.tokenizer).unknown].sum()),
        "document_ends": stream.n_documents if config.causal and data.after else 0,
        "targets": total.n_targets,
    }
    # warnings where the figures would be misread
    seen = _seen(Path(path), text.corpus, text.split)
    warnings = _warnings(seen, counts, causal=config.causal, answers=opened.answers)
    for warning in warnings:
        run.report(Progress("note", note=f"warning: {path}: {warning}"))
    return _system(_metrics(total.nats, scorer.n_first, counts, causal=config.causal), {
        "name": path, "architecture": config.architecture, "seq_len": seq_len,
        "parameters": sum(weight.numel() for weight in opened.model.parameters()), "vocab_size": n_ids, "nats": total.nats,
        "counts": counts, "seen": seen, "warnings": warnings,
    })  # fmt: skip


def _system(metrics: dict[str, float | None], facts: dict[str, Any]) -> System:
    """Return a language model in the report."""
    own = {"accuracy": ("first guess right", "{:.1%}")}
    figures = [Figure(key, value, None, *own.get(key, ())) for key, value in metrics.items()]
    counts = facts["counts"]
    about = {
        "targets": f"{counts['targets']:,}", "tokens of the text": f"{counts['tokens']:,}",
        "vocabulary": f"{facts['vocab_size']:,}", "positions": f"{facts['seq_len']:,}",
        "weights": human_count(facts["parameters"]),
    }  # fmt: skip
    context = ("context", "left side" if facts["architecture"] == "decoder" else "both sides")
    return System(short_name(facts["name"]), figures, facts, [context, *figures, *about.items()])


def _remarks(systems: Sequence[System], split: str | None) -> Iterator[str]:
    """Yield remarks on which text a language model's figures stand, and whether the columns compare."""
    counts = systems[0].facts["counts"]
    yield (
        f"{f'the split {split}' if split else 'all of the text'}: documents {human_count(counts['documents'])}, "
        f"words {human_count(counts['words'])}, {human_bytes(counts['bytes'])}"
    )
    if len({one.facts["architecture"] for one in systems}) > 1:
        yield "models that see both sides of a token have an easier task, so do not compare their figures with causal models"
    if len({one.facts["seq_len"] for one in systems}) > 1:
        yield "the models read sequences of different length, and longer sequences help; --seq-len sets one length for all"


def known_of(opened: OpenModel, seq_len: int, **given: Any) -> Opened:
    """Return the facts about a language model that its recipe needs; `given` are further attributes."""
    return Opened(
        special=SpecialIds(**opened.special), n_tokens=number_of_ids(opened.tokenizer), seq_len=seq_len,
        tokenizer=opened.tokenizer, start_id=opened.model.config.start_id, **given,
    )  # fmt: skip


def _metrics(nats: float, n_first: int, of: dict[str, int], *, causal: bool) -> dict[str, float | None]:
    """Return a language model's figures; only a causal model's loss is divided by words and bytes."""
    found = {
        "bits_per_byte": bits_per_byte(nats, of["bytes"]) if causal else None,
        "perplexity_per_word": perplexity(nats, of["words"]) if causal else None,
        "perplexity": perplexity(nats, of["targets"]),
        "loss": nats / of["targets"] if of["targets"] else None,
        "accuracy": n_first / of["targets"] if of["targets"] else None,
        "unknown_rate": of["unknown_tokens"] / of["tokens"] if of["tokens"] else None,
    }
    return {name: None if value is None else round(value, 6) for name, value in found.items()}


def _warnings(seen: Seen, counts: dict[str, int], *, causal: bool, answers: bool) -> list[str]:
    """Yield warnings where the figures of a language model would be misread."""
    found = []
    if answers:
        found.append("the model was trained to write the second text of a pair, so it does not expect plain text")
    if seen == "yes":
        found.append(
            "the model was trained on this text: the figures show what the model remembers, not how well it predicts new text"
        )
    if seen == "perhaps":
        found.append(
            "the model was trained on the same sources; if the sources were split in another way, the model has seen this text"
        )
    if counts["unknown_tokens"]:
        share = counts["unknown_tokens"] / counts["tokens"]
        found.append(
            f"{share:.2%} of the tokens are unknown tokens, which are easy to guess, so the figures look better than they are"
        )
    if causal and counts["unspaced_runs"] > counts["words"] / 100:
        found.append("in scripts without spaces, a whole passage counts as one word, so compare bits per byte")
    return found


def _seen(model: Path, corpus: Artifact, split: str | None) -> Seen:
    """Return whether the language model was trained on this part of the corpus.

    Nothing is known of a folder of transformers. No split is all of the corpus.
    """
    if not is_artifact(model):
        return "unknown"
    digests: set[str] = set()
    manifest = manifest_at(model)
    complete = _gather_inputs(model, manifest, digests)
    if corpus.digest in digests:
        return "yes" if split in ("train", None) else "no"
    if digests & {entry.digest for entry in corpus.manifest.inputs}:
        return "yes" if split is None else "perhaps"
    return "no" if complete else "unknown"


def _gather_inputs(path: Path, manifest: Manifest, digests: set[str]) -> bool:
    """Gather the digests of all that a language model was made from, from manifest to manifest.

    Returns:
        False where an input is not where its artifact says, or is another one now, so that there may be more.
    """
    complete = True
    for entry in manifest.inputs:
        if entry.digest in digests:
            continue
        digests.add(entry.digest)
        if entry.kind in KINDS:
            there = input_of(path, entry)
            complete &= there is not None and _gather_inputs(*there, digests)
        elif entry.kind == "file" and manifest.kind == "model":  # the folder of transformers that it started from
            complete = False
    return complete
