"""What is measured without labels: agreement, what each mode finds, and the pseudo-queries behind both."""

import math

import numpy as np
import pytest

from wordpipe.search import (
    ChanceVectors,
    LexicalIndex,
    PseudoQueries,
    Retriever,
    VectorTable,
    draw_queries,
    found_by_words,
    measure,
)
from wordpipe.search.lexical import postings
from wordpipe.search.settings import LexicalSettings

N, D = 60, 16
RNG = np.random.default_rng(3)
TEXTS = [" ".join(f"word{i}" for i in RNG.choice(400, 20)) for _ in range(N)]
OF_ITS_OWN = [f"title{n}" for n in range(N)]
CUTS = draw_queries([""] * N, TEXTS)


def bags(texts):
    """Unit vectors in which every word has a direction of its own: nearly what words find."""
    rows = np.zeros((len(texts), 512), np.float32)
    for row, text in enumerate(texts):
        for word in text.split():
            rows[row, int(word.removeprefix("word")) if word.startswith("word") else 500] += 1
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def by_chance(texts):
    rows = np.array([np.random.default_rng([*text.encode()]).standard_normal(D) for text in texts]).reshape(-1, D)
    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).astype(np.float32)


def lexical(titles):
    return LexicalIndex.build([f"{title} {text}" for title, text in zip(titles, TEXTS, strict=True)], LexicalSettings())


def mean_of(*given):
    """What `measure` gives, with the mean of all queries in place of the figures of each."""
    agreement, found = measure(*given)
    return agreement, found and {name: float(values_Q.mean()) for name, values_Q in found.items()}


def test_agreement_is_the_share_of_hits_in_common():
    index = lexical([""] * N)
    found = {encode: mean_of(None, CUTS, encode, VectorTable(encode(TEXTS)), index) for encode in (bags, by_chance)}
    assert [ndcg for _, ndcg in found.values()] == [None, None]
    assert found[bags][0] > 0.5 > found[by_chance][0]
    slow = []
    for text, row, query in zip(CUTS.texts, CUTS.rows, bags(CUTS.texts), strict=True):
        near = [one for one in np.lexsort((np.arange(N), -(bags(TEXTS) @ query))).tolist() if one != row][:20]
        worded = [one for one in index.search([text], N)[0].rows.tolist() if one != row][:20]
        slow.append(len({*near} & {*worded}) / 20)
    assert found[bags][0] == pytest.approx(np.mean(slow), abs=0.02)  # rows without a word in common are all alike


def test_a_given_share_is_that_of_every_query():
    index, drawn = lexical(OF_ITS_OWN), draw_queries([""] * N, TEXTS)
    found = {
        weight: measure(drawn, CUTS, by_chance, VectorTable(by_chance(TEXTS)), index, weight)[1]
        for weight in (None, 0.0, 0.4, 1.0)
    }
    assert found[0.0]["hybrid"].tolist() == found[None]["lexical"].tolist()
    assert found[1.0]["hybrid"].tolist() == found[None]["dense"].tolist()
    assert found[0.4]["hybrid"].tolist() != found[None]["hybrid"].tolist()
    assert len({(*one["dense"], *one["lexical"]) for one in found.values()}) == 1


def test_too_few_texts_measure_nothing():
    index = lexical([""] * N)
    agreement, found = mean_of(None, None, bags, VectorTable(bags(TEXTS)), index)
    assert (agreement, found) == (0.5, None)


def test_vectors_that_find_titles_that_words_do_not():
    row_of = {text: row for texts in (TEXTS, OF_ITS_OWN) for row, text in enumerate(texts)}
    rows = by_chance(TEXTS)

    def encode(texts):
        return rows[[row_of.get(text, 0) for text in texts]]

    drawn = draw_queries(OF_ITS_OWN, TEXTS)
    _, found = mean_of(drawn, CUTS, encode, VectorTable(rows), lexical(OF_ITS_OWN))
    assert found["dense"] == pytest.approx(1)
    assert found["lexical"] == 0  # the words of a title stand in no text without it


def test_rows_that_look_for_the_others_of_their_document():
    """Two rows a document, alike; no query finds itself, and each finds its other half."""
    pairs = np.repeat(np.random.default_rng(1).standard_normal((N // 2, D)), 2, axis=0).astype(np.float32)
    pairs /= np.linalg.norm(pairs, axis=1, keepdims=True)
    drawn = PseudoQueries("rows", TEXTS, [*range(N)], [], [{row ^ 1} for row in range(N)])
    index = LexicalIndex.build(TEXTS, LexicalSettings())
    _, found = mean_of(drawn, None, lambda texts: pairs[: len(texts)], VectorTable(pairs), index)
    assert found["dense"] == pytest.approx(1)
    others = [index.search([text], 11)[0].rows.tolist() for text in TEXTS]
    ranks = [[r for r in rows if r != row] for row, rows in enumerate(others)]
    slow = np.mean(
        [1 / math.log2(rows.index(row ^ 1) + 2) if (row ^ 1) in rows[:10] else 0 for row, rows in enumerate(ranks)]
    )
    assert found["lexical"] == pytest.approx(slow)


def test_a_hybrid_search_is_measured_as_queries_are_answered():
    """Each cut asked by itself of an index in which its row is what is left of it."""
    agreement, found = mean_of(CUTS, CUTS, bags, VectorTable(bags(TEXTS)), lexical([""] * N))
    slow = []
    for text, row, rest in zip(CUTS.texts, CUTS.rows, CUTS.rests, strict=True):
        texts = [rest if number == row else one for number, one in enumerate(TEXTS)]
        made = Retriever(VectorTable(bags(texts)), LexicalIndex.build(texts, LexicalSettings()), agreement)
        ranked = made.find([text], bags([text]), 10)[0].hits.rows.tolist()
        slow.append(1 / math.log2(ranked.index(row) + 2) if row in ranked else 0)
    assert found["hybrid"] == pytest.approx(np.mean(slow), abs=0.05)  # the rarity of words is that of whole texts


def test_the_controls_are_feedback_without_vectors_and_vectors_without_meaning():
    index = lexical([""] * N)
    agreement, found = mean_of(CUTS, CUTS, bags, VectorTable(bags(TEXTS)), index)
    twice = []
    for text, row, rest in zip(CUTS.texts, CUTS.rows, CUTS.rests, strict=True):
        own, left = index.read(text), index.read_text(rest)

        def ranked(terms, rows, left=left):
            whole = index.score_texts(terms, index.texts(np.arange(N)))
            scores = {one: float(index.score_texts(terms, left)[0]) if one == N else float(whole[one]) for one in rows}
            return sorted((one for one in rows if scores[one] > 0), key=lambda one: (-scores[one], one))

        first = ranked(own, [one for one in range(N + 1) if one != row])
        read = [left if one == N else index.texts(np.array([one])) for one in first[:10]]
        again = ranked(index.expanded(own, postings.TextCounts.joined(read)), first)
        twice.append(1 / math.log2(again.index(N) + 2) if N in again[:10] else 0)
    assert found["lexical_twice"] == pytest.approx(np.mean(twice), abs=1e-6)
    _, others = mean_of(CUTS, None, by_chance, VectorTable(by_chance(TEXTS)), index)
    assert others["lexical_twice"] == found["lexical_twice"]  # whatever the vectors are
    assert 0 <= found["random_vectors"] < found["hybrid"]
    assert mean_of(CUTS, CUTS, bags, VectorTable(bags(TEXTS)), index) == (agreement, found)


def test_vectors_drawn_by_chance_are_the_same_each_time():
    made = ChanceVectors(9_000, 8)
    rows = np.array([0, 5, 4_095, 4_096, 8_999])
    some = made.vectors(rows)
    np.testing.assert_allclose(np.linalg.norm(some, axis=1), 1, atol=1e-6)
    assert (made.vectors(rows[1:4]) == some[1:4]).all()
    assert made.vectors(rows[:0]).shape == (0, 8)
    every = made.vectors(np.arange(9_000))
    (hits,) = made.search(some[3:4], 5)
    assert hits.rows.tolist() == np.argsort(-(every @ some[3]))[:5].tolist()
    assert abs(every.mean()) < 0.01


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


def test_texts_of_a_script_without_spaces_are_cut_between_characters():
    letters = [chr(0x4E00 + number) for number in range(500)]
    texts = ["".join(letters[(7 * row + 3 * at) % 500] for at in range(60)) for row in range(50)]
    asked = draw_queries([""] * 50, texts)
    assert len(asked.texts) == 50
    for row, part, rest in zip(asked.rows, asked.texts, asked.rests, strict=True):
        assert " " not in part + rest
        assert 12 <= len(part) <= 24
        assert any(rest[:at] + part + rest[at:] == texts[row] for at in range(0, 60, 2))
    assert draw_queries([""] * 50, ["短い文です"] * 50) is None


def test_what_stands_in_two_documents_is_no_query():
    titles, texts = [f"title{n // 2}" for n in range(N)], [*TEXTS]
    assert draw_queries(OF_ITS_OWN, TEXTS, set()) == draw_queries(
        OF_ITS_OWN, TEXTS
    )  # nothing is repeated: nothing changes
    assert draw_queries([""] * N, TEXTS, set()) == CUTS
    cuts = draw_queries(titles, texts, {*titles})
    assert (cuts.how, cuts.texts) == ("cuts", CUTS.texts)  # two documents of every title: none says which is meant
    half = draw_queries(OF_ITS_OWN, TEXTS, {*OF_ITS_OWN[: N // 2]})
    assert (half.how, sorted(half.rows)) == ("titles", [*range(N // 2, N)])
    texts[: N // 2] = [" ".join(reversed(text.split())) for text in texts[N // 2 :]]
    assert len(draw_queries([""] * N, texts, set()).texts) == N  # other words in a row
    texts[: N // 2] = [f"{text} and more" for text in texts[N // 2 :]]
    assert draw_queries([""] * N, texts, set()) is None  # hardly a cut that is not in two texts
    assert draw_queries([""] * N, TEXTS, {*TEXTS[:40]}) is None


@pytest.mark.parametrize(
    "drawn", [CUTS, PseudoQueries("rows", TEXTS[:9], list(range(9)), [], [{n + 1} for n in range(9)])]
)
def test_what_each_query_finds_by_words_is_what_the_mode_finds(drawn):
    index = lexical([""] * N)
    found = found_by_words(drawn, index)
    assert len(found) == len(drawn.texts)
    _, modes = mean_of(drawn, CUTS, bags, VectorTable(bags(TEXTS)), index)
    assert np.mean(found) == pytest.approx(modes["lexical"])
