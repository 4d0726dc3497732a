"""Our index against plain FAISS recipes, hnswlib and usearch: recall, queries per second, time to build, peak memory.

    python benchmarks/search.py                                   200,000 and 1,000,000 vectors of width 384, made by chance
    python benchmarks/search.py --vectors FILE.npy --n 200000     real ones, the queries drawn from the rows that are left over
    python benchmarks/search.py --n 20000 --dim 64 --only wordpipe flat --out result.json

The vectors made by chance are points around centres in fewer dimensions than they are wide, as those of texts are; the queries
are more of the same and no rows of the index. Every side is a process of its own and searches in one batch, wider and wider,
until it finds 0.95 of the true ten nearest. The figures are written after every side and added to those in the file, where
they are of the same machine and options. Peak memory is of the whole process, the vectors that it maps from the disk included.
The load is the mean number of processes that wanted to run in the minute before: above 1, the times tell little more than
which side is faster. Exit code 0: ours reaches the recall at every size, and from 1,000,000 vectors on answers at least ten
times the queries of flat search.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from peers.measure import run_task, versions
from tokens import machine

RESULTS = Path(__file__).parent.absolute() / "results"
QUERIES, K = 1_000, 10
SIDES: dict[str, dict[str, str]] = {
    "wordpipe": {"side": "wordpipe"},
    "flat": {"side": "faiss", "recipe": "Flat"},
    "faiss-ivf-flat": {"side": "faiss", "recipe": "IVF{lists},Flat"},
    "faiss-hnsw32": {"side": "faiss", "recipe": "HNSW32"},
    "hnswlib": {"side": "hnswlib"},
    "usearch": {"side": "usearch"},
}


def made_vectors(n: int, dim: int, seed: int) -> npt.NDArray[np.float32]:
    """Unit vectors (N, D) around n / 500 centres, in a quarter of the dimensions and with a little noise in all."""
    rng = np.random.default_rng(seed)
    inner = max(2, dim // 4)
    centres = rng.standard_normal((max(1, n // 500), inner), dtype=np.float32)
    turn = rng.standard_normal((inner, dim), dtype=np.float32) / np.float32(inner**0.5)
    vectors_ND = np.empty((n, dim), dtype=np.float32)
    for first in range(0, n, 50_000):
        rows = min(50_000, n - first)
        points = centres[rng.integers(len(centres), size=rows)] + rng.standard_normal((rows, inner), dtype=np.float32)
        block = points @ turn + np.float32(0.1) * rng.standard_normal((rows, dim), dtype=np.float32)
        vectors_ND[first : first + rows] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return vectors_ND


def split_off_queries(vectors_ND: npt.NDArray[np.float32], n: int) -> tuple[npt.NDArray[np.float32], ...]:
    """N rows to index and up to 1,000 others to ask for, drawn from all of them."""
    order = np.random.default_rng(1).permutation(len(vectors_ND))
    return vectors_ND[np.sort(order[:n])], vectors_ND[order[n : n + QUERIES]]


def exact_answers(vectors_ND: npt.NDArray[np.float32], queries_QD: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The true ten nearest rows of every query."""
    import faiss

    _, rows_QK = faiss.knn(queries_QD, vectors_ND, K, metric=faiss.METRIC_INNER_PRODUCT)
    return np.asarray(rows_QK)


def run_side(name: str, folder: Path, threads: int, recall: float) -> dict[str, Any]:
    """Measure one side in its own process; an error is its result."""
    task: dict[str, Any] = {**SIDES[name], "threads": threads, "recall": recall, "result": str(folder / f"{name}.json")}
    task |= {part: str(folder / f"{part}.npy") for part in ("vectors", "queries", "truth")}
    return run_task("search_sides", task, folder, threads)


def measure_size(n: int, args: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """All sides at one size, one by one: what was asked of all, the side's name, and its figures."""
    source = np.load(args.vectors, mmap_mode="r", allow_pickle=False) if args.vectors else None
    everything = source if source is not None else made_vectors(n + QUERIES, args.dim, 1)
    if len(everything) <= n:
        raise SystemExit(f"{args.vectors} has {len(everything)} vectors: {n} to index and some to ask for are too many")
    with tempfile.TemporaryDirectory(dir=args.scratch) as path:
        folder = Path(path)
        vectors_ND, queries_QD = split_off_queries(everything, n)
        del everything, source
        truth_QK = exact_answers(vectors_ND, queries_QD)
        for name, array in (("vectors", vectors_ND), ("queries", queries_QD), ("truth", truth_QK)):
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        size = {"n": n, "dim": vectors_ND.shape[1], "queries": len(queries_QD)}
        del vectors_ND  # a side may need all of the memory
        for name in args.only:
            load = round(os.getloadavg()[0], 1)
            found = run_side(name, folder, args.threads, args.recall)
            print(f"{n:>9,} x {size['dim']}  {name:<16} {json.dumps(found)}", flush=True)
            yield size, name, {**found, "load_before": load}


class Results:
    """The figures in their file, which has every side from the moment it is measured.

    A file of the same machine, threads, recall and vectors is added to, so that a side can be measured again or later, with
    `--only`; any other is begun anew. A side that fails does not take the place of figures that are there.

    Args:
        path: the file.
        about: what the figures hold for.
        libraries: versions; those of sides measured before stay.
    """

    def __init__(self, path: Path, about: dict[str, Any], libraries: dict[str, str]) -> None:
        self.path = path
        found = json.loads(path.read_text()) if path.exists() else {}
        same = all(found.get(name) == value for name, value in about.items())
        self.sizes: list[dict[str, Any]] = found["sizes"] if same else []
        self._head = {**about, "libraries": {**(found["libraries"] if same else {}), **libraries}}

    def add(self, size: dict[str, Any], name: str, figures: dict[str, Any]) -> None:
        """Take one side's figures, and write all."""
        row = next((row for row in self.sizes if size.items() <= row.items()), None)
        if row is None:
            row = {**size, "sides": {}}
            self.sizes = sorted([*self.sizes, row], key=lambda row: (row["dim"], row["n"]))
        if "error" not in figures or "error" in row["sides"].get(name, figures):
            row["sides"][name] = figures
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({**self._head, "sizes": self.sizes}, indent=1) + "\n")
        part.replace(self.path)


def promises_kept(rows: list[dict[str, Any]], recall: float) -> bool:
    """Whether ours reaches the recall everywhere and, at a million and more, ten times the speed of flat search."""
    for row in rows:
        ours, flat = row["sides"].get("wordpipe", {}), row["sides"].get("flat", {})
        if "wordpipe" in row["sides"] and ours.get("recall_at_10", 0) < recall - 0.01:  # two samples of 1,000 queries
            return False
        both = {"wordpipe", "flat"} <= set(row["sides"])
        tenfold = ours.get("queries_per_s", 0) >= 10 * flat.get("queries_per_s", float("inf"))
        if both and row["n"] >= 1_000_000 and not tenfold:
            return False
    return True


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[200_000, 1_000_000], help="vectors to index")
    parser.add_argument("--dim", type=int, default=384, help="their width, where they are made by chance")
    parser.add_argument("--vectors", type=Path, help="a .npy file of unit vectors")
    parser.add_argument("--recall", type=float, default=0.95, help="share of the true ten nearest to be found")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every side")
    parser.add_argument("--only", nargs="+", choices=SIDES, default=list(SIDES), help="sides to measure")
    parser.add_argument("--scratch", type=Path, help="a folder for the vectors; the system's where it is not given")
    parser.add_argument("--out", type=Path, default=RESULTS / "search.json", help="where the figures go")
    args = parser.parse_args()
    libraries = versions(["faiss-cpu", "numpy", *(peer for peer in ("hnswlib", "usearch") if peer in args.only)])
    vectors = args.vectors.name if args.vectors else "made by chance"
    about = {"machine": machine(), "threads": args.threads, "recall": args.recall, "vectors": vectors}
    results = Results(args.out, about, libraries)
    for n in args.n:
        for size, name, figures in measure_size(n, args):
            results.add(size, name, figures)
    rows = [row for row in results.sizes if row["n"] in args.n]
    return 0 if promises_kept(rows, args.recall) else 1


if __name__ == "__main__":
    sys.exit(main())
