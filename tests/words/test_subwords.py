from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.artifacts import ngrams_schema
from wordpipe.words import HashRows, NGrams, WordVectors, hashes_of, subwords

WORDS = ["walking", "talking", "walked", "talked", "king", "Kings"]


def ngrams_of(word: str, min_n: int, max_n: int) -> list[str]:
    marked = f"<{word}>"
    return [
        marked[first : first + size]
        for first in range(len(marked))
        for size in range(min_n, min(max_n, len(marked) - first) + 1)
        if marked[first : first + size] not in ("<", ">") or 0 < first < len(marked) - 1
        if size < len(marked)
    ]


def twin(words: list[str], counts: list[int], min_n: int, max_n: int) -> tuple[Counter[str], set[str]]:
    """Occurrences of every n-gram of two or more words, and the n-grams of one word."""
    occurrences: Counter[str] = Counter()
    owners: dict[str, set[str]] = {}
    for word, count in zip(words, counts, strict=True):
        for gram in ngrams_of(word, min_n, max_n):
            occurrences[gram] += count
            owners.setdefault(gram, set()).add(word)
    lonely = {gram for gram in owners if len(owners[gram]) == 1}
    return Counter({gram: n for gram, n in occurrences.items() if gram not in lonely}), lonely


letters = st.text(alphabet="ab<>éß字😀", max_size=9)
vocabularies = st.lists(letters, max_size=25, unique=True)


@given(vocabularies, st.integers(1, 4), st.integers(0, 3), st.integers(1, 60), st.randoms(use_true_random=False))
def test_ngrams_are_those_of_plain_python(words: list[str], min_n: int, more: int, most: int, random: object) -> None:
    counts = [random.randint(1, 9) for _ in words]  # type: ignore[attr-defined]
    max_n = min_n + more
    found = NGrams.of(words, np.array(counts, dtype=np.int64), min_n, max_n, most)
    expected, lonely = twin(words, counts, min_n, max_n)
    spelled = found.spelled.to_pylist()
    assert len({*spelled}) == len(spelled) == min(most, len(expected))
    assert found.dropped == len(expected) - len(spelled)
    assert found.of_one_word == len(lonely)
    assert [expected[gram] for gram in spelled] == sorted(expected.values(), reverse=True)[:most]
    starts, all_parts = found.parts_of_all(words)
    for row, word in enumerate(words):
        parts = all_parts[starts[row] : starts[row + 1]]
        assert [spelled[part] for part in parts] == [g for g in ngrams_of(word, min_n, max_n) if g in spelled]
        np.testing.assert_array_equal(found.parts_of(word), parts)
    assert len(starts) == len(words) + 1
    assert [starts.dtype, all_parts.dtype] == [np.int64, np.int32]


@pytest.mark.landing
@settings(deadline=None)
@given(st.text(alphabet="abc字é", min_size=1, max_size=12), st.integers(2, 4), st.integers(0, 3))
def test_ngrams_are_those_of_gensim_without_the_whole_word(word: str, min_n: int, more: int) -> None:
    inner = pytest.importorskip("gensim.models.fasttext_inner")

    others = ["x" + word, word + "x", "x" + word + "x"]  # so that every n-gram of the word is one of several words
    found = NGrams.of([word, *others, *(w + "y" for w in others)], np.ones(7, dtype=np.int64), min_n, min_n + more)
    spelled = found.spelled.to_pylist()
    ours = Counter(spelled[row] for row in found.parts_of(word))
    theirs = Counter(inner.compute_ngrams(word, min_n, min_n + more))
    shared = set(spelled)
    del theirs[f"<{word}>"]
    assert ours == Counter({gram: n for gram, n in theirs.items() if gram in shared})
    assert all(gram in shared for gram in theirs if not (gram.startswith("<") and gram.endswith(">")))


def test_an_unknown_word_has_the_known_ngrams() -> None:
    found = NGrams.of(["walking", "talking", "walked"], np.array([3, 2, 1]), 3, 4)
    spelled = found.spelled.to_pylist()
    assert {spelled[row] for row in found.parts_of("walkable")} == {"<wa", "<wal", "wal", "walk", "alk"}
    assert found.parts_of("").tolist() == found.parts_of("zzz").tolist() == []
    assert found.parts_of("\ud800walk").dtype == np.int32  # no character at all, and no error


def test_shares_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    words = sorted({"".join(rng.choice(list("abcdé"), size=rng.integers(1, 12))) for _ in range(3_000)})
    counts = rng.integers(1, 50, size=len(words))
    whole = NGrams.of(pa.array(words), counts, 2, 5, 900)
    starts, parts = whole.parts_of_all(words)
    assert whole.dropped
    monkeypatch.setattr(subwords, "_BLOCK", 1_000)
    monkeypatch.setattr(subwords, "_SHARE", 9_000)
    cut = NGrams.of(pa.chunked_array([words[:100], words[100:]]), counts, 2, 5, 900)
    assert cut.spelled.equals(whole.spelled)
    for one, other in zip(cut.parts_of_all(words), (starts, parts), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (cut.dropped, cut.of_one_word) == (whole.dropped, whole.of_one_word)


def test_a_word_longer_than_a_table_is_counted_in_full() -> None:
    word = "ab" * 50_000
    found = NGrams.of([word, word + "a"], np.array([2, 1]), 3, 3)
    assert sorted(found.spelled.to_pylist()) == ["<ab", "aba", "bab"]
    assert (
        len(found.parts_of_all([word, word + "a"])[1]) == 2 * 100_000 - 1
    )  # all but the ends, which each word has for itself


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=6), unique=True), st.integers(0, 5))
@settings(deadline=None)
def test_rows_are_found_by_their_hashes(words: list[str], first: int) -> None:
    rows = HashRows(hashes_of(words))
    assert rows.rows_of(hashes_of(words)).tolist() == list(range(len(words)))
    part = pa.array(words, pa.string()).slice(first)  # a view into the middle of the buffers
    assert rows.rows_of(hashes_of(part)).tolist() == list(range(len(words)))[first:]
    absent = [word + "?" for word in words if word + "?" not in words]
    assert (rows.rows_of(hashes_of(absent)) == -1).all()


def ngrams(seed: int = 0, dim: int = 5) -> NGrams:
    found = NGrams.of(WORDS, np.arange(6, 0, -1), 3, 4)
    vectors_GD = np.random.default_rng(seed).standard_normal((len(found.spelled), dim)).astype(np.float32)
    return NGrams(found.spelled, 3, 4, vectors_GD)


def table(seed: int = 0) -> WordVectors:
    vectors_VD = np.random.default_rng(seed + 1).standard_normal((6, 5)).astype(np.float32)
    return WordVectors(WORDS, np.arange(6, 0, -1), vectors_VD, ngrams(seed))


def mean_of(grams: NGrams, word: str) -> np.ndarray:
    """The mean over the n-grams of 3 and 4 characters, in plain Python."""
    marked, spelled = f"<{word}>", grams.spelled.to_pylist()
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


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["walks", "zzz", "talks", "kingly", "zz", "walk"] * 3
    whole = ngrams().vectors_of(words)
    monkeypatch.setattr(subwords, "_WORDS", 2)
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
    partly, nothing = words.understand("walks zzz"), words.understand("walks - zzz")
    near, none = words.nearest([partly, nothing], 3)
    assert (partly.guessed, [*partly.unknown], len(near)) == (["walks"], ["zzz"], 3)
    assert (none, [*nothing.unknown], nothing.guessed) == ([], ["zzz"], ())
    assert words.understand("king walking").guessed == []


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
