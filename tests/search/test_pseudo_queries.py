"""Queries made of the documents themselves."""

import numpy as np

from wordpipe.search import draw_queries

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
