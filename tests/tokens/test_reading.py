"""Tokenizers are read as transformers reads them, whatever file or folder holds them; what cannot be read is refused."""

import base64
import json
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


@pytest.mark.landing
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
    with pytest.raises(InputError, match="the tokenizer does not exist"):
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


TEXTS = ["The cat sat!", "", "unknown Ωords", "Élan  vital\t漢字", "a the<mask>b", "[MASK]the"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LOWER = [*SPECIAL, "the", "cat", "sat", "##s", "!", "e", "##lan", "elan", "漢", "words", "##字"]


def write(folder, **files):
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def same(ours, theirs):
    for text in TEXTS:
        assert ours.encode(text).ids == theirs(text)["input_ids"]
        assert ours.encode(text, add_special_tokens=False).ids == theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.encode("the", "cat").ids == theirs("the", "cat")["input_ids"]
    assert ours.encode("the", "cat").type_ids == theirs("the", "cat", return_token_type_ids=True)["token_type_ids"]


@pytest.mark.landing
@pytest.mark.parametrize("lowercase", [True, False])
def test_berts_vocabulary_is_read_as_transformers_reads_it(lowercase, tmp_path):
    from transformers import BertTokenizer

    words = LOWER if lowercase else [*LOWER, "The", "Élan"]
    config = {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"}
    write(tmp_path, vocab__txt="".join(f"{word}\n" for word in words), tokenizer_config__json=config)
    same(read_tokenizer(tmp_path), BertTokenizer.from_pretrained(tmp_path))


@pytest.mark.parametrize(("words", "cased"), [(LOWER, False), ([*LOWER, "The"], True)])
def test_without_a_word_on_case_the_vocabulary_tells(words, cased, tmp_path):
    write(tmp_path, vocab__txt="\r\n".join(words))
    notes = []
    tokenizer = read_tokenizer(tmp_path, warn=notes.append)
    assert tokenizer.encode("The", add_special_tokens=False).tokens == (["The"] if cased else ["the"])
    assert "lower-cased" in notes[0]


def byte_level_files(folder, special):
    model = json.loads(byte_level().to_str())["model"]
    vocabulary = model["vocab"] | {token: len(model["vocab"]) + number for number, token in enumerate(special)}
    merges = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in model["merges"])
    return write(folder, vocab__json=vocabulary, merges__txt=merges)


@pytest.mark.landing
@pytest.mark.parametrize("prefix", [True, False])
def test_robertas_files_are_read_as_transformers_reads_them(prefix, tmp_path):
    from transformers import RobertaTokenizer

    byte_level_files(tmp_path, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    write(tmp_path, tokenizer_config__json={"add_prefix_space": prefix, "tokenizer_class": "RobertaTokenizer"})
    same(read_tokenizer(tmp_path), RobertaTokenizer.from_pretrained(tmp_path))


@pytest.mark.landing
def test_gpt2s_files_are_read_as_transformers_reads_them(tmp_path):
    from transformers import GPT2Tokenizer

    byte_level_files(tmp_path, ["<|endoftext|>"])
    theirs = GPT2Tokenizer.from_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)
    for text in [*TEXTS, "the<|endoftext|>cat"]:
        assert ours.encode(text).ids == theirs(text)["input_ids"]


def test_tokens_beside_the_vocabulary_are_added(tmp_path):
    byte_level_files(tmp_path, ["<|endoftext|>"])
    number = len(json.loads((tmp_path / "vocab.json").read_text()))
    entry = {"content": "<|user|>", "special": True, "lstrip": False, "rstrip": True}
    config = {"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {str(number + 1): entry}}
    write(tmp_path, added_tokens__json={"<new>": number}, tokenizer_config__json=config)
    ids = read_tokenizer(tmp_path).encode("<new><|user|>  <new>").ids
    assert ids == [number, number + 1, number]
    write(tmp_path, added_tokens__json={"<new>": number + 7})
    with pytest.raises(InputError, match="gets a different id than the folder gives"):
        read_tokenizer(tmp_path)


def test_a_tokenizer_json_goes_before_older_files(tmp_path):
    byte_level_files(tmp_path, ["<|endoftext|>"])
    write(tmp_path, tokenizer__json=byte_level("other text").to_str(), vocab__txt="x")
    assert read_tokenizer(tmp_path).to_str() == byte_level("other text").to_str()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no tokenizer"),
        ({"vocab__txt": "a\nb\n"}, "has no unk token"),
        ({"vocab__txt": "\n".join(LOWER), "tokenizer_config__json": {"tokenizer_class": "BertJapaneseTokenizer"}},
         "class of tokenizer"),
        ({"vocab__json": {"a": 0}, "merges__txt": "a b c\n"}, "merges.txt:1.*not a merge"),
        ({"vocab__json": {"a": 0}, "merges__txt": "#version: 0.2\na x\n"}, "cannot use these files"),
        ({"vocab__json": {"a": "b"}, "merges__txt": ""}, "no valid id"),
        ({"vocab__json": "[1]", "merges__txt": ""}, "JSON object"),
        ({"vocab__json": "{", "merges__txt": ""}, "not a JSON file"),
        ({"vocab__json": {"a": 0}}, "no tokenizer"),
        ({"tokenizer__json": "{}"}, "tokenizer.json"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(files, words, tmp_path):
    with pytest.raises(InputError, match=words):
        read_tokenizer(write(tmp_path, **files))


def test_a_model_file_in_the_folder_is_named(tmp_path):
    (tmp_path / "spiece.model").write_bytes(sentencepiece_model(["<unk>"]))
    with pytest.raises(InputError) as caught:
        read_tokenizer(tmp_path)
    assert caught.value.got == "spiece.model"
    assert "save_pretrained" in caught.value.hint
