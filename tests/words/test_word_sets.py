"""Reading sets of scored pairs and of analogies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.errors import InputError
from wordpipe.words import Pairs, Questions, read_set

WORD = st.text(st.characters(categories=["L"]), min_size=1, max_size=8)
SCORE = st.floats(-100, 100).map(lambda value: round(value, 3))


@given(
    st.lists(st.tuples(WORD, WORD, SCORE), min_size=1, max_size=9),
    st.sampled_from(["\t", ",", " ", ", ", " \t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "word1{0}word2{0}score{1}", "# of 2002{1}{1}", "\ufeff"]),
)
def test_pairs_come_back_however_they_are_parted(
    rows: list[tuple[str, str, float]], separator: str, end: str, before: str
) -> None:
    lines = [separator.join(map(str, row)) for row in rows]
    found = read_set((before.format(separator, end) + end.join([*lines, "# end", ""])).encode(), "set.txt")
    assert isinstance(found, Pairs)
    assert found.words == [row[:2] for row in rows]
    np.testing.assert_array_equal(found.scores, np.float64([row[2] for row in rows]))


@given(st.lists(st.tuples(st.sampled_from(["family", "gram 1", ""]), st.tuples(WORD, WORD, WORD, WORD)), min_size=1))
def test_questions_come_back(rows: list[tuple[str, tuple[str, str, str, str]]]) -> None:
    text = "".join(f": {section}\n{' '.join(words)}\n\n" for section, words in rows)
    found = read_set(text.encode(), "set.txt")
    assert isinstance(found, Questions)
    assert found.words == [words for _, words in rows]
    assert [found.sections[number] for number in found.section_of] == [section for section, _ in rows]
    assert len(set(found.sections)) == len(found.sections)


def test_the_columns_of_other_sets_do_no_harm() -> None:
    simlex = b"word1\tword2\tPOS\tSimLex999\tconc(w1)\nold\tnew\tA\t1.58\t2.72\nsmart\tintelligent\tA\t9.2\t1.75\n"
    found = read_set(simlex, "simlex")
    assert isinstance(found, Pairs)
    assert found.words == [("old", "new"), ("smart", "intelligent")]
    assert found.scores.tolist() == [1.58, 9.2]
    phrases = read_set(b"New York,city,7\n", "phrases")
    assert isinstance(phrases, Pairs)
    assert phrases.words == [("New York", "city")]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"cat dog 7\ncat dog\n", ["set.txt:2", "'cat dog'", "a score"]),
        (b"# head\ncat dog 7\ncat dog high\n", ["set.txt:3", "high"]),
        (b"cat dog\ncat dog 7\n", ["set.txt:1", "'cat dog'"]),
        (b"cat dog nan\n", ["set.txt:1", "nan"]),
        (b"a b c d\na b c e\n", ["set.txt:2", ": family"]),
        (b"\tdog\t7\n", ["set.txt:1"]),
        (b": family\nking queen man\n", ["set.txt:2", "four words"]),
        (b": family\n\n: more\n", ["set.txt", "no question"]),
        (b"word1 word2 score\n\n# nothing\n", ["set.txt:1", "score"]),
        (b"", ["set.txt", "no pair"]),
        (b"cat dog 7\ncaf\xe9 tea 3\n", ["set.txt:2", "UTF-8"]),
        (b"cat dog 7\n" + b"x" * 500, ["set.txt:2", "…"]),
    ],
)
def test_what_is_wrong_is_named_with_its_line(data: bytes, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        read_set(data, "set.txt")
    for word in words:
        assert word in f"{error.value.message} {error.value.hint}"
    assert len(error.value.message) < 250
