"""Commands that write a page: `attention`, what looks where in a text; `report`, all of a pipeline. A few lines of both."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import FORCE, PATH, ExampleCommand, number
from wordpipe.cli.output import ProgressDrawer, counted, escaped, human_bytes, safe_text, say

_SHOWN = 8  # heads named as the most important ones
_NAMED = 8  # artifacts of a state


@click.command(
    "attention",
    cls=ExampleCommand,
    example='wordpipe attention run/model "Bees find their way home." -o attention.html\n'
    'wordpipe attention run/model "Bees fly." -o page.html --data run/corpus --importance',
    json="Print one JSON object: tokens, words, all weights, norms, rollout, names of heads.",
    quiet="Print nothing but errors.",
    verify="artifact's",
)
@click.argument("model", metavar="MODEL", type=PATH)
@click.argument("text", metavar="TEXT")
@click.argument("second", metavar="[SECOND]", required=False)
@click.option("-o", "--output", type=PATH, help="The HTML file to write; without it with --json alone.")
@click.option(
    "--data", multiple=True, metavar="CORPUS", help="Name heads by what they do over this text; may be repeated."
)
@click.option("--importance", is_flag=True, help="Measure how much the loss on --data rises without each head.")
@number("--sample", 128, 10_000, "Tokens of --data to read.")
@FORCE
def attention(
    model: Path, text: str, second: str | None, output: Path | None, force: bool, verify: bool, as_json: bool, quiet: bool,
    data: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Show what looks where in a text, in every layer and head of a model, as one HTML page.

    The weights are computed exactly, and the model's result from them. SECOND is the second text of a pair; of an
    encoder-decoder it is the target text, and without it what the model writes itself. Models with a head (train
    classifier, train tagger) are looked into as well. The page needs no network and nothing beside it.

    Attention is not explanation: --importance says what is lost without a head.
    """
    from wordpipe.errors import ConfigError
    from wordpipe.stages import RunOptions
    from wordpipe.stages import attention as look

    if output is None and not as_json:
        raise ConfigError(
            "nothing is asked for", where="output", hint="-o page.html writes the page, --json prints numbers"
        )
    with ProgressDrawer(quiet=quiet or as_json) as draw:
        found = look(
            model, text, second, output=output, data=list(data) or None, replace=force,
            run=RunOptions(report=draw, verify=verify), **options,
        )  # fmt: skip
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    elif not quiet:
        _remark(found)


def _remark(found: dict[str, Any]) -> None:
    """What was written, what the model said, and what its heads do."""
    if found["said"]:
        say(safe_text(found["said"]))
    for stack in found["stacks"]:
        names = Counter(name for row in stack["names"] for name in row)
        shown = ", ".join(f"{count} {name}" for name, count in names.most_common())
        say(f"{stack['name']}: {counted(sum(names.values()), 'heads')} {found['over']}: {shown}")
        if stack["importance"] is not None:
            ranked = sorted(
                ((rise, layer, head) for layer, row in enumerate(stack["importance"]) for head, rise in enumerate(row)),
                reverse=True,
            )
            best = ", ".join(f"{layer + 1}.{head + 1} +{rise:.3f}" for rise, layer, head in ranked[:_SHOWN] if rise > 0)
            say(f"the loss rises most without (layer.head): {best or 'none of them'}")
    if found["path"] is not None:
        shown = ", ".join(f"{len(one['shown'])} tokens of {name}" for name, one in found["tokens"].items())
        say(f"{shown} → {found['path']}  ({human_bytes(found['bytes'])})")


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
