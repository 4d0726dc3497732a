"""Words: what counts as one, and their numbers, for which the compiled code and the splitter give the same."""

import re
from collections import Counter
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pretoken_tables import table_of, text_of
from wordpipe.tokens import (
    ASCII_WORD_PATTERN,
    WORD_PATTERN,
    SpanEncoder,
    SpillingTable,
    WordNumbers,
    WordSplitter,
    cut_words,
    fold_counts,
    keep_most_frequent,
    sum_runs,
)
from wordpipe.wording import INVISIBLE, visible


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The sea-bed isn't at 3.5 km.", ["the", "sea-bed", "isn't", "at", "3.5", "km"]),
        ("Don’t état-major — ÉCOLE", ["don’t", "état-major", "école"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("1,000.50 x_y --flag -5", ["1,000.50", "x", "y", "flag", "5"]),
        ("'quoted' rock'n'roll", ["quoted", "rock'n'roll"]),
        ("ΟΔΟΣ. ΟΔΟΣ'", ["οδος", "οδος"]),
        ("Gesamt\u00adkonzept pass\u200bword sea\u2060-bed \ufeffBOM", ["gesamtkonzept", "password", "sea-bed", "bom"]),
        ("a\u200cb 3\u2060.5 ❤\ufe0f \u200b", ["ab", "3.5"]),
        ("می\u200cروم", ["می", "روم"]),
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
    rest = visible(text)
    for word in words:
        before, found, rest = rest.partition(word)
        assert found
        assert not regex.search(r"\p{L}|\p{N}", before)
    assert not regex.search(r"\p{L}|\p{N}", rest)


TEXT = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("aAbB '’-. ſİΣ文の。1,०س\u00ad\u200b\u200c\u200d\u2060\ufeff\ufe0f"),
    ),
    max_size=30,
)


def halves(run: str) -> list[str]:
    return [part for part in (run[: len(run) // 2], run[len(run) // 2 :]) if part]


@given(st.lists(TEXT, max_size=8), st.booleans())
def test_numbers_of_words_are_those_of_the_splitters_words(texts, keep_case):
    split = WordSplitter(halves, keep_case=keep_case)
    listed = Counter(word for text in texts for word in split(text))
    words = table_of(listed)
    encoder = SpanEncoder(WordNumbers(words, split).encode, 1 << 20)
    numbers, offsets = encoder.encode(cut_words()(pa.array(texts, pa.string())))
    found = [[text_of(words, n) for n in numbers[a:b]] for a, b in pairwise(offsets)]
    assert found == [split(text) for text in texts]


@given(TEXT)
def test_runs_stand_where_their_words_come_from(text):
    split = WordSplitter()
    assert [word for start, stop in split.runs(text) for word in split.of_run(visible(text[start:stop]))] == split(text)


@pytest.mark.slow  # every character
def test_what_nobody_sees_is_what_unicode_says():
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    unseen = re.compile(f"[{INVISIBLE}]").findall(every)
    assert unseen == regex.findall(r"\p{Default_Ignorable_Code_Point}", every)


def test_words_that_are_not_listed_have_no_number():
    split = WordSplitter()
    encoder = SpanEncoder(WordNumbers(table_of({"b": 2}), split).encode, 1 << 20)
    numbers, offsets = encoder.encode(cut_words()(pa.array(["a B c", "", "B b é"])))
    assert numbers.tolist() == [0, 0, 0]
    assert offsets.tolist() == [0, 1, 1, 3]


def test_a_encoder_that_forgets_gives_the_same():
    texts = [" ".join(str(n * n % 7919) for n in range(k, k + 3000)) for k in range(0, 30_000, 3000)]
    split = WordSplitter()
    words = table_of(Counter(word for text in texts for word in split(text)))
    rows, encode = pa.array(texts), WordNumbers(words, split).encode
    small, large = SpanEncoder(encode, 1 << 17), SpanEncoder(encode, 1 << 30)
    for got, expected in zip(small.encode(cut_words()(rows)), large.encode(cut_words()(rows)), strict=True):
        assert np.array_equal(got, expected)


@given(st.lists(TEXT, max_size=20))
def test_counts_of_runs_become_counts_of_words(texts):
    split = WordSplitter(halves)
    spans = cut_words()(pa.array(texts, pa.string()))
    runs = Counter(spans.data[a:b].tobytes().decode() for a, b in zip(spans.starts, spans.ends, strict=True))
    files = []

    @contextmanager
    def new_run():
        yield (file := pa.BufferOutputStream())
        files.append(file.getvalue())

    table = SpillingTable(1 << 30, new_run)
    fold_counts([table_of(runs)], split, table=table)
    table.spill()
    kept = keep_most_frequent(sum_runs([partial(pa.BufferReader, data) for data in files]), lambda size, number: True)
    expected = Counter(word for text in texts for word in split(text))
    assert {text_of(kept.strings, row): int(count) for row, count in enumerate(kept.strings.counts)} == dict(expected)
