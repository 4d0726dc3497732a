import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.artifacts.layout import ngrams_schema
from wordpipe.words import ngram_vectors
from wordpipe.words.ngram_vectors import NGramVectors
from wordpipe.words.ngrams import NGrams
from wordpipe.words.table import WordVectors

WORDS = ["walking", "talking", "walked", "talked", "king", "Kings"]


def ngrams(seed: int = 0, dim: int = 5) -> NGramVectors:
    found = NGrams.of(WORDS, np.arange(6, 0, -1), 3, 4)
    vectors_GD = np.random.default_rng(seed).standard_normal((len(found.spelled), dim)).astype(np.float32)
    return NGramVectors(found.rows, vectors_GD)


def table(seed: int = 0) -> WordVectors:
    vectors_VD = np.random.default_rng(seed + 1).standard_normal((6, 5)).astype(np.float32)
    return WordVectors(WORDS, np.arange(6, 0, -1), vectors_VD, ngrams(seed))


def mean_of(grams: NGramVectors, word: str) -> np.ndarray:
    """The mean over the n-grams of 3 and 4 characters, in plain Python."""
    marked, spelled = f"<{word}>", grams.rows.spelled.to_pylist()
    cut = [marked[i : i + n] for i in range(len(marked)) for n in (3, 4) if i + n <= len(marked) and n < len(marked)]
    return np.mean([grams.vectors[spelled.index(gram)] for gram in cut if gram in spelled], axis=0)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["walkable", "walks", "zzz", "", "talk", "kingly", "ing"]), max_size=9), st.integers(0, 99)
)
def test_an_unknown_word_is_the_mean_of_its_known_ngrams(words: list[str], seed: int) -> None:
    grams = ngrams(seed)
    vectors_ND, known_N = grams.vectors_of(words)
    assert vectors_ND.shape == (len(words), 5)
    assert known_N.tolist() == [word not in ("", "zzz") for word in words]
    for word, vector_D, known in zip(words, vectors_ND, known_N, strict=True):
        alone = grams.vector_of(word)
        if known:
            np.testing.assert_allclose(vector_D, mean_of(grams, word), rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(alone, vector_D)  # alone or among others
        else:
            assert alone is None
            assert not vector_D.any()


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["walks", "zzz", "talks", "kingly", "zz", "walk"] * 3
    whole = ngrams().vectors_of(words)
    monkeypatch.setattr(ngram_vectors, "_WORDS", 2)
    parts = ngrams().vectors_of(words)
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_array_equal(parts[1], whole[1])


def test_a_known_word_keeps_its_vector_and_an_unknown_one_is_guessed() -> None:
    words = table()
    assert words.ngrams is not None
    known, guess, lower = (words.vector_of(word) for word in ("talked", "walks", "TALKED"))
    np.testing.assert_array_equal(known, words.vectors[3])
    np.testing.assert_array_equal(lower, words.vectors[3])
    np.testing.assert_array_equal(guess, words.ngrams.vector_of("walks"))
    np.testing.assert_array_equal(words.vector_of("WALKS"), guess)  # of the form whose n-grams are known
    assert words.vector_of("zzz") is None
    assert WordVectors(WORDS, words.counts, words.vectors).vector_of("walks") is None


def test_a_question_uses_guesses_and_says_so() -> None:
    words = table()
    question = words.understand("walks - king + zalk")
    unit = {
        word: vector / np.linalg.norm(vector)
        for word in ("walks", "king", "zalk")
        if (vector := words.vector_of(word)) is not None
    }
    np.testing.assert_allclose(question.query, unit["walks"] - unit["king"] + unit["zalk"], atol=1e-5)
    assert question.rows.tolist() == [4]
    assert question.guessed == ["walks", "zalk"]
    assert question.unknown == {}
    answer = words.ask("walks zzz", 3)
    assert answer.guessed == ["walks"]
    assert [*answer.unknown] == ["zzz"]
    assert len(answer.neighbours) == 3
    nothing = words.ask("walks - zzz")
    assert (nothing.neighbours, [*nothing.unknown], nothing.guessed) == ([], ["zzz"], ())
    assert words.ask("king walking").guessed == []


@pytest.mark.parametrize("rows", [1, 4, 1_000])
def test_batches_have_the_schema_and_come_back(rows: int) -> None:
    words = table()
    assert words.ngrams is not None
    batches = list(words.ngrams.to_batches(rows))
    assert all(batch.schema == ngrams_schema(5) for batch in batches)
    back = WordVectors.from_batches(words.to_batches(2), batches, min_n=3, max_n=4)
    assert back.ngrams is not None
    np.testing.assert_array_equal(back.ngrams.vectors, words.ngrams.vectors)
    np.testing.assert_array_equal(back.vector_of("walks"), words.vector_of("walks"))
    np.testing.assert_array_equal(back.vectors, words.vectors)
    assert WordVectors.from_batches(words.to_batches()).ngrams is None
    assert WordVectors.from_batches(words.to_batches(), [], min_n=3, max_n=4).ngrams is None
