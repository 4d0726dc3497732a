"""Reading word queries: expressions, known phrases, misspellings."""

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.errors import ConfigError
from wordpipe.words import KnownPhrases, Spellings, parse_expression, similar_words


@pytest.mark.parametrize(
    ("text", "positive", "negative", "operators"),
    [
        ("king", ["king"], [], False),
        ("king - man + woman", ["king", "woman"], ["man"], True),
        ("  paris   france ", ["paris", "france"], [], False),
        ("- man + woman", ["woman"], ["man"], True),
        ("well-known isn't c++ -5", ["well-known", "isn't", "c++", "-5"], [], False),
        ("king − man", ["king"], ["man"], True),
        ("a - b c", ["a", "c"], ["b"], True),
        ("+ a", ["a"], [], True),
    ],
)
def test_expressions(text: str, positive: list[str], negative: list[str], operators: bool) -> None:
    found = parse_expression(text)
    assert (list(found.positive), list(found.negative), found.has_operators) == (positive, negative, operators)


@pytest.mark.parametrize("text", ["", "  ", "king -", "king - - man", "+", "king + - man"])
def test_an_expression_without_a_word_where_one_belongs_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_expression(text)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("+-"), st.text("abcdé-'", min_size=2)), min_size=1, max_size=8))
def test_signed_words_come_back(terms: list[tuple[str, str]]) -> None:
    found = parse_expression(" ".join(f"{sign} {word}" for sign, word in terms))
    assert list(found.positive) == [word for sign, word in terms if sign == "+"]
    assert list(found.negative) == [word for sign, word in terms if sign == "-"]


def test_a_new_text_is_joined_by_the_longest_known_phrases() -> None:
    known = KnownPhrases(["new", "york", "new_york", "new_york_city", "york_city", "_", "snake_", "a_b_c"])
    assert len(known) == 4
    assert known.join(["the", "new", "york", "city", "of", "new", "york"]) == ["the", "new_york_city", "of", "new_york"]
    assert known.join(["york", "city", "new"]) == ["york_city", "new"]
    assert known.join(["a", "b", "a", "b", "c"]) == ["a", "b", "a_b_c"]
    assert known.join([]) == []


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=12), st.sets(st.lists(st.integers(0, 3), min_size=2, max_size=4).map(tuple))
)
def test_known_phrases_as_a_regular_expression_has_them(text: list[int], phrases: set[tuple[int, ...]]) -> None:
    spelled = sorted(("_".join(map(str, phrase)) for phrase in phrases), key=len, reverse=True)
    pattern = re.compile("|".join([*(rf"{one}(?=_|$)" for one in spelled), "[^_]+"]))
    assert KnownPhrases(spelled).join([*map(str, text)]) == pattern.findall("_".join(map(str, text)))


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
@given(st.lists(words, max_size=5), st.lists(words, max_size=30))
def test_the_nearest_are_those_of_all(asked: list[str], known: list[str]) -> None:
    spellings = Spellings(known)
    for word in asked:
        most = 1 if len(word) <= 4 else 2
        near = sorted((slow_distance(word, other), at) for at, other in enumerate(known) if other)
        assert spellings.nearest(word) == [known[at] for distance, at in near[:3] if distance <= most]


def test_nearest_first_then_commonest() -> None:
    known = ["then", "the", "them", "tehn", "king", "thin"]
    assert similar_words("thenn", known) == ["then", "the", "them"]
    assert similar_words("tehn", ["then", "ten"], n=1) == ["then"]
    assert similar_words("xylophone", known) == []
    assert similar_words("word", []) == []
