"""The list of words that `wordpipe tokenize` writes, and that gives each word its number."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from tokenizers import Tokenizer

from wordpipe.artifacts.schemas import VOCABULARY
from wordpipe.stages.counting import Counted
from wordpipe.stages.making import Job
from wordpipe.stages.tokenizers import about_left_out, batches_of
from wordpipe.tokens.counting import SpillingTable, added_up, keep_commonest
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.wordlist import WordNumbers, fold_counts
from wordpipe.tokens.words import WordSplitter, piece_splitter

__all__ = ["list_words"]

_WORD_BYTES = 48  # memory that a word takes in the list, beside its letters


def list_words(job: Job, counted: Counted, tokenizer: Tokenizer, chosen: TokenizeSettings) -> WordNumbers:
    """Make words of the runs that were counted, write the list of them and number them."""
    job.report("listing the words")
    split = WordSplitter(piece_splitter(tokenizer), keep_case=chosen.keep_case)
    runs: list[Path] = []
    table = SpillingTable(chosen.memory_bytes // 4, partial(_new_run, job.scratch, runs))
    fold_counts(added_up(counted.words), split, keep_case=chosen.keep_case, table=table)
    table.spill()
    kept = keep_commonest(
        added_up([partial(path.open, "rb") for path in runs]),
        lambda size, number: size + _WORD_BYTES * number <= chosen.memory_bytes // 2,
    )
    with job.table("words", VOCABULARY, single=True) as words:
        for batch in batches_of(kept.units, VOCABULARY):
            words.write(batch)
    job.counts |= {
        "words": int(kept.units.counts.sum()) + kept.left_out_total,
        "distinct_words": len(kept.units) + kept.left_out,
    }
    for text in about_left_out(job, kept, "words", "get no number"):
        job.warn(text)
    return WordNumbers(kept.units, split, keep_case=chosen.keep_case)


@contextmanager
def _new_run(folder: Path, runs: list[Path]) -> Iterator[IO[bytes]]:
    path = folder / f"words-{len(runs):04d}.parquet"
    runs.append(path)
    with path.open("wb") as file:
        yield file
