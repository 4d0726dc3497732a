"""Labelled texts, read for an evaluation: what is right of each, from a corpus, from files, or beside stored predictions.

Of a corpus a part is evaluated: its test split where it has one; else, where the model learned from this very corpus, what it
validated on; else all of it. What the baselines learn from is the corpus of the model's training: the manifest names it, and
its digest says whether it is still the same. Nothing is deduplicated, as a test set may have a text twice. A record without
a label cannot be scored: it is left out, and counted. All texts are held in memory.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from wordpipe.artifacts import (
    GOLD,
    Artifact,
    InputEntry,
    input_of,
    is_artifact,
    read_batches,
    read_schema,
    visible_columns,
)
from wordpipe.errors import ConfigError, InputError
from wordpipe.heads.settings import ClassifierSettings
from wordpipe.runtime import Progress
from wordpipe.stages.corpus.ingest import ingest
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings
from wordpipe.stages.infer.predict import asked
from wordpipe.stages.inputs import whole_records
from wordpipe.stages.job import RunOptions
from wordpipe.stages.sources import SourceLike, named_or_rows
from wordpipe.stages.train.head_tasks import ClassifierTask, TaggerTask
from wordpipe.storage import as_path

Kind = Literal["single", "several", "score", "tags", "answers"]
"""What is said of a text: a label, any number of labels, a number, a tag for each word, an answer to a question."""

_COLUMNS: dict[Kind, str] = {
    "single": "label", "several": "label", "score": "label", "tags": "tags", "answers": "spans",
}  # fmt: skip
_OPTIONS = {"label": "--label-field", "tags": "--tags-field", "spans": "--spans-field"}
_KINDS: dict[tuple[str, str], Kind] = {
    ("classifier", "single_label"): "single", ("classifier", "multi_label"): "several", ("score", "regression"): "score",
}  # fmt: skip


def kind_of(task: str, problem: str) -> Kind:
    """What a model says of a text, by its task (a key of `PREDICTED`) and the problem of its head."""
    return "tags" if task == "tagger" else "answers" if task == "reader" else _KINDS[task, problem]


@dataclass(frozen=True)
class LabelledTexts:
    """N texts and what is right of them.

    Attributes:
        texts: one or two strings each, as a model is asked.
        gold: a label, a tuple of labels, a number, a tuple of tags, or a tuple of accepted answers ("" where there is none).
        where: source and line of each.
        numbers: of each among the records that were read, from 0.
        unlabelled: records that were left out.
        split: of a corpus; None: all of what was read.
        digest: of the corpus artifact; empty where it was none.
    """

    texts: list[tuple[str, ...]]
    gold: list[Any]
    where: list[str]
    numbers: list[int]
    unlabelled: int = 0
    split: str | None = None
    digest: str = ""

    def __len__(self) -> int:
        return len(self.texts)


def collect(
    records: Iterable[dict[str, Any]], kind: Kind, where: object, *, pairs: bool, gold: str, **more: Any
) -> LabelledTexts:
    """The records that have a label.

    Args:
        records: rows of a corpus with whole texts, or of predictions.
        kind: of what is said of them.
        where: they come from.
        pairs: both texts are read.
        gold: the column of the labels.
        more: split and digest.

    Raises:
        InputError: a label that cannot be one, named by line; or no record has any.
    """
    read = _GoldReader(kind)
    texts, found, places, numbers, unlabelled = list[tuple[str, ...]](), list[Any](), list[str](), list[int](), 0
    for number, record in enumerate(records):
        place, given = f"{record['source']}:{record['line']}", asked(record, pairs=pairs)
        right = read(record.get(gold), record["text"], place)
        if right is None:
            unlabelled += 1
            continue
        texts.append((given,) if isinstance(given, str) else given)
        found.append(right)
        places.append(place)
        numbers.append(number)
    if not texts:
        raise _unlabelled(kind, where, got=f"{unlabelled:,} records, none with a label")
    return LabelledTexts(texts, found, places, numbers, unlabelled, **more)


def _unlabelled(kind: Kind, where: object, got: str) -> InputError:
    column = _COLUMNS[kind]
    return InputError(
        f"the texts have no {'answers' if column == 'spans' else f'{column}s'.replace('tagss', 'tags')}", where=str(where),
        got=got, hint=f"--label-field NAME names the field of a file that holds them; of a corpus artifact and of predictions "
        f"ingest does: wordpipe ingest SOURCE {_OPTIONS[column]} NAME -o CORPUS",
    )  # fmt: skip


class _GoldReader:
    """What a column says is right; None: nothing. As training reads it, so that the two mean the same."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._labels = ClassifierTask(
            ClassifierSettings.make({"problem": kind if kind in ("several", "score") else "single"})
        )
        self._tags = TaggerTask()

    def __call__(self, value: Any, text: str, where: str) -> Any:
        if self._kind == "several":
            return self._labels.read(value, text, where)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if self._kind == "tags":
            return self._tags.read(value, text, where)
        if self._kind == "answers":
            return tuple(text[one["start"] : one["end"]] for one in value) or ("",)
        return self._labels.read(value, text, where)


# ---- corpora and files


def read_labelled_texts(
    data: SourceLike, kind: Kind, settings: PredictionsEvaluationSettings, run: RunOptions, *, pairs: bool | None,
    trained: str = "",
) -> LabelledTexts:  # fmt: skip
    """The texts to evaluate on.

    Args:
        data: a corpus artifact, or what `ingest` reads.
        kind: of what is said of them.
        settings: fields and split.
        run: progress, verification.
        pairs: both texts are read; None: where there are two.
        trained: digest of the corpus that the model learned from.

    Raises:
        InputError: no labels, no second texts, no such split, or a label that cannot be one; names file and line.
        ConfigError: a split of files.
    """
    with _opened(data, kind, settings, run) as (corpus, is_made):
        columns, pairs = _columns(corpus, kind, pairs)
        if is_made and settings.split is not None:
            raise ConfigError("only a corpus artifact has splits", where="split", got=settings.split)
        split = None if is_made else _split_of(corpus, settings.split, is_trained=corpus.digest == trained)
        records = (record for record, _ in whole_records(corpus, columns, split))
        return collect(
            records, kind, corpus.path, pairs=pairs, gold=_COLUMNS[kind], split=split,
            digest="" if is_made else corpus.digest,
        )  # fmt: skip


def read_training_texts(
    train: SourceLike, kind: Kind, settings: PredictionsEvaluationSettings, run: RunOptions, *, pairs: bool | None,
    evaluated: LabelledTexts,
) -> LabelledTexts:  # fmt: skip
    """The texts that a model learned from: of a corpus all but its test split, and but for what is evaluated of it.

    Raises:
        InputError: see `read_labelled_texts`.
    """
    with _opened(train, kind, settings, run) as (corpus, is_made):
        columns, pairs = _columns(corpus, kind, pairs)
        out = {"test", evaluated.split if evaluated.digest == corpus.digest else "test"} if not is_made else set()
        records = (record for record, _ in whole_records(corpus, columns) if record["split"] not in out)
        return collect(records, kind, corpus.path, pairs=pairs, gold=_COLUMNS[kind], digest=corpus.digest)


def _columns(corpus: Artifact, kind: Kind, pairs: bool | None) -> tuple[list[str], bool]:
    """The columns to be read, and whether the texts are pairs."""
    names = read_schema(corpus, "corpus").names
    if _COLUMNS[kind] not in names:
        raise _unlabelled(kind, corpus.path, got=", ".join(names))
    if pairs and "text_b" not in names:
        raise InputError(
            "the model learned from pairs, and these texts have no second ones", where=corpus.path, got=", ".join(names),
            hint="--text-b NAME names the field of a file that holds them; of a corpus: wordpipe ingest SOURCE --text-b NAME",
        )  # fmt: skip
    pairs = "text_b" in names if pairs is None else pairs
    return ["source", "line", _COLUMNS[kind], *(["text_b"] if pairs else [])], pairs


def _split_of(corpus: Artifact, wanted: str | None, *, is_trained: bool) -> str | None:
    if wanted == "all":
        return None
    there = Counter(split for batch in read_batches(corpus, "corpus", ["split"]) for split in batch[0].to_pylist())
    if wanted is not None and not there[wanted]:
        raise InputError(
            f"the corpus has no split {wanted}", where=corpus.path, got=", ".join(sorted(there)) or "nothing",
            hint="--split all evaluates all of it",
        )  # fmt: skip
    if wanted is None:
        return "test" if there["test"] else "valid" if is_trained and there["valid"] else None
    return wanted


@contextmanager
def _opened(
    data: SourceLike, kind: Kind, settings: PredictionsEvaluationSettings, run: RunOptions
) -> Iterator[tuple[Artifact, bool]]:
    """A corpus, and whether it was made here, in a temporary folder.

    A file says by its format what is what, or it has fields: those that are named, else those that are called as our columns.
    """
    paths, rows = named_or_rows(data)
    if len(paths) == 1 and is_artifact(Path(paths[0])):
        with Artifact(paths[0], ["corpus"], verify=run.verify) as artifact:
            yield artifact, False
        return
    column = _COLUMNS[kind]
    named = {f"{column}_field": settings.label_field, "text_b": settings.text_b, "text_field": settings.text_field}
    given: dict[str, Any] = {name: value for name, value in named.items() if value}
    given |= {"deduplicate": False}
    with TemporaryDirectory(prefix="wordpipe-") as folder:
        quiet = RunOptions(report=lambda progress: None if progress.note else run.report(progress))
        if rows is not None:
            rows = list(rows) if not hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "itertuples") else rows
        for attempt in range(2):
            made = ingest(paths if rows is None else rows, output=Path(folder) / f"{attempt}", run=quiet, **given)
            with Artifact(made.path, ["corpus"], verify=False) as artifact:
                known = visible_columns(read_schema(artifact, "corpus"))
                # a field of the user's that is called as our column is stored under another name
                missed = {
                    option: name
                    for option, name in ((f"{column}_field", column), ("text_b", "text_b"))
                    if option not in given and known.get(name, name) != name
                }
                if not missed or attempt:
                    for text in made.warnings:
                        run.report(Progress("note", note=f"warning: {text}", is_warning=True))
                    yield artifact, True
                    return
                given |= missed


# ---- what models learned from


@dataclass(frozen=True)
class TrainingCorpus:
    """What a model learned from.

    Attributes:
        path: where it lies; None: it is not known, is not there, or is another one now.
        digest: it had in the training; empty: not known.
        note: why there is no path, for the user.
    """

    path: str | None
    digest: str = ""
    note: str = ""


def training_corpus(path: str) -> TrainingCorpus:
    """The corpus that a model, or the model of stored predictions, learned from."""
    given, name = "--train CORPUS gives the baselines what it learned from", Path(path).name
    if not is_artifact(Path(path)):
        return TrainingCorpus(None, note=f"{name} does not say what it learned from; {given}")
    with Artifact(path, ["model", "predictions"], verify=False) as artifact:
        inputs = artifact.manifest.inputs
        is_model = artifact.kind == "model"
    entry = next((one for one in inputs if one.kind == ("corpus" if is_model else "model")), None)
    if entry is None:
        return TrainingCorpus(None, note=f"{name} does not name a corpus artifact that it learned from; {given}")
    found = _there(path, entry)
    if found is None:
        what = "the corpus that it learned from" if is_model else "the model that made them"
        digest = entry.digest if is_model else ""
        return TrainingCorpus(
            None, digest, f"{name}: {what}, {entry.path}, is not there any more, or is another one; {given}"
        )
    return TrainingCorpus(found, entry.digest) if is_model else training_corpus(found)


def _there(path: str, entry: InputEntry) -> str | None:
    """Where an input of an artifact lies, if it is still the same."""
    found = None if entry.path is None else input_of(as_path(path), entry)
    return None if found is None else str(as_path(os.path.normpath(found[0])))


def gold_column(names: Sequence[str], kind: Kind, where: object) -> str:
    """The column of stored predictions that says what is right. Raises InputError: there is none."""
    column = GOLD[_COLUMNS[kind]]
    if column not in names:
        raise _unlabelled(kind, where, got=", ".join(names))
    return column
