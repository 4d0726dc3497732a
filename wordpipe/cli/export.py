"""Artifacts elsewhere, or gone: `export` in another program's format, `copy` to another place, `slim` deletes."""

import json
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import FORCE, PATH, ExampleCommand
from wordpipe.cli.output import ProgressDrawer, amounts, counted, human_bytes, say

FORMATS = (
    "word2vec-text", "word2vec-binary", "glove", "numpy", "projector", "npy", "sentence-transformers",
    "tokenizer-json", "vocab-txt", "vocab-merges", "transformers", "tiktoken",
)  # fmt: skip
EXAMPLE = """wordpipe export run/words --to word2vec-text -o words.txt
wordpipe export run/sentences --to sentence-transformers -o encoder
wordpipe export run/tokens --to tiktoken -o vocab.tiktoken"""
HELP = """Write vectors, an encoder of texts or a tokenizer in the format of another program.

\b
words:
  word2vec-text    a file, read by gensim, fastText and many others
  word2vec-binary  a file, the same data in binary
  glove            a file, word2vec-text without its first line
  numpy            a folder with vectors.npy, words.txt and counts.npy
  projector        a folder, for TensorFlow's embedding projector
  npy              a file of the vectors alone, for numpy.load(FILE)
sentences, or an index (its vectors; rows are named by their number):
  npy, projector, word2vec-text, word2vec-binary
a model, sentences, or an index (its encoder, with pooling and transform):
  sentence-transformers  a folder, for SentenceTransformer(FOLDER)
tokens, or a model (its tokenizer):
  tokenizer-json   a file, for Hugging Face tokenizers
  transformers     a folder, for AutoTokenizer
  vocab-txt        a file, BERT's; WordPiece only
  vocab-merges     a folder with vocab.json and merges.txt; BPE only
  tiktoken         a file and FILE.json beside it; byte-level BPE only

If a format does not fit the artifact, the error message lists the formats that fit. A model needs no export for Hugging Face
transformers, because its folder already is a model folder of transformers.
"""


@click.command(
    cls=ExampleCommand,
    example=EXAMPLE,
    help=HELP,
    json="Print one JSON object on stdout.",
    quiet="Print nothing but errors.",
)
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option(
    "--to", type=click.Choice(FORMATS), required=True, help="The format; see the list for each artifact above."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file or folder to write.")
@FORCE
def export(artifact: Path, to: str, output: Path, force: bool, as_json: bool, quiet: bool) -> None:
    """Write vectors, an encoder or a tokenizer in the format of another program."""
    from wordpipe.stages import export as stage

    written = stage(artifact, to, output, replace=force)
    if as_json:
        click.echo(json.dumps(written, ensure_ascii=False))
    elif not quiet:
        say(f"{_held(written)} → {output}  ({human_bytes(written['bytes'])})")
        for note in written.get("notes", ()):
            say(f"note: {note}")


@click.command(
    cls=ExampleCommand,
    example="wordpipe copy run/index s3://bucket/run/index\nwordpipe copy s3://bucket/run/index here/index",
    json="Print one JSON object on stdout.",
    quiet="Print nothing but errors.",
    verify="artifact's",
)
@click.argument("artifact", type=PATH)
@click.argument("output", type=PATH)
def copy(artifact: Path, output: Path, verify: bool, as_json: bool, quiet: bool) -> None:
    """Copy an artifact to or from a bucket, or between folders: an exact copy, complete or not at all.

    An artifact of the same kind at OUTPUT is replaced in one step; anything else at OUTPUT is an error.
    """
    from wordpipe.stages import RunOptions
    from wordpipe.stages import copy as stage

    with ProgressDrawer(quiet=quiet) as draw:
        made = stage(artifact, output=output, run=RunOptions(report=draw, verify=verify))
    if as_json:
        click.echo(json.dumps(made, ensure_ascii=False))
    elif not quiet:
        say(f"{made['kind']} → {made['path']}  ({human_bytes(made['bytes'])})")


@click.command(
    cls=ExampleCommand,
    example="wordpipe slim\nwordpipe slim --keep tokens --yes",
    json="Print one JSON object on stdout.",
    quiet="Print nothing but errors.",
)
@click.argument("config", type=PATH, default="wordpipe.toml")
@click.option("--keep", metavar="STAGE", multiple=True, help="A stage whose artifact stays; may be repeated.")
@click.option("--yes", is_flag=True, help="Delete what is listed. Without this option, nothing is changed.")
def slim(config: Path, keep: tuple[str, ...], yes: bool, as_json: bool, quiet: bool) -> None:
    """List the artifacts of a pipeline that only others were made of, and delete them with --yes.

    CONFIG: ./wordpipe.toml if not given. What is queried and served stays. `run` makes a deleted artifact again only if
    another artifact must be made of it.
    """
    from wordpipe.pipeline import slim_pipeline

    found = slim_pipeline(config, keep=keep, delete=yes)
    if as_json:
        click.echo(json.dumps(found.to_json(), ensure_ascii=False))
        return
    if quiet:
        return
    # what can be deleted, with its price, and what stays
    for one in found.deletable:
        click.echo(
            f"{'deleted' if yes else 'can go '}  {one.stage:<14} {human_bytes(one.freed_bytes):>8}  {one.output}"
        )
        again = f"; to make it again: {amounts(one.estimate)}" if one.estimate else ""
        click.echo(f"  works no longer: {one.lost}{again}")
    for name, why in found.kept:
        click.echo(f"stays    {name:<14} {why}")
    # the sum, and the next step
    if not found.deletable:
        say(f"all artifacts take {human_bytes(found.bytes)}; there is nothing to delete")
        return
    said = "deleted" if yes else "to delete"
    say(f"all artifacts take {human_bytes(found.bytes)}; {said}: {human_bytes(found.freed_bytes)}")
    say(
        "to make one again: wordpipe run --fresh --to STAGE" if yes else "to delete what is listed: wordpipe slim --yes"
    )


def _held(written: dict[str, Any]) -> str:
    """Return what a file or folder of `wordpipe export` contains, in a few words."""
    if "encoder" in written:
        transform = "" if written["transform"] == "none" else f", {written['transform']}"
        pooling = "" if written["encoder"] == "static" else f" ({written['pooling']} pooling{transform})"
        return f"{written['encoder']} encoder of {written['dim']} dimensions{pooling}"
    for what in ("words", "vectors"):
        if what in written:
            without = (
                f" (words without a vector, written as zeros: {written['without_vector']:,})"
                if "without_vector" in written
                else ""
            )
            return f"{counted(written[what], what)} of {written['dim']} dimensions{without}"
    return counted(written["tokens"], "tokens")
