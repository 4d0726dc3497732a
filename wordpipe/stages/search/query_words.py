"""Asking a table of words, or an index over one: `king`, `king - man + woman`."""

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np

from wordpipe.errors import ConfigError
from wordpipe.search import Hits
from wordpipe.stages.loaders import read_word_vectors
from wordpipe.stages.search.open_index import OpenIndex
from wordpipe.stages.search.query import Answers, Ask, Opened, printable, without_no_count
from wordpipe.words import Neighbour, Question, WordVectors


class OpenWords(Opened):
    """A words artifact: `king`, `king - man + woman`."""

    @cached_property
    def table(self) -> WordVectors:
        """The word vectors."""
        return read_word_vectors(self.artifact)

    def answer(self, texts: Sequence[str], k: int = 10, ask: Ask = Ask()) -> list[Answers]:  # noqa: B008
        """Answer several queries.

        Raises:
            ConfigError: an expression cannot be read, or `ask` wants what words do not have.
        """
        self.check(ask)
        questions = [self.table.understand(printable(text)) for text in texts]
        return _answers(texts, questions, [self._hits(near, ask) for near in self.table.nearest(questions, k)])

    def check(self, ask: Ask) -> None:
        """Refuse what words do not have, before any query comes."""
        _refuse(ask, "min_score")

    def _hits(self, near: Sequence[Neighbour], ask: Ask) -> list[dict[str, Any]]:
        kept = [one for one in near if ask.min_score is None or np.float32(one.score) >= ask.min_score]
        counts = self.table.counts
        return [
            {"rank": rank, "score": one.score, "id": one.row, "word": one.word, "count": int(counts[one.row])}
            for rank, one in enumerate(kept, start=1)
        ]


class OpenWordIndex(OpenIndex):
    """An index over words: an expression of words, looked up and searched without the words asked for."""

    def check(self, ask: Ask) -> None:
        """Refuse what words do not have, and a condition that cannot be read, before any query comes."""
        _refuse(ask, "min_score", "where")
        self.allowed(ask)

    @cached_property
    def table(self) -> WordVectors:
        """The words and their vectors, in index order."""
        return read_word_vectors(self.artifact)

    def answer(self, texts: Sequence[str], k: int = 10, ask: Ask = Ask()) -> list[Answers]:  # noqa: B008
        """Answer several queries.

        Raises:
            ConfigError: an expression or the condition cannot be read, or `ask` wants what words do not have.
        """
        from wordpipe.search import search

        self.check(ask)
        questions = [self.table.understand(printable(text)) for text in texts]
        asked = [number for number, question in enumerate(questions) if question.query.any()]
        deepest = k + max((len(questions[number].rows) for number in asked), default=0)
        found = [Hits.none()] * len(questions)
        if asked:
            queries_QD = np.stack([questions[number].query for number in asked])
            near = search(self.index, queries_QD, deepest, self.allowed(ask), vectors=self.vectors_of)
            for number, hits in zip(asked, near, strict=True):
                found[number] = hits.where(~np.isin(hits.rows, questions[number].rows)).first(k)
        return _answers(texts, questions, self.rows_of([hits.at_least(ask.min_score) for hits in found]))


def _answers(
    texts: Sequence[str], questions: Sequence[Question], found: Sequence[Sequence[dict[str, Any]]]
) -> list[Answers]:
    return [
        Answers(printable(text), [without_no_count(hit) for hit in hits], dict(question.unknown), [*question.guessed])
        for text, question, hits in zip(texts, questions, found, strict=True)
    ]


def _refuse(ask: Ask, *known: str) -> None:
    """Refuse what makes no sense of words.

    Raises:
        ConfigError: names it.
    """
    for part in fields(Ask):
        if getattr(ask, part.name) != part.default and part.name not in known:
            hint = "index the words first: wordpipe index WORDS" if part.name == "where" else "ask an index over texts"
            raise ConfigError("words are not asked this way", where=part.name, got=getattr(ask, part.name), hint=hint)
