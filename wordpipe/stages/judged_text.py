"""The text that language models are judged on: which part of a corpus, how much it is, and its tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import read_batches, row_count
from wordpipe.errors import InputError
from wordpipe.runtime import Progress, Report
from wordpipe.tokens.cutting import cut_words, row_buffers
from wordpipe.tokens.encoding import Encoder, list_array
from wordpipe.tokens.vocabulary import number_of_ids, vocabulary_of
from wordpipe.training.token_stream import Stream, write_streams

__all__ = ["ALL", "SPLITS", "JudgedText", "TextCounts"]

ALL = "all"
SPLITS = ("train", "valid", "test", ALL)
_HELD_OUT = ("valid", "test")
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー々]+"  # as in tokens/words.py


@dataclass
class TextCounts:
    """How much text there is, whatever the tokenizer.

    Attributes:
        sentences: rows.
        bytes: of UTF-8, as the text came in.
        words: what the word pattern of the project finds (see tokens/words.py); a run of a script without spaces is one word.
        unspaced_runs: such runs among them.
    """

    sentences: int = 0
    bytes: int = 0
    words: int = 0
    unspaced_runs: int = 0


@dataclass
class JudgedText:
    """A part of a corpus.

    Args:
        corpus: stays open as long as this is used.
        wanted: train, valid, test or all; None: what is held out (valid, else test), and all of it where nothing is.
        report: told how far the work is.

    Attributes:
        split: the part; None for all of it.
        counts: how much text it is.

    Raises:
        InputError: there is no text in this part.
    """

    corpus: Artifact
    wanted: str | None
    report: Report
    split: str | None = field(init=False)
    counts: TextCounts = field(init=False, default_factory=TextCounts)

    def __post_init__(self) -> None:
        self.split = self._pick() if self.wanted is None else None if self.wanted == ALL else self.wanted
        cut = cut_words()
        for batch in self._rows(["split", "text"], "counting"):
            texts = batch.column("text")
            self.counts.sentences += len(texts)
            self.counts.bytes += len(row_buffers(texts)[0])
            self.counts.words += len(cut(texts).starts)
            self.counts.unspaced_runs += pc.sum(pc.count_substring_regex(texts, _UNSPACED)).as_py() or 0
        if not self.counts.bytes:
            raise InputError(
                "there is no text to judge on",
                where=self.corpus.path,
                got=f"nothing in the split {self.split}" if self.split else None,
                hint="give --split all, or ingest with --valid 0.1" if self.split else None,
            )

    def write_ids(
        self, path: Path, tokenizer: Tokenizer, before: tuple[int, ...], after: tuple[int, ...]
    ) -> tuple[Stream, int]:
        """Write the text's ids to a file as training does, and count the ones that stand for the unknown.

        Args:
            path: of the file.
            tokenizer: truncation and padding switched off.
            before: ids put before each document.
            after: ids put after each document.
        """
        vocab_size = number_of_ids(tokenizer)
        rows = self._token_rows(tokenizer)
        stream = write_streams(rows, {ALL: path}, vocab_size=vocab_size, before=before, after=after)[ALL]
        return stream, int(stream.counts[vocabulary_of(tokenizer).unknown].sum())

    def _token_rows(self, tokenizer: Tokenizer) -> Iterator[pa.RecordBatch]:
        encoder = Encoder(tokenizer)
        worker, kind = encoder.for_thread(), pa.list_(pa.field("item", encoder.id_type, nullable=False))
        for batch in self._rows(["doc_id", "sentence_id", "split", "text"], "tokenizing"):
            ids = list_array(*worker.encode(batch.column("text")), kind)
            split = pa.array(np.full(len(batch), ALL, dtype=object), pa.string())
            yield pa.RecordBatch.from_arrays(
                [batch.column("doc_id"), batch.column("sentence_id"), split, ids],
                names=["doc_id", "sentence_id", "split", "ids"],
            )

    def _pick(self) -> str | None:
        there: set[str] = set()
        for batch in read_batches(self.corpus, "corpus", ["split"]):
            there.update(pc.unique(batch.column("split")).to_pylist())
        return next((split for split in _HELD_OUT if split in there), None)

    def _rows(self, columns: list[str], phase: str) -> Iterator[pa.RecordBatch]:
        total, done = row_count(self.corpus, "corpus"), 0
        for batch in read_batches(self.corpus, "corpus", columns):
            done += len(batch)
            chosen = batch if self.split is None else batch.filter(pc.equal(batch.column("split"), self.split))
            if len(chosen):
                yield chosen
            self.report(Progress(phase, done, total, "sentences"))
