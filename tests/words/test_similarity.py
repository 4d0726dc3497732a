from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from tests.words.judged import grid, in_gensim, written
from wordpipe.words import NGrams, Pairs, WordVectors, evaluate_similarity, read_set


def pairs_of(words: list[str], scores: list[float]) -> Pairs:
    couples = [(one, other) for one, other in (pair.split() for pair in words)]
    return Pairs(couples, np.array(scores, dtype=np.float64))


@pytest.mark.parametrize("unknown", ["drop", "zero"])
def test_figures_and_coverage_are_those_of_gensim(tmp_path, unknown):
    rng = np.random.default_rng()
    table = grid(rng)
    names = [*table.words, "nowhere", "b99"]
    couples = list(combinations(names, 2))  # gensim finds a word not quite equal to itself
    rows = [(*couples[number], rng.integers(10)) for number in rng.choice(len(couples), 150, replace=False)]
    text = "".join(f"{one.upper() if rng.random() < 0.5 else one}\t{other}\t{score}\n" for one, other, score in rows)
    path = written(tmp_path / "set.txt", text)
    _, expected, percent = in_gensim(table).evaluate_word_pairs(path, dummy4unknown=unknown == "zero")
    found = evaluate_similarity(table, read_set(text.encode(), path), unknown=unknown)
    assert found["spearman"] == pytest.approx(expected.statistic, abs=1e-6)
    assert (found["pairs"], 100 * (1 - found["known"] / found["pairs"])) == (150, pytest.approx(percent))
    assert {word.lower() for word in found["unknown_words"]["first"]} == {"nowhere", "b99"}


def test_the_length_of_a_vector_does_not_count():
    rng = np.random.default_rng()
    table = grid(rng)
    couples = [tuple(rng.choice(table.words, 2).tolist()) for _ in range(60)]
    pairs = Pairs(couples, rng.standard_normal(60))
    longer = WordVectors(
        table.words, table.counts, table.vectors * np.float32(2) ** rng.integers(-9, 9, (len(table), 1))
    )
    assert evaluate_similarity(longer, pairs) == evaluate_similarity(table, pairs)


def test_equal_cosines_are_ties_whatever_the_lengths():
    table = WordVectors(list("abcd"), np.ones(4, np.int64), np.float32([[1, 3], [3, 9], [0.1, 0.3], [3, -1]]))
    found = evaluate_similarity(table, pairs_of(["a a", "a b", "b c", "a d"], [7, 7, 7, 1]))
    assert found["spearman"] == 1


def test_a_vector_without_a_direction_is_none():
    table = grid(np.random.default_rng(), pairs=2)
    table.vectors[0], table.vectors[1, 3] = 0, np.nan
    found = evaluate_similarity(table, pairs_of(["a0 b1", "b0 a1", "a1 b1", "a1 a1"], [4, 3, 1, 2]))
    assert (found["known"], found["spearman"], found["unknown_words"]["first"]) == (2, 1, ["a0", "b0"])


def test_nothing_known_has_no_figure():
    table = grid(np.random.default_rng(), pairs=2)
    for unknown in ("drop", "zero"):
        found = evaluate_similarity(table, pairs_of(["x y", "y z"], [1, 2]), unknown=unknown)
        assert (found["spearman"], found["known"], found["unknown_words"]["first"]) == (None, 0, ["x", "y", "z"])


def test_an_exact_word_comes_before_its_lower_case():
    vectors = np.float32([[1, 0], [0, 1], [1, 0.1]])
    table = WordVectors(["Polish", "polish", "wax"], np.ones(3, np.int64), vectors)
    found = evaluate_similarity(table, pairs_of(["Polish WAX", "POLISH wax", "Polish polish"], [9, 5, 1]))
    assert (found["spearman"], found["known"]) == (1, 3)


def test_guessed_words_are_named():
    ngrams = NGrams(pa.array(["<wa", "wal", "alk"]), 3, 3, np.eye(3, 4, dtype=np.float32))
    table = WordVectors(["talk", "walk"], np.array([2, 1]), np.eye(2, 4, dtype=np.float32), ngrams)
    found = evaluate_similarity(table, pairs_of(["walk talk", "walks talk", "zzz talk"], [1, 2, 3]))
    assert (found["known"], found["guessed_words"]["first"], found["unknown_words"]["first"]) == (2, ["walks"], ["zzz"])
