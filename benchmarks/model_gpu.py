"""The checks that need a GPU: training there learns, resumes and is fast. Writes one JSON file.

    python benchmarks/model_gpu.py --out benchmarks/results/model_gpu.json
    python benchmarks/model_gpu.py --out speed.json --only speed --shapes 6L/384      a part, and some of the shapes
    python benchmarks/model_gpu.py --out check.json --device cpu                      tiny sizes, to exercise the script

    learn, resume, encode    what must hold on any device (peers/model_checks.py)
    pairs                    likewise of encoder-decoders: a step in float32 and bfloat16, learning, beams, denoising
                             (peers/pair_checks.py)
    heads                    and of heads for texts, tokens and answers: a step, learning, scores (peers/head_checks.py)
    speed                    tokens/s of our training loop: compiled with Muon (our default) and with AdamW, and eager
    trainer                  the same by transformers' Trainer, with and without torch_compile (pip install accelerate): bf16,
                             fused AdamW, sdpa, the head on the targets only, the same tokens per step, the largest
                             micro-batch that fits, sequences masked beforehand

Every speed is a process of its own, 16 steps of 262,144 tokens after 8 that are not counted (compiling takes most of the
time, a minute or so per line; all of it half an hour). "Serial estimate" is what one H100 could reach if compute at 80 % of
its bf16 peak and memory traffic at 90 % of its bandwidth followed each other. A gated feed-forward of 1024 has the weights,
the work and the memory traffic of a plain one of 1536, one of 2048 those of 3072, so the estimates hold for both.

Exit code 0: every check holds, and where measured: the masked 6L/384 reaches 60 % of its estimate, the causal 12L/768 0.45
million tokens/s and 3 times Trainer's; 1: one does not; 2: no CUDA device. `--device cpu` holds the checks only.

Several GPUs: `torchrun --nproc-per-node 8 -m wordpipe train mlm run/tokens -o run/model` trains one model on all of them, with
the loss of one process and the same batch; tests/training holds that with two processes on a CPU.
"""

import argparse
import importlib.util
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peers.head_checks import check_heads
from peers.model_bench import ModelBench
from peers.model_checks import check_encode, check_learning, check_resume, text
from peers.pair_checks import check_pairs

PARTS = ("learn", "resume", "encode", "pairs", "heads", "speed", "trainer")
SMALL = {"preset": "tiny", "seq_len": 64, "batch_size": 64, "lr": 3e-3, "compile": "off"}
TINY = SMALL | {
    "dim": 32,
    "n_layers": 1,
    "n_heads": 1,
    "ffn_dim": 64,
    "seq_len": 16,
    "batch_size": 8,
    "lr": 1e-2,
    "threads": 1,
}
WIDE_384 = {"dim": 384, "n_layers": 6, "n_heads": 6, "ffn_dim": 1024}
WIDE_768 = {"dim": 768, "n_layers": 12, "n_heads": 12, "ffn_dim": 2048}
TOKENS_PER_STEP = 262_144
WAYS = {
    "compiled, Muon": {"compile": "on", "optimiser": "muon"},
    "compiled, AdamW": {"compile": "on", "optimiser": "adamw"},
    "eager, AdamW": {"compile": "off", "optimiser": "adamw"},
}


@dataclass(frozen=True)
class Shape:
    """A model and its batch.

    Attributes:
        name: in the table.
        kind: mlm or clm.
        sizes: of the model.
        seq_len: positions of a sequence.
        n_tokens: of the vocabulary.
        estimate: tokens/s of the serial estimate for one H100.
    """

    name: str
    kind: str
    sizes: dict[str, int]
    seq_len: int
    n_tokens: int
    estimate: float


SHAPES = [
    Shape("6L/384/1024 gated mlm T128", "mlm", WIDE_384, 128, 30_522, 3.4e6),
    Shape("6L/384/1024 gated clm T512", "clm", WIDE_384, 512, 32_768, 2.2e6),
    Shape("12L/768/2048 gated mlm T512", "mlm", WIDE_768, 512, 30_522, 0.67e6),
    Shape("12L/768/2048 gated clm T1024", "clm", WIDE_768, 1024, 50_257, 0.53e6),
]
TINY_SHAPES = [
    Shape(f"tiny {kind}", kind, {"dim": 32, "n_layers": 1, "n_heads": 1, "ffn_dim": 64}, 16, 90, 1e6)
    for kind in ("mlm", "clm")
]
TINY_WAYS = {"eager, Muon": {"compile": "off", "optimiser": "muon"}}
FLOORS = {  # what "fast enough" means: shape and way → tokens/s
    "6L/384/1024 gated mlm T128": 0.6 * 3.4e6,
    "12L/768/2048 gated clm T1024": 0.45e6,
}
TIMES_TRAINER = {"12L/768/2048 gated clm T1024": 3.0}


def base_of(shape: Shape, device: str) -> dict[str, Any]:
    """Settings of a timed run."""
    tokens = TOKENS_PER_STEP if device == "cuda" else 128
    return shape.sizes | {"seq_len": shape.seq_len, "batch_size": tokens // shape.seq_len} | (
        {"mask_rate": 0.15} if shape.kind == "mlm" else {}
    )  # fmt: skip


def speeds(bench: ModelBench, shapes: list[Shape], device: str) -> Iterator[dict[str, Any]]:
    """Our training loop."""
    for shape in shapes:
        ids = bench.work / f"{shape.n_tokens}.npy"
        np.save(ids, text(4_000_000 if device == "cuda" else 4_000, shape.n_tokens, 0))
        for way, values in (WAYS if device == "cuda" else TINY_WAYS).items():
            settings = base_of(shape, device) | values | {"steps": 24, "report_every": 4, "lr": 3e-4, "seed": 1}
            settings |= {"device": device, "eval_every": 24, "checkpoint_seconds": 1e9, "preset": "base"}
            settings |= {} if device == "cuda" else {"threads": 1}
            state = bench.work / f"state-{shape.name}-{way}".replace("/", "-")
            found = bench.child(
                "speed",
                "ours",
                kind=shape.kind,
                settings=settings,
                ids=str(ids),
                n_tokens=shape.n_tokens,
                folder=str(state),
            )
            rates = [1 / seconds for seconds in found["token_seconds"][2:]]
            rate = float(np.median(rates))
            yield {
                "speed": shape.name, "way": way, "tokens_per_s": round(rate),
                "share_of_serial_estimate": round(rate / shape.estimate, 3), "micro_batch": found["micro_batch"],
                "peak_gpu_gb": round(found["peak_gpu_bytes"] / 1e9, 1),
                "parameters": found["parameters"],
            }  # fmt: skip


def trainers(bench: ModelBench, shapes: list[Shape], device: str) -> Iterator[dict[str, Any]]:
    """Trainer; said to be skipped where it cannot be had."""
    if importlib.util.find_spec("accelerate") is None:
        yield {"skipped": "trainer", "why": "accelerate is not installed"}
        return
    for shape in shapes:
        for compiled in (False, True) if device == "cuda" else (False,):
            task = base_of(shape, device) | {"kind": shape.kind, "n_tokens": shape.n_tokens, "compile": compiled}
            task |= {"device": device, "warm": 8 if device == "cuda" else 1, "steps": 16 if device == "cuda" else 2}
            task |= {"workers": 4 if device == "cuda" else 0}
            way = "transformers Trainer, compiled" if compiled else "transformers Trainer"
            try:
                found = bench.child("trainer", "trainer", **task)
            except RuntimeError as error:
                yield {"failed": shape.name, "way": way, "why": str(error)}
                continue
            yield {
                "speed": shape.name, "way": way, "tokens_per_s": found["tokens_per_s"],
                "share_of_serial_estimate": round(found["tokens_per_s"] / shape.estimate, 3),
                "micro_batch": found["micro_batch"], "peak_gpu_gb": round(found["peak_gpu_bytes"] / 1e9, 1),
                "parameters": found["parameters"],
            }  # fmt: skip


def shortfalls(lines: list[dict[str, Any]]) -> Iterator[str]:
    """What was measured and is too slow."""
    rates = {(line["speed"], line["way"]): line["tokens_per_s"] for line in lines if "speed" in line}
    for name, floor in FLOORS.items():
        ours = max((rate for (shape, way), rate in rates.items() if shape == name and way in WAYS), default=None)
        if ours is not None and ours < floor:
            yield f"{name}: {ours:,} tokens/s, less than {floor:,.0f}"
    for name, times in TIMES_TRAINER.items():
        ours = max((rate for (shape, way), rate in rates.items() if shape == name and way in WAYS), default=None)
        others = [rate for (shape, way), rate in rates.items() if shape == name and way not in WAYS]
        if ours is not None and others and ours < times * max(others):
            yield f"{name}: {ours / max(others):.2f} times as fast as Trainer, less than {times:g}"


def machine(device: torch.device) -> dict[str, Any]:
    """What the figures were measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {"device": device.type, "name": name, "torch": torch.__version__, "cuda": torch.version.cuda}


def everything(arguments: argparse.Namespace, bench: ModelBench) -> Iterator[dict[str, Any]]:
    """All that was asked for, line by line."""
    is_cuda = arguments.device == "cuda"
    base = (SMALL if is_cuda else TINY) | {"device": arguments.device}
    shapes = [
        shape for shape in (SHAPES if is_cuda else TINY_SHAPES)
        if not arguments.shapes or any(one in shape.name for one in arguments.shapes.split(","))
    ]  # fmt: skip
    parts = {
        "learn": check_learning(base, 300 if is_cuda else 110),
        "resume": check_resume(base, 20 if is_cuda else 6),
        "encode": check_encode(base, torch.device(arguments.device)),
        "pairs": check_pairs(base, 300 if is_cuda else 60, torch.device(arguments.device)),
        "heads": check_heads(base, 6 if is_cuda else 8, torch.device(arguments.device)),
        "speed": speeds(bench, shapes, arguments.device),
        "trainer": trainers(bench, shapes, arguments.device),
    }
    for name, found in parts.items():
        if name in arguments.only:
            yield from found


def main(given: list[str] | None = None) -> int:
    """Run all checks; print and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--shapes", default="", help="only shapes with one of these in their names")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="kill a process that takes longer")
    arguments = parser.parse_args(given)
    arguments.only = [part for part in arguments.only.split(",") if part]
    if unknown := set(arguments.only) - set(PARTS):
        parser.error(f"not known: {', '.join(sorted(unknown))} (choose from {', '.join(PARTS)})")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("model_gpu: this machine has no CUDA device (--device cpu exercises the script)", file=sys.stderr)
        return 2
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, and the first part does not ask for it
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="model-gpu-") as folder:
        bench = ModelBench(Path(), Path(folder), 0, arguments.limit)
        for line in everything(arguments, bench):
            lines.append(line)
            print(json.dumps(line), flush=True)
    wrong = [line["check"] for line in lines if not line.get("ok", True)]
    wrong += list(shortfalls(lines)) if arguments.device == "cuda" else []
    result = {"ok": not wrong, "wrong": wrong, "machine": machine(torch.device(arguments.device)), "lines": lines}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for one in wrong:
        print(one)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
