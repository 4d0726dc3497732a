"""Shared parts of the evaluations: the files to evaluate on, the encoders that are evaluated, and the form of the report."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import (
    Artifact,
    is_artifact,
    open_regular_file,
    parse_json,
    read_batches,
    refuse_without_vectors,
    row_count,
)
from wordpipe.corpus import ExpansionLimit, compression_of, decompress_blocks, not_text, read_blocks, said_delimiter
from wordpipe.encoders import Moments, TextEncoder, Transform, transform_kind
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ArtifactError, InputError, wrong_line
from wordpipe.metrics import Evaluation, Part, System
from wordpipe.runtime import Progress, Report
from wordpipe.stages.encoders import bundled_encoder, open_encoder
from wordpipe.stages.job import PathLike, RunOptions
from wordpipe.stages.sources import SourceLike, shown_names

T = TypeVar("T")
Ints = npt.NDArray[np.int64]
_BATCH_TEXTS = 2_048  # texts encoded between two reports
_MAX_EXPAND = 1_000  # a packed file may grow so many times
_MAX_WHOLE = 4 << 30  # bytes of a file that is read whole: the largest collections of BEIR have 3
PACKED = ("", ".gz", ".bz2", ".xz", ".zst")  # endings of packed files, and none
_MAX_UNKNOWN_SHOWN, _WORDS_SAID = 20, 5  # unknown words: in JSON, in a remark
_LOOKED_AT = 1 << 16  # bytes that tell what a file is
PLAIN = {
    "bm25": "BM25", "bm25_twice": "BM25, 2 searches", "rm3": "BM25 + RM3", "words_mean": "mean of words", "tfidf": "TF-IDF",
    "lsi": "LSI", "overlap": "word overlap", "random": "hybrid, random vectors",
}  # fmt: skip
"""Systems that are no encoder, for people."""
_FROM_LATIN = "convert the file first: iconv -f LATIN1 -t UTF-8"


def evaluation_of(
    what: str, data: SourceLike, systems: Sequence[System], *, under: str = "systems", parts: Sequence[Part],
    remarks: Iterable[str], details: Sequence[Part] = (), main: str | None = None, **more: Any,
) -> Evaluation:  # fmt: skip
    """Return the evaluation of some systems: the form of every report.

    Args:
        what: of what kind they are.
        data: on which they were evaluated.
        systems: all of them.
        under: the key of their list.
        parts: tables and lines; see `Evaluation`.
        remarks: on them.
        details: parts that are shown where they are wanted.
        main: the kind of system whose metrics are those of all, and beside them, by the name of each kind, those of its
            first; None: those of the first system alone.
        more: facts.

    Returns:
        What JSON has: evaluated, data, the facts, metrics and the systems.
    """
    where, found = shown_names(data), [one.to_json() for one in systems]
    metrics = found[0]["metrics"]
    if main is not None:
        kinds = dict(reversed({one["system"]: one["metrics"] for one in reversed(found)}.items()))
        metrics = {**kinds[main], **kinds}
    head = {"evaluated": what, "data": where[0] if len(where) == 1 else where, **more}
    return Evaluation({**head, "metrics": metrics, under: found}, parts=parts, remarks=[*remarks], details=details)


def some_words(found: Mapping[str, Any]) -> str:
    """The first of `shown_words`, for people."""
    first = found["first"]
    return ", ".join([*first[:_WORDS_SAID], *["…"] * (len(first) > _WORDS_SAID)])


def passed_over(skipped: Mapping[str, int]) -> list[str]:
    """Return a line that counts the files of folders that were not read; no line where all were."""
    said = ", ".join(f"{count:,} {ending}" for ending, count in skipped.items())
    return [f"files skipped: {said}"] if said else []


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of the figures that there are."""
    there = [value for value in values if value is not None]
    return round(sum(there) / len(there), 6) if there else None


def shown_words(words: Sequence[str]) -> dict[str, Any]:
    """Return the number of occurrences of unknown words, and the first different ones."""
    return {"count": len(words), "first": [*dict.fromkeys(words)][:_MAX_UNKNOWN_SHOWN]}


def split_rows(
    corpus: Artifact, columns: list[str], split: str | None, phase: str, report: Report
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a part of a corpus that is the input of an evaluation, None for the whole corpus.

    `split` is among the columns.
    """
    total, done = row_count(corpus, "corpus"), 0
    for batch in read_batches(corpus, "corpus", columns):
        done += len(batch)
        chosen = batch if split is None else batch.filter(pc.equal(batch.column("split"), split))
        if len(chosen):
            yield chosen
        report(Progress(phase, done, total, "sentences"))


def held_out_split(artifact: Artifact, table: str = "corpus") -> str | None:
    """The part of a corpus, or of tokens, that is held out: valid, else test; None: nothing is, so all of it is taken."""
    batches = read_batches(artifact, table, ["split"])
    there = {split for batch in batches for split in pc.unique(batch.column("split")).to_pylist()}
    return next((split for split in ("valid", "test") if split in there), None)


def read_whole(path: Path) -> bytes:
    """Read an input file of an evaluation, unpacked where it is packed (gz, bz2, xz, zst).

    Raises:
        InputError: no such file, a pipe or a device, one of more than 4 GiB, or a damaged one.
    """
    growth, found, size = ExpansionLimit(str(path), _MAX_EXPAND), list[bytes](), 0
    with open_regular_file(path, limit=_MAX_WHOLE) as file:
        kind = compression_of(file.read(16))
        file.seek(0)
        for block in decompress_blocks(read_blocks(file, str(path), lambda _: None), kind, growth):
            found.append(block)
            if (size := size + len(block)) > _MAX_WHOLE:
                expected = f"at most {_MAX_WHOLE:,} bytes after decompression"
                raise InputError("the file is too large to read into memory", where=path, expected=expected)
    return b"".join(found)


def decoded(data: bytes, where: str) -> str:
    """Return the text of an input file of an evaluation in UTF-8. Raises InputError: it is none.

    Names the line, or what the file is.
    """
    if (wide := not_text(data[:_LOOKED_AT], where, as_it_is=True)) is not None:
        raise wide.error(where)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place, got, hint = f"{where}:{data.count(10, 0, error.start) + 1}", error.reason, _FROM_LATIN
        if (found := not_text(data[:_LOOKED_AT], where)) is not None:
            place, got, hint = where, found.kind, "save the file as CSV or JSON Lines first"
        raise InputError("not UTF-8 text", where=place, got=got, hint=hint) from None


def table_rows(text: str, where: str, is_header: Callable[[list[str]], bool]) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of an input table of an evaluation: between tabs, or of CSV.

    A first line `sep=;` says what parts the cells of CSV; else it is a comma, or a semicolon or bar where that makes names of
    columns of the first line.

    Raises:
        InputError: bad quoting; names file and line.
    """
    lines = text.removesuffix("\n").split("\n")
    before = next((number for number, line in enumerate(lines) if line.strip()), 0)
    first = lines[before].removesuffix("\r")
    if (said := said_delimiter(first)) is not None:
        before, first = before + 1, ""
    delimiter = said or ("\t" if "\t" in first else ",")
    if delimiter == "\t":
        for number, line in enumerate(lines[before:], start=before + 1):
            yield number, [cell.strip() for cell in line.split("\t")]
        return
    if said is None:
        delimiter = next((one for one in ",;|" if is_header([cell.strip(' "') for cell in first.split(one)])), ",")
    reader = csv.reader([f"{line}\n" for line in lines[before:]], delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            yield before + reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError("not a readable csv file", where=f"{where}:{before + reader.line_num}", got=error) from None


def json_rows(
    text: str, where: str, named: Callable[[list[str]], T | None], expected: str
) -> Iterator[tuple[int, str, dict[str, Any], T]]:
    """Yield number, text and object of each line of an evaluation's input of JSON lines.

    Raises:
        InputError: a line that is no object, or has not the names that are `expected`; names file and line.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        record = parse_json(line, f"{where}:{number}", what="not a line of JSON", error=InputError, once=True)
        columns = named([*record]) if isinstance(record, dict) else None
        if columns is None:
            raise wrong_line(f"{where}:{number}", line, expected)
        yield number, line, record, columns


def refuse_repeats(names: Sequence[str], used: Iterable[str], where: str) -> None:
    """Raises InputError: a column that is read comes twice, in whatever case."""
    small = [name.strip().lower() for name in names]
    if repeated := [name for name in used if small.count(name.strip().lower()) > 1]:
        raise InputError("a field occurs twice", where=where, got=repeated[0], hint="rename one of the two fields")


def files_of(folder: Path, endings: Sequence[str], skipped: Counter[str]) -> list[Path]:
    """Return the input files of an evaluation in a folder, and in those in it, whose names end so.

    Hidden ones are passed over.

    What was not taken is counted in `skipped`, by the ending of the name.
    """
    found = []
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or any(part.startswith(".") for part in file.relative_to(folder).parts):
            continue
        if file.name.lower().endswith(tuple(ending + packed for ending in endings for packed in PACKED)):
            found.append(file)
        else:
            skipped[file.suffix or file.name] += 1
    return found


def distinct_names(paths: Iterable[Path]) -> dict[str, Path]:
    """Paths by name: the file's without its ending, the whole path where two are called the same."""
    stems = {path: path.resolve().name if path.is_dir() else _stem(path.name) for path in paths}
    often = Counter(stems.values())
    return {stem if often[stem] == 1 else str(path): path for path, stem in stems.items()}


def _stem(name: str) -> str:
    for packed in filter(None, PACKED):
        name = name.removesuffix(packed)
    return Path(name).stem


def flat(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Lists of ids, one behind the other, and how many each has."""
    sizes = np.array([len(one) for one in lists], np.int64)
    return np.concatenate([np.array(one, np.int64) for one in lists]), sizes


def batches_of(sizes: Sequence[int], order: Iterable[int], most: int) -> Iterator[list[int]]:
    """Yield numbers of examples, inputs of an evaluation, as many at a time as have so many positions."""
    batch, total = list[int](), 0
    for number in order:
        if batch and total + sizes[number] > most:
            yield batch
            batch, total = [], 0
        batch.append(number)
        total += sizes[number]
    if batch:
        yield batch


class Texts(NamedTuple):
    """N texts as vectors."""

    vectors: npt.NDArray[np.float32]  # (N, D) of length 1; zero for a text that has none
    empty: npt.NDArray[np.bool_]  # (N,) which have none
    unknown: list[str]  # words without a vector, each time they came

    def transformed(self, transform: Transform) -> "Texts":
        """Return the texts with a transform applied to their vectors."""
        return Texts(*transform.apply(self.vectors), self.unknown)


@dataclass(frozen=True)
class EvaluatedEncoder:
    """One encoder, with the transform that it carries."""

    name: str  # where it is
    encoder: TextEncoder
    carries: bool  # whether it carries a transform, fitted when its sentences were embedded
    settings: EmbedSettings  # how texts become vectors, where the artifact does not say
    run: RunOptions

    @property
    def for_queries(self) -> "EvaluatedEncoder":
        """This encoder, with the prompt of queries."""
        return replace(self, encoder=self.encoder.for_queries)

    def encode(self, texts: Sequence[str]) -> Texts:
        """Encode input texts of an evaluation, with what the encoder carries and nothing more."""
        vectors, empty = [np.zeros((0, self.encoder.transform.dim), np.float32)], [np.zeros(0, np.bool_)]
        unknown: list[str] = []
        for first in range(0, len(texts), _BATCH_TEXTS):
            batch = self.encoder.encode(texts[first : first + _BATCH_TEXTS])
            vectors.append(batch.vectors)
            empty.append(batch.empty)
            unknown += [word for words in batch.unknown for word in words]
            done = min(first + _BATCH_TEXTS, len(texts))
            self.run.report(Progress(f"embedding with {self.name}", done, len(texts), "texts"))
        return Texts(np.concatenate(vectors), np.concatenate(empty), unknown)

    def fitted(self, texts: Texts) -> Transform:
        """Return the transform of an evaluated encoder that settings call for, fitted on encoded texts.

        None where the encoder carries its own.
        """
        moments = Moments(texts.vectors.shape[1])
        moments.add(texts.vectors)
        kind = "none" if self.carries else transform_kind(self.settings, self.encoder, moments.count)
        return moments.fit(kind, self.settings.components, dims=self.settings.dims)


@contextmanager
def open_evaluated(path: PathLike, settings: EmbedSettings, run: RunOptions) -> Iterator[EvaluatedEncoder]:
    """Open an input of an evaluation as an encoder: a model, words, or what sentences carry.

    Raises:
        ArtifactError: missing, corrupt, of another kind, or an index that carries no encoder of texts.
    """
    run.report(Progress(f"reading {path}"))
    with Artifact(path, ["model", "words", "sentences", "index"], verify=run.verify) as artifact:
        refuse_without_vectors(artifact)
        carries = artifact.kind in ("sentences", "index")
        if artifact.kind == "index" and artifact.manifest.facts.get("of") == "words":
            raise ArtifactError(
                "an index over words cannot embed texts", where=str(path), hint="use the words artifact instead"
            )
        encoder = bundled_encoder(artifact) if carries else open_encoder(artifact, settings)
        yield EvaluatedEncoder(str(path), encoder, carries, settings, run)


def first_words(paths: Sequence[PathLike]) -> str | None:
    """Return the first words artifact among the inputs of an evaluation."""
    for path in filter(is_artifact, map(Path, paths)):
        with Artifact(path, verify=False) as artifact:
            if artifact.kind == "words":
                return str(path)
    return None
