"""The text of a contrastive training, of either encoder: rows of ids, titles of the corpus behind them, the user's pairs.

Nothing here is of torch, which a static table does not need.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from wordpipe.artifacts import Artifact, DocumentStarts, read_batches
from wordpipe.errors import WordpipeError
from wordpipe.stages.inputs import file_entry, reading
from wordpipe.stages.job import Job
from wordpipe.stages.train.run import token_rows
from wordpipe.training.contrastive import FilePairs, PairText, read_pair_file, write_pair_text, write_ragged
from wordpipe.training.contrastive.settings import EncoderSettings

IdsOf = Callable[[Sequence[str]], list[list[int]]]
"""Texts → the ids of each, as the rows of the tokens artifact have them."""


def contrast_text(
    job: Job, source: Artifact, settings: EncoderSettings, ids_of: IdsOf, *, vocab_size: int,
    column: Literal["ids", "word_ids"],
) -> tuple[PairText, FilePairs | None]:  # fmt: skip
    """Return the documents of a contrastive training as rows of ids, with titles, and the user's pairs.

    Args:
        job: its scratch folder holds the text as long as it is used; the file of pairs becomes an input.
        source: the tokens artifact.
        settings: which pairs are wanted.
        ids_of: for titles and pairs.
        vocab_size: ids from this on are left out.
        column: what the rows are made of.

    Raises:
        InputError: the file of pairs is none; no row has an id.
    """
    folder = job.scratch / "pairs"
    folder.mkdir()
    titles = None
    if settings.shares["title"] > 0:
        if (corpus := _corpus_of(job, source)) is not None:
            titles = _titles(corpus, ids_of)
        else:
            job.warn(
                "the corpus of these tokens is missing or has changed, so there are no titles. Two spans of the text "
                "are used in place of title pairs"
            )
    rows = token_rows(job, source, column)
    text = write_pair_text(rows, folder, vocab_size=vocab_size, column=column, titles=titles)
    job.counts |= {name: count for name, count in text.ledger.items() if count}
    if settings.pairs is None:
        return text, None
    with reading(job, file_entry, settings.pairs):
        lists = (_lists(ids_of(texts)) for texts in read_pair_file(settings.pairs))
        given = write_ragged(lists, folder / "given", vocab_size=vocab_size)
    return text, FilePairs.of(given)


def check_pairs(settings: EncoderSettings) -> None:
    """Open the file of pairs of a contrastive training before the text is prepared.

    Raises:
        InputError: it is none, as far as its first rows tell.
    """
    if settings.pairs is not None:
        next(read_pair_file(settings.pairs))


def token_ids(tokenizer: Tokenizer) -> IdsOf:
    """Return a function from texts to the tokenizer's ids, without special ones."""
    return lambda texts: [one.ids for one in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def pair_kinds(settings: EncoderSettings) -> list[str]:
    """Return the kinds of pairs that an encoder learns from: an evaluation on pairs of these kinds is too optimistic."""
    return [kind for kind, share in settings.shares.items() if share]


def _corpus_of(job: Job, source: Artifact) -> Artifact | None:
    """Return the corpus of a contrastive training's tokens, if it is still the same one."""
    entry = source.manifest.inputs[0]
    if entry.kind != "corpus" or entry.path is None:
        return None
    try:
        corpus = Artifact(source.place.parent / entry.path, ["corpus"], verify=job.run.verify)
    except (WordpipeError, OSError):
        return None
    job.keep_open(corpus)
    return corpus if corpus.digest == entry.digest else None


def _titles(corpus: Artifact, ids_of: IdsOf) -> Iterator[pa.Array]:
    """Yield the ids of the title of each document, for contrastive pairs."""
    starts = DocumentStarts()
    for batch in read_batches(corpus, "corpus", ["doc_id", "sentence_id", "title"]):
        if batch.num_rows:
            first = batch["title"].filter(pa.array(starts.of(batch)))
            yield _lists(ids_of(pc.fill_null(first, "").to_pylist()))


def _lists(ids: list[list[int]]) -> pa.Array:
    """Return lists of ids as an Arrow array."""
    return pa.array(ids, pa.list_(pa.uint32()))
