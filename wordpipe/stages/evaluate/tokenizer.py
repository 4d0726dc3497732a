"""`wordpipe evaluate tokenizer`: measures of how well tokenizers fit a text; nothing is written."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts import TOKENIZER, Artifact, is_artifact, read_schema, visible_columns
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import Evaluation, Figure, System, Table, side_by_side
from wordpipe.stages.evaluate.inputs import evaluation_of, shown_words, split_rows
from wordpipe.stages.inputs import corpus_to_evaluate
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import as_list
from wordpipe.tokens import TokenizerEvaluation, open_tokenizer, read_tokenizer
from wordpipe.wording import human_bytes, human_count, short_name

_MAX_GROUPS = 20  # on the screen; JSON has all
_MAX_TEXT = 100  # characters of a text that did not come back
_GROUP_HEADS = {
    "bytes_per_token": "bytes/\ntoken", "tokens_per_word": "tokens/\nword", "split_words": "words\nsplit",
    "unknown_rate": "un-\nknown", "text_failures": "text\nlost",
}  # fmt: skip


@public()
def evaluate_tokenizer(
    tokens: PathLike | Sequence[PathLike],
    data: PathLike | Iterable[PathLike],
    *,
    by: str | None = None,
    split: str | None = None,
    run: RunOptions | None = None,
) -> Evaluation:
    """Evaluate tokenizers on a text.

    Args:
        tokens: tokens or model artifacts, or tokenizer files (whatever `tokenize --tokenizer` takes).
        data: a corpus artifact, or sources of text, which are ingested with the default settings into a temporary folder.
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
        column = _grouping_column(corpus, by)
        evaluations = [TokenizerEvaluation(_open_tokenizer_at(path, run)) for path in paths]
        _read_corpus(evaluations, corpus, column, split, run)
    systems = [_system(path, evaluation, by) for path, evaluation in zip(paths, evaluations, strict=True)]
    groups = [_groups(one, by) for one in systems] if by is not None else []
    return evaluation_of(
        "tokenizer", data, systems, under="tokenizers", split=split, by=by, parts=[side_by_side(systems), *groups],
        remarks=_remarks(systems),
    )  # fmt: skip


def _grouping_column(corpus: Artifact, by: str | None) -> str | None:
    """Return the column of the corpus to group an evaluated tokenizer's figures by."""
    known = visible_columns(read_schema(corpus, "corpus"))
    names = {name: column for name, column in known.items() if column not in ("text", "sentence_id", "line")}
    if by is not None and by not in names:
        raise ConfigError(
            "the corpus has no column with this name", where="by", got=by, expected=", ".join(names),
            hint="wordpipe ingest keeps all fields of the records, or those named with --metadata",
        )  # fmt: skip
    return None if by is None else names[by]


def _open_tokenizer_at(path: str, run: RunOptions) -> Tokenizer:
    """Open a tokenizer to evaluate: of an artifact, or a tokenizer file."""
    if not is_artifact(Path(path)):
        return read_tokenizer(Path(path))
    with Artifact(path, ["tokens", "model"], verify=run.verify) as artifact:
        return open_tokenizer(artifact.read(TOKENIZER), where=path)


def _read_corpus(
    evaluations: list[TokenizerEvaluation], corpus: Artifact, by: str | None, split: str | None, run: RunOptions
) -> None:
    """Read the corpus once for all tokenizers that are evaluated."""
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


def _system(path: str, evaluation: TokenizerEvaluation, by: str | None) -> System:
    """Return a tokenizer in the report."""
    size, total = evaluation.tokenizer.get_vocab_size(), evaluation.total
    facts: dict[str, Any] = {
        "name": path, "made": "as it is", "vocab_size": size, "counts": total.counts, "failures": evaluation.failures,
        "never_used": shown_words(evaluation.never_used()),
    }  # fmt: skip
    if by is not None:
        facts["groups"] = {name: asdict(figures) for name, figures in evaluation.groups.items()}
        facts["texts_in_merged_groups"] = evaluation.merged_groups
    figures = [Figure(key, value) for key, value in total.metrics.items()]
    return System(short_name(path), figures, facts, [("vocabulary", f"{size:,}"), *figures])


def _groups(one: System, by: str) -> Table:
    """Return a line of tokenizers' figures for each group, those with most text first."""
    groups = one.facts["groups"]
    rows: list[tuple[str, list[str | None]]] = []
    for name, group in [*groups.items()][:_MAX_GROUPS]:
        cells = [Figure(key, group["metrics"][key]).shown for key in _GROUP_HEADS]
        rows.append((short_name(name), [*cells, human_bytes(group["counts"]["bytes"])]))
    if (more := len(groups) - _MAX_GROUPS) > 0:
        rows.append((f"… {more:,} more", [""] * (len(_GROUP_HEADS) + 1)))
    return Table([*_GROUP_HEADS.values(), "text"], rows, short_name(by), one.head)


def _remarks(systems: Sequence[System]) -> Iterator[str]:
    """Yield remarks on tokenizers: on how much text the figures stand, the first text that did not come back."""
    counts = systems[0].facts["counts"]
    unspaced = f"; {human_count(runs)} passages in scripts without spaces" if (runs := counts["unspaced_runs"]) else ""
    texts, words = human_count(counts["texts"]), human_count(counts["words"])
    yield f"{texts} texts, {human_bytes(counts['bytes'])}, {words} words{unspaced}"
    for one in systems:
        if one.facts["failures"]:
            first, count = one.facts["failures"][0], one.facts["counts"]["round_trip_failures"]
            yield f"{one.head}: {count:,} texts change when they are encoded and decoded; the first of these texts:"
            yield f"  text     {_shortened_text(first['text'])}"
            yield f"  decoded  {_shortened_text(first['decoded'])}"
            yield f"  differs  {_shortened_text(first['was'])} → {_shortened_text(first['became'])}"


def _shortened_text(text: str) -> str:
    """Return the beginning of a text, on one line."""
    text = text.replace("\n", "⏎")
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
