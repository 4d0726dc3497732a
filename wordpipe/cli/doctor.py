"""`wordpipe doctor`: a space of vectors before and after each transform, in a table for people, or as JSON."""

from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import ExampleCommand
from wordpipe.cli.evaluate import number
from wordpipe.cli.output import counted
from wordpipe.cli.tables import answer, console, new_table

_NAMES = {"none": "as it is", "centre": "centre", "remove-components": "remove-components", "whiten": "whiten"}
_MARKS = {"healthy": "", "weak": " ?", "sick": " !"}
_FORMS = {"effective_rank": ".1f", "orphans": ".1%", "twins": ".1%"}


@click.command(
    cls=ExampleCommand,
    example="wordpipe doctor run/sentences\nwordpipe doctor run/words --json",
    json="Print one JSON object, with the figures of every transform.",
    quiet="Print nothing but the table and errors.",
    verify="artifact's",
)
@click.argument("artifact", type=click.Path(path_type=Path), metavar="SENTENCES|WORDS|INDEX")
@number("--sample", 128, 10_000, "Vectors to sample; half of them fit, half are evaluated.")
def doctor(artifact: Path, quiet: bool, as_json: bool, **options: Any) -> None:
    """Examine a space of vectors: is it crowded, flat or ruled by hubs, and what would mend it.

    The figures are given as the vectors are and after each transform, which is fitted on one half of the sample and evaluated
    on the other. "?" marks what is weak, "!" what is sick.
    """
    from wordpipe.stages import doctor as examine

    quiet |= as_json
    answer(examine, artifact, show=_show, remarks=_remarks, quiet=quiet, as_json=as_json, **options)


def _show(found: dict[str, Any]) -> None:
    """A table of the figures in every space, what their states mean, and what to do."""
    from wordpipe.stages import NORMS

    screen, spaces, states = console(), found["spaces"], found["verdicts"]

    def named(what: str) -> str:
        return what.replace("text", "word") if found["kind"] == "words" else what

    screen.print(_counted(found))
    table = new_table("", *(_NAMES[kind] for kind in spaces), "healthy")
    marks = {(kind, one["name"]): _MARKS[one["state"]] for kind in spaces for one in states[kind]}
    for norm in NORMS:
        cells = (_cell(norm.name, spaces[kind]) + marks[kind, norm.name] for kind in spaces)
        table.add_row(named(norm.what), *cells, norm.healthy)
    screen.print(table)
    for one in states["none"]:
        screen.print(f"{one['state']:<8} {named(one['says'])}")
    screen.print(_conclusion(found))


def _cell(name: str, figures: dict[str, Any]) -> str:
    """One figure; the rank with the number of dimensions that it is out of."""
    shown = format(figures[name], _FORMS.get(name, ".3f"))
    return f"{shown} of {figures['dim']:,}" if name == "effective_rank" else shown


def _counted(found: dict[str, Any]) -> str:
    """What was read, and what is wrong with single vectors."""
    counts = found["counts"]
    parts = [f"{counted(counts['rows'], 'vectors')} of {found['dim']:,} numbers, {counts['sampled']:,} looked at"]
    for name, what in (("not_finite", "NOT FINITE"), ("zero", "zero"), ("repeated_vectors", "equal to an earlier one")):
        parts += [f"{counts[name]:,} {what}"] if counts[name] else []
    parts += [counted(counts["repeated_texts"], "repeated texts")] if counts["repeated_texts"] else []
    return "; ".join(parts)


def _conclusion(found: dict[str, Any]) -> str:
    """What to do next."""
    states = {kind: [one["state"] for one in some] for kind, some in found["verdicts"].items()}
    ill = {kind: len(some) - some.count("healthy") for kind, some in states.items()}
    if (mend := found["mend"]) is not None:
        best = mend["transform"]
        return f"{ill['none']} complaints now, {ill[best]} after {best}:\n  {mend['command']}"
    if "sick" in states["none"]:
        what = "on more text or for more --epochs" if found["kind"] == "words" else "or by `wordpipe train contrastive`"
        return f"No transform mends this: train longer, {what}."
    return "Nothing is sick: leave it as it is." if ill["none"] else "The space is healthy."


def _remarks(found: dict[str, Any]) -> list[str]:
    """What the figures rest on."""
    was = found["transform"]
    if was in (None, "none"):
        return []
    return [f"these vectors went through {was} already; the columns show what comes on top of it"]
