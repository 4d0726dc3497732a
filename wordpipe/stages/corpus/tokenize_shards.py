"""The shards of `wordpipe tokenize`: rows of the corpus counted, and rows encoded. See `ShardWork` for what they promise.

counted-00003               figures of a shard, with the names of its runs of counts
words-00003-0000.parquet    a run of counts; which words are in which run depends on the threads, their sums do not
tokens-00003.parquet        a part of the table of tokens
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from io import RawIOBase
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts import (
    TOKENIZER,
    TOKENIZER_B,
    Artifact,
    ResumeCache,
    Shard,
    read_shard,
    shards_of,
    tokens_schema,
)
from wordpipe.engines import OnUnits
from wordpipe.stages.inputs import SentArtifact
from wordpipe.tokens import (
    FIGURES,
    FIGURES_OF_PAIRS,
    TABLE_BYTES,
    CorpusEncoder,
    RowCutter,
    SpillingTable,
    StringCounts,
    WordNumbers,
    WordSplitter,
    count_batch,
    cut_pretokens,
    cut_words,
    empty_tokenizer,
    in_order,
    open_tokenizer,
    run_splitter,
    scheme_of,
)
from wordpipe.tokens.settings import TokenizeSettings

LIBRARIES = ("tokenizers", "regex", "pyarrow", "numba")
SHARD_BYTES = 64 << 20  # of uncompressed rows: some seconds of work, so that the last ones do not keep others waiting
WORDS = "words.parquet"  # the list of words, in the cache and in the artifact


@dataclass(frozen=True)
class CorpusShards:
    """The shards of a corpus, and the cache where what is made of them is kept.

    Attributes:
        corpus: the artifact.
        cache: the folder of the cache.
        recipe: what is kept there.
        shard_bytes: of uncompressed rows, in a shard.
        rows: of each shard.
    """

    corpus: SentArtifact
    cache: Path
    recipe: str
    shard_bytes: int
    rows: tuple[int, ...]

    @classmethod
    def of(cls, source: Artifact, cache: ResumeCache) -> "CorpusShards":
        """Return the shards of an open corpus."""
        rows = tuple(shard.rows for shard in shards_of(source, "corpus", SHARD_BYTES))
        return cls(SentArtifact.of(source), cache.path.absolute(), cache.recipe, SHARD_BYTES, rows)

    def open(self, stack: ExitStack) -> "OpenShards":
        """Open the shards of the corpus in this process; raises as `SentArtifact.open`."""
        artifact = self.corpus.open(stack)
        shards = shards_of(artifact, "corpus", self.shard_bytes)
        return OpenShards(artifact, shards, ResumeCache(self.cache, self.recipe, shared=True))


@dataclass(frozen=True)
class OpenShards:
    """A corpus, open in this process, its shards, and the cache."""

    artifact: Artifact
    shards: list[Shard]
    cache: ResumeCache


@dataclass(frozen=True)
class Side:
    """The texts of a corpus that have a tokenizer of their own.

    Attributes:
        columns: of the corpus.
        is_second: they are the second texts of pairs alone.
    """

    columns: tuple[str, ...]
    is_second: bool = False

    @property
    def suffix(self) -> str:
        """Return what the names of this side's tables and counts end with."""
        return "_b" if self.is_second else ""

    @property
    def of_them(self) -> str:
        """Return the beginning of a message about the texts that shards are tokenized of."""
        return "second texts: " if self.is_second else ""

    @property
    def pretokens(self) -> str:
        """Return the name of the side's counts of pre-tokens while these are made."""
        return f"pretokens{self.suffix}"

    @property
    def counts(self) -> str:
        """Return the table of the side's counts in the artifact."""
        return f"counts{self.suffix}"

    @property
    def tokenizer(self) -> str:
        """Return the file of the side's tokenizer in the artifact."""
        return TOKENIZER_B if self.is_second else TOKENIZER


def cutter_of(chosen: TokenizeSettings) -> RowCutter:
    """Return the function by which shards are cut into pre-tokens as the tokenizer will."""
    tokenizer = empty_tokenizer(chosen)
    scheme = scheme_of(tokenizer)
    assert scheme is not None, f"{chosen.pretokenizer} is not recognised"
    return cut_pretokens(tokenizer, scheme)


@dataclass(frozen=True)
class _Counting:
    """The state of a process that counts: the source of rows, the cutters, the number of threads."""

    source: OpenShards
    words: RowCutter
    cutters: dict[str, tuple[str, RowCutter]]
    threads: int


@dataclass(frozen=True)
class CountShards:
    """The work of counting in shards: the words of the first texts, and the pre-tokens of all.

    Attributes:
        source: the corpus.
        texts: its columns of texts.
        ways: each side whose pre-tokens are wanted, and the settings by which its rows are cut.
        sample: share of the documents whose pre-tokens are counted.
        table_memory: bytes for the tables of all threads of a process.
    """

    source: CorpusShards
    texts: tuple[str, ...]
    ways: tuple[tuple[Side, TokenizeSettings], ...]
    sample: float
    table_memory: int

    phase, unit = "counting", "sentences"
    side_by_side, in_processes, gpus, libraries = False, False, 0, LIBRARIES

    @property
    def memory_bytes(self) -> int:
        """Return the memory of a process that counts: libraries and machine code, a batch, and the tables."""
        return 450_000_000 + len(self.kinds) * self._table_bytes(1)

    @property
    def kinds(self) -> list[str]:
        """Return the names of the counts, each with tables of its own."""
        return [*(side.pretokens for side, _ in self.ways), "words"]

    def size_of(self, number: int) -> int:
        """Return the sentences of a shard of the corpus."""
        return self.source.rows[number]

    def prepare(self, threads: int, stack: ExitStack, opened: None = None) -> _Counting:
        """Open the corpus and make the cutters of words and pre-tokens, in this process."""
        cuts = {side: cutter_of(way) for side, way in self.ways}
        cutters = {column: (side.pretokens, cut) for side, cut in cuts.items() for column in side.columns}
        return _Counting(self.source.open(stack), cut_words(), cutters, threads)

    def make(self, number: int, state: _Counting, on_units: OnUnits) -> None:
        """Count the words and pre-tokens of a shard into runs of the cache."""
        source, kinds = state.source, self.kinds
        shard, table_bytes = source.shards[number], self._table_bytes(state.threads)
        runs = _RunsOfShard(source.cache, number, kinds)
        tables = [
            {kind: SpillingTable(table_bytes, partial(runs.new, kind)) for kind in kinds} for _ in range(state.threads)
        ]
        count_one = partial(count_batch, words=state.words, pretokens=state.cutters, sample=self.sample)
        rows = trained_on = split = 0
        for counts in in_order(count_one, read_shard(source.artifact, shard, ("doc_id", *self.texts)), tables):
            rows, trained_on, split = rows + counts[0], trained_on + counts[1], split + counts[2]
            on_units(rows)
        for kind in kinds:
            for table in tables[1:]:
                tables[0][kind].take(table[kind])
            tables[0][kind].spill()
        notes = {"sentences_trained_on": trained_on, "pretokens_split": split} if self.ways else {}
        figures = {**{kind: sorted(names) for kind, names in runs.names.items()}, "counts": notes}
        source.cache.put(counted_name(number), b"", figures)

    def _table_bytes(self, threads: int) -> int:
        """Return the memory of one table of counts."""
        return min(self.table_memory // (len(self.kinds) * threads), TABLE_BYTES)


def counted_name(number: int) -> str:
    """Return the name under which the figures of a counted shard are kept."""
    return f"counted-{number:05d}"


class _RunsOfShard:
    """The runs of counts of one shard of a corpus, by kind."""

    def __init__(self, cache: ResumeCache, number: int, kinds: Sequence[str]) -> None:
        self._cache, self._number, self._numbers = cache, number, count()
        self.names: dict[str, list[str]] = {kind: [] for kind in kinds}

    def new(self, kind: str) -> AbstractContextManager[RawIOBase]:
        """Open a new run of counts."""
        name = f"{kind}-{self._number:05d}-{next(self._numbers):04d}.parquet"
        self.names[kind].append(name)
        return self._cache.create(name, {})


@dataclass(frozen=True)
class EncodeShards:
    """The work of encoding in shards: ids of tokens, and numbers of words, of rows.

    Attributes:
        source: the corpus; its cache holds the list of words.
        texts: its columns of texts.
        tokenizers: the JSON of each.
        keep_case: whether words are listed as written.
    """

    source: CorpusShards
    texts: tuple[str, ...]
    tokenizers: tuple[str, ...]
    keep_case: bool

    phase, unit = "encoding", "sentences"
    side_by_side, in_processes, gpus, libraries = False, False, 0, LIBRARIES

    @property
    def memory_bytes(self) -> int:
        """Return the memory of a process that encodes: libraries, a batch, known strings, vocabularies, words."""
        size = sum(map(len, self.tokenizers)) + (self.source.cache / WORDS).stat().st_size
        return 500_000_000 + 12 * size

    @property
    def figures(self) -> tuple[str, ...]:
        """Return the names of what is counted while rows are encoded."""
        return FIGURES_OF_PAIRS if len(self.texts) > 1 else FIGURES

    def size_of(self, number: int) -> int:
        """Return the sentences of a shard of the corpus."""
        return self.source.rows[number]

    def prepare(self, threads: int, stack: ExitStack, opened: None = None) -> tuple[OpenShards, CorpusEncoder]:
        """Open the corpus, the tokenizers and the list of words, in this process."""
        source = self.source.open(stack)
        tokenizers = [open_tokenizer(text.encode(), where=str(source.cache.path)) for text in self.tokenizers]
        with source.cache.open(WORDS) as file, pq.ParquetFile(file, memory_map=False, pre_buffer=False) as table:
            words = StringCounts.from_batches(table.iter_batches(use_threads=False))
        split = WordSplitter(run_splitter(tokenizers[0]), keep_case=self.keep_case)
        return source, CorpusEncoder(tokenizers, WordNumbers(words, split), threads)

    def make(self, number: int, state: tuple[OpenShards, CorpusEncoder], on_units: OnUnits) -> None:
        """Encode a shard of the corpus into a part of the table of tokens."""
        source, encoder = state
        schema: pa.Schema = tokens_schema(encoder.id_type, pairs="text_b" in self.texts)
        figures = dict.fromkeys(self.figures, 0)
        known = {"exact_by": encoder.exact_by, "example": encoder.example}
        batches = read_shard(source.artifact, source.shards[number], ("doc_id", "sentence_id", "split", *self.texts))
        with source.cache.table(tokens_name(number), schema, noted := dict[str, object](known)) as table:
            for rows, found in encoder.encode(batches, schema):
                table.write(rows)
                for name, value in zip(self.figures, found, strict=True):
                    figures[name] += value
                on_units(figures["sentences"])
            noted |= figures


def tokens_name(number: int) -> str:
    """Return the name of a part of the table of tokens."""
    return f"tokens-{number:05d}.parquet"
