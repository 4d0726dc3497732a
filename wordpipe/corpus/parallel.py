"""Parallel texts: two files of lines, of which each line of the first and the same line of the second are a pair.

A line ends with a newline, or a carriage return and a newline. A carriage return within a line is white space here: read as
the end of a line, as everywhere else, it would move all lines after it away from their partners.
"""

import re
from collections.abc import Callable, Iterator
from itertools import count

from wordpipe.corpus.decode import Decoder, read_blocks
from wordpipe.corpus.documents import Ledger, Record
from wordpipe.corpus.reading import text_blocks
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import Source
from wordpipe.errors import InputError

_LONE_RETURN = re.compile(rb"\r(?!\n)")


def parallel_records(
    first: Source, second: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object]
) -> Iterator[Record]:
    """One record for each line of two files, `text_b` among its own columns; empty lines are records as well.

    Args:
        first: its lines are the texts; its name and its line stand beside each pair.
        second: its lines are the second texts.
        settings: policies and bounds.
        ledger: of both; counts what is replaced or dropped in either.
        on_bytes: called with how many more bytes on disk were read.

    Raises:
        InputError: one file has more lines than the other, a line is too long, or a file is missing, binary or damaged.
        StorageError: reading failed.
    """
    files = [_Lines(source, settings, ledger, on_bytes) for source in (first, second)]
    texts, seconds = (iter(file) for file in files)
    for line in count(1):
        text, second_text = next(texts, None), next(seconds, None)
        if text is None and second_text is None:
            return
        if text is None or second_text is None:
            for rest in (texts, seconds):
                for _ in rest:  # to the end, for the number of lines
                    pass
            numbers = [file.number for file in files]
            longer = files[numbers.index(max(numbers))].source.name
            raise InputError(
                "the two files do not have equally many lines", where=f"{first.name}, {second.name}",
                got=f"{numbers[0]:,} and {numbers[1]:,} lines",
                hint=f"line {line:,} of {longer} is the first without a partner; look for a line lost or added before it",
            )  # fmt: skip
        own = {"text_b": second_text}
        yield Record(text, first.name, line, own=own, width=len(second_text), lines_follow=False)


class _Lines:
    """The lines of one file, without their ends; one that the policy for bad bytes drops is empty.

    Attributes:
        number: how many have been read so far.
    """

    def __init__(
        self, source: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object]
    ) -> None:
        self.source, self.number = source, 0
        self._settings, self._ledger, self._on_bytes = settings, ledger, on_bytes
        self._ends, self._is_open = 0, False  # line ends so far, and whether bytes follow the last

    def __iter__(self) -> Iterator[str]:
        source, settings = self.source, self._settings
        decoder = Decoder(source.name, settings.bad_bytes, self._ledger)
        with source.open() as file:
            blocks = text_blocks(read_blocks(file, source.name, self._note), source, settings, self._ledger)
            lines = decoder.lines(self._tidied(blocks), longest=settings.max_document_bytes, cut_longer=False)
            for number, line in lines:
                while self.number < number - 1:
                    self.number += 1
                    yield ""
                self.number += 1
                yield line.removesuffix("\n")
        while self.number < self._ends + self._is_open:
            self.number += 1
            yield ""
        source.seen.is_whole = True

    def _note(self, block: bytes) -> None:
        self._on_bytes(len(block))
        if self.source.kind == "stream":
            self.source.seen.note(block)

    def _tidied(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks, each lone carriage return a space; ends of lines are counted."""
        held = b""  # a carriage return at the end of a block, of which the next one says what it is
        for block in blocks:
            block = held + block
            held = b"\r" if block.endswith(b"\r") else b""
            block = block.removesuffix(held)
            if b"\r" in block:
                block, lone = _LONE_RETURN.subn(b" ", block)
                self._ledger.add("carriage_returns_replaced", lone)
            if block:
                self._ends += block.count(b"\n")
                self._is_open = not block.endswith(b"\n")
                yield block
