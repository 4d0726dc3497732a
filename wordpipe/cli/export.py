"""`wordpipe export`: an artifact in another program's format."""

import json
from pathlib import Path

import click

from wordpipe.cli.output import human_bytes, say
from wordpipe.cli.stage import ExampleCommand

__all__ = ["export"]

FORMATS = ("word2vec-text", "word2vec-binary")


@click.command(cls=ExampleCommand, example="wordpipe export run/words --to word2vec-text -o words.txt")
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="The format, read by gensim and others.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def export(artifact: Path, form: str, output: Path, as_json: bool, quiet: bool) -> None:
    """Write word vectors in the formats of the original word2vec tool.

    A model artifact needs no export: its folder is a Hugging Face folder as it is.
    """
    from wordpipe.stages.export import export_words

    written = export_words(artifact, form, output)
    if as_json:
        click.echo(json.dumps(written, ensure_ascii=False))
    elif not quiet:
        say(f"{written['words']:,} words of {written['dim']} numbers → {output}  ({human_bytes(written['bytes'])})")
