"""WordPiece and word-level models of single pre-tokens, compiled.

WordPiece (Schuster and Nakajima 2012; Devlin et al. 2019) takes the longest token that a word begins with, then the longest
marked one (`##`) that the rest begins with, and so on; a word that cannot be cut like this, or has too many characters, is
the unknown token. A word-level model knows whole words alone.
"""

from collections.abc import Mapping
from typing import Any

from wordpipe.compiled import kernel
from wordpipe.tokens.kernels.pretoken_model import PretokenModel, Trie, find, step, trie_of
from wordpipe.tokens.vocabulary import I64, U8, U32, Flags


def wordpiece_model(model: Mapping[str, Any], byte_level: bool) -> PretokenModel:
    """Greedy longest match, from its part of a `tokenizer.json`; without an unknown token, words that need it are unsure."""
    vocabulary, prefix = model["vocab"], model["continuing_subword_prefix"]
    continuing = {token[len(prefix) :]: number for token, number in vocabulary.items() if token.startswith(prefix)}
    unknown, longest = vocabulary.get(model["unk_token"], -1), min(model["max_input_chars_per_word"], 1 << 62)
    tries = trie_of(vocabulary, byte_level), trie_of(continuing, byte_level)
    return PretokenModel(_encode_wordpiece, *tries, unknown, longest, byte_level)


def word_level_model(model: Mapping[str, Any], byte_level: bool) -> PretokenModel:
    """Whole words; without an unknown token, unknown words are left unsure."""
    vocabulary = model["vocab"]
    return PretokenModel(_encode_words, trie_of(vocabulary, byte_level), vocabulary.get(model["unk_token"], -1))


@kernel
def _longest(trie: Trie, data: U8, start: int, end: int) -> tuple[int, int]:
    """The id of the longest token that the span begins with, and where it ends; (-1, start) if there is none."""
    best, best_end = -1, start
    node = 0
    for at in range(start, end):
        node = step(trie.edges, node, int(data[at]))
        if node == 0:
            break
        if trie.ids[node] >= 0:
            best, best_end = int(trie.ids[node]), at + 1
    return best, best_end


@kernel
def _too_long(data: U8, start: int, end: int, max_characters: int, byte_level: bool) -> bool:
    if end - start <= max_characters:
        return False
    if byte_level:
        return True
    characters = 0
    for at in range(start, end):
        characters += (data[at] & 0xC0) != 0x80
    return characters > max_characters


@kernel
def _encode_wordpiece(
    data: U8, starts: I64, ends: I64, first: Trie, following: Trie, unknown: int, max_characters: int, byte_level: bool,
    ids: U32, offsets: I64, unsure: Flags,
) -> None:  # fmt: skip
    written = 0
    for pretoken in range(len(starts)):
        start, end = starts[pretoken], ends[pretoken]
        at, count = start, written
        bad = _too_long(data, start, end, max_characters, byte_level)
        while at < end and not bad:
            token, at = _longest(first if at == start else following, data, at, end)
            if token < 0:
                bad = True
            else:
                ids[count] = token
                count += 1
        if bad:
            count = written
            unsure[pretoken] = unknown < 0
            if unknown >= 0:
                ids[count] = unknown
                count += 1
        written = count
        offsets[pretoken + 1] = written


@kernel
def _encode_words(
    data: U8, starts: I64, ends: I64, words: Trie, unknown: int, ids: U32, offsets: I64, unsure: Flags
) -> None:
    written = 0
    for pretoken in range(len(starts)):
        token = find(words, data, starts[pretoken], ends[pretoken])
        token = unknown if token < 0 else token
        if token < 0:
            unsure[pretoken] = True
        else:
            ids[written] = token
            written += 1
        offsets[pretoken + 1] = written
