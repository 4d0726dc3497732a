"""Packages: zip files of XML parts, in which office programs and books keep their text, read within bounds.

Nothing is unpacked to disk, and no link is followed. A package may grow to `--max-expand` times its size, all parts that are
read counted together; a part of text may have 128 MiB, one that says how text looks 32 MiB, and so the list of all parts. XML
with declarations of entities is refused, so that no entity can grow or name a file, and so are elements of more than 1,000 in
each other. Such bounds make the time that a file takes, and the memory, follow from its size.

Names of elements and attributes come with a short prefix ("w:t"), whatever prefix the file uses.

Sources: ISO/IEC 21320-1 (document container files), ECMA-376 part 2 (Open Packaging Conventions).
"""

import lzma
import posixpath
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol
from urllib.parse import unquote
from xml.parsers import expat
from zipfile import BadZipFile, LargeZipFile, ZipFile

from wordpipe.corpus.decode import BLOCK, ExpansionLimit
from wordpipe.corpus.readers.sections import title_of_properties
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError

DAMAGED = (
    BadZipFile, LargeZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, KeyError, ValueError, OSError, RuntimeError,
    OverflowError, NotImplementedError,
)  # fmt: skip
"""What `zipfile` raises for a file that is damaged, encrypted, or packed in a way that it does not know."""

OLD_OFFICE = b"\xd0\xcf\x11\xe0"
"""The first bytes of files of old Office programs, and of files of theirs with a password."""
_END = b"PK\x05\x06"  # of the record that says where the list of parts is
_END_BYTES = 22
_LONGEST_COMMENT = 1 << 16
_LONGEST_LIST = 32 << 20  # bytes of the list of parts: each takes ten times as much in memory
_LONGEST_PART, _LONGEST_HEAD = 128 << 20, 32 << 20  # bytes of a part of text, and of one that is held as a whole
_DEEPEST = 1000
_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/presentationml/2006/main": "p",
    "http://purl.oclc.org/ooxml/presentationml/main": "p",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
    "http://purl.oclc.org/ooxml/drawingml/main": "a",
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c",
    "http://purl.oclc.org/ooxml/drawingml/chart": "c",
    "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing": "wp",
    "http://purl.oclc.org/ooxml/drawingml/wordprocessingDrawing": "wp",
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships": "r",
    "http://purl.oclc.org/ooxml/officeDocument/relationships": "r",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m",
    "http://purl.oclc.org/ooxml/officeDocument/math": "m",
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://www.w3.org/1999/xlink": "xlink",
    "http://www.idpf.org/2007/opf": "opf",
    "http://www.w3.org/1998/Math/MathML": "math",
}
_ODF_PREFIXES = {"drawing": "draw", "svg-compatible": "svg"}  # where it is not the word in the name itself


class Handler(Protocol):
    """A reader of the events of an XML part."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the start of an element."""

    def end(self, tag: str) -> None:
        """Take the end of an element."""

    def text(self, text: str) -> None:
        """Take text between tags."""


class Package:
    """A zip file of parts, read within a bound that all of its parts share: what `max_expand` lets the file grow to.

    Args:
        opened: the file, which can seek.

    Raises:
        InputError: it is no zip file, or a damaged one, or has too many parts.
    """

    def __init__(self, opened: Opened) -> None:
        assert opened.file is not None
        file, self.name = opened.file, opened.source.name
        self._limit = ExpansionLimit(self.name, opened.settings.max_expand)
        self._limit.taken = opened.source.bytes
        head = file.read(len(OLD_OFFICE))
        if head == OLD_OFFICE:
            what = "the file has a password, or it is in the format of an old Office program"
            raise InputError(what, where=self.name, hint="save the file without a password, in the current format")
        try:
            refuse_long_list(file, self.name)
            file.seek(0)
            self._zip = ZipFile(file)
        except DAMAGED as error:
            raise self._damaged(error) from None
        self.names = frozenset(self._zip.namelist())

    def blocks(self, part: str, *, longest: int = _LONGEST_PART) -> Iterator[bytes]:
        """Yield the bytes of a part, a block at a time; of a missing part nothing.

        Raises:
            InputError: the part is damaged, encrypted or longer than `longest`, or the package grows beyond its bound.
        """
        if part not in self.names:
            return
        size = 0
        try:
            with self._zip.open(part) as file:
                while block := file.read(BLOCK):
                    self._limit.add(len(block))
                    size += len(block)
                    if size > longest:
                        expected = f"at most {longest >> 20} MiB"
                        raise InputError(
                            "a part of the file is too long", where=f"{self.name}, {part}", expected=expected
                        )
                    yield block
        except DAMAGED as error:
            raise self._damaged(error, part) from None

    def read(self, part: str) -> bytes:
        """Return the bytes of a part, all of them. Raises InputError as `blocks`."""
        return b"".join(self.blocks(part, longest=_LONGEST_HEAD))

    def steps(self, part: str, handler: Handler, *, longest: int = _LONGEST_PART) -> Iterator[None]:
        """Report the elements and texts of an XML part to a handler; yield after each block.

        Raises:
            InputError: the part is no sound XML, declares entities, is damaged, or the package grows beyond its bound.
        """
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.EntityDeclHandler = self._refuse_entity
        depth = 0

        def start(tag: str, given: dict[str, str]) -> None:
            nonlocal depth
            depth += 1
            if depth > _DEEPEST:
                raise InputError("the file is nested too deeply", where=f"{self.name}, {part}")
            handler.start(_short(tag), {_short(name): value for name, value in given.items()} if given else {})

        def end(tag: str) -> None:
            nonlocal depth
            depth -= 1
            handler.end(_short(tag))

        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.CharacterDataHandler = handler.text
        held, size, given = [], 0, 0
        try:
            for block in self.blocks(part, longest=longest):
                held.append(block)
                size += len(block)
                if (
                    size >= given - parser.CurrentByteIndex
                ):  # expat looks at a tag that has no end from its beginning again
                    parser.Parse(b"".join(held))
                    held, size, given = [], 0, given + size
                    yield
            if part in self.names:
                parser.Parse(b"".join(held), True)
        except (expat.ExpatError, LookupError, ValueError) as error:  # an encoding that nobody knows; strange numbers
            raise self._damaged(error, part) from None

    def parse(self, part: str, handler: Handler) -> None:
        """Report all of an XML part to a handler, which holds what it takes of it. Raises InputError as `steps`."""
        for _ in self.steps(part, handler, longest=_LONGEST_HEAD):
            pass

    def _refuse_entity(self, name: str, *_: object) -> None:
        """Refuse a declaration of an entity in XML."""
        raise InputError("the file declares XML entities, which are never read", where=self.name, got=name)

    def _damaged(self, error: Exception, part: str = "") -> InputError:
        """Return the error for a package, or a part of it, that is damaged or encrypted."""
        where = f"{self.name}, {part}" if part else self.name
        if isinstance(error, RuntimeError) and "encrypted" in str(error):
            return InputError("the file has a password", where=where, hint="save the file without a password")
        hint = "download or create the file again"
        return InputError("the file is damaged", where=where, got=str(error) or type(error).__name__, hint=hint)


def refuse_long_list(file: BinaryIO, name: str) -> None:
    """Raise InputError for a zip file whose list of parts would fill the memory."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _LONGEST_COMMENT - _END_BYTES))
    tail = file.read()
    end = tail.rfind(_END)
    if end < 0 or len(tail) < end + _END_BYTES:
        raise BadZipFile("no end of a zip file")
    (length,) = struct.unpack_from("<I", tail, end + 12)
    if length > _LONGEST_LIST:
        got, expected = f"a list of {length:,} bytes", f"at most {_LONGEST_LIST:,} bytes"
        raise InputError("the zip file has too many parts", where=name, got=got, expected=expected)


@lru_cache(maxsize=1000)  # a file may name as many as it likes
def _of_uri(uri: str) -> str:
    """Return the short prefix of a namespace: of OpenDocument the usual one, of others a known one."""
    if uri.startswith("urn:oasis:names:tc:opendocument:xmlns:"):
        return _ODF_PREFIXES.get(uri.split(":")[6], uri.split(":")[6])
    return _PREFIXES.get(uri, "")


@lru_cache(maxsize=4000)
def _short(name: str) -> str:
    """Return the name of an element or attribute with its short prefix."""
    uri, _, local = name.rpartition(" ")
    return f"{_of_uri(uri)}:{local}" if uri else name


class Relations(dict[str, tuple[str, str]]):
    """The relations of a part of an Office file to other parts: id → the last word of its type, and the path of the part."""

    def __init__(self, package: Package, part: str = "") -> None:
        super().__init__()
        self._folder, name = posixpath.split(part)
        package.parse(posixpath.join(self._folder, "_rels", f"{name}.rels"), self)

    def of(self, kind: str) -> list[str]:
        """Return the paths of all related parts of this kind."""
        return [path for one, path in self.values() if one == kind]

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag.endswith(":Relationship") and attributes.get("TargetMode") != "External":
            path = path_in(self._folder, attributes.get("Target", ""))
            self[attributes.get("Id", "")] = (attributes.get("Type", "").rpartition("/")[2], path)

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


def path_in(folder: str, link: str) -> str:
    """Return the path in a package of what a part in this folder links to, without "#…".

    >>> path_in("OEBPS/text", "../notes%201.xhtml#n3")
    'OEBPS/notes 1.xhtml'
    """
    return posixpath.normpath(posixpath.join("/", folder, unquote(link.partition("#")[0]))).lstrip("/")


class _Title:
    """The title in the properties of a document (`dc:title`)."""

    def __init__(self) -> None:
        self.words = ""
        self._is_open = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._is_open = tag == "dc:title" and not self.words

    def end(self, tag: str) -> None:
        self._is_open = False

    def text(self, text: str) -> None:
        if self._is_open:
            self.words += text


def title_in(package: Package, part: str, file: str) -> str | None:
    """Return the title in the properties of a document; None where there is none, or it is only the name of the file."""
    found = _Title()
    package.parse(part, found)
    title = title_of_properties(found.words)
    names = {PurePosixPath(file).stem.casefold(), PurePosixPath(file).name.casefold()}
    return None if title is None or title.casefold() in names else title
