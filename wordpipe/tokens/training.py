"""Training: a tokenizer of any algorithm from counted pre-tokens.

Vocabularies without subwords, which textbooks begin with, are made here: the commonest words, or the commonest characters.
What is not among them is unknown. A word vocabulary is that of the `WordLevelTrainer` of Hugging Face tokenizers. It has no
trainer for characters; a BPE model without merges, whose vocabulary is made of characters, is an exact character tokenizer.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from wordpipe.tokens.counting import StringCounts
from wordpipe.tokens.kernels.bpe_train import Report, alphabet_of, train_bpe
from wordpipe.tokens.kernels.bpe_train import training_bytes as bpe_bytes
from wordpipe.tokens.kernels.unigram_train import symbols_of, train_unigram
from wordpipe.tokens.kernels.unigram_train import training_bytes as unigram_bytes
from wordpipe.tokens.pretokenizers import build_tokenizer
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.vocabulary import CONTINUING, SPECIAL_TOKENS, UNK, byte_letters, spelled_bytes

MAX_WORD_CHARS = 100  # longer words are unknown to WordPiece, as in BERT


@dataclass(frozen=True)
class Trained:
    """A tokenizer and what happened while it was trained.

    Attributes:
        tokenizer: with normalizer, pre-tokenizer, decoder, post-processor and special tokens.
        counts: what was left out, by name.
        warnings: what the user should know.
    """

    tokenizer: Tokenizer
    counts: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def training_bytes(settings: TokenizeSettings, size: int, number: int) -> int:
    """Return the memory that training takes for `number` pre-tokens of `size` bytes together."""
    if settings.algorithm in ("bpe", "wordpiece"):
        return bpe_bytes(size, number, settings.vocab_size)
    return unigram_bytes(size, number) if settings.algorithm == "unigram" else 64 * number + size


def train_tokenizer(pretokens: StringCounts, settings: TokenizeSettings, report: Report | None = None) -> Trained:
    """Train a tokenizer on counted pre-tokens. The result depends on them and the settings alone.

    Args:
        pretokens: in the order of `sorted_by_count`.
        settings: with a pre-tokenizer chosen, not "auto".
        report: called with the number of tokens made and of those to make.
    """
    train = {"bpe": _bpe, "wordpiece": _wordpiece, "unigram": _unigram, "word": _words, "char": _chars}
    model, counts, warnings = train[settings.algorithm](pretokens, settings, report)
    tokenizer = build_tokenizer(model, settings)
    if settings.pretokenizer != "characters" and (size := tokenizer.get_vocab_size()) < settings.vocab_size:
        why = (
            ""
            if settings.algorithm == "unigram" or settings.min_frequency == 1
            else "; use --min-frequency 1 to get more tokens"
        )
        warnings.append(
            f"the text is too short for {settings.vocab_size:,} tokens, so the tokenizer has {size:,} tokens{why}"
        )
    return Trained(tokenizer, counts, warnings)


TrainedModel = tuple[models.Model, dict[str, int], list[str]]  # with counts and warnings, as of `Trained`


def _shared(settings: TokenizeSettings) -> dict[str, Any]:
    """Return the arguments of all trainers of tokenizers."""
    return {"vocab_size": settings.vocab_size, "special_tokens": SPECIAL_TOKENS, "byte_level": settings.byte_level}


def _most_letters(settings: TokenizeSettings) -> int:
    """Return the most letters of a vocabulary: thousands of rare characters would leave no room for words."""
    return max(1, settings.vocab_size // 3)


def _bpe(pretokens: StringCounts, settings: TokenizeSettings, report: Report | None) -> TrainedModel:
    """Train a byte-pair encoding model on pre-tokens."""
    letters: dict[str, Any] = {"limit_alphabet": _most_letters(settings)}
    if byte_level := settings.byte_level:
        letters = {"initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet())}
    least = settings.min_frequency
    trained = train_bpe(pretokens, min_frequency=least, report=report, **letters, **_shared(settings))
    model = models.BPE(vocab=trained.vocab, merges=trained.merges, **({} if byte_level else {"unk_token": UNK}))
    return model, *_dropped(trained.dropped_letters, trained.dropped_occurrences)


def _wordpiece(pretokens: StringCounts, settings: TokenizeSettings, report: Report | None) -> TrainedModel:
    """Train a WordPiece model on pre-tokens."""
    letters, least = _most_letters(settings), settings.min_frequency
    trained = train_bpe(
        pretokens, min_frequency=least, limit_alphabet=letters, continuing_prefix=CONTINUING, report=report,
        **_shared(settings),
    )  # fmt: skip
    model = models.WordPiece(
        vocab=trained.vocab, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARS,
        continuing_subword_prefix=CONTINUING,
    )  # fmt: skip
    return model, *_dropped(trained.dropped_letters, trained.dropped_occurrences)


def _dropped(letters: int, occurrences: int) -> tuple[dict[str, int], list[str]]:
    """Return the counts and the warning about rare characters that got no token."""
    if not letters:
        return {}, []
    warning = (
        f"{letters:,} rare characters ({occurrences:,} occurrences) have no token and become {UNK}; "
        "use a larger --vocab-size, or use --pretokenizer gpt2, which has a token for every byte"
    )
    return {"letters_left_out": letters, "letters_left_out_occurrences": occurrences}, [warning]


def _unigram(pretokens: StringCounts, settings: TokenizeSettings, report: Report | None) -> TrainedModel:
    """Train a unigram language model on pre-tokens."""
    letters = None if settings.byte_level else _most_letters(settings)
    trained = train_unigram(pretokens, limit_alphabet=letters, report=report, **_shared(settings))
    # tokenizers reads a number with more digits from its file as one of the two nearest to it
    vocab = [(token, float(f"{score:.12g}")) for token, score in trained.vocab]
    model = models.Unigram(vocab, unk_id=SPECIAL_TOKENS.index(UNK), byte_fallback=False)
    return model, *_dropped(trained.dropped_letters, trained.dropped_occurrences)


def _words(pretokens: StringCounts, settings: TokenizeSettings, _: Report | None) -> TrainedModel:
    """Make a model of whole words from pre-tokens."""
    trained = train_words(pretokens, min_frequency=settings.min_frequency, **_shared(settings))
    counts = {}
    if trained.dropped:
        counts["pretokens_without_token"] = trained.dropped
        counts["pretokens_without_token_occurrences"] = trained.dropped_occurrences
    return models.WordLevel(vocab=trained.vocab, unk_token=UNK), counts, []


def _chars(pretokens: StringCounts, settings: TokenizeSettings, _: Report | None) -> TrainedModel:
    """Make a model of single characters from pre-tokens."""
    least = settings.min_frequency if "min_frequency" in settings.model_fields_set else 1
    trained = train_chars(pretokens, min_frequency=least, **_shared(settings))
    model = models.BPE(vocab=trained.vocab, merges=[], unk_token=UNK)
    return model, *_dropped(trained.dropped, trained.dropped_occurrences)


@dataclass(frozen=True)
class PlainResult:
    """A vocabulary of words or characters, and what it leaves out.

    Attributes:
        vocab: token → id; special tokens, then the others by falling count.
        dropped: distinct words or characters without a token.
        dropped_occurrences: how often these occur in the text.
    """

    vocab: dict[str, int]
    dropped: int
    dropped_occurrences: int


def train_words(
    pretokens: StringCounts, *, vocab_size: int, min_frequency: int, special_tokens: Sequence[str], byte_level: bool
) -> PlainResult:
    """Return the commonest pre-tokens, of equally common ones the lowest in the order of code points.

    Args:
        pretokens: distinct pre-tokens and their counts.
        vocab_size: tokens wanted, special tokens included; fewer when the words run out.
        min_frequency: a word that occurs less often gets no token.
        special_tokens: the first tokens; doubles count once. A word that is spelled like one of them shares its id.
        byte_level: words are written in the letters of `byte_letters`.
    """
    vocab = {token: row for row, token in enumerate(dict.fromkeys(special_tokens))}
    least = max([min_frequency, *pretokens.counts[vocab_size - 1 : vocab_size].tolist()])  # the commonest come first
    number = int(np.count_nonzero(pretokens.counts >= least))
    data, spell = pretokens.data.tobytes(), spelled_bytes if byte_level else bytes.decode
    rows = zip(pretokens.counts[:number].tolist(), pairwise(pretokens.offsets[: number + 1].tolist()), strict=True)
    ranked = ((-count, spell(data[begin:end])) for count, (begin, end) in rows)
    kept = kept_occurrences = 0
    for negative_count, word in heapq.nsmallest(vocab_size, ranked):
        if len(vocab) == vocab_size and word not in vocab:
            continue
        vocab.setdefault(word, len(vocab))
        kept += 1
        kept_occurrences -= negative_count
    return PlainResult(vocab, len(pretokens) - kept, int(pretokens.counts.sum()) - kept_occurrences)


def train_chars(
    pretokens: StringCounts, *, vocab_size: int, min_frequency: int = 1, special_tokens: Sequence[str], byte_level: bool
) -> PlainResult:
    """Return the commonest characters, of equally common ones the lowest code points; or the letters of all 256 bytes.

    `tokenizers.models.BPE(vocab, merges=[], unk_token=…)` encodes with it. If no pre-tokenizer drops or adds anything and the
    decoder is `Fuse` (`ByteLevel` for bytes), decoding gives back every text whose characters are known.
    The arguments are those of `train_words`, of characters; with `byte_level` each byte has a token.
    """
    vocab = {token: row for row, token in enumerate(dict.fromkeys(special_tokens))}
    initial = byte_letters() if byte_level else ()
    alphabet = alphabet_of(pretokens, initial_alphabet=initial, byte_level=byte_level)
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
