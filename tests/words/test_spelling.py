from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.words.spelling import edit_distances, similar_words


def slow_distance(a: str, b: str) -> int:
    """The textbook recursion."""

    @cache
    def of(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        best = min(of(i - 1, j) + 1, of(i, j - 1) + 1, of(i - 1, j - 1) + (a[i - 1] != b[j - 1]))
        if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            best = min(best, of(i - 2, j - 2) + 1)
        return best

    return of(len(a), len(b))


words = st.text("abcé漢😀", max_size=7)


@settings(deadline=None)
@given(words, st.lists(words, max_size=8))
def test_distances_match_the_slow_twin(word: str, others: list[str]) -> None:
    assert edit_distances(word, others).tolist() == [slow_distance(word, other) for other in others]


def test_nearest_first_then_commonest() -> None:
    known = ["then", "the", "them", "tehn", "king", "thin"]
    assert similar_words("thenn", known) == ["then", "the", "them"]
    assert similar_words("tehn", ["then", "ten"], n=1) == ["then"]
    assert similar_words("xylophone", known) == []
    assert similar_words("word", []) == []
