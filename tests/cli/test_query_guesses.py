"""`wordpipe query` where words are made of n-grams: unknown ones are answered too."""

import json

import numpy as np
import pytest

import wordpipe


@pytest.fixture(scope="module")
def words(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guesses") / "words"
    settings = {"min_n": 3, "max_n": 4, "min_count": 5, "dim": 8, "epochs": 1, "threads": 1, "backend": "native"}
    wordpipe.train_word2vec(built / "tokens", output=folder, **settings)
    return folder


def test_an_unknown_word_is_answered_and_the_guess_is_named(cli, words):
    found = cli("query", words, "watery", "-k", 3, "--json")
    assert found.code == 0
    assert found.err.strip() == "guessed from its letters: watery"
    hits = [json.loads(line) for line in found.out.splitlines()]
    with wordpipe.open(words) as table:
        guess_D = table.table.vector_of("watery")
        lengths_V = np.linalg.norm(table.table.vectors, axis=1) * np.linalg.norm(guess_D)
        nearest = np.argsort(-(table.table.vectors @ guess_D) / lengths_V)[:3]
    assert [hit["id"] for hit in hits] == nearest.tolist()


def test_several_guesses_and_a_word_of_no_known_letters(cli, words):
    found = cli("query", words, "watery sandy qxqxq", "-k", 3)
    assert found.code == 0
    assert "guessed from their letters: watery, sandy" in found.err
    assert "unknown: qxqxq" in found.err
    assert cli("query", words, "qxqxq").code == 3
    assert cli("query", words, "watery", "-q").err == ""


def test_known_words_are_not_guessed(cli, words):
    found = cli("query", words, "water", "-k", 2)
    assert found.code == 0
    assert found.err == ""
