"""An index over texts: asked by vectors, by words, or by both."""

import json
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.rows import RowReader
from wordpipe.artifacts.tables import read_batches, read_schema, row_count
from wordpipe.errors import ArtifactError
from wordpipe.search.hits import Hits
from wordpipe.search.lexical import LexicalIndex
from wordpipe.search.retrieval import Retriever
from wordpipe.sentences.encoder import ENCODER_FILE, EncodedBatch, TextEncoder
from wordpipe.stages.answers import Answers, Ask, Opened, printable
from wordpipe.stages.carried import ENCODER, INDEX_FILE
from wordpipe.stages.explaining import Explainer
from wordpipe.stages.lexical import has_lexical, open_lexical

__all__ = ["OpenIndex"]

_SUGGESTED = 5  # unknown words of a batch: to compare one with 100,000 others takes 0.1 s

Mask = npt.NDArray[np.bool_]


class OpenIndex(Opened):
    """An index artifact: free text, encoded as its rows were."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        self._where = lru_cache(maxsize=8)(self._rows_where)

    @cached_property
    def index(self) -> Any:
        """The faiss index."""
        from wordpipe.search.files import read_index

        with self.artifact.open(INDEX_FILE) as file:
            size = next(o.bytes for o in self.artifact.manifest.outputs if o.path == INDEX_FILE)
            return read_index(file, size=size, where=str(self.artifact.path / INDEX_FILE))

    @cached_property
    def encoder(self) -> TextEncoder:
        """The query encoder that the index carries.

        Raises:
            ArtifactError: it is not the one that its vectors were made with.
        """
        from wordpipe.stages.encoders import carried_encoder

        about = json.loads(self.artifact.read(ENCODER + ENCODER_FILE))
        made, carried = self._fact("encoder", "digest"), about.get("identity", {}).get("digest")
        if made is not None and carried is not None and made != carried:
            raise ArtifactError(
                "the index carries another encoder than its vectors were made with",
                where=self.artifact.path,
                got=carried[:16],
                expected=made[:16],
                hint="build it again with: wordpipe index",
            )
        return carried_encoder(self.artifact)

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The lexical index that the index carries.

        Raises:
            ArtifactError: it carries none.
        """
        if not has_lexical(self.artifact):
            raise ArtifactError(
                "the index cannot be asked by words: it was built before it could",
                where=self.artifact.path,
                hint="build it again with: wordpipe index, or ask with --mode dense",
            )
        return open_lexical(self.artifact)

    @cached_property
    def rows(self) -> RowReader:
        """The rows behind the vectors, without these."""
        return RowReader(self.artifact, "index", self._columns.names)

    @cached_property
    def documents(self) -> npt.NDArray[np.integer[Any]]:
        """(N,) the number of every row's document."""
        ids = [batch.column("doc_id") for batch in read_batches(self.artifact, "index", ["doc_id"])]
        encoded = pa.chunked_array(ids, pa.string()).combine_chunks().dictionary_encode()
        numbers: npt.NDArray[np.integer[Any]] = encoded.indices.to_numpy()
        return numbers

    def answer(self, texts: Sequence[str], k: int = 10, ask: Ask = Ask()) -> list[Answers]:  # noqa: B008
        """Answer several queries; one without a vector has no hits by vectors, one without a known word none by words.

        Raises:
            ConfigError: the condition cannot be read.
            ArtifactError: the index has no words to be asked by, or does not belong to its encoder.
        """
        texts = [printable(text) for text in texts]
        encoded: list[EncodedBatch] = []
        retriever = self._retriever(ask, encoded)
        found = retriever.find_documents(texts, k, self.documents) if ask.per_document else retriever.find(texts, k)
        explain = Explainer(self, retriever) if ask.explain else None
        hits = self.rows_of([one.hits.at_least(ask.min_score) for one in found])
        if explain is not None:
            for text, one, told in zip(texts, found, hits, strict=True):
                for row, hit in zip(one.hits.rows.tolist(), told, strict=False):  # the hits are the first of the rows
                    hit["explain"] = explain(text, row, self.embedded_text(hit), one)
        unknown = self._unknown(encoded[0]) if encoded else [{} for _ in texts]
        return [Answers(*both) for both in zip(texts, hits, unknown, strict=True)]

    def check(self, ask: Ask) -> None:
        """Refuse a condition that cannot be read, and a mode that the index does not have, before any query comes.

        Raises:
            ConfigError, ArtifactError: names it.
        """
        self.allowed(ask)
        if ask.mode in ("lexical", "hybrid") or ask.weight is not None:
            self.lexical  # noqa: B018  opened now, so that one that is not there is said once

    def allowed(self, ask: Ask) -> Mask | None:
        """(N,) the rows that may be found, None for all."""
        return None if ask.where is None else self._where(ask.where)

    def rows_of(self, found: Sequence[Hits]) -> list[list[dict[str, Any]]]:
        """The hits of some queries with their rank and their rows' columns.

        Rows are fetched together, ascending: 1,000 queries took 100 s where each fetched its own, unpacking the same row
        groups again and again.
        """
        wanted = np.unique(np.concatenate([hits.rows for hits in found])).tolist() if found else []
        columns_of = dict(zip(wanted, self.rows.fetch(wanted), strict=True))
        return [
            [
                {"rank": rank, "score": score, "id": row} | columns_of[row]
                for rank, (row, score) in enumerate(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True), start=1)
            ]
            for hits in found
        ]

    def embedded_text(self, row: dict[str, Any]) -> str:
        """What the encoder read of a row."""
        settings = json.loads(self.artifact.read(ENCODER + ENCODER_FILE)).get("settings", {})
        titled = (
            settings.get("with_title", False) and settings.get("unit", "sentence") != "sentence" and row.get("title")
        )
        return f"{row['title']}\n{row['text']}" if titled else str(row["text"])

    def vectors_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The unit vectors of some rows, ascending."""
        from wordpipe.words.shared import vectors_of

        return vectors_of(read_batches(self.artifact, "index", ["vector"]), rows)

    @cached_property
    def _columns(self) -> pa.Schema:
        return pa.schema([field for field in read_schema(self.artifact, "index") if field.name != "vector"])

    def _fact(self, *names: str) -> Any:
        found: Any = self.artifact.manifest.facts
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def _retriever(self, ask: Ask, encoded: list[EncodedBatch]) -> Retriever:
        """The way of asking; the encoded queries are put into `encoded`, where vectors are asked for."""
        mode = ask.mode
        if mode == "auto":
            best = "hybrid" if ask.weight is not None else self._fact("lexical", "mode")
            mode = "hybrid" if best == "hybrid" and has_lexical(self.artifact) else "dense"
        measured = self._fact("lexical", "weight")
        weight = ask.weight if ask.weight is not None else 0.5 if measured is None else float(measured)
        allowed = self.allowed(ask)

        def dense(texts: Sequence[str], k: int) -> list[Hits]:
            batch = self.encoder.encode(texts)
            if not encoded:
                encoded.append(batch)
            return self._nearest(batch, k, allowed)

        def lexical(texts: Sequence[str], k: int) -> list[Hits]:
            return self.lexical.search(texts, k, allowed)

        return Retriever(mode, weight, dense, lexical)

    def _nearest(self, batch: EncodedBatch, k: int, allowed: Mask | None) -> list[Hits]:
        from wordpipe.search.query import search

        there = np.flatnonzero(~batch.empty)
        found = [Hits.none()] * len(batch.empty)
        answers = search(self.index, batch.vectors[there], k, allowed, vectors=self.vectors_of)
        for number, hits in zip(there.tolist(), answers, strict=True):
            found[number] = hits
        return found

    def _rows_where(self, condition: str) -> Mask:
        from wordpipe.search.conditions import rows_where

        def batches(names: Sequence[str]) -> Any:
            return read_batches(self.artifact, "index", list(names) or ["id"])

        return rows_where(condition, self._columns, batches, row_count(self.artifact, "index"))

    def _unknown(self, batch: EncodedBatch) -> list[dict[str, list[str]]]:
        """Every text's unknown words, the first few with words spelled like them."""
        suggest: Callable[[str], list[str]] = getattr(self.encoder, "suggest", lambda _: [])
        words = dict.fromkeys(word for some in batch.unknown for word in some)
        near = {word: suggest(word) for word in islice(words, _SUGGESTED)}
        return [{word: near.get(word, []) for word in some} for some in batch.unknown]
