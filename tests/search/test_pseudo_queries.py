"""Queries made of the documents themselves, and the mix that they ask for."""

import numpy as np
import pytest

from wordpipe.search.hits import Hits
from wordpipe.search.lexical import LexicalIndex, LexicalSettings
from wordpipe.search.pseudo_queries import draw_queries, tuned_mix

RNG = np.random.default_rng(3)
TEXTS = [" ".join(f"word{i}" for i in RNG.choice(400, 20)) for _ in range(60)]
TITLES = [f"title{n} word{n}" for n in range(60)]


def test_titles_look_for_their_documents():
    asked = draw_queries(TITLES, TEXTS)
    assert asked.how == "titles"
    assert sorted(asked.rows) == list(range(60))
    assert asked.texts == [TITLES[row] for row in asked.rows]
    assert asked.rests == [TEXTS[row] for row in asked.rows]
    assert draw_queries(TITLES, TEXTS) == asked
    some = draw_queries(TITLES, TEXTS, among=range(5, 40))
    assert sorted(some.rows) == list(range(5, 40))


def test_cuts_look_for_what_is_left():
    asked = draw_queries([""] * 60, TEXTS)
    assert asked.how == "cuts"
    for part, row, rest in zip(asked.texts, asked.rows, asked.rests, strict=True):
        assert 6 <= len(part.split()) <= 10
        assert part in TEXTS[row]
        assert len(part.split()) + len(rest.split()) == 20


def test_too_few_or_too_short_documents_ask_nothing():
    assert draw_queries(TITLES[:29], TEXTS[:29]) is None
    assert draw_queries(TITLES, ["too short"] * 60) is None
    assert draw_queries([], []) is None
    assert draw_queries(TITLES, TEXTS, among=[3, 4]) is None


@pytest.mark.parametrize(("good", "weight"), [(True, 0.8), (False, 0.05)])
def test_the_better_side_gets_the_weight_within_bounds(good, weight):
    """Vectors that find every row first, or last, beside titles whose words are in no text."""
    titles = [f"title{n}" for n in range(60)]
    asked = draw_queries(titles, TEXTS)
    lexical = LexicalIndex.build(
        [f"{title} {text}" for title, text in zip(titles, TEXTS, strict=True)], LexicalSettings()
    )
    others = [np.delete(np.arange(60), row) for row in asked.rows]
    dense = [Hits(rows, np.linspace(0.9, 0.1, 59, dtype=np.float32)) for rows in others]
    if not good:  # now the words find them
        asked = draw_queries([f"{title} {text}" for title, text in zip(titles, TEXTS, strict=True)], TEXTS)
    tuned = tuned_mix(asked, dense, np.full(60, 0.95 if good else 0.01, dtype=np.float32), lexical, 50)
    assert tuned.ndcg_at_10["dense"] == pytest.approx(1 if good else 0)
    assert tuned.ndcg_at_10["hybrid"] >= max(tuned.ndcg_at_10["dense"], tuned.ndcg_at_10["lexical"]) - 0.05
    assert 0.05 <= tuned.weight <= 0.8
    assert (tuned.weight < 0.5) == (not good)
