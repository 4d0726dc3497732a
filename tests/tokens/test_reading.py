import base64
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.tokens.made_files import (
    BPE,
    BYTES,
    CHAR,
    HEAD,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    WORD,
    best_cut,
    field,
    fused,
    joined,
    score_of,
    sentencepiece_model,
    sentencepiece_text,
    tiktoken_file,
    tiktoken_ids,
)  # fmt: skip
from wordpipe.errors import InputError
from wordpipe.tokens.formats.reading import open_tokenizer, read_tokenizer
from wordpipe.tokens.patterns import CL100K, GPT2

LETTERS = "abc▁é語"
TEXTS = st.text(alphabet="abcé語xy ▁\n", max_size=24)


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


def random_pieces(seed, *, inner_spaces):
    """Single characters, and longer pieces of them, with scores that no two sums share."""
    rng = random.Random(seed)
    longer = set()
    while len(longer) < 25:
        piece = "".join(rng.choices(LETTERS, k=rng.randint(2, 4)))
        if inner_spaces or "▁" not in piece[1:]:
            longer.add(piece)
    return [(piece, -rng.uniform(1, 9), NORMAL) for piece in [*LETTERS, *sorted(longer)]]


# ---- sentencepiece


@pytest.mark.parametrize(("seed", "inner_spaces"), [(0, False), (1, True), (2, False)])
@pytest.mark.parametrize("dummy_prefix", [True, False])
@pytest.mark.parametrize("squeeze", [True, False])
def test_unigram_models_cut_as_trying_all_cuts(seed, inner_spaces, dummy_prefix, squeeze, tmp_path):
    pieces = random_pieces(seed, inner_spaces=inner_spaces)
    options = {"dummy_prefix": dummy_prefix, "squeeze": squeeze}
    tokenizer = read_tokenizer(written(tmp_path, "x.model", sentencepiece_model(HEAD + pieces, **options)))
    scores = {text: score for text, score, _ in pieces}

    @settings(max_examples=30, deadline=None)
    @given(TEXTS)
    def check(text):
        found = tokenizer.encode(text, add_special_tokens=False).tokens  # an unknown one as it stands in the text
        plain = sentencepiece_text(text, **options)
        assert "".join(found) == plain
        assert sum(score_of(piece, scores) for piece in found) == pytest.approx(best_cut(plain, scores), abs=1e-4)

    check()


@pytest.mark.parametrize(("seed", "inner_spaces"), [(0, False), (1, True)])
@pytest.mark.parametrize("squeeze", [True, False])
def test_bpe_models_join_the_best_piece_first(seed, inner_spaces, squeeze, tmp_path):
    pieces = random_pieces(seed, inner_spaces=inner_spaces)
    data = sentencepiece_model(HEAD + pieces, BPE, squeeze=squeeze)
    tokenizer = read_tokenizer(written(tmp_path, "x.model", data))
    ranks = {text: -score for text, score, _ in pieces}

    @settings(max_examples=30, deadline=None)
    @given(TEXTS)
    def check(text):
        expected = fused(joined(sentencepiece_text(text, squeeze=squeeze), ranks), ranks)
        assert tokenizer.encode(text, add_special_tokens=False).ids == [
            tokenizer.token_to_id(name) for name in expected
        ]

    check()


def test_a_piece_that_joining_makes_late_is_not_made_early(tmp_path):
    """`abc` has three cuts into pieces; only the one that joining reaches may be its merge."""
    pieces = [("a", -9, NORMAL), ("b", -9, NORMAL), ("c", -9, NORMAL), ("▁", -9, NORMAL),
              ("bc", -1, NORMAL), ("ab", -2, NORMAL), ("abc", -3, NORMAL)]  # fmt: skip
    path = written(tmp_path, "x.model", sentencepiece_model(HEAD + pieces, BPE))
    assert json.loads(read_tokenizer(path).to_str())["model"]["merges"] == [["b", "c"], ["a", "b"], ["a", "bc"]]


@pytest.mark.parametrize("algorithm", [1, BPE])
def test_bytes_stand_for_what_is_no_piece_and_decode_back(algorithm, tmp_path):
    pieces = random_pieces(3, inner_spaces=False)
    path = written(tmp_path, "x.model", sentencepiece_model(HEAD + BYTES + pieces, algorithm))
    tokenizer = read_tokenizer(path)
    encoded = tokenizer.encode("a Ω\nb", add_special_tokens=False)
    assert "<0xCE>" in encoded.tokens
    assert tokenizer.decode(encoded.ids) == "a Ω\nb"
    assert [tokenizer.token_to_id(name) for name in ("<unk>", "<s>", "</s>")] == [0, 1, 2]


@pytest.mark.parametrize("algorithm", [1, BPE])
def test_user_defined_symbols_are_never_cut_and_get_no_space_after(algorithm, tmp_path):
    pieces = [*random_pieces(4, inner_spaces=False)[: len(LETTERS)], ("ca", -1.0, NORMAL)]
    pieces += [("<sep>", 0.0, USER_DEFINED), ("ab.", 0.0, USER_DEFINED)]
    tokenizer = read_tokenizer(written(tmp_path, "x.model", sentencepiece_model(HEAD + pieces, algorithm)))
    ids = [tokenizer.token_to_id(name) for name in ("▁", "<sep>", "<unk>", "<sep>")]
    assert tokenizer.encode("<sep>y<sep>", add_special_tokens=False).ids == ids
    assert "ab." in tokenizer.encode("cab.c").tokens


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


def test_the_normalisation_table_is_applied(tmp_path):
    table = charsmap({"A": "a", "\t": " ", "Z": ""})
    data = sentencepiece_model(HEAD + random_pieces(5, inner_spaces=False), charsmap=table)
    tokenizer = read_tokenizer(written(tmp_path, "x.model", data))
    assert tokenizer.encode("A\t\tbZc \t").ids == tokenizer.encode("a bc").ids


def test_a_symbol_that_the_normalisation_changes_is_refused(tmp_path):
    pieces = [*HEAD, *random_pieces(5, inner_spaces=False), ("<A>", 0.0, USER_DEFINED)]
    data = sentencepiece_model(pieces, charsmap=charsmap({"A": "a"}))
    with pytest.raises(InputError, match=r"changes a user-defined symbol.*<A>"):
        read_tokenizer(written(tmp_path, "x.model", data))


PLAIN = [*HEAD, ("a", -1.0, NORMAL), ("▁", -2.0, NORMAL)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (sentencepiece_model(PLAIN, WORD), "word"),
        (sentencepiece_model(PLAIN, CHAR), "char"),
        (sentencepiece_model(PLAIN, suffix=True), "treat_whitespace_as_suffix"),
        (sentencepiece_model(PLAIN, escape=False), "escape_whitespaces"),
        (sentencepiece_model([*PLAIN, ("b", 0.0, UNUSED)]), "unused"),
        (sentencepiece_model([*PLAIN, ("b", 0.0, 9)]), "kind"),
        (sentencepiece_model(PLAIN[1:]), "unknown piece"),
        (sentencepiece_model([*PLAIN, ("<u>", 0.0, UNKNOWN)]), "unknown piece"),
        (sentencepiece_model([*PLAIN, ("a", -3.0, NORMAL)]), "twice"),
        (sentencepiece_model([*PLAIN, ("b", float("nan"), NORMAL)]), "score"),
        (sentencepiece_model([*PLAIN, ("ab", -3.0, NORMAL)], BPE), "no pieces"),
        (sentencepiece_model([*PLAIN, ("aa", -3.0, NORMAL), ("▁a", -3.0, NORMAL)], BPE), "same score"),
        (sentencepiece_model(PLAIN, charsmap=b"\xff\xff\xff\xff1234"), "normalisation table"),
        (sentencepiece_model(PLAIN, charsmap=(1024).to_bytes(4, "little") + b"\xff" * 4 + b"\x00" * 1020), "way out"),
        (sentencepiece_model(PLAIN, charsmap=(4).to_bytes(4, "little") + b"\x00\xfc\xff\x7f"), "normalisation table"),
        (
            sentencepiece_model([*PLAIN, ("b", -1.0, NORMAL), ("bab", -3.0, NORMAL), ("<x>", 0.0, USER_DEFINED)], BPE),
            "joining cannot make",
        ),
        (field(1, b"\x0a\x05ab"), "field"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "number"),
        (b"\x0b\x00", "wire type"),
        (b"", "no pieces"),
    ],
)
def test_what_cannot_be_converted_is_refused(data, words, tmp_path):
    with pytest.raises(InputError, match=words) as caught:
        read_tokenizer(written(tmp_path, "x.model", data))
    assert "x.model" in str(caught.value.where)


OPTIONS = [
    {"model_type": "unigram"},
    {"model_type": "unigram", "byte_fallback": True, "normalization_rule_name": "nfkc"},
    {"model_type": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc_cf"},
    {"model_type": "bpe", "split_by_whitespace": False, "add_dummy_prefix": False},
    {"model_type": "bpe", "byte_fallback": True, "user_defined_symbols": ["<sep>", "@@"]},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_sentencepiece_itself_gives_the_same_ids(options, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdeéßΩ語ﬁ①A", k=rng.randint(1, 7))) for _ in range(150)]
    lines = [
        "  ".join(rng.choices(words, k=rng.randint(0, 9))) + rng.choice(["", " ", " ▁", "\t.", "<sep>x"])
        for _ in range(400)
    ]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(tmp_path / "m"), vocab_size=340 if "byte_fallback" in options else 90,
        minloglevel=2, **options,
    )  # fmt: skip
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    ours = read_tokenizer(tmp_path / "m.model")
    wrong = [line for line in lines if ours.encode(line, add_special_tokens=False).ids != theirs.encode(line)]
    # unigram: two cuts of the same score but for rounding
    assert len(wrong) <= (len(lines) // 50 if options["model_type"] == "unigram" else 0), wrong[:3]


# ---- tiktoken


def trained_ranks(seed):
    """Bytes in any order, then tokens joined of earlier ones; a few that joining never makes."""
    rng = random.Random(seed)
    tokens = [bytes([byte]) for byte in rng.sample(range(256), 256)]
    for _ in range(60):
        pool = [token for token in tokens if all(chr(byte) in "ab \xc3\xa9\n1" for byte in token)]
        fresh = rng.choice(pool) + rng.choice(pool)
        if fresh not in tokens and len(fresh) < 9:
            tokens.append(fresh)
    return [*tokens, b"aQaQ"]


@pytest.mark.parametrize("seed", range(4))
def test_a_tiktoken_file_joins_the_lowest_rank_first(seed, tmp_path):
    tokens = trained_ranks(seed)
    ranks = {token: rank for rank, token in enumerate(tokens)}
    notes = []
    tokenizer = read_tokenizer(written(tmp_path, "x.tiktoken", tiktoken_file(tokens)), warn=notes.append)
    assert "cl100k" in notes[0]

    @settings(max_examples=40, deadline=None)
    @given(st.text(alphabet="aabbé 1\nQ'sÃ", max_size=30))
    def check(text):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert ids == tiktoken_ids(text, CL100K, ranks)
        assert tokenizer.decode(ids) == text

    check()
    assert tokenizer.encode("aQaQ").ids == [ranks[b"aQaQ"]]  # a whole pre-token that joining does not make


def test_the_file_name_tells_the_pattern(tmp_path):
    tokenizer = read_tokenizer(written(tmp_path, "r50k_base.tiktoken", tiktoken_file(trained_ranks(0))))
    assert json.loads(tokenizer.to_str())["pre_tokenizer"]["pretokenizers"][0]["pattern"] == {"Regex": GPT2}


def test_a_missing_rank_gets_an_unused_token(tmp_path):
    lines = tiktoken_file(trained_ranks(0)).splitlines(keepends=True)
    last = lines[-1].split()[0]
    tokenizer = read_tokenizer(written(tmp_path, "x.tiktoken", b"".join(lines[:-1]) + last + b" %d\n" % len(lines)))
    assert tokenizer.id_to_token(len(lines) - 1) == f"<|unused_{len(lines) - 1}|>"
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(lines) + 1))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"YQ==", "base64 and a rank"),
        (b"Y!== 300", "base64 and a rank"),
        (b"YWI= -1", "base64 and a rank"),
        (b"YWI= 300 4", "base64 and a rank"),
        (b"YWI= 99999999999", "base64 and a rank"),
        (b"YWI= 2000000000", "ranks are missing"),
        (b"YWI= 7", "twice"),
        (b"YQ== 300", "twice"),
        (b"\xff\xfe 300", "base64 and a rank"),
    ],
)
def test_a_wrong_line_is_named(line, words, tmp_path):
    data = tiktoken_file([bytes([byte]) for byte in range(256)]) + line + b"\n"
    with pytest.raises(InputError, match=words) as caught:
        read_tokenizer(written(tmp_path, "x.tiktoken", data))
    assert "missing" in words or "x.tiktoken:257" in str(caught.value)


def test_every_byte_needs_a_token(tmp_path):
    tokens = [bytes([byte]) for byte in range(256) if byte != 0x41]
    with pytest.raises(InputError, match="0x41"):
        read_tokenizer(written(tmp_path, "x.tiktoken", tiktoken_file(tokens)))


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


def test_a_damaged_table_in_a_tokenizer_json_is_refused(tmp_path):
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Precompiled(charsmap({"A": "a"}))
    data = tokenizer.to_str().encode()
    assert read_tokenizer(written(tmp_path, "good.json", data)).encode("A").tokens == ["a"]
    table = charsmap({"A": "a"})
    wrong = table[:4] + b"\xff" * 4 + table[8:]  # the root's children are far outside
    with pytest.raises(InputError, match="normalisation table"):
        read_tokenizer(written(tmp_path, "x.json", data.replace(base64.b64encode(table), base64.b64encode(wrong))))


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


HOSTILE = {
    "x.model": sentencepiece_model(
        HEAD + random_pieces(6, inner_spaces=False), charsmap=charsmap({"A": "a", "B": "bb"})
    ),
    "y.model": sentencepiece_model(HEAD + random_pieces(6, inner_spaces=False), BPE),
    "x.tiktoken": tiktoken_file(trained_ranks(6)),
    "x.json": byte_level().to_str().encode(),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_are_refused_or_read_but_never_crash(name, seed, tmp_path):
    rng, refused = random.Random(seed), 0
    for _ in range(30):
        data = bytearray(HOSTILE[name])
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.randint(0, 2 * len(data)) :]
        try:
            read_tokenizer(written(tmp_path, name, bytes(data))).encode("A ab BcBB\x00 é" * 3)
        except InputError:
            refused += 1
    assert 0 < refused <= 30
