"""Tokenizers to compare: as they are, and at other sizes of the vocabulary."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from wordpipe.artifacts.manifest import TOKENIZER
from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.errors import ConfigError
from wordpipe.runtime import Progress
from wordpipe.stages.making import RunOptions
from wordpipe.stages.tokenizers import counts_of, with_counts_of
from wordpipe.tokens.formats.reading import open_tokenizer, read_tokenizer
from wordpipe.tokens.judge.ladder import cut_merges, is_bpe
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.train.training import train_tokenizer
from wordpipe.tokens.vocabulary import is_byte_level

__all__ = ["Candidate", "candidates"]


@dataclass(frozen=True)
class Candidate:
    """One tokenizer to be judged.

    Attributes:
        name: where it is.
        made: "as it is", "cut" or "trained".
        tokenizer: truncation and padding switched off.
    """

    name: str
    made: str
    tokenizer: Tokenizer


def candidates(path: str, sizes: Sequence[int], run: RunOptions) -> Iterator[Candidate]:
    """The tokenizer at `path`, and the same at other sizes, the smallest first.

    Args:
        path: a tokens or model artifact, or whatever `read_tokenizer` takes.
        sizes: of the vocabulary. A smaller byte-level BPE is cut from its merges, and gives what training it would; any
            other is trained from the artifact's counts, whose alphabet depends on the size.
        run: progress, verification.

    Raises:
        ConfigError: a size that can be neither cut nor trained.
        InputError, ArtifactError: no tokenizer.
    """
    with ExitStack() as stack:
        artifact = None
        if is_artifact(Path(path)):
            artifact = stack.enter_context(Artifact(path, ["tokens", "model"], verify=run.verify))
            tokenizer = open_tokenizer(artifact.read(TOKENIZER), where=path)
        else:
            tokenizer = read_tokenizer(Path(path))
        own = tokenizer.get_vocab_size()
        for size in sorted({*sizes, own}):
            yield _at_size(path, artifact, tokenizer, size, run)


def _at_size(path: str, artifact: Artifact | None, tokenizer: Tokenizer, size: int, run: RunOptions) -> Candidate:
    own = tokenizer.get_vocab_size()
    if size == own:
        return Candidate(path, "as it is", tokenizer)
    has_counts = artifact is not None and "counts.parquet" in artifact.names()
    if size < own and is_bpe(tokenizer) and (is_byte_level(tokenizer) or not has_counts):
        return Candidate(path, "cut", cut_merges(tokenizer, size))
    if artifact is None or artifact.kind != "tokens":
        raise ConfigError(
            "that size cannot be cut from the tokenizer, and there are no counts to train it from",
            where=path,
            got=size,
            expected=f"less than {own}" if is_bpe(tokenizer) else f"{own}",
            hint="name a tokens artifact with a tokenizer trained by wordpipe",
        )
    return Candidate(path, "trained", _trained(artifact, size, run))


def _trained(artifact: Artifact, size: int, run: RunOptions) -> Tokenizer:
    """A tokenizer of another size, from the counts that the artifact's own was trained from."""
    kept = {name: artifact.manifest.settings[name] for name in ("algorithm", "min_frequency")}
    chosen = with_counts_of(artifact, TokenizeSettings.make({**kept, "vocab_size": size}))
    phase = f"training {size:,} tokens"
    trained = train_tokenizer(
        counts_of(artifact), chosen, report=lambda done, total: run.report(Progress(phase, done, total, "tokens"))
    )
    for text in trained.warnings:
        run.report(Progress("note", note=f"warning: {text}"))
    return trained.tokenizer
