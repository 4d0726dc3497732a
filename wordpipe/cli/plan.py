"""`wordpipe plan`: what can be trained in a time, as a table."""

import json
import shlex
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH, ExampleCommand
from wordpipe.cli.output import human_bytes, say


@click.command(
    cls=ExampleCommand,
    example="wordpipe plan 30m run/tokens\nwordpipe plan 1h --device cuda",
    json="Print one JSON object.",
)
@click.argument("time", metavar="TIME")
@click.argument("text", metavar="[TOKENS|CORPUS|SOURCE]", required=False, type=PATH)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Where it is to be trained.")
@click.option("--command", metavar="COMMAND", default="train mlm", help="The training.  [default: train mlm]")
def plan(time: str, text: Path | None, device: str, command: str, as_json: bool) -> None:
    """Say which preset to train in a time, with how many steps, how much memory and disk. Makes nothing.

    TIME: such as 30m, 1h30m or 90s. The pace is that of earlier runs of this machine, else measured in half a second.
    """
    from wordpipe.cli.tables import console, new_table
    from wordpipe.stages import plan as look

    found: dict[str, Any] = look(time, text, command=command, device=device)
    if as_json:
        click.echo(json.dumps(found))
        return
    table = new_table("preset", "weights", "steps", "batch", "tokens", "passes", "tokens/s", "memory", "disk")
    for row in found["presets"]:
        cells = [
            row["preset"], f"{row['parameters'] / 1e6:.1f}M", f"{row['steps']:,}", f"{row['batch_size']} x {row['seq_len']}",
            f"{row['tokens'] / 1e6:,.1f}M", "-" if row["passes"] is None else f"{row['passes']:g}",
            f"{row['tokens_per_s']:,}", "-" if row["memory_bytes"] is None else human_bytes(row["memory_bytes"]),
            human_bytes(row["disk_bytes"]),
        ]  # fmt: skip
        table.add_row(*cells)
    console().print(table)
    for line in _remarks(found):
        say(line)
    if found["recommended"] is not None:
        tokens = "TOKENS" if text is None else shlex.quote(str(text))
        minutes = f"{found['seconds'] / 60:g}"
        say(f"next: wordpipe {command} {tokens} -o run/model --preset {found['recommended']} --minutes {minutes}")


def _remarks(found: dict[str, Any]) -> list[str]:
    """What is to be said below the table."""
    factor = max(row["spread"] for row in found["presets"])
    lines = [f"the pace: {found['basis']}; likely within a factor of {factor:g}"]
    losses = [row["loss"] for row in found["presets"] if row["loss"]]
    lines += [
        f"mini, so long, came to a held-out loss of {loss['measured']} on Wikipedia (frequencies alone: {loss['frequencies']})"
        for loss in losses
    ]
    if not losses:
        lines.append("no loss was measured at such lengths: it shows in the training itself")
    if found["recommended"] is None:
        return [*lines, "too little time for any of them"]
    return [*lines, f"take {found['recommended']}: the largest that makes some hundreds of steps, or the smallest"]
