"""`wordpipe show` and `wordpipe verify`: what an artifact is, a text cut by its tokenizer, whether artifacts are whole."""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from wordpipe.cli.command import PATH, ExampleCommand
from wordpipe.cli.output import (
    amounts,
    cells_of,
    counted,
    emphasised,
    escaped,
    fitted,
    human_bytes,
    human_seconds,
    one_line,
    safe_text,
    say,
    wrapped_words,
)
from wordpipe.cli.query_answers import cut, piped_line

if TYPE_CHECKING:
    from wordpipe.stages import Maker, Preview

_KINDS_SHOWN = 12  # of files that would be passed over
_NAMES_SHOWN = 5  # of files that cannot be read
_EXAMPLE_CHARS = 60  # of the value of a column
_BAR = "│"
_COLOURS = ("black on bright_cyan", "black on bright_yellow")  # of tokens, in turns
_MARKED = {"?": "bold white on red", "*": "bold white on magenta", "": ""}
_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}


@click.command(
    cls=ExampleCommand,
    example='wordpipe show run/tokens --rows 3\nwordpipe show run/tokens --text "The sea-bed is muddy."\n'
    "wordpipe show run/clusters --cluster 0\nwordpipe show run/model --params",
    json="Print JSON: the manifest (with --rows, also rows), or what --text, --cluster or --params shows.",
)
@click.argument("artifact", type=PATH)
@click.option("--rows", type=click.IntRange(0), default=0, metavar="N", help="Also print the first N table rows.")
@click.option("--text", metavar="TEXT", help="Show only how the tokenizer splits this text, with token ids.")
@click.option(
    "--cluster", type=click.IntRange(-1), metavar="NUMBER",
    help="List only the texts of this cluster, sorted by their distance to its centre; with --rows N: the first N texts. "
    "-1: the texts without a vector.",
)  # fmt: skip
@click.option("--params", is_flag=True, help="List only the weights of a model, with their shapes and counts.")
def show(artifact: Path, rows: int, text: str | None, cluster: int | None, params: bool, as_json: bool) -> None:
    """Show what an artifact is, how it was made and what it contains; how its tokenizer splits a text; a cluster's texts.

    With --params, ARTIFACT may also be a model folder of Hugging Face transformers.
    """
    from wordpipe.errors import ConfigError

    # one thing at a time
    asked = {"--params": params, "--cluster": cluster is not None, "--text": text is not None}
    if (n_asked := sum(asked.values())) > 1 or (n_asked and rows and cluster is None):
        given = [name for name, there in {**asked, "--rows": rows}.items() if there]
        raise ConfigError(f"give either {' or '.join(given)}, not both")
    # parts of a model, a cluster, tokens of a text, or the artifact
    if params:
        _print_parameters(artifact, as_json=as_json)
    elif cluster is not None:
        _print_members(artifact, cluster, rows or None, as_json=as_json)
    elif text is not None:
        from wordpipe.stages import segment

        # the tokens of the text; of pairs, by both tokenizers
        cut = segment(artifact, text)
        if as_json:
            click.echo(json.dumps(cut, ensure_ascii=False))
        elif "target" in cut:
            click.echo(emphasised("if this is the first text of a pair:"))
            print_segmentation(cut)
            click.echo(emphasised("\nif this is the second text of a pair (tokenizer for second texts):"))
            print_segmentation(cut["target"])
        else:
            print_segmentation(cut)
    else:
        _print_artifact(artifact, rows, as_json=as_json)


def _print_artifact(artifact: Path, rows: int, *, as_json: bool) -> None:
    """Print what `show` finds in an artifact."""
    from wordpipe.errors import ArtifactError
    from wordpipe.stages import show as show_artifact

    if as_json:
        click.echo(json.dumps(show_artifact(artifact, rows=rows), ensure_ascii=False, default=str))
        return
    try:
        found = show_artifact(artifact, rows=max(rows, 1))
    except ArtifactError:  # of a damaged table the manifest can be seen all the same
        found = show_artifact(artifact, rows=rows)
    example: dict[str, Any] = next(iter(found["rows"]), {})
    found["rows"] = found["rows"][:rows]
    if found["manifest"] is None:
        _print_stopped(found["stopped"])
        return
    # the sections, each with its lines
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for title, lines in _sections(found, example):
        click.echo(emphasised(title))
        for name, value in lines:
            for line in _name_and_value(name, value, width):
                click.echo(line)
    if width is not None:
        command = shlex.join(["wordpipe", "show", str(artifact), "--json"])
        click.echo(fitted(f"to see hashes, all settings and nested values: {command}", width))


@click.command(
    cls=ExampleCommand,
    example="wordpipe verify run/corpus run/tokens",
    json="Print one JSON object per artifact.",
    quiet="Print nothing but errors.",
)
@click.argument("artifacts", nargs=-1, required=True, type=PATH)
def verify(artifacts: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Check that artifacts are complete and unchanged: every file is read and compared with its hash.

    For a folder that is not an artifact, such as run, all artifacts in the folder are checked. Exit code 4: an artifact is
    damaged.
    """
    from wordpipe.errors import ArtifactError
    from wordpipe.stages import verify as verify_artifact

    # all are checked; the first damaged one decides the exit code
    broken: ArtifactError | None = None
    for path in (one for given in artifacts for one in _artifacts_at(given)):
        try:
            result = verify_artifact(path)
        except ArtifactError as error:
            if broken is not None:
                say(f"wordpipe: error: {broken.message}")
            broken = error
            if as_json:
                click.echo(json.dumps({"path": str(path), "ok": False, "error": error.message}, ensure_ascii=False))
            continue
        # a line for each whole artifact
        if as_json:
            click.echo(json.dumps(result, ensure_ascii=False))
        elif not quiet:
            about = (result["kind"], counted(result["files"], "files"), human_bytes(result["bytes"]))
            click.echo(f"ok  {escaped(str(path))}  ({', '.join(about)})")
            for warning in result["warnings"]:
                say(f"warning: {warning}")
    if broken is not None:
        raise broken


def _artifacts_at(path: Path) -> list[Path]:
    """Return the path of an artifact; for a folder that is no artifact, the artifacts in this folder."""
    from wordpipe.artifacts import is_artifact

    if is_artifact(path) or not path.is_dir():
        return [path]
    return sorted(one for one in path.iterdir() if not one.name.startswith(".") and is_artifact(one)) or [path]


def _print_parameters(path: Path, *, as_json: bool) -> None:
    """Print for `show` the parts of a model, each with its share and its weights; a weight of several blocks on one line."""
    from wordpipe.stages import parameters

    found = parameters(path)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    kind = f", {found['class']}" if found["class"] else ""
    click.echo(safe_text(f"{path}: {found['architecture']}{kind}, {counted(found['parameters'], 'weights')}"))
    widest = max((len(one["name"]) for part in found["parts"] for one in part["weights"]), default=0)
    for part in found["parts"]:
        share = "" if part["part"] == "not counted" else f"{part['parameters'] / max(1, found['parameters']):7.1%}"
        click.echo(emphasised(f"{part['part']:<{widest + 2}} {part['parameters']:>15,}{share}"))
        for one in part["weights"]:
            shape = " × ".join(f"{size:,}" for size in one["shape"]) or "1"
            times = f"{one['times']} of " if one["times"] > 1 else ""
            click.echo(safe_text(f"  {one['name']:<{widest}} {one['parameters']:>15,}  {times}{shape} {one['dtype']}"))


def _print_members(path: Path, cluster: int, n: int | None, *, as_json: bool) -> None:
    """Print for `show` a line for each text of a cluster: cosine to the centre, title and text, place, id."""
    from wordpipe.stages import open_artifact

    with open_artifact(path, "clusters", verify=False) as opened:
        for member in opened.members(cluster, n):
            if as_json:
                click.echo(json.dumps(member, ensure_ascii=False))
            else:
                room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
                click.echo(piped_line({**member, "score": member["similarity"]}, room))


def _print_stopped(run: dict[str, Any]) -> None:
    """Print the state of a training that was stopped, or still runs."""
    click.echo(
        emphasised(f"{run['output']}: not an artifact yet, because the training was stopped or is still running")
    )
    lines = [("made by", f"wordpipe {run['command']}" if run["command"] else ""), ("progress", run["stands_at"])]
    lines += [(name, round(run[name], 6)) for name in ("loss", "valid_loss") if run[name] is not None]
    lines += [("time", human_seconds(run["seconds"]))] if run["seconds"] else []
    lines += [("checkpoints", run["folder"]), ("make a model", f"wordpipe finish {shlex.quote(run['output'])}")]
    for name, value in lines:
        for line in _name_and_value(name, value, None):
            click.echo(line)


def _sections(found: dict[str, Any], example: dict[str, Any]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return the titles and lines of `show` about an artifact, columns with the values of the first row.

    No hashes, nothing nested.
    """
    manifest = found["manifest"]
    # what it is, and how it was made
    head = [
        ("kind", manifest["kind"]),
        ("made by", f"wordpipe {manifest['command']} (version {manifest['wordpipe']})"),
        ("same bytes every run", "yes" if manifest["bitwise"] else "no"),
        ("time, memory", f"{human_seconds(manifest['seconds'])}, {human_bytes(manifest['peak_memory_bytes'])}"),
        ("device, threads", f"{manifest['device']}, {manifest['threads']}"),
    ]
    if isinstance(within := manifest["facts"].get("within"), dict):
        unit = "words" if manifest["command"] == "train word2vec" else "steps"
        planned = f"done: {within.get('made'):,} {unit}; planned at the beginning: {within.get('planned'):,} {unit}"
        head.append((f"within {within.get('minutes'):g} minutes", planned))
    # what it contains
    columns = [(f"{name} ({kind})", _example(example, name)) for name, kind in found["columns"].items()]
    files = [
        (f["path"], human_bytes(f["bytes"]) + (f", {counted(f['rows'], 'rows')}" if f["rows"] is not None else ""))
        for f in manifest["outputs"]
    ]
    inputs = [(i["kind"], i["path"] or "") for i in manifest["inputs"]]
    figures = {**manifest["metrics"], **manifest["facts"]}
    # the sections in their order
    sections = [
        (found["path"], head),
        ("columns, each with the value of the first row", columns),
        ("settings", _settings(manifest["settings"])),
        ("inputs", inputs[:20] + ([("…", f"{len(inputs) - 20} more")] if len(inputs) > 20 else [])),
        ("counts", [(name, f"{value:,}") for name, value in manifest["counts"].items()]),
        ("figures", [(name, value) for name, value in figures.items() if not isinstance(value, (dict, list))]),
        ("files", files),
        # what was said, and the rows that were asked for
        ("warnings", [("", text) for text in manifest["warnings"]]),
        (
            "rows",
            [(str(n), _json({name: _short(v) for name, v in row.items()})) for n, row in enumerate(found["rows"])],
        ),
    ]
    return [(title, lines) for title, lines in sections if lines]


def _settings(settings: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the settings of an artifact that are worth a line: not 0, not empty, not without effect."""
    idle = () if settings.get("window") else ("global_every",)
    return [(name, value) for name, value in settings.items() if value not in (0, "", None, []) and name not in idle]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _short(value: Any) -> Any:
    """Return a value of a row; of a long list of numbers only how many there are."""
    is_cut = (
        isinstance(value, list) and len(value) > 1 and isinstance(value[-1], str) and isinstance(value[0], (int, float))
    )
    return f"[{value[-1].split(' ')[1]} numbers]" if is_cut else value


def _example(row: dict[str, Any], name: str) -> str:
    """Return the value of a column in a row as `query` shows it; a field named like one of our columns comes first."""
    value = {"": None, **{f"_{own}": row[own] for own in row}, **row, **row.get("metadata", {})}.get(name)
    text = _short(value)
    text = text if isinstance(text, str) else "" if text is None else _json(text)
    return cut(one_line(text), _EXAMPLE_CHARS)


def _name_and_value(name: str, value: Any, width: int | None) -> Iterator[str]:
    """Yield a name and a value of `show` as a line, on a terminal as several, with the value indented."""
    line = safe_text(f"  {name:<24} {value}").rstrip()
    if width is None or cells_of(line) <= width:
        yield line
        return
    first, deeper = safe_text(f"  {name:<24}"), " " * 6
    words = [part for word in safe_text(str(value)).split(" ") for part in _broken(word, max(width - len(deeper), 1))]
    yield from wrapped_words([first.rstrip() if len(first.rstrip()) > 26 else first, *words], width, "", deeper)


def _broken(word: str, room: int) -> list[str]:
    """Break a long word into pieces that fit on a line."""
    return [word[first : first + room] for first in range(0, len(word), room)] or [""]


class _Cell(NamedTuple):
    """One token on the screen."""

    text: str
    number: str  # its id, and a mark
    style: str
    text_width: int  # columns of the terminal

    @property
    def width(self) -> int:
        return max(self.text_width, len(self.number))


def print_segmentation(found: dict[str, Any]) -> None:
    """Print for `show --text` a text cut into tokens: two colours by turns, the ids below.

    It can be read without colour too.
    """
    from rich.text import Text

    from wordpipe.cli.tables import console

    screen = console()
    for line in _lines(_cells(found), shutil.get_terminal_size().columns):
        tokens, numbers = Text(), Text(style="dim")
        for place, cell in enumerate(line):
            bar = _BAR if place else ""
            tokens.append(bar).append(cell.text, style=cell.style).append(" " * (cell.width - cell.text_width))
            numbers.append(bar).append(cell.number.ljust(cell.width))
        for text in (tokens, numbers, Text()):
            text.rstrip()
            screen.print(text, soft_wrap=True)
    screen.print(safe_text(_summary(found)), soft_wrap=True)


def _cells(found: dict[str, Any]) -> Iterator[_Cell]:
    """Yield the tokens of a segmented text as cells of the screen."""
    from rich.cells import cell_len

    rows = zip(found["pieces"], found["ids"], found["special"], found["unknown"], strict=True)
    for place, (token, number, special, unknown) in enumerate(rows):
        mark = "?" if unknown else "*" if special else ""
        text = _visible(token)
        yield _Cell(text, f"{number}{mark}", _MARKED[mark] or _COLOURS[place % 2], cell_len(text))


def _visible(token: str) -> str:
    """Return a token on one line with visible spaces; other controls and characters without width are escapes."""
    shown = safe_text("".join(_VISIBLE.get(letter, letter) for letter in token))
    return re.sub(r"[\u00ad\u200b-\u200d\u2060\ufeff]", lambda match: f"\\u{ord(match[0]):04x}", shown)


def _lines(cells: Iterable[_Cell], width: int) -> Iterator[list[_Cell]]:
    """Yield lines of tokens: as many cells as there is room for, with a bar before each but the first."""
    line: list[_Cell] = []
    used = 0
    for cell in cells:
        if line and used + cell.width + 1 > width:
            yield line
            line, used = [], 0
        line.append(cell)
        used += cell.width + 1
    if line:
        yield line


def _summary(found: dict[str, Any]) -> str:
    """Return the counts of a segmented text: tokens, characters, bytes, unknown and special tokens."""
    tokens, size = len(found["ids"]), len(found["text"].encode())
    parts = [f"{counted(tokens, 'tokens')}, {counted(len(found['text']), 'characters')}, {counted(size, 'bytes')}"]
    if tokens:
        parts.append(f"{size / tokens:.2f} bytes per token")
    parts += [
        f"{sum(found[name]):,} {name} ({mark})"
        for name, mark in (("unknown", "?"), ("special", "*"))
        if any(found[name])
    ]
    return " · ".join(parts)


def print_preview(command: "Maker", sources: Sequence[str], values: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what a command would read of some sources; nothing is written."""
    from wordpipe.stages import load_named

    seen: Preview = load_named(command.preview)(sources, **values)
    if as_json:
        click.echo(json.dumps(seen.to_json(), ensure_ascii=False))
        return
    for line in preview_lines(seen):
        click.echo(escaped(line))
    click.echo(f"estimate: {amounts(seen.estimate)}; nothing was written")


def preview_lines(seen: "Preview") -> Iterator[str]:
    """Yield lines for people about what would be read, and what would be passed over."""
    wide = max((len(kind.title) for kind in seen.kinds), default=0)
    yield f"{counted(seen.files, 'files')} would be read, {human_bytes(seen.bytes)}:"
    for kind in seen.kinds:
        needs = f"   left out without a library: {kind.missing}" if kind.missing else ""
        yield f"  {kind.title:<{wide}}  {kind.files:>7,}  {human_bytes(kind.bytes):>9}{needs}".rstrip()
    if seen.passed_over:
        yield f"{counted(sum(kind.files for kind in seen.passed_over), 'files')} would be passed over:"
        shown, others = seen.passed_over[:_KINDS_SHOWN], seen.passed_over[_KINDS_SHOWN:]
        wide = max(len(kind.kind) for kind in shown)
        for one in shown:
            size = human_bytes(one.bytes) if one.bytes else ""
            yield f"  {one.kind:<{wide}}  {one.files:>7,}  {size:>9}   {one.way}".rstrip()
        if others:
            more = counted(sum(one.files for one in others), "files")
            yield f"  and {more} of {len(others):,} other kinds; to list all kinds: --json"
    for what, names in seen.unreadable.items():
        more = ", …" * (len(names) > _NAMES_SHOWN)
        yield f"{counted(len(names), 'files')} cannot be read: {what}: {', '.join(names[:_NAMES_SHOWN])}{more}"
