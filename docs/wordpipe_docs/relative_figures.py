"""Tables of BERT's relatives and of mixers, from benchmarks/results/relatives.json and mixers.json."""

from collections.abc import Callable
from typing import Any

from wordpipe_docs.figures import result, source, table

_MIXERS = {"dot": "dot-product attention"}


def relatives() -> str:
    """Objectives at equal tokens: held-out loss, and what stands in the frozen vectors."""
    found = result("relatives")
    rows = [
        [
            line["says"],
            f"{line['loss']:.3f}" if "loss" in line else "–",
            *map(_score, line["sets"].values()),
            *_size(line),
        ]
        for line in found["lines"]
    ]
    head = ["trained by", "held-out loss", "SST", "TREC", "weights", "seconds", "tokens/s"]
    texts = [one["texts"] for one in found["lines"][0]["sets"].values()]
    text = (
        f"Each model saw {found['tokens'] / 1e6:.1f} million tokens of the same {found['mb']:.0f} MB of Wikipedia. Unless "
        f"the table says otherwise, it has width 256, 4 layers and a WordPiece vocabulary of {found['vocab_size']:,} "
        "tokens. The loss is in nats per hidden token; all models that guess masked tokens have the same held-out masks. "
        "SST and TREC give the accuracy in % of a logistic regression on the mean of the last hidden states of the frozen "
        f"model, with the 95 % interval over {texts[0]:,} and {texts[1]:,} texts. Each training has one seed; `train mlm` "
        f"has two. Seconds are for the whole training on {found['threads']} thread{'s' * (found['threads'] > 1)}. Other "
        "work ran at the same time, so do not compare the speeds."
    )
    return f"{table(head, rows)}\n\n{text} {source('relatives', found=found)}"


def _score(one: dict[str, Any]) -> str:
    low, high = (100 * bound for bound in one["interval"])
    return f"{100 * one['accuracy']:.1f} ({low:.1f} to {high:.1f})"


def _size(line: dict[str, Any]) -> list[str]:
    if "parameters" not in line:
        return ["–"] * 3
    return [f"{line['parameters'] / 1e6:.2f}M", f"{line['train_seconds']:,.0f}", f"{line['tokens_per_s']:,.0f}"]


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
        "Tokens per second, in brackets the ratio to dot-product attention at the same length, and the memory in addition "
        f"to the weights. A model of {found['shape']['n_layers']} layers, width {found['shape']['dim']}, batches of "
        f"{found['batch_tokens']:,} tokens, {found['threads']} thread{'s' * (found['threads'] > 1)}, float32; "
        f"{_rounds(found)}. {_too_much(found)}{source('mixers', found=found)}"
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
        f"more than {max(slow, default=0):g} seconds for a process"
    ] * bool(slow)
    return f"Too much: {', or '.join(says)}. " if says else ""


def _passes(one: dict[str, Any] | None) -> str:
    if one is None:
        return "too much"
    return f"{one['tokens_per_s']:,} ({one.get('times_as_fast', 1):.2f} ×), {one['memory_mb']:,} MB"


RELATIVE_FIGURES: dict[str, Callable[[], str]] = {"relatives": relatives, "mixers": mixers}
"""Parts of pages, by the names that pages call them by."""
