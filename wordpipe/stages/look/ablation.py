"""Heads and layers switched off one at a time, and how much the loss rises; heads looked at over many sequences.

The rise of the loss is what a part is worth to the model as it is: a part whose work another one does too is worth little, and
with both gone the loss may rise far. So the parts that bring nothing one by one are switched off together as well.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 3 (one head at a time).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import HeadLooks, head_distances, name_head
from wordpipe.runtime import Progress, Report
from wordpipe.stages.evaluate.held_out import HeldOut
from wordpipe.stages.inspected import Inspected

if TYPE_CHECKING:
    from wordpipe.model import Transformer

Floats = npt.NDArray[np.float64]

_COMPARED = 1 << 29  # pairs of weights, some 10 s


def head_rises(model: "Transformer", sample: HeldOut, before: float, report: Report) -> dict[str, Floats]:
    """How much the loss rises when a head is switched off, kind of attention → (L, H).

    Args:
        model: as it is.
        sample: what the loss is of.
        before: the loss with all heads.
        report: progress.
    """
    from wordpipe.model import attention_of, heads_off

    n_heads = model.config.n_heads
    layers = {name: len(some) for name, some in attention_of(model).items()}
    total, done, found = sum(layers.values()) * n_heads, 0, dict[str, Floats]()
    for name, n_layers in layers.items():
        found[name] = np.zeros((n_layers, n_heads))
        for layer in range(n_layers):
            for head in range(n_heads):
                report(Progress("switching heads off", done, total, "heads"))
                kept = np.ones((n_layers, n_heads))
                kept[layer, head] = 0.0
                with heads_off(model, {name: kept}):
                    found[name][layer, head] = sample.loss() - before
                done += 1
    report(Progress("switching heads off", total, total, "heads"))
    return found


def rise_without(
    model: "Transformer", sample: HeldOut, before: float, off: Mapping[str, npt.NDArray[np.bool_]]
) -> float:
    """The rise of the loss when all of some heads are switched off at once; kind of attention → (L, H), true where off."""
    from wordpipe.model import heads_off

    with heads_off(model, {name: np.where(some, 0.0, 1.0) for name, some in off.items()}):
        return sample.loss() - before


def layer_rises(model: "Transformer", sample: HeldOut, before: float, report: Report) -> dict[str, Floats]:
    """The same of layers left out, their input going on: encoder, decoder → (L,)."""
    from wordpipe.model import layer_off, layers_of

    layers = layers_of(model)
    total, done, found = sum(layers.values()), 0, dict[str, Floats]()
    for name, n_layers in layers.items():
        found[name] = np.zeros(n_layers)
        for layer in range(n_layers):
            report(Progress("leaving layers out", done, total, "layers"))
            with layer_off(model, name, layer):
                found[name][layer] = sample.loss() - before
            done += 1
    report(Progress("leaving layers out", total, total, "layers"))
    return found


class Looked:
    """The heads of a model over some sequences.

    Attributes:
        distances: kind of attention → (L·H, L·H), the mean distance of each two heads; empty unless wanted.
        n_sequences: that were looked at.
        n_compared: of these, on which heads were compared with each other.
    """

    def __init__(self, model: Inspected, *, compare: bool = False) -> None:
        self._model, self._room = model, _COMPARED if compare else 0
        self._looks: dict[str, HeadLooks] = {}
        self._distances: dict[str, Floats] = {}
        self.n_sequences = self.n_compared = 0

    def add(self, ids: npt.NDArray[Any], target: npt.NDArray[Any] | None, segments: npt.NDArray[Any] | None) -> None:
        """One more sequence; see `attend_exactly`."""
        from wordpipe.model import attend_exactly

        work = 0
        found = attend_exactly(self._model.model, ids, target_ids=target, segments_T=segments)
        for name, maps in found.maps.items():
            keys = target if name == "decoder" and target is not None else ids
            self._looks.setdefault(name, HeadLooks()).add(maps.weights, self._model.separators(keys))
            n_heads = maps.weights.shape[0] * maps.weights.shape[1]
            if self._room > 0:  # of large models a few sequences must do
                distances = head_distances(maps.weights.reshape(-1, *maps.weights.shape[2:]))
                self._distances[name] = self._distances.get(name, np.zeros_like(distances)) + distances
                work += n_heads**2 * maps.weights.shape[2] * maps.weights.shape[3]
        self.n_sequences += 1
        self.n_compared += self._room > 0
        self._room -= work

    @property
    def distances(self) -> dict[str, Floats]:
        """See above."""
        return {name: total / max(1, self.n_compared) for name, total in self._distances.items()}

    def shares(self) -> dict[str, dict[str, Any]]:
        """Kind of attention → look → (L, H), the mean weight that goes there."""
        return {name: looks.shares() for name, looks in self._looks.items()}

    def names(self) -> dict[str, list[list[str]]]:
        """Kind of attention → layers → heads → name."""
        found = {}
        for kind, shares in self.shares().items():
            n_layers, n_heads = shares["spread"].shape
            found[kind] = [
                [
                    name_head({name: float(some[layer, head]) for name, some in shares.items()})
                    for head in range(n_heads)
                ]
                for layer in range(n_layers)
            ]
        return found


def look_at(model: Inspected, sample: HeldOut, report: Report, *, compare: bool = False) -> Looked:
    """The heads over the sequences of a sample."""
    looked = Looked(model, compare=compare)
    for number, one in enumerate(sample.sequences):
        report(Progress("looking at heads", number, len(sample.sequences), "sequences"))
        looked.add(one.ids, one.target, one.segments)
    return looked
