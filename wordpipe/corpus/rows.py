"""Corpus rows, gathered column by column into record batches of bounded size."""

import pyarrow as pa

from wordpipe.corpus.documents import Document

__all__ = ["Rows"]

_CHARS = 4 << 20  # text in one batch
_ROWS = 1 << 14
_CHUNK = 512  # sentences added at a time


class Rows:
    """The batch being filled.

    Args:
        schema: the corpus schema, then the metadata columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._columns: dict[str, list[object]] = {name: [] for name in schema.names}
        self._chars = 0

    @property
    def is_full(self) -> bool:
        """Time to take the batch."""
        return self._chars >= _CHARS or len(self._columns["text"]) >= _ROWS

    @staticmethod
    def chunk(document: Document) -> int:
        """How many of its sentences to add at once: few, where a long title or metadata stands beside each."""
        return max(1, min(_CHUNK, _CHARS // 4 // _beside(document)))

    def add(self, document: Document, first: int, texts: list[str], lines: list[int]) -> None:
        """Add sentences of one document, numbered from `first`."""
        number, record = len(texts), document.record
        self._columns["text"] += texts
        self._columns["line"] += lines
        self._columns["sentence_id"] += range(first, first + number)
        beside = {
            **record.metadata,
            "doc_id": document.doc_id,
            "title": record.title,
            "split": document.split,
            "source": record.source,
        }
        for name in self.schema.names:
            if name not in ("text", "line", "sentence_id"):
                self._columns[name] += [beside.get(name)] * number
        self._chars += sum(map(len, texts)) + number * _beside(document)

    def take(self) -> pa.RecordBatch:
        """The batch; an empty one is begun."""
        arrays = [pa.array(self._columns[field.name], field.type) for field in self.schema]
        self._columns = {name: [] for name in self.schema.names}
        self._chars = 0
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def __len__(self) -> int:
        return len(self._columns["text"])


def _beside(document: Document) -> int:
    """Characters that stand beside each sentence, roughly."""
    record = document.record
    return 100 + len(record.title or "") + sum(len(str(value)) for value in record.metadata.values())
