"""`wordpipe export`: an artifact in another program's format."""

import json
from pathlib import Path

import click

from wordpipe.cli.output import human_bytes, say
from wordpipe.cli.stage import ExampleCommand

__all__ = ["export"]

FORMATS = (
    "word2vec-text", "word2vec-binary", "glove", "numpy", "projector",
    "tokenizer-json", "vocab-txt", "vocab-merges", "transformers", "tiktoken",
)  # fmt: skip
EXAMPLE = """wordpipe export run/words --to word2vec-text -o words.txt
wordpipe export run/tokens --to tiktoken -o vocab.tiktoken"""
HELP = """Write word vectors or a tokenizer in the format of another program.

\b
words:
  word2vec-text    a file, read by gensim, fastText and many others
  word2vec-binary  a file, the same in binary
  glove            a file, the text without its first line
  numpy            a folder with vectors.npy, words.txt and counts.npy
  projector        a folder with vectors.tsv and metadata.tsv, for TensorFlow's embedding projector
tokens, or a model (its tokenizer):
  tokenizer-json   a file, for Hugging Face tokenizers
  transformers     a folder, for AutoTokenizer
  vocab-txt        a file, BERT's; WordPiece only
  vocab-merges     a folder with vocab.json and merges.txt; BPE only
  tiktoken         a file and FILE.json beside it; byte-level BPE only

A format that cannot hold the tokenizer is refused, and those that can are named. A model needs no export: its folder
is a Hugging Face folder as it is.
"""


@click.command(cls=ExampleCommand, example=EXAMPLE, help=HELP)
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option(
    "--to", "form", type=click.Choice(FORMATS), required=True, help="The format; see above what goes with what."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file or folder to write.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def export(artifact: Path, form: str, output: Path, as_json: bool, quiet: bool) -> None:
    """Write word vectors or a tokenizer in the format of another program."""
    from wordpipe.stages import export as stage

    written = stage.export(artifact, form, output)
    if as_json:
        click.echo(json.dumps(written, ensure_ascii=False))
    elif not quiet:
        held = (
            f"{written['words']:,} words of {written['dim']} numbers"
            if "words" in written
            else f"{written['tokens']:,} tokens"
        )
        say(f"{held} → {output}  ({human_bytes(written['bytes'])})")
        for note in written.get("notes", ()):
            say(f"note: {note}")
