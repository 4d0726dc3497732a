from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.words import ngram_counts
from wordpipe.words.hashes import HashRows, hashes_of
from wordpipe.words.ngrams import NGrams


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


@settings(deadline=None, max_examples=150)
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
    for row, word in enumerate(words):
        parts = found.parts[found.part_starts[row] : found.part_starts[row + 1]]
        assert [spelled[part] for part in parts] == [g for g in ngrams_of(word, min_n, max_n) if g in spelled]
        np.testing.assert_array_equal(found.parts_of(word), parts)
    assert len(found.part_starts) == len(words) + 1
    assert [found.part_starts.dtype, found.parts.dtype] == [np.int64, np.int32]


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
    assert whole.dropped
    monkeypatch.setattr(ngram_counts, "_BLOCK", 1_000)
    monkeypatch.setattr(ngram_counts, "_SHARE", 9_000)
    parts = NGrams.of(pa.chunked_array([words[:100], words[100:]]), counts, 2, 5, 900)
    assert parts.spelled.equals(whole.spelled)
    np.testing.assert_array_equal(parts.parts, whole.parts)
    np.testing.assert_array_equal(parts.part_starts, whole.part_starts)
    assert (parts.dropped, parts.of_one_word) == (whole.dropped, whole.of_one_word)


def test_a_word_longer_than_a_table_is_counted_in_full() -> None:
    word = "ab" * 50_000
    found = NGrams.of([word, word + "a"], np.array([2, 1]), 3, 3)
    assert sorted(found.spelled.to_pylist()) == ["<ab", "aba", "bab"]
    assert len(found.parts) == 2 * 100_000 - 1  # all but the ends, which each word has for itself


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=6), unique=True), st.integers(0, 5))
@settings(deadline=None)
def test_rows_are_found_by_their_hashes(words: list[str], first: int) -> None:
    rows = HashRows(hashes_of(words))
    assert rows.rows_of(hashes_of(words)).tolist() == list(range(len(words)))
    part = pa.array(words, pa.string()).slice(first)  # a view into the middle of the buffers
    assert rows.rows_of(hashes_of(part)).tolist() == list(range(len(words)))[first:]
    absent = [word + "?" for word in words if word + "?" not in words]
    assert (rows.rows_of(hashes_of(absent)) == -1).all()
