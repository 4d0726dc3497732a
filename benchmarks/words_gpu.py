"""word2vec on a GPU against the native trainer on the CPU: the same text, the same settings, the same judges.

    python benchmarks/words_gpu.py --data DIR --out benchmarks/results/words_gpu.json
    python benchmarks/words_gpu.py --data DIR --out quick.json --mb 10 --seeds 1          a short run
    python benchmarks/words_gpu.py --data DIR --out check.json --device cpu --mb 0.3      to exercise the script

DIR holds wiki/train.txt, documents parted by blank lines, and words/ with WS-353, SimLex-999 and the Google analogies (any
files that `wordpipe evaluate words` reads). Two parts, `--only` takes one:

    check    the device draws the windows that the CPU draws and finds the same gradients; a deterministic training on it that
             was stopped and gone on with gives the bytes of one that was not
    train    skip-gram and CBOW by both backends, over the seeds: words/s of the training alone (compiling and preparing are
             done before), held-in loss, rank correlations and analogies among the 30,000 commonest words, peak memory

Exit code 0: the checks hold, and on average over the seeds the GPU's vectors are at most 0.02 below the native ones on every
set; 1: they are not; 2: no CUDA device.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

import wordpipe
from wordpipe.runtime import StopFlag, cpu_count
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.text import TrainingText
from wordpipe.words.torch_backend.ascent import cbow, skipgram
from wordpipe.words.torch_backend.training import TorchTraining
from wordpipe.words.torch_backend.windows import Sampler
from wordpipe.words.vocabulary import Vocabulary

ALLOWED_LOSS = 0.02  # of rank correlation or share of right answers; seeds differ by about 0.01
ARCHITECTURES = ("skipgram", "cbow")


@dataclass(frozen=True)
class Bench:
    """What is asked for.

    Attributes:
        data: the folder.
        scratch: where tokens and vectors go.
        device: cuda or cpu.
        seeds: how many.
        settings: of both backends.
    """

    data: Path
    scratch: Path
    device: str
    seeds: int
    settings: dict[str, Any]


def zipf_text(folder: Path, words: int = 200_000, size: int = 5_000) -> tuple[TrainingText, Vocabulary]:
    """A text of random words, as frequent as words of a language are, in texts of a hundred words."""
    random = np.random.default_rng(0)
    rows = np.minimum(random.zipf(1.3, words) - 1, size - 1).astype("<i4")
    counts = np.bincount(rows, minlength=size) + 1
    rows[::100] = ~rows[::100]
    rows.tofile(folder / "zipf")
    vocabulary = Vocabulary(np.arange(size), counts, np.arange(size, dtype=np.int32), 0, 0)
    return TrainingText(folder / "zipf", words, -(-words // 100)), vocabulary


def check_batches(bench: Bench) -> Iterator[dict[str, Any]]:
    """One batch on the CPU and on the device."""
    text, vocabulary = zipf_text(bench.scratch)
    generator = torch.Generator().manual_seed(0)
    matrices = [torch.randn((len(vocabulary) + 1, 128), generator=generator) / 8 for _ in range(2)]
    for step in (skipgram, cbow):
        plan = Word2VecPlan(architecture=step.__name__)
        found = []
        for device in (torch.device("cpu"), torch.device(bench.device)):
            words = torch.from_numpy(text.read(0, 50_000)).to(device)
            drawn, _ = Sampler(vocabulary, plan, device).windows(words, 0, 0, 50_000, 0)
            batch = step(*(matrix.to(device) for matrix in matrices), drawn, plan.negatives, 0.3)
            found.append((drawn, batch))
        (here, ours), (there, theirs) = found
        names = ("contexts", "left", "right", "noise")
        same = all(torch.equal(getattr(here, name), getattr(there, name).cpu()) for name in names)
        gaps = {
            f"{side}.{name}": relative_gap(
                getattr(getattr(ours, side), name), getattr(getattr(theirs, side), name).cpu()
            )
            for side in ("inputs", "outputs")
            for name in ("ascent", "curvature")
        }
        gaps["loss"] = relative_gap(ours.loss, theirs.loss.cpu())
        yield {"check": f"{step.__name__} batch", "ok": same and max(gaps.values()) < 1e-4, "same_windows": same} | gaps


def relative_gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, as a share of the largest number."""
    return float((one - other).abs().max() / one.abs().max())


def check_bytes(bench: Bench) -> Iterator[dict[str, Any]]:
    """Two trainings with `deterministic`, the second stopped half-way and gone on with."""
    text, vocabulary = zipf_text(bench.scratch)
    for architecture in ARCHITECTURES:
        plan = Word2VecPlan(architecture=architecture, dim=64, epochs=2, deterministic=True)
        whole, first, again = (TorchTraining(text, vocabulary, plan, None, bench.device) for _ in range(3))
        for _ in whole.steps(StopFlag()):
            pass
        flag = StopFlag()

        def at_half(run: TorchTraining = first, flag: StopFlag = flag) -> bool:
            if run.progress["words"] > text.words:
                flag.signum = 15
            return False

        for _ in first.steps(flag, at_half):
            pass
        again.progress = dict(first.progress)
        for name, array in again.arrays().items():
            array[:] = first.arrays()[name]
        for _ in again.steps(StopFlag()):
            pass
        same = all(np.array_equal(array, again.arrays()[name]) for name, array in whole.arrays().items())
        yield {"check": f"{architecture} same bytes", "ok": same, "stopped_at": first.progress["words"]}
    torch.use_deterministic_algorithms(False)


def tokens_of(bench: Bench, mb: float) -> Path:
    """The first megabytes of the text, as a tokens artifact."""
    text = bench.scratch / "text.txt"
    with (bench.data / "wiki" / "train.txt").open("rb") as file:
        data = file.read(int(mb * 1e6))
    text.write_bytes(data[: data.rfind(b"\n") + 1])
    corpus, tokens = bench.scratch / "corpus", bench.scratch / "tokens"
    wordpipe.ingest(text, output=corpus, documents="block", valid=0.0)
    wordpipe.tokenize(corpus, output=tokens, vocab_size=4000)
    return tokens


def train(bench: Bench, tokens: Path, backend: str, architecture: str, seed: int) -> dict[str, Any]:
    """One training and its judgement."""
    torch_only = {"device": bench.device} if backend == "torch" else {}
    if backend == "torch" and bench.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    values = bench.settings | torch_only | {"architecture": architecture, "seed": seed, "backend": backend}
    made = wordpipe.train_word2vec(
        tokens, output=bench.scratch / "words", run=wordpipe.RunOptions(fresh=True), **values
    )
    judged = wordpipe.evaluate_words(bench.scratch / "words", bench.data / "words")
    on_gpu = backend == "torch" and bench.device == "cuda"
    return {
        "backend": backend, "architecture": architecture, "seed": seed, "words_per_s": made.rates["words_per_s"],
        "seconds": made.seconds, "loss": made.metrics.get("loss"), "metrics": judged["metrics"],
        "words": made.counts["words_kept"], "distinct": made.counts["distinct_kept"],
        "peak_gpu_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "peak_memory_bytes": made.peak_memory_bytes,
    }  # fmt: skip


def trainings(bench: Bench, mb: float) -> Iterator[dict[str, Any]]:
    """Every backend, architecture and seed; each backend once before, unmeasured, so that all is compiled."""
    tokens = tokens_of(bench, mb)
    for architecture in ARCHITECTURES:
        for backend in ("native", "torch"):
            short = Bench(bench.data, bench.scratch, bench.device, 1, bench.settings | {"epochs": 1})
            train(short, tokens, backend, architecture, 0)
            for seed in range(1, bench.seeds + 1):
                yield train(bench, tokens, backend, architecture, seed)


def comparison(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Means over the seeds, the GPU's beside the native ones."""
    for architecture in ARCHITECTURES:
        means = {}
        for backend in ("native", "torch"):
            some = [
                line for line in lines if (line.get("backend"), line.get("architecture")) == (backend, architecture)
            ]
            if not some:
                return
            names = [name for name, value in some[0]["metrics"].items() if "/" in name and value is not None]
            means[backend] = {name: fmean(line["metrics"][name] for line in some) for name in names}
            means[backend]["words_per_s"] = fmean(line["words_per_s"] for line in some)
        behind = {name: means["native"][name] - value for name, value in means["torch"].items() if "/" in name}
        times = means["torch"]["words_per_s"] / means["native"]["words_per_s"]
        ok = max(behind.values(), default=0.0) <= ALLOWED_LOSS
        yield {"comparison": architecture, "ok": ok, "times_as_fast": round(times, 2), **means}


def machine(device: str) -> dict[str, Any]:
    """What the figures were measured on."""
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    return {
        "device": device, "name": name, "cores": cpu_count(), "torch": torch.__version__, "cuda": torch.version.cuda
    }  # fmt: skip


def main() -> int:
    """Run what is asked for; print and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with wiki/train.txt and words/")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--mb", type=float, default=100, help="megabytes of text")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--only", choices=["check", "train"], help="one part alone")
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        print("words_gpu: this machine has no CUDA device (--device cpu exercises the script)", file=sys.stderr)
        return 2
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, and the first training does not ask for it
    settings = {"dim": asked.dim, "epochs": asked.epochs, "window": 5, "min_count": 5}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(asked.data, Path(folder), asked.device, asked.seeds, settings)
        parts = {
            "check": lambda: (line for check in (check_batches, check_bytes) for line in check(bench)),
            "train": lambda: trainings(bench, asked.mb),
        }
        lines: list[dict[str, Any]] = []
        for name, part in parts.items():
            for line in part() if asked.only in (None, name) else ():
                lines.append(line)
                print(json.dumps(line), flush=True)
    for line in comparison(lines):
        lines.append(line)
        print(json.dumps(line), flush=True)
    ok = all(line.get("ok", True) for line in lines)
    found = {"ok": ok, "machine": machine(asked.device), "mb": asked.mb, "settings": settings, "lines": lines}
    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
