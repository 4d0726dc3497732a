"""Training a tokenizer with Hugging Face tokenizers, and opening one that exists.

BPE is byte-level (Sennrich et al. 2016 on bytes as in Radford et al. 2019): every text has an encoding and comes back
exactly. WordPiece is BERT's (Devlin et al. 2019): words split at spaces and punctuation, `##` inside a word.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from wordpipe.errors import InputError
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.special import CLS, SEP, SPECIAL_TOKENS, UNK

__all__ = ["open_tokenizer", "piece_splitter", "train_tokenizer"]


def train_tokenizer(texts: Iterator[str], settings: TokenizeSettings) -> Tokenizer:
    """Train on a stream of texts.

    Raises:
        InputError: the texts hold nothing to learn from.
    """
    train = {"bpe": _train_bpe, "wordpiece": _train_wordpiece}[settings.algorithm]
    tokenizer = train(texts, settings)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise InputError("no text to train a tokenizer on")
    ids = {token: tokenizer.token_to_id(token) for token in (CLS, SEP)}
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}", pair=f"{CLS} $A {SEP} $B:1 {SEP}:1", special_tokens=list(ids.items())
    )
    return tokenizer


def _train_bpe(texts: Iterator[str], settings: TokenizeSettings) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if settings.lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _train_wordpiece(texts: Iterator[str], settings: TokenizeSettings) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNK, max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=settings.lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        limit_alphabet=max(1, settings.vocab_size // 3),  # thousands of CJK characters would leave no room for words
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def open_tokenizer(data: bytes, *, where: str) -> Tokenizer:
    """Load a `tokenizer.json`, with truncation and padding switched off: nothing is cut in silence.

    Raises:
        InputError: not a tokenizer.
    """
    try:
        tokenizer = Tokenizer.from_str(data.decode())
    except Exception as error:  # noqa: BLE001  (tokenizers raises bare Exception)
        raise InputError("not a tokenizer.json that tokenizers can read", where=where, got=error) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def piece_splitter(tokenizer: Tokenizer) -> Callable[[str], list[str]]:
    """A function that cuts a run of text at the tokenizer's piece boundaries, never inside a character."""

    def pieces(run: str) -> list[str]:
        ends = {end for _, end in tokenizer.encode(run, add_special_tokens=False).offsets}
        cuts = sorted({0, len(run), *ends})
        return [run[start:end] for start, end in pairwise(cuts)]

    return pieces
