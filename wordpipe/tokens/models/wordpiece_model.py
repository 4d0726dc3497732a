"""WordPiece and word-level models of single pre-tokens, compiled.

WordPiece (Schuster and Nakajima 2012; Devlin et al. 2019) takes the longest token that a word begins with, then the longest
marked one (`##`) that the rest begins with, and so on; a word that cannot be cut like this, or has too many characters, is
the unknown token.
"""

from collections.abc import Mapping

from wordpipe.compiled import kernel
from wordpipe.tokens.models.unit_model import Trie, UnitModel, build_trie, find, step
from wordpipe.tokens.ragged import I64, U8, U32, Flags
from wordpipe.tokens.vocabulary import token_bytes

__all__ = ["WordLevelModel", "WordPieceModel"]


class WordPieceModel(UnitModel):
    """Greedy longest match.

    Args:
        vocabulary: token to id.
        unknown: id of the unknown token; -1 if there is none: then words that need it are left unsure.
        prefix: what marks a token that continues a word.
        max_characters: words of more characters are unknown.
        byte_level: the vocabulary is written in byte letters.
    """

    def __init__(
        self, vocabulary: Mapping[str, int], *, unknown: int, prefix: str, max_characters: int, byte_level: bool
    ) -> None:
        continuing = {token[len(prefix) :]: number for token, number in vocabulary.items() if token.startswith(prefix)}
        first, following = _trie(vocabulary, byte_level=byte_level), _trie(continuing, byte_level=byte_level)
        super().__init__(_encode_wordpiece, first, following, unknown, min(max_characters, 1 << 62), byte_level)


class WordLevelModel(UnitModel):
    """Whole words.

    Args:
        vocabulary: word to id.
        unknown: id of the unknown token; -1 if there is none: then unknown words are left unsure.
        byte_level: the vocabulary is written in byte letters.
    """

    def __init__(self, vocabulary: Mapping[str, int], *, unknown: int, byte_level: bool) -> None:
        super().__init__(_encode_words, _trie(vocabulary, byte_level=byte_level), unknown)


def _trie(vocabulary: Mapping[str, int], *, byte_level: bool) -> Trie:
    texts = ((token_bytes(token, byte_level=byte_level), number) for token, number in vocabulary.items())
    return build_trie((text, number) for text, number in texts if text is not None)


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
    data: U8,
    starts: I64,
    ends: I64,
    first: Trie,
    following: Trie,
    unknown: int,
    max_characters: int,
    byte_level: bool,
    ids: U32,
    offsets: I64,
    unsure: Flags,
) -> None:
    written = 0
    for unit in range(len(starts)):
        start, end = starts[unit], ends[unit]
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
            unsure[unit] = unknown < 0
            if unknown >= 0:
                ids[count] = unknown
                count += 1
        written = count
        offsets[unit + 1] = written


@kernel
def _encode_words(
    data: U8, starts: I64, ends: I64, words: Trie, unknown: int, ids: U32, offsets: I64, unsure: Flags
) -> None:
    written = 0
    for unit in range(len(starts)):
        token = find(words, data, starts[unit], ends[unit])
        token = unknown if token < 0 else token
        if token < 0:
            unsure[unit] = True
        else:
            ids[written] = token
            written += 1
        offsets[unit + 1] = written
