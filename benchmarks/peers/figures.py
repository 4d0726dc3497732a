"""From single runs to lines, ratios and a table. Standard library only."""

import statistics
from collections.abc import Iterator
from typing import Any

HERE = "wordpipe"


def summary(name: str, runs: list[dict[str, Any]], size_mb: float) -> dict[str, Any]:
    """One line of a table."""
    seconds = [run["seconds"] for run in runs]
    middle = statistics.median(seconds)
    line = {
        "engine": name,
        "seconds": round(middle, 3),
        "seconds_least": round(min(seconds), 3),
        "seconds_most": round(max(seconds), 3),
        "repeats": len(runs),
        "mb_per_s": round(size_mb / middle, 2),
        "peak_memory_mb": round(max(run["peak_memory_bytes"] for run in runs) / 1e6, 1),
    }
    return line | ({"counts": runs[-1]["counts"]} if "counts" in runs[-1] else {})


def ratios(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Ours against each peer's line of the same table."""
    ours = {(line["part"], line["algorithm"], line["mb"]): line for line in lines if line["engine"] == HERE}
    for line in lines:
        part = "raw" if line["part"] == "ids" else line["part"]
        if line["engine"] == HERE or (own := ours.get((part, line["algorithm"], line["mb"]))) is None:
            continue
        yield {
            "part": line["part"], "algorithm": line["algorithm"], "mb": line["mb"], "against": line["engine"],
            "times_as_fast": round(line["seconds"] / own["seconds"], 2),
            "share_of_memory": round(own["peak_memory_mb"] / line["peak_memory_mb"], 3),
        }  # fmt: skip


def scaling(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Peak memory on a text against peak memory on one a tenth its size."""
    peaks = {(line["part"], line["algorithm"], line["engine"], line["mb"]): line["peak_memory_mb"] for line in lines}
    for (part, algorithm, name, mb), peak in peaks.items():
        if part in ("train", "stage") and (tenth := peaks.get((part, algorithm, name, mb / 10))) is not None:
            yield {
                "part": part, "algorithm": algorithm, "engine": name, "mb": mb, "tenth_mb": mb / 10,
                "times_the_memory": round(peak / tenth, 2),
            }  # fmt: skip


def table(lines: list[dict[str, Any]], versions: dict[str, str]) -> Iterator[str]:
    """All figures in Markdown."""
    yield "| work | algorithm | MB | engine | seconds | MB/s | peak memory | as tokenizers 0.23 | ours |"
    yield "|---|---|---:|---|---:|---:|---:|---|---|"
    against = {(row["part"], row["algorithm"], row["mb"], row["against"]): row for row in ratios(lines)}
    for line in lines:
        spread = f" ({line['seconds_least']:.2f}–{line['seconds_most']:.2f})" if line["repeats"] > 1 else ""
        ratio = against.get((line["part"], line["algorithm"], line["mb"], line["engine"]))
        gain = f"{ratio['times_as_fast']:.1f} × as fast, {ratio['share_of_memory']:.2f} × the memory" if ratio else ""
        cells = [
            line["part"], line["algorithm"], f"{line['mb']:g}", versions.get(line["engine"], line["engine"]),
            f"{line['seconds']:.2f}{spread}", f"{line['mb_per_s']:.1f}", f"{line['peak_memory_mb']:.0f} MB",
            verdict(line), gain,
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def verdict(line: dict[str, Any]) -> str:
    """How a result compares with that of tokenizers 0.23, in a word."""
    if (same := line.get("same_ids", line.get("same_merges"))) is not None:
        return "yes" if same else f"no ({line['shared_tokens']:.2%} of tokens)" if "shared_tokens" in line else "no"
    return f"{line['shared_tokens']:.2%} of tokens" if "shared_tokens" in line else ""
