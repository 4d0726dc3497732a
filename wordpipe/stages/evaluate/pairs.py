r"""Pairs of a source text and its target texts, read for an evaluation, and the simplest systems that write targets for them.

Pairs come as

    de.txt en.txt       parallel files of plain text, line by line: the sources, the targets, further references
    FILE.tsv            source<TAB>target, each further column a further reference; or with a header that names the fields
    .jsonl .csv .parquet  records with the fields text and text_b, or those that are named
    CORPUS              an artifact with text_b (wordpipe ingest --text-b)
    rows in memory      as `ingest` takes them

Nothing is deduplicated, as a test set may have a pair twice. A pair without a source or without any reference cannot be
scored: it is left out, and counted. All texts are held in memory.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from wordpipe.artifacts import Artifact, DocumentStarts, is_artifact, read_schema, visible_columns
from wordpipe.corpus import Ledger, Source, expand, from_memory, read_records, split_sentences
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import ArtifactError, ConfigError, InputError, wrong_line
from wordpipe.runtime import Progress
from wordpipe.search import LexicalIndex
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages.evaluate.inputs import PACKED, decoded, held_out_split, read_whole, split_rows
from wordpipe.stages.evaluate.settings import Seq2SeqEvaluationSettings
from wordpipe.stages.job import RunOptions
from wordpipe.stages.models import prefixes_of
from wordpipe.stages.sources import SourceLike, named_or_rows, refuse_artifacts

_RECORDS = (".jsonl", ".ndjson", ".csv", ".parquet")
_ALL = "all"
_EXPECTED = "source<TAB>target, records with text and text_b, or two files of as many lines"

_Row = tuple[str, list[str], str]
"""A source, its references, its prefix; as they were found."""


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
    """The settings; where nothing is said of prefixes, with the field that said them when the models were trained.

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
            "the models were trained with prefixes of different fields", where="prefix_field",
            got=", ".join(f"{path}: {name or 'none'}" for path, name in found.items()),
            hint="say with --prefix-field or --prefix what stands before the sources",
        )  # fmt: skip
    (name,) = named
    run.report(Progress("note", note=f"as in training, the field {name!r} says what stands before each source"))
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
    return _read(data, settings, run, settings.split, is_trained=False)


def read_training_pairs(data: SourceLike, settings: Seq2SeqEvaluationSettings, run: RunOptions) -> TextPairs:
    """Read the pairs that a model was trained on, of a corpus its split train. Raises WordpipeError: see `read_pairs`."""
    return _read(data, settings, run, "train", is_trained=True)


def _read(
    data: SourceLike, settings: Seq2SeqEvaluationSettings, run: RunOptions, split: str | None, *, is_trained: bool
) -> TextPairs:
    names, rows = named_or_rows(data)
    if len(names) == 1 and is_artifact(Path(names[0])):
        with Artifact(names[0], ["corpus"], verify=run.verify) as corpus:
            chosen = held_out_split(corpus) if split is None else None if split == _ALL else split
            if chosen is None and split is None:
                run.report(Progress("note", note="nothing of this corpus is held out: evaluating all of it"))
            return _kept(_corpus_rows(corpus, chosen, settings, run), names[0], chosen)
    refuse_artifacts(names)
    if split is not None and not is_trained:
        raise ConfigError("only a corpus artifact has splits", where="split", got=split)
    if rows is not None:
        return _kept(_record_rows(from_memory(rows), settings), "memory")
    return _kept(_file_rows(names, settings), ", ".join(names))


def _kept(rows: Iterator[_Row], where: str, split: str | None = None) -> TextPairs:
    """The pairs that can be scored."""
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
        left = [f"{counts['sources_empty']:,} without a source", f"{counts['targets_empty']:,} without a target"]
        got = " and ".join(left) if counts.total() else f"nothing in the split {split}" if split else "nothing"
        raise InputError("there is no pair to evaluate on", where=where, got=got, expected=_EXPECTED)
    found.counts.update(pairs=len(found), references=sum(map(len, found.references)), **counts)
    return found


def _corpus_rows(
    corpus: Artifact, split: str | None, settings: Seq2SeqEvaluationSettings, run: RunOptions
) -> Iterator[_Row]:
    """The documents of a corpus with their second texts: the sentences of a document are one source."""
    known = visible_columns(read_schema(corpus, "corpus"))
    targets = [_column(corpus, known, name, "--text-b") for name in settings.text_b or ("text_b",)]
    text = _column(corpus, known, settings.text_field or "text", "--text-field")
    fields = [_column(corpus, known, settings.prefix_field, "--prefix-field")] if settings.prefix_field else []
    columns = list(dict.fromkeys(["doc_id", "sentence_id", "split", text, *targets, *fields]))
    starts, growing = DocumentStarts(), list[str]()
    row: dict[str, Any] = {}
    for batch in split_rows(corpus, columns, split, "reading the pairs", run.report):
        for opens, values in zip(starts.of(batch).tolist(), batch.to_pylist(), strict=True):
            if opens and growing:
                yield "".join(growing), [str(row[name] or "") for name in targets], _prefix(row, fields)
                growing = []
            growing.append(values[text] or "")
            row = values
    if growing:
        yield "".join(growing), [str(row[name] or "") for name in targets], _prefix(row, fields)


def _prefix(row: dict[str, Any], fields: Sequence[str]) -> str:
    return "".join(str(row[name] or "") for name in fields)


def _column(corpus: Artifact, known: dict[str, str], name: str, option: str) -> str:
    for shown in (name, f"_{name}") if name in ("text", "text_b") else (name,):
        if shown in known:
            return known[shown]
    hint = f"name it with {option}{_or_one(option)}, or ingest the pairs with wordpipe ingest --text-b FIELD"
    got = ", ".join([*known][:20])
    raise ArtifactError(f"this corpus has no column {name!r}", where=corpus.path, got=got, hint=hint)


def _file_rows(names: Sequence[str], settings: Seq2SeqEvaluationSettings) -> Iterator[_Row]:
    """The pairs of files: those of records one after the other, those of plain text side by side where they are several."""
    plain = [name for name in names if not _ends(name, _RECORDS) and not _ends(name, (".tsv",))]
    for name in names:
        if name not in plain:
            yield from _tsv_rows(name, settings) if _ends(name, (".tsv",)) else _record_rows(expand([name]), settings)
    if len(plain) == 1:
        yield from _tsv_rows(plain[0], settings)
    elif plain:
        yield from _parallel_rows(plain, settings)


def _ends(name: str, endings: Sequence[str]) -> bool:
    return name.lower().endswith(tuple(ending + packed for ending in endings for packed in PACKED))


def _lines(name: str) -> list[str]:
    """The lines of a file, unpacked where it is packed."""
    text = decoded(read_whole(Path(name)), name)
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _parallel_rows(names: Sequence[str], settings: Seq2SeqEvaluationSettings) -> Iterator[_Row]:
    """Line by line: the sources, and the references of each further file."""
    _refuse_fields(settings, ", ".join(names), "files of plain text have no fields")
    sides = [_lines(name) for name in names]
    if all(side and "\t" in side[0] for side in sides):
        what = "files of pairs, or of one side each?"
        raise InputError(
            what, where=", ".join(names), got="a tab in the first line of each", hint="name files of pairs .tsv"
        )
    for name, side in zip(names[1:], sides[1:], strict=True):
        if len(side) != len(sides[0]):
            longer, least = name if len(side) > len(sides[0]) else names[0], min(len(side), len(sides[0]))
            raise InputError(
                "this line has no partner: parallel files have as many lines", where=f"{longer}:{least + 1}",
                got=f"{len(sides[0]):,} lines in {names[0]} and {len(side):,} in {name}",
            )  # fmt: skip
    for source, *references in zip(*sides, strict=True):
        yield source, references, ""


def _tsv_rows(name: str, settings: Seq2SeqEvaluationSettings) -> Iterator[_Row]:
    """Source, target and further references between tabs; a file with a header is one of records."""
    lines = _lines(name)
    header = next((line.split("\t") for line in lines if line.strip()), [])
    if (field := settings.prefix_field) and header and field not in header and not field.isdigit():
        option = "--prefix-field"
        what, hint = f"no field {field!r} to take the prefix from", f"name the right one with {option}{_or_one(option)}"
        raise InputError(what, where=name, got=", ".join(header[:20]), hint=hint)
    if settings.text_field or settings.text_b or settings.prefix_field or {"text", "text_b"} <= {*header}:
        yield from _record_rows(expand([name], read_as="tsv"), settings)
        return
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        source, *references = line.split("\t")
        if not references:
            hint = "name a second file of as many lines with --data, or the fields of records with --text-field and --text-b"
            error = wrong_line(f"{name}:{number}", line, "source<TAB>target")
            error.hint = hint
            raise error
        yield source, references, ""


def _record_rows(sources: Sequence[Source], settings: Seq2SeqEvaluationSettings) -> Iterator[_Row]:
    """The records of files, or of a program."""
    first, *more = settings.text_b or ("text_b",)
    further = tuple(f"{name}:str" for name in [*more, *filter(None, [settings.prefix_field])])
    reading = IngestSettings.make({
        "text_field": settings.text_field or "text", "text_b": first, "id_field": "none", "bad_bytes": "fail",
        "metadata": further, "no_metadata": not further,
    })  # fmt: skip
    for source in sources:
        ledger = Ledger()
        named = {first: "--text-b", **dict.fromkeys(more, "--text-b"), settings.prefix_field: "--prefix-field"}
        for number, record in enumerate(read_records(source, reading, ledger, lambda _: None)):
            if not number:
                _require(named, ledger, f"{source.name}, line {record.line}")
            others = [record.metadata.get(name) for name in more]
            prefix = str(record.metadata.get(settings.prefix_field) or "")
            yield record.text, [str(text or "") for text in (record.own["text_b"], *others)], prefix
        for _ in range(ledger.counts().get("documents_dropped_no_text", 0)):
            yield "", [], ""  # to be counted


def _require(named: dict[str, str], ledger: Ledger, where: str) -> None:
    """Refuse records, the first of which lacks a field that is needed."""
    for name, option in named.items():
        if name and name not in ledger.fields_seen:
            got, hint = ", ".join([*ledger.fields_seen][:20]), f"name the right one with {option}{_or_one(option)}"
            what = "take the second text from" if option == "--text-b" else "take the prefix from"
            raise InputError(f"no field {name!r} to {what}", where=where, got=got, hint=hint)


def _or_one(option: str) -> str:
    return ", or give one text for all with --prefix" if option == "--prefix-field" else ""


def _refuse_fields(settings: Seq2SeqEvaluationSettings, where: str, what: str) -> None:
    given = [name for name in ("text_field", "text_b", "prefix_field") if getattr(settings, name)]
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise InputError(what, where=where, got=option, hint=f"name a file of records{_or_one(option)}")


# ---- systems that need no training


def first_sentence(text: str) -> str:
    """The first sentence of a text; of one without sentences all of it."""
    found = (sentence.strip() for sentence in split_sentences(text))
    return next(filter(None, found), text)


def nearest_targets(pairs: TextPairs, train: TextPairs) -> list[str]:
    """For each pair the target of the training pair whose source is nearest by BM25, among those of the same prefix.

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


def known_sources(pairs: TextPairs, train: TextPairs) -> int:
    """How many sources are among those of the training, to the character and with the same prefix."""
    known = {*zip(train.prefixes, train.sources, strict=True)}
    return sum(one in known for one in zip(pairs.prefixes, pairs.sources, strict=True))


def drawn_samples(n: int, wanted: int, seed: int) -> list[int]:
    """The numbers of the pairs to show, in order: the same for the same seed."""
    return sorted(np.random.default_rng([seed, _SAMPLES]).permutation(n)[:wanted].tolist())


_SAMPLES = 0x5A3  # separates this draw from every other use of a seed


def reported(texts: Sequence[str], at_once: int, phase: str, run: RunOptions) -> Iterator[list[str]]:
    """Some texts at a time, with reports of how far it is."""
    remaining = iter(texts)
    done = 0
    while some := [*islice(remaining, at_once)]:
        run.report(Progress(phase, done, len(texts), "texts"))
        yield some
        done += len(some)
