"""Asking a table of words, or an index over one: `king`, `king - man + woman`."""

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.metrics.vectors import has_direction, unit_rows
from wordpipe.search.hits import Hits, best_of
from wordpipe.stages.open_index import OpenIndex
from wordpipe.stages.query import Answers, Ask, Opened, printable, without_no_count
from wordpipe.stages.word_vectors import read_word_vectors
from wordpipe.words.table import Question, WordVectors

__all__ = ["OpenWordIndex", "OpenWords"]

_AT_ONCE = 64  # expressions compared with all words in one product


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
        found: list[Hits] = []
        for first in range(0, len(questions), _AT_ONCE):
            found += self._nearest(questions[first : first + _AT_ONCE], k)
        return [
            Answers(printable(text), self._hits(hits, ask), dict(question.unknown), [*question.guessed])
            for text, question, hits in zip(texts, questions, found, strict=True)
        ]

    def check(self, ask: Ask) -> None:
        """Refuse what words do not have, before any query comes."""
        _refuse(ask, "min_score")

    @cached_property
    def _units(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """(V,) one over each vector's length, and which have a direction."""
        norms_V = np.linalg.norm(self.table.vectors, axis=1)
        valid_V = has_direction(self.table.vectors)
        return np.divide(1, norms_V, out=np.zeros_like(norms_V), where=valid_V), valid_V

    def _nearest(self, questions: Sequence[Question], k: int) -> list[Hits]:
        """The words nearest to each, those asked for left out.

        One product for many: two threads of OpenBLAS wait 7 ms for each other in every product, however small.
        """
        queries_QD, there_Q = unit_rows(np.stack([question.query for question in questions]))
        scale_V, valid_V = self._units
        scores_QV = (queries_QD @ self.table.vectors.T) * scale_V
        scores_QV[:, ~valid_V] = -np.inf
        found = []
        for question, there, scores_V in zip(questions, there_Q, scores_QV, strict=True):
            scores_V[question.rows] = -np.inf
            rows = np.flatnonzero(np.isfinite(scores_V)) if there else np.zeros(0, dtype=np.int64)
            found.append(best_of(rows, scores_V[rows].clip(-1, 1), k))
        return found

    def _hits(self, hits: Hits, ask: Ask) -> list[dict[str, Any]]:
        kept = hits.at_least(ask.min_score)
        return [
            without_no_count(
                {
                    "rank": rank,
                    "score": score,
                    "id": row,
                    "word": self.table.words[row],
                    "count": int(self.table.counts[row]),
                }
            )
            for rank, (row, score) in enumerate(zip(kept.rows.tolist(), kept.scores.tolist(), strict=True), start=1)
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
        from wordpipe.search.query import search

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
        told = self.rows_of([hits.at_least(ask.min_score) for hits in found])
        return [
            Answers(
                printable(text),
                [without_no_count(hit) for hit in hits],
                dict(question.unknown),
                [*question.guessed],
            )
            for text, question, hits in zip(texts, questions, told, strict=True)
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
