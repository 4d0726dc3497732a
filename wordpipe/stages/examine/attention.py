"""`wordpipe attention`: the attention of a model in a text, in every layer and head, as one page or as numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import atomic_file
from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics import HeadLooks, join_words
from wordpipe.pages import AttentionView, ShownStack, ShownTokens, draw_attention
from wordpipe.runtime import Progress, Report
from wordpipe.stages.examine.map import check_page
from wordpipe.stages.inspected_models import Inspected, TokenRow, inspect_model
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import printable, public
from wordpipe.stages.sources import SourceLike

if TYPE_CHECKING:
    from wordpipe.model import Attended, Transformer
    from wordpipe.stages.evaluate.held_out import HeldOut

Floats = npt.NDArray[np.float64]

_MOST_CELLS = 1 << 21  # weights of a page: 2 MiB, with norms and base64 5.6 MB
_MOST_LABELS = 5  # of a prediction
_DIGITS = 6


@public()
def attention(
    model: PathLike,
    text: str,
    second: str | None = None,
    *,
    output: PathLike | None = None,
    data: SourceLike | None = None,
    importance: bool = False,
    sample: int = 10_000,
    replace: bool = True,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Look at the attention of a model in a text: all weights of all heads, computed exactly, and where each head looks.

    Args:
        model: a model artifact, also one with a head, or a folder of transformers.
        text: to be read; of an encoder-decoder the source.
        second: the second text of a pair; of an encoder-decoder the target text, else it writes its own.
        output: an HTML file to write, which needs no other files; None: no file.
        data: a corpus artifact or text, over which heads are named; None: heads are named over `text` alone.
        importance: measure how much the loss on `data` rises when each head is switched off.
        sample: number of tokens of `data` to read, about.
        replace: false refuses to replace a file.
        run: progress, verification.

    Returns:
        path (of the page or None), bytes, model, architecture, said (what the model made of the text), tokens (side → shown,
        number: the word of each, words), stacks (list of name, rows and columns: sides, weights, norms: ‖α f(v)‖, words:
        the weights of words, rollout: None of cross-attention, names, shares, importance), over, loss (what importance is the
        rise of, before; else None), cut (tokens that the model had no room for), notes.

        Weights (layers, heads, queries, keys) are rounded to six digits.

    Raises:
        ConfigError: linear attention, which has no weights; importance without data; or the output is no page.
        InputError: a blank text, or one with more tokens than fit a page.
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> found = wordpipe.attention("run/model", "bees find their way", output="attention.html")
        >>> found["stacks"][0]["name"], found["tokens"]["text"]["words"][1]
        ('encoder', 'bees')
    """
    run = run or RunOptions()
    if importance and data is None:
        raise ConfigError("importance needs a text to measure the loss on", where="data", hint="add --data CORPUS")
    target = None if output is None else Path(output)
    if target is not None:
        check_page(target, "page", replace=replace)
    # The text as the model reads it, and what it says of it.
    with storage_errors(target):
        opened = inspect_model(model, verify=run.verify)
        notes = list(opened.notes)
        run.report(Progress("reading the text"))
        given = printable(text), None if second is None else printable(second)
        rows, written = _read_sides(opened, *given, notes)
        said = _answer_in_words(opened, *given, rows, written)
        # The weights of attention in this text, the names of heads, the figures.
        attended = _attend(opened, rows)
        view, loss, over = _page_view(
            opened, rows, attended, text, second, said, data, sample, run, importance=importance
        )
        found = _view_as_numbers(opened, view, rows, loss, over, notes)
        # Notes for the user, and the page.
        for note in notes:
            run.report(Progress("note", note=note))
        if target is not None:
            page = draw_attention(view)
            with atomic_file(target) as file:
                file.write(page)
            found |= {"path": str(target), "bytes": len(page)}
    return found


@dataclass(frozen=True)
class AttendedText:
    """A text as a model read it, and all weights of its attention.

    Attributes:
        rows: side (text; or source and target) → its tokens.
        maps: kind (encoder, decoder, cross) → weights (L, H, T, S) float32, whose rows sum to 1.
        notes: what was left out.
    """

    rows: Mapping[str, TokenRow]
    maps: Mapping[str, npt.NDArray[np.float32]]
    notes: tuple[str, ...]

    def sides(self, kind: str) -> tuple[TokenRow, TokenRow]:
        """Return the tokens that attend (rows of the weights) and the tokens that are attended to (columns)."""
        queries, keys = _SIDES[kind] if "target" in self.rows else ("text", "text")
        return self.rows[queries], self.rows[keys]

    def weights(self, kind: str, layer: int, head: int | None) -> npt.NDArray[np.float64]:
        """The weights (T, S) of one head of a layer, numbered from 0, or the mean of its heads; of six digits, as `--json`."""
        heads = self.maps[kind][layer].astype(np.float64)
        found: npt.NDArray[np.float64] = np.round(heads.mean(axis=0) if head is None else heads[head], _DIGITS)
        return found


def attend_in(model: Inspected, text: str, second: str | None = None) -> AttendedText:
    """Return all attention weights of an open model in one text: the numbers of `attention`, without a page.

    Args:
        model: see `inspected_of`; no other thread may use it meanwhile.
        text: to be read; of an encoder-decoder the source.
        second: as in `attention`.

    Raises:
        ConfigError: a model without weights.
        InputError: a blank text, or one with more tokens than fit a page.
    """
    notes = list[str]()
    rows, _ = _read_sides(model, printable(text), None if second is None else printable(second), notes)
    maps = {kind: one.weights for kind, one in _attend(model, rows).maps.items()}
    return AttendedText(rows, maps, (*model.notes, *notes))


def _read_sides(model: Inspected, text: str, second: str | None, notes: list[str]) -> tuple[dict[str, TokenRow], str]:
    """Return the tokens of each side of the attention, and the target text of an encoder-decoder."""
    written = ""
    if not model.writes_targets:
        rows = {"text": model.read(text, second)}
    else:
        rows, written = {"source": model.read_source(text)}, second if second is not None else _written(model, text)
        rows["target"] = model.read_target(written)
    # Say what was cut; a page has room for so many weights.
    cut = sum(row.cut for row in rows.values())
    if cut:
        notes.append(
            f"the text is too long: the model can read {model.max_len:,} tokens, so {cut:,} tokens were left out"
        )
    # heads × layers × the squares of lengths, over all stacks
    config = model.model.config
    sizes = [len(row.ids) for row in rows.values()]
    cells = config.n_heads * (
        config.n_layers * sizes[0] ** 2 + config.n_decoder_layers * sizes[-1] * (sizes[0] + sizes[-1])
    )
    if cells > _MOST_CELLS:
        raise InputError(
            "the text has more tokens than a page can show", got=f"{sum(sizes):,} tokens, {cells:,} weights",
            expected=f"at most {_MOST_CELLS:,} weights", hint="give a shorter text",
        )  # fmt: skip
    return rows, written


def _answer_in_words(model: Inspected, text: str, second: str | None, rows: dict[str, TokenRow], written: str) -> str:
    """Return the answer of a model to a text, in words; "" for a language model."""
    if model.writes_targets:
        return f"{'writes' if second is None else 'reads'}: {written}" if written.strip() else "writes nothing"
    return "" if model.opened is not None else _prediction(model, text, second, rows["text"])


def _written(model: Inspected, text: str) -> str:
    """Return the target that an encoder-decoder writes, to show its attention."""
    from wordpipe.model.settings import GenerateSettings
    from wordpipe.stages.infer.generate import TargetWriter

    assert model.opened is not None
    (written,) = TargetWriter(model.opened, GenerateSettings.make({"device": model.model.embedding.device.type})).write(
        [text]
    )
    return written.text


def _prediction(model: Inspected, text: str, second: str | None, row: TokenRow) -> str:
    """Return the prediction of a model with a head, in words, beside its attention."""
    from wordpipe.model import HeadedModel

    headed = model.model
    assert isinstance(headed, HeadedModel)
    if headed.head_config.kind == "span":
        return _answer(headed, row)
    from wordpipe.stages.infer.predict import open_predictor

    opened = open_predictor(model.path, device="cpu", verify=False)
    (found,) = opened.predict([text if second is None else (text, second)])
    if headed.head_config.kind == "token":
        spans = [f"{span.label} “{span.text}” ({span.probability:.0%})" for span in found.spans]  # type: ignore[union-attr]
        return "finds: " + (", ".join(spans) or "nothing")
    if found.score is not None:  # type: ignore[union-attr]
        return f"score: {found.score:.4f}"  # type: ignore[union-attr]
    known = sorted(zip(found.probabilities, opened.labels, strict=True), reverse=True)  # type: ignore[union-attr]
    return "predicts: " + ", ".join(f"{label} {share:.1%}" for share, label in known[:_MOST_LABELS])


def _answer(model: Any, row: TokenRow) -> str:
    """Return the answer that a reader finds, beside its attention: the best begin and end."""
    import torch

    ids = torch.from_numpy(row.ids)[None]
    segments = None if row.segments is None else torch.from_numpy(row.segments)[None]
    with torch.inference_mode():
        begins, ends = model.scores(ids, None, segments)[0].float().numpy().T
    pairs = [
        (begins[first] + ends[last], first, last)
        for first in range(len(begins)) for last in range(first, min(first + 30, len(ends)))
        if not row.separators[first : last + 1].any()
    ]  # fmt: skip
    _, first, last = max(pairs)
    words = dict.fromkeys(row.words[first : last + 1])
    return "answers: " + " ".join(row.word_names[word] for word in words)


def _attend(model: Inspected, rows: dict[str, TokenRow]) -> "Attended":
    """Return all weights of attention of a model in a text."""
    from wordpipe.model import attend_exactly

    first = next(iter(rows.values()))
    target = rows["target"].ids if "target" in rows else None
    return attend_exactly(model.model, first.ids, target_ids=target, segments_T=first.segments)


_SIDES = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}


def _page_view(
    model: Inspected, rows: dict[str, TokenRow], attended: "Attended", text: str, second: str | None, said: str,
    data: SourceLike | None, sample: int, run: RunOptions, *, importance: bool,
) -> tuple[AttentionView, dict[str, Any] | None, str]:  # fmt: skip
    """Return the content of the page of attention, and what importance and names are measured on."""
    # Name the heads, over this text or over others; and with importance, switch each off.
    loss, rises, over = None, {}, "over this text"
    if data is None:
        looked = _Looked(model)
        first = next(iter(rows.values()))
        looked.add(first.ids, rows["target"].ids if "target" in rows else None, first.segments)
    else:
        from wordpipe.stages.evaluate.held_out import held_out

        with held_out(model, data, sample, run) as text_sample:
            # heads are named by what they look at in all sequences
            looked = _Looked(model)
            for number, one in enumerate(text_sample.sequences):
                run.report(Progress("looking at heads", number, len(text_sample.sequences), "sequences"))
                looked.add(one.ids, one.target, one.segments)
            over = f"over {looked.n_sequences:,} sequences of {text_sample.where}"
            if importance:
                before = text_sample.loss()
                rises = _head_rises(model.model, text_sample, before, run.report)
                loss = {"of": text_sample.what, "targets": text_sample.n_targets, "before": round(before, _DIGITS)}
    # The stacks of attention, and the tokens.
    shares = looked.shares()
    stacks = []
    for name, maps in attended.maps.items():
        sides = _SIDES[name] if "target" in rows else ("text", "text")
        stacks.append(ShownStack(name, *sides, maps.weights, maps.norms, shares[name], rises.get(name)))
    tokens = {name: ShownTokens(row.shown, row.words, row.word_names) for name, row in rows.items()}
    # What stands above them.
    config = model.model.config
    layers = f"{config.n_layers} + {config.n_decoder_layers}" if config.n_decoder_layers else str(config.n_layers)
    cut = sum(row.cut for row in rows.values())
    figures = (
        f"{config.architecture}, {layers} layers of {config.n_heads} heads; heads are named by their attention {over}"
        + (f"; {cut:,} tokens were left out, because the model can read {model.max_len:,} tokens" if cut else "")
    )
    named = Path(model.path).name
    shown_text = text if second is None or model.writes_targets else f"{text}\n{second}"
    shown_loss = "" if loss is None else f"{loss['before']:.3f} with all heads, over {loss['targets']:,} {loss['of']}"
    said = f"{named} {said}" if said else ""
    return (
        AttentionView(f"Attention of {named}", shown_text, said, figures, tokens, stacks, over, shown_loss), loss, over,
    )  # fmt: skip


class _Looked:
    """The heads of a model over some sequences.

    Attributes:
        n_sequences: that were looked at.
    """

    def __init__(self, model: Inspected) -> None:
        self._model = model
        self._looks: dict[str, HeadLooks] = {}
        self.n_sequences = 0

    def add(self, ids: npt.NDArray[Any], target: npt.NDArray[Any] | None, segments: npt.NDArray[Any] | None) -> None:
        """Add the attention weights of one more sequence; see `attend_exactly`."""
        from wordpipe.model import attend_exactly

        found = attend_exactly(self._model.model, ids, target_ids=target, segments_T=segments)
        for name, maps in found.maps.items():
            keys = target if name == "decoder" and target is not None else ids
            self._looks.setdefault(name, HeadLooks()).add(maps.weights, self._model.separators(keys))
        self.n_sequences += 1

    def shares(self) -> dict[str, dict[str, Any]]:
        """Kind of attention → look → (L, H), the mean weight that goes there."""
        return {name: looks.shares() for name, looks in self._looks.items()}


def _head_rises(model: "Transformer", sample: "HeldOut", before: float, report: Report) -> dict[str, Floats]:
    """Return the rise of the loss when an attention head is switched off: kind of attention → (L, H).

    A part whose work another one does too is worth little, and with both gone the loss may rise far.

    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 3 (one head at a time).
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


def _view_as_numbers(
    model: Inspected, view: AttentionView, rows: dict[str, TokenRow], loss: dict[str, Any] | None, over: str, notes: list[str]
) -> dict[str, Any]:  # fmt: skip
    """Return what the page of attention shows, as numbers for JSON."""

    def rounded(values: Any) -> Any:
        return None if values is None else np.round(np.asarray(values, np.float64), _DIGITS).tolist()

    return {
        "path": None, "bytes": 0, "model": model.path, "architecture": model.model.config.architecture, "said": view.said,
        "tokens": {name: {"shown": row.shown, "number": row.words, "words": row.word_names, "ids": row.ids.tolist()}
                   for name, row in rows.items()},
        "stacks": [
            {
                "name": one.name, "rows": one.rows, "columns": one.columns, "weights": rounded(one.weights),
                "norms": rounded(one.norms), "rollout": rounded(one.rollout), "names": one.names,
                "words": rounded(join_words(one.weights, np.array(rows[one.rows].words), np.array(rows[one.columns].words))),
                "shares": {name: rounded(some) for name, some in one.shares.items()}, "importance": rounded(one.importance),
            }
            for one in view.stacks
        ],
        "over": over, "loss": loss, "cut": sum(row.cut for row in rows.values()), "notes": notes,
    }  # fmt: skip
