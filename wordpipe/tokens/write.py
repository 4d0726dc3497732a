"""Writing: a tokenizer in the formats of other programs. A format that cannot hold it is refused, with those that can."""

import base64
import hashlib
import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer

from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.tokens.read import open_tokenizer
from wordpipe.tokens.vocabulary import CONTINUING, special_names, spelled_bytes, template_of, token_bytes

FRAMES = {"encoder": ("cls", "sep"), "decoder": ("bos", ""), "source": ("", "eos"), "framed source": ("bos", "eos")}
"""Of an encoder, of a decoder, and of what an encoder-decoder reads (BART's the last): roles before and after a text."""


N_SENTINELS = 100
"""As in T5: enough for texts of about 1,800 tokens."""
_SENTINEL = "<extra_id_{}>"


def with_sentinels(tokenizer_json: bytes, count: int) -> bytes:
    """Return the tokenizer with T5's sentinels `<extra_id_0>` … at its end, the first one last: their ids descend."""
    tokenizer = open_tokenizer(tokenizer_json, where="tokenizer.json")
    tokenizer.add_special_tokens([_SENTINEL.format(number) for number in reversed(range(count))])
    return str(tokenizer.to_str(pretty=True)).encode()


def sentinel_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of the sentinels `<extra_id_0>`, … that a tokenizer to write has."""
    found: list[int] = []
    while (number := tokenizer.token_to_id(_SENTINEL.format(len(found)))) is not None:
        found.append(number)
    return found


def framed_tokenizer(
    tokenizer_json: bytes, ids: Mapping[str, int | None], *, frame: tuple[str, str], vocab_size: int
) -> tuple[Tokenizer, dict[str, str]]:
    """Return the tokenizer to write for a model, which adds the special tokens of a training sequence.

    Args:
        tokenizer_json: a Hugging Face tokenizer.
        ids: role → the model's id; None where it has none.
        frame: roles of what stands before and after a text, "" for nothing: see `FRAMES`.
        vocab_size: rows of the model's table of embeddings.

    Returns:
        The tokenizer, and role → special token.

    Raises:
        ArtifactError: the tokenizer cannot be read, lacks one of the ids, or has more tokens than the model has embeddings.
    """
    try:
        tokenizer = open_tokenizer(_with_mask(tokenizer_json, ids.get("mask")), where="tokenizer.json")
    except InputError as error:
        raise ArtifactError("not a tokenizer", where="tokenizer.json", got=error.got) from None
    if tokenizer.get_vocab_size() > vocab_size:
        raise ArtifactError(
            "the tokenizer has more tokens than the model has embeddings",
            got=tokenizer.get_vocab_size(),
            expected=f"at most {vocab_size}",
        )
    names = {role: _token(tokenizer, role, token_id) for role, token_id in ids.items() if token_id is not None}
    first, last = frame
    tokenizer.post_processor = template_of(tokenizer, names.get(first), names.get(last))
    return tokenizer, names


def _with_mask(tokenizer_json: bytes, mask_id: int | None) -> bytes:
    """Return the tokenizer to write with a mask that takes the space before, as RoBERTa's."""
    try:
        values = json.loads(tokenizer_json)
        for token in values.get("added_tokens") or []:
            if token["id"] == mask_id:
                token["lstrip"] = True
    except (ValueError, KeyError, TypeError, AttributeError):
        return tokenizer_json  # whatever it is, `open_tokenizer` says it better
    return json.dumps(values, ensure_ascii=False).encode()


def transformers_files(
    tokenizer: Tokenizer,
    names: Mapping[str, str],
    *,
    max_len: int | None = None,
    padding_side: str = "right",
    segments: bool = False,
) -> dict[str, bytes]:
    """Return `tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json`.

    Args:
        tokenizer: written as it is.
        names: role → special token.
        max_len: the longest sequence that the model takes, in tokens; None where there is no model.
        padding_side: left for a decoder, which goes on from the last position.
        segments: the model has learned which text of a pair a token belongs to.
    """
    special = {f"{role}_token": name for role, name in names.items()}
    settings = {
        **special,
        "tokenizer_class": "PreTrainedTokenizerFast",
        # a tokenizer of its own gives the segments of its template; our models have none, but for pairs
        "model_input_names": [
            "input_ids",
            *(["token_type_ids"] if max_len is None or segments else []),
            "attention_mask",
        ],
        "clean_up_tokenization_spaces": False,
        "padding_side": padding_side,
        **({} if max_len is None else {"model_max_length": max_len}),
    }
    return {
        "tokenizer.json": tokenizer.to_str(pretty=True).encode(),
        "tokenizer_config.json": _json(settings),
        "special_tokens_map.json": _json(special),
    }


def _token(tokenizer: Tokenizer, role: str, token_id: int) -> str:
    """Return the special token of a role, by its id."""
    token = tokenizer.id_to_token(token_id)
    if token is None:
        raise ArtifactError(f"the tokenizer has no {role} token", where="tokenizer.json", expected=f"id {token_id}")
    return str(token)


def _json(values: Mapping[str, Any]) -> bytes:
    """Return values as the bytes of a JSON file."""
    return f"{json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()


FOLDERS = ("vocab-merges", "transformers")  # these are folders, the others files


@dataclass
class ExportedTokenizer:
    """A tokenizer as files of another format: name → content; the number of tokens; notes on what the format leaves out."""

    files: dict[str, bytes]
    tokens: int
    notes: list[str] = field(default_factory=list)


class _CannotHoldError(Exception):
    """The error for a format that cannot hold the tokenizer; it says why."""


def export_tokenizer(data: bytes, form: str, name: str, *, where: str) -> ExportedTokenizer:
    """Write a tokenizer in one of `FORMATS`: return its files.

    Args:
        data: a tokenizer.json.
        form: the format.
        name: name of the file to write; folders have names of their own inside.
        where: where the tokenizer comes from, for errors.

    Raises:
        ConfigError: no such format, or one that cannot hold this tokenizer.
        InputError: not a tokenizer.
    """
    if form not in FORMATS:
        raise ConfigError("unknown format", where="form", got=form, expected=", ".join(FORMATS))
    try:
        return FORMATS[form](data, name, where)
    except _CannotHoldError as reason:
        raise ConfigError(
            f"this tokenizer cannot be written as {form}, because {reason}",
            where=where,
            hint=f"use another format: {', '.join(_fitting(data, where))}",
        ) from None


def _fitting(data: bytes, where: str) -> list[str]:
    """Return the formats that can hold a tokenizer."""
    found = []
    for form, make in FORMATS.items():
        try:
            make(data, form, where)
            found.append(form)
        except _CannotHoldError:
            continue
    return found


def _tokenizer_json(data: bytes, name: str, where: str) -> ExportedTokenizer:
    """Return a tokenizer as the file tokenizer.json."""
    tokenizer = open_tokenizer(data, where=where)
    return ExportedTokenizer({name: tokenizer.to_str(pretty=True).encode()}, tokenizer.get_vocab_size())


def _transformers(data: bytes, name: str, where: str) -> ExportedTokenizer:
    """Return a tokenizer as a folder of transformers."""
    tokenizer = open_tokenizer(data, where=where)
    return ExportedTokenizer(transformers_files(tokenizer, special_names(tokenizer)), tokenizer.get_vocab_size())


def _vocab_txt(data: bytes, name: str, where: str) -> ExportedTokenizer:
    """Return a WordPiece tokenizer as the file vocab.txt."""
    parts, vocabulary = _parts(data, where)
    model = parts["model"]
    if model["type"] != "WordPiece":
        raise _CannotHoldError(f"the format is only for WordPiece, but the model is {model['type']}")
    if (prefix := model["continuing_subword_prefix"]) != CONTINUING:
        raise _CannotHoldError(f"tokens within a word begin with {prefix!r}, not with {CONTINUING}")
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[token] for token in tokens] != list(range(len(tokens))):
        raise _CannotHoldError("the token ids are not 0, 1, 2, …")
    if broken := [token for token in tokens if "\n" in token or "\r" in token]:
        raise _CannotHoldError(f"the token {broken[0]!r} contains a line break")
    note = f"the file contains only the tokens; read the file with {_bert_options(parts)}"
    return ExportedTokenizer({name: "".join(f"{token}\n" for token in tokens).encode()}, len(tokens), [note])


def _bert_options(parts: Mapping[str, Any]) -> str:
    """Return the options of BERT's tokenizer with which vocab.txt is read."""
    normalizer = parts["normalizer"] or {}
    if normalizer.get("type") != "BertNormalizer" or (parts["pre_tokenizer"] or {}).get("type") != "BertPreTokenizer":
        return "the normalizer and the pre-tokenizer of tokenizer.json, because BERT cuts text differently"
    return f"do_lower_case={bool(normalizer['lowercase'])}"


def _vocab_merges(data: bytes, name: str, where: str) -> ExportedTokenizer:
    """Return a BPE tokenizer as the files vocab.json and merges.txt."""
    parts, _ = _parts(data, where)
    model = _bpe(parts)
    merges = _merges(model)
    if broken := [pair for pair in merges if any(not part or part != "".join(part.split()) for part in pair)]:
        raise _CannotHoldError(f"the merge {broken[0]!r} contains white space")
    listed = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)
    added = {token["content"]: token["id"] for token in parts["added_tokens"] if token["content"] not in model["vocab"]}
    vocabulary = dict(sorted((model["vocab"] | added).items(), key=lambda entry: entry[1]))
    files = {"vocab.json": json.dumps(vocabulary, ensure_ascii=False).encode(), "merges.txt": listed.encode()}
    note = "the files contain only tokens and merges, without the rules for cutting text and the list of special tokens"
    return ExportedTokenizer(files, len(vocabulary), [note])


def _tiktoken(data: bytes, name: str, where: str) -> ExportedTokenizer:
    """Return a BPE tokenizer as a file of tiktoken and a JSON file with the rest.

    Ranks are dense from 0, so the special tokens move to the end; the JSON file says where each id went.
    """
    # the tokens in the order of ranks, special tokens behind
    parts, vocabulary = _parts(data, where)
    pattern = _pattern(parts)
    order = _in_order_of_ranks(parts)
    special = sorted({token["content"] for token in parts["added_tokens"]}, key=vocabulary.__getitem__)
    lines = b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, (_, token) in enumerate(order))
    # each id and the id that it becomes
    new_ids = {number: rank for rank, (number, _) in enumerate(order)}
    at_the_end = {token: len(order) + place for place, token in enumerate(special)}
    new_ids |= {vocabulary[token]: number for token, number in at_the_end.items()}
    # what the ranks do not say
    facts = {
        "name": name,
        "sha256": hashlib.sha256(lines).hexdigest(),
        "pattern": pattern,
        "special_tokens": at_the_end,
        "ids": [[old, new_ids[old]] for old in sorted(new_ids)],
        "about": "tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=…, special_tokens=special_tokens); "
        "each entry of ids has the id in tokenizer.json and the id in tiktoken",
    }
    # two files, and a note on the second
    notes = [
        f"special tokens have different ids in tiktoken; {name}.json contains the pattern, the special tokens and all ids"
    ]
    return ExportedTokenizer(
        {f"{name}.json": json.dumps(facts, ensure_ascii=False).encode() + b"\n", name: lines}, len(new_ids), notes
    )


def _pattern(parts: Mapping[str, Any]) -> str:
    """Return the one pattern, for a file of tiktoken, by which it cuts text before bytes are joined."""
    if parts["normalizer"] is not None:
        raise _CannotHoldError(
            f"tiktoken does not normalise text, but this tokenizer does ({parts['normalizer']['type']})"
        )
    outer = parts["pre_tokenizer"] or {}
    steps = outer["pretokenizers"] if outer.get("type") == "Sequence" else [outer]
    *before, last = steps
    if last.get("type") != "ByteLevel":
        raise _CannotHoldError("tiktoken is for byte-level BPE, but this tokenizer is not byte-level")
    if last["add_prefix_space"]:
        raise _CannotHoldError("tiktoken does not put a space before the text, but this tokenizer does")
    if not before and last["use_regex"]:
        from wordpipe.tokens.pretokenizers import GPT2  # not above: a training writes its tokenizer without it

        return GPT2
    if len(before) == 1 and not last["use_regex"] and before[0]["type"] == "Split":
        split = before[0]
        if split["behavior"] == "Isolated" and not split["invert"] and "Regex" in split["pattern"]:
            return str(split["pattern"]["Regex"])
    raise _CannotHoldError("tiktoken cuts text by one pattern, but this tokenizer cuts text in a different way")


def _in_order_of_ranks(parts: Mapping[str, Any]) -> list[tuple[int, bytes]]:
    """Return id and bytes of every regular token in the order of a written file of tiktoken."""
    model = _bpe(parts)
    if model.get("dropout") or model.get("unk_token") or model.get("byte_fallback"):
        raise _CannotHoldError("the model uses dropout, an unknown token or byte fallback")
    special = {token["content"] for token in parts["added_tokens"]}
    places = {pair: place for place, pair in enumerate(_merges(model))}
    first: dict[str, int] = {}
    for (left, right), place in places.items():
        first.setdefault(left + right, place)
    regular = [
        (first.get(token, -1), number, token) for token, number in model["vocab"].items() if token not in special
    ]
    order = [(number, _bytes_of(token)) for _, number, token in sorted(regular)]
    if lost := set(range(256)) - {token[0] for _, token in order if len(token) == 1}:
        raise _CannotHoldError(f"the tokenizer has no token for the byte {min(lost):#04x}")
    _check_merges([token for _, token in order], places, ignore_merges=bool(model.get("ignore_merges")))
    return order


def _check_merges(order: list[bytes], places: Mapping[tuple[str, str], int], *, ignore_merges: bool) -> None:
    """See that a written file of tiktoken, which joins any neighbours, joins what the merges join.

    Two neighbours whose joined bytes are a token can only be its last merge, because nothing was joined across its edges
    before. So it is enough that every token's last merge is among the merges, and that they are in the order of the ranks.
    """
    ranks = {token: rank for rank, token in enumerate(order)}
    before = -1
    for token in order:
        if len(token) == 1:
            continue
        pair = _last_merge([token[at : at + 1] for at in range(len(token))], ranks)
        if pair is None and ignore_merges:
            continue  # taken only where a whole pre-token is this token, by both
        place = -1 if pair is None else places.get((spelled_bytes(pair[0]), spelled_bytes(pair[1])), -1)
        if place <= before:
            raise _CannotHoldError(
                f"tiktoken ranks cannot build the token {spelled_bytes(token)!r} in the same way as the merges"
            )
        before = place


def _last_merge(symbols: Sequence[bytes], ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """Return the two parts that a token is made from, for a written file of merges.

    Args:
        symbols: its single bytes.
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
    # the lowest rank first; an entry whose parts have changed is passed over
    while heap:
        _, at, joined = heapq.heappop(heap)
        one, next_at = parts[at], after[at]
        if one is None or next_at >= len(parts) or one + (parts[next_at] or b"") != joined:
            continue
        # joined parts have new neighbours
        parts[at], parts[next_at], left = joined, None, left - 1
        after[at] = after[next_at]
        if after[at] < len(parts):
            before[after[at]] = at
            offer(at, after[at])
        if before[at] >= 0:
            offer(before[at], at)
    found = [part for part in parts if part is not None]
    return (found[0], found[1]) if left == 2 else None


def _bytes_of(token: str) -> bytes:
    """Return the bytes of a token in byte letters."""
    if (data := token_bytes(token, byte_level=True)) is None:
        raise _CannotHoldError(f"the token {token!r} is not made of bytes")
    return data


def _parts(data: bytes, where: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a tokenizer as JSON, and all its tokens with their ids."""
    tokenizer = open_tokenizer(data, where=where)
    return json.loads(tokenizer.to_str()), tokenizer.get_vocab(with_added_tokens=True)


def _bpe(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the BPE model of a tokenizer. Raises: another model, or tokens with marks."""
    model: dict[str, Any] = parts["model"]
    if model["type"] != "BPE":
        raise _CannotHoldError(f"the format is only for BPE, but the model is {model['type']}")
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise _CannotHoldError("the tokens have marks for word parts or word ends")
    return model


def _merges(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the merges of a BPE model as pairs of tokens."""
    pairs = (pair.split(" ", 1) if isinstance(pair, str) else pair for pair in model["merges"])
    return [(left, right) for left, right in pairs]


FORMATS: dict[str, Callable[[bytes, str, str], ExportedTokenizer]] = {
    "tokenizer-json": _tokenizer_json,
    "vocab-txt": _vocab_txt,
    "vocab-merges": _vocab_merges,
    "transformers": _transformers,
    "tiktoken": _tiktoken,
}
