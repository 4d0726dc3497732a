"""`wordpipe query`: what is asked of an index or a table of words, and what comes back."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from wordpipe.artifacts import Artifact
from wordpipe.errors import ConfigError, InputError
from wordpipe.search import Way

Mode = Literal["auto", "dense", "lexical", "hybrid"]


@dataclass(frozen=True)
class Ask:
    """How an index is asked."""

    # by vectors, by words (BM25), or by both; auto: what was measured to find best when the index was built
    mode: Mode = "auto"
    weight: float | None = None  # share of the vectors in a hybrid score, 0 to 1; None for the one that was measured
    # first hybrid answers that a query's vector is moved towards before it asks once more; 0: it asks once. None for
    # the number that was found best.
    feedback: int | None = None
    where: str | None = None  # a condition on the index's columns, an SQL expression
    per_document: bool = False  # of every document its best row alone
    min_score: float | None = None  # leave out answers below it: a cosine, a BM25 score or a share, as the mode has it
    explain: bool = False  # say of every answer which words carried its score

    def __post_init__(self) -> None:
        if self.weight is not None and not 0 <= self.weight <= 1:
            expected = "0 (words alone) to 1 (vectors alone)"
            raise ConfigError("not a share", where="weight", got=self.weight, expected=expected)
        alone = f"mode {self.mode}" if self.mode not in ("auto", "hybrid") else None
        if alone and self.weight is not None:
            raise ConfigError("a weight mixes both ways of asking", where="weight", got=alone, expected="hybrid")
        if self.feedback is not None and self.feedback < 0:
            raise ConfigError("no such number of answers", where="feedback", got=self.feedback, expected="0 or more")
        if alone and self.feedback:
            raise ConfigError("only a hybrid search is asked again", where="feedback", got=alone, expected="hybrid")

    @property
    def is_mixed(self) -> bool:
        """Whether a setting says how words and vectors are mixed, so that auto is hybrid."""
        return self.weight is not None or bool(self.feedback)


@dataclass(frozen=True)
class Answers:
    """The answer to one query."""

    query: str  # the query
    hits: list[dict[str, Any]]  # the best first: rank, score and the row's columns (id, text or word, source, line, …)
    # words that have no vector, with words spelled like them where the encoder is a table of words
    unknown: dict[str, list[str]] = field(default_factory=dict)
    # words that are not in the table, whose vectors were guessed from their letters (character n-grams)
    guessed: list[str] = field(default_factory=list)
    # those of the unknown that stand in the texts: the query was asked by words too, or alone
    by_words: list[str] = field(default_factory=list)
    way: Way | None = None  # how an index was asked; None of words


class Opened:
    """What all that can be asked shares: an open artifact, and a query of one text."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the artifact."""
        self.artifact.close()

    def query(self, text: str, k: int = 10, **asked: Any) -> list[dict[str, Any]]:
        """The k best hits for one query: dicts with rank, score, and the columns of the row.

        Args:
            text: the query.
            k: hits wanted.
            asked: fields of `Ask`.

        Raises:
            WordpipeError: see `answer`.
        """
        return self.answer([text], k, replace(Ask(), **asked))[0].hits

    def answer(self, texts: Sequence[str], k: int = 10, ask: Ask = Ask()) -> list[Answers]:
        """Answer several queries."""
        raise NotImplementedError

    def nothing_found(self, ask: Ask) -> InputError:
        """The error that says that no query found anything, and what to do."""
        del ask
        return InputError("nothing was found", hint="ask with other words; wordpipe show lists what the artifact holds")

    def check(self, ask: Ask) -> None:
        """Refuse what cannot be asked, before any query comes. Raises ConfigError, ArtifactError: names it."""
        raise NotImplementedError


def open_artifact(path: str | os.PathLike[str], *, verify: bool = True) -> Opened:
    """Open an index or words artifact to ask it. Use it as a context, or close it.

    Args:
        path: the artifact's folder.
        verify: check its hashes first.

    Raises:
        ArtifactError: missing, corrupt, or of another kind.
    """
    artifact = Artifact(path, ["index", "words"], verify=verify)
    if artifact.kind == "index" and artifact.manifest.facts["of"] != "words":
        from wordpipe.stages.search.open_index import OpenIndex

        return OpenIndex(artifact)
    from wordpipe.stages.search.query_words import OpenWordIndex, OpenWords

    return OpenWords(artifact) if artifact.kind == "words" else OpenWordIndex(artifact)


def printable(text: str) -> str:
    """Undecodable bytes of a command line become replacement characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def without_no_count(hit: dict[str, Any]) -> dict[str, Any]:
    """The hit; without its count where that is 0, which means that nobody counted: the words were imported."""
    return {name: value for name, value in hit.items() if name != "count" or value}
