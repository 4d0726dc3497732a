"""`wordpipe plan`: which model fits into a time, with how many steps, how much memory and disk.

The pace is that of `estimate`: of earlier runs of this machine, else of a measurement of half a second. For a GPU that this
machine has not, one stored figure says what there is to say. Of the loss one measured figure is named: how it goes on from
there depends on the text, and one point makes no rule.
"""

import re
from math import sqrt
from pathlib import Path
from typing import Any

from wordpipe.artifacts import is_artifact
from wordpipe.errors import ConfigError, InputError
from wordpipe.model import PRESETS
from wordpipe.stages.estimate import Estimate, Estimator, Size, size_of_artifact, size_of_files
from wordpipe.stages.python_calls import public
from wordpipe.stages.registry import COMMANDS

_SPAN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")
_ENOUGH_STEPS = (
    700  # a mini model has left the loss of frequencies far behind after 732 (benchmarks/results/model_recipes.json)
)
_BASIS = {
    "earlier runs": "from earlier runs on this machine", "probed": "from a measurement that took half a second",
    "rule of thumb": "from a rough general estimate",
}  # fmt: skip
_VOCAB = 16_000.0  # tokens, where nobody says
# positions a second of `base` on one H200, compiled, Muon (benchmarks/results/model_gpu.json); smaller ones are not slower
_STORED_PACE, _STORED_DEVICE = 518_520.0, "NVIDIA H200"
# `train mlm` on Wikipedia, two seeds 0.01 apart, and the loss of frequencies alone (benchmarks/results/model_recipes.json)
_MEASURED = {"preset": "mini", "tokens": 2_998_272, "loss": 4.07, "frequencies": 7.07}


@public()
def plan(time: str | float, text: Any = None, *, command: str = "train mlm", device: str = "auto") -> dict[str, Any]:
    """Plan a training: return the preset to train in a given time, with steps, memory and disk for each preset.

    Args:
        time: such as "30m", "1h30m" or "90s"; a number means minutes.
        text: a tokens or corpus artifact, or files of text; None: enough of it, with a vocabulary of 16,000.
        command: a training that has presets, as in "train mlm".
        device: auto, cpu or cuda; of a GPU that is not here, a stored figure says the pace.

    Returns:
        seconds, command, device, basis (where the pace comes from), recommended (a preset, or None: too little time for any),
        measured (of train mlm: the held-out loss that a preset had after so many tokens of Wikipedia, and that of knowing
        frequencies alone; else None), and presets: a list of preset, steps, batch_size, seq_len, tokens (positions read),
        passes (over the text; None: not known), tokens_per_s, parameters, memory_bytes, disk_bytes, and spread (likely factor
        of the pace to either side).

    Raises:
        ConfigError: no time, or no such training.
        InputError: the text does not exist.

    Example:
        >>> found = wordpipe.plan("30m", "run/tokens")
        >>> [row["preset"] for row in found["presets"]]
        ['tiny', 'mini', 'small', 'base']
    """
    # a time, a command and a device that can be planned
    seconds = seconds_of(time)
    known = COMMANDS.get(command)
    settings_class: Any = None if known is None else known.load_settings()
    if known is None or "preset" not in settings_class.model_fields or not known.joined:
        able = [name for name, one in COMMANDS.items() if one.joined]
        hint = "for word vectors and heads, --minutes limits the time, and wordpipe status estimates the time"
        raise ConfigError(
            "plan does not support this command", where="command", got=command, expected=", ".join(able), hint=hint
        )
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError("unknown device", where="device", got=device, expected="auto, cpu, cuda")
    # each preset in that time: those with enough steps fit
    size = _size_of(text)
    stored = device == "cuda" and not _has_gpu()
    rows = [_row(settings_class, preset, size, seconds, device, stored=stored) for preset in PRESETS]
    fitting = [row["preset"] for row in rows if row["steps"] >= _ENOUGH_STEPS]
    worth = [row["preset"] for row in rows if row["steps"] >= 20]
    # where the pace comes from, and the recommended preset
    if stored:
        basis = f"from a stored measurement of the preset base on one {_STORED_DEVICE}; smaller presets are at least as fast"
    else:
        basis = ", ".join(dict.fromkeys(_BASIS[row["basis"]] for row in rows))
    for row in rows:
        del row["basis"]
    recommended = fitting[-1] if fitting else worth[0] if worth else None
    return {
        "seconds": seconds, "command": command, "device": device, "basis": basis, "recommended": recommended,
        "measured": _MEASURED if command == "train mlm" else None, "presets": rows,
    }  # fmt: skip


def seconds_of(time: str | float) -> float:
    """Return a time to plan for, such as 30m, in seconds.

    Raises:
        ConfigError: it is none.

    >>> seconds_of("1h30m"), seconds_of("90s"), seconds_of("30"), seconds_of(0.5)
    (5400.0, 90.0, 1800.0, 30.0)
    """
    text = str(time).strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = 60.0 * float(text)
    else:
        found = _SPAN.fullmatch(text)
        parts = found.groups() if found else (None,)
        seconds = sum(float(part) * unit for part, unit in zip(parts, (3600, 60, 1), strict=False) if part)
    if not 0 < seconds < 1e9:
        raise ConfigError(
            "not a time", where="time", got=time, expected="30m, 1h30m or 90s; a number without a unit means minutes"
        )
    return seconds


def _has_gpu() -> bool:
    """True if this machine has a GPU."""
    return Path("/dev/nvidia0").exists()


def _size_of(text: Any) -> Size:
    """Return the size of the text to plan a training on: of an artifact, or of files."""
    if text is None:
        return Size(vocab=_VOCAB)
    path = Path(text)
    if is_artifact(path):
        found = size_of_artifact(path)
    elif path.exists():
        files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
        given = size_of_files([(one.name, one.stat().st_size) for one in files])
        found = Size(tokens=given.bytes / 3.9, words=given.bytes / 6.3)
    else:
        raise InputError(
            "the text does not exist", where=path, expected="a tokens or corpus artifact, a file or a folder"
        )
    return found if found.vocab else Size(tokens=found.tokens, words=found.words, vocab=_VOCAB)


def _row(settings_class: Any, preset: Any, size: Size, seconds: float, device: str, *, stored: bool) -> dict[str, Any]:
    """Return the plan of training a preset in the time: steps, tokens, memory, disk."""
    shape = PRESETS[preset]
    where = "cpu" if stored else device
    positions = shape.batch_size * shape.max_len
    few, many = (_estimate(settings_class, preset, steps, size, where) for steps in (1, 1001))
    start, spread = _likely(few), sqrt(many.seconds[1] / many.seconds[0])
    a_step = positions / _STORED_PACE if stored else (_likely(many) - start) / 1000
    # the time of one step and of what is around them is the estimate's; a long run is nearer to what was remembered
    steps = max(0, int((seconds - (0.0 if stored else max(0.0, start - a_step))) / a_step))
    if steps and not stored:
        whole = _estimate(settings_class, preset, steps, size, where)
        steps, spread = int(steps * seconds / _likely(whole)), sqrt(whole.seconds[1] / whole.seconds[0])
    read = steps * positions
    return {
        "preset": preset, "steps": steps, "batch_size": shape.batch_size, "seq_len": shape.max_len, "tokens": read,
        "passes": round(read / size.tokens, 2) if size.tokens else None, "tokens_per_s": round(positions / a_step),
        "parameters": _weights(shape, size), "memory_bytes": None if stored else many.memory_bytes,
        "disk_bytes": many.disk_bytes, "spread": 1.5 if stored else round(spread, 2),
        "basis": many.basis,
    }  # fmt: skip


def _estimate(settings_class: Any, preset: Any, steps: int, size: Size, device: str) -> Estimate:
    """Estimate a training of a preset with a number of steps."""
    settings = settings_class.make({"preset": preset, "steps": steps, "device": device})
    return Estimator().estimate("plan", settings, [size], Path("-"))


def _likely(estimate: Estimate) -> float:
    """Return the likely seconds of an estimate."""
    return sqrt(estimate.seconds[0] * estimate.seconds[1])


def _weights(shape: Any, size: Size) -> int:
    """Return the number of weights of a preset with a vocabulary."""
    body = shape.n_layers * (4 * shape.dim**2 + 3 * shape.dim * shape.ffn_dim)
    return int(body + size.vocab * shape.dim)
