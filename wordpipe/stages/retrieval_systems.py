"""What is judged on a collection: floors that need no training, vectors of an encoder, and the mix of both.

Every system answers each query with up to `depth` rows of documents and their scores, best first.

Shapes: N documents, Q queries, D numbers of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.runtime import Progress, Report
from wordpipe.search.collection import Collection
from wordpipe.search.exact import nearest
from wordpipe.search.feedback import towards_answers
from wordpipe.search.hits import Hits, best_of
from wordpipe.search.lexical import Analyser, LexicalIndex, LexicalSettings
from wordpipe.search.lsi import LatentSpace
from wordpipe.search.measured_mix import UNMEASURED, Space, measured_mix
from wordpipe.search.pseudo_queries import draw_queries
from wordpipe.search.retrieval import Retriever
from wordpipe.search.tfidf import Tfidf
from wordpipe.sentences.encoder import learned_from_pairs
from wordpipe.sentences.transforms import Transform
from wordpipe.stages.judged_encoders import JudgedEncoder, Texts

__all__ = ["Answers", "EncodedCollection", "Floors", "encode_collection", "hybrid_answers", "weigh"]

Answers = list[Hits]
"""One for each query."""

_SCORES_AT_ONCE = 1 << 24  # of a block of queries against all documents: 64 MiB of float32


@dataclass(frozen=True)
class Floors:
    """The systems that need no training.

    Attributes:
        lexical: the index that BM25 searches.
        answers: bm25, tfidf and lsi, each with its answers.
    """

    lexical: LexicalIndex
    answers: dict[str, Answers]

    @classmethod
    def build(
        cls, collection: Collection, settings: LexicalSettings, lsi_dim: int, depth: int, report: Report
    ) -> "Floors":
        """Index the documents and answer all queries.

        BM25 is Lucene's, with its English stop words and Snowball stems; TF-IDF and LSI see the same terms.

        Raises:
            ConfigError: no such language.
        """
        report(Progress("indexing the words"))
        passages, questions = collection.passages, collection.questions
        lexical = LexicalIndex.build(passages, settings)
        answers = {"bm25": lexical.search(questions, depth)}
        tfidf = Tfidf.fit(passages, Analyser(lexical.settings.language))
        sparse_NV, asked_QV = tfidf.vectors(passages), tfidf.vectors(questions)
        products = (asked_QV @ sparse_NV.T).tocsr()
        answers["tfidf"] = [
            best_of(products.indices[start:end], products.data[start:end], depth)
            for start, end in zip(products.indptr, products.indptr[1:], strict=False)
        ]
        report(Progress("latent semantic indexing"))
        latent = LatentSpace.fit(sparse_NV, lsi_dim)
        answers["lsi"] = exact_answers(latent.vectors(asked_QV), latent.vectors(sparse_NV), depth)
        return cls(lexical, answers)


@dataclass(frozen=True)
class EncodedCollection:
    """A collection as an encoder sees it.

    Attributes:
        documents: their texts as vectors.
        questions: the queries as vectors.
        transform: what was fitted on the documents and applied to both.
        kind: in one word, what the encoder carries counted in.
    """

    documents: Texts
    questions: Texts
    transform: Transform
    kind: str

    def answers(self, depth: int) -> Answers:
        """The documents nearest to each query; none for a query without a vector."""
        return exact_answers(self.questions.vectors, self.documents.vectors, depth)

    def answers_after(self, first: Sequence[Hits], take: int, depth: int) -> Answers:
        """The documents nearest to each query once it has moved towards the best `take` of its first answers."""
        moved = towards_answers(self.questions.vectors, first, self.documents.vectors.__getitem__, take)
        return exact_answers(moved.vectors, self.documents.vectors, depth)


def encode_collection(judged: JudgedEncoder, collection: Collection) -> EncodedCollection:
    """Encode documents and queries; a transform that the settings call for is fitted on the documents alone."""
    documents = judged.encode(collection.passages)
    transform = judged.fitted(documents)
    questions = judged.encode(collection.questions)
    kind = judged.encoder.transform.kind if judged.carries else transform.kind
    return EncodedCollection(documents.transformed(transform), questions.transformed(transform), transform, kind)


def exact_answers(queries_QD: npt.NDArray[np.float32], documents_ND: npt.NDArray[np.float32], depth: int) -> Answers:
    """The `depth` documents with the largest product of each query; zero vectors find nothing, and nothing finds them."""
    there = np.flatnonzero(documents_ND.any(axis=1))
    at_once = max(1, _SCORES_AT_ONCE // max(len(queries_QD), 1))
    blocks = (documents_ND[there[first : first + at_once]] for first in range(0, len(there), at_once))
    return [Hits(there[hits.rows], hits.scores) for hits in nearest(queries_QD, blocks, depth)]


def hybrid_answers(
    encoded: EncodedCollection,
    lexical: LexicalIndex,
    questions: Sequence[str],
    weight: float,
    feedback: int,
    depth: int,
) -> Answers:
    """What `wordpipe query --mode hybrid` would answer, every document compared.

    Args:
        encoded: documents and questions as vectors.
        lexical: the index of the documents' words.
        questions: the queries.
        weight: share of the dense score.
        feedback: first answers that each query is moved towards; 0: it is asked once.
        depth: answers to each.
    """
    retriever = Retriever(
        "hybrid",
        weight,
        lambda _, k: encoded.answers(k),
        lexical.search,
        (lambda _, first, k: encoded.answers_after(first, feedback, k)) if feedback else None,
    )
    return [found.hits for found in retriever.find(questions, depth)]


def weigh(
    judged: JudgedEncoder, encoded: EncodedCollection, lexical: LexicalIndex, collection: Collection
) -> dict[str, Any]:
    """The share of the dense score in hybrid, found by queries made of the documents themselves.

    Args:
        judged: the encoder.
        encoded: the collection as it sees it.
        lexical: the index of its words.
        collection: the documents.

    Returns:
        weight, and measured: by what, queries and the nDCG@10 of dense, hybrid and lexical search for them; None where there
        were too few documents to measure on.
    """
    asked = draw_queries(collection.titles, collection.texts)
    if asked is None:
        return {"weight": UNMEASURED, "measured": None}
    documents_ND = encoded.documents.vectors
    space = Space(
        len(documents_ND),
        lambda texts: judged.encode(texts).transformed(encoded.transform).vectors,
        lambda queries_QD, k: exact_answers(queries_QD, documents_ND, k),
        documents_ND.__getitem__,
    )
    tuned = measured_mix(asked, space, lexical, trained=learned_from_pairs(judged.encoder))
    figures = {name: round(value, 4) for name, value in tuned.ndcg_at_10.items()}
    return {"weight": tuned.weight, "measured": {"by": asked.how, "queries": len(asked.texts), "ndcg_at_10": figures}}
