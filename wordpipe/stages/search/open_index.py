"""An index over texts: asked by vectors, by words, or by both."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.artifacts import ENCODER, INDEX_FILE, Artifact, RowReader, read_batches, read_schema, row_count
from wordpipe.errors import ArtifactError, InputError
from wordpipe.search import FEEDBACK, Found, Hits, LexicalIndex, Moved, Retriever, Way, towards_answers
from wordpipe.sentences import ENCODER_FILE, EncodedBatch, TextEncoder
from wordpipe.stages.search.explain import Explainer
from wordpipe.stages.search.index_lexical import has_lexical, open_lexical
from wordpipe.stages.search.query import Answers, Ask, Opened, printable
from wordpipe.stages.search.row_vectors import RowVectors

_BUILD_AGAIN = "build it again with: wordpipe index"
_SUGGESTED = 5  # unknown words of a batch: to compare one with 100,000 others takes 0.1 s

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Route:
    """How one query is asked."""

    way: Way  # by vectors, by words, or by both
    # its words that have no vector but stand in the texts: what made it another way than it would have been
    by_words: tuple[str, ...] = ()


def routes_of(way: Way, queries: EncodedBatch, stands: Callable[[str], bool]) -> list[Route]:
    """A route for every query.

    A query whose unknown words stand in the texts is asked by both; by words alone where it has no vector at all, as a mix
    would then only scale down what the words found.

    Args:
        way: of the queries whose words all have vectors, or stand nowhere.
        queries: Q of them.
        stands: whether a word stands in any of the texts.
    """
    routes = []
    for unknown, empty in zip(queries.unknown, queries.empty.tolist(), strict=True):
        by_words = tuple(word for word in dict.fromkeys(unknown) if stands(word))
        routes.append(Route("lexical" if empty else "hybrid", by_words) if by_words else Route(way))
    return routes


class OpenIndex(Opened):
    """An index artifact: free text, encoded as its rows were."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        self._where = lru_cache(maxsize=8)(self._rows_where)

    @cached_property
    def index(self) -> Any:
        """The faiss index."""
        from wordpipe.search import read_index

        with self.artifact.open(INDEX_FILE) as file:
            size = next(o.bytes for o in self.artifact.manifest.outputs if o.path == INDEX_FILE)
            return read_index(file, size=size, where=str(self.artifact.path / INDEX_FILE))

    @cached_property
    def encoder(self) -> TextEncoder:
        """The query encoder that the index carries. Raises ArtifactError: it is not the one that its vectors are of."""
        from wordpipe.stages.loaders import bundled_encoder

        about = json.loads(self.artifact.read(ENCODER + ENCODER_FILE))
        made, carried = self._fact("encoder", "digest"), about.get("identity", {}).get("digest")
        if made is not None and carried is not None and made != carried:
            what, hint = "the index carries another encoder than its vectors were made with", _BUILD_AGAIN
            raise ArtifactError(what, where=self.artifact.path, got=carried[:16], expected=made[:16], hint=hint)
        return bundled_encoder(self.artifact)

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The lexical index that the index carries. Raises ArtifactError: it carries none."""
        if not has_lexical(self.artifact):
            what, hint = "the index cannot be asked by words: it was built before it could", "or ask with --mode dense"
            raise ArtifactError(what, where=self.artifact.path, hint=f"{_BUILD_AGAIN}, {hint}")
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
        return encoded.indices.to_numpy()  # type: ignore[no-any-return]

    def answer(self, texts: Sequence[str], k: int = 10, ask: Ask = Ask()) -> list[Answers]:  # noqa: B008
        """Answer several queries; one without a vector has no hits by vectors, one without a known word none by words.

        Raises:
            ConfigError: the condition cannot be read.
            ArtifactError: the index has no words to be asked by, or does not belong to its encoder.
        """
        texts = [printable(text) for text in texts]
        way, allowed = self._way(ask), self.allowed(ask)
        batch = None if way == "lexical" else self.encoder.encode(texts)
        routes = [Route(way)] * len(texts) if batch is None else self._routes(way, batch, ask)
        asked = {route.way: EncodedTexts(self, route.way, ask, texts, batch, allowed) for route in routes}
        found = [Found(Hits.none())] * len(texts)
        for way, one in asked.items():  # those that go one way are asked together
            numbers = [number for number, route in enumerate(routes) if route.way == way]
            some = [texts[number] for number in numbers]
            answers = one.find_documents(some, k, self.documents) if ask.per_document else one.find(some, k)
            for number, answer in zip(numbers, answers, strict=True):
                found[number] = answer
        hits = self.rows_of([one.hits.at_least(ask.min_score) for one in found])
        if ask.explain:
            explainers = {way: Explainer(self, one, one) for way, one in asked.items()}
            for text, route, answer, told in zip(texts, routes, found, hits, strict=True):
                # the hits are the first of the rows
                for row, hit in zip(answer.hits.rows.tolist(), told, strict=False):
                    hit["explain"] = explainers[route.way](text, row, self.embedded_text(hit), answer)
        unknown = self._unknown(batch, routes) if batch else [{} for _ in texts]
        return [
            Answers(text, told, words, by_words=[*route.by_words], way=route.way)
            for text, told, words, route in zip(texts, hits, unknown, routes, strict=True)
        ]

    def check(self, ask: Ask) -> None:
        """Refuse a condition that cannot be read, and a mode that the index does not have, before any query comes."""
        self.allowed(ask)
        if ask.mode in ("lexical", "hybrid") or ask.is_mixed:
            self.lexical  # noqa: B018  opened now, so that one that is not there is said once

    def nothing_found(self, ask: Ask) -> InputError:
        """The error that says that no query found anything, and why where that is known."""
        if (allowed := self.allowed(ask)) is not None and not allowed.any():
            hint = f"see the columns and their values with: wordpipe show {self.artifact.path} --rows 3"
            what = f"nothing was found: the condition is true of 0 of {len(allowed):,} rows"
            return InputError(what, got=ask.where, hint=hint)
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
        titled = settings.get("with_title", False) and settings.get("unit", "sentence") != "sentence"
        return f"{row['title']}\n{row['text']}" if titled and row.get("title") else str(row["text"])

    @cached_property
    def vectors_of(self) -> RowVectors:
        """Gives the unit vectors of some rows, ascending."""
        return RowVectors(self.artifact, "index")

    def answer_vectors(self, rows_R: npt.NDArray[np.int64]) -> Floats:
        """The same, of a few rows that nobody asks for again: some indexes have them, and of others none are kept."""
        from wordpipe.search import row_vectors

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

    def weight(self, ask: Ask) -> float:
        """The share of the vectors in a hybrid score."""
        measured = self._fact("lexical", "weight")
        return ask.weight if ask.weight is not None else 0.5 if measured is None else float(measured)

    def _rows_where(self, condition: str) -> Mask:
        from wordpipe.search import rows_where

        rows = row_count(self.artifact, "index")
        return rows_where(
            condition, self._columns, lambda names: read_batches(self.artifact, "index", [*names] or ["id"]), rows
        )

    def _unknown(self, batch: EncodedBatch, routes: Sequence[Route]) -> list[dict[str, list[str]]]:
        """Every text's unknown words, the first few that stand nowhere with words spelled like them."""
        suggest: Callable[[str], list[str]] = getattr(self.encoder, "suggest", lambda _: [])
        standing = {word for route in routes for word in route.by_words}
        words = dict.fromkeys(word for some in batch.unknown for word in some if word not in standing)
        near = {word: suggest(word) for word in islice(words, _SUGGESTED)}
        return [{word: near.get(word, []) for word in some} for some in batch.unknown]


class EncodedTexts(Retriever):
    """Q texts that are asked of an index in one way.

    Args:
        index: what is asked.
        way: by vectors, by words, or by both.
        ask: how; of it the weight and the feedback.
        texts: equal ones have equal vectors.
        batch: their vectors; None where they are asked by words alone.
        allowed: (N,) the rows that may be found; None: all.
    """

    def __init__(
        self,
        index: OpenIndex,
        way: Way,
        ask: Ask,
        texts: Sequence[str],
        batch: EncodedBatch | None,
        allowed: Mask | None,
    ) -> None:
        super().__init__(way, index.weight(ask), FEEDBACK if ask.feedback is None else ask.feedback)
        self._index, self._batch, self._allowed = index, batch, allowed
        self._number_of = {text: number for number, text in enumerate(texts)}

    def dense(self, texts: Sequence[str], k: int) -> list[Hits]:
        """The k nearest rows of each; none for a text without a vector."""
        return self._nearest(self._vectors(texts), k)

    def lexical(self, texts: Sequence[str], k: int) -> list[Hits]:
        """The k best rows of each by its words."""
        return self._index.lexical.search(texts, k, self._allowed)

    def again(self, texts: Sequence[str], first: Sequence[Hits], k: int) -> list[Hits]:
        """The k nearest rows of each, moved towards its first answers."""
        return self._nearest(self.moved(texts, first).vectors, k)

    def moved(self, texts: Sequence[str], first: Sequence[Hits]) -> Moved:
        """The vectors of texts after a look at their first answers."""
        return towards_answers(self._vectors(texts), first, self._index.answer_vectors, self.take)

    def _vectors(self, texts: Sequence[str]) -> Floats:
        """Of texts that were encoded; zero where one has none."""
        assert self._batch is not None
        numbers = [self._number_of[text] for text in texts]
        return np.where(self._batch.empty[numbers, None], 0, self._batch.vectors[numbers])

    def _nearest(self, vectors_QD: Floats, k: int) -> list[Hits]:
        from wordpipe.search import search

        there = np.flatnonzero(vectors_QD.any(axis=1))
        found = [Hits.none()] * len(vectors_QD)
        answers = search(self._index.index, vectors_QD[there], k, self._allowed, vectors=self._index.vectors_of)
        for number, hits in zip(there.tolist(), answers, strict=True):
            found[number] = hits
        return found
