"""Parsers that behave badly, for the child processes of `wordpipe.corpus.values_of`."""

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from wordpipe.corpus import Unreadable


def says(file: BinaryIO, word: str = "") -> Iterator[Any]:
    """The process, and what is in the file."""
    yield {"process": os.getpid(), "text": file.read().decode(), "word": word}


def many(file: BinaryIO) -> Iterator[Any]:
    """A value for each line."""
    yield from (line.decode() for line in file)


def works(file: BinaryIO, seconds: float = 0) -> Iterator[Any]:
    """Use the processor for some seconds."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    yield "done"


def refuses(file: BinaryIO) -> Iterator[Any]:
    yield 1
    raise Unreadable("the letters are upside down", "ʇxǝʇ", "turn FILE into STEM.txt")


def stumbles(file: BinaryIO) -> Iterator[Any]:
    yield 1
    raise KeyError(file.read().decode())


def crashes(file: BinaryIO) -> Iterator[Any]:
    yield 1
    ctypes.string_at(0)


def leaves(file: BinaryIO) -> Iterator[Any]:
    yield 1
    os._exit(3)


def loops(file: BinaryIO) -> Iterator[Any]:
    yield 1
    while True:
        pass


def sleeps(file: BinaryIO) -> Iterator[Any]:
    yield 1
    time.sleep(600)


def eats(file: BinaryIO) -> Iterator[Any]:
    yield 1
    eaten = []
    while True:
        eaten.append(bytes(1 << 24))


def floods(file: BinaryIO) -> Iterator[Any]:
    while True:
        yield "x" * (1 << 16)


def digs(file: BinaryIO) -> Iterator[Any]:
    yield from digs(file)


def writes(file: BinaryIO, path: str = "") -> Iterator[Any]:
    """Whether a file can be written."""
    try:
        Path(path).write_bytes(b"x" * 100)
        yield "written"
    except OSError as error:
        yield type(error).__name__
