"""Pairs and labelled texts, read for an evaluation: from a corpus artifact, from files, or out of a program's memory.

Pairs of a source text and its target texts come as

    de.txt en.txt       parallel files of plain text, line by line: the sources, the targets, further references
    FILE.tsv            source<TAB>target, each further column a further reference; or with a header that names the fields
    .jsonl .csv .parquet  records with the fields text and text_b, or those that are named
    CORPUS              an artifact with text_b (wordpipe ingest --text-b)
    rows in memory      as `ingest` takes them

Labelled texts come as `ingest` reads them, or stand beside stored predictions. Of a corpus a part is evaluated: its test split
where it has one; else, where the model learned from this very corpus, what it validated on; else all of it. What the baselines
learn from is the corpus of the model's training: the manifest names it, and its digest says whether it is still the same.

Nothing is deduplicated, as a test set may have a text twice. A pair without a source or any reference, and a text without a
label, cannot be scored: it is left out, and counted. All texts are held in memory.
"""

import os
from collections import Counter, defaultdict
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
    row_count,
    visible_columns,
)
from wordpipe.corpus import Ledger, Source, expand, from_memory, read_records, split_sentences
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import ArtifactError, ConfigError, InputError, wrong_line
from wordpipe.heads.settings import ClassifierSettings
from wordpipe.runtime import Progress
from wordpipe.search import LexicalIndex
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages.corpus.ingest import ingest
from wordpipe.stages.evaluate.inputs import PACKED, decoded, held_out_split, read_whole
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings, Seq2SeqEvaluationSettings
from wordpipe.stages.infer.predict import asked
from wordpipe.stages.inputs import whole_records
from wordpipe.stages.job import RunOptions
from wordpipe.stages.models import prefixes_of
from wordpipe.stages.sources import SourceLike, named_or_rows, refuse_artifacts
from wordpipe.stages.train.head_tasks import ClassifierTask, TaggerTask
from wordpipe.storage import as_path

_RECORDS = (".jsonl", ".ndjson", ".csv", ".parquet")
_ALL = "all"
_EXPECTED = "source<TAB>target, records with the fields text and text_b, or two files with the same number of lines"

Kind = Literal["single", "several", "score", "tags", "answers"]
"""What is said of a text: a label, any number of labels, a number, a tag for each word, an answer to a question."""

_COLUMNS: dict[Kind, str] = {
    "single": "label", "several": "label", "score": "label", "tags": "tags", "answers": "spans",
}  # fmt: skip
_OPTIONS = {"label": "--label-field", "tags": "--tags-field", "spans": "--spans-field"}
_KINDS: dict[tuple[str, str], Kind] = {
    ("classifier", "single_label"): "single", ("classifier", "multi_label"): "several", ("score", "regression"): "score",
}  # fmt: skip

_Row = tuple[str, list[str], str]
"""A source, its references, its prefix; as they were found."""


# ---- pairs


@dataclass(frozen=True, slots=True)
class TextPairs:
    """N pairs."""

    sources: list[str]  # without prefix
    references: list[list[str]]  # one or more of each
    prefixes: list[str]  # what the prefix field says of each; "" without such a field
    counts: dict[str, int]  # pairs, references, and what was left out: sources_empty, targets_empty
    split: str | None = None  # of a corpus; None: all of what was read

    def __len__(self) -> int:
        return len(self.sources)


def with_field_of_training(
    models: Sequence[str], settings: Seq2SeqEvaluationSettings, run: RunOptions
) -> Seq2SeqEvaluationSettings:
    """Return the settings to read pairs with the training's field of prefixes where none is named.

    Where nothing is said of prefixes, with the field that said them when the models were trained.

    Raises:
        ConfigError: one model was trained with a field, another with another or with none.
    """
    if settings.prefix is not None or settings.prefix_field:
        return settings
    found = dict[str, str]()
    for path in filter(is_artifact, map(Path, models)):
        with Artifact(path, ["model"], verify=False) as artifact:
            found[str(path)] = prefixes_of(artifact)["prefix_field"]
    named = {*found.values()} | ({""} if len(found) < len(models) else set())
    if not named - {""}:
        return settings
    if len(named) > 1:
        raise ConfigError(
            "the models were trained with prefixes from different fields", where="prefix_field",
            got=", ".join(f"{path}: {name or 'none'}" for path, name in found.items()),
            hint="choose the prefix of the source texts with --prefix-field or --prefix",
        )  # fmt: skip
    (name,) = named
    run.report(Progress("note", note=f"as in training, the field {name!r} gives the prefix of each source text"))
    return settings.model_copy(update={"prefix_field": name})


def read_pairs(data: SourceLike, settings: Seq2SeqEvaluationSettings, run: RunOptions) -> TextPairs:
    """Read the pairs to evaluate on.

    Args:
        data: a corpus artifact, files, or rows in memory.
        settings: which fields are what; the split of a corpus, None: what is held out.
        run: progress, verification.

    Raises:
        ArtifactError: an artifact that is no corpus, or a corpus without text_b.
        ConfigError: a split of files.
        InputError: no such file, none with pairs, unequal numbers of lines, or a record without the fields; names file and
            line.
    """
    return _read_pairs(data, settings, run, settings.split, is_trained=False)


def read_training_pairs(data: SourceLike, settings: Seq2SeqEvaluationSettings, run: RunOptions) -> TextPairs:
    """Read the pairs that a model was trained on, of a corpus its split train. Raises WordpipeError: see `read_pairs`."""
    return _read_pairs(data, settings, run, "train", is_trained=True)


def _read_pairs(
    data: SourceLike, settings: Seq2SeqEvaluationSettings, run: RunOptions, split: str | None, *, is_trained: bool
) -> TextPairs:
    """Read pairs to evaluate from a corpus artifact, from files, or from rows in memory."""
    names, rows = named_or_rows(data)
    if len(names) == 1 and is_artifact(Path(names[0])):
        with Artifact(names[0], ["corpus"], verify=run.verify) as corpus:
            chosen = held_out_split(corpus) if split is None else None if split == _ALL else split
            if chosen is None and split is None:
                run.report(Progress("note", note="this corpus has no held-out split: the whole corpus is evaluated"))
            return _scorable_pairs(_corpus_rows(corpus, chosen, settings, run), names[0], chosen)
    refuse_artifacts(names)
    if split is not None and not is_trained:
        raise ConfigError("--split can be used with a corpus artifact only", where="split", got=split)
    if rows is not None:
        return _scorable_pairs(_record_rows(from_memory(rows), settings), "memory")
    return _scorable_pairs(_file_rows(names, settings), ", ".join(names))


def _scorable_pairs(rows: Iterator[_Row], where: str, split: str | None = None) -> TextPairs:
    """Return the pairs that can be scored, and count those without a source or a target."""
    found, counts = TextPairs([], [], [], {}, split), Counter[str](sources_empty=0, targets_empty=0)
    for source, references, prefix in rows:
        source, references = source.strip(), [text for one in references if (text := one.strip())]
        if not source or not references:
            counts["targets_empty" if source else "sources_empty"] += 1
            continue
        found.sources.append(source)
        found.references.append(references)
        found.prefixes.append(prefix)
    if not len(found):
        sides = {"sources_empty": "source", "targets_empty": "target"}
        left = [f"{counts[name]:,} pairs without a {side}" for name, side in sides.items()]
        got = " and ".join(left) if counts.total() else f"no pair in the split {split}" if split else "nothing"
        raise InputError("there is no pair to evaluate on", where=where, got=got, expected=_EXPECTED)
    found.counts.update(pairs=len(found), references=sum(map(len, found.references)), **counts)
    return found


def _corpus_rows(
    corpus: Artifact, split: str | None, settings: Seq2SeqEvaluationSettings, run: RunOptions
) -> Iterator[_Row]:
    """Yield the pairs of a corpus: a document is a source, its second text the reference."""
    known = visible_columns(read_schema(corpus, "corpus"))
    targets = [_column(corpus, known, name, "--text-b") for name in settings.text_b or ("text_b",)]
    text = _column(corpus, known, settings.text_field or "text", "--text-field")
    fields = [_column(corpus, known, settings.prefix_field, "--prefix-field")] if settings.prefix_field else []
    total = row_count(corpus, "corpus")
    for row, done in whole_records(corpus, [text, *targets, *fields], split):
        run.report(Progress("reading the pairs", done, total, "sentences"))
        prefix = "".join(str(row[name] or "") for name in fields)
        yield row[text] or "", [str(row[name] or "") for name in targets], prefix


def _column(corpus: Artifact, known: dict[str, str], name: str, option: str) -> str:
    """Return the column of a corpus of pairs or labels by the name that a user gave."""
    for shown in (name, f"_{name}") if name in ("text", "text_b") else (name,):
        if shown in known:
            return known[shown]
    hint = f"choose the column with {option}{_or_one_prefix(option)}, or make the corpus with wordpipe ingest --text-b FIELD"
    got = ", ".join([*known][:20])
    raise ArtifactError(f"this corpus has no column {name!r}", where=corpus.path, got=got, hint=hint)


def _file_rows(names: Sequence[str], settings: Seq2SeqEvaluationSettings) -> Iterator[_Row]:
    """Yield the pairs of files: of records one after the other, of plain text side by side."""
    plain = [name for name in names if not _has_ending(name, _RECORDS) and not _has_ending(name, (".tsv",))]
    for name in names:
        if name not in plain:
            yield from (
                _tsv_rows(name, settings) if _has_ending(name, (".tsv",)) else _record_rows(expand([name]), settings)
            )
    if len(plain) == 1:
        yield from _tsv_rows(plain[0], settings)
    elif plain:
        yield from _parallel_rows(plain, settings)


def _has_ending(name: str, endings: Sequence[str]) -> bool:
    """True if the name of a file has one of some endings, packed or not."""
    return name.lower().endswith(tuple(ending + packed for ending in endings for packed in PACKED))


def _lines(name: str) -> list[str]:
    """The lines of a file, unpacked where it is packed."""
    text = decoded(read_whole(Path(name)), name)
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _parallel_rows(names: Sequence[str], settings: Seq2SeqEvaluationSettings) -> Iterator[_Row]:
    """Yield the pairs of parallel text files, line by line: sources, and a reference of each further file."""
    # plain text has no fields, and a tab would mean pairs
    if given := [name for name in ("text_field", "text_b", "prefix_field") if getattr(settings, name)]:
        option = f"--{given[0].replace('_', '-')}"
        hint = f"use a file of records, such as .jsonl{_or_one_prefix(option)}"
        raise InputError("plain text files have no fields", where=", ".join(names), got=option, hint=hint)
    # all files, as lists of lines of the same length
    sides = [_lines(name) for name in names]
    if all(side and "\t" in side[0] for side in sides):
        what = "it is unclear whether each file contains pairs, or only one text of each pair"
        raise InputError(
            what,
            where=", ".join(names),
            got="a tab in the first line of each file",
            hint="if the files contain pairs, use file names that end in .tsv",
        )
    # each line needs its matching lines
    for name, side in zip(names[1:], sides[1:], strict=True):
        if len(side) != len(sides[0]):
            longer, least = name if len(side) > len(sides[0]) else names[0], min(len(side), len(sides[0]))
            raise InputError(
                "this line has no matching line in the other file; parallel files must have the same number of lines",
                where=f"{longer}:{least + 1}",
                got=f"{len(sides[0]):,} lines in {names[0]} and {len(side):,} in {name}",
            )  # fmt: skip
    # a pair of each line
    for source, *references in zip(*sides, strict=True):
        yield source, references, ""


def _tsv_rows(name: str, settings: Seq2SeqEvaluationSettings) -> Iterator[_Row]:
    """Yield the pairs of a tsv file: source, target and further references; a file with a header is read as records."""
    lines = _lines(name)
    header = next((line.split("\t") for line in lines if line.strip()), [])
    if (field := settings.prefix_field) and header and field not in header and not field.isdigit():
        option = "--prefix-field"
        what = f"there is no field {field!r} for the prefix"
        hint = f"choose the right field with {option}{_or_one_prefix(option)}"
        raise InputError(what, where=name, got=", ".join(header[:20]), hint=hint)
    if settings.text_field or settings.text_b or settings.prefix_field or {"text", "text_b"} <= {*header}:
        yield from _record_rows(expand([name], read_as="tsv"), settings)
        return
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        source, *references = line.split("\t")
        if not references:
            hint = (
                "add a second file with the same number of lines, or choose the fields with --text-field and --text-b"
            )
            error = wrong_line(f"{name}:{number}", line, "source<TAB>target")
            error.hint = hint
            raise error
        yield source, references, ""


def _record_rows(sources: Sequence[Source], settings: Seq2SeqEvaluationSettings) -> Iterator[_Row]:
    """Yield the pairs of records, of files or of a program."""
    # what is read of each record: all further fields as text
    first, *more = settings.text_b or ("text_b",)
    further = tuple(f"{name}:str" for name in [*more, *filter(None, [settings.prefix_field])])
    reading = IngestSettings.make({
        "text_field": settings.text_field or "text", "text_b": first, "id_field": "none", "bad_bytes": "fail",
        "unreadable": "error",
        "metadata": further, "no_metadata": not further,
    })  # fmt: skip
    for source in sources:
        # which fields there are is known after the first record
        ledger = Ledger()
        named = {first: "--text-b", **dict.fromkeys(more, "--text-b"), settings.prefix_field: "--prefix-field"}
        for number, record in enumerate(read_records(source, reading, ledger, lambda _: None)):
            if not number and (
                missing := next((name for name in filter(None, named) if name not in ledger.fields_seen), "")
            ):
                got, option = ", ".join([*ledger.fields_seen][:20]), named[missing]
                what = "second text" if option == "--text-b" else "prefix"
                where = f"{source.name}, line {record.line}"
                hint = f"choose the right field with {option}{_or_one_prefix(option)}"
                raise InputError(f"there is no field {missing!r} for the {what}", where=where, got=got, hint=hint)
            # further references, and the prefix
            others = [record.metadata.get(name) for name in more]
            prefix = str(record.metadata.get(settings.prefix_field) or "")
            yield record.text, [str(text or "") for text in (record.own["text_b"], *others)], prefix
        for _ in range(ledger.counts().get("documents_dropped_no_text", 0)):
            yield "", [], ""  # to be counted


def _or_one_prefix(option: str) -> str:
    """Return the end of a hint: one prefix for all texts is possible too."""
    return ", or use one prefix for all texts with --prefix" if option == "--prefix-field" else ""


# ---- systems that need no training


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, or the whole text where no sentence ends."""
    found = (sentence.strip() for sentence in split_sentences(text))
    return next(filter(None, found), text)


def nearest_targets(pairs: TextPairs, train: TextPairs) -> list[str]:
    """Return for each pair the target of the training pair whose source is nearest by BM25.

    It is the first reference of that pair, and empty where no training source has a word of this one.
    """
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, prefix in enumerate(train.prefixes):
        numbers[prefix].append(number)
    found = [""] * len(pairs)
    for prefix, among in numbers.items():
        asked = [number for number, one in enumerate(pairs.prefixes) if one == prefix]
        index = LexicalIndex.build((train.sources[number] for number in among), LexicalSettings())
        for number, hits in zip(asked, index.search([pairs.sources[one] for one in asked], 1), strict=True):
            if len(hits):
                found[number] = train.references[among[int(hits.rows[0])]][0]
    return found


# ---- labelled texts


def kind_of(task: str, problem: str) -> Kind:
    """Return the kind of a model's answers, by its task (a key of `PREDICTED`) and the problem of its head."""
    return "tags" if task == "tagger" else "answers" if task == "reader" else _KINDS[task, problem]


@dataclass(frozen=True)
class LabelledTexts:
    """N texts with their labels.

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
    """Collect the texts that have a label, with the labels.

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
    """Return the error for texts without labels."""
    column = _COLUMNS[kind]
    return InputError(
        f"the texts have no {'answers' if column == 'spans' else f'{column}s'.replace('tagss', 'tags')}", where=str(where),
        got=got, hint=f"for a file, choose the field with --label-field NAME; for a corpus artifact or predictions, make the "
        f"corpus again: wordpipe ingest SOURCE {_OPTIONS[column]} NAME -o CORPUS",
    )  # fmt: skip


class _GoldReader:
    """Reads a label out of a column as training does; None where there is no label."""

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
    """Read the labelled texts to evaluate on.

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
    with _open_labelled(data, kind, settings, run) as (corpus, is_made):
        columns, pairs = _labelled_columns(corpus, kind, pairs)
        if is_made and settings.split is not None:
            raise ConfigError("--split can be used with a corpus artifact only", where="split", got=settings.split)
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
    """Read the labelled texts that a model learned from: all but the test split and the evaluated texts.

    Raises:
        InputError: see `read_labelled_texts`.
    """
    with _open_labelled(train, kind, settings, run) as (corpus, is_made):
        columns, pairs = _labelled_columns(corpus, kind, pairs)
        out = {"test", evaluated.split if evaluated.digest == corpus.digest else "test"} if not is_made else set()
        records = (record for record, _ in whole_records(corpus, columns) if record["split"] not in out)
        return collect(records, kind, corpus.path, pairs=pairs, gold=_COLUMNS[kind], digest=corpus.digest)


def _labelled_columns(corpus: Artifact, kind: Kind, pairs: bool | None) -> tuple[list[str], bool]:
    """Return the columns of a labelled corpus to read, and whether its texts are pairs."""
    names = read_schema(corpus, "corpus").names
    if _COLUMNS[kind] not in names:
        raise _unlabelled(kind, corpus.path, got=", ".join(names))
    if pairs and "text_b" not in names:
        raise InputError(
            "the model was trained on pairs of texts, but these records have no second text", where=corpus.path,
            got=", ".join(names),
            hint="for a file, choose the field with --text-b NAME; for a corpus, use wordpipe ingest SOURCE --text-b NAME",
        )  # fmt: skip
    pairs = "text_b" in names if pairs is None else pairs
    return ["source", "line", _COLUMNS[kind], *(["text_b"] if pairs else [])], pairs


def _split_of(corpus: Artifact, wanted: str | None, *, is_trained: bool) -> str | None:
    """Return the split of a labelled corpus to evaluate on; None: the whole corpus."""
    if wanted == "all":
        return None
    there = Counter(split for batch in read_batches(corpus, "corpus", ["split"]) for split in batch[0].to_pylist())
    if wanted is not None and not there[wanted]:
        raise InputError(
            f"the corpus has no split {wanted}", where=corpus.path, got=", ".join(sorted(there)) or "nothing",
            hint="--split all evaluates the whole corpus",
        )  # fmt: skip
    if wanted is None:
        return "test" if there["test"] else "valid" if is_trained and there["valid"] else None
    return wanted


@contextmanager
def _open_labelled(
    data: SourceLike, kind: Kind, settings: PredictionsEvaluationSettings, run: RunOptions
) -> Iterator[tuple[Artifact, bool]]:
    """Open labelled texts as a corpus; True with it if the corpus was made here, in a temporary folder.

    A file says by its format what is what, or it has fields: those that are named, else those that are called as our columns.
    """
    # an artifact is read as it is
    paths, rows = named_or_rows(data)
    if len(paths) == 1 and is_artifact(Path(paths[0])):
        with Artifact(paths[0], ["corpus"], verify=run.verify) as artifact:
            yield artifact, False
        return
    # anything else is ingested, with the fields that the settings name
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
    """The corpus that a model learned from.

    Attributes:
        path: where it lies; None: it is not known, is not there, or is another one now.
        digest: it had in the training; empty: not known.
        note: why there is no path, for the user.
    """

    path: str | None
    digest: str = ""
    note: str = ""


def training_corpus(path: str) -> TrainingCorpus:
    """Return the corpus of labelled texts that a model, or the model of stored predictions, learned from."""
    given, name = "to train the baselines, give the training corpus with --train CORPUS", Path(path).name
    if not is_artifact(Path(path)):
        return TrainingCorpus(None, note=f"{name} does not say which texts it was trained on; {given}")
    with Artifact(path, ["model", "predictions"], verify=False) as artifact:
        inputs = artifact.manifest.inputs
        is_model = artifact.kind == "model"
    entry = next((one for one in inputs if one.kind == ("corpus" if is_model else "model")), None)
    if entry is None:
        return TrainingCorpus(None, note=f"{name} does not name the corpus artifact of its training; {given}")
    found = _input_path(path, entry)
    if found is None:
        what = f"the training corpus of {name}" if is_model else f"the model that made the predictions {name}"
        digest = entry.digest if is_model else ""
        return TrainingCorpus(None, digest, f"{what} ({entry.path}) was moved, deleted or changed; {given}")
    return TrainingCorpus(found, entry.digest) if is_model else training_corpus(found)


def _input_path(path: str, entry: InputEntry) -> str | None:
    """Return the path of an artifact's input; None where it is gone or has changed."""
    found = None if entry.path is None else input_of(as_path(path), entry)
    return None if found is None else str(as_path(os.path.normpath(found[0])))


def gold_column(names: Sequence[str], kind: Kind, where: object) -> str:
    """Return the column of stored predictions with the right labels. Raises InputError: there is none."""
    column = GOLD[_COLUMNS[kind]]
    if column not in names:
        raise _unlabelled(kind, where, got=", ".join(names))
    return column
