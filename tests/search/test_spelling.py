"""Unfinished and misspelt words; the twins look at every word, letter by letter."""

import re
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.search import LexicalIndex, Speller, WordTable, slips_between, slips_of_all
from wordpipe.search.settings import LexicalSettings

short = st.text("abc", max_size=6)


@cache
def slips(one: str, other: str) -> int:
    """The slow twin: the definition of optimal string alignment."""
    if not one or not other:
        return len(one) + len(other)
    found = min(
        slips(one[:-1], other) + 1, slips(one, other[:-1]) + 1, slips(one[:-1], other[:-1]) + (one[-1] != other[-1])
    )
    if len(one) > 1 and len(other) > 1 and one[-1] == other[-2] and one[-2] == other[-1]:
        found = min(found, slips(one[:-2], other[:-2]) + 1)
    return found


@given(one=short, other=short, most=st.integers(0, 3))
def test_slips_are_those_of_the_definition(one, other, most):
    assert slips_between(one, other, most) == min(slips(one, other), most + 1)


def table(words: dict[str, int]) -> WordTable:
    return WordTable.of((word.encode(), number, count) for number, (word, count) in enumerate(words.items()))


written = st.dictionaries(st.text("abcd", min_size=2, max_size=9), st.integers(1, 9), min_size=1, max_size=40)


@given(words=written, word=st.text("abcd", min_size=4, max_size=9))
def test_near_words_begin_alike_and_have_one_slip_else_another_beginning_else_two_slips(words, word):
    """Those with other double letters alone go first, then the most frequent; two letters, not the first, may be wrong."""
    words.pop(word, None)
    near = [other for other in words if slips(word, other) == 1]
    one = [other for other in near if other[0] == word[0]] or near
    two = [other for other in words if slips(word, other) == 2 and other[0] == word[0] and len(word) >= 6]

    def rank(other):
        return re.sub(r"(.)\1+", r"\1", other) != re.sub(r"(.)\1+", r"\1", word), -words[other], other

    ranked = sorted(one, key=rank) + (sorted(two, key=rank) if not one else [])
    assert Speller(table(words)).near(word) == ranked[:3]


@given(words=written, prefix=st.text("abcd", max_size=3))
def test_completions_are_the_words_that_begin_so_the_most_frequent_first(words, prefix):
    found = table(words)
    expected = sorted((word for word in words if word.startswith(prefix)), key=lambda word: (-words[word], word))
    assert found.most_frequent(found.beginning(prefix), 5) == expected[:5]
    assert len(range(*found.beginning(prefix).indices(len(found)))) == len(expected)
    assert {word: found.count_of(word) for word in [*words, "zz"]} == {**words, "zz": 0}


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("kuberntes", "kubernetes"), ("weahter", "weather"), ("postgress", "postgres"), ("boilr", "boiler"),
        ("kubernettess", "kubernetes"), ("wether", "weather"), ("progressbar", "progress bar"), ("погодв", "погода"),
        ("чайнк", "чайник"), ("wetter", None), ("straße", "strasse"), ("abc1", None), ("boi", None), ("καιρόσ", "καιρός"),
    ],
)  # fmt: skip
def test_a_word_that_stands_nowhere_is_taken_for_one_that_does(word, meant):
    texts = [
        "kubernetes client for the weather",
        "kubernets",
        "postgres boiler progress bar",
        "die strasse",
        "погода чайник",
    ]
    texts += ["kubernetes weather", "ο καιρός"]
    index = LexicalIndex.build(texts, LexicalSettings(language="none"))
    if meant is None and word != "wetter":
        assert index.meant_by(word) == []
    elif word == "wetter":
        assert index.meant_by(word)[0] == "weather"  # two slips
    elif word in ("straße", "καιρόσ"):
        assert index.knows(word) or index.meant_by(word)[0] == meant
    else:
        assert index.meant_by(word)[0] == meant


def test_words_are_counted_as_written():
    texts = ["Bees and bees dance, e-mail", "The BEES' dancing; LLMs llm", "naïve 漢字 C++ x 42nd"]
    index = LexicalIndex.build(texts, LexicalSettings(language="english"))
    found = {word.decode(): (index.terms[term].decode(), count) for word, term, count in index.words.rows()}
    assert found == {
        "bees": ("bee", 3), "dance": ("danc", 1), "dancing": ("danc", 1), "mail": ("mail", 1), "llm": ("llm", 2),
        "naïve": ("naïv", 1), "naive": ("naiv", 1), "42nd": ("42nd", 1),
    }  # fmt: skip
    many = [" ".join(text.split()[at % 3 :]) for at in range(9_000) for text in texts]
    counts = Counter(
        word for text in many for word in LexicalIndex.build([text], LexicalSettings()).analyser.spaced_words(text)
    )
    assert counts.keys() >= {"bees", "dance"}


def test_few_of_many_words_are_compared_letter_by_letter(monkeypatch):
    rng = np.random.default_rng(5)
    letters = np.array([*"etaoinshrdlcumwfgypbvk"])
    words = {"".join(letters[np.minimum(rng.zipf(1.4, n), 22) - 1]) for n in rng.integers(5, 14, 30_000)}
    compared = []
    monkeypatch.setattr(
        "wordpipe.search.lexical.spelling.slips_between", lambda one, other, most: compared.append(other) or most + 1
    )
    speller = Speller(table(dict.fromkeys(words, 1)))
    for word in sorted(words)[:100]:
        speller.near(word + "xk")
    assert len(compared) < 100 * len(words) / 20


@pytest.mark.parametrize(
    ("prefix", "rows"),
    [
        ("caf", [0, 1, 3]),
        ("café", [0, 1]),
        ("cafe", [0, 1, 3]),
        ("naïv", [2]),
        ("naiv", [2]),
        ("pâr", [0]),
        ("ÉTÉ", [4]),
    ],
)
def test_a_beginning_is_found_with_marks_and_without(prefix, rows):
    texts = ["Un café à Paris", "les cafés du port", "Naïveté", "cafeteria", "été"]
    index = LexicalIndex.build(texts, LexicalSettings(language="none"))
    sure_N, other_N = index.beginning(prefix)
    assert np.flatnonzero(sure_N | other_N).tolist() == rows
    assert sorted(index.best([index.read("", (prefix,))], 9)[0].rows.tolist()) == rows


@given(
    st.text("abcдё", min_size=1, max_size=8),
    st.lists(st.text("abcдё", min_size=1, max_size=9), max_size=6),
    st.sampled_from([1, 2]),
)
def test_slips_of_many_words_are_those_of_each(one, others, most):
    found = slips_of_all(one, others, most).tolist()
    assert [min(slips, most + 1) for slips in found] == [slips_between(one, other, most) for other in others]


@pytest.mark.parametrize(
    ("wrong", "fuel", "meant"), [("funel", 80, "funnel"), ("funel", 300, "fuel"), ("fuell", 80, "fuel")]
)
def test_a_letter_that_was_to_be_doubled_is_likelier_than_a_word_somewhat_more_frequent(wrong, fuel, meant):
    assert Speller(table({"fuel": fuel, "funnel": 40, "fuels": 9})).near(wrong)[0] == meant


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("kitchn", "kitchen"), ("kitcehn", "kitchen"), ("ktichen", "kitchen"), ("itchen", "kitchen"), ("bitchen", "kitchen"),
     ("kitchne", "kitchen"), ("kitchenn", "kitchen"), ("ikthen", ""), ("wirdow", "window"), ("wondiw", "window"),
     ("वायिलन", "वायलिन")],
)  # fmt: skip
def test_a_slip_at_any_place_is_mended(wrong, meant):
    words = sorted(["kitchen", "window", "harbour", "mountain", "वायलिन"])
    table = WordTable.of((word.encode(), number, 3) for number, word in enumerate(words))
    assert Speller(table).near(wrong)[:1] == ([meant] if meant else [])
