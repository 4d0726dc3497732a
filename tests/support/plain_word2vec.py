"""word2vec as plainly as it can be written: the slow twin of the native kernel."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wordpipe.words.kernels.draws_and_huffman import Noise, Tree
from wordpipe.words.kernels.simd import WIDE
from wordpipe.words.kernels.skipgram_cbow import LINES

_MASK = 2**64 - 1

Floats = npt.NDArray[np.float64]


def mixed(key: int, counter: int) -> int:
    """SplitMix64."""
    bits = (key + counter * 0x9E3779B97F4A7C15) & _MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


@dataclass
class Plain:
    """A training of a text of (row, is it the first of its text), word by word, in float64."""

    text: list[tuple[int, bool]]
    keys: tuple[int, int, int]
    keep: npt.NDArray[np.uint32]
    noise: Noise
    skipgram: bool = True
    window: int = 3
    dynamic: bool = True
    negatives: int = 4
    loss: str = "ns"
    tree: Tree | None = None
    parts: dict[int, list[int]] = field(default_factory=dict)

    def windows(self, begin: int, end: int) -> list[tuple[int, int, list[int]]]:
        """(place, centre, context rows), the nearest to the left first, then those to the right."""
        drawn = [mixed(self.keys[0], place) & 0xFFFFFFFF for place in range(len(self.text))]
        kept = [place for place, (row, _) in enumerate(self.text) if drawn[place] <= self.keep[row]]
        texts = np.cumsum([first for _, first in self.text])
        found = []
        for at, place in enumerate(kept):
            reach = 1 + ((mixed(self.keys[1], place) >> 32) * self.window >> 32) if self.dynamic else self.window
            left = [kept[i] for i in range(at - 1, max(at - reach, 0) - 1, -1)]
            near = [*left, *kept[at + 1 : at + 1 + reach]]
            context = [self.text[other][0] for other in near if texts[other] == texts[place]]
            if begin <= place < end and context:
                found.append((place, self.text[place][0], context))
        return found

    def columns(self, place: int, target: int, n_outputs: int) -> tuple[list[int], list[float], list[float]]:
        """Output rows, their signs, and how often each counts."""
        if self.loss == "hs":
            assert self.tree is not None
            part = slice(*self.tree.path_starts[target : target + 2])
            nodes = self.tree.path_nodes[part].tolist()
            return nodes, self.tree.path_signs[part].tolist(), [1.0] * len(nodes)
        drawn: dict[int, float] = {}
        for draw in range(self.negatives):
            bits = mixed(self.keys[2], place * self.negatives + draw)
            cell = (bits >> 32) * len(self.noise.limits) >> 32
            row = cell if bits & 0xFFFFFFFF < self.noise.limits[cell] else int(self.noise.others[cell])
            if row != target:
                drawn[row] = drawn.get(row, 0.0) + 1
        return [target, *drawn], [1.0, *[-1.0] * len(drawn)], [1.0, *drawn.values()]

    def vector(self, row: int, inputs: Floats, grams: Floats) -> Floats:
        """What a word's vector is made of."""
        return np.mean([inputs[row], *(grams[part] for part in self.parts.get(row, []))], axis=0)

    def window_loss(self, window: tuple[int, int, list[int]], inputs: Floats, outputs: Floats, grams: Floats) -> float:
        """The loss of one window, nats."""
        place, target, context = window
        vectors = [self.vector(row, inputs, grams) for row in context]
        lines = vectors if self.skipgram else [np.mean(vectors, axis=0)]
        if self.loss == "softmax":
            scores = np.array(lines) @ outputs.T
            return float(np.sum(np.log(np.exp(scores).sum(axis=1)) - scores[:, target]))
        rows, signs, counts = self.columns(place, target, len(outputs))
        return float(sum(
            count * np.logaddexp(0, -sign * (line @ outputs[row]))
            for line in lines for row, sign, count in zip(rows, signs, counts, strict=True)
        ))  # fmt: skip

    def train(
        self, begin: int, end: int, lr: tuple[float, float], inputs: Floats, outputs: Floats, grams: Floats
    ) -> tuple[float, int]:
        """Train in place, window after window; returns the sum of losses and the number of predictions."""
        loss, predictions = 0.0, 0
        size = LINES if self.skipgram else 2 * self.window
        parts = [
            (place, target, whole[first : first + size])
            for place, target, whole in self.windows(begin, end)
            for first in range(0, len(whole), size)
        ]
        for window in parts:
            place, target, context = window
            rate = lr[0] + (lr[1] - lr[0]) * (place - begin) / (end - begin)
            loss += self.window_loss(window, inputs, outputs, grams)
            vectors = np.array([self.vector(row, inputs, grams) for row in context])
            lines = vectors if self.skipgram else vectors.mean(axis=0, keepdims=True)
            predictions += len(lines)
            if self.loss == "softmax":
                rows = list(range(len(outputs)))
                scores = np.exp(lines @ outputs.T)
                weights = -rate * scores / scores.sum(axis=1, keepdims=True)
                weights[:, target] += rate
            else:
                rows, signs, counts = self.columns(place, target, len(outputs))
                scores = lines @ outputs[rows].T
                weights = rate * np.array(counts) * np.array(signs) / (1 + np.exp(np.array(signs) * scores))
            before = outputs[rows].copy()
            change = weights @ before
            if not self._in_place(len(outputs)):
                outputs[rows] += weights.T @ lines
            for number, row in enumerate(context):
                if self._in_place(
                    len(outputs)
                ):  # a word that stands twice in the window is seen as the first time left it
                    outputs[rows] += np.outer(weights[number], self.vector(row, inputs, grams))
                for array, which in [(inputs, row), *((grams, part) for part in self.parts.get(row, []))]:
                    array[which] += change[number if self.skipgram else 0]
        return loss, predictions

    def _in_place(self, n_outputs: int) -> bool:
        """Whether the kernel changes the words of a window one after the other, as it does where few columns need no sums."""
        assert self.tree is not None
        most = {"ns": 1 + self.negatives, "hs": int(np.diff(self.tree.path_starts).max()), "softmax": n_outputs}[
            self.loss
        ]
        return self.skipgram and most <= WIDE
