"""Training a tokenizer of each kind from counts, and the file it becomes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.support.pretoken_tables import table_of
from wordpipe.errors import ConfigError, InputError
from wordpipe.tokens import SPECIAL_TOKENS, empty_tokenizer, open_tokenizer, resolve, run_splitter, train_tokenizer
from wordpipe.tokens.settings import TokenizeSettings, size_in_bytes

TEXTS = [
    f"the {a} sat on the {b} and saw {c} {a}s." for a in ("cat", "dog") for b in ("mat", "hat") for c in ("ten", "two")
]
PRETOKENIZERS = ("gpt2", "digits", "bert", "whitespace", "metaspace")


def trained(**values):
    """A tokenizer trained on TEXTS; their pre-tokens are counted by tokenizers."""
    settings = TokenizeSettings(**{"vocab_size": 400, **values})
    settings = settings.model_copy(update={"pretokenizer": resolve(settings, {})[0]})
    cutter = empty_tokenizer(settings)
    counts: Counter[str] = Counter()
    for text in TEXTS:
        text = text if cutter.normalizer is None else cutter.normalizer.normalize_str(text)
        for piece, (start, end) in cutter.pre_tokenizer.pre_tokenize_str(text):
            counts[piece if settings.pretokenizer == "metaspace" else text[start:end]] += 1
    return train_tokenizer(table_of(counts), settings).tokenizer


@pytest.fixture(scope="module", params=["bpe", "wordpiece", "unigram", "word", "char"])
def tokenizer(request):
    return trained(algorithm=request.param)


@pytest.fixture(scope="module")
def bpe():
    return trained()


def test_special_tokens_have_the_first_ids(tokenizer):
    assert [tokenizer.id_to_token(i) for i in range(len(SPECIAL_TOKENS))] == list(SPECIAL_TOKENS)


def test_the_template_frames_texts_and_pairs(tokenizer):
    single, pair = tokenizer.encode("the cat"), tokenizer.encode("the cat", "the dog")
    assert (single.tokens[0], single.tokens[-1]) == ("[CLS]", "[SEP]")
    assert pair.tokens.count("[SEP]") == 2
    assert pair.type_ids[-1] == 1


@pytest.mark.parametrize("pretokenizer", PRETOKENIZERS)
@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece", "unigram", "word"])
def test_every_algorithm_goes_with_every_pretokenizer(algorithm, pretokenizer):
    made = trained(algorithm=algorithm, pretokenizer=pretokenizer, lowercase=True)
    for text in TEXTS:
        assert " ".join(made.decode(made.encode(text.upper()).ids).replace(".", " .").split()) == text.replace(
            ".", " ."
        )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_byte_level_bpe_gives_every_text_back(bpe, text):
    ids = bpe.encode(text, add_special_tokens=False).ids
    assert bpe.decode(ids, skip_special_tokens=False) == text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_pieces_concatenate_to_the_run(bpe, text):
    assert "".join(run_splitter(bpe)(text)) == text


def test_scores_of_a_unigram_model_survive_its_file():
    made = trained(algorithm="unigram")
    assert Tokenizer.from_str(made.to_str()).to_str() == made.to_str()


def test_a_file_that_is_no_tokenizer_is_named():
    with pytest.raises(InputError, match=r"notes\.json"):
        open_tokenizer(b'{"a": 1}', where="notes.json")


def test_a_truncating_tokenizer_is_made_to_keep_everything(bpe):
    cutting = Tokenizer.from_str(bpe.to_str())
    cutting.enable_truncation(4)
    cutting.enable_padding(length=64)
    opened = open_tokenizer(cutting.to_str().encode(), where="x")
    text = " ".join(TEXTS)
    assert opened.encode(text).ids == bpe.encode(text).ids


def test_settings_of_training_are_refused_with_a_given_tokenizer():
    with pytest.raises(ConfigError, match="used as it is"):
        TokenizeSettings.make({"tokenizer": "t.json", "vocab_size": 500})


@pytest.mark.parametrize(("size", "number"), [("1GB", 10**9), ("1.5MB", 1_500_000), ("64KB", 64_000)])
def test_sizes_are_decimal(size, number):
    assert size_in_bytes(size) == number


@pytest.mark.parametrize("size", ["1", "GB", "1 GB", "-1GB", "1GiB"])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(ConfigError, match="memory"):
        TokenizeSettings.make({"memory": size})
