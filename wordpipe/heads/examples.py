"""Labelled records as ids and targets: texts as the model's tokenizer reads them, flat files that are mapped into memory."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wordpipe.heads.tags import words_of
from wordpipe.training import shuffled

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Ints = npt.NDArray[np.int32]

_IDS_AT_ONCE = 1 << 20
IGNORED = -100
"""The label of a position that is no target, as in torch and transformers."""


@dataclass(frozen=True)
class Encoded:
    """A text, or a pair, as the model reads it.

    Attributes:
        ids: special ones included, (T,), int32.
        second: where the segment of the second text begins; T where there is none.
        cut: tokens that were left out, because the model is shorter.
        firsts: the position of the first token of each word, (W,), int32; -1 of a word that was cut, or has none.
    """

    ids: Ints
    second: int
    cut: int
    firsts: Ints


class TextEncoder:
    """Texts to ids, by the template that the model's tokenizer carries.

    Args:
        tokenizer: with its template; its truncation and padding are set here.
        max_len: most ids of a text or pair; of a pair the longer text is cut first.
    """

    def __init__(self, tokenizer: "Tokenizer", max_len: int) -> None:
        self._tokenizer, self.max_len = tokenizer, max_len
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_len, strategy="longest_first")

    def encode(self, texts: Sequence[tuple[str, ...]], *, words: bool = False) -> list[Encoded]:
        """Texts, or pairs of them.

        Args:
            texts: one or two strings each.
            words: whether the places of words (see `words_of`) are wanted.
        """
        given = [one[0] if len(one) == 1 else one for one in texts]
        found = self._tokenizer.encode_batch(given)
        return [self._of(one, text[0] if words else None) for one, text in zip(found, texts, strict=True)]

    def _of(self, found: "Encoding", text: str | None) -> Encoded:
        kinds = found.type_ids
        second = kinds.index(1) if 1 in kinds else len(kinds)
        special = sum(found.special_tokens_mask)
        cut = sum(len(more) - sum(more.special_tokens_mask) for more in found.overflowing) if special else 0
        firsts = np.zeros(0, np.int32) if text is None else first_tokens(found, words_of(text))
        return Encoded(np.array(found.ids, np.int32), second, cut, firsts)


def first_tokens(found: "Encoding", words: Sequence[tuple[int, int]]) -> Ints:
    """The first token that has a character of each word; -1 where none has."""
    places, word = np.full(len(words), -1, np.int32), 0
    for place, ((begin, end), part) in enumerate(zip(found.offsets, found.sequence_ids, strict=True)):
        if part is None or begin == end:
            continue
        while word < len(words) and words[word][1] <= begin:
            word += 1
        reached = word
        while reached < len(words) and words[reached][0] < end:
            if places[reached] < 0:
                places[reached] = place
            reached += 1
    return places


class ExampleWriter:
    """Writes examples to three files.

    Args:
        path: their names begin so; its folder is made.
        width: numbers of a target; 0: one for each id.
    """

    def __init__(self, path: Path, width: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._width = path, width
        self._ids, self._targets = (_file_of(path, name).open("wb") for name in ("ids", "targets"))
        self._lengths: list[int] = []
        self._seconds: list[int] = []

    def add(self, encoded: Encoded, target: Sequence[float]) -> None:
        """One more example: its target has the writer's width, or as many numbers as there are words."""
        self._ids.write(encoded.ids.tobytes())
        self._lengths.append(len(encoded.ids))
        self._seconds.append(encoded.second)
        if self._width:
            assert len(target) == self._width
            self._targets.write(np.array(target, np.float32).tobytes())
            return
        labels_T, there = np.full(len(encoded.ids), IGNORED, np.float32), encoded.firsts >= 0
        # a token that holds two words has the tag of the first one
        labels_T[encoded.firsts[there][::-1]] = np.array(target, np.float32)[there][::-1]
        self._targets.write(labels_T.tobytes())

    def close(self) -> None:
        """All is on disk."""
        self._ids.close()
        self._targets.close()
        _file_of(self._path, "lengths").write_bytes(np.array([self._lengths, self._seconds], np.int64).tobytes())


@dataclass(frozen=True)
class Rows:
    """Some examples.

    Attributes:
        ids: of all, one after the other, int32.
        lengths: of each, (B,), int64.
        seconds: where the second text's segment begins in each, (B,), int64.
        targets: (B, width), or one for each id, float32.
        device: where they are going to be computed.
    """

    ids: Ints
    lengths: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.int64]
    targets: npt.NDArray[np.float32]
    device: torch.device

    def to(self, device: torch.device) -> "Rows":
        """The same for a device."""
        return Rows(self.ids, self.lengths, self.seconds, self.targets, device)


class LabelledExamples:
    """The examples of three files, numbered; the numbers lie on disk and are mapped into memory.

    Args:
        path: as an `ExampleWriter` had it.
        width: numbers of a target; 0: one for each id.
    """

    n_repeated = 0

    def __init__(self, path: Path, width: int) -> None:
        self.lengths, self.seconds = np.fromfile(_file_of(path, "lengths"), np.int64).reshape(2, -1)
        self._starts, self._width = np.cumsum(self.lengths) - self.lengths, width
        self._place_V: Ints | None = None
        self._ids, self._targets = (
            _mapped(_file_of(path, name), kind) for name, kind in (("ids", np.int32), ("targets", np.float32))
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def seq_len(self) -> int:
        """Ids of an example in the mean, at least 1."""
        return max(1, round(float(self.lengths.mean()))) if len(self) else 1

    def order(self, step: int, *, batch_size: int, seed: int) -> npt.NDArray[np.int64]:
        """The numbers in a step's batch; a batch may end a pass and begin the next."""
        size = min(batch_size, len(self))
        return shuffled(np.arange(step * size, (step + 1) * size, dtype=np.int64), len(self), seed, "order")

    def rows(self, index_B: npt.NDArray[np.int64]) -> Rows:
        """Some of them."""
        places = np.concatenate(
            [np.arange(self._starts[one], self._starts[one] + self.lengths[one]) for one in index_B]
        )
        targets = self._targets.reshape(-1, self._width)[index_B] if self._width else self._targets[places]
        ids = self._ids[places] if self._place_V is None else self._place_V[self._ids[places]]
        return Rows(ids, self.lengths[index_B], self.seconds[index_B], targets, torch.device("cpu"))

    def numbered(self, place_V: Ints) -> "LabelledExamples":
        """The same examples with place_V[id] for each id."""
        found = copy(self)
        found._place_V = place_V
        return found

    def mark(self, seen_V: npt.NDArray[np.bool_]) -> None:
        """Set true whatever id occurs; a bounded piece of the file at a time."""
        for first in range(0, len(self._ids), _IDS_AT_ONCE):
            seen_V[self._ids[first : first + _IDS_AT_ONCE]] = True

    def batches(self, n_ids: int) -> Iterator[npt.NDArray[np.int64]]:
        """All numbers, those of about one length together, at most about so many ids at once."""
        order = np.argsort(self.lengths, kind="stable")
        first, size = 0, 0
        for place, number in enumerate(order):
            if size and size + self.lengths[number] > n_ids:
                yield order[first:place]
                first, size = place, 0
            size += int(self.lengths[number])
        if first < len(order):
            yield order[first:]


def open_examples(path: Path, width: int) -> LabelledExamples:
    """What an `ExampleWriter` wrote."""
    return LabelledExamples(path, width)


def _file_of(path: Path, name: str) -> Path:
    return path.with_name(f"{path.name}.{name}")


def _mapped(path: Path, kind: Any) -> npt.NDArray[Any]:
    return np.memmap(path, kind, "r") if path.stat().st_size else np.zeros(0, kind)


def segments_of(lengths: npt.NDArray[np.int64], seconds: npt.NDArray[np.int64]) -> Tensor:
    """Which text each id belongs to, 0 or 1, (N,), int64."""
    places = np.concatenate([np.arange(length) for length in lengths])
    return torch.from_numpy((places >= np.repeat(seconds, lengths)).astype(np.int64))
