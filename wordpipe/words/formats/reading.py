"""Opening a file of word vectors in whatever format it is."""

import re
from collections.abc import Iterator
from itertools import chain

from wordpipe.errors import ConfigError, InputError
from wordpipe.words.formats.binary import read_binary
from wordpipe.words.formats.rows import WordFile, checked_dim
from wordpipe.words.formats.settings import Format
from wordpipe.words.formats.text import dim_of_line, read_text

__all__ = ["open_stream"]

_HEAD = 4 << 20  # bytes in which the first two lines must end to be judged; 65,536 numbers in full take 1.6 MB
_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?[ \t]*(\d{1,15})[ \t]+(\d{1,9})[ \t\r]*")  # some editors put a mark before it
_TO_WORD2VEC = "save_word2vec_format('vectors.bin', binary=True)"
_FOREIGN = (
    (
        re.compile(rb"\x80[\x02-\x05]"),
        "this is a Python pickle, as gensim's own .save writes; it could run any program, so it is never read",
        f"where you trust it: gensim.models.Word2Vec.load(FILE).wv.{_TO_WORD2VEC}, or for vectors alone "
        f"gensim.models.KeyedVectors.load(FILE).{_TO_WORD2VEC}; then import vectors.bin",
    ),
    (re.compile(rb"PK\x03\x04"), "this is a zip file", "unpack it and name the file inside"),
    (re.compile(rb"\x93NUMPY"), "this is an array without its words", "name the folder with vectors.npy and words.txt"),
    (re.compile(rb"\xba\x16\x4f\x2f"), "this is a fastText model", "import the .vec file beside it"),
    (re.compile(rb"PAR1\x15"), "this is a Parquet file", "name a file of word vectors in one of the formats"),
)


def open_stream(blocks: Iterator[bytes], form: Format, *, name: str) -> WordFile:
    """Open a stream of bytes as word vectors.

    Args:
        blocks: the file, decompressed.
        form: its format; auto: judged by its first lines.
        name: the file, for errors.

    Raises:
        InputError: empty, none of the formats, or a malformed beginning. Later errors come as the rows are read.
        ConfigError: a format that is not a file.
    """
    if form == "numpy":
        raise ConfigError(
            "this format is a folder", where="format", got=name, hint="name the folder with vectors.npy in it"
        )
    head = _head(blocks)
    for magic, what, hint in _FOREIGN:
        if magic.match(head):
            raise InputError(what, where=name, hint=hint)
    if not head.strip():
        raise InputError("the file is empty", where=name)
    line, _, rest = head.partition(b"\n")
    header = _HEADER.fullmatch(line)
    if form == "glove" or (header is None and form == "auto"):
        return _open_glove(chain([head], blocks), line, name)
    if header is None:
        shown = line[:60].decode(errors="backslashreplace")
        hint = "--format glove reads lines without a header"
        raise InputError(
            "no header", where=f"{name}, line 1", got=repr(shown), expected="words and dimensions", hint=hint
        )
    size, dim = int(header[1]), checked_dim(int(header[2]), f"{name}, line 1")
    if form == "auto":
        form = "word2vec-text" if _looks_like_text(rest, dim) else "word2vec-binary"
    behind = chain([rest], blocks)
    if form == "word2vec-text":
        return WordFile(form, dim, size, "line", read_text(behind, dim, size=size, first_line=2, name=name))
    return WordFile(form, dim, size, "word", read_binary(behind, dim, size=size, name=name))


def _open_glove(blocks: Iterator[bytes], line: bytes, name: str) -> WordFile:
    dim = dim_of_line(line)
    if not dim:
        shown = line[:60].decode(errors="backslashreplace")
        expected = "a word and its numbers, or a header of two whole numbers"
        raise InputError("not a file of word vectors", where=f"{name}, line 1", got=repr(shown), expected=expected)
    rows = read_text(blocks, checked_dim(dim, f"{name}, line 1"), first_line=1, name=name)
    return WordFile("glove", dim, None, "line", rows)


def _head(blocks: Iterator[bytes]) -> bytes:
    """The first bytes: two lines at least, if they end anywhere near."""
    head = b""
    for block in blocks:
        head += block
        if head.count(b"\n") >= 2 or len(head) >= _HEAD:
            break
    return head


def _looks_like_text(rest: bytes, dim: int) -> bool:
    """Whether the first word behind a header has its numbers in digits; or at least is all letters, if malformed."""
    line = rest.partition(b"\n")[0]
    if dim_of_line(line) >= dim:
        return True
    some = rest[:4096]
    return not re.search(rb"[\x00-\x08\x0e-\x1f\x7f]", some) and _is_utf8(some)


def _is_utf8(some: bytes) -> bool:
    text = some.decode(errors="surrogateescape")
    return not re.search("[\udc80-\udcff]", text[:-4])  # the last character may be cut
