"""Which newlines are a margin's work, and where paragraphs end."""

import random
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import is_hard_wrapped, paragraphs


def prose(rng, sentences):
    """Random words of 1 to 11 letters, some sentences with a stop."""
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(1, 11))) for _ in range(sentences * 12)]
    return " ".join(w.capitalize() + "." if rng.random() < 0.08 else w for w in words)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("width", [50, 72, 100])
def test_text_that_was_wrapped_at_a_margin_is_known(seed, width):
    rng = random.Random(seed)
    text = "\n\n".join(textwrap.fill(prose(rng, 6), width) for _ in range(4))
    assert is_hard_wrapped(text)


@pytest.mark.parametrize("seed", range(10))
def test_one_sentence_or_paragraph_a_line_is_no_wrapping(seed):
    rng = random.Random(seed)
    lines = [prose(rng, rng.choice([1, 1, 2, 5])) + "." for _ in range(60)]
    assert not is_hard_wrapped("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        "apple\nbanana\ncherry\ndate",  # a list of words
        "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\nRough winds do shake the buds",
        "one line only",
        "two\n\nparagraphs",
        "",
        "x" * 500 + "\n" + "y" * 500,
    ],
)
def test_what_is_not_wrapped(text):
    assert not is_hard_wrapped(text)


def test_two_lines_are_wrapped_if_the_sentence_goes_on():
    line = "A sentence that is long enough to have reached some margin"
    assert is_hard_wrapped(f"{line}\nand goes on here.")
    assert not is_hard_wrapped(f"{line}.\nAnother one.")


TEXTS = st.text(st.sampled_from(list("ab \t\n\n-*>`#|:.=")), max_size=120)


@given(TEXTS, st.booleans())
def test_paragraphs_tile_the_text(text, wrapped):
    spans = list(paragraphs(text, wrapped=wrapped))
    assert [text[start:end] for start, end, _ in spans] == [p for p in (text[a:b] for a, b, _ in spans) if p]
    assert "".join(text[start:end] for start, end, _ in spans) == text


@given(TEXTS)
def test_unwrapped_paragraphs_are_the_lines_with_the_blank_ones_after_them(text):
    twin = [piece for piece in re.split(r"(?<=\n)(?=[^\n]*\S)", text) if piece]
    spans = [text[start:end] for start, end, _ in paragraphs(text, wrapped=False)]
    assert "".join(spans) == text
    assert [s.strip() for s in spans if s.strip()] == [s.strip() for s in twin if s.strip()]


@given(st.text(st.sampled_from(list("ab .\n\n")), max_size=120))
def test_wrapped_prose_has_the_paragraphs_that_blank_lines_part(text):
    text = re.sub(r"\n +(?=\S)", "\n", text).lstrip(" ")  # no indentation: nothing but blank lines parts prose
    text = re.sub(r"(?m)^\.", "b", text)
    found = [text[start:end].strip() for start, end, _ in paragraphs(text, wrapped=True)]
    assert [p for p in found if p] == [p.strip() for p in re.split(r"\n[ \n]*\n", text) if p.strip()]


def test_first_line_indentation_does_not_part_prose():
    text = "    It was a dark night and\nthe wind blew.\n\n    Another one came\nlater.\n"
    assert [text[a:b].strip() for a, b, _ in paragraphs(text, wrapped=True)] == [
        "It was a dark night and\nthe wind blew.",
        "Another one came\nlater.",
    ]
