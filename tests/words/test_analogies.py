from typing import Any

import numpy as np
import pytest

from tests.words.judged import grid, in_gensim, questions, written
from wordpipe.words import Questions, WordVectors, evaluate_analogies, read_set
from wordpipe.words import evaluate as analogies


def tally(found: dict[str, Any]) -> tuple[int, int, int]:
    return found["correct"], found["seen"], found["asked"]


def read(text: str) -> Questions:
    found = read_set(text.encode(), "set.txt")
    assert isinstance(found, Questions)
    return found


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
def test_semantic_and_syntactic_are_told_by_the_names_of_the_sections(sections, semantic, syntactic):
    table = WordVectors(list("abcd"), np.ones(4, np.int64), np.eye(4, dtype=np.float32))
    asked = "a b c d\na b c c\na b c zz\n"  # right, wrong, unknown
    found = evaluate_analogies(table, read("".join(f": {name}\n{asked}" for name in sections)))
    assert [part and tally(part) for part in (found["semantic"], found["syntactic"])] == [semantic, syntactic]
    assert tally(found) == tuple(len(sections) * number for number in (1, 2, 3))
    assert found["accuracy"] == 0.5
