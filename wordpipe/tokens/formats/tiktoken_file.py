"""Reading a `.tiktoken` file: one token a line, its bytes in base64 and its rank.

The merges are not in the file: any two neighbours whose joined bytes are a token may be joined, the lowest rank first. A
token is therefore always made from the same two parts, those that are left of its own bytes when everything but itself has
been joined, and these are its merge in a `tokenizer.json`. The pattern and the special tokens are not in the file either;
`wordpipe export --to tiktoken` writes them beside it, and for other files they are told by the name or assumed.
"""

import base64
import hashlib
import heapq
from collections.abc import Callable, Mapping, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from wordpipe.errors import InputError
from wordpipe.tokens.formats.foreign import Foreign, read_json
from wordpipe.tokens.letters import byte_letters
from wordpipe.tokens.patterns import CL100K, pattern_named_by

__all__ = ["BYTE_LETTERS", "last_merge", "read_tiktoken"]

_MOST_HOLES = 1024


BYTE_LETTERS = byte_letters()


def read_tiktoken(data: bytes, where: str, beside: bytes | None, warn: Callable[[str], None]) -> Tokenizer:
    """The tokenizer that tiktoken would make of the file.

    Args:
        data: the file.
        where: its path, for errors; the name may tell the pattern.
        beside: the JSON that wordpipe writes beside it.
        warn: told what was assumed.

    Raises:
        InputError: a line that is no token, a rank or token twice, a byte without a token, or a JSON of another file.
    """
    ranks = _ranks(data, where)
    if beside is not None:
        return _tokenizer(ranks, *_beside(beside, f"{where}.json", data), where)
    pattern, special = _pattern(where, warn), dict[str, int]()
    if len(missing := sorted(set(range(max(ranks.values()))) - set(ranks.values()))):
        special = {f"<|unused_{rank}|>": rank for rank in missing}  # every id needs a token, or tables have holes
        warn(f"{where}: no token has the ranks {missing[0]} … {missing[-1]}; {len(missing)} unused tokens stand there")
    return _tokenizer(ranks, pattern, special, where)


def last_merge(symbols: Sequence[bytes], ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """The two parts that a token is made from: its symbols joined, the lowest rank first and itself never.

    Args:
        symbols: what its joined bytes are made of in the beginning: single bytes, or characters.
        ranks: token → rank.

    Returns:
        None where more than two parts are left, so that joining never makes this token.
    """
    parts: list[bytes | None] = list(symbols)
    whole, left = b"".join(symbols), len(parts)
    before, after = list(range(-1, left - 1)), list(range(1, left + 1))
    heap: list[tuple[int, int, bytes]] = []

    def offer(at: int, other: int) -> None:
        joined = parts[at] + parts[other]  # type: ignore[operator]  # both are there
        if joined != whole and joined in ranks:
            heapq.heappush(heap, (ranks[joined], at, joined))

    for at in range(left - 1):
        offer(at, at + 1)
    while heap:
        _, at, joined = heapq.heappop(heap)
        one, next_at = parts[at], after[at]
        if one is None or next_at >= len(parts) or one + (parts[next_at] or b"") != joined:
            continue
        parts[at], parts[next_at], left = joined, None, left - 1
        after[at] = after[next_at]
        if after[at] < len(parts):
            before[after[at]] = at
            offer(at, after[at])
        if before[at] >= 0:
            offer(before[at], at)
    found = [part for part in parts if part is not None]
    return (found[0], found[1]) if left == 2 else None


def _ranks(data: bytes, where: str) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    seen: set[int] = set()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        token, rank = _line(line, f"{where}:{number}")
        if token in ranks or rank in seen:
            raise InputError(
                "a token or a rank twice", where=f"{where}:{number}", got=line[:80].decode(errors="replace")
            )
        ranks[token] = rank
        seen.add(rank)
    if absent := [byte for byte in range(256) if bytes([byte]) not in ranks]:
        raise InputError("every byte needs a token of its own", where=where, got=f"none for byte {absent[0]:#04x}")
    if (holes := max(seen) + 1 - len(seen)) > _MOST_HOLES:
        raise InputError(
            "ranks are missing", where=where, got=f"{holes} of {max(seen) + 1}", expected="ranks from 0 on"
        )
    return ranks


def _line(line: bytes, where: str) -> tuple[bytes, int]:
    parts = line.split()
    try:
        token, rank = base64.b64decode(parts[0], validate=True), int(parts[1].decode("ascii"))
        if len(parts) != 2 or not token or not 0 <= rank < 1 << 31 or not parts[1].isdigit():
            raise ValueError
    except (ValueError, IndexError):
        got = line[:80].decode(errors="replace")
        raise InputError("not a line of a .tiktoken file", where=where, got=got, expected="base64 and a rank") from None
    return token, rank


def _pattern(where: str, warn: Callable[[str], None]) -> str:
    told = pattern_named_by(where.replace("\\", "/").rsplit("/", 1)[-1])
    if told is None:
        warn(f"{where}: a .tiktoken file does not hold its pattern; that of cl100k is taken, and no special tokens")
    else:
        warn(f"{where}: a .tiktoken file does not hold its special tokens; the tokenizer has none")
    return told or CL100K


def _beside(beside: bytes, where: str, data: bytes) -> tuple[str, dict[str, int]]:
    """Pattern and special tokens from the JSON beside the file."""
    facts = read_json(beside, where)
    if facts.get("sha256") != hashlib.sha256(data).hexdigest():
        hint = "export both again, or remove the .json to read the file without it"
        raise InputError("written for another .tiktoken file", where=where, hint=hint)
    pattern, special = facts.get("pattern"), facts.get("special_tokens")
    if not isinstance(pattern, str) or not isinstance(special, dict):
        raise InputError("pattern or special_tokens are missing", where=where)
    for token, number in special.items():
        if not token or not isinstance(number, int) or not 0 <= number < 1 << 31:
            raise InputError("not a special token and its id", where=where, got=f"{token!r}: {number!r}")
    return pattern, special


def _tokenizer(ranks: dict[bytes, int], pattern: str, special: dict[str, int], where: str) -> Tokenizer:
    vocabulary = {_spelled(token): rank for token, rank in ranks.items()}
    if len({*vocabulary.values(), *special.values()}) < len(vocabulary) + len(special) or vocabulary.keys() & special:
        raise InputError("a special token has the id or the name of another token", where=where)
    made = sorted((rank, last_merge([bytes([byte]) for byte in token], ranks)) for token, rank in ranks.items())
    merges = [(_spelled(pair[0]), _spelled(pair[1])) for _, pair in made if pair is not None]
    with Foreign("tokenizers cannot use these ranks and this pattern", where):
        # ignore_merges: tiktoken takes a pre-token that is a token as it is, whether or not joining makes it
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary | special, merges=merges, ignore_merges=True))
        cut = pre_tokenizers.Split(Regex(pattern), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        in_order = sorted(special, key=special.__getitem__)
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in in_order])
    return tokenizer


def _spelled(token: bytes) -> str:
    return "".join(BYTE_LETTERS[byte] for byte in token)
