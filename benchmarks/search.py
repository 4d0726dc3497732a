"""Our index against plain FAISS recipes, hnswlib and usearch: recall, queries per second, time to build, peak memory.

    python benchmarks/search.py                                   200,000 and 1,000,000 vectors of width 384, made by chance
    python benchmarks/search.py --vectors FILE.npy --n 200000     real ones, the queries drawn from the rows that are left over
    python benchmarks/search.py --n 20000 --dim 64 --only wordpipe flat --out result.json

The vectors made by chance are points around centres in fewer dimensions than they are wide, as those of texts are; the queries
are more of the same and no rows of the index. Every side is a process of its own and searches in one batch, wider and wider,
until it finds 0.95 of the true ten nearest. Peak memory is of the whole process, the vectors that it maps from the disk
included. The load is the mean number of processes that wanted to run in the minute before: above 1, the times tell little
more than which side is faster. Exit code 0: ours reaches the recall at every size, and from 1,000,000 vectors on answers at
least ten times the queries of flat search.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from peers.measure import versions
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
    (folder / "task.json").write_text(json.dumps(task))
    limits = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        [sys.executable, "-m", "peers.search_sides", str(folder / "task.json")],
        cwd=Path(__file__).parent, env={**os.environ, **limits}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return {
            "error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
        }
    found: dict[str, Any] = json.loads(Path(task["result"]).read_text())
    return found


def size_row(n: int, args: argparse.Namespace) -> dict[str, Any]:
    """All sides at one size."""
    source = np.load(args.vectors, mmap_mode="r", allow_pickle=False) if args.vectors else None
    everything = source if source is not None else made_vectors(n + QUERIES, args.dim, 1)
    if len(everything) <= n:
        raise SystemExit(f"{args.vectors} has {len(everything)} vectors: {n} to index and some to ask for are too many")
    with tempfile.TemporaryDirectory(dir=args.scratch) as path:
        folder = Path(path)
        vectors_ND, queries_QD = split_off_queries(everything, n)
        truth_QK = exact_answers(vectors_ND, queries_QD)
        for name, array in (("vectors", vectors_ND), ("queries", queries_QD), ("truth", truth_QK)):
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        dim = vectors_ND.shape[1]
        del vectors_ND, everything
        sides = {}
        others = round(os.getloadavg()[0], 1)
        for name in args.only:
            sides[name] = run_side(name, folder, args.threads, args.recall)
            print(f"{n:>9,} x {dim}  {name:<16} {json.dumps(sides[name])}", flush=True)
    return {"n": n, "dim": dim, "queries": len(queries_QD), "load_before": others, "sides": sides}


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
    rows = [size_row(n, args) for n in args.n]
    libraries = versions(["faiss-cpu", "numpy", *(peer for peer in ("hnswlib", "usearch") if peer in args.only)])
    vectors = args.vectors.name if args.vectors else "made by chance"
    body = {
        "machine": machine(), "libraries": libraries, "threads": args.threads, "recall": args.recall, "vectors": vectors,
        "sizes": rows,
    }  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(body, indent=1) + "\n")
    return 0 if promises_kept(rows, args.recall) else 1


if __name__ == "__main__":
    sys.exit(main())
