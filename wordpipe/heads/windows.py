"""A question and a passage as a model reads them: the question first, a long passage in windows that overlap.

    [CLS] question [SEP] passage, tokens 0 to r - 1          [SEP]
    [CLS] question [SEP] passage, tokens s to s + r - 1      [SEP]          s: the stride, at most half the room r
    …

Every answer of at most r - s + 1 tokens is whole in one of them. Where a window has no answer, it points at the first token.

Source: Devlin et al. 2019, section 4.2 and the published `run_squad.py` (document stride 128, query 64).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.heads.examples import Encoded, Ints

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_NO_FIRSTS: Ints = np.zeros(0, np.int32)
_SAMPLES = ("a", "the", "1", ".", "x y z")  # texts of which a tokenizer has a token


@dataclass(frozen=True)
class Reading:
    """How passages are read.

    Attributes:
        max_query: tokens of a question, at most; the others are cut, and counted.
        max_answer: tokens of an answer, at most.
        stride: tokens of a passage from the beginning of a window to that of the next.
        n_best: answers among which probabilities are shared.
    """

    max_query: int = 64
    max_answer: int = 30
    stride: int = 128
    n_best: int = 20


@dataclass(frozen=True)
class Window:
    """A stretch of a passage behind its question.

    Attributes:
        encoded: what the model reads; `cut` are tokens of the question that it does not.
        place: where the passage's tokens begin among the ids.
        first: the number of the first of them in the passage.
        n_tokens: how many there are.
    """

    encoded: Encoded
    place: int
    first: int
    n_tokens: int


@dataclass(frozen=True)
class Passage:
    """A passage with its question.

    Attributes:
        text: as it was given.
        offsets: characters where each token begins and ends, (N, 2), int32.
        windows: one at least.
    """

    text: str
    offsets: Ints
    windows: tuple[Window, ...]

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last token that have characters of a stretch of the text; None where none has."""
        first = int(np.searchsorted(self.offsets[:, 1], start, "right"))
        last = int(np.searchsorted(self.offsets[:, 0], end, "left")) - 1
        return (first, last) if first <= last else None

    def characters_of(self, first: int, last: int) -> tuple[int, int]:
        """The stretch of the text from a token to another, without white space around it."""
        start, end = int(self.offsets[first, 0]), int(self.offsets[last, 1])
        found = self.text[start:end]
        start += len(found) - len(found.lstrip())
        return start, max(start, end - (len(found) - len(found.rstrip())))

    def targets(self, tokens: tuple[int, int] | None) -> list[tuple[int, int]]:
        """Where an answer begins and ends among the ids of each window; 0 and 0 where it is not whole there."""
        found = []
        for window in self.windows:
            inside = tokens is not None and window.first <= tokens[0] and tokens[1] < window.first + window.n_tokens
            shift = window.place - window.first
            found.append((tokens[0] + shift, tokens[1] + shift) if inside and tokens is not None else (0, 0))
        return found


class PassageEncoder:
    """Questions and passages to windows, by the template that the model's tokenizer carries.

    Args:
        tokenizer: with its template; cutting and padding are turned off.
        max_len: ids of a window at most.
        reading: how passages are read; of a short model a question has at most half of what special tokens leave.

    Raises:
        ConfigError: the tokenizer puts no special token in front, or the model has no room for a passage.
    """

    def __init__(self, tokenizer: "Tokenizer", max_len: int, reading: Reading) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer, self.max_len, self.reading = tokenizer, max_len, reading
        self._before, self._between, self._after, self._kinds = _frame_of(tokenizer)
        if not self._before:
            raise ConfigError(
                "the tokenizer puts nothing in front of a question", where="init", expected="a special token such as [CLS]",
                hint="a window without an answer points there",
            )  # fmt: skip
        free = max_len - len(self._before) - len(self._between) - len(self._after)
        self._most_query = min(reading.max_query, free // 2)
        if self._most_query < 1:
            raise ConfigError("no room for a question and a passage", where="seq_len", got=max_len)
        self._free = free

    def encode(self, pairs: Sequence[tuple[str, ...]]) -> list[Passage]:
        """Passages with their windows.

        Args:
            pairs: a passage and a question each; equal passages are encoded once.
        """
        texts = dict.fromkeys(passage for passage, _ in pairs)
        known = dict(zip(texts, map(_ids_and_offsets, self._encoded([*texts])), strict=True))
        questions = self._encoded([question for _, question in pairs])
        return [
            Passage(
                passage, known[passage][1], tuple(self._windows(np.array(question.ids, np.int32), known[passage][0]))
            )
            for (passage, _), question in zip(pairs, questions, strict=True)
        ]

    def _encoded(self, texts: list[str]) -> "list[Encoding]":
        return self._tokenizer.encode_batch(texts, add_special_tokens=False)

    def _windows(self, question: Ints, passage: Ints) -> list[Window]:
        cut, question = max(0, len(question) - self._most_query), question[: self._most_query]
        before = np.concatenate([self._before, question, self._between]).astype(np.int32)
        room = self._free - len(question)
        found = []
        for first in _firsts(len(passage), room, min(self.reading.stride, max(1, room // 2))):
            tokens = passage[first : first + room]
            ids = np.concatenate([before, tokens, self._after]).astype(np.int32)
            second = len(before) if self._kinds else len(ids)
            found.append(Window(Encoded(ids, second, cut, _NO_FIRSTS), len(before), first, len(tokens)))
            cut = 0  # counted once
        return found


def _firsts(n_tokens: int, room: int, stride: int) -> range:
    """Where windows begin: the last one reaches the end."""
    return range(0, max(1, n_tokens - room + stride), stride)


def _ids_and_offsets(found: "Encoding") -> tuple[Ints, Ints]:
    return np.array(found.ids, np.int32), np.array(found.offsets, np.int32).reshape(-1, 2)


def _frame_of(tokenizer: "Tokenizer") -> tuple[list[int], list[int], list[int], bool]:
    """The special ids before, between and behind two texts, and whether the second has a segment of its own."""
    for sample in _SAMPLES:
        found = tokenizer.encode(sample, sample)
        part = np.array([-1 if one is None else one for one in found.sequence_ids])
        if 0 in part and 1 in part:
            ids, first, second = np.array(found.ids), np.flatnonzero(part == 0), np.flatnonzero(part == 1)
            between = ids[first[-1] + 1 : second[0]]
            kinds = found.type_ids[second[0]] != found.type_ids[first[0]]
            return ids[: first[0]].tolist(), between.tolist(), ids[second[-1] + 1 :].tolist(), kinds
    return [], [], [], False


def whole_in_one(passages: Sequence[Passage], tokens: Sequence[tuple[int, int] | None]) -> npt.NDArray[np.bool_]:
    """Whether each answer is whole in a window of its passage; of none: true."""
    return np.array(
        [one is None or any(target != (0, 0) for target in passage.targets(one))
         for passage, one in zip(passages, tokens, strict=True)], bool,
    )  # fmt: skip
