"""Training a tokenizer of each kind from counts, and its file; word and character vocabularies against plain counting."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.support.pretoken_tables import table_of
from wordpipe.errors import ConfigError, InputError
from wordpipe.tokens import (
    SPECIAL_TOKENS,
    UNK,
    empty_tokenizer,
    open_tokenizer,
    resolve,
    run_splitter,
    train_chars,
    train_tokenizer,
    train_words,
)
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
    with pytest.raises(ConfigError, match="used without training"):
        TokenizeSettings.make({"tokenizer": "t.json", "vocab_size": 500})


@pytest.mark.parametrize(("size", "number"), [("1GB", 10**9), ("1.5MB", 1_500_000), ("64KB", 64_000)])
def test_sizes_are_decimal(size, number):
    assert size_in_bytes(size) == number


@pytest.mark.parametrize("size", ["1", "GB", "1 GB", "-1GB", "1GiB"])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(ConfigError, match="memory"):
        TokenizeSettings.make({"memory": size})


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
LETTERS = st.text("ab é日 \n", min_size=1, max_size=3)


def words_of(counts, size, least=1, byte_level=False):
    return train_words(
        table_of(counts),
        vocab_size=size,
        min_frequency=least,
        special_tokens=SPECIAL_TOKENS,
        byte_level=byte_level,
    )


def chars_of(counts, size, least=1, byte_level=False):
    return train_chars(
        table_of(counts),
        vocab_size=size,
        min_frequency=least,
        special_tokens=SPECIAL_TOKENS,
        byte_level=byte_level,
    )


@pytest.mark.parametrize("byte_level", [False, True])
@given(
    texts=st.lists(st.text("ab é日\u00a0\u0100\u00ad", min_size=1, max_size=9), max_size=20),
    size=st.integers(8, 30),
    least=st.integers(1, 3),
)
def test_words_are_those_of_tokenizers(byte_level, texts, size, least):
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else pre_tokenizers.WhitespaceSplit()
    reference = Tokenizer(models.WordLevel(unk_token=UNK))
    reference.pre_tokenizer = splitter
    trainer = trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=least, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    reference.train_from_iterator(texts, trainer)
    counts = Counter(
        text[start:end] for text in texts for _, (start, end) in splitter.pre_tokenize_str(text) if start < end
    )
    assert words_of(counts, size, least, byte_level).vocab == reference.get_vocab()


def test_left_out_words_are_counted():
    made = words_of({"the": 9, "cat": 4, "sat": 4, "mat": 1}, 9, least=2)
    assert list(made.vocab) == [*SPECIAL_TOKENS, "the", "cat"]
    assert (made.dropped, made.dropped_occurrences) == (2, 5)


def test_a_word_like_a_special_token_shares_its_id():
    made = words_of({"[MASK]": 9, "the": 4, "cat": 3, "mat": 2}, 9)
    assert list(made.vocab.items())[7:] == [("the", 7), ("cat", 8)]
    assert made.vocab["[MASK]"] == SPECIAL_TOKENS.index("[MASK]")
    assert (made.dropped, made.dropped_occurrences) == (1, 2)


@given(st.dictionaries(LETTERS, st.integers(1, 5)), st.integers(8, 16), st.integers(1, 4))
def test_characters_are_ranked_by_count_then_code_point(counts, size, least):
    seen = Counter()
    for text, count in counts.items():
        for char in text:
            seen[char] += count
    ranked = sorted((char for char in seen if seen[char] >= least), key=lambda char: (-seen[char], char))
    kept = ranked[: size - len(SPECIAL_TOKENS)]
    made = chars_of(counts, size, least)
    assert made.vocab == {token: row for row, token in enumerate([*SPECIAL_TOKENS, *kept])}
    assert made.dropped == len(seen) - len(kept)
    assert made.dropped_occurrences == seen.total() - sum(seen[char] for char in kept)


@pytest.mark.parametrize(
    "splitter", [None, pre_tokenizers.Split(Regex(r"\s+|\p{L}+|\p{N}+|[^\s\p{L}\p{N}]+"), "isolated")]
)
@given(text=TEXT)
def test_known_characters_come_back(splitter, text):
    made = chars_of({text: 1} if text else {}, 64)
    tokenizer = Tokenizer(models.BPE(made.vocab, [], unk_token=UNK))
    tokenizer.decoder = decoders.Fuse()
    if splitter is not None:
        tokenizer.pre_tokenizer = splitter
    ids = tokenizer.encode(text).ids
    assert ids == [made.vocab[char] for char in text]
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@given(TEXT)
def test_bytes_give_every_text_back(text):
    made = chars_of({"aab": 3}, 263, byte_level=True)
    assert list(made.vocab)[7:9] == ["a", "b"]
    tokenizer = Tokenizer(models.BPE(made.vocab, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    ids = tokenizer.encode(text).ids
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text


def test_an_unknown_character_is_one_unknown_token():
    made = chars_of({"ab": 1}, 20)
    tokenizer = Tokenizer(models.BPE(made.vocab, [], unk_token=UNK))
    assert tokenizer.encode("axyb").ids == [7, 1, 1, 8]
