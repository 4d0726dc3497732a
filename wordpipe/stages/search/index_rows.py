"""The rows of an index: sentences or words unchanged, or a corpus that is cut as `embed` cuts a corpus."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from wordpipe import __version__
from wordpipe.artifacts import (
    CORPUS,
    FORMATS,
    Artifact,
    ArtifactWriter,
    Manifest,
    TableWriter,
    digest_of,
    part_names,
    read_batches,
    read_schema,
    row_count,
    sentences_schema,
)
from wordpipe.encoders import UnitBatch, UnitCutter, WordLengths
from wordpipe.engines import CopiedProcess
from wordpipe.runtime import keep_freed_memory
from wordpipe.search import LexicalIndex, recognised_language, searched_fields
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.job import Job
from wordpipe.stages.search.row_facts import FILE_NAMES, beside_texts, has_file_names, texts_and_fields

_CUT = [
    "doc_id",
    "sentence_id",
    "title",
    "text",
    "source",
]  # columns of a corpus by which it is cut, and its words counted
_LEAST_COUNTED, _MOST_COUNTED = 1 << 20, 64 << 20  # bytes of sources
_TEXTS_RECOGNISED = 1_000  # by which a language is recognised


class WordsAhead:
    """The words of the rows of a corpus, counted in a copy of this process while the corpus is still being read.

    Args:
        settings: of the index; its endings are not measured.
        copy: counts the words; see `words_ahead`.
    """

    def __init__(self, settings: IndexSettings, copy: CopiedProcess) -> None:
        self.settings, self._copy = settings, copy
        self._rows, self._is_of_texts = 0, True

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Give the next rows of a corpus to the copy.

        Texts alone are counted so: which fields are searched is known when all has been read.
        """
        self._is_of_texts &= not searched_fields(batch.schema, titled=self.settings.reads_titles)
        if self._is_of_texts:
            self._copy.send(batch.select(_CUT))
            self._rows += len(batch)

    def lexical(self, corpus: Artifact, settings: IndexSettings) -> LexicalIndex | None:
        """Return the lexical index of a corpus; None where other rows were counted, or the copy has failed."""
        if self._rows != row_count(corpus, "corpus") or settings.recipe() != self.settings.recipe():
            return None
        files = self._copy.result()
        return None if files is None else LexicalIndex.load(files)


@contextmanager
def words_ahead(settings: IndexSettings, size: int, reading: Mapping[str, Any]) -> Iterator[WordsAhead | None]:
    """Count, within the block, the words of a corpus that is read there; None where that cannot be done or does not pay.

    10 MB of prose are searched the first time in 1.6 s so, and in 2.3 s one after the other.

    Args:
        settings: of the index.
        size: bytes of the sources. Many are read by several processes, and counted afterwards.
        reading: settings of `ingest`.
    """
    fields = ["source"] if settings.reads_titles and has_file_names(reading) else []
    copy = CopiedProcess.of(partial(_counted, settings, fields)) if _LEAST_COUNTED <= size <= _MOST_COUNTED else None
    if copy is None:
        yield None
        return
    with copy:
        yield WordsAhead(settings, copy)


def _counted(
    settings: IndexSettings, fields: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[str, bytes]]:
    """Cut a corpus into rows as `rows_of_corpus` does, and yield the files of its lexical index."""
    keep_freed_memory()  # as `index` does
    cut = UnitCutter(settings, WordLengths(settings)).read(batches)
    first: list[UnitBatch] = []
    while sum(map(len, first)) < _TEXTS_RECOGNISED and (some := next(cut, None)) is not None:
        first.append(some)
    language = recognised_language(text for some in first for text in some.embedded.to_pylist())
    chosen = settings.in_language(language if settings.language == "auto" else settings.language)
    texts = (_with_fields(units, fields) for units in chain(first, cut))
    yield from LexicalIndex.build(texts, chosen, stems=settings.endings != "keep").files()


def _with_fields(units: UnitBatch, fields: list[str]) -> pa.Array:
    """Return the texts of rows as a lexical index counts them: alone, or with their fields."""
    if not fields:
        return units.embedded
    rows = pa.RecordBatch.from_arrays([units.column(name) for name in fields], fields)
    return texts_and_fields(units.embedded, beside_texts(rows, fields))


def rows_of_corpus(job: Job, corpus: Artifact, settings: IndexSettings) -> Artifact:
    """Cut a corpus into rows, and return sentences without vectors in the job's scratch folder, open as long as the job.

    They are the rows that `embed` makes of the same corpus with the same unit; windows are counted in words.
    """
    further = list(read_schema(corpus, "corpus", CORPUS))[len(CORPUS) :]
    schema, cutter = sentences_schema(0, pa.schema(further)), UnitCutter(settings, WordLengths(settings))
    rows = done = 0
    total = row_count(corpus, "corpus")
    with ArtifactWriter(job.scratch / "rows") as writer:
        with TableWriter(writer, "sentences", schema) as table:
            for units in cutter.read(read_batches(corpus, "corpus", expected=CORPUS)):
                table.write(units.as_rows(schema, rows))
                rows += len(units)
                done += len(units.rows)
                job.report("cutting", done, total, "sentences")
        outputs = sorted(writer.outputs, key=lambda entry: entry.path)
        writer.publish(
            Manifest(
                format=FORMATS["sentences"], kind="sentences", command="index", wordpipe=__version__,
                settings=settings.manifest(), inputs=job.inputs, outputs=outputs, recipe=job.recipe,
                facts={"dim": 0, FILE_NAMES: has_file_names(corpus.manifest.settings)},
                digest=digest_of(outputs),
            )
        )  # fmt: skip
    return job.keep_open(Artifact(job.scratch / "rows", ["sentences"], verify=False))


def bundle_rows(job: Job, source: Artifact) -> None:
    """Make the main table of a sentences or words artifact the table `index` of the artifact being made."""
    rows, total = 0, row_count(source, source.kind)
    for name in part_names(source, source.kind):
        job.writer.share(source, name, "index" + name.removeprefix(source.kind))
        rows += source.rows_of(name) or 0
        job.report("writing", rows, total, "rows")
