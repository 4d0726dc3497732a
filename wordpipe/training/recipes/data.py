"""The texts of a training, laid out: one stream that is cut into sequences, or pairs; in files that are mapped.

The first process writes them, all open them. Every process knows how often each token is to be guessed: a model that knows
nothing else has the loss that a training should fall below.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from wordpipe.training.objectives_and_masking import Examples
from wordpipe.training.seq2seq_pairs import PairBlocks, PairWriter, open_pairs
from wordpipe.training.token_stream import Blocks, FindStarts, Flags, Ids, open_ids, open_starts

SPLITS = ("train", "valid")
Counts = npt.NDArray[np.number]


class Held(NamedTuple):
    """Sequences to train on, and those that are held out; None: there are none."""

    train: Examples
    valid: Examples | None  # as the held-out loss takes it
    as_trained: Examples | None  # as the training would take it


class Cut(Protocol):
    """A function that cuts a stream of ids into sequences; `starts`: where words or sentences begin."""

    def __call__(self, ids: Ids, seq_len: int, starts: Flags | None = None) -> Blocks:
        """Raises InputError: the stream is too short."""
        ...


def all_alike(counts_V: Counts) -> Counts | None:
    """Return the counts of a stream's ids as they are: each id is a label as often as any other."""
    return counts_V


@dataclass(frozen=True)
class Texts:
    """The layout of documents, one after the other in a stream of ids.

    Attributes:
        n_tokens: ids of the tokenizer.
        seq_len: positions of a sequence, more than a short text has.
        blocks: the stream as sequences.
        before: ids before each document of the stream.
        after: ids after each document.
        find_starts: makes what finds where words begin, or sentences; None: nobody asks.
        valid_blocks: held-out text as sequences; None: as in training.
        labels: how often each id is a label, of how often it is in the stream; None: the loss is not of tokens alone.
    """

    n_tokens: int
    seq_len: int
    blocks: Cut
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    find_starts: Callable[[], FindStarts] | None = None
    valid_blocks: Cut | None = None
    labels: Callable[[Counts], Counts | None] = all_alike

    def held(self, train_ids: Ids, valid_ids: Ids, starts: tuple[Flags | None, Flags | None] = (None, None)) -> Held:
        """Return a training stream and a held-out stream for a recipe, cut into sequences; too short: None.

        Raises:
            InputError: the training stream is empty.
        """
        train = self.blocks(train_ids, self.seq_len, starts[0])
        if len(valid_ids) < 2:
            return Held(train, None, None)
        as_trained = self.blocks(valid_ids, train.seq_len, starts[1])
        return Held(train, self.held_out(valid_ids, train.seq_len, starts[1]), as_trained)

    def held_out(self, ids: Ids, seq_len: int, starts: Flags | None = None) -> Blocks:
        """Return held-out ids as the sequences on which the loss is measured; `starts`: see `Cut`."""
        return self.blocks(ids, seq_len, starts) if self.valid_blocks is None else self.valid_blocks(ids, seq_len)

    def open(self, folder: Path) -> Held:
        """Open the data files of a recipe that were written to a folder."""
        paths = [folder / f"{split}.ids" for split in SPLITS]
        train, valid = (open_ids(path, self.n_tokens) for path in paths)
        if self.find_starts is None:
            return self.held(train, valid)
        return self.held(train, valid, (open_starts(paths[0]), open_starts(paths[1])))

    def label_counts(self, train: Examples, counts_V: Counts | None) -> Counts | None:
        """Count how often each id is a label; `counts_V`: how often in the stream, which only the first process knows."""
        del train
        return None if counts_V is None else self.labels(counts_V)


@dataclass(frozen=True)
class PairTexts:
    """The layout of pairs of texts.

    Attributes:
        n_tokens: ids of the tokenizer.
        seq_len: most positions of a text.
        before: ids before each first text.
        after: ids after it.
        end: ids after each second text.
        n_target_tokens: ids of the tokenizer of the second texts, where it is another one; else 0.
        together: a pair is one sequence.
        prefix: stands before every first text.
        prefix_field: the field of the records that says what does.
    """

    n_tokens: int
    seq_len: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    end: tuple[int, ...]
    n_target_tokens: int = 0
    together: bool = False
    prefix: str = ""
    prefix_field: str = ""

    def writers(self, folder: Path) -> Mapping[str, PairWriter]:
        """Return a writer of pairs for each split of a recipe's data, which writes to a folder."""
        return {
            split: PairWriter(
                folder / split, vocab_size=self.n_tokens, before=self.before, after=self.after, end=self.end,
                max_len=self.seq_len, together=self.together, target_vocab_size=self.n_target_tokens,
            )
            for split in SPLITS
        }  # fmt: skip

    def open(self, folder: Path) -> Held:
        """Open the files that were written to a folder."""
        train, valid = (open_pairs(folder / split, self.n_tokens, self.n_target_tokens) for split in SPLITS)
        held_out = valid if len(valid) else None
        return Held(train, held_out, held_out)

    def label_counts(self, train: Examples, counts_V: Counts | None) -> Counts | None:
        """Count how often each id is a label."""
        del counts_V
        assert isinstance(train, PairBlocks)
        return train.label_counts(self.n_target_tokens or self.n_tokens)
