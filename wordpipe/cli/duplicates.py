"""`wordpipe duplicates`: texts that say nearly the same, in groups."""

import shlex
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import ExampleCommand
from wordpipe.cli.output import counted, one_line, safe_text
from wordpipe.cli.tables import answer

_CHARS = 160  # of a text
_ROWS = 10  # of a group, for people: one of 1,503 texts filled the screen fifty times
_MANY = 20  # rows in one group: of fewer texts more than half may well be copies


@click.command(
    cls=ExampleCommand,
    example="wordpipe duplicates run/sentences --threshold 0.95",
    json="Print one JSON object: totals, and the groups shown with all rows.",
    quiet="Print nothing but the groups and errors.",
    verify="artifact's",
)
@click.argument("artifact", metavar="INDEX|SENTENCES", type=click.Path(path_type=Path))
@click.option(
    "--threshold", type=click.FloatRange(-1, 1), default=0.95, metavar="COSINE",
    help="How near two texts must be to be linked.  [default: 0.95]",
)  # fmt: skip
@click.option(
    "-n", type=click.IntRange(0, 1_000_000), default=20,
    help="Groups to show, the largest first, ten texts of each.  [default: 20]",
)  # fmt: skip
def duplicates(artifact: Path, **options: Any) -> None:
    """Report groups of texts whose vectors are nearly the same.

    Every text is linked to those near it, and what is linked is a group, so its ends may be farther apart than the threshold.
    Up to 200,000 rows all pairs are compared; of more, the index is asked for the nearest of every row.
    """
    from wordpipe.stages import duplicates as stage

    answer(stage, artifact, show=_show, remarks=_remarks, **options)


def _show(found: dict[str, Any]) -> None:
    for number, group in enumerate(found["shown"], start=1):
        click.echo(click.style(f"# group {number}: {len(group):,} texts", bold=True))
        for row in group[:_ROWS]:
            click.echo(_line(row))
        if len(group) > _ROWS:
            click.echo(f"… {len(group) - _ROWS:,} more")


def _remarks(found: dict[str, Any]) -> list[str]:
    rows = counted(found["rows"], "rows")
    lines = [
        f"{found['rows_in_groups']:,} of {rows} in {counted(found['groups'], 'groups')}, {counted(found['pairs'], 'pairs')} "
        f"at {found['threshold']:g} or nearer; "
        f"{'all pairs compared' if found['exact'] else 'as far as the index found them'}"
    ]
    if found["largest"] >= _MANY and 2 * found["largest"] > found["rows"]:
        lines.append(
            f"one group holds {found['largest']:,} of {rows}: at {found['threshold']:g} these vectors cannot tell the texts "
            f"apart; raise --threshold, or see what is wrong with: wordpipe doctor {shlex.quote(found['path'])}"
        )
    return lines


def _line(row: dict[str, Any]) -> str:
    text = one_line(row.get("text") or row.get("word") or "")
    cut = text if len(text) <= _CHARS else text[: _CHARS - 1] + "…"
    place = [f"{row['source']}:{row['line']}"] if "source" in row else []
    return safe_text("\t".join([f"{row['cosine']:.4f}", cut, *place]))
