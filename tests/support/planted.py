"""Faults planted in the code, one at a time: which does the suite find?

    python -m tests.support.planted [--only NAME] [--tests "pytest arguments"] [--json FILE]

A fault is a small change of what a formula, a border or a promise says. It is found in the package by its text, wherever
that stands now, planted in a copy of the checkout, and the tests of its rooms are run until one fails. A fault that no test
notices is printed as missed; exit code 1 if there is one. `tests/test_planted.py` sees that each can still be planted.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("wordpipe", "tests", "configs", "data", "benchmarks", "docs")


@dataclass(frozen=True)
class Fault:
    """A change that a test must notice."""

    name: str
    before: str  # stands once in the package
    after: str
    rooms: str  # folders below tests/, the likeliest first


FAULTS = (
    Fault("BM25: k1 counts twice", "k1 * (1 - b + b * lengths", "2 * k1 * (1 - b + b * lengths", "search"),
    Fault("BM25: idf without its 1", "np.log1p((len(self) - texts_T + 0.5)", "np.log((len(self) - texts_T + 0.5)", "search"),
    Fault("fusion: the weight of words twice", "(lexical, 1 - weight)]", "(lexical, 1.0)]", "search"),
    Fault("feedback: all hits weigh alike", "shares = 1 / np.arange(1, len(own) + 1", "shares = 0 * np.arange(1, len(own) + 1",
          "search"),
    Fault("schedule: warm-up begins at 0", "return peak * (step + 1) / warmup", "return peak * step / warmup", "training"),
    Fault("schedule: a cosine that ends too high", "(1.0 + math.cos(math.pi * done)) / 2.0",
          "(1.0 + math.cos(math.pi * done / 2)) / 2.0", "training"),
    Fault("masks: no token stays as it is", "draw_BK < self.mask_share + self.random_share",
          "draw_BK < 1.0 + self.random_share", "training"),
    Fault("masks: all are [MASK]", "masked_fill(draw_BK < self.mask_share, self.mask_id)",
          "masked_fill(draw_BK < 1.0, self.mask_id)", "training"),
    Fault("nucleus: one token too many", "n_kept_N1 = 1 + (reached_NC", "n_kept_N1 = 2 + (reached_NC", "model"),
    Fault("min_count: one more is needed", "counts >= max(min_count, 1)", "counts > max(min_count, 1)", "words"),
    Fault("file not forced to the disk", 'failpoint("publish.file_synced")\n            os.fsync(self._fd)',
          'failpoint("publish.file_synced")', "artifacts faults"),
    Fault("folder not forced to the disk", "        os.fsync(fd)\n    finally:\n        os.close(fd)\n\n\n@contextmanager",
          "        pass\n    finally:\n        os.close(fd)\n\n\n@contextmanager", "artifacts faults"),
    Fault("noise: proportional to the count", "counts_V.astype(np.float64) ** ns_exponent", "counts_V.astype(np.float64)",
          "words"),
    Fault("subsampling: without its root", "np.minimum(1.0, np.sqrt(ratio) + ratio)", "np.minimum(1.0, ratio)", "words"),
    Fault("ALiBi: far is near", "return -slopes_H.view(", "return slopes_H.view(", "model"),
    Fault("T5: ranges begin too early", "exact = n_buckets // 2\n    ratio = torch",
          "exact = n_buckets // 4\n    ratio = torch", "model"),
    Fault("attention: scores are not scaled", "(q_BHTE * (1.0 / math.sqrt(E)))", "(q_BHTE * 1.0)", "model"),
    Fault("window: one position more", "distance_TS.abs() <= window", "distance_TS.abs() <= window + 1", "model"),
    Fault("whitening: no shrinkage", "drawn = shrinkage(strength_D, count)", "drawn = 0.0", "encoders"),
    Fault("pooling: padding counts", "weights_BT, hidden_BTD = weights_BT * mask_BT, hidden_BTD.masked_fill",
          "weights_BT, hidden_BTD = weights_BT, hidden_BTD.masked_fill", "encoders"),
    Fault("windows: the last alone", "merged_ND[counts_N == 1] = windows_WD[starts_N[counts_N == 1]]",
          "merged_ND[counts_N == 1] = 0.5 * windows_WD[starts_N[counts_N == 1]]", "encoders"),
    Fault("SIF: rare words weigh nothing more", "return vectors_RD * self._weights_V1[rows_R] if self.pooling == \"sif\" else",
          "return vectors_RD if self.pooling == \"sif\" else", "encoders"),
    Fault("spans: sentinels are not counted on", "number_N = begins_BT.cumsum(axis=1)[begins_BT] - 1",
          "number_N = 0 * begins_BT.cumsum(axis=1)[begins_BT]", "training"),
    Fault("documents: what ends one belongs to the next", "return is_end_BT.cumsum(dim=1) - is_end_BT.long()",
          "return is_end_BT.cumsum(dim=1)", "training"),
    Fault("causal blocks: a target is left out", "Blocks(ids, width=stride + 1, stride=stride)",
          "Blocks(ids, width=stride + 1, stride=stride + 1)", "training"),
    Fault("order: every epoch the same", 'permute(out[here], n, seed_of(seed, purpose, int(number)))',
          "permute(out[here], n, seed_of(seed, purpose, 0))", "training"),
    Fault("contrast: partners are left out, too", "left_out[target_B, target_B] = False", "left_out = left_out",
          "training"),
    Fault("contrast: other temperature", "logits_BB = cosine_BB / temperature", "logits_BB = cosine_BB", "training"),
    Fault("Muon: no weight decay", 'torch._foreach_mul_(weights, 1.0 - group["lr"] * group["weight_decay"])', "pass",
          "training"),
    Fault("beam search: length is not paid for", 'float(n_tokens**alpha if kind == "hf"', 'float(1.0 if kind == "hf"',
          "model"),
    Fault("checkpoints: a changed file is read", 'if digest != self.files[name]["blake3"]:', "if False:", "artifacts"),
    Fault("checkpoints: those of another run are read", 'if pointer["run"] != self.run_key:', "if False:", "artifacts"),
    Fault("hashes: of files just written are remembered", "> _RACY_NS:", "> -1:", "artifacts"),
    Fault("nDCG: discount of the rank before", "np.arange(2, len(gains_K) + 2)", "np.arange(1, len(gains_K) + 1) + 0.5",
          "metrics"),
    Fault("calibration: of several labels twice as sure", "np.exp(-np.logaddexp(0.0, -scaled_NV))",
          "np.exp(-np.logaddexp(0.0, -2 * scaled_NV))", "heads"),
    Fault("records: NaN is a number", "if type(number) is not float or math.isfinite(number):", "if number is not None:",
          "stages/test_fields_of_records.py"),
    Fault("token: a beginning is enough", "return hmac.compare_digest(found, token)", "return token.startswith(found)",
          "web"),
    Fault("origin: another site may ask", "return rest.lower() == host.lower()", "return True", "web"),
    Fault("lock: nobody waits", "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass", "artifacts"),
    Fault("documents: repeats are kept", "seen = self.seen if self.settings.deduplicate else None", "seen = None",
          "corpus stages"),
)  # fmt: skip
"""Forty, one at a time."""


def file_of(fault: Fault, package: Path = ROOT / "wordpipe") -> Path:
    """The file that the fault is planted in. Raises LookupError: its text does not stand there once."""
    found = [
        path for path in package.rglob("*.py") for _ in range(path.read_text(encoding="utf-8").count(fault.before))
    ]
    if len(found) != 1:
        raise LookupError(f"{fault.name}: its text stands {len(found)} times in the package: {fault.before!r}")
    return found[0]


def plant(fault: Fault, checkout: Path) -> Path:
    """Change the checkout; the file that was changed."""
    path = file_of(fault, checkout / "wordpipe")
    path.write_text(path.read_text(encoding="utf-8").replace(fault.before, fault.after), encoding="utf-8")
    return path


def copy_checkout(to: Path) -> None:
    """What the tests need, without what was made of it."""
    for name in _COPIED:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, to)


def noticed_by(fault: Fault, checkout: Path, arguments: list[str]) -> str:
    """The first test that fails with the fault planted; empty: none does."""
    path = plant(fault, checkout)
    rooms = [f"tests/{room}" for room in fault.rooms.split() if (checkout / "tests" / room).exists()]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments, *rooms], cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        shutil.copy2(ROOT / path.relative_to(checkout), path)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else "" if done.returncode == 0 else f"exit code {done.returncode}"


def main() -> int:
    """Plant them all and print."""
    parser = argparse.ArgumentParser(description="Which planted fault does the suite find?")
    parser.add_argument("--only", default="", metavar="NAME", help="faults whose name begins with NAME")
    parser.add_argument("--tests", default="", metavar="ARGUMENTS", help="more arguments of pytest")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what found each")
    args = parser.parse_args()
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder)
        copy_checkout(checkout)
        for fault in (one for one in FAULTS if one.name.startswith(args.only)):
            found[fault.name] = noticed_by(fault, checkout, args.tests.split())
            print(f"{'found ' if found[fault.name] else 'MISSED'}  {fault.name}  {found[fault.name]}", flush=True)  # noqa: T201
    missed = [name for name, test in found.items() if not test]
    print(f"{len(found)} planted, {len(missed)} missed")  # noqa: T201
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
