"""Words as Arrow arrays."""

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["arrow_words"]


def arrow_words(words: "pa.Array | Sequence[str]") -> pa.Array:
    """Words as an Arrow array of UTF-8 in one piece. A lone surrogate, which is no character, is kept as it is encoded."""
    if isinstance(words, pa.ChunkedArray):
        words = words.combine_chunks()
    if isinstance(words, pa.Array):
        return words if words.type == pa.string() else words.cast(pa.string())
    some = list(words)
    try:
        return pa.array(some, pa.string())
    except UnicodeEncodeError:
        return pa.array([word.encode("utf-8", "surrogatepass") for word in some], pa.binary())
