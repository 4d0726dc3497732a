"""`wordpipe evaluate model`: figures in a table for people, or as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import ExampleCommand
from wordpipe.cli.output import human_bytes, human_count, say
from wordpipe.cli.progress import ProgressDrawer
from wordpipe.cli.tables import figure, short_name, side_by_side

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["model"]

_NAME_WIDTH = 28
_SHARE = "{:.1%}"
_MEASURES = {  # the name in metrics → its line in the table, and how it is written
    "bits_per_byte": ("bits per byte", "{:.4f}"),
    "perplexity_per_word": ("perplexity per word", "{:,.1f}"),
    "perplexity": ("perplexity per target", "{:,.2f}"),
    "loss": ("loss (nats per target)", "{:.4f}"),
    "accuracy": ("guessed first", _SHARE),
    "unknown_rate": ("unknown tokens", "{:.2%}"),
}


@click.command(
    cls=ExampleCommand,
    example="wordpipe evaluate model run/model --data run/corpus\n"
    "wordpipe evaluate model run/clm run/larger --data held_out.txt --json",
    json="Print one JSON object, with all counts.",
    quiet="Print nothing but the table and errors.",
    verify="artifacts'",
)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", type=click.Path(path_type=Path))
@click.option(
    "--data", required=True, multiple=True, metavar="CORPUS", help="A corpus artifact, or any source of text."
)
@click.option(
    "--split",
    type=click.Choice(["train", "valid", "test", "all"]),
    help="The part of the corpus to judge on.  [default: what is held out: valid, else test, else all; of sources: all]",
)
@click.option(
    "--seq-len",
    type=int,
    metavar="N",
    help="Positions of a sequence: how far a model can look back.  [default: the model's length, at most 2048]",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    help="Where the models run; auto takes the fastest there is.  [default: auto]",
)
@click.option(
    "--threads",
    type=click.IntRange(0, 1024),
    default=0,
    metavar="N",
    help="CPU threads, 0 = one per core.  [default: 0]",
)
def model(
    models: tuple[Path, ...],
    data: tuple[str, ...],
    split: str | None,
    seq_len: int | None,
    device: Any,
    threads: int,
    verify: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Judge language models by how much a text surprises them, side by side.

    MODEL is an artifact, or a folder of transformers. A target is a token to be guessed: every token for a model that reads
    from left to right, 15 % of them, always the same, for one that sees both sides.

    Models with different tokenizers compare by bits per byte and by perplexity per word; those of equal tokenizers by
    their loss too. Models that see both sides compare only with each other.
    """
    from wordpipe.stages.evaluate_model import evaluate_model
    from wordpipe.stages.making import RunOptions

    with ProgressDrawer(quiet=quiet) as draw:
        run = RunOptions(report=draw, verify=verify)
        found = evaluate_model(models, data, split=split, seq_len=seq_len, device=device, threads=threads, run=run)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    _print(found["models"])
    if not quiet:
        for line in _remarks(found):
            say(line)


def _print(judged: list[dict[str, Any]]) -> None:
    from wordpipe.cli.tables import console

    screen = console()
    for table in side_by_side(judged, _table, screen):
        screen.print(table)


def _table(judged: Sequence[dict[str, Any]]) -> "Table":
    """One line per figure, one column per model."""
    from wordpipe.cli.tables import new_table

    table = new_table("", *(short_name(one["name"], _NAME_WIDTH) for one in judged))
    table.add_row("reads", *("to the right" if one["architecture"] == "decoder" else "both sides" for one in judged))
    for name, (label, form) in _MEASURES.items():
        cells = [one["metrics"][name] for one in judged]
        if any(cell is not None for cell in cells):
            table.add_row(label, *(figure(cell, form) for cell in cells))
    table.add_row("targets", *(f"{one['counts']['targets']:,}" for one in judged))
    table.add_row("tokens of the text", *(f"{one['counts']['tokens']:,}" for one in judged))
    table.add_row("vocabulary", *(f"{one['vocab_size']:,}" for one in judged))
    table.add_row("positions", *(f"{one['seq_len']:,}" for one in judged))
    table.add_row("weights", *(human_count(one["parameters"]) for one in judged))
    return table


def _remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: on which text it stands, and whether its columns compare."""
    counts, judged = found["models"][0]["counts"], found["models"]
    part = f"the split {found['split']}" if found["split"] else "all of the text"
    lines = [
        f"{part}: documents {human_count(counts['documents'])}, words {human_count(counts['words'])}, "
        f"{human_bytes(counts['bytes'])}"
    ]
    if len({one["architecture"] for one in judged}) > 1:
        lines.append("models that see both sides guess an easier thing: their figures do not compare with the others'")
    if len({one["seq_len"] for one in judged}) > 1:
        lines.append("longer sequences let a model look further back; --seq-len gives all the same")
    return lines
