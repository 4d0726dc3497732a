"""`wordpipe show` and `wordpipe verify`: looking at artifacts."""

import json
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH, ExampleCommand
from wordpipe.cli.output import counted, human_bytes, human_seconds, safe_text, say


@click.command(
    cls=ExampleCommand,
    example='wordpipe show run/tokens --rows 3\nwordpipe show run/tokens --text "The sea-bed is muddy."',
    json="Print the manifest (and the rows), or the cut text, as JSON.",
)
@click.argument("artifact", type=PATH)
@click.option("--rows", type=click.IntRange(0), default=0, metavar="N", help="Print the first N rows of its table too.")
@click.option("--text", metavar="TEXT", help="Show instead how its tokenizer cuts this text, with the ids.")
def show(artifact: Path, rows: int, text: str | None, as_json: bool) -> None:
    """Say what an artifact is, how it was made and what it holds; or how its tokenizer cuts a text."""
    from wordpipe.stages.look import show as inspect

    if text is not None:
        from wordpipe.cli.segmentation import print_segmentation
        from wordpipe.errors import ConfigError
        from wordpipe.stages import segment

        if rows:
            raise ConfigError("give either --rows or --text, not both")
        cut = segment(artifact, text)
        if as_json:
            click.echo(json.dumps(cut, ensure_ascii=False))
        else:
            print_segmentation(cut)
        return
    found = inspect.show(artifact, rows=rows)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, default=str))
        return
    for title, lines in _sections(found):
        click.echo(click.style(title, bold=True))
        for name, value in lines:
            click.echo(safe_text(f"  {name:<24} {value}"))


@click.command(
    cls=ExampleCommand,
    example="wordpipe verify run/corpus run/tokens",
    json="Print one JSON object per artifact.",
    quiet="Print nothing but errors.",
)
@click.argument("artifacts", nargs=-1, required=True, type=PATH)
def verify(artifacts: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Check that artifacts are whole and unchanged: every byte is read and compared with its hash.

    Exit code 4 if any is not.
    """
    from wordpipe.errors import ArtifactError
    from wordpipe.stages.look import show as inspect

    broken: ArtifactError | None = None
    for path in artifacts:
        try:
            result = inspect.verify(path)
        except ArtifactError as error:
            if broken is not None:
                say(f"wordpipe: error: {broken.message}")
            broken = error
            if as_json:
                click.echo(json.dumps({"path": str(path), "ok": False, "error": error.message}, ensure_ascii=False))
            continue
        if as_json:
            click.echo(json.dumps(result, ensure_ascii=False))
        elif not quiet:
            about = (result["kind"], counted(result["files"], "files"), human_bytes(result["bytes"]))
            click.echo(f"ok  {path}  ({', '.join(about)})")
            for warning in result["warnings"]:
                say(f"warning: {warning}")
    if broken is not None:
        raise broken


def _sections(found: dict[str, Any]) -> list[tuple[str, list[tuple[str, Any]]]]:
    manifest = found["manifest"]
    head = [
        ("kind", manifest["kind"]),
        ("made by", f"wordpipe {manifest['command']} (version {manifest['wordpipe']})"),
        ("recipe", manifest["recipe"][:16]),
        ("digest", manifest["digest"][:16]),
        ("same bytes every run", "yes" if manifest["bitwise"] else "no"),
        ("time, memory", f"{human_seconds(manifest['seconds'])}, {human_bytes(manifest['peak_memory_bytes'])}"),
        ("device, threads", f"{manifest['device']}, {manifest['threads']}"),
    ]
    files = [
        (f["path"], human_bytes(f["bytes"]) + (f", {counted(f['rows'], 'rows')}" if f["rows"] is not None else ""))
        for f in manifest["outputs"]
    ]
    inputs = [(i["kind"], f"{i['path'] or ''}  {i['digest'][:16]}") for i in manifest["inputs"]]
    sections = [
        (found["path"], head),
        ("settings", list(manifest["settings"].items())),
        ("inputs", inputs[:20] + ([("…", f"{len(inputs) - 20} more")] if len(inputs) > 20 else [])),
        ("counts", [(name, f"{value:,}") for name, value in manifest["counts"].items()]),
        ("figures", list({**manifest["metrics"], **manifest["facts"]}.items())),
        ("files", files),
        ("warnings", [("", text) for text in manifest["warnings"]]),
        ("rows", [(str(n), json.dumps(row, ensure_ascii=False, default=str)) for n, row in enumerate(found["rows"])]),
    ]
    return [(title, lines) for title, lines in sections if lines]
