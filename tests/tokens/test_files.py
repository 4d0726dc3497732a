"""Tokenizers are read as transformers reads them, or refused; in the formats of other programs they give the same ids."""

import base64
import json
import random
import re
from inspect import signature

import pyarrow as pa
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BertTokenizer

from tests.support.tokenizer_files import sentencepiece_model, tiktoken_file
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.tokens import (
    CL100K,
    FOLDERS,
    FORMATS,
    SPECIAL_TOKENS,
    Encoder,
    export_tokenizer,
    framed_tokenizer,
    open_tokenizer,
    read_tokenizer,
    transformers_files,
)


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
    from transformers.convert_slow_tokenizer import TikTokenConverter

    assert {"vocab_file", "pattern", "extra_special_tokens"} <= signature(TikTokenConverter).parameters.keys()


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


# ---- folders


def write(folder, **files):
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def test_a_tokenizer_json_goes_before_older_files(tmp_path):
    write(tmp_path, tokenizer__json=byte_level("other text").to_str(), vocab__txt="x")
    assert read_tokenizer(tmp_path).to_str() == byte_level("other text").to_str()


def test_other_files_of_the_folder_must_not_number_tokens_anew(tmp_path):
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<|user|>"])
    number = tokenizer.token_to_id("<|user|>")
    write(tmp_path, tokenizer__json=tokenizer.to_str(), added_tokens__json={"<|user|>": number})
    write(tmp_path, tokenizer_config__json={"added_tokens_decoder": {str(number): {"content": "<|user|>"}}})
    assert read_tokenizer(tmp_path).encode("<|user|>").ids == [number]
    for files in (
        {"added_tokens__json": {"<new>": number + 1}},
        {"tokenizer_config__json": {"added_tokens_decoder": {str(number + 1): {"content": "<|user|>"}}}},
        {"tokenizer_config__json": "[1]"},
        {"added_tokens__json": "{"},
    ):
        (tmp_path / "added_tokens.json").unlink(missing_ok=True)
        with pytest.raises(InputError, match=r"another id in tokenizer\.json|not the JSON file"):
            read_tokenizer(write(tmp_path, **files))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no tokenizer.json"),
        ({"vocab__txt": "a\nb\n"}, "vocab.txt.*AutoTokenizer.from_pretrained"),
        ({"vocab__json": {"a": 0}, "merges__txt": ""}, "vocab.json.*AutoTokenizer.from_pretrained"),
        ({"spiece__model": "x"}, "spiece.model.*save_pretrained"),
        ({"tokenizer__json": "{}"}, "tokenizer.json"),
    ],
)
def test_what_cannot_be_read_is_refused(files, words, tmp_path):
    with pytest.raises(InputError) as caught:
        read_tokenizer(write(tmp_path, **files))
    assert re.search(words, f"{caught.value.message} {caught.value.hint}")


def test_what_transformers_converts_is_read(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "!", "e", "##lan", "elan"]
    config = {"tokenizer_class": "BertTokenizer"}
    write(tmp_path, vocab__txt="".join(f"{word}\n" for word in words), tokenizer_config__json=config)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path / "out")
    ours = read_tokenizer(tmp_path / "out")
    for text in ["The cat sat!", "", "unknown Ωords", "Élan  vital\t漢字", "[MASK]the"]:
        assert ours.encode(text).ids == theirs(text)["input_ids"]


# ---- written

TEXT = [
    "The cat sat on the mat, and the 12345 bats sat too.",
    "élan vital, naïve Ωmega",
    "l'été  there\n\n they're",
] * 4
PROBES = [
    *TEXT[:3],
    "",
    "  unseen words: Zürich 漢字 🐈‍⬛\x00\t",
    "aaaaaaaaaaaa",
    "THE CAT",
    "[MASK] cat",
    "\r\n \u00a0x",
]
BYTES = pre_tokenizers.ByteLevel.alphabet()


def trained(algorithm="bpe", pattern=None, normalizer=None):
    trainer = {"bpe": trainers.BpeTrainer, "wordpiece": trainers.WordPieceTrainer}[algorithm]
    tokenizer = Tokenizer(models.BPE() if algorithm == "bpe" else models.WordPiece(unk_token="[UNK]"))
    if algorithm == "wordpiece":
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    else:
        tokenizer.pre_tokenizer, tokenizer.decoder = (
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            decoders.ByteLevel(),
        )
        if pattern is not None:
            cut = pre_tokenizers.Split(Regex(pattern), "isolated")
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(False, use_regex=False)])
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    alphabet = {"initial_alphabet": sorted(BYTES)} if algorithm == "bpe" else {}
    made = trainer(vocab_size=330, special_tokens=list(SPECIAL_TOKENS), show_progress=False, **alphabet)
    tokenizer.train_from_iterator(TEXT, made)
    return tokenizer


def exported(tokenizer, form, folder, name="out"):
    made = export_tokenizer(tokenizer.to_str().encode(), form, name, where="run/tokens")
    for file, data in made.files.items():
        (folder / file).write_bytes(data)
    return made


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece"])
def test_a_tokenizer_json_gives_the_same_ids(algorithm, tmp_path):
    tokenizer = trained(algorithm)
    exported(tokenizer, "tokenizer-json", tmp_path, "x.json")
    loaded = Tokenizer.from_file(str(tmp_path / "x.json"))
    assert [ids_of(loaded, text) for text in PROBES] == [ids_of(tokenizer, text) for text in PROBES]


@pytest.mark.parametrize(("algorithm", "pattern"), [("bpe", None), ("bpe", CL100K), ("wordpiece", None)])
def test_transformers_loads_its_folder(algorithm, pattern, tmp_path):
    tokenizer = trained(algorithm, pattern)
    exported(tokenizer, "transformers", tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in PROBES:
        assert loaded(text, add_special_tokens=False)["input_ids"] == ids_of(tokenizer, text)
        assert loaded(text)["input_ids"] == tokenizer.encode(text).ids
    assert (loaded.pad_token, loaded.mask_token, loaded.unk_token) == ("[PAD]", "[MASK]", "[UNK]")
    assert (loaded.cls_token, loaded.sep_token, loaded.bos_token, loaded.eos_token) == ("[CLS]", "[SEP]", "<s>", "</s>")
    assert [ids_of(read_tokenizer(tmp_path), text) for text in PROBES] == [ids_of(tokenizer, text) for text in PROBES]


def test_bert_loads_vocab_txt(tmp_path):
    tokenizer = trained("wordpiece")
    made = exported(tokenizer, "vocab-txt", tmp_path, "vocab.txt")
    assert "do_lower_case=True" in made.notes[0]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    loaded = BertTokenizer.from_pretrained(tmp_path)
    for text in PROBES:
        assert loaded.encode(text, add_special_tokens=False) == ids_of(tokenizer, text)


HOLES = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 2}, unk_token="[UNK]"))
BROKEN = Tokenizer(models.WordPiece({"[UNK]": 0, "a\nb": 1}, unk_token="[UNK]"))


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [(trained("bpe"), "for WordPiece"), (HOLES, "not 0, 1, 2"), (BROKEN, "break its line")],
)
def test_a_format_that_cannot_hold_it_says_why_and_names_those_that_can(tokenizer, words, tmp_path):
    with pytest.raises(ConfigError, match=words) as caught:
        exported(tokenizer, "vocab-txt", tmp_path)
    assert "tokenizer-json and transformers" in caught.value.hint


def test_an_unknown_format_and_a_damaged_tokenizer():
    assert set(FOLDERS) <= set(FORMATS)
    with pytest.raises(ConfigError, match="morse"):
        export_tokenizer(b"{}", "morse", "x", where="y")
    with pytest.raises(InputError, match="run/tokens"):
        export_tokenizer(b"{}", "vocab-txt", "x", where="run/tokens")


PAIRED = "the cat sat on the mat"
IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4, "bos": 5, "eos": 6}


def tokenizer_json(post_processor=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=list(SPECIAL_TOKENS), show_progress=False)
    tokenizer.train_from_iterator([PAIRED] * 20, trainer)
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    return tokenizer.to_str().encode()


@pytest.mark.parametrize("post_processor", [None, processors.ByteLevel(trim_offsets=True)])
@pytest.mark.parametrize(
    ("causal", "first", "last", "side"), [(False, "[CLS]", "[SEP]", "right"), (True, "<s>", None, "left")]
)
def test_auto_tokenizer_adds_what_training_had(causal, first, last, side, post_processor, tmp_path):
    data = tokenizer_json(post_processor)
    tokenizer, names = framed_tokenizer(data, IDS, causal=causal, vocab_size=60)
    for name, content in transformers_files(tokenizer, names, max_len=24, padding_side=side).items():
        (tmp_path / name).write_bytes(content)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    plain = Tokenizer.from_str(data.decode()).encode(PAIRED, add_special_tokens=False).ids
    ids = loaded(PAIRED)["input_ids"]
    want = [loaded.convert_tokens_to_ids(first), *plain, *([loaded.convert_tokens_to_ids(last)] if last else [])]
    assert ids == want
    assert loaded.decode(ids, skip_special_tokens=True) == PAIRED
    assert loaded(PAIRED, add_special_tokens=False)["input_ids"] == plain
    assert (loaded.pad_token, loaded.mask_token, loaded.unk_token) == ("[PAD]", "[MASK]", "[UNK]")
    assert loaded.model_max_length == 24
    assert loaded.padding_side == side
    assert sorted(loaded(PAIRED)) == ["attention_mask", "input_ids"]


def test_pairs_are_parted():
    tokenizer, _ = framed_tokenizer(tokenizer_json(), IDS, causal=False, vocab_size=60)
    encoded = tokenizer.encode("the cat", "the mat")
    assert [token for token in encoded.tokens if token in SPECIAL_TOKENS] == ["[CLS]", "[SEP]", "[SEP]"]
    assert encoded.type_ids[0] == 0
    assert encoded.type_ids[-1] == 1


def test_a_tokenizer_that_does_not_belong_is_refused():
    with pytest.raises(ArtifactError, match="more tokens"):
        framed_tokenizer(tokenizer_json(), IDS, causal=False, vocab_size=16)
    with pytest.raises(ArtifactError, match="no mask token"):
        framed_tokenizer(tokenizer_json(), IDS | {"mask": 90}, causal=False, vocab_size=100)
    with pytest.raises(ArtifactError, match="not a tokenizer"):
        framed_tokenizer(b"{}", IDS, causal=False, vocab_size=60)


def test_unknown_ids_are_left_out():
    tokenizer, names = framed_tokenizer(tokenizer_json(), IDS | {"pad": None, "unk": None}, causal=True, vocab_size=60)
    settings = json.loads(transformers_files(tokenizer, names)["tokenizer_config.json"])
    assert not {"pad_token", "unk_token", "model_max_length"} & set(settings)
