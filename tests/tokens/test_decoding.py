"""Tokens to text as they come: whole characters, the same text as decoding all at once, stop strings; and masks in a text."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from wordpipe.tokens import MaskTokenizer, TextStream, byte_letters

TEXT = "The bees’ 蜂蜜 is 🐝🐝 sweet: Ünïcödé, don't! \n\n Fin"


def byte_level() -> Tokenizer:
    """Every byte is a token, and so are some words with their space."""
    tokens = [*byte_letters(), "Ġb", "Ġi", "Ġis", "Th", "The"]
    merges = [("Ġ", "b"), ("Ġ", "i"), ("Ġi", "s"), ("T", "h"), ("Th", "e")]
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def byte_fallback() -> Tokenizer:
    """As Llama's: words with ▁, and bytes for what they cannot spell."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁The", "▁is", *"Thebs'tonwdF:,.!in\n"]
    tokens = {token: number for number, token in enumerate(dict.fromkeys(words))}
    made = Tokenizer(models.BPE(tokens, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    return made


def wordpiece() -> Tokenizer:
    words = ["[UNK]", "[CLS]", "the", "bee", "##s", "##keep", "##er", ".", "don", "'", "t", ",", "sweet", "蜂", "蜜"]
    made = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece("##")
    made.add_special_tokens(["[CLS]"])
    return made


def unigram() -> Tokenizer:
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("▁bee", -3.0), ("s", -3.0), ("▁sweet", -4.0), ("蜂", -4.0), ("e", -5.0)]
    made = Tokenizer(models.Unigram(pieces, 0, False))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.decoder = decoders.Metaspace(prepend_scheme="always")
    return made


KINDS = {"byte-level": byte_level, "byte fallback": byte_fallback, "wordpiece": wordpiece, "unigram": unigram}


def streamed(tokenizer, ids, **options):
    stream = TextStream(tokenizer, **options)
    pieces = [stream.add(token_id) for token_id in ids]
    pieces.append(stream.end())
    assert "".join(pieces) == stream.text
    return stream, pieces


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("text", [TEXT, "the beekeeper’s bees. sweet, sweet 蜂蜜", "🐝", "é", "", " the  bees "])
def test_the_pieces_are_the_text_wherever_it_begins(kind, text):
    tokenizer = KINDS[kind]()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    whole = tokenizer.decode(ids)
    assert streamed(tokenizer, ids)[0].text == whole
    for start in range(len(ids) + 1):
        before = tokenizer.decode(ids[:start])
        if not before.endswith("\ufffd"):
            assert before + streamed(tokenizer, ids[start:], before=ids[:start])[0].text == whole


@pytest.mark.parametrize("kind", ["byte-level", "byte fallback"])
def test_only_whole_characters_are_given_out(kind):
    tokenizer = KINDS[kind]()
    ids = tokenizer.encode(TEXT).ids
    _, pieces = streamed(tokenizer, ids)
    assert len(ids) > len(TEXT)
    assert not any("\ufffd" in piece for piece in pieces)
    assert [piece for piece in pieces if "🐝" in piece] == ["🐝", "🐝"]


@given(st.lists(st.integers(0, 260), max_size=40))
def test_bytes_that_make_no_text_are_shown_as_decoding_shows_them(ids):
    assert streamed(byte_level(), ids)[0].text == byte_level().decode(ids)


@given(st.lists(st.integers(0, 275), max_size=30), st.integers(0, 10))
def test_bytes_that_spoil_earlier_ones_stop_nothing(ids, n_before):
    """tokenizers' own stream raises on 44 of 100 such lists; here each of the other tokens has its text."""
    tokenizer = byte_fallback()
    stream, _ = streamed(tokenizer, ids[n_before:], before=ids[:n_before])
    words = [
        tokenizer.decode([7, number]).removeprefix(tokenizer.decode([7])) for number in ids[n_before:] if number > 256
    ]
    rest = stream.text
    for word in (word.strip() for word in words):  # what begins a text has no space before it
        place = rest.find(word)
        assert place >= 0
        rest = rest[place + len(word) :]


def first_stop(text, stops):
    """The text before the stop string that is complete first, and of these before the longest."""
    for end in range(len(text) + 1):
        if lengths := [len(stop) for stop in stops if text[:end].endswith(stop)]:
            return text[: end - max(lengths)]
    return text


@pytest.mark.parametrize(
    "stops", [["sw"], ["\n\n"], ["’ 蜂"], ["🐝🐝"], ["is 🐝 ", "t!"], ["nowhere"], ["T"], ["Fin", "in"], []]
)
def test_the_text_ends_before_the_first_stop_string(stops):
    tokenizer = byte_level()
    stream, pieces = streamed(tokenizer, tokenizer.encode(TEXT).ids, stops=stops)
    assert stream.text == first_stop(TEXT, stops)
    assert stream.stopped == (stream.text != TEXT)
    given = ""
    for piece in pieces:  # nothing is given out that a stop string takes back
        given += piece
        assert first_stop(TEXT, stops).startswith(given)


def test_stop_strings_against_a_search_in_the_whole_text():
    tokenizer, chance = byte_level(), random.Random(5)
    for _ in range(300):
        text = "".join(chance.choices("abé ", k=chance.randint(0, 30)))
        stops = ["".join(chance.choices("abé ", k=chance.randint(1, 4))) for _ in range(chance.randint(1, 3))]
        stream, _ = streamed(tokenizer, tokenizer.encode(text).ids, stops=stops)
        assert stream.text == first_stop(text, stops)
        assert stream.stopped == any(stop in text for stop in stops)


def test_the_prompt_is_no_part_of_the_text_nor_of_a_stop_string():
    tokenizer = byte_level()
    before, after = tokenizer.encode("one sto").ids, tokenizer.encode("p and stop").ids
    assert streamed(tokenizer, after, before=before, stops=["stop"])[0].text == "p and "


def with_mask(tokenizer: Tokenizer, **flags: bool) -> tuple[MaskTokenizer, int]:
    tokenizer.add_special_tokens([AddedToken("[MASK]", **flags)])
    number = tokenizer.token_to_id("[MASK]")
    return MaskTokenizer(tokenizer, "[MASK]", number), number


def chars() -> Tokenizer:
    made = Tokenizer(models.WordLevel({"?": 0, **{letter: n for n, letter in enumerate("abcs ", 1)}}, unk_token="?"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    return made


def plain_words() -> Tokenizer:
    made = Tokenizer(models.WordLevel({"?": 0, "a": 1, "sweet": 2, "bee": 3}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


@pytest.mark.parametrize("flags", [{}, {"normalized": True}, {"single_word": True}, {"rstrip": True}])
@pytest.mark.parametrize("make", [byte_level, unigram, wordpiece, plain_words])
@pytest.mark.parametrize(("text", "n"), [("[MASK]", 1), ("a [MASK] b[MASK]c", 2), ("[MASK][MASK] [mask]", 2), ("x", 0)])
def test_every_mask_becomes_its_id_and_nothing_else_does(make, flags, text, n):
    masks, number = with_mask(make(), **flags)
    assert masks.ids(text).count(number) == n


def test_a_mask_that_the_tokenizer_takes_for_text_is_found_too():
    tokenizer = wordpiece()
    tokenizer = Tokenizer.from_str(tokenizer.to_str().replace('"sweet"', '"[MASK]"'))
    number = tokenizer.token_to_id("[MASK]")
    assert number not in tokenizer.encode("the [MASK] bee").ids
    assert MaskTokenizer(tokenizer, "[MASK]", number).ids("the [MASK] bee").count(number) == 1


@pytest.mark.parametrize("make", [byte_level, unigram])
def test_the_space_before_a_mask_belongs_to_the_token_that_is_missing(make):
    """So the ids around it are those of the text with its word, whose token begins with the space."""
    masks, number = with_mask(make())
    assert masks.ids("bee [MASK] bee") == [*masks.ids("bee"), number, *masks.ids(" bee")]
    assert masks.ids("bee[MASK]") == masks.ids("bee   [MASK]")


def test_byte_level_tokens_bring_their_space():
    masks, _ = with_mask(byte_level())
    tokenizer = byte_level()
    its, s, half = (tokenizer.token_to_id(token) for token in ("Ġis", "s", "Ã"))
    assert (masks.shown(its), masks.shown(s), masks.shown(half)) == (" is", "s", "<0xC3>")
    assert masks.filled("honey [MASK] good", [its]) == "honey is good"
    assert masks.filled("honey[MASK] good", [its]) == "honey is good"
    assert masks.filled("bee[MASK] fly", [s]) == "bees fly"
    assert masks.filled("bee [MASK] fly", [s]) == "bee s fly"  # no word is written on to the one before it
    assert masks.filled("[MASK] it [MASK]", [its, s]) == "is it s"


def test_sentencepiece_tokens_bring_their_space():
    masks, _ = with_mask(unigram())
    tokenizer = unigram()
    sweet, s = tokenizer.token_to_id("▁sweet"), tokenizer.token_to_id("s")
    assert (masks.shown(sweet), masks.shown(s)) == (" sweet", "s")
    assert masks.filled("a [MASK] bee[MASK]", [sweet, s]) == "a sweet bees"
    assert masks.filled("[MASK] [MASK]", [sweet, sweet]) == "sweet sweet"


def test_wordpieces_leave_the_spaces_to_the_text():
    masks, _ = with_mask(wordpiece())
    tokenizer = wordpiece()
    sweet, keep, stop = (tokenizer.token_to_id(token) for token in ("sweet", "##keep", "."))
    assert (masks.shown(sweet), masks.shown(keep)) == ("sweet", "##keep")
    assert masks.filled("The ([MASK]) bee", [sweet]) == "The (sweet) bee"
    assert masks.filled("The  [MASK] Bee [MASK]er [MASK]", [sweet, keep, stop]) == "The  sweet Beekeeper."


def test_words_and_characters_leave_the_spaces_to_the_text():
    masks, _ = with_mask(plain_words())
    assert masks.filled("a [MASK] bee", [2]) == "a sweet bee"
    masks, number = with_mask(chars())
    assert masks.ids("ab [MASK]") == [1, 2, 5, number]
    assert masks.filled("ab [MASK][MASK]s", [3, 1]) == "ab cas"


@pytest.mark.parametrize("make", [byte_level, unigram])
def test_spans_of_several_tokens_stand_where_their_sentinels_stood(make):
    tokenizer = make()
    first, second = tokenizer.get_vocab_size(), tokenizer.get_vocab_size() + 1
    tokenizer.add_special_tokens(["<extra_id_0>", "<extra_id_1>"])
    spans = MaskTokenizer(tokenizer, "<extra_id_0>", first, {"<extra_id_1>": second})
    bee = tokenizer.encode(" bee bee", add_special_tokens=False).ids
    around = [spans.ids(text) for text in ("bee", " bee", " bee")]
    assert spans.ids("bee <extra_id_0> bee<extra_id_1> bee") == [*around[0], first, *around[1], second, *around[2]]
    assert spans.joined(["The ", " is ", "."], [bee, []]) == "The bee bee is."
    assert spans.joined(["", " is"], [bee]) == "bee bee is"
