"""`wordpipe evaluate model`: how well language models expect a text; nothing is made."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from wordpipe.compiled import telling_of_compilation
from wordpipe.errors import ConfigError
from wordpipe.metrics.language import bits_per_byte, perplexity
from wordpipe.runtime import Progress, pick_device, torch_threads
from wordpipe.stages.inputs import as_list, corpus_to_judge
from wordpipe.stages.judged_text import ALL, SPLITS, JudgedText, TextCounts
from wordpipe.stages.making import PathLike, RunOptions, storage_errors
from wordpipe.stages.model_score import Score, score_model
from wordpipe.stages.models import open_model
from wordpipe.stages.seen_text import Seen, seen_text
from wordpipe.tokens.vocabulary import number_of_ids

__all__ = ["evaluate_model"]

_LEAST = 4  # positions of a sequence


def evaluate_model(
    models: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    split: str | None = None,
    seq_len: int | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    threads: int = 0,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Judge language models by how much a text surprises them.

    The text is tokenized by each model's own tokenizer and laid into sequences as in training: documents one after the
    other, with the ids around them that the model knows, cut every `seq_len` positions. A causal model has to expect every
    token and, where its documents have one, the end of each document; a masked model 15 % of the tokens, with the masks of
    the validation in training, which are the same in every call on the same kind of device. Everything is float32.

    Args:
        models: model artifacts, or folders of transformers.
        data: a corpus artifact, or sources of text, which are ingested with the default settings and left nowhere.
        split: train, valid, test or all; None: of an artifact what is held out (valid, else test, else all of it), of sources
            all.
        seq_len: positions of a sequence; None: the model's length, at most 2048.
        device: where the models run.
        threads: CPU threads, 0 = one per core.
        run: progress, verification.

    Returns:
        evaluated ("model"), data, split (None for all), metrics (of the first model), and models: a list of name,
        architecture, seq_len, parameters, vocab_size, metrics, nats (total surprise), counts, seen ("yes", "perhaps", "no",
        "unknown": whether it was trained on this text), warnings.

        metrics: loss (nats per target), perplexity (per target), accuracy (share of targets given the highest probability),
        unknown_rate (share of tokens that stand for what the vocabulary cannot spell); of causal models also
        perplexity_per_word and bits_per_byte (of the text, so that models with different tokenizers compare), which are None
        for masked models. counts: documents, sentences, bytes, words, unspaced_runs (see `TextCounts`), tokens,
        unknown_tokens, document_ends, targets.

    Raises:
        ConfigError: a setting is out of its bounds.
        InputError: there is no text.
        ArtifactError: something is no model, or its tokenizer lacks a token that the task needs.
    """
    run = run or RunOptions()
    _check(split, seq_len)
    sources = as_list(data)
    with storage_errors(), ExitStack() as stack:
        told = "compiling the loops for this machine: only the first run waits for it"
        stack.enter_context(telling_of_compilation(lambda: run.report(Progress("note", note=told))))
        stack.enter_context(torch_threads(threads))
        corpus, is_made = stack.enter_context(corpus_to_judge(sources, run))
        text = JudgedText(corpus, ALL if is_made and split is None else split, run.report)
        if text.split is None and split is None and not is_made:
            run.report(Progress("note", note="nothing of this corpus is held out: judging all of it"))
        where = pick_device(device)
        judged = [_judge(path, text, where, seq_len, run) for path in as_list(models)]
    return {
        "evaluated": "model",
        "data": sources[0] if len(sources) == 1 else sources,
        "split": text.split,
        "metrics": judged[0]["metrics"],
        "models": judged,
    }


def _check(split: str | None, seq_len: int | None) -> None:
    if split is not None and split not in SPLITS:
        raise ConfigError("no such split", where="split", got=split, expected=", ".join(SPLITS))
    if seq_len is not None and seq_len < _LEAST:
        raise ConfigError("out of bounds", where="seq_len", got=seq_len, expected=f"{_LEAST} or more")


def _judge(path: str, text: JudgedText, device: torch.device, seq_len: int | None, run: RunOptions) -> dict[str, Any]:
    opened = open_model(path, verify=run.verify)
    score = score_model(opened, text, device, seq_len)
    causal = opened.model.config.causal
    counts = asdict(text.counts) | {
        "documents": score.n_documents,
        "tokens": score.n_tokens,
        "unknown_tokens": score.n_unknown,
        "document_ends": score.n_ends,
        "targets": score.n_targets,
    }
    seen = seen_text(Path(path), text.corpus, text.split)
    warnings = _warnings(seen, counts, causal=causal)
    for warning in warnings:
        run.report(Progress("note", note=f"warning: {path}: {warning}"))
    return {
        "name": path,
        "architecture": opened.model.config.architecture,
        "seq_len": score.seq_len,
        "parameters": sum(weight.numel() for weight in opened.model.parameters()),
        "vocab_size": number_of_ids(opened.tokenizer),
        "metrics": _metrics(score, text.counts, causal=causal),
        "nats": score.nats,
        "counts": counts,
        "seen": seen,
        "warnings": warnings,
    }


def _metrics(score: Score, text: TextCounts, *, causal: bool) -> dict[str, float | None]:
    """The figures; a masked model's surprise is of some tokens only, so the text's words and bytes do not divide it."""
    found = {
        "loss": score.nats / score.n_targets if score.n_targets else None,
        "perplexity": perplexity(score.nats, score.n_targets),
        "perplexity_per_word": perplexity(score.nats, text.words) if causal else None,
        "bits_per_byte": bits_per_byte(score.nats, text.bytes) if causal else None,
        "accuracy": score.n_first / score.n_targets if score.n_targets else None,
        "unknown_rate": score.n_unknown / score.n_tokens if score.n_tokens else None,
    }
    return {name: None if value is None else round(value, 6) for name, value in found.items()}


def _warnings(seen: Seen, counts: dict[str, int], *, causal: bool) -> list[str]:
    """What the figures do not say of themselves."""
    found = []
    if seen == "yes":
        found.append("it was trained on this text, so these figures say how well it remembers, not what it knows")
    if seen == "perhaps":
        found.append(
            "it was trained on the same sources; unless they were split in the same way, it has seen this text"
        )
    if counts["unknown_tokens"]:
        share = counts["unknown_tokens"] / counts["tokens"]
        found.append(f"{share:.2%} of the tokens stand for what its vocabulary cannot spell, which are easily guessed")
    if causal and counts["unspaced_runs"] > counts["words"] / 100:
        found.append("runs of scripts without spaces count as one word each: compare bits per byte")
    return found
