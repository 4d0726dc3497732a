"""`wordpipe doctor`: the health of a space of vectors or of a model, what setting mends it; for people, or as JSON."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import ExampleCommand
from wordpipe.cli.evaluate.measures import number
from wordpipe.cli.output import counted
from wordpipe.cli.tables import answer, console, new_table

_FORMS = {"orphans": ".1%", "twins": ".1%"}
_GAP = " " * 9


@click.command(
    cls=ExampleCommand,
    example="wordpipe doctor run/sentences\nwordpipe doctor run/words --json\nwordpipe doctor run/model --data run/corpus",
    json="Print one JSON object, with the figures of every transform, and what is found.",
    quiet="Print nothing but the figures and errors.",
    verify="artifact's",
)
@click.argument("artifact", type=click.Path(path_type=Path), metavar="SENTENCES|WORDS|INDEX|MODEL")
@click.option("--data", multiple=True, metavar="CORPUS", help="Measure a model on this text; may be repeated.")
@number("--sample", 128, 10_000, "Vectors to sample; half of them fit, half are evaluated. Of a model: tokens.")
def doctor(artifact: Path, data: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> None:
    """Examine a space of vectors: is it crowded, flat or ruled by hubs, does it find, and what would mend it.

    What is weak or sick is named, and at the end the setting that mends it, or that only more text helps. Where a transform
    mends, its figures stand beside those of now; it is fitted on one half of the sample and evaluated on the other.

    Of texts it is measured how well vectors and words find what they should: the text of a title, the other rows of a row's
    document, or what a cut was taken from. Of an index that is known since it was built.

    Of a model (of train mlm, clm, seq2seq, denoising, classifier or tagger, or a folder of transformers) the loss on
    held-out text is measured, as it is and without each layer and each head: on what it was made of, or on --data.
    """
    from wordpipe.stages import doctor as examine

    quiet |= as_json
    answer(
        examine,
        artifact,
        show=_show,
        remarks=_remarks,
        quiet=quiet,
        as_json=as_json,
        data=list(data) or None,
        **options,
    )


def _show(found: dict[str, Any]) -> None:
    """A table of the figures, what is not healthy of them, what is found, and what to do."""
    if found["kind"] == "model":
        from wordpipe.cli.evaluate.model_health import show_model

        show_model(found)
        return
    from wordpipe.stages import NORMS

    screen, spaces, states = console(), found["spaces"], found["verdicts"]

    def say(line: str, indent: str = "") -> None:
        if not line.lstrip().startswith("wordpipe "):  # a command is to be copied as it is
            line = textwrap.fill(line, screen.width, subsequent_indent=indent, break_on_hyphens=False)
        screen.print(line, soft_wrap=True)

    def named(what: str) -> str:
        return what.replace("text", "word") if found["kind"] == "words" else what

    say(_counted(found))
    shown = {"as it is": "none", **({} if found["mend"] is None else {(best := found["mend"]["transform"]): best})}
    table = new_table("", *shown, "healthy")
    for place, norm in enumerate(NORMS):
        cells = (_cell(norm.name, spaces[kind], states[kind][place]["state"]) for kind in shown.values())
        table.add_row(named(norm.what), *cells, norm.healthy)
    screen.print(table)
    for one in states["none"]:
        if one["says"]:
            say(f"{one['state']:<8} {named(one['says'])}", _GAP)
    for line in _finds(found["finds"], found["counts"]["rows"]) if "finds" in found else ():
        say(line, _GAP)
    for line in _advice(found):
        say(line)


def _cell(name: str, figures: dict[str, Any], state: str) -> str:
    """One figure, and its state where it is not healthy."""
    shown = format(figures[name], _FORMS.get(name, ".2f"))
    if name == "effective_rank":
        shown = f"{figures[name]:.0f} of {figures['directions']:,}"
    return shown if state == "healthy" else f"{state} {shown}"


def _counted(found: dict[str, Any]) -> str:
    """What was read, and what is wrong with single vectors."""
    counts = found["counts"]
    parts = [f"{counted(counts['rows'], 'vectors')} of {found['dim']:,} numbers, {counts['sampled']:,} looked at"]
    if counts["without_vector"]:
        parts.append(f"{counts['without_vector']:,} texts without one, which words alone find")
    for name, what in (("not_finite", "NOT FINITE"), ("zero", "zero"), ("repeated_vectors", "equal to an earlier one")):
        parts += [f"{counts[name]:,} {what}"] if counts[name] else []
    parts += [counted(counts["repeated_texts"], "repeated texts")] if counts["repeated_texts"] else []
    return "; ".join(parts)


def _finds(finds: dict[str, Any], rows: int) -> Iterator[str]:
    """What vectors and words find of what they should, and what that means; `rows` are all that there are."""
    from wordpipe.stages import QUERIES_MEASURED

    if (measured := finds["measured"]) is None:
        yield f"finds    not measured: {finds['says']}"
        if finds["measure"] is not None:
            yield f"{_GAP}measure it, with the index made anew:"
            yield f"{_GAP}  {finds['measure']}"
        return
    dense, lexical, both = (measured["ndcg_at_10"][mode] for mode in ("dense", "lexical", "hybrid"))
    among = f", among {finds['rows']:,} of {rows:,} texts" if finds["rows"] < rows else ""
    yield f"finds    asked with {measured['queries']:,} {QUERIES_MEASURED[measured['by']]}{among}:"
    yield f"{_GAP}{dense:.2f} by vectors, {lexical:.2f} by words, {both:.2f} by both (nDCG@10; 1 is best)"
    if "lexical_twice" in (found := measured["ndcg_at_10"]):
        twice, chance = found["lexical_twice"], found["random_vectors"]
        yield f"{_GAP}without these vectors {twice:.2f} by words asked twice, {chance:.2f} by both with random vectors"
    yield f"{finds['state']:<8} {finds['says']}"
    if finds["trained"] and finds["state"] == "healthy":
        yield f"{_GAP}(vectors that learned from pairs, as these did, find such too well)"


def _advice(found: dict[str, Any]) -> Iterator[str]:
    """What to do: about the space, and where its vectors do not find, about that; a setting is named as option and key."""
    finds = found.get("finds", {"state": "unknown", "mend": None, "trained": False})
    states = {kind: [one["state"] for one in some] for kind, some in found["verdicts"].items()}
    ill = {kind: len(some) - some.count("healthy") for kind, some in states.items()}
    more = "more text or more --steps (in wordpipe.toml: steps in the stage that trains the encoder)"
    if found["kind"] == "words":
        more = "more text or more --epochs (in wordpipe.toml: epochs in the stage of train word2vec)"
    if (mend := found["mend"]) is not None:
        best = mend["transform"]
        now = f"{counted(ill['none'], 'complaints')} now, {ill[best]} with --transform {best}"
        yield f'{now} (in wordpipe.toml: transform = "{best}" in the stage of embed):'
        yield f"  {mend['command']}"
    elif (worse := found["worse"]) is not None:
        yield (
            f"--transform {worse['transform']} would make the space more even, and find less ({worse['dense_after']:.2f} by "
            f"vectors, where it is {worse['dense']:.2f} now): leave it as it is."
        )
    elif "sick" in states["none"]:
        yield f"No --transform mends this; {more} may."
    if finds["mend"] is not None and "embed" in finds["mend"]:
        yield "The vectors are not the encoder's. No setting mends this: embed the texts anew:"
        yield f"  {finds['mend']}"
    elif finds["mend"] is not None:
        way = "Another --pooling or --transform may help (in wordpipe.toml: pooling, transform in the stage of embed)"
        way = f"For search {more} may help" if finds["trained"] else way
        yield f'The vectors do not find. {way}; or train for search (command = "train static", goal = "search"):'
        yield f"  {finds['mend']}"
    elif finds["state"] == "weak":
        yield f"For vectors that find as much as words, {more} may help; `query` asks by both."
    elif "sick" not in states["none"]:
        yield "Nothing is sick: leave it as it is." if ill["none"] else "The space is healthy."


def _remarks(found: dict[str, Any]) -> list[str]:
    """What the figures rest on."""
    was = found.get("transform")
    return [] if was in (None, "none") else [f"these vectors went through --transform {was} already"]
