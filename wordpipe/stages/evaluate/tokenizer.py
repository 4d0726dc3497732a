"""`wordpipe evaluate tokenizer`: how well tokenizers fit a text, by measures; nothing is written."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, Artifact, is_artifact
from wordpipe.errors import InputError
from wordpipe.stages.evaluate.inputs import report_on, shown_words, split_rows
from wordpipe.stages.inputs import corpus_to_evaluate
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.sources import as_list
from wordpipe.tokens import TokenizerEvaluation, open_tokenizer, read_tokenizer


def evaluate_tokenizer(
    tokens: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    split: str | None = None,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Evaluate tokenizers on a text.

    Args:
        tokens: tokens or model artifacts, or tokenizer files (whatever `tokenize --tokenizer` takes).
        data: a corpus artifact, or sources of text, which are ingested with the default settings and left nowhere.
        split: train, valid or test: evaluate this part of the corpus only.
        run: progress, verification.

    Returns:
        evaluated ("tokenizer"), data, split, metrics (of the first tokenizer; see `Figures`), and tokenizers: a list of
        name, vocab_size, metrics, counts, failures, never_used.
    """
    run = run or RunOptions()
    paths = as_list(tokens)
    with storage_errors(), corpus_to_evaluate(data, run) as (corpus, _):
        evaluations = [TokenizerEvaluation(_opened(path, run)) for path in paths]
        _read_corpus(evaluations, corpus, split, run)
    found = [
        {
            "name": path,
            "vocab_size": evaluation.tokenizer.get_vocab_size(),
            **asdict(evaluation.total),
            "failures": evaluation.failures,
            "never_used": shown_words(evaluation.never_used()),
        }
        for path, evaluation in zip(paths, evaluations, strict=True)
    ]
    return report_on("tokenizer", data, "tokenizers", found, split=split)


def _opened(path: str, run: RunOptions) -> Tokenizer:
    if not is_artifact(Path(path)):
        return read_tokenizer(Path(path))
    with Artifact(path, ["tokens", "model"], verify=run.verify) as artifact:
        return open_tokenizer(artifact.read(TOKENIZER), where=path)


def _read_corpus(evaluations: list[TokenizerEvaluation], corpus: Artifact, split: str | None, run: RunOptions) -> None:
    """One pass over the corpus for all of them."""
    n_texts = 0
    for batch in split_rows(corpus, ["text", "split"], split, "evaluating", run.report):
        n_texts += len(batch)
        for evaluation in evaluations:
            evaluation.add(batch.column("text"))
    if not n_texts:
        raise InputError(
            "there is no text to evaluate on", where=corpus.path, got=f"nothing in the split {split}" if split else None,
            hint="leave out --split, or ingest with --valid 0.1" if split else None,
        )  # fmt: skip
