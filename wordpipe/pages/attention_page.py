"""The page of a model's attention in one text: arrays in, one self-contained file out.

As with the map of words, nothing is fetched, only the page's own script can run, and every token is data. Weights travel as
one byte each, in base64: 36 heads over 40 tokens are 77 kB so, and 520 kB as numbers of six digits. Norms are shares of their
row, scaled by the largest of the head. So the page's figures are right to 0.002; `--json` has six digits. The page is put
together from the files in `attention/`.

Of the libraries that draw, none that is kept fits: a page with Plotly takes 4.5 MB and with Bokeh about as much, BertViz
(1.4.1) fetches d3 and jQuery from a network, and pictures of Matplotlib answer no pointer.

Shapes: L layers, H heads, T queries, S keys.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import name_head, rollout
from wordpipe.pages.markup import json_for_script, page_of

Floats = npt.NDArray[np.floating[Any]]

_SCRIPTS = ("data", "grid", "lines", "matrix", "main")
_CAUTION = (
    "Attention weights do not explain an answer. Other weights can give the same answer, and the weights often disagree with "
    "the effects of changes to the input (Jain & Wallace 2019, arXiv 1902.10186). The option --importance measures how much "
    "the loss rises without a head."
)


@dataclass(frozen=True)
class ShownTokens:
    """Tokens of one side.

    Attributes:
        shown: what each stands for.
        number: of the word of each, from 0.
        words: what each word stands for.
    """

    shown: Sequence[str]
    number: Sequence[int]
    words: Sequence[str]


@dataclass(frozen=True)
class ShownStack:
    """One kind of attention.

    Attributes:
        name: encoder, decoder or cross.
        rows, columns: names of the sides, among `AttentionView.tokens`.
        weights: (L, H, T, S).
        norms: (L, H, T, S), of any scale.
        shares: look → (L, H), see `HeadLooks`.
        importance: (L, H), the rise of the loss without each head; None: not measured.
    """

    name: str
    rows: str
    columns: str
    weights: Floats
    norms: Floats
    shares: Mapping[str, Floats]
    importance: Floats | None = None

    @property
    def rollout(self) -> Floats | None:
        """(L, T, T), where queries and keys are the same positions."""
        return rollout(self.weights) if self.rows == self.columns else None

    @property
    def names(self) -> list[list[str]]:
        """Return the name of each head in each layer for the page of attention."""
        n_layers, n_heads = self.weights.shape[:2]
        return [
            [
                name_head({name: float(some[layer, head]) for name, some in self.shares.items()})
                for head in range(n_heads)
            ]
            for layer in range(n_layers)
        ]


@dataclass(frozen=True)
class AttentionView:
    """The contents of a page of attention.

    Attributes:
        title: of the page.
        text: what was read.
        said: what the model made of it; empty: nothing.
        figures: shape of the model and what was left out, in words.
        tokens: name of a side → its tokens.
        stacks: the kinds of attention.
        over: what heads were named by: "over this text".
        loss: what importance is the loss of; empty: it was not measured.
    """

    title: str
    text: str
    said: str
    figures: str
    tokens: Mapping[str, ShownTokens]
    stacks: Sequence[ShownStack]
    over: str
    loss: str = ""


def draw_attention(view: AttentionView) -> bytes:
    """Return the page of attention, UTF-8. The same view gives the same bytes."""
    fills = {
        "title": escape(view.title),
        "text": escape(view.text),
        "said": escape(view.said),
        "figures": escape(view.figures),
        "caution": escape(_CAUTION),
        "data": json_for_script(_data(view)),
    }
    return page_of("attention", fills, _SCRIPTS)


def _data(view: AttentionView) -> dict[str, Any]:
    """Return the data that the script of the page of attention reads; see attention/data.js."""
    return {
        "tokens": {
            name: {"shown": list(one.shown), "number": list(one.number), "words": list(one.words)}
            for name, one in view.tokens.items()
        },
        "stacks": [_stack_data(one) for one in view.stacks],
        "over": view.over,
        "loss": view.loss,
        "first": list(_most_telling(view.stacks[0])),
    }


def _stack_data(stack: ShownStack) -> dict[str, Any]:
    """Return the data of one kind of attention that the script of the page reads."""
    shares = stack.norms / np.maximum(stack.norms.sum(axis=-1, keepdims=True), 1e-30)
    scales = np.maximum(shares.max(axis=(2, 3)), 1e-6)
    rolled = stack.rollout
    return {
        "name": stack.name,
        "rows": stack.rows,
        "columns": stack.columns,
        "layers": stack.weights.shape[0],
        "heads": stack.weights.shape[1],
        "weights": _bytes(stack.weights),
        "norms": _bytes(shares / scales[:, :, None, None]),
        "scales": np.round(scales, 6).tolist(),
        "rollout": None if rolled is None else _bytes(rolled),
        "names": stack.names,
        "shares": {name: np.round(some, 4).tolist() for name, some in stack.shares.items()},
        "importance": None if stack.importance is None else np.round(stack.importance, 6).tolist(),
    }


def _most_telling(stack: ShownStack) -> tuple[int, int]:
    """Return the layer and head that the page opens with: the most important one, else the one with the clearest pattern."""
    figures = -stack.shares["spread"] if stack.importance is None else stack.importance
    layer, head = np.unravel_index(int(np.argmax(figures)), figures.shape)
    return int(layer), int(head)


def _bytes(values: Floats) -> str:
    """Encode weights from 0 to 1 as bytes in base64."""
    return b64encode(np.rint(np.clip(values, 0.0, 1.0) * 255.0).astype(np.uint8).tobytes()).decode()
