"""The health of a trained transformer: its loss, weights that did not move, dead units, and advice.

Everything is measured on one bounded sample of text.

    loss        beside that of knowing frequencies alone
    weights     how far those of a layer are from where they began
    units       of the feed-forwards, which vary by next to nothing over the text
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import Evaluation, Part, Table, written
from wordpipe.runtime import Progress
from wordpipe.stages.evaluate.held_out import HeldOut, held_out
from wordpipe.stages.inspected_models import Inspected, inspect_model
from wordpipe.stages.job import RunOptions
from wordpipe.stages.sources import SourceLike
from wordpipe.wording import counted

if TYPE_CHECKING:
    import torch

    from wordpipe.model import Transformer

Floats = npt.NDArray[np.float64]

_DEAD_UNIT = 0.01  # deviation of a unit as a share of its layer's median
_DEAD_SHARE = 0.2  # of a layer's units
_STILL = 0.02  # distance of a layer's weights from where they began, as a share of their length
_LEARNED = 0.05  # of the loss of frequencies: a model that is no better by so much knows nothing else
_FEW_STEPS = 1000
_MEANINGS = {
    "loss": {"what": "loss", "means": "how badly the model guesses held-out tokens, in nats for each: lower is better",
             "healthy": "well below that of token frequencies alone"},
    "unigram_entropy": {"what": "loss by frequencies",
                        "means": "the loss of a model that knows only token frequencies", "healthy": ""},
}  # fmt: skip
_GAP = " " * 9  # below a state
_STARTS = {"fresh": "the random weights before training", "": ""}


def examine_model(model: Inspected, *, data: SourceLike | None, sample: int, run: RunOptions) -> Evaluation:
    """Examine the health of a transformer; see `doctor`, which says what is given back."""
    with held_out(model, data, sample, run) as text:
        loss, units = None if text.no_loss else text.loss(), _dead_units(model, text, run)
        moved, start = _weights_moved(model, run)
        found: dict[str, Any] = {
            "path": model.path, "kind": "model", "architecture": model.model.config.architecture,
            "task": model.facts.get("task"), "data": text.where, "split": text.split, "objective": text.what,
            "counts": {
                "targets": text.n_targets, "positions": text.n_positions, "left_out": text.left_out,
                "sequences": len(text.sequences),
                "parameters": sum(one.numel() for one in model.model.parameters()), "steps": model.settings.get("steps"),
            },
            "metrics": {"loss": loss, "unigram_entropy": model.facts.get("unigram_entropy")},
            "layers": [
                {"stack": stack, "layer": layer, "moved": moved.get(f"{stack}.{layer}"), "dead_units": share}
                for (stack, layer), share in sorted(units.items(), key=lambda one: (one[0][0] != "encoder", one[0]))
            ],
            "embedding_moved": moved.get("embedding"), "start": start, "meanings": _MEANINGS,
        }  # fmt: skip
    found["findings"] = [*findings(found)]
    return Evaluation(found, parts=[*_parts(found, "" if text.no_loss is None else text.no_loss.what)])


def findings(found: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what is sick in a model: name, state, says, and mend, the next step."""
    loss, entropy, steps = found["metrics"]["loss"], found["metrics"]["unigram_entropy"], found["counts"]["steps"]
    learned = found["task"] is not None or not entropy or loss is None or loss <= entropy * (1 - _LEARNED)
    if not learned:
        more = "more --steps" if not steps or steps < _FEW_STEPS else "more --steps, another --lr or more text"
        against = f"loss {loss:.2f}; {entropy:.2f} by token frequencies alone"
        says = f"the model has learned little more than the frequency of each token ({against})"
        plot = f"`wordpipe plot {shlex.quote(found['path'])}` shows whether the loss still falls"
        yield _finding("loss", "sick", says, f"{more}; {plot}")
    # layers whose weights did not move
    still = [one for one in found["layers"] if one["moved"] is not None and one["moved"] < _STILL]
    if still:
        says = f"the weights of {_layer_names(still)} changed very little in training (by less than {_STILL:.0%})"
        state = "sick" if len(still) == len(found["layers"]) else "weak"
        yield _finding("weights", state, says, "more --steps or a higher --lr")
    # dead units, of a model that has learned something
    dead = [one for one in found["layers"] if one["dead_units"] > _DEAD_SHARE]
    if dead and learned:  # else more training mends them too
        worst = max(one["dead_units"] for one in dead)
        says = (
            f"in {_layer_names(dead)}, up to {worst:.0%} of the feed-forward units give the same output for every token"
        )
        mend = "a lower --lr, a longer --warmup, or a narrower feed-forward layer (--set ffn_dim=N)"
        yield _finding("units", "weak", says, mend)


def _finding(name: str, state: str, says: str, mend: str) -> dict[str, str]:
    return {"name": name, "state": state, "says": says, "mend": mend}


def _layer_names(layers: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of the model's layers, counted from 1; of both stacks with their name."""
    stacks = dict.fromkeys(one["stack"] for one in layers)
    parts = []
    for stack in stacks:
        numbers = [str(one["layer"] + 1) for one in layers if one["stack"] == stack]
        which = f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {', '.join(numbers)}"
        parts.append(which if len(stacks) == 1 else f"{which} of the {stack}")
    return " and ".join(parts)


# ---- for people


def _parts(found: Mapping[str, Any], no_loss: str) -> Iterator[Part]:
    """Return what the doctor of models prints: the loss, a table of layers, and the findings."""
    # on how much text, and the loss
    counts, entropy = found["counts"], found["metrics"]["unigram_entropy"]
    yield (
        f"{found['task'] or found['architecture']} of {counts['parameters'] / 1e6:.1f}M weights, measured on "
        f"{counted(counts['targets'], found['objective'])} of {found['data']}"
        + ("" if found["split"] is None else f", {found['split']}")
    )
    knowing = "" if entropy is None else f"; a model that knows only token frequencies has {entropy:.3f}"
    yield (
        f"loss     not measured: {no_loss}"
        if no_loss
        else f"loss     {found['metrics']['loss']:.3f} (lower is better{knowing})"
    )
    if counts["left_out"]:
        yield f"{_GAP}{counted(counts['left_out'], 'records')} with labels that the model does not know were left out"
    # a row for each layer
    several = len({one["stack"] for one in found["layers"]}) > 1
    rows = [
        (f"{one['stack']} {one['layer'] + 1}" if several else str(one["layer"] + 1),
         [None if one["moved"] is None else written(one["moved"], "{:.0%}"), written(one["dead_units"], "{:.1%}")])
        for one in found["layers"]
    ]  # fmt: skip
    start = found["start"]
    yield Table(("moved" if start in _STARTS else "moved from start", "dead units"), rows, "layer")
    if start:
        said = _STARTS.get(start, f"the weights of {start}")
        yield f"moved    = distance from {said}, divided by the norm of those weights; healthy: {_STILL:.0%} or more"
    dead = "share of feed-forward units that give the same output for every token"
    yield f"dead units = {dead}; healthy: up to {_DEAD_SHARE:.0%}"
    # what is not healthy
    for one in found["findings"]:
        yield f"{one['state']:<8} {one['says']}"
        yield f"{_GAP}fix: {one['mend']}"
    if not found["findings"]:
        yield "There is no serious problem: no change is needed."


# ---- units


def _dead_units(model: Inspected, text: HeldOut, run: RunOptions) -> dict[tuple[str, int], float]:
    """Return the share of dead units of each feed-forward of the model.

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
        text.measure()
    found = {}
    for place, (n, total_F, squares_F) in sums.items():
        deviation_F = np.sqrt(np.maximum(squares_F / n - (total_F / n) ** 2, 0.0))
        median = float(np.median(deviation_F))
        found[place] = float((deviation_F <= _DEAD_UNIT * median).mean()) if median > 0 else 1.0
    return found


# ---- weights


def _weights_moved(model: Inspected, run: RunOptions) -> tuple[dict[str, float], str]:
    """Return how far the model's weights moved from where they began, and the name of that start.

    Layers by `STACK.NUMBER`, and the embeddings; nothing where the start is not known.

    Returns:
        moved and the start: fresh (the same seed gives it again), the path of the model that it began from, or "".
    """
    run.report(Progress("comparing with the start"))
    start, name = _starting_model(model)
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
        groups.setdefault(_weight_group(key, model), []).append(
            (difference**2, float(before[key].detach().double().norm()) ** 2)
        )
    return {
        group: float(np.sqrt(sum(a for a, _ in some) / max(sum(b for _, b in some), 1e-30)))
        for group, some in groups.items() if group
    }, name  # fmt: skip


def _weight_group(name: str, model: Inspected) -> str:
    """Return the group of a model's weight: `encoder.0`, `embedding`, or "" for all others."""
    parts = name.split(".")
    if "blocks" in parts:
        stack = parts[0] if parts[0] in ("encoder", "decoder") else model.model.config.architecture
        return f"{stack}.{parts[parts.index('blocks') + 1]}"
    return "embedding" if parts[-1] == "embedding" else ""


def _starting_model(model: Inspected) -> "tuple[Transformer | None, str]":
    """Return the model before its first step: fresh weights of the same seed, or what it was trained from."""
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
