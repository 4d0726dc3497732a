import json

import pytest
from transformers import BertTokenizer, GPT2Tokenizer, RobertaTokenizer

from tests.support.tokenizer_files import sentencepiece_model
from tests.tokens.test_reading import byte_level
from wordpipe.errors import InputError
from wordpipe.tokens import read_tokenizer

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


@pytest.mark.parametrize("lowercase", [True, False])
def test_berts_vocabulary_is_read_as_transformers_reads_it(lowercase, tmp_path):
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


@pytest.mark.parametrize("prefix", [True, False])
def test_robertas_files_are_read_as_transformers_reads_them(prefix, tmp_path):
    byte_level_files(tmp_path, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    write(tmp_path, tokenizer_config__json={"add_prefix_space": prefix, "tokenizer_class": "RobertaTokenizer"})
    same(read_tokenizer(tmp_path), RobertaTokenizer.from_pretrained(tmp_path))


def test_gpt2s_files_are_read_as_transformers_reads_them(tmp_path):
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
    with pytest.raises(InputError, match="cannot have its id"):
        read_tokenizer(tmp_path)


def test_a_tokenizer_json_goes_before_older_files(tmp_path):
    byte_level_files(tmp_path, ["<|endoftext|>"])
    write(tmp_path, tokenizer__json=byte_level("other text").to_str(), vocab__txt="x")
    assert read_tokenizer(tmp_path).to_str() == byte_level("other text").to_str()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no tokenizer"),
        ({"vocab__txt": "a\nb\n"}, "lacks its unk token"),
        ({"vocab__txt": "\n".join(LOWER), "tokenizer_config__json": {"tokenizer_class": "BertJapaneseTokenizer"}},
         "class of tokenizer"),
        ({"vocab__json": {"a": 0}, "merges__txt": "a b c\n"}, "merges.txt:1.*not a merge"),
        ({"vocab__json": {"a": 0}, "merges__txt": "#version: 0.2\na x\n"}, "cannot use these files"),
        ({"vocab__json": {"a": "b"}, "merges__txt": ""}, "without an id"),
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
