"""Which way a query is asked: by words too, where the encoder does not know its words and the texts do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from wordpipe.sentences.encoder import EncodedBatch

__all__ = ["Route", "Way", "routes_of"]

Way = Literal["dense", "lexical", "hybrid"]


@dataclass(frozen=True, slots=True)
class Route:
    """How one query is asked.

    Attributes:
        way: by vectors, by words, or by both.
        by_words: its words that have no vector but stand in the texts: what made it another way than it would have been.
    """

    way: Way
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
        by_words = _standing(unknown, stands)
        routes.append(Route("lexical" if empty else "hybrid", by_words) if by_words else Route(way))
    return routes


def _standing(words: Sequence[str], stands: Callable[[str], bool]) -> tuple[str, ...]:
    return tuple(word for word in dict.fromkeys(words) if stands(word))
