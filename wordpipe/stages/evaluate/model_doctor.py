"""The health of a trained transformer: what layers and heads bring, whether it moved, dead units; and what would mend it.

Everything is measured on one bounded sample of text, the same for every figure: they differ by what was switched off alone.

    loss        as it is, beside that of knowing frequencies alone
    layers      the rise of the loss when a layer is left out; how far its weights are from where they began
    heads       the rise when one is switched off, and when all that bring nothing are; which look alike
    units       of the feed-forwards, which vary by next to nothing over the text
"""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import alike_groups
from wordpipe.model import SCORED
from wordpipe.runtime import Progress
from wordpipe.stages.evaluate.held_out import HeldOut, held_out
from wordpipe.stages.inspected import Inspected, inspect_model
from wordpipe.stages.job import RunOptions
from wordpipe.stages.look.ablation import head_rises, layer_rises, look_at, rise_without
from wordpipe.stages.sources import SourceLike

if TYPE_CHECKING:
    import torch

    from wordpipe.model import Transformer

Floats = npt.NDArray[np.float64]

_NOTHING_HEAD = 0.001  # share of the loss: a smaller rise is none
_NOTHING_LAYER = 0.005
_ALIKE = 0.15  # Jensen–Shannon distance: two heads of so little are one
_DEAD_UNIT = 0.01  # deviation of a unit as a share of its layer's median
_DEAD_SHARE = 0.2  # of a layer's units
_STILL = 0.02  # distance of a layer's weights from where they began, as a share of their length
_LEARNED = 0.05  # of the loss of frequencies: a model that is no better by so much knows nothing else
_FEW_STEPS = 1000
_ENOUGH = 300  # targets of the loss: below, a rise is lost in what single ones weigh


def examine_model(model: Inspected, *, data: SourceLike | None, sample: int, run: RunOptions) -> dict[str, Any]:
    """Examine a transformer; see `doctor`, which says what is given back."""
    with held_out(model, data, sample, run) as text:
        loss = text.loss()
        layers = layer_rises(model.model, text, loss, run.report)
        kinds = model.model.config.kinds
        # the heads of some of the layers alone are not numbered as the layers are
        heads = head_rises(model.model, text, loss, run.report) if not kinds & {"fourier", "ssm"} else {}
        idle = {name: rises <= _NOTHING_HEAD * abs(loss) for name, rises in heads.items()}
        n_idle = int(sum(some.sum() for some in idle.values()))
        together = rise_without(model.model, text, loss, idle) if n_idle else 0.0
        looked = look_at(model, text, run.report, compare=True) if kinds <= {*SCORED} else None
        units = _dead_units(model, text, run)
        moved, start = _moved(model, run)
        found: dict[str, Any] = {
            "path": model.path, "kind": "model", "architecture": model.model.config.architecture,
            "task": model.facts.get("task"), "data": text.where, "split": text.split, "objective": text.what,
            "counts": {
                "targets": text.n_targets, "positions": text.n_positions, "left_out": text.left_out,
                "sequences": len(text.sequences), "parameters": sum(one.numel() for one in model.model.parameters()),
                "steps": model.settings.get("steps"),
            },
            "metrics": {"loss": loss, "unigram_entropy": model.facts.get("unigram_entropy")},
            "layers": [
                {
                    "stack": name, "layer": layer, "rise": float(rise), "moved": moved.get(f"{name}.{layer}"),
                    "dead_units": units[name, layer],
                }
                for name, rises in layers.items() for layer, rise in enumerate(rises)
            ],
            "embedding_moved": moved.get("embedding"), "start": start,
            "heads": {name: np.round(rises, 6).tolist() for name, rises in heads.items()},
            "names": {} if looked is None else looked.names(),
            "idle_heads": {name: np.argwhere(some).tolist() for name, some in idle.items()},
            "idle_together": together,
            "alike_heads": {} if looked is None else {
                name: [[divmod(one, model.model.config.n_heads) for one in group] for group in alike_groups(some, _ALIKE)]
                for name, some in looked.distances.items()
            },
        }  # fmt: skip
    return found | {"findings": list(findings(found))}


def findings(found: dict[str, Any]) -> Iterator[dict[str, str]]:
    """What is not healthy of the figures (name, state, says), and what would mend it (mend)."""
    loss, entropy, steps = found["metrics"]["loss"], found["metrics"]["unigram_entropy"], found["counts"]["steps"]
    learned = found["task"] is not None or not entropy or loss <= entropy * (1 - _LEARNED)
    if not learned:
        more = "more --steps" if not steps or steps < _FEW_STEPS else "more --steps, another --lr or more text"
        says = f"it knows next to nothing but how frequent each token is ({loss:.2f} against {entropy:.2f})"
        yield _finding(
            "loss", "sick", says, f"{more}; `wordpipe plot {shlex.quote(found['path'])}` shows whether it still falls"
        )
    still = [one for one in found["layers"] if one["moved"] is not None and one["moved"] < _STILL]
    if still:
        says = f"{_named(still)} hardly left where training began (by less than {_STILL:.0%})"
        mend = "more --steps or a higher --lr"
        yield _finding("weights", "sick" if len(still) == len(found["layers"]) else "weak", says, mend)
    if not learned:  # then no layer and no head brings anything, and more training mends them all
        return
    if found["counts"]["targets"] < _ENOUGH:
        says = (
            f"the loss is of {found['counts']['targets']:,} targets: too few to say what single layers and heads bring"
        )
        yield _finding("sample", "unknown", says, "name more text with --data, or a larger --sample")
        return
    idle = [one for one in found["layers"] if one["rise"] <= _NOTHING_LAYER * abs(loss)]
    if idle:
        says = f"{_named(idle)} could be left out: the loss would not rise"
        fewer = len(found["layers"]) - len(idle)
        mend = f"more --steps; or fewer layers (--set n_layers={max(1, fewer)}), which train faster for the same loss"
        if found["task"] is not None:
            mend = "more --epochs; or a start of fewer layers (--init), which trains faster for the same loss"
        yield _finding("layers", "sick" if 2 * len(idle) >= len(found["layers"]) else "weak", says, mend)
    n_heads = sum(len(row) for rows in found["heads"].values() for row in rows)
    n_idle = sum(len(some) for some in found["idle_heads"].values())
    if 4 * n_idle >= n_heads and n_idle:
        alone = found["idle_together"] <= _NOTHING_LAYER * abs(loss)
        rise = f"{found['idle_together']:+.3f}"
        says = f"{n_idle} of {n_heads} heads can be switched off one at a time; without all of them the loss changes by {rise}"
        mend = "fewer, wider heads (--set n_heads=N)" if alone else "nothing: they do each other's work"
        yield _finding("heads", "weak" if alone else "healthy", says, mend)
    alike = sum(len(group) for groups in found["alike_heads"].values() for group in groups)
    if 2 * alike >= n_heads and alike:
        says = f"{alike} of {n_heads} heads look at the same as another one"
        yield _finding("alike", "weak", says, "more --steps: heads part late; or fewer heads (--set n_heads=N)")
    dead = [one for one in found["layers"] if one["dead_units"] > _DEAD_SHARE]
    if dead:
        worst = max(one["dead_units"] for one in dead)
        says = f"in {_named(dead)} up to {worst:.0%} of the feed-forward's units say the same of every token"
        yield _finding(
            "units", "weak", says, "a lower --lr, or a longer --warmup; or a narrower feed-forward (--set ffn_dim=N)"
        )


def _finding(name: str, state: str, says: str, mend: str) -> dict[str, str]:
    return {"name": name, "state": state, "says": says, "mend": mend}


def _named(layers: list[dict[str, Any]]) -> str:
    """The layers, counted from 1; of both stacks with their name."""
    stacks = dict.fromkeys(one["stack"] for one in layers)
    parts = []
    for stack in stacks:
        numbers = [str(one["layer"] + 1) for one in layers if one["stack"] == stack]
        which = f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {', '.join(numbers)}"
        parts.append(which if len(stacks) == 1 else f"{which} of the {stack}")
    return " and ".join(parts)


# ---- units


def _dead_units(model: Inspected, text: HeldOut, run: RunOptions) -> dict[tuple[str, int], float]:
    """The share of dead units of each feed-forward.

    A unit is dead that says the same of every token: what it gives varies, over the text, by less than a hundredth of what the
    median unit of its layer does. (Of ReLU that is a unit that never fires; gated units and GELU never give exactly 0.)
    """
    from wordpipe.model import feedforwards_observed

    sums: dict[tuple[str, int], list[Any]] = {}

    def take(name: str, layer: int, inner: "torch.Tensor") -> None:
        inner_NF = inner.detach().flatten(0, -2).double()
        held = sums.setdefault((name, layer), [0, 0.0, 0.0])
        held[0] += len(inner_NF)
        held[1] = held[1] + inner_NF.sum(0).numpy()
        held[2] = held[2] + inner_NF.square().sum(0).numpy()

    run.report(Progress("looking at units"))
    with feedforwards_observed(model.model, take):
        text.loss()
    found = {}
    for place, (n, total_F, squares_F) in sums.items():
        deviation_F = np.sqrt(np.maximum(squares_F / n - (total_F / n) ** 2, 0.0))
        median = float(np.median(deviation_F))
        found[place] = float((deviation_F <= _DEAD_UNIT * median).mean()) if median > 0 else 1.0
    return found


# ---- weights


def _moved(model: Inspected, run: RunOptions) -> tuple[dict[str, float], str]:
    """How far weights are from where they began, as a share of their length then; and what that was.

    Layers by `STACK.NUMBER`, and the embeddings; nothing where the start is not known.

    Returns:
        moved and the start: fresh (the same seed gives it again), the path of the model that it began from, or "".
    """
    run.report(Progress("comparing with the start"))
    start, name = _start(model)
    if start is None:
        return {}, ""
    groups: dict[str, list[tuple[float, float]]] = {}
    before = dict(start.named_parameters())
    for key, weight in model.model.named_parameters():
        if key not in before or before[key].shape != weight.shape or weight.ndim < 2:
            continue
        if ".attention.mixer." in key:
            continue  # rates and waves of state spaces, which begin spread out and long, and need not go far
        # matrices alone: norms begin at 1 and offsets at 0, whose lengths say nothing
        difference = float((weight.detach() - before[key].detach()).double().norm())
        groups.setdefault(_group(key, model), []).append(
            (difference**2, float(before[key].detach().double().norm()) ** 2)
        )
    return {
        group: float(np.sqrt(sum(a for a, _ in some) / max(sum(b for _, b in some), 1e-30)))
        for group, some in groups.items() if group
    }, name  # fmt: skip


def _group(name: str, model: Inspected) -> str:
    """Where a weight belongs: `encoder.0`, `embedding`, or "" for what is neither."""
    parts = name.split(".")
    if "blocks" in parts:
        stack = parts[0] if parts[0] in ("encoder", "decoder") else model.model.config.architecture
        return f"{stack}.{parts[parts.index('blocks') + 1]}"
    return "embedding" if parts[-1] == "embedding" else ""


def _start(model: Inspected) -> "tuple[Transformer | None, str]":
    """The model before its first step: fresh weights of the same seed, or what it was trained from."""
    from wordpipe.model import new_encoder_decoder, new_model

    settings, config = model.settings, model.model.config
    if "model" in model.made_of:
        found = next((path for kind, path in model.inputs if kind == "model"), None)
        return (None, "") if found is None else (inspect_model(found, verify=False).model, str(found))
    began_fresh = (
        model.command.startswith("train ") and "tokens" in model.made_of and {*model.made_of} <= {"tokens", "corpus"}
    )
    if not began_fresh or not isinstance(seed := settings.get("seed"), int):
        return None, ""
    fresh = new_encoder_decoder if config.architecture == "encoder-decoder" else new_model
    return fresh(config, seed), "fresh"
