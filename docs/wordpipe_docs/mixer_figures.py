"""The table of mixers, from benchmarks/results/mixers.json."""

from collections.abc import Callable
from typing import Any

from wordpipe_docs.figures import result, source, table

_MIXERS = {"dot": "dot-product attention"}


def mixers() -> str:
    """Speed and memory of each mixer, at both lengths, against dot-product attention."""
    found, by_mixer = result("mixers"), dict[str, dict[int, Any]]()
    for line in found["lines"]:
        by_mixer.setdefault(line["mixer"], {})[line["seq_len"]] = line
    lengths = sorted({line["seq_len"] for line in found["lines"]})
    rows = []
    for mixer, lines in by_mixer.items():
        cells = [
            _passes(lines[length].get(way)) if length in lines else "not measured"
            for length in lengths for way in ("training", "forward")
        ]  # fmt: skip
        one = next(iter(lines.values()))
        side = ", decoder" if one.get("architecture") == "decoder" else ""
        rows.append([f"{_MIXERS.get(mixer, f'`{mixer}`')}{side}", *cells])
    head = ["mixer of all layers"]
    for length in lengths:
        head += [f"{length:,} tokens: forward and backward", "forward alone"]
    text = (
        "Tokens per second, in brackets that over dot-product attention's at the same length, and the memory beyond the "
        f"weights. A model of {found['shape']['n_layers']} layers, width {found['shape']['dim']}, batches of "
        f"{found['batch_tokens']:,} tokens, {found['threads']} thread{'s' * (found['threads'] > 1)}, float32; "
        f"{_rounds(found)}. {_too_much(found)}"
        f"{source('mixers', found=found)}"
    )
    return f"{table(head, rows)}\n\n{text}"


def _rounds(found: dict[str, Any]) -> str:
    rounds = max(line["rounds"] for line in found["lines"])
    return "one round" if rounds == 1 else f"median of {rounds} rounds, in turn"


def _too_much(found: dict[str, Any]) -> str:
    """What no figure means; nothing where all are there."""
    slow = [line["too_slow"] for line in found["lines"] if "too_slow" in line]
    large = any(line.get(way, 0) is None for line in found["lines"] for way in ("training", "forward"))
    says = [f"more than {found['memory_gb']:g} GB"] * large + [
        f"more than {max(slow, default=0):g} seconds a process"
    ] * bool(slow)
    return f"Too much: {', or '.join(says)}. " if says else ""


def _passes(one: dict[str, Any] | None) -> str:
    if one is None:
        return "too much"
    return f"{one['tokens_per_s']:,} ({one.get('times_as_fast', 1):.2f} ×), {one['memory_mb']:,} MB"


MIXER_FIGURES: dict[str, Callable[[], str]] = {"mixers": mixers}
"""Parts of pages, by the names that pages call them by."""
