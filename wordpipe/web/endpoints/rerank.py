"""Documents in the order of their likeness to a query: `/v1/rerank` (Jina), `/v2/rerank` (Cohere), `/rerank` (TEI).

The score of a document is the cosine of its vector and that of the query, by the encoder that is served. Where none is served,
it is its BM25 score by the words of the index: how rare a word is, and how long a text usually is, are those of the texts of
the index.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from wordpipe.encoders import check_finite
from wordpipe.errors import ConfigError
from wordpipe.web.endpoint import Answer, At, Endpoint, Serving, artifact_param, endpoint, param, words_param
from wordpipe.web.endpoints.embeddings import TEI_ERROR, checked_texts, tei_error
from wordpipe.web.params import NUMBER, TEXT, WHOLE, fields, listing, said_schema
from wordpipe.web.replies import Refused, json_reply
from wordpipe.web.settings import ServeSettings

T = TypeVar("T")

_RERANKED = Answer("Reranked", fields({
    "id": TEXT, "model": TEXT, "usage": fields({"total_tokens": WHOLE}),
    "results": listing(fields({"index": WHOLE, "relevance_score": NUMBER}, {"document": fields({"text": TEXT})})),
    "meta": fields({"scored_by": {"enum": ["vectors", "words"]}}),
}))  # fmt: skip
_TEI = Answer("Ranks", listing(fields({"index": WHOLE, "score": NUMBER}, {"text": TEXT})))


def _documents_param(name: str) -> Any:
    """Declare the documents to rank: a list of texts, or of objects with a text. Raises ConfigError, Refused."""

    def check(given: Any, settings: ServeSettings) -> list[str]:
        items = given if isinstance(given, list) else [None]
        texts = [one.get("text") if isinstance(one, dict) else one for one in items]
        if not all(isinstance(text, str) for text in texts):
            raise ConfigError("the value is not a list of texts", where=name, expected='["…", "…"]')
        return checked_texts([str(text) for text in texts], name, settings)

    def schema(settings: ServeSettings) -> dict[str, Any]:
        text = said_schema(settings)
        several = {"anyOf": [text, fields({"text": text})]}
        return {"type": "array", "items": several, "minItems": 1, "maxItems": settings.max_texts}

    example = ["Salt draws water out of bread.", "Bees find their way home."]
    return param(text="the texts to rank", example=example, each=True, check=check, schema=schema)


def _query_param() -> Any:
    """Declare the query of a request that ranks documents."""
    return words_param("the query", "salt and water", "the query")


@dataclass(frozen=True)
class _Ranked:
    """The scores of one request's documents: number and score, the best first."""

    order: Sequence[tuple[int, float]]
    scored_by: str
    n_tokens: int  # that were read


class _Ranking(Endpoint):
    """The base of endpoints that rank documents."""

    query: str
    model: str | None

    @property
    def texts_to_rank(self) -> list[str]:
        """The documents of the request."""
        raise NotImplementedError

    @property
    def weight(self) -> int:
        """The number of texts to encode in the request."""
        return len(self.texts_to_rank) + 1

    async def answered(self, server: Serving, shape: Callable[[At, Any], T]) -> T:
        """Return the answer of the named artifact, else of the first encoder, else of the first index over texts."""
        encoders = [one.name for one in server.artifacts.by_name.values() if "embed" in one.current.abilities]
        asked = self if self.model or not encoders else replace(self, model=encoders[0])  # type: ignore[type-var]
        return await Endpoint.answered(asked, server, shape)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[_Ranked | Refused]:
        """Return the order of the documents of each request."""
        score = _by_vectors if "embed" in at.generation.abilities else _by_words
        return [score(at.opened, _printed(one.query), [*map(_printed, one.texts_to_rank)]) for one in items]


def _printed(text: str) -> str:
    return text.encode("utf-8", "replace").decode()  # half letters have no UTF-8


def _by_vectors(opened: Any, query: str, texts: Sequence[str]) -> _Ranked | Refused:
    """Return documents by the cosines of their vectors with that of the query; without a vector the cosine is 0."""
    encoder = opened.encoder
    asked_1D, vectors_ND = encoder.for_queries.encode([query]).vectors, encoder.encode(texts).vectors
    if not asked_1D.any():
        what = "the query has no vector, because the encoder knows no word of the query"
        return Refused(422, what, hint="use other words")
    check_finite(vectors_ND, texts, "encoder", "train the encoder again")
    n_tokens = int(encoder.lengths([query, *texts]).sum())
    return _Ranked(_ordered(vectors_ND @ asked_1D[0]), "vectors", n_tokens)


def _by_words(opened: Any, query: str, texts: Sequence[str]) -> _Ranked:
    """Return documents by their BM25 scores in the words of an index; without a word of the query the score is 0."""
    lexical = opened.lexical
    terms, counts = lexical.read(query), [lexical.read_text(text) for text in texts]
    scores = [float(lexical.score_texts(terms, one)[0]) for one in counts]
    return _Ranked(_ordered(np.array(scores)), "words", sum(int(one.lengths[0]) for one in counts))


def _ordered(scores_N: Any) -> list[tuple[int, float]]:
    """Return the numbers and scores of documents, the best first; of equal scores in the order of the request."""
    return [(number, float(scores_N[number])) for number in np.argsort(-scores_N, kind="stable").tolist()]


@endpoint(
    "/v1/rerank", group="Vectors and ranking", place=2, can="rerank", answer=_RERANKED, methods=["POST"], others=True
)
class Rerank(_Ranking):
    """Documents in the order of their likeness to a query, in the form of Jina and Cohere."""

    query: str = _query_param()
    documents: list[str] = _documents_param("documents")
    model: str | None = artifact_param("an encoder of texts, or an index of texts")
    top_n: int | None = param(None, "maximum number of results; default: all documents", ge=1)
    return_documents: bool = param(True, "whether each result has the text of its document")

    @property
    def texts_to_rank(self) -> list[str]:
        """The documents of the request."""
        return self.documents

    def reply(self, at: At, found: _Ranked) -> dict[str, Any]:
        """Return the order of the documents in the form of Jina and Cohere."""
        results: list[dict[str, Any]] = [
            {"index": n, "relevance_score": score} for n, score in found.order[: self.top_n]
        ]
        for one in results if self.return_documents else ():
            one["document"] = {"text": self.documents[int(one["index"])]}
        usage, meta = {"total_tokens": found.n_tokens}, {"scored_by": found.scored_by}
        return {"id": secrets.token_hex(8), "model": at.served.name, "results": results, "usage": usage, "meta": meta}


@endpoint("/v2/rerank", group="Vectors and ranking", can="rerank", answer=_RERANKED, methods=["POST"], others=True)
class RerankV2(Rerank):
    """Documents in the order of their likeness to a query, at the path of Cohere."""


@endpoint(
    "/rerank", group="Vectors and ranking", can="rerank", answer=_TEI, methods=["POST"], others=True, refuse=tei_error,
    error=TEI_ERROR,
)  # fmt: skip
class RerankTexts(_Ranking):
    """Texts in the order of their likeness to a query, in the form of text-embeddings-inference."""

    query: str = _query_param()
    texts: list[str] = _documents_param("texts")
    model: str | None = artifact_param("an encoder of texts, or an index of texts", at="url")
    return_text: bool = param(False, "whether each result has its text")
    raw_scores: bool = param(False, "has no effect, because scores are cosines or BM25 scores")

    @property
    def texts_to_rank(self) -> list[str]:
        """The texts of the request."""
        return self.texts

    async def respond(self, server: Serving, request: Any) -> Any:
        """Return the reply, a list."""
        del request
        return json_reply(await self.answered(server, self.ranks))

    def ranks(self, at: At, found: _Ranked) -> list[dict[str, Any]]:
        """Return the order of the texts in the form of text-embeddings-inference."""
        del at
        more = [{"text": self.texts[number]} if self.return_text else {} for number, _ in found.order]
        return [{"index": n, "score": score, **own} for (n, score), own in zip(found.order, more, strict=True)]
