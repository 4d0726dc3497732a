"""What can only be checked on a GPU: that training there learns, resumes and is fast. Writes one JSON file.

    python benchmarks/gpu_check.py --out benchmarks/results/gpu.json
    python benchmarks/gpu_check.py --out speed.json --only speed         one part alone: learn, resume, encode or speed
    python benchmarks/gpu_check.py --out check.json --device cpu         the same with tiny sizes, to exercise the script

Exit code 0: every check holds; 1: one does not; 2: no CUDA device. Compiling takes most of the time: minutes per part.

"Serial estimate" is what one H100 could reach if compute at 80 % of its bf16 peak and memory traffic at 90 % of its
bandwidth followed each other: 3.4 million tokens/s for 6 layers of width 384 (feed-forward 1536), MLM at 15 %, vocabulary
30,522, T = 128.
"""

import argparse
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from wordpipe.model.initialise import new_model
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.training.assemble import assemble
from wordpipe.training.execution import make_execution
from wordpipe.training.loop import Training
from wordpipe.training.plan import SpecialIds, model_config
from wordpipe.training.settings import CausalSettings, MaskedSettings
from wordpipe.training.step import Step
from wordpipe.training.tasks import make_task

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4, bos=5, eos=6)
SMALL = {"preset": "tiny", "seq_len": 64, "batch_size": 64, "lr": 3e-3, "compile": "off"}
TINY = SMALL | {"dim": 32, "n_layers": 1, "n_heads": 1, "ffn_dim": 64, "seq_len": 16, "batch_size": 8, "lr": 1e-2}
WIDE_384 = {"dim": 384, "n_layers": 6, "n_heads": 6, "ffn_dim": 1536}
WIDE_768 = {"dim": 768, "n_layers": 12, "n_heads": 12, "ffn_dim": 2048}
SPEEDS: list[
    tuple[str, str, dict[str, Any], int, float | None]
] = [  # name, task, settings, vocabulary, serial estimate
    ("6L/384/1536 mlm T128", "mlm", WIDE_384 | {"seq_len": 128}, 30_522, 3.4e6),
    ("6L/384/1536 clm T512", "clm", WIDE_384 | {"seq_len": 512}, 32_768, 2.2e6),
    ("12L/768/2048 mlm T512", "mlm", WIDE_768 | {"seq_len": 512}, 30_522, None),
    ("12L/768/2048 clm T1024", "clm", WIDE_768 | {"seq_len": 1024}, 50_257, None),
]


def text(n: int, n_tokens: int, seed: int) -> np.ndarray:
    """Ids that go up by one or two: the next one can be guessed, but not always."""
    random = np.random.default_rng(seed)
    return (7 + np.cumsum(random.integers(1, 3, n)) % (n_tokens - 7)).astype("<u2")


def training(
    task_name: str, values: dict[str, Any], folder: str, *, n_tokens: int, n: int, valid: bool = True
) -> Training:
    """A training on synthetic ids."""
    if torch.cuda.is_available():
        torch.compiler.reset()  # each training compiles for itself; a limit on recompilations would fall back to eager
    settings = (MaskedSettings if task_name == "mlm" else CausalSettings).make(values)
    task = make_task(settings, n_tokens=n_tokens, special=SPECIAL)
    execution = make_execution(settings)
    model = new_model(model_config(settings, task.architecture, n_tokens=n_tokens, special=SPECIAL), settings.seed)
    held_out = text(4096 if valid else 0, n_tokens, 1)
    return assemble(
        settings,
        task,
        model,
        text(n, n_tokens, 0),
        held_out,
        execution=execution,
        state_dir=Path(folder),
        run_key="check",
    )


def run(part: Training, stop_at: int | None = None) -> list[Step]:
    """Train to the end, or stop after the report at `stop_at`."""
    flag = StopFlag()
    try:
        for step in part.steps(flag):
            if stop_at is not None and step.step >= stop_at:
                flag.signum = 15
    except Stopped:
        pass
    return part.history


def check_learning(base: dict[str, Any], steps: int) -> Iterator[dict[str, Any]]:
    """The held-out loss falls well below guessing, as the device does it by itself and in float32 alike."""
    for task_name in ("mlm", "clm"):
        losses = {}
        for dtype, compiled in (("auto", "auto"), ("float32", "off")):
            values = base | {"steps": steps, "dtype": dtype, "compile": compiled}
            with tempfile.TemporaryDirectory() as folder:
                part = training(task_name, values, folder, n_tokens=90, n=20_000)
                losses[dtype] = run(part)[-1].loss
        ok = losses["auto"] < math.log(90) - 0.4 and abs(losses["auto"] - losses["float32"]) < 0.3
        yield {"check": f"{task_name} learns", "ok": ok, "guessing": math.log(90), "losses": losses}


def check_resume(base: dict[str, Any], steps: int) -> Iterator[dict[str, Any]]:
    """Stopped half-way and continued: the same weights bit by bit with --deterministic, nearly the same without."""
    for task_name in ("mlm", "clm"):
        for deterministic in (True, False):
            values = base | {"steps": steps, "report_every": 1, "dropout": 0.1, "deterministic": deterministic}
            with tempfile.TemporaryDirectory() as folder:
                parts = [
                    training(task_name, values, f"{folder}/{name}", n_tokens=90, n=20_000)
                    for name in ("whole", "halves")
                ]
                run(parts[0])
                run(parts[1], stop_at=steps // 2)
                again = training(task_name, values, f"{folder}/halves", n_tokens=90, n=20_000)
                run(again)
            pairs = list(zip(parts[0].model.parameters(), again.model.parameters(), strict=True))
            same = all(torch.equal(a, b) for a, b in pairs)
            farthest = max(float((a - b).detach().abs().max()) for a, b in pairs)
            loss_gap = abs(parts[0].history[-1].loss - again.history[-1].loss)
            ok = again.resumed_from == steps // 2 and (same if deterministic else loss_gap < 0.02)
            yield {
                "check": f"{task_name} resumes, deterministic {deterministic}", "ok": ok, "same_bytes": same,
                "farthest_weight": farthest, "loss_gap": loss_gap, "resumed_from": again.resumed_from,
            }  # fmt: skip


def check_encode(device: torch.device, base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Hidden states in bfloat16 point where those in float32 point, and those of the device where the CPU's do."""
    for architecture, task_name in (("encoder", "mlm"), ("decoder", "clm")):
        settings = (MaskedSettings if task_name == "mlm" else CausalSettings).make(base)
        model = new_model(model_config(settings, architecture, n_tokens=1000, special=SPECIAL), 0).eval()  # type: ignore[arg-type]
        ids_BT = torch.randint(7, 1000, (8, settings.seq_len or 16), generator=torch.Generator().manual_seed(0))
        mask_BT = torch.ones_like(ids_BT)
        mask_BT[::2, ids_BT.shape[1] // 2 :] = 0
        with torch.no_grad():
            on_cpu = model.encode(ids_BT, mask_BT)
            model.to(device)
            full = model.encode(ids_BT.to(device), mask_BT.to(device)).cpu()
            with torch.autocast(device.type, dtype=torch.bfloat16):
                half = model.encode(ids_BT.to(device), mask_BT.to(device)).cpu()
        real = mask_BT.bool()
        cosine = torch.nn.functional.cosine_similarity(full[real], half[real], dim=-1)
        gap = float((on_cpu - full)[real].abs().max())
        ok = float(cosine.min()) > 0.999 and gap < 1e-3
        yield {
            "check": f"{architecture} encodes", "ok": ok, "least_cosine_of_bfloat16": float(cosine.min()),
            "largest_gap_to_cpu": gap,
        }  # fmt: skip


def speeds(is_cuda: bool) -> Iterator[dict[str, Any]]:
    """Tokens per second of the training step, without the first steps."""
    if not is_cuda:
        yield measure("tiny mlm", "mlm", TINY, 90, None, nullcontext(), "eager")
        return
    cudnn_first = [
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.MATH,
    ]
    ways: list[tuple[str, str, Callable[[], AbstractContextManager[object]]]] = [
        ("compiled", "on", nullcontext),
        ("compiled, cuDNN attention first", "on", lambda: sdpa_kernel(cudnn_first, set_priority=True)),
        ("eager", "off", nullcontext),
    ]
    for name, task_name, shape, n_tokens, estimate in SPEEDS:
        batch_size = 262_144 // shape["seq_len"]
        values = shape | {"preset": "base", "batch_size": batch_size, "lr": 3e-4}
        for way, compiled, context in ways:
            yield measure(name, task_name, values | {"compile": compiled}, n_tokens, estimate, context(), way)


def measure(
    name: str, task_name: str, values: dict[str, Any], n_tokens: int, estimate: float | None,
    context: AbstractContextManager[object], way: str,
) -> dict[str, Any]:  # fmt: skip
    """One line of the speed table: the median of the reports after the first two."""
    values = values | {"steps": 24, "report_every": 4, "eval_every": 1000}
    if task_name == "mlm":
        values |= {"mask_rate": 0.15}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, context:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        part = training(task_name, values, folder, n_tokens=n_tokens, n=4_000_000, valid=False)
        rates = [step.tokens_per_s for step in run(part) if step.split == "train"][2:]
    rate = float(np.median(rates))
    return {
        "speed": name, "way": way, "tokens_per_s": round(rate), "micro_batch": part.plan.micro_batch,
        "share_of_serial_estimate": None if estimate is None else round(rate / estimate, 3),
        "peak_gpu_gb": round(torch.cuda.max_memory_allocated() / 1e9, 1) if torch.cuda.is_available() else None,
        "seconds_in_all": round(time.monotonic() - begun, 1),
    }  # fmt: skip


def machine(device: torch.device) -> dict[str, Any]:
    """What the figures were measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {"device": device.type, "name": name, "torch": torch.__version__, "cuda": torch.version.cuda}


def main() -> int:
    """Run all checks; print and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--only", choices=["learn", "resume", "encode", "speed"], help="one part alone")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("gpu_check: this machine has no CUDA device (--device cpu exercises the script)", file=sys.stderr)
        return 2
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, and the first part does not ask for it
    is_cuda, device = arguments.device == "cuda", torch.device(arguments.device)
    base = (SMALL if is_cuda else TINY) | {"device": arguments.device}
    parts = {
        "learn": check_learning(base, 300 if is_cuda else 110),
        "resume": check_resume(base, 20 if is_cuda else 6),
        "encode": check_encode(device, base),
        "speed": speeds(is_cuda),
    }
    lines: list[dict[str, Any]] = []
    for name, found in parts.items():
        for line in found if arguments.only in (None, name) else ():
            lines.append(line)
            print(json.dumps(line), flush=True)
    ok = all(line.get("ok", True) for line in lines)
    arguments.out.write_text(json.dumps({"ok": ok, "machine": machine(device), "lines": lines}, indent=1) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
