"""The pre-tokenizer suits the scripts of the text, and marks belong to words."""

from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.tokens import ANY_MARK, empty_tokenizer, resolve, scheme_of, script_shares
from wordpipe.tokens.kernels.codepoints import code_point_classes
from wordpipe.tokens.kernels.scan import marks
from wordpipe.tokens.settings import TokenizeSettings

TEXTS = {
    "English": "The sea is wide, and café is a word.",
    "Chinese": "我们今天去北京，他们明天来。",
    "Japanese": "私は東京に行きます。カレーを食べる。",
    "Thai": "เขาไปกรุงเทพเมื่อวานนี้และกินข้าวผัด",
    "Hindi": "वह कल दिल्ली गया और खाना खाया",
}


def chosen(text: str, **options: object) -> tuple[str, list[str]]:
    return resolve(TokenizeSettings.make(options), script_shares([pa.array([text, None])]))


@pytest.mark.parametrize(
    ("text", "algorithm", "name", "warnings"),
    [
        ("English", "bpe", "gpt2", 0),
        ("English", "wordpiece", "bert", 0),
        ("English", "unigram", "metaspace", 0),
        ("English", "word", "whitespace", 0),
        ("English", "char", "characters", 0),
        ("Chinese", "bpe", "gpt2", 1),
        ("Japanese", "wordpiece", "bert", 1),
        ("Thai", "bpe", "marks", 1),
        ("Thai", "wordpiece", "gpt2", 1),
        ("Thai", "unigram", "metaspace", 1),
        ("Thai", "word", "whitespace", 1),
        ("Hindi", "bpe", "marks", 0),
        ("Hindi", "wordpiece", "bert", 0),
    ],
)
def test_auto_looks_at_the_scripts(text: str, algorithm: str, name: str, warnings: int) -> None:
    found, told = chosen(TEXTS[text], algorithm=algorithm)
    assert (found, len(told)) == (name, warnings)
    assert all(text in line for line in told)


def test_a_named_pretokenizer_is_taken_and_its_faults_are_told() -> None:
    name, told = chosen(TEXTS["Hindi"], pretokenizer="gpt2", strip_accents=True)
    assert name == "gpt2"
    assert "--pretokenizer marks" in told[0]
    assert "vowel signs" in told[1]


def test_shares_are_of_letters_and_marks() -> None:
    shares = script_shares([pa.array(["ab กา", None]), pa.array(["漢 e\u0301 123 !?"])])
    assert shares["Thai"] == 2 / 7
    assert shares["Chinese"] == 1 / 7
    assert shares[ANY_MARK] == 1 / 7
    assert not any(script_shares([pa.array(["", "12"])]).values())
    assert script_shares([pa.array(["漢字をかく"])])["Japanese"] == 1


CHARACTERS = st.sampled_from(
    [*" ab\n\r'sS1९.,!", *"กิ่ไปहिन्ी漢か\u0301\u200d\u20dd\ufe0f\U000e0100😀٣", *"\u0897\U00016d67"]
)


@settings(deadline=None, max_examples=300)
@given(
    texts=st.lists(st.text(st.one_of(CHARACTERS, st.characters(exclude_categories=["Cs"])), max_size=25), max_size=4)
)
def test_marks_are_cut_as_by_tokenizers(texts: list[str]) -> None:
    made = empty_tokenizer(TokenizeSettings().model_copy(update={"pretokenizer": "marks"}))
    scheme = scheme_of(made)
    assert scheme is not None
    assert (scheme.pretokenizer, scheme.byte_level) == ("marks", True)
    rows = [text.encode() for text in texts]
    data, offsets = np.frombuffer(b"".join(rows), np.uint8), np.array([0, *accumulate(map(len, rows))], np.int64)
    starts, ends, row_ends = (
        np.empty(len(data) + 1, np.int32),
        np.empty(len(data) + 1, np.int32),
        np.empty(len(rows), np.int64),
    )
    marks(data, offsets, code_point_classes(), starts, ends, row_ends)
    spans = [scheme.letters(data[start:end].tobytes()) for start, end in zip(starts, ends, strict=True)][
        : row_ends[-1] if rows else 0
    ]
    found = [spans[low:high] for low, high in pairwise([0, *row_ends])]
    assert found == [[piece for piece, _ in made.pre_tokenizer.pre_tokenize_str(text)] for text in texts]
