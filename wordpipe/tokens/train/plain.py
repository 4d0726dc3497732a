"""Vocabularies without subwords, which textbooks begin with: the commonest words, or the commonest characters.

What is not among them is unknown. A word vocabulary is that of the `WordLevelTrainer` of Hugging Face tokenizers. It has no
trainer for characters; a BPE model without merges, whose vocabulary is made of characters, is an exact character tokenizer.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wordpipe.errors import ConfigError
from wordpipe.tokens.letters import byte_letters
from wordpipe.tokens.pretokens import Pretokens
from wordpipe.tokens.train.alphabet import alphabet_of
from wordpipe.tokens.train.seed_pieces import symbols_of

__all__ = ["PlainResult", "train_chars", "train_words"]

_LETTERS = str.maketrans(dict(enumerate(byte_letters())))


@dataclass(frozen=True)
class PlainResult:
    """A vocabulary and what it leaves out.

    Attributes:
        vocab: token → id; special tokens, then the others by falling count.
        dropped: distinct words or characters without a token.
        dropped_occurrences: how often these occur in the text.
    """

    vocab: dict[str, int]
    dropped: int
    dropped_occurrences: int


def train_words(
    pretokens: Pretokens, *, vocab_size: int, min_frequency: int, special_tokens: Sequence[str], byte_level: bool
) -> PlainResult:
    """The commonest pre-tokens, of equally common ones the lowest in the order of code points.

    Args:
        pretokens: distinct pre-tokens and their counts.
        vocab_size: tokens wanted, special tokens included; fewer when the words run out.
        min_frequency: a word that occurs less often gets no token.
        special_tokens: the first tokens; doubles count once. A word that is spelled like one of them shares its id.
        byte_level: words are written in the letters of `byte_letters`.

    Raises:
        ConfigError: no room for words.
    """
    vocab = _begin(special_tokens, vocab_size, 1)
    least = max([min_frequency, *pretokens.counts[vocab_size - 1 : vocab_size].tolist()])  # the commonest come first
    number = int(np.count_nonzero(pretokens.counts >= least))
    words = heapq.nsmallest(
        vocab_size, _ranked(pretokens, number, byte_level)
    )  # few enough for special tokens among them
    kept = kept_occurrences = 0
    for negative_count, word in words:
        if len(vocab) == vocab_size and word not in vocab:
            continue
        vocab.setdefault(word, len(vocab))
        kept += 1
        kept_occurrences -= negative_count
    return PlainResult(vocab, len(pretokens) - kept, int(pretokens.counts.sum()) - kept_occurrences)


def train_chars(
    pretokens: Pretokens, *, vocab_size: int, min_frequency: int = 1, special_tokens: Sequence[str], byte_level: bool
) -> PlainResult:
    """The commonest characters, of equally common ones the lowest code points; with `byte_level` the letters of all 256 bytes.

    `tokenizers.models.BPE(vocab, merges=[], unk_token=…)` encodes with it. If no pre-tokenizer drops or adds anything and the
    decoder is `Fuse` (`ByteLevel` for bytes), decoding gives back every text whose characters are known.

    Args:
        pretokens: distinct pre-tokens and their counts.
        vocab_size: tokens wanted, special tokens included; fewer when the characters run out.
        min_frequency: a character that occurs less often gets no token; bytes always do.
        special_tokens: the first tokens; doubles count once. A character that is one of them shares its id.
        byte_level: characters are bytes.

    Raises:
        ConfigError: no room for characters, or for all bytes.
    """
    vocab = _begin(special_tokens, vocab_size, 256 if byte_level else 1)
    alphabet = alphabet_of(
        pretokens,
        special_tokens=(),
        initial_alphabet=byte_letters() if byte_level else (),
        byte_level=byte_level,
        limit_alphabet=None,
        continuing_prefix="",
    )
    counts = symbols_of(pretokens, alphabet).letter_counts(len(alphabet.tokens))
    dropped = dropped_occurrences = 0
    for letter in np.argsort(-counts, kind="stable").tolist():
        rare = not byte_level and counts[letter] < min_frequency
        if alphabet.tokens[letter] not in vocab and (rare or len(vocab) == vocab_size):
            dropped += 1
            dropped_occurrences += int(counts[letter])
        else:
            vocab.setdefault(alphabet.tokens[letter], len(vocab))
    return PlainResult(vocab, dropped, dropped_occurrences)


def _begin(special_tokens: Sequence[str], vocab_size: int, least: int) -> dict[str, int]:
    """The vocabulary of special tokens alone."""
    vocab = {token: row for row, token in enumerate(dict.fromkeys(special_tokens))}
    if vocab_size < len(vocab) + least:
        raise ConfigError(
            "no room beside the special tokens",
            where="vocab_size",
            got=vocab_size,
            expected=f"at least {len(vocab) + least}",
        )
    return vocab


def _ranked(pretokens: Pretokens, number: int, byte_level: bool) -> Iterator[tuple[int, str]]:
    """The first rows of the table as (negative count, word as the vocabulary spells it)."""
    data = pretokens.data.tobytes()
    for row in range(number):
        text = data[pretokens.offsets[row] : pretokens.offsets[row + 1]]
        word = text.decode("latin-1").translate(_LETTERS) if byte_level else text.decode()
        yield -int(pretokens.counts[row]), word
