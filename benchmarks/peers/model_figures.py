"""From single runs to lines and tables: trainings of transformers."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Line = dict[str, Any]


def recipes(found: list[Line], folder: Path) -> list[Line]:
    """The cells, each with its distance to our default and to the best BERT, where these are there.

    Args:
        found: what the cells found.
        folder: where the losses of their held-out sequences lie.
    """
    peers = [line for line in found if line["side"] == "transformers"]
    others = {
        "default": next((line for line in found if line["cell"] == "default"), None),
        "bert": min(peers, key=lambda line: line["loss"], default=None),
    }
    lines = []
    for line in found:
        gains = {f"better_than_{name}": gap(line, other, folder) for name, other in others.items() if other is not None}
        lines.append({key: value for key, value in line.items() if key != "kept"} | gains)
    return lines


def gap(line: Line, other: Line, folder: Path) -> dict[str, float]:
    """How many nats better a cell is than another, and the standard error of that over the held-out sequences."""
    ours_N, theirs_N = (np.load(folder / one["kept"]) for one in (line, other))
    difference_N = theirs_N - ours_N
    error = float(difference_N.std(ddof=1) / np.sqrt(len(difference_N))) if len(difference_N) > 1 else 0.0
    return {"nats": round(other["loss"] - line["loss"], 4), "error": round(error, 4)}


def recipe_rows(lines: list[Line], unigram_entropy: float) -> Iterator[str]:
    """The table in Markdown."""
    yield "| recipe | held-out loss | better than our default by | better than the best BERT by | weights | tokens/s |"
    yield "|---|---:|---:|---:|---:|---:|"
    for line in lines:
        gains = [line.get(f"better_than_{name}") for name in ("default", "bert")]
        shown = ["" if gain is None else f"{gain['nats']:+.3f} ± {gain['error']:.3f}" for gain in gains]
        cells = [
            line["says"], f"{line['loss']:.3f}", *shown, f"{line['parameters'] / 1e6:.2f}M",
            f"{line['tokens_per_s']:,.0f}",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    yield f"a model that knows only how frequent each token is has loss {unigram_entropy:.3f}"


def speed_line(runs: list[Line], losses: list[float]) -> Line:
    """One line of the table of speeds.

    Args:
        runs: the runs of one side.
        losses: of the recorded training, step by step.
    """
    rates = [1 / statistics.median(run["token_seconds"]) for run in runs]
    off = [[abs(ours / theirs - 1) for ours, theirs in zip(run["losses"], losses, strict=True)] for run in runs]
    return {
        "tokens_per_s": round(statistics.median(rates)), "tokens_per_s_least": round(min(rates)),
        "tokens_per_s_most": round(max(rates)), "repeats": len(runs), "parameters": runs[0]["parameters"],
        "peak_memory_mb": round(max(run["peak_memory_bytes"] for run in runs) / 1e6),
        "first_loss_off_by": max(one[0] for one in off), "losses_off_by": max(max(one) for one in off),
    }  # fmt: skip


def speed_ratios(lines: list[Line]) -> Iterator[Line]:
    """Our step against the fastest way of transformers, and against its default, with either optimiser of ours."""
    for kind, dtype in dict.fromkeys((line["kind"], line["dtype"]) for line in lines):
        table = {line["side"]: line for line in lines if (line["kind"], line["dtype"]) == (kind, dtype)}
        others = {name: line for name, line in table.items() if not line["says"].startswith("wordpipe")}
        best = max(others.values(), key=lambda line: line["tokens_per_s"])
        yield {
            "kind": kind, "dtype": dtype, "against": best["says"],
            "times_as_fast": round(table["adamw"]["tokens_per_s"] / best["tokens_per_s"], 3),
            "times_as_fast_with_muon": round(table["muon"]["tokens_per_s"] / best["tokens_per_s"], 3),
            "share_of_memory": round(table["adamw"]["peak_memory_mb"] / best["peak_memory_mb"], 3),
        }  # fmt: skip


def speed_rows(lines: list[Line], ratios: list[Line]) -> Iterator[str]:
    """The table of speeds in Markdown."""
    yield "| model | numbers | who | tokens/s | peak memory | losses differ by | our AdamW | our Muon |"
    yield "|---|---|---|---:|---:|---:|---:|---:|"
    ours = {(line["kind"], line["dtype"], line["side"]): line["tokens_per_s"] for line in lines}
    for line in lines:
        spread = f" ({line['tokens_per_s_least']:,}–{line['tokens_per_s_most']:,})" if line["repeats"] > 1 else ""
        times = [
            f"{ours[line['kind'], line['dtype'], name] / line['tokens_per_s']:.2f} ×"
            if not line["says"].startswith("wordpipe")
            else ""
            for name in ("adamw", "muon")
        ]
        cells = [
            line["kind"], line["dtype"], line["says"], f"{line['tokens_per_s']:,}{spread}",
            f"{line['peak_memory_mb']:,} MB", "" if line["side"] == "muon" else f"{line['losses_off_by']:.3%}", *times,
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    for ratio in ratios:
        yield (
            f"{ratio['kind']} {ratio['dtype']}: {ratio['times_as_fast']:.2f} times as fast as {ratio['against']} "
            f"({ratio['times_as_fast_with_muon']:.2f} with Muon), {ratio['share_of_memory']:.2f} of its memory"
        )
