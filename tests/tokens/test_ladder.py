"""Smaller BPE tokenizers cut from a larger one are those that training would have given."""

import json
import random

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from wordpipe.errors import ConfigError
from wordpipe.tokens.judge.ladder import cut_merges, is_bpe

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def trained(lines: list[str], size: int, *, prefix: str | None = None) -> Tokenizer:
    made = Tokenizer(models.BPE(continuing_subword_prefix=prefix) if prefix else models.BPE())
    made.pre_tokenizer = pre_tokenizers.Whitespace() if prefix else pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    extra = {"continuing_subword_prefix": prefix} if prefix else {}
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False, **extra)
    made.train_from_iterator(lines, trainer)
    ids = [(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ids)
    return made


def some_lines(seed: int) -> list[str]:
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefg", k=draw.randint(1, 7))) for _ in range(300)]
    return [" ".join(draw.choices(words, weights=range(300, 0, -1), k=12)) for _ in range(150)]


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_tokenizer_is_the_one_trained_with_that_size(seed):
    lines = some_lines(seed)
    large = trained(lines, 200)
    for size in (20, 60, 123, 199, 200):
        cut, expected = cut_merges(large, size), trained(lines, size)
        assert json.loads(cut.to_str()) == json.loads(expected.to_str())
        assert cut.get_vocab_size() == size


def test_a_prefix_within_words_is_no_letter_of_a_result():
    lines = some_lines(7)
    large = trained(lines, 200, prefix="##")
    cut = cut_merges(large, 60)
    ids = large.get_vocab()
    assert cut.get_vocab() == {token: number for token, number in ids.items() if number < 60}
    made = json.loads(cut.to_str())["model"]["merges"]
    assert made == json.loads(large.to_str())["model"]["merges"][: len(made)]


@pytest.mark.parametrize("in_model", [True, False])
def test_special_tokens_with_the_highest_ids_stay(in_model):
    parts = json.loads(trained(some_lines(1), 120).to_str())
    vocab = parts["model"]["vocab"]
    ordinary = [token for token in sorted(vocab, key=vocab.get) if token not in SPECIAL]
    tokens = [*ordinary, "<|end|>"] if in_model else ordinary
    parts["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    parts["added_tokens"] = []
    large = Tokenizer.from_str(json.dumps(parts))
    large.post_processor = None
    large.add_special_tokens([AddedToken("<|end|>", special=True)])
    assert large.token_to_id("<|end|>") == len(ordinary)
    cut = cut_merges(large, 60)
    assert cut.get_vocab_size() == 60
    assert cut.token_to_id("<|end|>") == 59
    assert cut.encode("abc<|end|>").ids[-1] == 59
    assert cut.decode(cut.encode("abc defg").ids) == "abc defg"


def test_merges_written_as_strings_are_read():
    large = trained(some_lines(2), 120)
    parts = json.loads(large.to_str())
    parts["model"]["merges"] = [" ".join(pair) for pair in parts["model"]["merges"]]
    cut = cut_merges(Tokenizer.from_str(json.dumps(parts)), 60)
    assert cut.get_vocab() == cut_merges(large, 60).get_vocab()


def test_what_cannot_be_cut():
    large = trained(some_lines(3), 100)
    for size in (0, 8, 101):
        with pytest.raises(ConfigError, match=str(size)):
            cut_merges(large, size)
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    assert is_bpe(large)
    assert not is_bpe(words)
    with pytest.raises(ConfigError, match="WordLevel"):
        cut_merges(words, 1)
