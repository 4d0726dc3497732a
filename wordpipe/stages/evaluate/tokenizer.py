"""`wordpipe evaluate tokenizer`: how well tokenizers fit a text, by measures; nothing is written."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, Artifact, is_artifact, read_schema, visible_columns
from wordpipe.errors import ConfigError, InputError
from wordpipe.stages.calls import public
from wordpipe.stages.evaluate.inputs import report_on, shown_words, split_rows
from wordpipe.stages.inputs import corpus_to_evaluate
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.sources import as_list
from wordpipe.tokens import TokenizerEvaluation, open_tokenizer, read_tokenizer


@public()
def evaluate_tokenizer(
    tokens: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    by: str | None = None,
    split: str | None = None,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Evaluate tokenizers on a text.

    Args:
        tokens: tokens or model artifacts, or tokenizer files (whatever `tokenize --tokenizer` takes).
        data: a corpus artifact, or sources of text, which are ingested with the default settings and left nowhere.
        by: a column of the corpus (source, or a field of its records such as lang): figures for each of its values too.
        split: train, valid or test: evaluate this part of the corpus only.
        run: progress, verification.

    Returns:
        evaluated ("tokenizer"), data, split, by, metrics (of the first tokenizer; see `Figures`), and tokenizers: a list of
        name, made ("as it is"), vocab_size, metrics, counts, failures, never_used, groups.

    Example:
        >>> found = wordpipe.evaluate_tokenizer("run/tokens", "run/corpus")
        >>> found["metrics"]["bytes_per_token"] > 1
        True
    """
    run = run or RunOptions()
    paths = as_list(tokens)
    with storage_errors(), corpus_to_evaluate(data, run) as (corpus, _):
        column = _column(corpus, by)
        evaluations = [TokenizerEvaluation(_opened(path, run)) for path in paths]
        _read_corpus(evaluations, corpus, column, split, run)
    found = [_result(path, evaluation, by) for path, evaluation in zip(paths, evaluations, strict=True)]
    return report_on("tokenizer", data, "tokenizers", found, split=split, by=by)


def _column(corpus: Artifact, by: str | None) -> str | None:
    """The column that the user's name means."""
    known = visible_columns(read_schema(corpus, "corpus"))
    names = {name: column for name, column in known.items() if column not in ("text", "sentence_id", "line")}
    if by is not None and by not in names:
        raise ConfigError(
            "the corpus has no such column to group by", where="by", got=by, expected=", ".join(names),
            hint="wordpipe ingest carries all fields of records, or those that --metadata names",
        )  # fmt: skip
    return None if by is None else names[by]


def _opened(path: str, run: RunOptions) -> Tokenizer:
    if not is_artifact(Path(path)):
        return read_tokenizer(Path(path))
    with Artifact(path, ["tokens", "model"], verify=run.verify) as artifact:
        return open_tokenizer(artifact.read(TOKENIZER), where=path)


def _read_corpus(
    evaluations: list[TokenizerEvaluation], corpus: Artifact, by: str | None, split: str | None, run: RunOptions
) -> None:
    """One pass over the corpus for all of them."""
    columns = list(dict.fromkeys(["text", "split", *([by] if by else [])]))
    kept = 0
    for batch in split_rows(corpus, columns, split, "evaluating", run.report):
        kept += len(batch)
        groups = _as_names(batch.column(by)) if by else None
        for evaluation in evaluations:
            evaluation.add(batch.column("text"), groups)
    if not kept:
        raise InputError(
            "there is no text to evaluate on", where=corpus.path, got=f"nothing in the split {split}" if split else None,
            hint="leave out --split, or ingest with --valid 0.1" if split else None,
        )  # fmt: skip


def _as_names(column: pa.Array) -> pa.Array:
    """The values of a column as names of groups."""
    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return column.cast(pa.string())


def _result(path: str, evaluation: TokenizerEvaluation, by: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": path,
        "made": "as it is",
        "vocab_size": evaluation.tokenizer.get_vocab_size(),
        **asdict(evaluation.total),
        "failures": evaluation.failures,
        "never_used": shown_words(evaluation.never_used()),
    }
    if by is not None:
        result["groups"] = {name: asdict(figures) for name, figures in evaluation.groups.items()}
        result["texts_in_merged_groups"] = evaluation.merged_groups
    return result
