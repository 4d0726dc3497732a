"""What trainers learned, read from the files they saved, and how far two of them agree. Standard library only."""

import json
from pathlib import Path
from typing import Any

from peers.text import letters_of_bytes


def trained(out: Path) -> dict[str, Any]:
    """What a trainer learned, in bytes: merges in order (or, where it keeps none, tokens in order), or a vocabulary."""
    found = json.loads(out.read_text())
    if "tokens" in found:
        return {"tokens": found["tokens"]}
    if "merges" in found:
        return {"merges": [tuple(pair) for pair in found["merges"]]}
    model = found["model"]
    if model["type"] != "BPE":
        return {"vocab": model["vocab"]}
    letters = letters_of_bytes()
    pairs = [tuple(bytes(map(letters.__getitem__, side)).hex() for side in pair) for pair in model["merges"]]
    return {"merges": pairs, "vocab": model["vocab"]}


def agreement(found: dict[str, Any], wanted: dict[str, Any], algorithm: str) -> dict[str, Any]:
    """How much of what was learned is what tokenizers learned; its WordPiece is not even equal to its own next run."""
    if algorithm == "wordpiece":
        return {"shared_tokens": shared(set(found["vocab"]), set(wanted["vocab"]))}
    ours, theirs = bpe_tokens(found), bpe_tokens(wanted)
    same = found["merges"] == wanted["merges"] if "merges" in found else ours == theirs
    if "vocab" in found:
        same = same and found["vocab"] == wanted["vocab"]
    return {"same_merges": same, "shared_tokens": shared(set(ours), set(theirs))}


def shared(ours: set[str], theirs: set[str]) -> float:
    """The share of all tokens that both have."""
    return round(len(ours & theirs) / max(1, len(ours | theirs)), 5)


def bpe_tokens(found: dict[str, Any]) -> list[str]:
    """The tokens made by merges, in the order in which they were made."""
    return [left + right for left, right in found["merges"]] if "merges" in found else found["tokens"][256:]
