"""Why an answer scored as it did, in a line or two for people; `--json` has it all."""

from collections.abc import Iterator
from typing import Any

__all__ = ["explained_lines"]

_TOLD = 5  # pairs or terms of a line


def explained_lines(told: dict[str, Any] | None) -> Iterator[str]:
    """The lines under an answer.

    Args:
        told: what `Explainer` says of it; nothing where None.
    """
    if told is None:
        return
    if dense := told.get("dense"):
        pairs = [(_pair(pair), pair["score"]) for pair in dense["pairs"]]
        if answers := dense.get("answers"):
            pairs.append(("first answers", answers["score"]))
        yield f"vectors {_of(dense)} = {_sum(pairs, dense['score'])}"
    if lexical := told.get("lexical"):
        terms = [(term["stem"], term["score"]) for term in lexical["terms"]]
        yield f"words {_of(lexical)} = {_sum(terms, lexical['score'])}"


def _pair(pair: dict[str, Any]) -> str:
    one, other = pair["query"].strip() or "·", pair["text"].strip() or "·"
    return one if one.lower() == other.lower() else f"{one}~{other}"


def _of(side: dict[str, Any]) -> str:
    """The side's score, and what the mix makes of it."""
    score = f"{side['score']:.3f}"
    return f"{score} (adds {side['share']:.3f})" if "share" in side else score


def _sum(parts: list[tuple[str, float]], score: float) -> str:
    """The largest parts, equal ones together, and what is left."""
    added: dict[str, float] = {}
    for name, value in parts:
        added[name] = added.get(name, 0.0) + value
    largest = sorted(added.items(), key=lambda part: -abs(part[1]))[:_TOLD]
    told = [f"{name} {value:.3f}" for name, value in largest]
    if abs(rest := score - sum(value for _, value in largest)) >= 0.0005:
        told.append(f"others {rest:.3f}")
    return " + ".join(told)
