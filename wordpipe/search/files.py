"""An index to and from an open binary file: faiss never gets a path.

`faiss.write_index` to a path returns as if all were well on a full disk and leaves an empty file; through a callback the
caller's own error arrives.
"""

import re
from typing import Any, BinaryIO, Protocol

import faiss

from wordpipe.errors import ArtifactError

__all__ = ["read_index", "write_index"]

_ABOUT_ITSELF = re.compile(r"^Error in .* at \S+:\d+: ")  # which line of faiss complains


class Writable(Protocol):
    """Anything with a write method for bytes, such as a writer that hashes."""

    def write(self, data: bytes, /) -> int:
        """Take all of `data`."""
        ...


def write_index(index: Any, file: Writable) -> None:
    """Write the index; an error raised by `file.write` passes through."""
    faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]


def read_index(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
    """Read an index.

    Args:
        file: from its current position to its end.
        size: bytes to come; no part of the index may claim more, whatever its header says.
        where: what to call the file in an error.

    Raises:
        ArtifactError: not an index, cut short, or one that claims more than it has.
    """
    before = faiss.get_deserialization_vector_byte_limit()
    faiss.set_deserialization_vector_byte_limit(size + 1)
    try:
        return faiss.read_index(faiss.PyCallbackIOReader(file.read))  # type: ignore[attr-defined]
    except (RuntimeError, MemoryError) as error:
        reason = _ABOUT_ITSELF.sub("", str(error).rpartition("Error: ")[2].splitlines()[0])
        raise ArtifactError(
            "not a readable FAISS index", where=where, got=reason, hint="build it again with: wordpipe index"
        ) from None
    finally:
        faiss.set_deserialization_vector_byte_limit(before)
