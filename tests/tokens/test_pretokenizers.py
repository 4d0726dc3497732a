"""Tokenizers are built as the settings say, recognised where the compiled code does the same, chosen for the scripts."""

import json
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from wordpipe.tokens import (
    ANY_MARK,
    CHARACTERS,
    CL100K,
    SPECIAL_TOKENS,
    UNK,
    AddedTokens,
    Scheme,
    added_token_patterns,
    build_tokenizer,
    byte_letters,
    empty_tokenizer,
    resolve,
    scheme_of,
    script_shares,
)
from wordpipe.tokens.kernels.scan import code_point_classes, marks
from wordpipe.tokens.settings import TokenizeSettings

NAMES = ["gpt2", "digits", "marks", "bert", "whitespace", "metaspace", "characters"]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(
    lambda text: not any(token.lower() in text.lower() for token in SPECIAL_TOKENS)
)
BYTES = {letter: row for row, letter in enumerate([*SPECIAL_TOKENS, *byte_letters()])}


def chosen(pretokenizer: str, **options: object) -> TokenizeSettings:
    return TokenizeSettings().model_copy(update={"pretokenizer": pretokenizer, **options})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["none", "nfc", "nfkc"])
def test_every_tokenizer_of_ours_is_recognised_after_saving(name: str, form: str) -> None:
    for lowercase, strip in ((False, False), (True, False), (False, True), (True, True)):
        made = empty_tokenizer(chosen(name, normalization=form, lowercase=lowercase, strip_accents=strip))
        scheme = scheme_of(Tokenizer.from_str(made.to_str()))
        assert scheme is not None
        assert (scheme.pretokenizer, scheme.byte_level) == (name, name in ("gpt2", "digits", "marks"))


@pytest.mark.parametrize("name", ["gpt2", "digits", "marks"])
@pytest.mark.parametrize("form", ["none", "nfc", "nfkc"])
@given(text=TEXTS, lowercase=st.booleans(), strip=st.booleans())
def test_bytes_never_lose_a_character(name: str, form: str, text: str, lowercase: bool, strip: bool) -> None:
    made = build_tokenizer(
        models.BPE(vocab=BYTES, merges=[]), chosen(name, normalization=form, lowercase=lowercase, strip_accents=strip)
    )
    normal = text if made.normalizer is None else made.normalizer.normalize_str(text)
    ids = made.encode(text, add_special_tokens=False).ids
    assert made.decode(ids, skip_special_tokens=False) == normal


@settings(deadline=None)
@given(text=TEXTS)
def test_characters_come_back(text: str) -> None:
    vocab = {token: row for row, token in enumerate(dict.fromkeys([*SPECIAL_TOKENS, *text]))}
    made = build_tokenizer(models.BPE(vocab=vocab, merges=[], unk_token=UNK), chosen("characters", algorithm="char"))
    assert made.decode(made.encode(text, add_special_tokens=False).ids) == text


def test_wordpiece_and_metaspace_come_back() -> None:
    vocab = {token: row for row, token in enumerate([*SPECIAL_TOKENS, "▁red", "##der", "▁hot", "red", "##hot"])}
    model = models.WordPiece(vocab=vocab, unk_token=UNK)
    made = build_tokenizer(model, chosen("metaspace"))
    assert made.decode(made.encode("redder hot").ids) == "redder hot"
    made = build_tokenizer(model, chosen("bert"))
    assert made.decode(made.encode("redhot red").ids) == "redhot red"


def test_template_puts_special_tokens_and_segments() -> None:
    made = build_tokenizer(models.BPE(vocab=BYTES, merges=[]), chosen("gpt2"))
    pair = made.encode("a", "b")
    assert pair.tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 1, 1]
    assert [made.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))


@pytest.mark.parametrize(
    ("options", "text", "normal"),
    [
        ({"lowercase": True}, "ÉCOLE İ", "école i\u0307"),  # folding case leaves accents
        ({"strip_accents": True}, "École 각", "Ecole 각"),  # syllables are put together again
        ({"normalization": "nfc", "lowercase": True}, "J\u030c e\u0301", "ǰ é"),
        ({"normalization": "nfkc"}, "ﬁ ①", "fi 1"),
        ({}, "ﬁ e\u0301", "ﬁ e\u0301"),
    ],
)
@pytest.mark.parametrize("name", ["gpt2", "bert", "metaspace"])
def test_settings_mean_what_they_say(name: str, options: dict[str, object], text: str, normal: str) -> None:
    made = empty_tokenizer(chosen(name, **options))
    assert (made.normalizer.normalize_str(text) if made.normalizer is not None else text) == normal


BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
PUBLIC = {
    "gpt2": (None, pre_tokenizers.ByteLevel(add_prefix_space=False), Scheme("gpt2", True)),
    "roberta": (None, pre_tokenizers.ByteLevel(add_prefix_space=True), Scheme("gpt2", True, prefix=" ")),
    "modernbert": (normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False), Scheme("gpt2", True)),
    "llama 3": (
        None,
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CL100K), "isolated"), BYTE_LEVEL]),
        Scheme("digits", True),
    ),
    "uncased": (normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), Scheme("bert", False)),
    "metaspace": (None, pre_tokenizers.Metaspace(prepend_scheme="never"), Scheme("metaspace", False, "▁")),
    "first": (None, pre_tokenizers.Metaspace(prepend_scheme="first"), Scheme("metaspace", False, "▁", "▁")),
    "unknown normalizer": (normalizers.Replace("a", "b"), pre_tokenizers.BertPreTokenizer(), None),
    "nothing cut": (None, None, None),
    "first, after a normalizer": (normalizers.BertNormalizer(), pre_tokenizers.Metaspace(prepend_scheme="first"), None),
    "another mark": (None, pre_tokenizers.Metaspace(replacement="_"), None),
    "not split": (None, pre_tokenizers.Metaspace(split=False), None),
    "no pattern": (None, BYTE_LEVEL, None),
    "another pattern": (
        None,
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CL100K + "|x"), "isolated"), BYTE_LEVEL]),
        None,
    ),
    "the other part": (None, pre_tokenizers.Split(Regex(CHARACTERS), "isolated", invert=True), None),
    "two at work": (
        None,
        pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits()]),
        None,
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_tokenizers_are_recognised_and_others_are_not(name: str) -> None:
    normalizer, pre_tokenizer, scheme = PUBLIC[name]
    made = Tokenizer(models.BPE())
    if normalizer is not None:
        made.normalizer = normalizer
    if pre_tokenizer is not None:
        made.pre_tokenizer = pre_tokenizer
    assert scheme_of(made) == scheme


def test_letters_are_those_of_the_byte_level_pre_tokenizer() -> None:
    text = "a é\x00漢"
    letters = "".join(piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text))
    assert Scheme("gpt2", True).letters(text.encode()) == letters
    assert Scheme("bert", False).letters(text.encode()) == text
    assert decoders.ByteLevel().decode([letters]) == text


def test_added_tokens_are_known_unless_the_normalizer_may_make_them() -> None:
    made = empty_tokenizer(chosen("gpt2", lowercase=True))
    assert added_token_patterns(made) == sorted(token.encode() for token in SPECIAL_TOKENS)
    made.add_tokens([AddedToken("<url>", normalized=True)])
    assert added_token_patterns(made) is None
    plain = empty_tokenizer(chosen("gpt2"))
    plain.add_tokens([AddedToken("<url>", normalized=True)])
    assert b"<url>" in (added_token_patterns(plain) or [])
    assert json.loads(plain.to_str())["normalizer"] is None


@settings(deadline=None)
@given(
    rows=st.lists(st.text("ab[é", max_size=12), max_size=8),
    patterns=st.lists(st.text("ab[é", min_size=1, max_size=3), max_size=4),
)
def test_rows_with_a_pattern_are_marked(rows: list[str], patterns: list[str]) -> None:
    encoded = [row.encode() for row in rows]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    marked = AddedTokens([pattern.encode() for pattern in patterns]).marked(
        np.frombuffer(b"".join(encoded), np.uint8), offsets
    )
    assert marked.tolist() == [any(pattern in row for pattern in patterns) for row in rows]


SCRIPTS = {
    "English": "The sea is wide, and café is a word.",
    "Chinese": "我们今天去北京，他们明天来。",
    "Japanese": "私は東京に行きます。カレーを食べる。",
    "Thai": "เขาไปกรุงเทพเมื่อวานนี้และกินข้าวผัด",
    "Hindi": "वह कल दिल्ली गया और खाना खाया",
}


def resolved(text: str, **options: object) -> tuple[str, list[str]]:
    return resolve(TokenizeSettings.make(options), script_shares([pa.array([text, None])]))


@pytest.mark.parametrize(
    ("text", "algorithm", "name", "warnings"),
    [
        ("English", "bpe", "gpt2", 0),
        ("English", "wordpiece", "bert", 0),
        ("English", "unigram", "metaspace", 0),
        ("English", "word", "whitespace", 0),
        ("English", "char", "characters", 0),
        ("Chinese", "bpe", "gpt2", 0),
        ("Japanese", "wordpiece", "bert", 1),
        ("Thai", "bpe", "marks", 0),
        ("Thai", "wordpiece", "gpt2", 1),
        ("Thai", "unigram", "metaspace", 0),
        ("Thai", "word", "whitespace", 1),
        ("Hindi", "bpe", "marks", 0),
        ("Hindi", "wordpiece", "bert", 0),
    ],
)
def test_auto_looks_at_the_scripts(text: str, algorithm: str, name: str, warnings: int) -> None:
    found, told = resolved(SCRIPTS[text], algorithm=algorithm)
    assert (found, len(told)) == (name, warnings)
    assert all(text in line for line in told)


def test_a_named_pretokenizer_is_taken_and_its_faults_are_told() -> None:
    name, told = resolved(SCRIPTS["Hindi"], pretokenizer="gpt2", strip_accents=True)
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
