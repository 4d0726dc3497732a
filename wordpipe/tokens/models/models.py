"""The compiled model of a tokenizer, where it is proven to give the same ids as Hugging Face tokenizers."""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from wordpipe.tokens.models.bpe_model import DROPPED, MISSING, BpeModel
from wordpipe.tokens.models.unigram_model import UnigramModel
from wordpipe.tokens.models.unit_model import MAX_BYTES, UnitModel
from wordpipe.tokens.models.wordpiece_model import WordLevelModel, WordPieceModel

__all__ = ["UnitModel", "model_of"]

_KEYS = {
    "BPE": {
        "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
        "ignore_merges", "vocab", "merges",
    },
    "WordPiece": {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
    "WordLevel": {"unk_token", "vocab"},
    "Unigram": {"unk_id", "vocab", "byte_fallback"},
}  # fmt: skip
_MAX_ID = 2**31 - 1


def model_of(tokenizer: Tokenizer, *, byte_level: bool) -> UnitModel | None:
    """Compile the model of a tokenizer.

    Args:
        tokenizer: its normalizer, pre-tokenizer and added tokens play no part here.
        byte_level: its pre-tokenizer turns text into byte letters. The compiled model takes the text itself.

    Returns:
        None where the model has an option that is not proven here: dropout, two tokens of one id, scores that are not
        numbers, or anything that this module has never heard of.
    """
    model = json.loads(tokenizer.to_str())["model"]
    kind = model.pop("type", None)
    if kind not in _KEYS or set(model) != _KEYS[kind] or not _is_plain(model["vocab"], tokenizer):
        return None
    return {"BPE": _bpe, "WordPiece": _wordpiece, "WordLevel": _word_level, "Unigram": _unigram}[kind](
        model, byte_level
    )


def _is_plain(vocabulary: Mapping[str, int] | list[tuple[str, float | None]], tokenizer: Tokenizer) -> bool:
    """Whether the file says all about the vocabulary: tokens that share an id are not all written."""
    if len(vocabulary) != tokenizer.get_vocab_size(with_added_tokens=False):
        return False
    if isinstance(vocabulary, list):
        if any(score is None for _, score in vocabulary):
            return False
        tokens = [token for token, _ in vocabulary]
    else:
        tokens = list(vocabulary)
        if max(vocabulary.values(), default=0) > _MAX_ID:
            return False
    return sum(map(len, tokens)) * 4 < MAX_BYTES


def _bpe(model: dict[str, Any], byte_level: bool) -> UnitModel | None:
    vocabulary, unknown = model["vocab"], model["unk_token"]
    prefix, suffix = model["continuing_subword_prefix"] or "", model["end_of_word_suffix"] or ""
    if model["dropout"] or (model["byte_fallback"] and (prefix or suffix)):
        return None
    try:
        return BpeModel(
            vocabulary,
            model["merges"],
            unknown=DROPPED if unknown is None else vocabulary.get(unknown, MISSING),
            fuse_unknown=model["fuse_unk"],
            byte_fallback=model["byte_fallback"],
            whole_words=model["ignore_merges"],
            prefix=prefix,
            suffix=suffix,
            byte_level=byte_level,
        )
    except (KeyError, UnicodeDecodeError):  # the file does not hold what its own loader asks for
        return None


def _wordpiece(model: dict[str, Any], byte_level: bool) -> UnitModel:
    return WordPieceModel(
        model["vocab"],
        unknown=model["vocab"].get(model["unk_token"], -1),
        prefix=model["continuing_subword_prefix"],
        max_characters=model["max_input_chars_per_word"],
        byte_level=byte_level,
    )


def _word_level(model: dict[str, Any], byte_level: bool) -> UnitModel:
    return WordLevelModel(model["vocab"], unknown=model["vocab"].get(model["unk_token"], -1), byte_level=byte_level)


def _unigram(model: dict[str, Any], byte_level: bool) -> UnitModel:
    unknown = model["unk_id"]
    return UnigramModel(
        model["vocab"],
        unknown=-1 if unknown is None else unknown,
        byte_fallback=model["byte_fallback"],
        byte_level=byte_level,
    )
