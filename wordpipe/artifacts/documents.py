"""Where documents begin in a table whose rows are sentences, documents after each other."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["DocumentStarts"]


class DocumentStarts:
    """Tells it of the rows of a corpus or tokens table, batch after batch."""

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None

    def of(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which rows begin a document: another doc_id, or the same text once more (its sentences count from 0 again).

        Args:
            rows: one at least, with doc_id and sentence_id; they follow those of the call before.
        """
        doc_ids, sentence_ids = rows["doc_id"], rows["sentence_id"].to_numpy(zero_copy_only=False)
        opens = np.ones(rows.num_rows, dtype=bool)
        changed = pc.not_equal(doc_ids[1:], doc_ids[:-1]).to_numpy(zero_copy_only=False)
        opens[1:] = changed | (sentence_ids[1:] <= sentence_ids[:-1])
        if self._last is not None:
            opens[0] = doc_ids[0].as_py() != self._last[0] or sentence_ids[0] <= self._last[1]
        self._last = (doc_ids[-1].as_py(), int(sentence_ids[-1]))
        return opens
