"""What counts as a word."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.tokens import ASCII_WORD_PATTERN, WORD_PATTERN, WordSplitter


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The sea-bed isn't at 3.5 km.", ["the", "sea-bed", "isn't", "at", "3.5", "km"]),
        ("Don’t état-major — ÉCOLE", ["don’t", "état-major", "école"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("1,000.50 x_y --flag -5", ["1,000.50", "x", "y", "flag", "5"]),
        ("'quoted' rock'n'roll", ["quoted", "rock'n'roll"]),
        ("ΟΔΟΣ. ΟΔΟΣ'", ["οδος", "οδος"]),
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
    assert ASCII_WORD_PATTERN.findall(text) == WORD_PATTERN.findall(text)


@given(st.text())
def test_words_stand_in_the_text_in_order_and_hold_every_letter(text):
    words = WordSplitter(keep_case=True)(text)
    rest = text
    for word in words:
        before, found, rest = rest.partition(word)
        assert found
        assert not regex.search(r"\p{L}|\p{N}", before)
    assert not regex.search(r"\p{L}|\p{N}", rest)
