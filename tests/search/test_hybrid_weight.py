"""The weight of a hybrid search, and the pseudo-queries that measure it."""

import math

import numpy as np
import pytest

from wordpipe.search import LexicalIndex, PseudoQueries, VectorTable, draw_queries, measure_weight
from wordpipe.search.settings import LexicalSettings

N, D = 60, 16
RNG = np.random.default_rng(3)
TEXTS = [" ".join(f"word{i}" for i in RNG.choice(400, 20)) for _ in range(N)]
OF_ITS_OWN = [f"title{n}" for n in range(N)]


def measured(drawn: PseudoQueries, titles: list[str], noise: float, *, trained: bool):
    """Vectors that have every title near its text, by so much, and know no words."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((N, D))
    row_of = {text: row for row, text in enumerate(TEXTS)} | {text: row for row, text in enumerate(OF_ITS_OWN)}

    def encode(texts):
        vectors = rows[[row_of[text.split(" word")[0] if text not in row_of else text] for text in texts]]
        vectors = vectors + noise * rng.standard_normal(vectors.shape)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    dense = VectorTable(encode(TEXTS))
    return measure_weight(drawn, encode(drawn.texts), encode(drawn.rests), dense, lexical(titles), trained=trained)


def lexical(titles):
    return LexicalIndex.build([f"{title} {text}" for title, text in zip(titles, TEXTS, strict=True)], LexicalSettings())


def test_vectors_that_find_what_words_do_not_have_most_of_the_score():
    drawn = draw_queries(OF_ITS_OWN, TEXTS)
    found = measured(drawn, OF_ITS_OWN, 0.1, trained=False)
    assert found.weight == 0.8
    assert found.ndcg_at_10["dense"] == pytest.approx(1)
    assert found.ndcg_at_10["lexical"] == 0  # the words of a title stand in no text without it
    assert measured(drawn, OF_ITS_OWN, 0.1, trained=True).weight == 0.5


def test_the_weight_is_the_share_of_the_squares_of_what_each_side_finds():
    """Titles that are half of their texts' words, and vectors that find some of them."""
    titles = [f"{title} {' '.join(text.split()[:3])}" for title, text in zip(OF_ITS_OWN, TEXTS, strict=True)]
    found = measured(draw_queries(titles, TEXTS), titles, 1.5, trained=False)
    dense, words = found.ndcg_at_10["dense"], found.ndcg_at_10["lexical"]
    assert 0.1 < dense < words
    assert found.weight == pytest.approx(dense**2 / (dense**2 + words**2), abs=0.0051)
    assert found.ndcg_at_10["hybrid"] >= dense


def test_rows_that_look_for_the_others_of_their_document():
    """Two rows a document, alike; no query finds itself, and each finds its other half."""
    pairs = np.repeat(np.random.default_rng(1).standard_normal((N // 2, D)), 2, axis=0).astype(np.float32)
    pairs /= np.linalg.norm(pairs, axis=1, keepdims=True)
    drawn = PseudoQueries("rows", TEXTS, [*range(N)], [], [{row ^ 1} for row in range(N)])
    index = LexicalIndex.build(TEXTS, LexicalSettings())
    found = measure_weight(drawn, pairs, pairs[:0], VectorTable(pairs), index, trained=False)
    assert found.ndcg_at_10["dense"] == pytest.approx(1)
    others = [index.search([text], 11)[0].rows.tolist() for text in TEXTS]
    ranks = [[r for r in rows if r != row] for row, rows in enumerate(others)]
    slow = np.mean(
        [1 / math.log2(rows.index(row ^ 1) + 2) if (row ^ 1) in rows[:10] else 0 for row, rows in enumerate(ranks)]
    )
    assert found.ndcg_at_10["lexical"] == pytest.approx(slow)


TITLES = [f"title{n} word{n}" for n in range(60)]


def test_titles_look_for_their_documents():
    asked = draw_queries(TITLES, TEXTS)
    assert asked.how == "titles"
    assert sorted(asked.rows) == list(range(60))
    assert asked.texts == [TITLES[row] for row in asked.rows]
    assert asked.rests == [TEXTS[row] for row in asked.rows]
    assert draw_queries(TITLES, TEXTS) == asked
    assert asked.of_rows([3 * row for row in range(60)]).rows == [3 * row for row in asked.rows]


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
