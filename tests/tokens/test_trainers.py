"""Training a tokenizer, and encoding a batch with it."""

import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from wordpipe.artifacts.schemas import CORPUS, TOKENS_16
from wordpipe.errors import ConfigError, InputError
from wordpipe.tokens.encoding import encode_batch, ragged
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.special import SPECIAL_TOKENS
from wordpipe.tokens.trainers import open_tokenizer, piece_splitter, train_tokenizer
from wordpipe.tokens.words import Words, WordSplitter

TEXTS = [
    f"the {a} sat on the {b} and saw {c} {a}s." for a in ("cat", "dog") for b in ("mat", "hat") for c in ("ten", "two")
]


@pytest.fixture(scope="module", params=["bpe", "wordpiece"])
def tokenizer(request):
    return train_tokenizer(iter(TEXTS), TokenizeSettings(algorithm=request.param, vocab_size=400))


@pytest.fixture(scope="module")
def bpe():
    return train_tokenizer(iter(TEXTS), TokenizeSettings(vocab_size=400))


def test_special_tokens_have_the_first_ids(tokenizer):
    assert [tokenizer.id_to_token(i) for i in range(len(SPECIAL_TOKENS))] == list(SPECIAL_TOKENS)


def test_the_template_frames_texts_and_pairs(tokenizer):
    single, pair = tokenizer.encode("the cat"), tokenizer.encode("the cat", "the dog")
    assert (single.tokens[0], single.tokens[-1]) == ("[CLS]", "[SEP]")
    assert pair.tokens.count("[SEP]") == 2
    assert pair.type_ids[-1] == 1


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_byte_level_bpe_gives_every_text_back(bpe, text):
    ids = bpe.encode(text, add_special_tokens=False).ids
    assert bpe.decode(ids, skip_special_tokens=False) == text


def test_bpe_training_is_repeatable():
    made = {train_tokenizer(iter(TEXTS), TokenizeSettings(vocab_size=400)).to_str() for _ in range(3)}
    assert len(made) == 1


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_pieces_concatenate_to_the_run(bpe, text):
    assert "".join(piece_splitter(bpe)(text)) == text


def test_no_text_is_an_error_for_wordpiece():
    with pytest.raises(InputError, match="no text"):
        train_tokenizer(iter([]), TokenizeSettings(algorithm="wordpiece", vocab_size=400))


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


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_encodes_like_the_tokenizer_itself(bpe, seed):
    rng = random.Random(seed)
    texts = ["".join(rng.choices("the cat sat ☃ 文章\n", k=rng.randrange(60))) for _ in range(50)]
    split = WordSplitter(piece_splitter(bpe))
    words = Words(Counter(w for t in texts for w in split(t)))
    rows = [
        {"doc_id": f"{i}", "sentence_id": i, "text": t, "split": "train", "source": "s", "line": 1, "title": None}
        for i, t in enumerate(texts)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=CORPUS)
    out = encode_batch(batch, bpe, split, words.number, TOKENS_16)
    assert out.schema == TOKENS_16
    for text, ids, word_ids in zip(texts, out["ids"].to_pylist(), out["word_ids"].to_pylist(), strict=True):
        assert ids == bpe.encode(text, add_special_tokens=False).ids
        assert [words.words[i] for i in word_ids] == split(text)


@given(st.lists(st.lists(st.integers(0, 65_535))))
def test_ragged_lists_come_back(rows):
    assert ragged(rows, TOKENS_16.field("ids").type).to_pylist() == rows
