"""A tokenizer.json that cuts text into our words, so that other libraries read a static encoder's text as we do.

It is a WordLevel tokenizer of `tokenizers`: lower case, the word pattern, one id per word, and [UNK] for the rest. A run of a
script without spaces stays whole, as no pattern can cut it; a table of tokens serves such text better.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from wordpipe.errors import ArtifactError

UNKNOWN = "[UNK]"

# the pattern of tokens/words.py in the words of Oniguruma, which has && in the place of --
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTERS = rf"[\p{{L}}\p{{M}}\p{{N}}&&[^{_UNSPACED}]]"
_WORD = rf"[{_UNSPACED}ー々]+|\p{{N}}+(?:[.,]\p{{N}}+)+|{_LETTERS}+(?:['’\-‐]{_LETTERS}+)*"
# Python's lower() ends a word with ς, looking past accents and apostrophes; letter by letter, as here, it would be σ. A look
# behind sees a single accent.
_CASED = r"[\p{Lu}\p{Ll}\p{Lt}]"
_IGNORED = r"[\p{M}\p{Lm}'’]"
_FINAL_SIGMA = rf"(?<={_CASED}|{_CASED}{_IGNORED})Σ(?!{_IGNORED}*{_CASED})"


def word_tokenizer(words: Sequence[str], *, keep_case: bool = False) -> bytes:
    """The tokenizer.json of a table of words.

    Args:
        words: the word of each row, none of them "[UNK]"; that becomes the row after them.
        keep_case: words are as written.
    """
    lower = [
        {"type": "Replace", "pattern": {"Regex": _FINAL_SIGMA}, "content": "ς"},
        {"type": "Lowercase"},
    ]
    parts: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None if keep_case else {"type": "Sequence", "normalizers": lower},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": _WORD}, "behavior": "Removed", "invert": True},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: row for row, word in enumerate([*words, UNKNOWN])},
            "unk_token": UNKNOWN,
        },
    }
    return json.dumps(parts, ensure_ascii=False).encode()


def unspaced_share(words: Sequence[str], counts: npt.NDArray[np.int64]) -> float:
    """Share of a text's words that are of a script without spaces, which this tokenizer cannot cut out of their runs.

    Args:
        words: V words.
        counts: (V,) how often the text has each.
    """
    begins = regex.compile(rf"[{_UNSPACED}]")
    unspaced = np.fromiter((begins.match(word) is not None for word in words), np.bool_, len(words))
    return float(counts[unspaced].sum() / max(1, counts.sum()))


def listed_words(tokenizer_json: bytes) -> tuple[list[str], bool] | None:
    """What `word_tokenizer` was given: the words, and whether they keep their case; None for a tokenizer of another kind.

    Raises:
        ArtifactError: not a tokenizer.json, or its ids are not 0, 1, 2, …
    """
    try:
        parts = json.loads(tokenizer_json)
        model, pre_tokenizer = parts["model"], parts["pre_tokenizer"]
        if model["type"] != "WordLevel" or (pre_tokenizer or {}).get("pattern", {}).get("Regex") != _WORD:
            return None
        words = sorted(model["vocab"], key=model["vocab"].__getitem__)
        if sorted(model["vocab"].values()) != list(range(len(words))) or words[-1:] != [UNKNOWN]:
            raise ValueError("ids with gaps")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError("not a readable tokenizer", where="tokenizer.json", got=error) from None
    return words[:-1], parts["normalizer"] is None
