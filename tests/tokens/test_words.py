"""What counts as a word."""

from collections import Counter

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.tokens.words import _ASCII_WORD, _WORD, Words, WordSplitter, regroup


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The sea-bed isn't at 3.5 km.", ["the", "sea-bed", "isn't", "at", "3.5", "km"]),
        ("Don’t état-major — ÉCOLE", ["don’t", "état-major", "école"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("1,000.50 x_y --flag -5", ["1,000.50", "x", "y", "flag", "5"]),
        ("'quoted' rock'n'roll", ["quoted", "rock'n'roll"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_words_are_letters_with_inner_marks_and_numbers(text, words):
    assert WordSplitter()(text) == words


def test_scripts_without_spaces_are_cut_by_the_pieces_function():
    split = WordSplitter(lambda run: [run[i : i + 2] for i in range(0, len(run), 2)])
    assert split("GPUで文章を読む v2") == ["gpu", "で文", "章を", "読む", "v2"]


@given(st.text(st.characters(max_codepoint=127)))
def test_the_ascii_pattern_is_the_unicode_pattern(text):
    assert _ASCII_WORD.findall(text) == _WORD.findall(text)


@given(st.text())
def test_words_stand_in_the_text_in_order_and_hold_every_letter(text):
    words = WordSplitter(keep_case=True)(text)
    rest = text
    for word in words:
        before, found, rest = rest.partition(word)
        assert found
        assert not regex.search(r"\p{L}|\p{N}", before)
    assert not regex.search(r"\p{L}|\p{N}", rest)


@given(st.lists(st.text(max_size=20)))
def test_regrouping_counts_equals_counting_with_the_pieces(texts):
    pieces = WordSplitter(list)
    runs = Counter(word for text in texts for word in WordSplitter()(text))
    assert regroup(runs, pieces) == Counter(word for text in texts for word in pieces(text))


def test_the_commonest_word_is_number_zero_and_ties_go_by_code_point():
    words = Words(Counter({"b": 2, "a": 2, "c": 5}))
    assert words.words == ["c", "a", "b"]
    assert words.counts == [5, 2, 2]
    assert words.number == {"c": 0, "a": 1, "b": 2}
