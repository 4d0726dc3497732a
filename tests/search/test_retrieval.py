"""Ways of asking: how deep they dig, and that the depth changes nothing about what comes first."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from wordpipe.search import Hits, Retriever, best_of

ROWS = 900


def searcher(seed: int, asked: list[tuple[int, int]] | None = None) -> Callable[[Sequence[str], int], list[Hits]]:
    """Scores by chance, the same for every depth; `asked` collects how many texts were asked for how many rows."""

    def search(texts: Sequence[str], k: int) -> list[Hits]:
        if asked is not None:
            asked.append((len(texts), k))
        scores = [np.random.default_rng([seed, *text.encode()]).random(ROWS, dtype=np.float32) for text in texts]
        return [best_of(np.arange(ROWS), some, k) for some in scores]

    return search


class Made(Retriever):
    """Asks made searchers."""

    def __init__(self, mode, weight, dense, lexical, again=None):
        super().__init__(mode, weight, 3 if again else 0)
        self.dense, self.lexical, self.again = dense, lexical, again


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_asked_for_more_an_answer_begins_with_what_it_was(mode):
    retriever = Made(mode, 0.4, searcher(1), searcher(2))
    (longest,) = retriever.find(["a"], ROWS)
    for k in (1, 10, 200, 201, 350, 700):
        (found,) = retriever.find(["a"], k)
        assert found.hits.rows.tolist() == longest.hits.rows[:k].tolist()
        np.testing.assert_array_equal(found.hits.scores, longest.hits.scores[:k])


def test_a_hybrid_search_asks_again_after_a_look_at_its_first_answers():
    shown = []

    def again(texts, first, k):
        shown.append((list(texts), [hits.rows.tolist() for hits in first]))
        return searcher(3)(texts, k)

    once, twice = (Made("hybrid", 0.4, searcher(1), searcher(2), some) for some in (None, again))
    other = Made("hybrid", 0.4, searcher(3), searcher(2))
    for k in (5, 300):
        found, first, expected = (way.find(["a", "b"], k) for way in (twice, once, other))
        for one, before, wanted in zip(found, first, expected, strict=True):
            assert one.hits.rows.tolist() == wanted.hits.rows.tolist()
            assert one.first.rows[:5].tolist() == before.hits.rows[:5].tolist()
            assert before.first is None
    assert shown[0] == shown[1]  # however many answers are wanted, it is moved towards the same ones
    for weight in (0, 1):
        (one,) = Made("hybrid", weight, searcher(1), searcher(2), again).find(["a"], 5)
        assert one.first is None
    assert len(shown) == 2


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_documents_are_dug_for_until_there_are_enough(mode):
    """The best 500 rows of one query are all of one document."""
    asked: list[tuple[int, int]] = []
    retriever = Made(mode, 0.4, searcher(1, asked), searcher(2))
    (everything,) = retriever.find(["crowded"], ROWS)
    documents = np.arange(ROWS) + 1
    documents[everything.hits.rows[:500]] = 0
    asked.clear()
    crowded, other = retriever.find_documents(["crowded", "other"], 20, documents)
    rows = everything.hits.rows
    assert crowded.hits.rows.tolist() == [rows[0], *rows[500:519]]
    np.testing.assert_array_equal(crowded.hits.scores, everything.hits.scores[[0, *range(500, 519)]])
    assert len(other.hits) == 20
    assert [texts for texts, _ in asked] == [2, *[1] * (len(asked) - 1)]
    assert len(asked) > 1


def test_digging_ends_where_there_are_no_more_documents():
    asked: list[tuple[int, int]] = []
    retriever = Made("dense", 0.4, searcher(1, asked), searcher(2))
    (found,) = retriever.find_documents(["a"], 5, np.arange(ROWS) % 2)
    assert len(found.hits) == 2
    assert asked[-1] == (1, ROWS)
