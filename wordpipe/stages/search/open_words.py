"""Words asked: a words artifact, and an index over one; an expression is looked up, and the words in it are not found."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wordpipe.errors import ConfigError
from wordpipe.search.settings import QueryOptions
from wordpipe.stages.calls import printable
from wordpipe.stages.search.open_index import OpenIndex, QueryResult
from wordpipe.stages.search.opened import WordLookup

if TYPE_CHECKING:
    from wordpipe.words import WordQuery, WordVectors


class OpenWords(WordLookup):
    """A words artifact."""

    def _answers(self, texts: Sequence[str], k: int, options: QueryOptions) -> list[QueryResult]:
        """The k best hits for each expression. Raises ConfigError: one cannot be read."""
        questions = [self.table.understand(printable(text)) for text in texts]
        hits = []
        for near in self.table.nearest(questions, k):
            kept = [one for one in near if options.min_score is None or np.float32(one.score) >= options.min_score]
            hits.append([
                {"rank": rank, "score": one.score, "row": one.row, "word": one.word, "count": int(self.table.counts[one.row])}
                for rank, one in enumerate(kept, start=1)
            ])  # fmt: skip
        return _results(texts, questions, hits)

    def check(self, options: QueryOptions) -> None:
        """Refuse what words do not have, before any query comes."""
        _refuse(options, "min_score")


class OpenWordIndex(OpenIndex):
    """An index over words: an expression is looked up, and the words in it are not found."""

    @cached_property
    def table(self) -> "WordVectors":
        """The words and their vectors, in index order."""
        from wordpipe.stages.encoders import read_word_vectors

        return read_word_vectors(self.artifact)

    def _answers(self, texts: Sequence[str], k: int, options: QueryOptions) -> list[QueryResult]:
        """The k best hits for each expression. Raises ConfigError: one cannot be read."""
        questions = [self.table.understand(printable(text)) for text in texts]
        queries_QD = np.array([question.query for question in questions]).reshape(len(questions), self.table.dim)
        deepest = k + max((len(question.rows) for question in questions if question.query.any()), default=0)
        found = self.vector_index(self.allowed(options)).search(queries_QD, deepest)
        others = [
            hits.where(~np.isin(hits.rows, question.rows)).first(k).at_least(options.min_score)
            for hits, question in zip(found, questions, strict=True)
        ]
        return _results(texts, questions, self.rows_of(others))

    def check(self, options: QueryOptions) -> None:
        """Refuse what words do not have, and a condition that cannot be read, before any query comes."""
        _refuse(options, "min_score", "where")
        self.allowed(options)


def _results(
    texts: Sequence[str], questions: "Sequence[WordQuery]", found: Sequence[Sequence[dict[str, Any]]]
) -> list[QueryResult]:
    """A hit has no count where that is 0, which means that nobody counted: the words were imported."""
    kept = [[{name: one for name, one in hit.items() if name != "count" or one} for hit in hits] for hits in found]
    return [
        QueryResult(printable(text), hits, dict(question.unknown), [*question.guessed])
        for text, question, hits in zip(texts, questions, kept, strict=True)
    ]


def _refuse(options: QueryOptions, *known: str) -> None:
    """Refuse what makes no sense of words.

    Raises:
        ConfigError: names it.
    """
    for name, field in QueryOptions.model_fields.items():
        # words are found by vectors, so mode = dense says what is done anyway
        if (given := getattr(options, name)) not in (field.default, "dense") and name not in known:
            hint = "index the words first: wordpipe index WORDS" if name == "where" else "ask an index over texts"
            raise ConfigError(
                "this option works with an index over texts, not with words", where=name, got=given, hint=hint
            )
