"""`wordpipe map`: word vectors as a page to look at."""

import json
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH, ExampleCommand
from wordpipe.cli.output import counted, human_bytes, say
from wordpipe.cli.progress import ProgressDrawer

_WORDS = "Show the N commonest words, 3 to 50000.  [default: 5000; with --near: the 500 nearest; with --only: all]"
_LAYOUT = "How words get their places; auto is umap where umap-learn is installed, else pca.  [default: auto]"


@click.command(
    "map",
    cls=ExampleCommand,
    example="wordpipe map run/words -o map.html\nwordpipe map run/words --near bread --words 300 -o bread.html",
    json="Print one JSON object on stdout.",
    quiet="Print nothing but errors.",
    verify="artifact's",
)
@click.argument("words", metavar="WORDS", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The HTML file to write.")
@click.option("--words", "n_words", type=int, metavar="N", help=_WORDS)
@click.option("--only", type=PATH, metavar="FILE", help="Show only the words in FILE, one per line.")
@click.option("--near", metavar="WORD", help="Show WORD and the words nearest to it.")
@click.option("--layout", type=click.Choice(["auto", "umap", "pca"]), default="auto", help=_LAYOUT)
@click.option("--groups", type=int, default=10, metavar="N", help="Colours, 1 to 12.  [default: 10]")
def map_(words: Path, output: Path, verify: bool, as_json: bool, quiet: bool, **drawn: Any) -> None:
    """Draw a map of word vectors as one HTML page.

    The page needs no network and nothing beside it: zoom, search, and choose a word to see its true nearest neighbours.
    UMAP keeps neighbours together, and compiles itself first, which takes some twenty seconds.
    """
    from wordpipe.stages import RunOptions, map_words

    with ProgressDrawer(quiet=quiet) as draw:
        made = map_words(words, output, run=RunOptions(report=draw, verify=verify), **drawn)
    if as_json:
        click.echo(json.dumps(made, ensure_ascii=False))
    elif not quiet:
        say(f"{counted(made['words'], 'words')} → {output}  ({human_bytes(made['bytes'])})")
        kept = f"{made['layout'].upper()} keeps {made['neighbours_kept']:.2f}"
        say(f"{kept} of the 10 nearest neighbours of a word near it")
