"""`wordpipe doctor`: a space of vectors before and after each transform, and what it finds, for people, or as JSON."""

from collections.abc import Iterator
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
    json="Print one JSON object, with the figures of every transform, and what is found.",
    quiet="Print nothing but the table and errors.",
    verify="artifact's",
)
@click.argument("artifact", type=click.Path(path_type=Path), metavar="SENTENCES|WORDS|INDEX")
@number("--sample", 128, 10_000, "Vectors to sample; half of them fit, half are evaluated.")
def doctor(artifact: Path, quiet: bool, as_json: bool, **options: Any) -> None:
    """Examine a space of vectors: is it crowded, flat or ruled by hubs, does it find, and what would mend it.

    The figures are given as the vectors are and after each transform, which is fitted on one half of the sample and evaluated
    on the other. "?" marks what is weak, "!" what is sick.

    Of texts it is measured how well vectors and words find what they should: the text of a title, the other rows of a row's
    document, or what a cut was taken from. Of an index that is known since it was built.
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
    for line in _finds(found["finds"], found["counts"]["rows"]) if "finds" in found else ():
        screen.print(line)
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


def _finds(finds: dict[str, Any], rows: int) -> Iterator[str]:
    """What vectors and words find of what they should, and what that means; `rows` are all that there are."""
    from wordpipe.stages import QUERIES_MEASURED

    gap = " " * 9
    if (measured := finds["measured"]) is None:
        yield f"finds    not measured: {finds['says']}"
    else:
        dense, lexical, both = (measured["ndcg_at_10"][mode] for mode in ("dense", "lexical", "hybrid"))
        agreement = "" if finds["agreement"] is None else f"; agreement {finds['agreement']:.2f}"
        yield f"finds    nDCG@10 {dense:.2f} by vectors, {lexical:.2f} by words, {both:.2f} by both{agreement}"
        yield f"{gap}on {measured['queries']:,} {QUERIES_MEASURED[measured['by']]}"
        if finds["rows"] < rows:
            yield f"{gap}among {finds['rows']:,} of {rows:,} texts, evenly spread"
        if finds["trained"]:
            yield f"{gap}(this flatters vectors that learned from pairs, as these did)"
        yield f"{finds['state']:<8} {finds['says']}"
    if finds["measure"] is not None:
        yield f"{gap}{'measure it' if measured is None else 'measure agreement too'}, with the index made anew:"
        yield f"{gap}  {finds['measure']}"


def _conclusion(found: dict[str, Any]) -> str:
    """What to do next: about the space, and where its vectors do not find, about that."""
    finds = found.get("finds", {"mend": None})
    if finds["mend"] is None:
        return _about_space(found)
    sick = any(one["state"] == "sick" for one in found["verdicts"]["none"])
    before = f"{_about_space(found)}\nAnd the" if sick else "Nothing else is sick, but the"
    if "embed" in finds["mend"]:
        return f"{before} vectors are not the encoder's: embed the texts anew:\n  {finds['mend']}"
    what = "train longer or on more text, for search:"
    if not finds["trained"]:
        what = "train for search, or embed\nwith another --pooling or --transform:"
    return f"{before} vectors do not find: {what}\n  {finds['mend']}"


def _about_space(found: dict[str, Any]) -> str:
    """What to do about the figures of the space."""
    states = {kind: [one["state"] for one in some] for kind, some in found["verdicts"].items()}
    ill = {kind: len(some) - some.count("healthy") for kind, some in states.items()}
    if (mend := found["mend"]) is not None:
        best = mend["transform"]
        return f"{counted(ill['none'], 'complaints')} now, {ill[best]} after {best}:\n  {mend['command']}"
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
