"""Tokenizers in the formats of other programs, which give the same ids."""

import base64
import json

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tests.support.tokenizer_files import tiktoken_ids
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.tokens import (
    CL100K,
    FOLDERS,
    FORMATS,
    FRAMES,
    GPT2,
    SPECIAL_TOKENS,
    export_tokenizer,
    framed_tokenizer,
    read_tokenizer,
    transformers_files,
)

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


@pytest.mark.landing
@pytest.mark.parametrize(("algorithm", "pattern"), [("bpe", None), ("bpe", CL100K), ("wordpiece", None)])
def test_transformers_loads_its_folder(algorithm, pattern, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = trained(algorithm, pattern)
    exported(tokenizer, "transformers", tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in PROBES:
        assert loaded(text, add_special_tokens=False)["input_ids"] == ids_of(tokenizer, text)
        assert loaded(text)["input_ids"] == tokenizer.encode(text).ids
    assert (loaded.pad_token, loaded.mask_token, loaded.unk_token) == ("[PAD]", "[MASK]", "[UNK]")
    assert (loaded.cls_token, loaded.sep_token, loaded.bos_token, loaded.eos_token) == ("[CLS]", "[SEP]", "<s>", "</s>")
    assert [ids_of(read_tokenizer(tmp_path), text) for text in PROBES] == [ids_of(tokenizer, text) for text in PROBES]


@pytest.mark.landing
def test_bert_loads_vocab_txt(tmp_path):
    from transformers import BertTokenizer

    tokenizer = trained("wordpiece")
    made = exported(tokenizer, "vocab-txt", tmp_path, "vocab.txt")
    assert "do_lower_case=True" in made.notes[0]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    for loaded in (BertTokenizer.from_pretrained(tmp_path), read_tokenizer(tmp_path)):
        for text in PROBES:
            found = loaded.encode(text, add_special_tokens=False)
            assert (found if isinstance(found, list) else found.ids) == ids_of(tokenizer, text)


@pytest.mark.landing
def test_gpt2_loads_vocab_json_and_merges_txt(tmp_path):
    from transformers import GPT2Tokenizer

    tokenizer = trained("bpe")
    tokenizer.add_tokens([AddedToken("<new>", normalized=False)])
    made = exported(tokenizer, "vocab-merges", tmp_path)
    assert sorted(made.files) == ["merges.txt", "vocab.json"]
    assert json.loads(made.files["vocab.json"])["<new>"] == tokenizer.token_to_id("<new>")
    loaded = GPT2Tokenizer.from_pretrained(tmp_path)
    for text in PROBES[:-2]:  # the files do not say that [MASK] is special
        assert loaded(text)["input_ids"] == ids_of(tokenizer, text)


@pytest.mark.parametrize("pattern", [None, CL100K])
def test_joining_the_lowest_rank_first_gives_the_same_ids(pattern, tmp_path):
    tokenizer = trained("bpe", pattern)
    made = exported(tokenizer, "tiktoken", tmp_path, "x.tiktoken")
    facts = json.loads(made.files["x.tiktoken.json"])
    new_id = dict(facts["ids"])
    assert facts["pattern"] == (pattern or GPT2)
    assert sorted(new_id) == sorted(new_id.values()) == list(range(tokenizer.get_vocab_size()))
    assert {new_id[tokenizer.token_to_id(token)]: token for token in SPECIAL_TOKENS} == {
        number: token for token, number in facts["special_tokens"].items()
    }
    lines = [line.split() for line in made.files["x.tiktoken"].splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    assert sorted(ranks.values()) == list(range(len(ranks)))
    for text in [text for text in PROBES if "[MASK]" not in text]:
        expected = [new_id[number] for number in ids_of(tokenizer, text)]
        assert tiktoken_ids(text, facts["pattern"], ranks) == expected


def test_tiktoken_itself_gives_the_same_ids(tmp_path):
    tiktoken = pytest.importorskip("tiktoken")
    tokenizer = trained("bpe", CL100K)
    facts = json.loads(exported(tokenizer, "tiktoken", tmp_path, "x.tiktoken").files["x.tiktoken.json"])
    lines = [line.split() for line in (tmp_path / "x.tiktoken").read_bytes().splitlines()]
    theirs = tiktoken.Encoding(
        "x",
        pat_str=facts["pattern"],
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens=facts["special_tokens"],
    )
    new_id = dict(facts["ids"])
    for text in PROBES:
        assert theirs.encode(text, allowed_special="all") == [new_id[number] for number in ids_of(tokenizer, text)]


def bpe(vocabulary, merges, **options):
    numbered = {token: number for number, token in enumerate([*sorted(BYTES), *vocabulary])}
    made = Tokenizer(models.BPE(numbered, merges, **options))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def with_pre_tokenizer(pre_tokenizer):
    tokenizer = trained("bpe")
    tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer


UNIGRAM = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, False))
HOLES = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 2}, unk_token="[UNK]"))
BROKEN = Tokenizer(models.WordPiece({"[UNK]": 0, "a\nb": 1}, unk_token="[UNK]"))
SPACED = Tokenizer(models.BPE({"a": 0, " ": 1, "a ": 2}, [("a", " ")]))


@pytest.mark.parametrize(
    ("form", "tokenizer", "words"),
    [
        ("vocab-txt", trained("bpe"), "for WordPiece"),
        ("vocab-txt", HOLES, "not 0, 1, 2"),
        ("vocab-txt", BROKEN, "contains a line break"),
        ("vocab-merges", trained("wordpiece"), "for BPE"),
        ("vocab-merges", UNIGRAM, "for BPE"),
        ("vocab-merges", SPACED, "white space"),
        ("tiktoken", trained("wordpiece"), "normalise"),
        ("tiktoken", trained("bpe", normalizer=normalizers.Lowercase()), "normalise"),
        ("tiktoken", UNIGRAM, "byte-level"),
        ("tiktoken", with_pre_tokenizer(pre_tokenizers.ByteLevel(add_prefix_space=True)), "space before"),
        ("tiktoken", with_pre_tokenizer(pre_tokenizers.ByteLevel(False, use_regex=False)), "one pattern"),
        ("tiktoken", with_pre_tokenizer(pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(False)])), "one pattern"),
        ("tiktoken", bpe(["ab"], []), "build the token"),  # a token without a merge would be joined by its rank
        ("tiktoken", bpe(["ab", "bc", "abc"], [("a", "b"), ("b", "c"), ("a", "bc")]), "build the token"),
        ("tiktoken", bpe([], [], dropout=0.5), "dropout"),
    ],
)  # fmt: skip
def test_a_format_that_cannot_hold_it_says_why_and_names_those_that_can(form, tokenizer, words, tmp_path):
    with pytest.raises(ConfigError, match=words) as caught:
        exported(tokenizer, form, tmp_path)
    fitting = caught.value.hint.removeprefix("use another format: ").split(", ")
    assert {"tokenizer-json", "transformers"} <= set(fitting) <= set(FORMATS) - {form}
    for other in fitting:
        exported(tokenizer, other, tmp_path)


def test_an_unknown_format_and_a_damaged_tokenizer():
    assert set(FOLDERS) <= set(FORMATS)
    with pytest.raises(ConfigError, match="morse"):
        export_tokenizer(b"{}", "morse", "x", where="y")
    with pytest.raises(InputError, match="run/tokens"):
        export_tokenizer(b"{}", "tiktoken", "x", where="run/tokens")


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


@pytest.mark.landing
@pytest.mark.parametrize("post_processor", [None, processors.ByteLevel(trim_offsets=True)])
@pytest.mark.parametrize(
    ("causal", "first", "last", "side"), [(False, "[CLS]", "[SEP]", "right"), (True, "<s>", None, "left")]
)
def test_auto_tokenizer_adds_what_training_had(causal, first, last, side, post_processor, tmp_path):
    from transformers import AutoTokenizer

    data = tokenizer_json(post_processor)
    tokenizer, names = framed_tokenizer(data, IDS, frame=FRAMES["decoder" if causal else "encoder"], vocab_size=60)
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
    tokenizer, _ = framed_tokenizer(tokenizer_json(), IDS, frame=FRAMES["encoder"], vocab_size=60)
    encoded = tokenizer.encode("the cat", "the mat")
    assert [token for token in encoded.tokens if token in SPECIAL_TOKENS] == ["[CLS]", "[SEP]", "[SEP]"]
    assert encoded.type_ids[0] == 0
    assert encoded.type_ids[-1] == 1


def test_a_tokenizer_that_does_not_belong_is_refused():
    with pytest.raises(ArtifactError, match="more tokens"):
        framed_tokenizer(tokenizer_json(), IDS, frame=FRAMES["encoder"], vocab_size=16)
    with pytest.raises(ArtifactError, match="no mask token"):
        framed_tokenizer(tokenizer_json(), IDS | {"mask": 90}, frame=FRAMES["encoder"], vocab_size=100)
    with pytest.raises(ArtifactError, match="not a tokenizer"):
        framed_tokenizer(b"{}", IDS, frame=FRAMES["encoder"], vocab_size=60)


def test_unknown_ids_are_left_out():
    tokenizer, names = framed_tokenizer(
        tokenizer_json(), IDS | {"pad": None, "unk": None}, frame=FRAMES["decoder"], vocab_size=60
    )
    settings = json.loads(transformers_files(tokenizer, names)["tokenizer_config.json"])
    assert not {"pad_token", "unk_token", "model_max_length"} & set(settings)
