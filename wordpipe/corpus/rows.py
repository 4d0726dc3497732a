"""Corpus rows, gathered by document into record batches of bounded size."""

import numpy as np
import pyarrow as pa

from wordpipe.corpus.documents import Document

__all__ = ["Rows"]

_CHARS = 4 << 20  # in one batch
_ROWS = 1 << 14
_CHUNK = 512  # sentences added at a time


class Rows:
    """The batch being filled.

    What all sentences of a document share is kept once, and repeated by Arrow when the batch is taken.

    Args:
        schema: the corpus schema, then the metadata columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._clear()

    def _clear(self) -> None:
        self._texts: list[str] = []
        self._lines: list[int] = []
        self._sentence_ids: list[int] = []
        self._documents: list[Document] = []
        self._runs: list[int] = []  # sentences of each
        self._chars = 0

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def is_full(self) -> bool:
        """Time to take the batch."""
        return self._chars >= _CHARS or len(self._texts) >= _ROWS

    @staticmethod
    def chunk(document: Document) -> int:
        """How many of its sentences to add at once: few, where a long title or metadata stands beside each."""
        return max(1, min(_CHUNK, _CHARS // 4 // document.width))

    def add(self, document: Document, first: int, texts: list[str], lines: list[int]) -> None:
        """Add sentences of one document, numbered from `first`."""
        self._texts += texts
        self._lines += lines
        self._sentence_ids += range(first, first + len(texts))
        self._documents.append(document)
        self._runs.append(len(texts))
        self._chars += sum(map(len, texts)) + len(texts) * document.width

    def take(self) -> pa.RecordBatch:
        """The batch; an empty one is begun."""
        own = {"text": self._texts, "line": self._lines, "sentence_id": self._sentence_ids}
        document_of_row = pa.array(np.repeat(np.arange(len(self._runs)), self._runs))
        arrays = [
            pa.array(own[field.name], field.type) if field.name in own else self._shared(field).take(document_of_row)
            for field in self.schema
        ]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _shared(self, field: pa.Field) -> pa.Array:
        """One value for each document."""
        if field.name in ("doc_id", "split"):
            values = [getattr(document, field.name) for document in self._documents]
        elif field.name in ("title", "source"):
            values = [getattr(document.record, field.name) for document in self._documents]
        else:
            values = [document.record.metadata.get(field.name) for document in self._documents]
        return pa.array(values, field.type)
