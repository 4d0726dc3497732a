"""The evaluation of word vectors: the sets that are read, similarity, analogies."""

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.analogy_tables import grid, in_gensim, questions, written
from wordpipe.errors import InputError
from wordpipe.words import NGrams, Pairs, Questions, WordVectors, evaluate_analogies, evaluate_similarity, read_set
from wordpipe.words import evaluate as analogies

WORD = st.text(st.characters(categories=["L"]), min_size=1, max_size=8)
SCORE = st.floats(-100, 100).map(lambda value: round(value, 3))


@given(
    st.lists(st.tuples(WORD, WORD, SCORE), min_size=1, max_size=9),
    st.sampled_from(["\t", ",", " ", ", ", " \t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "word1{0}word2{0}score{1}", "# of 2002{1}{1}", "\ufeff"]),
)
def test_pairs_come_back_however_they_are_parted(
    rows: list[tuple[str, str, float]], separator: str, end: str, before: str
) -> None:
    lines = [separator.join(map(str, row)) for row in rows]
    found = read_set((before.format(separator, end) + end.join([*lines, "# end", ""])).encode(), "set.txt")
    assert isinstance(found, Pairs)
    assert found.words == [row[:2] for row in rows]
    np.testing.assert_array_equal(found.scores, np.float64([row[2] for row in rows]))


@given(st.lists(st.tuples(st.sampled_from(["family", "gram 1", ""]), st.tuples(WORD, WORD, WORD, WORD)), min_size=1))
def test_questions_come_back(rows: list[tuple[str, tuple[str, str, str, str]]]) -> None:
    text = "".join(f": {section}\n{' '.join(words)}\n\n" for section, words in rows)
    found = read_set(text.encode(), "set.txt")
    assert isinstance(found, Questions)
    assert found.words == [words for _, words in rows]
    assert [found.sections[number] for number in found.section_of] == [section for section, _ in rows]
    assert len(set(found.sections)) == len(found.sections)


def test_the_columns_of_other_sets_do_no_harm() -> None:
    simlex = b"word1\tword2\tPOS\tSimLex999\tconc(w1)\nold\tnew\tA\t1.58\t2.72\nsmart\tintelligent\tA\t9.2\t1.75\n"
    found = read_set(simlex, "simlex")
    assert isinstance(found, Pairs)
    assert found.words == [("old", "new"), ("smart", "intelligent")]
    assert found.scores.tolist() == [1.58, 9.2]
    phrases = read_set(b"New York,city,7\n", "phrases")
    assert isinstance(phrases, Pairs)
    assert phrases.words == [("New York", "city")]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"cat dog 7\ncat dog\n", ["set.txt:2", "'cat dog'", "a score"]),
        (b"# head\ncat dog 7\ncat dog high\n", ["set.txt:3", "high"]),
        (b"cat dog\ncat dog 7\n", ["set.txt:1", "'cat dog'"]),
        (b"cat dog nan\n", ["set.txt:1", "nan"]),
        (b"a b c d\na b c e\n", ["set.txt:2", ": family"]),
        (b"\tdog\t7\n", ["set.txt:1"]),
        (b": family\nking queen man\n", ["set.txt:2", "four words"]),
        (b": family\n\n: more\n", ["set.txt", "no analogy questions"]),
        (b"word1 word2 score\n\n# nothing\n", ["set.txt:1", "score"]),
        (b"", ["set.txt", "no pair"]),
        (b"cat dog 7\ncaf\xe9 tea 3\n", ["set.txt:2", "UTF-8"]),
        (b"cat dog 7\n" + b"x" * 500, ["set.txt:2", "…"]),
    ],
)
def test_what_is_wrong_is_named_with_its_line(data: bytes, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        read_set(data, "set.txt")
    for word in words:
        assert word in f"{error.value.message} {error.value.hint}"
    assert len(error.value.message) < 250


def pairs_of(words: list[str], scores: list[float]) -> Pairs:
    couples = [(one, other) for one, other in (pair.split() for pair in words)]
    return Pairs(couples, np.array(scores, dtype=np.float64))


@pytest.mark.landing
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
    # gensim's cosines are in single precision: two that are nearer to each other than that may change ranks (0.0005 of 150)
    assert found["spearman"] == pytest.approx(expected.statistic, abs=1e-3)
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


def tally(found: dict[str, Any]) -> tuple[int, int, int]:
    return found["correct"], found["seen"], found["asked"]


def read(text: str) -> Questions:
    found = read_set(text.encode(), "set.txt")
    assert isinstance(found, Questions)
    return found


@pytest.mark.landing
@pytest.mark.parametrize("restrict", [0, 25, 7, 1000])
def test_figures_are_those_of_gensim(tmp_path, restrict, monkeypatch):
    monkeypatch.setattr(analogies, "_UNKNOWN_SHOWN", 1_000)
    rng = np.random.default_rng()
    table, text = grid(rng), questions(rng, 150)
    _, sections = in_gensim(table).evaluate_word_analogies(
        written(tmp_path / "set.txt", text), restrict_vocab=restrict or len(table)
    )
    found = evaluate_analogies(table, read(text), restrict=restrict)
    *parts, total = [(len(one["correct"]), len(one["correct"]) + len(one["incorrect"])) for one in sections]
    assert [(one["correct"], one["seen"]) for one in found["sections"]] == parts
    assert tally(found) == (*total, 150)
    assert restrict == 7 or 10 < found["correct"] < found["seen"] < 150
    assert found["among"] == min(restrict or 40, 40)
    assert {word.lower() for word in found["unknown_words"]["first"]} == {
        word for word in set(text.lower().split()) if word[0] in "ab" and word not in table.words[: found["among"]]
    }


def slow_answer(table: WordVectors, words: list[str], method: str) -> str | None:
    """One question by the formula, in double precision."""
    units = table.vectors.astype(np.float64) / np.linalg.norm(table.vectors.astype(np.float64), axis=1, keepdims=True)
    a, b, c = (units[table.words.index(word)] for word in words[:3])
    best = None
    for word, unit in zip(table.words, units, strict=True):
        if method == "cosadd":
            score = unit @ b - unit @ a + unit @ c
        else:
            score = (1 + unit @ b) / 2 * (1 + unit @ c) / 2 / ((1 + unit @ a) / 2 + 0.001)
        if word not in words[:3] and (best is None or score > best[0]):
            best = score, word
    return best and best[1]


@pytest.mark.parametrize("method", ["cosadd", "cosmul"])
def test_answers_are_those_of_the_formula(method):
    rng = np.random.default_rng()
    table, asked = grid(rng, dim=5, noise=1.0), read(questions(rng, 200, pairs=20).lower())
    right = [slow_answer(table, [*four], method) == four[3] for four in asked.words]
    found = evaluate_analogies(table, asked, method=method)
    assert tally(found) == (sum(right), 200, 200)
    assert 0 < sum(right) < 200


def test_the_methods_differ():
    """b and c of lengths 1; x is near to b alone, y somewhat near to both: the product likes y, the sum x."""
    vectors = np.float32([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0.98, -0.15, -0.1, 0.1], [0.45, 0.3, 0.2, 0.6]])
    vectors[4] = [0.42, 0.38, 0.0, 0.82]
    table = WordVectors(list("abcxy"), np.ones(5, np.int64), vectors)
    for method, word in (("cosadd", "x"), ("cosmul", "y")):
        assert slow_answer(table, ["a", "b", "c"], method) == word
        assert evaluate_analogies(table, read(f": s\na b c {word}\n"), method=method)["correct"] == 1


@pytest.mark.parametrize("method", ["cosadd", "cosmul"])
def test_the_size_of_the_blocks_does_not_matter(monkeypatch, method):
    rng = np.random.default_rng()
    table, asked = grid(rng), read(questions(rng, 150))
    whole = evaluate_analogies(table, asked, method=method)
    heard: list[tuple[int, int]] = []
    for most, at_once in ((1, 7), (3, 1), (16, 1000)):
        monkeypatch.setattr(analogies, "_LEAST_WORDS", 1)
        monkeypatch.setattr(analogies, "_MOST_WORDS", most)
        monkeypatch.setattr(analogies, "_QUESTIONS", at_once)
        heard.clear()
        found = evaluate_analogies(table, asked, method=method, report=lambda *done: heard.append(done))
        assert found == whole
        assert heard == [(min(first + most, 40), 40) for first in range(0, 40, most)]


def test_what_is_held_at_a_time_does_not_grow_with_the_table(monkeypatch):
    rng = np.random.default_rng()
    table, asked = grid(rng, pairs=600), read(questions(rng, 90, pairs=600))
    monkeypatch.setattr(analogies, "_SIMILARITY_BYTES", 8 * 100 * 300)
    shapes: list[tuple[int, ...]] = []

    def watched(cosines_UW, method):
        shapes.append(cosines_UW.shape)
        return sides(cosines_UW, method)

    sides = analogies._sides
    monkeypatch.setattr(analogies, "_sides", watched)
    evaluate_analogies(table, asked)
    assert len(shapes) > 2
    assert max(one * other for one, other in shapes) <= 100 * 300


def test_of_equal_answers_the_commoner_is_given_also_across_blocks(monkeypatch):
    monkeypatch.setattr(analogies, "_LEAST_WORDS", 1)
    vectors = np.float32([[1, 0], [0, 1], [0, -1], [-1, 0], [-2, 0], [-3, 0]])
    table = WordVectors(list("abcdef"), np.ones(6, np.int64), vectors)
    for most in (1, 2, 6):
        monkeypatch.setattr(analogies, "_MOST_WORDS", most)
        assert evaluate_analogies(table, read(": s\na b c d\na b c e\na b c f\n"))["correct"] == 1
        assert evaluate_analogies(table, read(": s\na b c d\n"))["correct"] == 1


@pytest.mark.parametrize("method", ["cosadd", "cosmul"])
def test_vectors_without_a_direction_neither_ask_nor_answer(method):
    rng = np.random.default_rng()
    vectors = -np.ones((6, 3), np.float32) + rng.uniform(0, 0.1, (6, 3)).astype(np.float32)
    vectors[1] *= -1  # far from all that is left, and still nearer than nothing
    table = WordVectors(list("abcdef"), np.ones(6, np.int64), vectors)
    vectors[4], vectors[5, 1] = 0, np.inf
    found = evaluate_analogies(table, read(": s\na c d b\na c d e\nf a b c\na e b c\n"), method=method)
    assert (tally(found), found["among"], found["unknown_words"]["first"]) == ((1, 1, 4), 6, ["e", "f"])


def test_a_table_of_only_the_question_has_no_answer():
    table = WordVectors(list("abc"), np.ones(3, np.int64), np.eye(3, dtype=np.float32))
    found = evaluate_analogies(table, read(": s\na b c c\nx y z z\n"))
    assert tally(found) == (0, 1, 2)
    assert tally(evaluate_analogies(table, read(": s\nx y z z\n"))) == (0, 0, 1)


@pytest.mark.parametrize(
    ("sections", "semantic", "syntactic"),
    [
        (["family", "gram1-x", "gram2-y"], (1, 2, 3), (2, 4, 6)),
        (["gram1"], None, (1, 2, 3)),
        (["family", "city"], None, None),
    ],
)
def test_semantic_and_syntactic_follow_the_names_of_the_sections(sections, semantic, syntactic):
    table = WordVectors(list("abcd"), np.ones(4, np.int64), np.eye(4, dtype=np.float32))
    asked = "a b c d\na b c c\na b c zz\n"  # right, wrong, unknown
    found = evaluate_analogies(table, read("".join(f": {name}\n{asked}" for name in sections)))
    assert [part and tally(part) for part in (found["semantic"], found["syntactic"])] == [semantic, syntactic]
    assert tally(found) == tuple(len(sections) * number for number in (1, 2, 3))
    assert found["accuracy"] == 0.5
