"""Two parts of `train static` beside what did the same work before: a step of its training, and its latent directions.

    python benchmarks/static_speed.py --data FOLDER             writes benchmarks/results/static_speed.json

FOLDER has collections in the form of BEIR, one a folder. The sides take turns, in this process; a figure is the median of the
processor time of all threads, which other programs disturb less than the clock, but for threads that wait by spinning.

    step        1,024 pairs of texts of 5 to 40 words, made by chance (common words are as common as in English), in a table
                of 20,000 words: sums, InfoNCE, its gradient and Adam, by one thread and by two. The control takes InfoNCE and
                its gradient from torch
    directions  300 latent directions of a collection, and of pieces of all collections: by block Lanczos, and by ARPACK as
                scipy has it, by one thread. `kept` is the squared length of the texts that remains, as a share of ARPACK's

Exit code 0: a step takes no longer than the control's; the directions of the pieces take half of it or less, and keep 99 %.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from peers.measure import versions
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds
from search import RESULTS
from tokens import machine

from wordpipe.runtime import one_thread_a_product
from wordpipe.search import Analyser, LatentSpace, Tfidf
from wordpipe.training.contrastive import RowAdam, contrast, info_nce_loss

Matrix = npt.NDArray[np.float32]
PAIRS, WORDS, WIDTH, SHORTEST, LONGEST = 1_024, 20_000, 536, 5, 40
TEMPERATURE, LR = 0.05, 0.01
DIRECTIONS, PIECE = 300, 40  # words of a piece of a text
HALF, KEPT = 0.5, 0.99


def turns(sides: Mapping[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Milliseconds of processor time of each side, the median of so many calls in turn."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(times):
        for name, work in sides.items():
            begun = time.process_time()
            work()
            taken[name].append(1e3 * (time.process_time() - begun))
    return {name: round(statistics.median(own), 1) for name, own in taken.items()}


class Steps:
    """Steps of a table's training on one batch, made by chance.

    Args:
        threads: of both sides.
    """

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        rng = np.random.default_rng(1)
        upto = np.cumsum(1 / np.arange(1, WORDS + 1))
        self.lengths = rng.integers(SHORTEST, LONGEST + 1, 2 * PAIRS)
        self.ids = np.searchsorted(upto / upto[-1], rng.random(int(self.lengths.sum()))).astype(np.int32)
        table_VD = rng.standard_normal((WORDS, WIDTH), dtype=np.float32) / np.float32(WIDTH**0.5)
        self.rows = RowAdam(table_VD, np.full(WORDS, WIDTH**-0.5, np.float32), beta1=0.9, beta2=0.999, threads=threads)

    def by_numpy(self) -> Matrix:
        """The gradient by the sums, as `StaticLearner` computes it."""
        sums_BD = self.rows.sums(self.ids, self.lengths)
        with one_thread_a_product():
            return contrast(sums_BD, temperature=TEMPERATURE, same_BB=None, threads=self.rows.threads)[1]

    def by_torch(self) -> Matrix:
        """The same gradient by torch."""
        sums_BD = torch.from_numpy(self.rows.sums(self.ids, self.lengths)).requires_grad_()
        first_BD, second_BD = torch.nn.functional.normalize(sums_BD).chunk(2)
        info_nce_loss(first_BD, second_BD, temperature=TEMPERATURE).backward()  # type: ignore[no-untyped-call]
        assert sums_BD.grad is not None
        gradient_BD: Matrix = sums_BD.grad.numpy()
        return gradient_BD

    def taken(self, gradient_BD: Matrix) -> None:
        """The rest of the step."""
        self.rows.update(self.ids, self.lengths, gradient_BD, lr=LR, step=1)


def step_row(threads: int, times: int) -> dict[str, Any]:
    """A step of the training, and how far the two gradients differ, as a share of the largest number."""
    steps = Steps(threads)
    ours, theirs = steps.by_numpy(), steps.by_torch()
    for gradient_BD in (ours, theirs):  # compiled, or read from the cache, before it is timed
        steps.taken(gradient_BD)
    sides = {"numpy": lambda: steps.taken(steps.by_numpy()), "torch": lambda: steps.taken(steps.by_torch())}
    row = {"pairs": PAIRS, "width": WIDTH, "threads": threads, "processor_ms": turns(sides, times)}
    return row | {"differ": float(f"{np.abs(ours - theirs).max() / np.abs(theirs).max():.1e}")}


def texts_of(folder: Path) -> list[str]:
    """Title and text of each document of a collection."""
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    return [f"{one.get('title') or ''} {one['text']}".strip() for one in map(json.loads, lines)]


def pieces_of(texts: list[str]) -> list[str]:
    """The pieces of some texts, of so many words each."""
    return [" ".join(words[at : at + PIECE]) for words in map(str.split, texts) for at in range(0, len(words), PIECE)]


def directions_row(name: str, texts: list[str], times: int) -> dict[str, Any]:
    """The latent directions of some texts."""
    analyse = Analyser("english")
    matrix_NV = Tfidf.fit(texts, analyse).vectors(texts)
    theirs_NV = csr_array((matrix_NV.values, matrix_NV.columns, matrix_NV.bounds), matrix_NV.shape, dtype=np.float64)
    start = np.random.default_rng(1).standard_normal(min(matrix_NV.shape))
    found: dict[str, Any] = {}

    def lanczos() -> None:
        found["lanczos"] = LatentSpace.fit(matrix_NV, DIRECTIONS).directions

    def arpack() -> None:
        _, _, found_KV = svds(theirs_NV, k=DIRECTIONS, v0=start, return_singular_vectors="vh")
        found["arpack"] = found_KV.T

    with one_thread_a_product():
        taken = turns({"lanczos": lanczos, "arpack": arpack}, times)
    kept = {side: float(np.square(theirs_NV @ found_VK).sum()) for side, found_VK in found.items()}
    return {
        "texts": name, "rows": matrix_NV.shape[0], "terms": matrix_NV.shape[1], "directions": DIRECTIONS,
        "processor_ms": taken, "kept": round(kept["lanczos"] / kept["arpack"], 4),
    }  # fmt: skip


def misses_of(steps: Sequence[Mapping[str, Any]], directions: Mapping[str, Any]) -> list[str]:
    """What is slower, or worse, than it should be."""
    shares = {f"step, {row['threads']} threads": (_share(row, "numpy", "torch"), 1) for row in steps}
    shares["directions"] = _share(directions, "lanczos", "arpack"), HALF
    found = [f"{what}: {share:.2f} of the control's time" for what, (share, most) in shares.items() if share > most]
    return found + ([f"kept: {directions['kept']}"] if directions["kept"] < KEPT else [])


def _share(row: Mapping[str, Any], ours: str, theirs: str) -> float:
    return float(row["processor_ms"][ours] / row["processor_ms"][theirs])


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder for each collection")
    parser.add_argument("--steps", type=int, default=15, help="steps of each side")
    parser.add_argument("--times", type=int, default=3, help="how often directions are found by each side")
    parser.add_argument("--out", type=Path, default=RESULTS / "static_speed.json", help="where the figures go")
    args = parser.parse_args()
    steps = [step_row(threads, args.steps) for threads in (1, 2)]
    print(json.dumps(steps), flush=True)
    collections = {folder.name: texts_of(folder) for folder in sorted(args.data.iterdir()) if folder.is_dir()}
    largest = max(collections, key=lambda name: len(collections[name]))
    pooled = pieces_of([text for texts in collections.values() for text in texts])
    rows = []
    for name, texts in ((largest, collections[largest]), ("pieces", pooled)):
        rows.append(directions_row(name, texts, args.times))
        print(json.dumps(rows[-1]), flush=True)
    body = {
        "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 1)},
        "libraries": versions(["numpy", "scipy", "torch"]), "steps": steps, "directions": rows,
    }  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(body, indent=1) + "\n")
    return 1 if misses_of(steps, rows[-1]) else 0


if __name__ == "__main__":
    sys.exit(main())
