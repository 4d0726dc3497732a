"""Smaller BPE tokenizers out of a trained one: its first merges are what training with a smaller size would have given.

BPE adds one token per merge, the best pair first (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword
Units", algorithm 1), so vocabularies of different sizes are prefixes of each other.
"""

import json
from typing import Any

from tokenizers import Tokenizer

from wordpipe.errors import ConfigError

__all__ = ["cut_merges", "is_bpe"]


def is_bpe(tokenizer: Tokenizer) -> bool:
    """Whether the model is a BPE, which can be cut."""
    return bool(json.loads(tokenizer.to_str())["model"]["type"] == "BPE")


def cut_merges(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """The tokenizer with its first merges, so many that its vocabulary has `size` tokens; special tokens and letters stay.

    Ids keep their order. Where special tokens have the highest ids (GPT-2), ids move up, and the template that puts special
    tokens around a text, which names ids, is left out.

    Raises:
        ConfigError: more tokens than it has, fewer than special tokens and letters alone, or no BPE.
    """
    parts = json.loads(tokenizer.to_str())
    if parts["model"]["type"] != "BPE":
        raise ConfigError("only a BPE vocabulary can be cut", got=parts["model"]["type"], expected="BPE")
    model = parts["model"]
    prefix = model.get("continuing_subword_prefix") or ""
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    results = [left + right.removeprefix(prefix) for left, right in merges]
    added = [token for token in parts["added_tokens"] if token["content"] not in model["vocab"]]
    protected = {token["content"] for token in parts["added_tokens"]}
    kept = (set(model["vocab"]) - set(results)) | (protected & set(model["vocab"]))
    least, most = len(kept) + len(added), len(model["vocab"]) + len(added)
    if not least <= size <= most:
        raise ConfigError("a BPE vocabulary of that size cannot be cut", got=size, expected=f"{least} to {most}")
    made = _first_merges(results, kept, size - len(added))
    model["merges"] = merges[:made]
    old = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1]) if token in kept]
    new = {token: number for number, token in enumerate(old)}
    _renumber(parts, new, moved=any(model["vocab"][token] != number for token, number in new.items()))
    model["vocab"] = new
    return Tokenizer.from_str(json.dumps(parts))


def _first_merges(results: list[str], kept: set[str], size: int) -> int:
    """Add merge results to `kept` until it has `size` tokens; the number of merges that takes."""
    if len(kept) == size:
        return 0
    for made, result in enumerate(results, start=1):
        kept.add(result)
        if len(kept) == size:
            return made
    return len(results)


def _renumber(parts: dict[str, Any], new: dict[str, int], *, moved: bool) -> None:
    """Give added tokens their new ids: those of the vocabulary, or the ones after it."""
    after = len(new)
    for token in sorted(parts["added_tokens"], key=lambda token: int(token["id"])):
        number = new.get(token["content"], after)
        moved |= number != token["id"]
        token["id"] = number
        after += token["content"] not in new
    parts["added_tokens"].sort(key=lambda token: int(token["id"]))
    if moved:
        parts["post_processor"] = None
