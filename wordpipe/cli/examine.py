"""Commands that examine artifacts: `diff`, `map`, `plot`, `plan`, `duplicates`, `attention`, and `report` on a pipeline."""

import json
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import FORCE, PATH, ExampleCommand, number
from wordpipe.cli.output import (
    ProgressDrawer,
    counted,
    emphasised,
    escaped,
    human_bytes,
    human_count,
    human_seconds,
    one_line,
    safe_text,
    say,
)
from wordpipe.cli.query_answers import answer_lines, piped_cells, styled

_LIST_WIDTH = 8  # of words and of neighbours, at least
_NAMED = 10  # new or gone words named in a line
_WORDS = (
    "Show the N most frequent words, 3 to 50000, or N texts of an index, 3 to 100000.  "
    "[default: 5000; with --near: the 500 nearest; with --only: all; of an index: all, up to 100000]"
)
_LAYOUT = (
    "Method that places the words or texts; auto: umap if umap-learn is installed, of an index up to 10000 texts, otherwise "
    "pca.  [default: auto]"
)
_SPARKS = 40
_AXES = click.Choice(["tokens", "steps", "seconds"])
_START = "Do not draw the first N tokens, steps or seconds (the unit of --axis)."
_GROUP_ROWS = 10  # of a group, for people: one of 1,503 texts filled the screen fifty times
_SHOWN = 8  # heads named as the most important ones
_STATED = 8  # artifacts of a state
_MANY = 20  # rows in one group: of fewer texts more than half may well be copies


@click.command(
    cls=ExampleCommand,
    example="wordpipe diff run/1990 run/2020\nwordpipe diff run/1990 run/2020 --word cloud --word web",
    json="Print one JSON object: totals, moved words with all neighbours, and words that only one table contains.",
    quiet="Print nothing but the words and errors.",
    verify="artifacts'",
)
@click.argument("old", metavar="A", type=click.Path(path_type=Path))
@click.argument("new", metavar="B", type=click.Path(path_type=Path))
@click.option("-n", type=int, default=20, help="Number of words to show.  [default: 20]")
@click.option("-k", type=int, default=10, help="Number of neighbours to compare for each word.  [default: 10]")
@click.option(
    "--words", type=int, default=20_000, metavar="N",
    help="Compare the N most frequent words that are in both tables; time grows with the square of N.  [default: 20000]",
)  # fmt: skip
@click.option("--word", "only", multiple=True, metavar="WORD", help="Show only this word; may be repeated.")
def diff(old: Path, new: Path, only: tuple[str, ...], verify: bool, as_json: bool, quiet: bool, **numbers: int) -> None:
    """Show which words moved between two tables of word vectors.

    A and B: words artifacts of two years, two domains or two runs. A word moved if its two vectors are far apart after the
    tables are aligned and its neighbours changed, both more than for other words of the same frequency: by `surprise`
    standard deviations. In a pipe, each word is one line, separated by tabs: surprise, word, moved (1 - cosine), kept (share
    of its neighbours), neighbours lost, neighbours gained.
    """
    from wordpipe.errors import InputError
    from wordpipe.stages import RunOptions
    from wordpipe.stages import diff as compare

    with ProgressDrawer(quiet=quiet) as draw:
        found = compare(old, new, only=only, run=RunOptions(report=draw, verify=verify), **numbers)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    elif sys.stdout.isatty():
        _print_table(found["words"])
    else:
        for word in found["words"]:
            click.echo(safe_text("\t".join(_cells(word))))
    if not quiet:
        for line in _remarks(found, old, new):
            say(line)
    if only and not found["words"]:
        hint = "to see the neighbours of a word in one table: wordpipe query WORDS WORD"
        raise InputError("none of the given words can be compared", hint=hint)


def _cells(word: dict[str, Any]) -> list[str]:
    """Return the cells of a moved word in `diff`: surprise, word, moved, kept, lost, gained."""
    before, after = word["neighbours_a"], word["neighbours_b"]
    lists = [[near for near in before if near not in after], [near for near in after if near not in before]]
    joined = [", ".join(map(one_line, some)) for some in lists]
    return [f"{word['surprise']:.2f}", one_line(word["word"]), f"{word['moved']:.2f}", f"{word['kept']:.2f}", *joined]


def _print_table(words: list[dict[str, Any]]) -> None:
    """Print the moved words of `diff`, one line each; lists of neighbours are cut to the room there is."""
    from rich.text import Text

    from wordpipe.cli.tables import console, new_table

    table = new_table("surprise", "word", "moved", "kept")
    table.expand = True
    for head in ("lost", "gained"):
        table.add_column(Text(head), no_wrap=True, overflow="ellipsis", ratio=1, min_width=_LIST_WIDTH)
    for word in words:
        table.add_row(*(Text(safe_text(cell)) for cell in _cells(word)))
    console().print(table)


def _remarks(found: dict[str, Any], old: Path, new: Path) -> list[str]:
    """Return the lines below the table of `diff`: the number of words compared, and the words of one table only."""
    lines = [
        f"compared {found['compared']:,} of the {counted(found['shared'], 'words')} that are in both tables",
        f"on average, {found['neighbours_kept']:.0%} of the {found['k']} nearest neighbours of a word are the same in both "
        "tables; "
        f"mean cosine of the two vectors of a word after alignment: {found['alignment_cosine']:.2f}",
    ]
    for path, count, words in ((old, found["only_in_a"], found["gone"]), (new, found["only_in_b"], found["new"])):
        named = ", ".join(one["word"] for one in words[:_NAMED]) + (", …" if count > _NAMED else "")
        lines += [f"words that are only in {path}: {count:,} ({named})"] if words else []
    for word, about in found["unknown"].items():
        if about["only_in"]:
            lines.append(f"the word {word} is only in {old if about['only_in'] == 'a' else new}")
        else:
            near = f" (did you mean {', '.join(about['near'])}?)" if about["near"] else ""
            lines.append(f"unknown word: {word}{near}")
    if not found["words"] and not found["unknown"]:
        lines.append("no word moved more than other words of the same frequency did")
    return lines


@click.command(
    "map",
    cls=ExampleCommand,
    example="wordpipe map run/words -o map.html\nwordpipe map run/words --near bread --words 300 -o bread.html\n"
    "wordpipe map run/index -o texts.html",
    json="Print one JSON object on stdout.",
    quiet="Print nothing but errors.",
    verify="artifact's",
)
@click.argument("words", metavar="WORDS|INDEX", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The HTML file to write.")
@click.option("--words", "n_words", type=int, metavar="N", help=_WORDS)
@click.option("--only", type=PATH, metavar="FILE", help="Show only the words in FILE, one per line.")
@click.option("--near", metavar="WORD", help="Show WORD and its nearest words.")
@click.option("--layout", type=click.Choice(["auto", "umap", "pca"]), default="auto", help=_LAYOUT)
@click.option("--groups", type=int, default=10, metavar="N", help="Number of coloured groups, 1 to 12.  [default: 10]")
@FORCE
def map_(words: Path, output: Path, force: bool, verify: bool, as_json: bool, quiet: bool, **drawn: Any) -> None:
    """Draw a map of words or of texts as one HTML page.

    WORDS|INDEX: a words artifact, or an index over texts with vectors.

    The page needs no network and no other files. Zoom, search, and choose a word to see its true nearest neighbours; of
    texts, choose the field that colours them, or draw around some to list them. UMAP keeps neighbours together; its start
    takes about twenty seconds, in which it compiles itself.
    """
    from wordpipe.stages import RunOptions, map_words

    with ProgressDrawer(quiet=quiet) as draw:
        made = map_words(words, output, replace=force, run=RunOptions(report=draw, verify=verify), **drawn)
    if as_json:
        click.echo(json.dumps(made, ensure_ascii=False))
    elif not quiet:
        things = "texts" if "texts" in made else "words"
        say(f"{counted(made[things], things)} → {output}  ({human_bytes(made['bytes'])})")
        say(
            f"{made['layout'].upper()} map: on average, {made['neighbours_kept']:.0%} of the 10 nearest neighbours of a "
            f"{things[:-1]} are also near the {things[:-1]} on the map"
        )


@click.command(
    cls=ExampleCommand,
    example="wordpipe plot run/model -o curve.png\nwordpipe plot run/adamw run/muon --axis steps --log -o both.svg\n"
    "wordpipe plot run/model",
    json="Print one JSON object on stdout, with all logged values.",
    quiet="Print only errors and the lines of text.",
    verify="artifacts'",
)
@click.argument("trained", nargs=-1, required=True, metavar="MODEL|WORDS...", type=PATH)
@click.option(
    "-o", "--output", type=PATH, help="The .png or .svg file to write; without this option, lines of text are printed."
)
@click.option("--axis", type=_AXES, default="tokens", help="Unit of the horizontal axis.  [default: tokens]")
@click.option(
    "--log", is_flag=True, help="Use a logarithmic horizontal axis, which shows the beginning in more detail."
)
@click.option("--start", type=click.FloatRange(min=0), default=0, metavar="N", help=_START)
@FORCE
def plot(
    trained: tuple[Path, ...], output: Path | None, force: bool, verify: bool, as_json: bool, quiet: bool, **drawn: Any
) -> None:
    """Draw loss and learning rate of trainings, side by side.

    A training that still runs, or was stopped, is drawn from its last checkpoint: give its output folder as MODEL.
    The dotted line is the loss of a model that knows only the frequency of each token.
    """
    from wordpipe.stages import RunOptions
    from wordpipe.stages import plot as draw_plot

    with ProgressDrawer(quiet=quiet) as draw:
        found = draw_plot(trained, output, replace=force, run=RunOptions(report=draw, verify=verify), **drawn)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    for one in found["runs"]:
        steps = f"{one['steps']:,} {'steps' if one['kind'] == 'model' else 'epochs'}"
        head = f"{one['name']}: {steps}, {human_count(one['tokens'])} tokens, {human_seconds(one['seconds'])}"
        head += "" if one["finished"] else ", not finished"
        if output is None:
            click.echo(safe_text("\n  ".join([head, *_lines(one)])))
        elif not quiet:
            say(head)
    if output is not None and not quiet:
        say(f"curves → {output}  ({human_bytes(found['bytes'])})")


def _lines(one: dict[str, Any]) -> Iterator[str]:
    """Yield the curves of `plot` for a training as lines of text: losses, learning rate."""
    from wordpipe.pages import trend

    split = {name: [row for row in one["log"] if row["split"] == name] for name in ("train", "valid")}
    for name, rows, column, form in (
        ("training loss", split["train"], "loss", ".3f"),
        ("held-out loss", split["valid"], "loss", ".3f"),
        ("learning rate", split["train"] or split["valid"], "lr", ".3g"),
    ):
        values = [row[column] for row in rows]
        if any(value is not None for value in values):
            yield trend(f"{name:15}", values, _SPARKS, form=form)
    if one["unigram_entropy"] is not None:
        entropy = f"{'unigram entropy':15} {one['unigram_entropy']:.3f}"
        yield f"{entropy}  (the loss of a model that knows only token frequencies)"


@click.command(
    cls=ExampleCommand,
    example="wordpipe duplicates run/sentences --threshold 0.95",
    json="Print one JSON object: totals, and all rows of the groups that are shown.",
    quiet="Print nothing but the groups and errors.",
    verify="artifact's",
)
@click.argument("artifact", metavar="INDEX|SENTENCES", type=click.Path(path_type=Path))
@click.option(
    "--threshold", type=click.FloatRange(-1, 1), default=0.95, metavar="COSINE",
    help="Link two texts if their cosine is at least this value.  [default: 0.95]",
)  # fmt: skip
@click.option(
    "-n", type=click.IntRange(0, 1_000_000), default=20,
    help="Number of groups to show, the largest first, with up to ten texts each.  [default: 20]",
)  # fmt: skip
def duplicates(artifact: Path, **options: Any) -> None:
    """Report groups of texts whose vectors are nearly the same.

    Texts that are linked, directly or through other texts, form a group; so two texts of a group may be less similar than the
    threshold. Up to 200,000 rows, all pairs are compared; with more rows, the index is searched for the nearest rows of each.
    """
    from wordpipe.cli.tables import answer
    from wordpipe.stages import duplicates as stage

    answer(stage, artifact, show=_show_groups, remarks=_group_remarks, **options)


def _show_groups(found: dict[str, Any]) -> None:
    """Print the groups of `duplicates`, with the cosine as the score: lines for people, cells with tabs in a pipe."""
    from wordpipe.search import Analyser
    from wordpipe.stages import PassageFinder

    finder = PassageFinder("", Analyser("none"))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for at, group in enumerate(found["shown"], start=1):
        click.echo(emphasised(f"# group {at}: {len(group):,} texts"))
        for row in group[:_GROUP_ROWS]:
            hit = {**row, "score": row["cosine"]}
            lines = ["\t".join(piped_cells(hit))] if width is None else map(styled, answer_lines(hit, finder, width))
            for line in lines:
                click.echo(line)
        if len(group) > _GROUP_ROWS:
            click.echo(f"… {len(group) - _GROUP_ROWS:,} more")


def _group_remarks(found: dict[str, Any]) -> list[str]:
    """Return the lines below the groups of `duplicates`."""
    rows = counted(found["rows"], "rows")
    lines = [
        f"number of groups: {found['groups']:,}, with {found['rows_in_groups']:,} of {rows}; "
        f"number of row pairs with a cosine of at least {found['threshold']:g}: {found['pairs']:,}; "
        f"{'all pairs were compared' if found['exact'] else 'only pairs that the index found were compared'}"
    ]
    if found["largest"] >= _MANY and 2 * found["largest"] > found["rows"]:
        lines.append(
            f"one group contains {found['largest']:,} of {rows}, because at a threshold of {found['threshold']:g} the vectors "
            f"do not distinguish the texts; raise --threshold, or find the cause with: wordpipe doctor "
            f"{shlex.quote(found['path'])}"
        )
    elif found["rows"] >= 2 * _MANY and 2 * found["rows_in_groups"] > found["rows"]:
        higher = f"{1 - (1 - found['threshold']) / 5:.4g}"
        lines.append(
            f"{found['rows_in_groups'] / found['rows']:.0%} of the rows are in groups. If A is similar to B, and B is similar "
            f"to C, then A, B and C are in one group. To get smaller groups, use --threshold {higher}"
        )
    return lines


@click.command(
    cls=ExampleCommand,
    example="wordpipe plan 30m run/tokens\nwordpipe plan 1h --device cuda",
    json="Print one JSON object.",
)
@click.argument("time", metavar="TIME")
@click.argument("text", metavar="[TOKENS|CORPUS|SOURCE]", required=False, type=PATH)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Where to train.")
@click.option("--command", metavar="COMMAND", default="train mlm", help="The training command.  [default: train mlm]")
def plan(time: str, text: Path | None, device: str, command: str, as_json: bool) -> None:
    """Recommend a preset to train in a given time, with steps, memory and disk space. Makes nothing.

    TIME: for example 30m, 1h30m or 90s. The training speed comes from earlier runs on this machine; without earlier runs, a
    test of half a second measures the speed.
    """
    from wordpipe.cli.tables import console, new_table
    from wordpipe.stages import plan as look

    # the presets that fit, as JSON or as a table
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
    # what the figures stand on, and the next command
    for line in _plan_remarks(found):
        say(line)
    if found["recommended"] is not None:
        tokens = "TOKENS" if text is None else shlex.quote(str(text))
        minutes = f"{found['seconds'] / 60:g}"
        say(f"next: wordpipe {command} {tokens} -o run/model --preset {found['recommended']} --minutes {minutes}")


def _plan_remarks(found: dict[str, Any]) -> list[str]:
    """Return the lines below the table of `plan`."""
    factor = max(row["spread"] for row in found["presets"])
    lines = [f"training speed: {found['basis']}; the real speed can be up to {factor:g} times higher or lower"]
    if known := found["measured"]:
        lines.append(
            f"for comparison: after {known['tokens'] / 1e6:.1f} million tokens of Wikipedia, the preset {known['preset']} had "
            f"a held-out loss of {known['loss']} (a model that knows only token frequencies: {known['frequencies']}); "
            "the loss on your texts will be different"
        )
    if found["recommended"] is None:
        return [*lines, "the time is too short for every preset"]
    return [
        *lines,
        f"use {found['recommended']}: it is the largest preset that can make a few hundred steps in this time, "
        "or the smallest preset",
    ]


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
@click.option("-o", "--output", type=PATH, help="The HTML file to write; required without --json.")
@click.option(
    "--data",
    multiple=True,
    metavar="CORPUS",
    help="Text used to name heads by their behaviour; may be repeated.",
)
@click.option(
    "--importance", is_flag=True, help="For each head, measure how much the loss on --data rises without this head."
)
@number("--sample", 128, 10_000, "Number of tokens of --data to read.")
@FORCE
def attention(
    model: Path, text: str, second: str | None, output: Path | None, force: bool, verify: bool, as_json: bool, quiet: bool,
    data: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Show the attention of every layer and head of a model over a text, as one HTML page.

    The weights are exact: the model's result is computed from the same weights. SECOND is the second text of a pair; for an
    encoder-decoder, it is the target text (if not given: the text that the model writes). Classifiers and taggers
    (`train classifier`, `train tagger`) work too. The page needs no network and no other files.

    Attention is not explanation: --importance measures how much the loss rises without each head.
    """
    from wordpipe.errors import ConfigError
    from wordpipe.stages import RunOptions
    from wordpipe.stages import attention as look

    if output is None and not as_json:
        raise ConfigError(
            "no output was requested",
            where="output",
            hint="use -o page.html to write the page, or --json to print the numbers",
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
    """Say below `attention` what the model says of the text, the names of its heads, and what was written."""
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
            say(f"most important heads (layer.head, rise of the loss without the head): {best or 'none'}")
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
    help="The pipeline config, used to find stale artifacts.  [default: wordpipe.toml in FOLDER or its parent]",
)  # fmt: skip
@FORCE
def report(
    folder: Path, output: Path, config: Path | None, force: bool, verify: bool, as_json: bool, quiet: bool
) -> None:
    """Write a report on all artifacts of a folder as one HTML page.

    The report shows which artifact was made from which, with sizes and times; the data read and dropped; tokenizers; training
    curves; quality; the index; settings; versions; warnings; and stale artifacts. To show evaluations too, save the output of
    `evaluate --json` as .json files in FOLDER. The page needs no script, no network and no other files. It can be printed.
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
                more = f", and {len(names) - _STATED} more" if len(names) > _STATED else ""
                say(f"{state}: {', '.join(map(escaped, names[:_STATED]))}{more}")
        for note in made["notes"]:
            say(f"note: {escaped(note)}")
