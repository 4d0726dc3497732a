"""An index to and from an open binary file: faiss never gets a path.

`faiss.write_index` to a path returns as if all were well on a full disk and leaves an empty file; through a callback the
caller's own error arrives.
"""

import re
from typing import Any, BinaryIO, Protocol

import faiss

from wordpipe.errors import ArtifactError

__all__ = ["read_index", "read_lists", "write_index"]

_REFINED, _HEAD = b"IxRF", 37  # how lists with vectors beside them begin, and where the lists themselves do
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


def read_lists(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
    """Read an index but for the vectors beside its lists, nine tenths of it, where it has such: they are to be filled in.

    Faiss writes a header of 37 bytes, the lists, the vectors, and how many candidates are compared.

    Args:
        file: as for `read_index`.
        size: as there.
        where: as there.

    Returns:
        The index, without vectors; any other kind as it is.

    Raises:
        ArtifactError: as `read_index`.
    """
    if file.read(_HEAD)[: len(_REFINED)] != _REFINED:
        file.seek(0)
        return read_index(file, size=size, where=where)
    lists: Any = read_index(file, size=size, where=where)
    index: Any = faiss.index_factory(lists.d, "Flat,RFlat", lists.metric_type)
    index.base_index.this.own(True)  # the empty place of the lists goes when this line is done
    index.base_index, index.is_trained = lists, lists.is_trained
    lists.this.disown()
    return index
