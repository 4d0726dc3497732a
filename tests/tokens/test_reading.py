import base64
import random
import re
from inspect import signature

import pyarrow as pa
import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.support.tokenizer_files import sentencepiece_model, tiktoken_file
from wordpipe.errors import InputError
from wordpipe.tokens import CL100K, GPT2, Encoder, open_tokenizer, read_tokenizer


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


# ---- what transformers converts

SENTENCEPIECE, TIKTOKEN = sentencepiece_model(["<unk>", "a", "▁"]), tiktoken_file([b"a", b"b", b"ab"])


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("spiece.model", SENTENCEPIECE, "sentencepiece model.*AutoTokenizer.from_pretrained"),
        ("x.spm", b"damaged", "sentencepiece model.*save_pretrained"),
        ("vocabulary", SENTENCEPIECE, "sentencepiece model.*AutoTokenizer"),
        ("x.tiktoken", TIKTOKEN, r"tiktoken file.*TikTokenConverter\('x.tiktoken'"),
        ("tokenizer.model", TIKTOKEN, "tiktoken file.*TikTokenConverter"),  # as Llama 3 names it
        ("y.tiktoken", b"", "tiktoken file.*TikTokenConverter"),
    ],
)
def test_files_of_sentencepiece_and_tiktoken_are_known_and_their_converter_is_named(name, data, words, tmp_path):
    with pytest.raises(InputError) as caught:
        read_tokenizer(written(tmp_path, name, data))
    assert re.search(words, f"{caught.value.message} {caught.value.hint}")


def test_the_converters_are_there():
    from transformers import AutoTokenizer
    from transformers.convert_slow_tokenizer import TikTokenConverter

    assert {"vocab_file", "pattern", "extra_special_tokens"} <= signature(TikTokenConverter).parameters.keys()
    assert AutoTokenizer.from_pretrained


# ---- tokenizer.json


def byte_level(text="the cat sat on the mat, the bat sat", pattern=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pattern is not None:
        cut = pre_tokenizers.Split(Regex(pattern), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(False, use_regex=False)])
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text] * 5, trainer)
    return tokenizer


def test_nothing_is_cut_and_nothing_is_filled_up(tmp_path):
    tokenizer = byte_level()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    opened = read_tokenizer(written(tmp_path, "tokenizer.json", tokenizer.to_str().encode()))
    assert opened.encode("the cat sat").ids == byte_level().encode("the cat sat").ids


def test_a_pattern_that_may_run_very_long_is_named(tmp_path):
    notes = []
    for pattern in (CL100K, GPT2, " ", r"(x+x+)+y"):
        path = written(tmp_path, "tokenizer.json", byte_level(pattern=pattern).to_str().encode())
        read_tokenizer(path, warn=notes.append)
    assert len(notes) == 1
    assert "(x+x+)+y" in notes[0]


@pytest.mark.parametrize("data", [b"{", b"{}", b"\xff{", b'{"a":' * 5000, b'{"version":"1.0"}', b"[]", b"plain text"])
def test_what_is_no_tokenizer_is_refused(data, tmp_path):
    with pytest.raises(InputError, match=r"x\.json"):
        read_tokenizer(written(tmp_path, "x.json", data))
    with pytest.raises(InputError, match=r"notes\.json"):
        open_tokenizer(data, where="notes.json")


def charsmap(rules):
    """A table that replaces single ASCII characters: a trie of one level, in three blocks of 256 units."""
    units, texts = [0] * 768, b""
    units[0] = 256 << 10  # the root's children begin at 256
    for character, text in rules.items():
        place = 256 ^ ord(character)
        value = 512 ^ ord(character)
        units[place] = (place ^ value) << 10 | 1 << 8 | ord(character)
        units[value] = 1 << 31 | len(texts)
        texts += text.encode() + b"\0"
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(trie).to_bytes(4, "little") + trie + texts


def test_a_damaged_table_in_a_tokenizer_json_is_the_files_fault(tmp_path):
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Precompiled(charsmap({"A": "a"}))
    data = tokenizer.to_str().encode()
    assert read_tokenizer(written(tmp_path, "good.json", data)).encode("A").tokens == ["a"]
    table = charsmap({"A": "a"})
    wrong = table[:4] + b"\xff" * 4 + table[8:]  # the root's children are far outside
    damaged = data.replace(base64.b64encode(table), base64.b64encode(wrong))
    encoder = Encoder(read_tokenizer(written(tmp_path, "x.json", damaged)))
    with pytest.raises(InputError, match="cannot encode the text"):
        list(encoder.encode([pa.array(["A ab"])]))


def test_an_empty_vocabulary_is_refused(tmp_path):
    with pytest.raises(InputError, match="no tokens"):
        read_tokenizer(written(tmp_path, "x.json", Tokenizer(models.BPE()).to_str().encode()))


def test_ids_that_would_need_a_huge_table_are_refused(tmp_path):
    data = Tokenizer(models.WordLevel({"a": 0, "b": 77}, unk_token="a")).to_str().replace("77", "4000000000").encode()
    with pytest.raises(InputError, match="4000000000"):
        read_tokenizer(written(tmp_path, "x.json", data))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no such tokenizer"):
        read_tokenizer(tmp_path / "nowhere.json")


# ---- hostile files


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_are_refused_or_read_but_never_crash(seed, tmp_path):
    rng, refused = random.Random(seed), 0
    for _ in range(30):
        data = bytearray(byte_level().to_str().encode())
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.randint(0, 2 * len(data)) :]
        try:
            read_tokenizer(written(tmp_path, "x.json", bytes(data))).encode("A ab BcBB\x00 é" * 3)
        except InputError:
            refused += 1
    assert 0 < refused <= 30
