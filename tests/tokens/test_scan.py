"""Every scanner cuts any text where its twin does: tokenizers' own pre-tokenizer, or the word pattern."""

from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from tests.support import code_point_probe
from wordpipe.tokens import WORD_PATTERN
from wordpipe.tokens.kernels.scan import COUNTED, SCANNERS, SPACE, SPOKEN, UNSPACED, code_point_classes

CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MARKS = CL100K.replace(r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]+").replace(
    r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{M}\p{N}]+"
)
TWINS = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "digits": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(CL100K), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
    "bert": pre_tokenizers.BertPreTokenizer(),
    "whitespace": pre_tokenizers.Whitespace(),
    "whitespace-split": pre_tokenizers.WhitespaceSplit(),
    "metaspace": pre_tokenizers.Metaspace(prepend_scheme="never"),
    "characters": pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"),
    "marks": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(MARKS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}
NASTY = [
    *" \t\n\r\v\f\x00\x1c\x85\xa0\u1680\u180e\u2000\u2009\u200b\u2028\u2029\u202f\u205f\u3000\ufeff",  # space, or nearly
    *"''''’‘‐-–.,!?_$+`~^|<>=￥、。「⸺",
    *"stmdrvelSTMDRVELſKaZéßıİǅʼＡŉﬅ",
    *"0123456789²¼٣१๑Ⅷ〇〡㊿𝟙",
    *"яЖאبक्षिไทยກខမ漢字ひらカナー々ｰㆍ한글",
    *"\u0301\u0308\u200d\u200c\u20dd\ufe0f\u0e31\u3099",
    *"😀👩🏽🇩🦕𐍈𠀀𰀀\U0003134f\U000323af\u0378\ue000\U000f0000\U0010ffff\uffff\ufffe▁",
]
CHARACTERS = st.one_of(st.sampled_from(NASTY), st.sampled_from(NASTY), st.characters(exclude_categories=["Cs"]))
CHUNKS = st.sampled_from(
    ["'s", "'S", "'ſ", "'Re", "'lL", "'ve ", "   ", " \n ", "\r\n\r\n", "3.5", "1,000.", "a-b'c", " ’", "ab ", "12345"]
)
TEXTS = st.lists(st.one_of(CHARACTERS, CHUNKS), max_size=30).map("".join)

DATA = Path(__file__).resolve().parents[2] / "data"
HOSTILE = [
    "a",
    " ",
    "'",
    "9",
    "\n",
    "é",
    "漢",
    "▁",
    "\0",
    "\u3000",
    "'s",
    " \n",
    "\n ",
    "1.",
    "1a",
    "a-",
    "a'",
    "\r\n!",
]


def scan(name: str, texts: Sequence[str]) -> list[list[str]]:
    """The pre-tokens of each text."""
    rows = [text.encode() for text in texts]
    data = np.frombuffer(b"".join(rows), dtype=np.uint8)
    offsets = np.array([0, *accumulate(map(len, rows))], dtype=np.int64)
    starts, ends = np.full((2, len(data) + 1), -1, dtype=np.int32)
    row_ends = np.full(len(rows), -1, dtype=np.int64)
    count = SCANNERS[name](data, offsets, code_point_classes(), starts, ends, row_ends)
    assert count == (row_ends[-1] if rows else 0)
    spans = [bytes(data[start:end]).decode() for start, end in zip(starts[:count], ends[:count], strict=True)]
    for (low, high), (begin, stop) in zip(pairwise([0, *row_ends]), pairwise(offsets), strict=True):
        bounds = np.column_stack([starts[low:high], ends[low:high]]).ravel()
        assert (np.diff(np.concatenate([[begin], bounds, [stop]])) >= 0).all()  # in order, within the row
    return [spans[low:high] for low, high in pairwise([0, *row_ends])]


def twin(name: str, text: str) -> list[str]:
    if name == "words":
        return WORD_PATTERN.findall(text)
    return [text[start:end] for _, (start, end) in TWINS[name].pre_tokenize_str(text)]


def cut_by_both(name: str, texts: Sequence[str]) -> tuple[list[list[str]], list[list[str]]]:
    if name == "metaspace":
        texts = [text.replace(" ", "▁") for text in texts]
    return scan(name, texts), [twin(name, text) for text in texts]


@pytest.mark.parametrize("name", SCANNERS)
@given(texts=st.lists(TEXTS, max_size=4))
def test_any_text_is_cut_where_its_twin_cuts_it(name: str, texts: list[str]) -> None:
    ours, theirs = cut_by_both(name, texts)
    assert ours == theirs


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SCANNERS)
def test_the_sample_corpus_is_cut_where_the_twin_cuts_it(name: str, step: int) -> None:
    files = sorted(path for path in DATA.rglob("*") if path.is_file())
    texts = [path.read_bytes().decode("utf-8", errors="replace") for path in files]
    ours, theirs = cut_by_both(name, [part for text in texts for part in (text, *text.splitlines())][::step])
    assert len(ours) > 1000 / step
    assert ours == theirs


@pytest.mark.parametrize("name", SCANNERS)
def test_every_short_text_of_the_patterns_own_characters(name: str) -> None:
    letters = " \n'sſeLl1.-’a!é"
    ours, theirs = cut_by_both(name, ["".join(text) for length in range(4) for text in product(letters, repeat=length)])
    assert ours == theirs


@pytest.mark.parametrize("n", [20_000, pytest.param(200_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SCANNERS)
def test_long_rows_of_one_thing_take_linear_time(name: str, n: int) -> None:
    """A scan that begins anew at each place would take minutes here, or hours."""
    rows = [unit * (n // len(unit)) + "x" for unit in HOSTILE]
    for row, spans in zip(rows, scan(name, rows), strict=True):
        if name in {"gpt2", "digits", "metaspace", "marks", "characters"}:
            assert "".join(spans) == row
        elif name != "words":
            assert "".join(spans) == "".join(row.split())
        else:
            assert "".join(spans)[-1] == "x"


def test_rows_are_cut_apart_and_nothing_is_written_behind_the_spans() -> None:
    assert scan("gpt2", ["it'", "s", "", " ", " b", "1", "2"]) == [["it", "'"], ["s"], [], [" "], [" b"], ["1"], ["2"]]
    assert scan("words", ["sea-", "bed", "3.", "5"]) == [["sea"], ["bed"], ["3"], ["5"]]
    assert scan("bert", []) == []


@pytest.mark.parametrize("name", SCANNERS)
def test_rows_of_letters_that_touch_are_cut_apart(name: str) -> None:
    """Eight letters are read at once, across the end of a row and up to the end of the data."""
    rows = [["a" * length, "b" * other] for length in range(1, 20) for other in range(1, 20)]
    whole = list if name == "characters" else lambda text: [text]
    assert [scan(name, pair) for pair in rows] == [[whole(first), whole(second)] for first, second in rows]


@pytest.mark.slow  # every character, by two libraries
def test_the_table_says_what_the_libraries_say() -> None:
    """If this fails, a library has new Unicode tables: write ours anew (`python -m tests.support.code_point_probe`)."""
    ours, theirs = code_point_classes().copy(), code_point_probe.probe()
    unheard_of = code_point_probe.EVERY[code_point_probe.matched_by_regex(r"\p{Cn}+")]  # an older `regex` knows fewer
    for classes in (ours, theirs):
        classes[unheard_of] &= ~np.uint8(SPOKEN | COUNTED | UNSPACED)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_all_pre_tokenizers_agree_on_white_space() -> None:
    spaces = code_point_classes()[code_point_probe.EVERY] & SPACE > 0
    for name in ["bert", "whitespace", "whitespace-split"]:
        np.testing.assert_array_equal(code_point_probe.kept(TWINS[name]), ~spaces)


def test_the_table_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        code_point_classes()[0] = 1
