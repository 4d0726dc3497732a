"""What must hold on every device: training learns, resumes to the same weights, and the numbers are those of a CPU."""

import math
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from peers.model_ours import SETTINGS, special_of, training
from wordpipe.model import new_model
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.training import Step, Trainer, model_config

Line = dict[str, Any]

N_TOKENS = 90


def text(n: int, n_tokens: int, seed: int) -> np.ndarray:
    """Ids that go up by one or two: the next one can be guessed, but not always."""
    random = np.random.default_rng(seed)
    return (7 + np.cumsum(random.integers(1, 3, n)) % (n_tokens - 7)).astype("<u2")


def run(part: Trainer[Any], stop_at: int | None = None) -> list[Step]:
    """Train to the end, or stop after the report at `stop_at`; the reports."""
    flag, reports = StopFlag(), []
    try:
        for step in part.steps(flag):
            reports.append(step)
            if stop_at is not None and step.step >= stop_at:
                flag.signum = 15
    except Stopped:
        pass
    return reports


def small_training(kind: str, values: dict[str, Any], folder: str) -> Trainer[Any]:
    """A training on made-up ids, with held-out ones."""
    ids, held_out = text(20_000, N_TOKENS, 0), text(4096, N_TOKENS, 1)
    return training(kind, values, folder, ids, n_tokens=N_TOKENS, held_out=held_out)


def check_learning(base: dict[str, Any], steps: int) -> Iterator[Line]:
    """The held-out loss falls well below guessing, as the device does it by itself and in float32 alike."""
    for kind in SETTINGS:
        losses = {}
        for dtype, compiled in (("auto", "auto"), ("float32", "off")):
            values = base | {"steps": steps, "dtype": dtype, "compile": compiled}
            with tempfile.TemporaryDirectory() as folder:
                losses[dtype] = run(small_training(kind, values, folder))[-1].loss
        ok = losses["auto"] < math.log(N_TOKENS) - 0.4 and abs(losses["auto"] - losses["float32"]) < 0.3
        yield {"check": f"{kind} learns", "ok": ok, "guessing": math.log(N_TOKENS), "losses": losses}


def check_resume(base: dict[str, Any], steps: int) -> Iterator[Line]:
    """Stopped half-way and continued: the same weights bit by bit with --deterministic, nearly the same without."""
    for kind in SETTINGS:
        for deterministic in (True, False):
            values = base | {"steps": steps, "report_every": 1, "dropout": 0.1, "deterministic": deterministic}
            with tempfile.TemporaryDirectory() as folder:
                make = partial(small_training, kind, values)
                whole, half = make(f"{folder}/whole"), make(f"{folder}/halves")
                losses = [run(whole)[-1].loss]
                run(half, stop_at=steps // 2)
                again = make(f"{folder}/halves")
                losses.append(run(again)[-1].loss)
            pairs = list(zip(whole.learner.model.parameters(), again.learner.model.parameters(), strict=True))
            same = all(torch.equal(a, b) for a, b in pairs)
            farthest = max(float((a - b).detach().abs().max()) for a, b in pairs)
            loss_gap = abs(losses[0] - losses[1])
            ok = again.resumed_from == steps // 2 and (same if deterministic else loss_gap < 0.02)
            yield {
                "check": f"{kind} resumes, deterministic {deterministic}", "ok": ok, "same_bytes": same,
                "farthest_weight": farthest, "loss_gap": loss_gap, "resumed_from": again.resumed_from,
            }  # fmt: skip


def check_encode(base: dict[str, Any], device: torch.device) -> Iterator[Line]:
    """Hidden states in bfloat16 point where those in float32 point, and those of the device where the CPU's do."""
    for architecture, kind in (("encoder", "mlm"), ("decoder", "clm")):
        settings = SETTINGS[kind].make(base)
        model = new_model(model_config(settings, architecture, n_tokens=1000, special=special_of()), 0).eval()  # type: ignore[arg-type]
        ids_BT = torch.randint(7, 1000, (8, settings.seq_len or 16), generator=torch.Generator().manual_seed(0))
        mask_BT = torch.ones_like(ids_BT)
        mask_BT[::2, ids_BT.shape[1] // 2 :] = 0
        with torch.no_grad():
            on_cpu = model.encode(ids_BT, mask_BT)
            model.to(device)
            full = model.encode(ids_BT.to(device), mask_BT.to(device)).cpu()
            with torch.autocast(device.type, dtype=torch.bfloat16):
                half = model.encode(ids_BT.to(device), mask_BT.to(device)).float().cpu()
        real = mask_BT.bool()
        cosine = torch.nn.functional.cosine_similarity(full[real], half[real], dim=-1)
        gap = float((on_cpu - full)[real].abs().max())
        ok = float(cosine.min()) > 0.999 and gap < 1e-3
        yield {
            "check": f"{architecture} encodes", "ok": ok, "least_cosine_of_bfloat16": float(cosine.min()),
            "largest_gap_to_cpu": gap,
        }  # fmt: skip
