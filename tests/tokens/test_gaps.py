"""MaskTokenizer in texts: found as they are written, filled with the spaces that the vocabulary has."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.tokens.test_streaming import byte_level, unigram, wordpiece
from wordpipe.tokens import MaskTokenizer


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
    gaps, number = with_mask(make(), **flags)
    assert gaps.ids(text).count(number) == n


def test_a_mask_that_the_tokenizer_takes_for_text_is_found_too():
    tokenizer = wordpiece()
    tokenizer = Tokenizer.from_str(tokenizer.to_str().replace('"sweet"', '"[MASK]"'))
    number = tokenizer.token_to_id("[MASK]")
    assert number not in tokenizer.encode("the [MASK] bee").ids
    assert MaskTokenizer(tokenizer, "[MASK]", number).ids("the [MASK] bee").count(number) == 1


@pytest.mark.parametrize("make", [byte_level, unigram])
def test_the_space_before_a_mask_belongs_to_the_token_that_is_missing(make):
    """So the ids around it are those of the text with its word, whose token begins with the space."""
    gaps, number = with_mask(make())
    assert gaps.ids("bee [MASK] bee") == [*gaps.ids("bee"), number, *gaps.ids(" bee")]
    assert gaps.ids("bee[MASK]") == gaps.ids("bee   [MASK]")


def test_byte_level_tokens_bring_their_space():
    gaps, _ = with_mask(byte_level())
    tokenizer = byte_level()
    its, s, half = (tokenizer.token_to_id(token) for token in ("Ġis", "s", "Ã"))
    assert (gaps.shown(its), gaps.shown(s), gaps.shown(half)) == (" is", "s", "<0xC3>")
    assert gaps.filled("honey [MASK] good", [its]) == "honey is good"
    assert gaps.filled("honey[MASK] good", [its]) == "honey is good"
    assert gaps.filled("bee [MASK] fly", [s]) == "bees fly"
    assert gaps.filled("[MASK] it [MASK]", [its, s]) == "is its"


def test_sentencepiece_tokens_bring_their_space():
    gaps, _ = with_mask(unigram())
    tokenizer = unigram()
    sweet, s = tokenizer.token_to_id("▁sweet"), tokenizer.token_to_id("s")
    assert (gaps.shown(sweet), gaps.shown(s)) == (" sweet", "s")
    assert gaps.filled("a [MASK] bee[MASK]", [sweet, s]) == "a sweet bees"
    assert gaps.filled("[MASK] [MASK]", [sweet, sweet]) == "sweet sweet"


def test_wordpieces_leave_the_spaces_to_the_text():
    gaps, _ = with_mask(wordpiece())
    tokenizer = wordpiece()
    sweet, keep, stop = (tokenizer.token_to_id(token) for token in ("sweet", "##keep", "."))
    assert (gaps.shown(sweet), gaps.shown(keep)) == ("sweet", "##keep")
    assert gaps.filled("The ([MASK]) bee", [sweet]) == "The (sweet) bee"
    assert gaps.filled("The  [MASK] Bee [MASK]er [MASK]", [sweet, keep, stop]) == "The  sweet Beekeeper."


def test_words_and_characters_leave_the_spaces_to_the_text():
    gaps, _ = with_mask(plain_words())
    assert gaps.filled("a [MASK] bee", [2]) == "a sweet bee"
    gaps, number = with_mask(chars())
    assert gaps.ids("ab [MASK]") == [1, 2, 5, number]
    assert gaps.filled("ab [MASK][MASK]s", [3, 1]) == "ab cas"
