import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.errors import ConfigError
from wordpipe.words.expression import parse_expression


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
