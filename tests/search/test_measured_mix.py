"""The share of the vectors that queries made of the texts ask for."""

import math

import numpy as np
import pytest

from wordpipe.search import LexicalIndex, PseudoQueries, Space, draw_queries, measured_mix, nearest
from wordpipe.search.settings import LexicalSettings

N, D = 60, 16
RNG = np.random.default_rng(3)
TEXTS = [" ".join(f"word{i}" for i in RNG.choice(400, 20)) for _ in range(N)]
OF_ITS_OWN = [f"title{n}" for n in range(N)]


def space(noise: float) -> Space:
    """Every title near its text, by so much; the vectors know no words."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((N, D))
    row_of = {text: row for row, text in enumerate(TEXTS)} | {text: row for row, text in enumerate(OF_ITS_OWN)}

    def encode(texts):
        vectors = rows[[row_of[text.split(" word")[0] if text not in row_of else text] for text in texts]]
        vectors = vectors + noise * rng.standard_normal(vectors.shape)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    whole = encode(TEXTS)
    return Space(N, encode, lambda queries, k: nearest(queries, [whole], k), whole.__getitem__)


def lexical(titles):
    return LexicalIndex.build([f"{title} {text}" for title, text in zip(titles, TEXTS, strict=True)], LexicalSettings())


def test_vectors_that_find_what_words_do_not_have_most_of_the_score():
    asked = draw_queries(OF_ITS_OWN, TEXTS)
    found = measured_mix(asked, space(0.1), lexical(OF_ITS_OWN), trained=False)
    assert found.weight == 0.8
    assert found.ndcg_at_10["dense"] == pytest.approx(1)
    assert found.ndcg_at_10["lexical"] == 0  # the words of a title stand in no text without it
    assert measured_mix(asked, space(0.1), lexical(OF_ITS_OWN), trained=True).weight == 0.5


def test_the_weight_is_the_share_of_the_squares_of_what_each_side_finds():
    """Titles that are half of their texts' words, and vectors that find some of them."""
    titles = [f"{title} {' '.join(text.split()[:3])}" for title, text in zip(OF_ITS_OWN, TEXTS, strict=True)]
    found = measured_mix(draw_queries(titles, TEXTS), space(1.5), lexical(titles), trained=False)
    dense, words = found.ndcg_at_10["dense"], found.ndcg_at_10["lexical"]
    assert 0.1 < dense < words
    assert found.weight == pytest.approx(dense**2 / (dense**2 + words**2), abs=0.0051)
    assert found.ndcg_at_10["hybrid"] >= dense


def test_rows_that_look_for_the_others_of_their_document():
    """Two rows a document, alike; no query finds itself, and each finds its other half."""
    pairs = np.repeat(np.random.default_rng(1).standard_normal((N // 2, D)), 2, axis=0).astype(np.float32)
    pairs /= np.linalg.norm(pairs, axis=1, keepdims=True)
    asked = PseudoQueries("rows", TEXTS, [*range(N)], [], [{row ^ 1} for row in range(N)])
    spaces = Space(
        N,
        lambda texts: pairs[[TEXTS.index(text) for text in texts]],
        lambda q, k: nearest(q, [pairs], k),
        pairs.__getitem__,
    )
    found = measured_mix(asked, spaces, LexicalIndex.build(TEXTS, LexicalSettings()), trained=False)
    assert found.ndcg_at_10["dense"] == pytest.approx(1)
    others = [LexicalIndex.build(TEXTS, LexicalSettings()).search([text], 11)[0].rows.tolist() for text in TEXTS]
    ranks = [[r for r in rows if r != row] for row, rows in enumerate(others)]
    slow = np.mean(
        [1 / math.log2(rows.index(row ^ 1) + 2) if (row ^ 1) in rows[:10] else 0 for row, rows in enumerate(ranks)]
    )
    assert found.ndcg_at_10["lexical"] == pytest.approx(slow)
