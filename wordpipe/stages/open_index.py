"""An index over texts: asked by vectors, by words, or by both."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.rows import RowReader
from wordpipe.artifacts.tables import read_batches, read_schema, row_count
from wordpipe.errors import ArtifactError, InputError
from wordpipe.search.hits import Hits
from wordpipe.search.lexical import LexicalIndex
from wordpipe.search.retrieval import Found, Retriever
from wordpipe.sentences.encoder import ENCODER_FILE, EncodedBatch, TextEncoder
from wordpipe.stages.answers import Answers, Ask, Opened, printable
from wordpipe.stages.asking import EncodedTexts
from wordpipe.stages.carried import ENCODER, INDEX_FILE
from wordpipe.stages.explaining import Explainer
from wordpipe.stages.lexical import has_lexical, open_lexical
from wordpipe.stages.routes import Route, Way, routes_of
from wordpipe.stages.row_vectors import RowVectors

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
        from wordpipe.search.vectors import read_index

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
        way = self._way(ask)
        batch = None if way == "lexical" else self.encoder.encode(texts)
        routes = [Route(way)] * len(texts) if batch is None else self._routes(way, batch, ask)
        encoded = EncodedTexts(self, texts, batch, self.allowed(ask), ask.feedback)
        asked = {route.way: encoded.retriever(route.way, self._weight(ask)) for route in routes}
        found = self._found(texts, routes, asked, k, ask)
        hits = self.rows_of([one.hits.at_least(ask.min_score) for one in found])
        if ask.explain:
            explainers = {way: Explainer(self, retriever, encoded) for way, retriever in asked.items()}
            for text, route, one, told in zip(texts, routes, found, hits, strict=True):
                for row, hit in zip(one.hits.rows.tolist(), told, strict=False):  # the hits are the first of the rows
                    hit["explain"] = explainers[route.way](text, row, self.embedded_text(hit), one)
        unknown = self._unknown(batch, routes) if batch else [{} for _ in texts]
        return [
            Answers(text, told, words, by_words=[*route.by_words], way=route.way)
            for text, told, words, route in zip(texts, hits, unknown, routes, strict=True)
        ]

    def check(self, ask: Ask) -> None:
        """Refuse a condition that cannot be read, and a mode that the index does not have, before any query comes.

        Raises:
            ConfigError, ArtifactError: names it.
        """
        self.allowed(ask)
        if ask.mode in ("lexical", "hybrid") or ask.is_mixed:
            self.lexical  # noqa: B018  opened now, so that one that is not there is said once

    def nothing_found(self, ask: Ask) -> InputError:
        """The error that says that no query found anything, and why where that is known."""
        if (allowed := self.allowed(ask)) is not None and not allowed.any():
            return InputError(
                f"nothing was found: the condition is true of 0 of {len(allowed):,} rows",
                got=ask.where,
                hint=f"see the columns and their values with: wordpipe show {self.artifact.path} --rows 3",
            )
        if self._way(ask) == "dense" and has_lexical(self.artifact):
            return InputError("nothing was found", hint="ask by words, with --mode lexical, or with other words")
        return super().nothing_found(ask)

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

    @cached_property
    def vectors_of(self) -> RowVectors:
        """Gives the unit vectors of some rows, ascending."""
        return RowVectors(self.artifact, "index")

    def answer_vectors(self, rows_R: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The same, of a few rows that nobody asks for again: some indexes have them, and of others none are kept."""
        from wordpipe.search.query import row_vectors

        return row_vectors(self.index, rows_R, self.vectors_of.read)

    @cached_property
    def _columns(self) -> pa.Schema:
        return pa.schema([field for field in read_schema(self.artifact, "index") if field.name != "vector"])

    def _fact(self, *names: str) -> Any:
        found: Any = self.artifact.manifest.facts
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def _way(self, ask: Ask) -> Way:
        """How queries are asked, if their words all have vectors."""
        if ask.mode != "auto":
            return ask.mode
        best = "hybrid" if ask.is_mixed else self._fact("lexical", "mode")
        return "hybrid" if best == "hybrid" and has_lexical(self.artifact) else "dense"

    def _routes(self, way: Way, batch: EncodedBatch, ask: Ask) -> list[Route]:
        """How each query is asked. A least score is on the scale of one way, and a weight of 1 leaves words out."""
        bound = ask.mode == "dense" or ask.min_score is not None or ask.weight == 1 or not has_lexical(self.artifact)
        return routes_of(way, batch, (lambda _: False) if bound else lambda word: self.lexical.knows(word))

    def _found(
        self, texts: Sequence[str], routes: Sequence[Route], asked: Mapping[Way, Retriever], k: int, ask: Ask
    ) -> list[Found]:
        """What each query found; those that go one way are asked together."""
        found = [Found(Hits.none())] * len(texts)
        for way, retriever in asked.items():
            numbers = [number for number, route in enumerate(routes) if route.way == way]
            some = [texts[number] for number in numbers]
            answers = retriever.find_documents(some, k, self.documents) if ask.per_document else retriever.find(some, k)
            for number, answer in zip(numbers, answers, strict=True):
                found[number] = answer
        return found

    def _weight(self, ask: Ask) -> float:
        """The share of the vectors in a hybrid score."""
        measured = self._fact("lexical", "weight")
        return ask.weight if ask.weight is not None else 0.5 if measured is None else float(measured)

    def _rows_where(self, condition: str) -> Mask:
        from wordpipe.search.conditions import rows_where

        def batches(names: Sequence[str]) -> Any:
            return read_batches(self.artifact, "index", list(names) or ["id"])

        return rows_where(condition, self._columns, batches, row_count(self.artifact, "index"))

    def _unknown(self, batch: EncodedBatch, routes: Sequence[Route]) -> list[dict[str, list[str]]]:
        """Every text's unknown words, the first few that stand nowhere with words spelled like them."""
        suggest: Callable[[str], list[str]] = getattr(self.encoder, "suggest", lambda _: [])
        standing = {word for route in routes for word in route.by_words}
        words = dict.fromkeys(word for some in batch.unknown for word in some if word not in standing)
        near = {word: suggest(word) for word in islice(words, _SUGGESTED)}
        return [{word: near.get(word, []) for word in some} for some in batch.unknown]
