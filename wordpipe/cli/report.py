"""`wordpipe report`: a page on a whole pipeline; in a few lines also what is stale, damaged or missing."""

import json
from pathlib import Path

import click

from wordpipe.cli.command import FORCE, PATH, ExampleCommand
from wordpipe.cli.output import ProgressDrawer, counted, escaped, human_bytes, say

_NAMED = 8  # artifacts of a state


@click.command(
    "report",
    cls=ExampleCommand,
    example="wordpipe report run -o report.html\nwordpipe report run --config wordpipe.toml -o report.html",
    json="Print one JSON object: path, bytes, artifacts, stale, damaged, missing, notes.",
    quiet="Print nothing but errors.",
    verify="artifacts'",
)
@click.argument("folder", metavar="FOLDER", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The HTML file to write.")
@click.option(
    "--config", type=PATH, metavar="FILE",
    help="The pipeline that says what is stale.  [default: wordpipe.toml in FOLDER or above]",
)  # fmt: skip
@FORCE
def report(
    folder: Path, output: Path, config: Path | None, force: bool, verify: bool, as_json: bool, quiet: bool
) -> None:
    """Write a report on all artifacts of a folder as one HTML page.

    It has the flow with sizes and times, what was read and dropped, tokenizers, curves of trainings, quality, the index,
    settings, versions, warnings, and what is stale. Keep what `evaluate --json` prints as .json files in FOLDER, and it is
    shown too. The page needs no script, no network and nothing beside it, and it can be printed.
    """
    from wordpipe.pipeline import report_pipeline
    from wordpipe.stages import RunOptions

    with ProgressDrawer(quiet=quiet) as draw:
        made = report_pipeline(folder, output, config=config, replace=force, run=RunOptions(report=draw, verify=verify))
    if as_json:
        click.echo(json.dumps(made, ensure_ascii=False))
    elif not quiet:
        say(f"{counted(made['artifacts'], 'artifacts')} → {output}  ({human_bytes(made['bytes'])})")
        for state, names in (("stale", made["stale"]), ("damaged", made["damaged"]), ("not made", made["missing"])):
            if names:
                more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                say(f"{state}: {', '.join(map(escaped, names[:_NAMED]))}{more}")
        for note in made["notes"]:
            say(f"note: {escaped(note)}")
