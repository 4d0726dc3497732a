"""The screen of `wordpipe doctor MODEL`: the loss, what layers and heads bring, and what would mend what is found."""

import textwrap
from collections.abc import Iterator
from typing import Any

from wordpipe.cli.output import counted
from wordpipe.cli.tables import console, figure, new_table

_GAP = " " * 9
_STARTS = {"fresh": "from their fresh weights", "": ""}


def show_model(found: dict[str, Any]) -> None:
    """A line on the loss, a table of layers, a table of heads, and the findings."""
    screen = console()

    def say(line: str, indent: str = "") -> None:
        screen.print(
            textwrap.fill(line, screen.width, subsequent_indent=indent, break_on_hyphens=False), soft_wrap=True
        )

    counts, entropy = found["counts"], found["metrics"]["unigram_entropy"]
    say(
        f"{found['task'] or found['architecture']} of {counts['parameters'] / 1e6:.1f}M weights, measured on "
        f"{counted(counts['targets'], found['objective'])} of {found['data']}"
        + ("" if found["split"] is None else f", {found['split']}")
    )
    knowing = "" if entropy is None else f"  (a model that knows only how frequent each token is: {entropy:.3f})"
    say(f"loss     {found['metrics']['loss']:.3f}{knowing}")
    if counts["left_out"]:
        say(f"{_GAP}{counted(counts['left_out'], 'records')} with labels that the model does not know were left out")
    screen.print(_layers(found))
    for stack in found["heads"]:
        screen.print(_heads(found, stack))
    for line in _advice(found):
        say(line, _GAP)


def _layers(found: dict[str, Any]) -> Any:
    """A row for each layer."""
    start = found["start"]
    moved = "moved" if start in _STARTS else "moved from start"
    table = new_table("layer", "loss without it", moved, "dead units")
    several = len({one["stack"] for one in found["layers"]}) > 1
    for one in found["layers"]:
        name = f"{one['stack']} {one['layer'] + 1}" if several else str(one["layer"] + 1)
        table.add_row(name, f"{one['rise']:+.3f}", figure(one["moved"], "{:.0%}"), figure(one["dead_units"], "{:.1%}"))
    return table


def _heads(found: dict[str, Any], stack: str) -> Any:
    """A row for each layer, the rise of the loss without each head and what it looks at."""
    rows, names = found["heads"][stack], found["names"].get(stack)
    title = f"{stack}: loss without each head, and what it looks at"
    table = new_table("layer", *(f"head {head + 1}" for head in range(len(rows[0]))), title=title)
    for layer, row in enumerate(rows):
        cells = [f"{rise:+.3f}" + ("" if names is None else f" {names[layer][head]}") for head, rise in enumerate(row)]
        table.add_row(str(layer + 1), *cells)
    return table


def _advice(found: dict[str, Any]) -> Iterator[str]:
    """Each finding and what mends it."""
    if found["start"]:
        start = _STARTS.get(found["start"], f"from those of {found['start']}")
        yield f"moved    is how far the matrices are {start}, over their length then"
    for one in found["findings"]:
        yield f"{one['state']:<8} {one['says']}"
        yield f"{_GAP}mend: {one['mend']}"
    for stack, groups in found["alike_heads"].items():
        for group in groups:
            heads = ", ".join(f"{layer + 1}.{head + 1}" for layer, head in group)
            yield f"alike    {stack} heads {heads} (layer.head)"
    if all(one["state"] == "healthy" for one in found["findings"]):
        yield "Nothing is sick: leave it as it is."
