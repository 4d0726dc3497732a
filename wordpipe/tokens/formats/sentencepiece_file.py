"""Converting a sentencepiece `.model`, so that every text gets the ids that sentencepiece gives it.

Unigram models (Kudo 2018) and BPE models are taken. What tokenizers cannot do alike is refused: word and character models,
white space as a suffix, unused pieces, scores that are equal where they decide. Four things differ, all of them rare:

- a control symbol written out in the text (`<s>`) is taken for the symbol, and so is `<0x0A>` in unigram models with bytes;
- where two ways to cut a word have the same score up to rounding, sentencepiece adds in single and tokenizers in double
  precision, and may choose the other (at most 22 of 25,020 lines);
- letters with combining marks that the normalisation would compose or fold together: tokenizers looks at each by itself;
- decoding leaves an unknown piece out where special tokens are skipped; sentencepiece writes ⁇.
"""

import re
from collections import Counter

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from wordpipe.errors import InputError
from wordpipe.tokens.formats.charsmap import charsmap_fault
from wordpipe.tokens.formats.foreign import Foreign
from wordpipe.tokens.formats.sentencepiece_proto import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNIGRAM,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    SentencePieceModel,
    parse_model,
)
from wordpipe.tokens.formats.tiktoken_file import last_merge

__all__ = ["read_sentencepiece"]

SPACE = "▁"
_ALGORITHMS = {3: "word", 4: "char"}


def read_sentencepiece(data: bytes, where: str) -> Tokenizer:
    """The tokenizer of a sentencepiece model.

    Args:
        data: the file.
        where: its path, for errors.

    Raises:
        InputError: damaged, or not to be converted exactly.
    """
    model = parse_model(data, where)
    _check(model, where)
    with Foreign("tokenizers cannot use this model", where):
        tokenizer = Tokenizer(_unigram(model) if model.algorithm == UNIGRAM else _bpe(model, where))
        tokenizer.normalizer = normalizers.Sequence(_normalizers(model))
        if steps := _pre_tokenizers(model):
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.decoder = _decoder(model)
        special = [piece.text for piece in model.pieces if piece.kind in (UNKNOWN, CONTROL)]
        tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
        _check_user_defined(model, tokenizer, where)
    return tokenizer


def _check(model: SentencePieceModel, where: str) -> None:
    """Refuse what cannot be converted exactly."""
    if model.algorithm not in (UNIGRAM, BPE):
        name = _ALGORITHMS.get(model.algorithm, str(model.algorithm))
        raise _refusal("models of this type cannot be converted", where, name, "unigram or bpe")
    if model.whitespace_as_suffix or not model.escape_whitespaces:
        name = "treat_whitespace_as_suffix" if model.whitespace_as_suffix else "escape_whitespaces=false"
        raise _refusal("models with this option cannot be converted", where, name)
    if unused := [piece.text for piece in model.pieces if piece.kind == UNUSED]:
        raise _refusal("models with unused pieces cannot be converted", where, f"{len(unused)}, as {unused[0]!r}")
    if (unknown := sum(piece.kind == UNKNOWN for piece in model.pieces)) != 1:
        raise _refusal("a model needs one unknown piece", where, unknown)
    if strange := [piece.kind for piece in model.pieces if not NORMAL <= piece.kind <= BYTE]:
        raise _refusal("a piece of a kind that is not known", where, strange[0])
    if len({piece.text for piece in model.pieces}) < len(model.pieces):
        raise _refusal("a piece is there twice", where, _twice([piece.text for piece in model.pieces]))
    if model.charsmap and (fault := charsmap_fault(model.charsmap)) is not None:
        raise InputError("the normalisation table is damaged", where=where, got=fault)


def _refusal(what: str, where: str, got: object, expected: str | None = None) -> InputError:
    hint = "encode with sentencepiece itself, or train a tokenizer with: wordpipe tokenize CORPUS --algorithm unigram"
    return InputError(what, where=where, got=got, expected=expected, hint=hint)


def _twice(texts: list[str]) -> str:
    return next(text for text, count in Counter(texts).items() if count > 1)


def _unigram(model: SentencePieceModel) -> models.Unigram:
    """User-defined pieces are cut out of the text before; a score of nothing makes them the best way to spell themselves."""
    unknown = next(number for number, piece in enumerate(model.pieces) if piece.kind == UNKNOWN)
    vocabulary = [(piece.text, piece.score if piece.kind == NORMAL else 0.0) for piece in model.pieces]
    return models.Unigram(vocabulary, unknown, _has_bytes(model))


def _bpe(model: SentencePieceModel, where: str) -> models.BPE:
    normal = [piece for piece in model.pieces if piece.kind == NORMAL]
    known = {piece.text for piece in normal}
    longer = sorted((piece for piece in normal if len(piece.text) > 1), key=lambda piece: -piece.score)
    if len({piece.score for piece in longer}) < len(longer):
        raise _refusal(
            "two pieces have the same score, so their order is not known", where, "a model that was put together"
        )
    ranks = {piece.text.encode(): rank for rank, piece in enumerate(longer)}
    merges = []
    for piece in longer:
        made = last_merge([character.encode() for character in piece.text], ranks)
        if made is None:
            if _user_defined(model):
                raise _refusal("a piece that joining cannot make, beside user-defined symbols", where, repr(piece.text))
            continue
        left, right = made[0].decode(), made[1].decode()
        if left not in known or right not in known:
            raise _refusal("a piece is made of characters that are no pieces", where, repr(piece.text))
        merges.append((left, right))
    return models.BPE(
        vocab={piece.text: number for number, piece in enumerate(model.pieces)},
        merges=merges,
        unk_token=next(piece.text for piece in model.pieces if piece.kind == UNKNOWN),
        fuse_unk=True,
        byte_fallback=_has_bytes(model),
        ignore_merges=bool(_user_defined(model)),  # cut out of the text before, they are taken as they are
    )


def _normalizers(model: SentencePieceModel) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = []
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    if model.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        steps.append(normalizers.Replace(Regex(rf"(?<![ {SPACE}])[ {SPACE}]+\z|\A "), ""))
    if model.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE))
    steps.append(normalizers.Replace(" ", SPACE))
    return steps


def _pre_tokenizers(model: SentencePieceModel) -> list[pre_tokenizers.PreTokenizer]:
    steps: list[pre_tokenizers.PreTokenizer] = []
    if symbols := _user_defined(model):
        longest_first = sorted(symbols, key=lambda text: (-len(text), text))
        steps.append(pre_tokenizers.Split(Regex("|".join(map(re.escape, longest_first))), "isolated"))
    ordinary = [piece.text for piece in model.pieces if piece.kind in (NORMAL, USER_DEFINED)]
    if SPACE in ordinary and not any(SPACE in text[1:] for text in ordinary):
        steps.append(pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never", split=True))
    return steps


def _decoder(model: SentencePieceModel) -> decoders.Decoder:
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if model.add_dummy_prefix else steps)


def _check_user_defined(model: SentencePieceModel, tokenizer: Tokenizer, where: str) -> None:
    """These are kept from normalisation by sentencepiece; here they have to survive it."""
    for text in _user_defined(model):
        if " " in text or f"a{text}a" not in tokenizer.normalizer.normalize_str(f"a{text}a"):
            raise _refusal("the normalisation changes a user-defined symbol", where, repr(text))


def _user_defined(model: SentencePieceModel) -> list[str]:
    return [piece.text for piece in model.pieces if piece.kind == USER_DEFINED]


def _has_bytes(model: SentencePieceModel) -> bool:
    return any(piece.kind == BYTE for piece in model.pieces)
