import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wordpipe.words import WordList, vectors

texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=6)


@pytest.mark.parametrize("scans", [0, 5, 1_000])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some=st.lists(texts, unique=True, max_size=30), others=st.lists(texts, max_size=10))
def test_it_behaves_as_the_list_of_its_words(
    monkeypatch: pytest.MonkeyPatch, scans: int, some: list[str], others: list[str]
) -> None:
    monkeypatch.setattr(vectors, "_SCANS", scans)  # of which words are found without hashes
    for words in (WordList(some), WordList(pa.array(some, pa.string())), WordList(WordList(some))):
        assert list(words) == some
        assert len(words) == len(some)
        assert [words[np.int64(row)] for row in range(-len(some), len(some))] == some * 2
        assert [words.row_of(word) for word in some] == list(range(len(some)))
        asked = some + others
        assert words.rows_of(asked).tolist() == [some.index(word) if word in some else -1 for word in asked]
        assert [word in words for word in asked] == [word in some for word in asked]
        assert [*reversed(words)] == some[::-1]
        part = words[1:7:2]
        assert isinstance(part, WordList)
        assert list(part) == some[1:7:2]
        assert [part.row_of(word) for word in some[1:7:2]] == list(range(len(part)))


def test_what_is_no_word_of_it() -> None:
    words = WordList(["a", "b"])
    assert [words.row_of("\ud800") for _ in range(20)] == [None] * 20
    assert words.rows_of(["\ud800", "b"]).tolist() == [-1, 1]
    assert 7 not in words
    assert words.index("b") == 1
    with pytest.raises(IndexError):
        words[2]
    with pytest.raises(AssertionError, match="no text"):
        WordList(["\ud800"])


def test_many_words_are_iterated_and_found() -> None:
    words = [f"{number:x}" for number in range(50_000)]
    table = WordList(words)
    assert list(table) == words
    np.testing.assert_array_equal(table.rows_of(words[::-1]), np.arange(50_000)[::-1])
