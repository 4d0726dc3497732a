"""Training a tokenizer of any algorithm from counted pre-tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tokenizers import Tokenizer, models, pre_tokenizers

from wordpipe.tokens.normal.schemes import build_tokenizer, is_byte_level
from wordpipe.tokens.pretokens import Pretokens
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.special import SPECIAL_TOKENS, UNK
from wordpipe.tokens.train.merges import train_bpe
from wordpipe.tokens.train.merges import training_bytes as bpe_bytes
from wordpipe.tokens.train.plain import train_chars, train_words
from wordpipe.tokens.train.unigram import train_unigram
from wordpipe.tokens.train.unigram import training_bytes as unigram_bytes

__all__ = ["Trained", "train_tokenizer", "training_bytes"]

Report = Callable[[int, int], None]
CONTINUING = "##"  # stands before a WordPiece token that does not open a word
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
    """Memory that training takes for so many bytes of pre-tokens and so many of them."""
    if settings.algorithm in ("bpe", "wordpiece"):
        return bpe_bytes(size, number, settings.vocab_size)
    return unigram_bytes(size, number) if settings.algorithm == "unigram" else 64 * number + size


def train_tokenizer(pretokens: Pretokens, settings: TokenizeSettings, report: Report | None = None) -> Trained:
    """Train on counted pre-tokens. The result depends on them and the settings alone.

    Args:
        pretokens: in the order of `Pretokens`.
        settings: with a pre-tokenizer chosen, not "auto".
        report: told how many tokens of how many there are.
    """
    train = {"bpe": _bpe, "wordpiece": _wordpiece, "unigram": _unigram, "word": _words, "char": _chars}
    model, counts, warnings = train[settings.algorithm](pretokens, settings, report)
    tokenizer = build_tokenizer(model, settings)
    if settings.pretokenizer != "characters" and (size := tokenizer.get_vocab_size()) < settings.vocab_size:
        warnings.append(
            f"the text gave {size:,} tokens and not {settings.vocab_size:,}: "
            + (
                "too little of it"
                if settings.algorithm == "unigram"
                else "too little of it, or --min-frequency is too high"
            )
        )
    return Trained(tokenizer, counts, warnings)


Made = tuple[models.Model, dict[str, int], list[str]]


def _bpe(pretokens: Pretokens, settings: TokenizeSettings, report: Report | None) -> Made:
    byte_level = is_byte_level(settings)
    trained = train_bpe(
        pretokens,
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()) if byte_level else (),
        byte_level=byte_level,
        limit_alphabet=None if byte_level else _most_letters(settings),
        report=report,
    )
    model = models.BPE(vocab=trained.vocab, merges=trained.merges, **({} if byte_level else {"unk_token": UNK}))
    return model, *_dropped(trained.dropped_letters, trained.dropped_occurrences)


def _wordpiece(pretokens: Pretokens, settings: TokenizeSettings, report: Report | None) -> Made:
    trained = train_bpe(
        pretokens,
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
        special_tokens=SPECIAL_TOKENS,
        byte_level=is_byte_level(settings),
        limit_alphabet=_most_letters(settings),
        continuing_prefix=CONTINUING,
        report=report,
    )
    model = models.WordPiece(
        vocab=trained.vocab,
        unk_token=UNK,
        max_input_chars_per_word=MAX_WORD_CHARS,
        continuing_subword_prefix=CONTINUING,
    )
    return model, *_dropped(trained.dropped_letters, trained.dropped_occurrences)


def _most_letters(settings: TokenizeSettings) -> int:
    """Thousands of rare characters would leave no room for words."""
    return max(1, settings.vocab_size // 3)


def _dropped(letters: int, occurrences: int) -> tuple[dict[str, int], list[str]]:
    if not letters:
        return {}, []
    warning = (
        f"{letters:,} rare characters ({occurrences:,} occurrences) got no token and become {UNK}; "
        "a larger --vocab-size keeps them, --pretokenizer gpt2 knows every byte"
    )
    return {"letters_left_out": letters, "letters_left_out_occurrences": occurrences}, [warning]


def _unigram(pretokens: Pretokens, settings: TokenizeSettings, report: Report | None) -> Made:
    byte_level = is_byte_level(settings)
    trained = train_unigram(
        pretokens,
        vocab_size=settings.vocab_size,
        special_tokens=SPECIAL_TOKENS,
        byte_level=byte_level,
        unk_token=UNK,
        limit_alphabet=None if byte_level else _most_letters(settings),
        report=report,
    )
    # tokenizers reads a number with more digits from its file as one of the two nearest to it
    vocab = [(token, float(f"{score:.12g}")) for token, score in trained.vocab]
    model = models.Unigram(vocab, unk_id=SPECIAL_TOKENS.index(UNK), byte_fallback=False)
    return model, *_dropped(trained.dropped_letters, trained.dropped_occurrences)


def _words(pretokens: Pretokens, settings: TokenizeSettings, _: Report | None) -> Made:
    trained = train_words(
        pretokens,
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
        special_tokens=SPECIAL_TOKENS,
        byte_level=is_byte_level(settings),
    )
    model = models.WordLevel(vocab=trained.vocab, unk_token=UNK)
    counts = {
        "pretokens_without_token": trained.dropped,
        "pretokens_without_token_occurrences": trained.dropped_occurrences,
    }
    return model, counts if trained.dropped else {}, []


def _chars(pretokens: Pretokens, settings: TokenizeSettings, _: Report | None) -> Made:
    trained = train_chars(
        pretokens,
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency if "min_frequency" in settings.model_fields_set else 1,
        special_tokens=SPECIAL_TOKENS,
        byte_level=is_byte_level(settings),
    )
    model = models.BPE(vocab=trained.vocab, merges=[], unk_token=UNK)
    return model, *_dropped(trained.dropped, trained.dropped_occurrences)
