"""Rows come out as tokenizers' own normalizer leaves them, whatever stands in them."""

import json
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from wordpipe.tokens import RowNormalizer, empty_tokenizer, scheme_of
from wordpipe.tokens.settings import TokenizeSettings

DATA = Path(__file__).parents[2] / "data"
NASTY = [
    *" aAbJKI\x00\x1f\t\n\r\x7f\x85\xa0\u200b\xad\ufeff\ufffd\u2028\u3000▁",
    *"İıßẞΣςσﬁ①²ℌ™㌕ﷺKÅΩéÉǰỡ",
    *"\u0301\u0308\u0323\u0327\u030c\u0344\u0345\u0338\u093c\u094d\u09be\u0e38\u0e48\u302a\u3099ﾞ\u0f71\u0f72\u1dfa",
    *"가각각ㄳ한क़षিতทুの漢豈\uf900\U0002f800𐍈😀\U000e0041\U000e01ef\u0378\uffff\U0010ffff\U0001d15e\U0001d165\U000110ba",
]
TEXTS = st.lists(st.one_of(st.sampled_from(NASTY), st.characters(exclude_categories=["Cs"])), max_size=20).map("".join)
PARTS = {
    "uncased": (normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()),
    "cased": (normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer()),
    "stripped": (
        normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]),
        pre_tokenizers.Whitespace(),
    ),
    "folded first": (normalizers.Sequence([normalizers.Lowercase(), normalizers.NFC()]), pre_tokenizers.Whitespace()),
    "roberta": (None, pre_tokenizers.ByteLevel(add_prefix_space=True)),
}
OURS = {
    f"{cutting} {form} {lowercase} {strip}": TokenizeSettings(
        pretokenizer=cutting, normalization=form, lowercase=lowercase, strip_accents=strip
    )
    for cutting, form, lowercase, strip in (
        ("gpt2", "none", False, False),
        ("gpt2", "nfc", False, False),
        ("digits", "nfkc", True, False),
        ("whitespace", "none", True, True),
        ("bert", "none", True, False),
        ("bert", "nfkc", True, True),
        ("metaspace", "none", False, False),
        ("metaspace", "nfkc", True, True),
    )
}
NAMES = [*PARTS, *OURS]


@cache
def tokenizer(name: str) -> Tokenizer:
    if name in OURS:
        return empty_tokenizer(OURS[name])
    made = Tokenizer(models.BPE())
    normalizer, made.pre_tokenizer = PARTS[name]
    if normalizer is not None:
        made.normalizer = normalizer
    return made


@cache
def normaliser(name: str) -> RowNormalizer:
    scheme = scheme_of(tokenizer(name))
    assert scheme is not None
    return RowNormalizer(tokenizer(name), scheme)


def buffers(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    rows = [text.encode() for text in texts]
    return np.frombuffer(b"".join(rows), np.uint8), np.array([0, *accumulate(map(len, rows))], np.int64)


def normalised(name: str, texts: Sequence[str]) -> list[str]:
    data, offsets = normaliser(name).rows(*buffers(texts))
    return [data[start:end].tobytes().decode() for start, end in pairwise(offsets)]


def twin(name: str, text: str) -> str:
    """What the model of the tokenizer sees, before letters stand for bytes."""
    made = tokenizer(name)
    normal = text if made.normalizer is None else made.normalizer.normalize_str(text)
    if name.startswith("metaspace"):
        return "".join(piece for piece, _ in made.pre_tokenizer.pre_tokenize_str(normal))
    return " " + normal if name == "roberta" and normal and normal[0] != " " else normal


@pytest.mark.parametrize("name", NAMES)
@given(texts=st.lists(TEXTS, max_size=4))
def test_any_text_is_normalised_as_by_tokenizers(name: str, texts: list[str]) -> None:
    assert normalised(name, texts) == [twin(name, text) for text in texts]


@pytest.mark.parametrize("name", NAMES)
def test_marks_in_any_order_are_normalised_as_by_tokenizers(name: str) -> None:
    marks = [chr(point) for point in range(0x300, 0x1100) if unicodedata.combining(chr(point))]
    rng = np.random.default_rng(7)
    texts = ["".join(["eI가"[row % 3], *rng.choice(marks, size=1 + row % 4), "z"[: row % 2]]) for row in range(500)]
    assert normalised(name, texts) == [twin(name, text) for text in texts]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_real_text_is_normalised_as_by_tokenizers(name: str, step: int) -> None:
    texts = [line for path in sorted(DATA.rglob("*.*")) for line in path.read_text("utf-8", "replace").splitlines()]
    texts = texts[::step]
    assert len(texts) > 1000 / step
    assert normalised(name, texts) == [twin(name, text) for text in texts]


@pytest.mark.parametrize("name", list(OURS))
def test_what_is_normalised_stays_as_it_is(name: str) -> None:
    """So the same text never gets two spellings; but BERT puts spaces around Chinese characters each time."""
    texts = ["".join(map(chr, range(start, start + 64))) for start in range(0, 0xD800, 64)] + NASTY
    once = normalised(name, ["x" + text for text in texts])
    assert [row.split() for row in normalised(name, once)] == [row.split() for row in once]


def test_text_that_stays_as_it_is_is_not_copied() -> None:
    data, offsets = buffers(["a B", "", "ü"])
    same, same_offsets = normaliser("gpt2 none False False").rows(data, offsets)
    assert same is data
    assert same_offsets is offsets


def test_text_may_grow_many_times_over() -> None:
    texts = ["ﷺ" * 5000, "", "İ" * 70_000, "e\u0301" * 3000]  # more stretches and bytes than there is room for at first
    name = "digits nfkc True False"
    assert normalised(name, texts) == [twin(name, text) for text in texts]


def test_normaliser_of_a_saved_tokenizer_is_the_same() -> None:
    saved = Tokenizer.from_str(json.dumps(json.loads(tokenizer("bert nfkc True True").to_str())))
    scheme = scheme_of(saved)
    assert scheme is not None
    data, offsets = RowNormalizer(saved, scheme).rows(*buffers(["ÉCOLE ﬁ"]))
    assert data[offsets[0] : offsets[1]].tobytes() == b"ecole fi"
