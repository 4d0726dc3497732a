"""From single trainings to lines, ratios, spreads and tables. Standard library only."""

import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from peers.figures import HERE

Line = dict[str, Any]

CASE = ("part", "mb", "architecture", "loss", "threads", "epochs")
SHARES = ("share_read", "share_trained")


def summary(case: Line, name: str, runs: list[Line]) -> Line:
    """One line of the table of speeds: medians over the repeats, and the largest peak.

    A library that says how many words it read is measured by those; the others by the words of the text.
    """
    speeds = [run.get("words_read", case["words"] * case["epochs"]) / run["seconds"] for run in runs]
    line = case | {
        "engine": name,
        "words_per_s": round(statistics.median(speeds)),
        "words_per_s_least": round(min(speeds)),
        "words_per_s_most": round(max(speeds)),
        "repeats": len(runs),
        "seconds": round(statistics.median(run["seconds"] for run in runs), 3),
        "process_seconds": round(statistics.median(run["process_seconds"] for run in runs), 3),
        "peak_memory_mb": round(max(run["process_peak_memory_bytes"] for run in runs) / 1e6, 1),
    }
    for share in SHARES:
        if share in runs[0]:
            line[share] = round(statistics.mean(run[share] for run in runs), 4)
    if name == HERE:
        line["matrices_mb"] = round(case["matrices_bytes"] / 1e6, 1)
        line["memory_beside_matrices_mb"] = round(line["peak_memory_mb"] - line["matrices_mb"], 1)
    return line


def ratios(lines: list[Line]) -> Iterator[Line]:
    """Ours against each peer's line of the same case."""
    ours = {case_of(line): line for line in lines if line["engine"] == HERE}
    for line in lines:
        if line["engine"] == HERE or (own := ours.get(case_of(line))) is None:
            continue
        yield {name: line[name] for name in CASE} | {
            "against": line["engine"],
            "times_as_fast": round(own["words_per_s"] / line["words_per_s"], 2),
            "times_as_fast_whole_command": round(line["process_seconds"] / own["process_seconds"], 2),
            "share_of_memory": round(own["peak_memory_mb"] / line["peak_memory_mb"], 3),
        }


def case_of(line: Line) -> tuple[Any, ...]:
    """What lines must agree in to be compared."""
    return tuple(line[name] for name in CASE)


def scaling(lines: list[Line]) -> Iterator[Line]:
    """Speed on two threads against one, and our memory beside the matrices against that on the smallest text."""
    lines = [line for line in lines if line["part"] != "losses"]
    by_case = {(line["engine"], *case_of(line)): line for line in lines}
    for line in lines:
        single = by_case.get((line["engine"], *case_of(line | {"threads": 1, "part": "scaling"})))
        if line["threads"] > 1 and single is not None:
            gain = line["words_per_s"] / single["words_per_s"]
            names = ("engine", "mb", "architecture", "threads")
            yield {name: line[name] for name in names} | {"times_one_thread": round(gain, 2)}
    ours = [line for line in lines if line["engine"] == HERE and line["threads"] > 1]
    for architecture in dict.fromkeys(line["architecture"] for line in ours):
        same = sorted((line for line in ours if line["architecture"] == architecture), key=lambda line: line["mb"])
        for line in same[1:]:
            grown = line["memory_beside_matrices_mb"] - same[0]["memory_beside_matrices_mb"]
            yield {
                "engine": HERE, "architecture": architecture, "mb": line["mb"], "against_mb": same[0]["mb"],
                "more_memory_beside_matrices_mb": round(grown, 1),
            }  # fmt: skip


def spreads(runs: list[Line], measures: list[str]) -> list[Line]:
    """Mean and standard deviation over the seeds, of each measure, for each engine and architecture."""
    groups: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for run in runs:
        groups[run["architecture"], run["engine"]].append(run)
    found = []
    for (architecture, name), some in groups.items():
        line: Line = {"architecture": architecture, "engine": name, "seeds": len(some)}
        for measure in measures:
            values = [run[measure] for run in some if run.get(measure) is not None]
            if values:
                spread = statistics.stdev(values) if len(values) > 1 else None
                line[measure] = {"mean": round(statistics.mean(values), 4), "spread": spread and round(spread, 4)}
                if f"{measure}_known" in some[0]:
                    line[measure] |= {"known": some[0][f"{measure}_known"], "of": some[0][f"{measure}_pairs"]}
        found.append(line)
    return found


def table(lines: list[Line], versions: dict[str, str]) -> Iterator[str]:
    """All speeds in Markdown."""
    yield "| MB | architecture | loss | threads | engine | words/s | read / trained | whole command | peak memory | ours |"
    yield "|---:|---|---|---:|---|---:|---|---:|---:|---|"
    against = {(case_of(row), row["against"]): row for row in ratios(lines)}
    for line in lines:
        spread = f" ({line['words_per_s_least']:,}–{line['words_per_s_most']:,})" if line["repeats"] > 1 else ""
        ratio = against.get((case_of(line), line["engine"]))
        gain = f"{ratio['times_as_fast']:.1f} × as fast, {ratio['share_of_memory']:.2f} × the memory" if ratio else ""
        cells = [
            f"{line['mb']:g}", line["architecture"], line["loss"], str(line["threads"]),
            versions.get(line["engine"], line["engine"]), f"{line['words_per_s']:,}{spread}", shares(line),
            f"{line['process_seconds']:.1f} s", memory(line), gain,
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def shares(line: Line) -> str:
    """How much of the text was read and trained, where the library says so."""
    return " / ".join(f"{line[share]:.1%}" for share in SHARES) if SHARES[0] in line else ""


def memory(line: Line) -> str:
    """Peak memory; ours also without the two matrices."""
    beside = f" ({line['memory_beside_matrices_mb']:.0f} beside the matrices)" if line["engine"] == HERE else ""
    return f"{line['peak_memory_mb']:.0f} MB{beside}"


def quality_table(found: list[Line], measures: list[str], versions: dict[str, str]) -> Iterator[str]:
    """Mean ± standard deviation in Markdown."""
    yield f"| architecture | engine | seeds | {' | '.join(measures)} |"
    yield f"|---|---|---:|{'---:|' * len(measures)}"
    for line in found:
        cells = [line["architecture"], versions.get(line["engine"], line["engine"]), str(line["seeds"])]
        for measure in measures:
            value = line.get(measure)
            spread = f" ± {value['spread']:.4f}" if value and value["spread"] is not None else ""
            seen = f" ({value['known']:,} of {value['of']:,})" if value and "known" in value else ""
            cells.append(f"{value['mean']:.4f}{spread}{seen}" if value else "–")
        yield f"| {' | '.join(cells)} |"
