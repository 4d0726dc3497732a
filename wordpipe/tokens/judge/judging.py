"""How well a tokenizer fits a text: measures over streams of rows, for all of it and for each group.

Tokens carry more the more bytes and characters each stands for; words that are split into many tokens are hard on a model. The
measures are those of Rust et al. (2021), "How Good is Your Tokenizer? On the Monolingual Performance of Multilingual
Language Models", section 3: fertility (subwords per word) and the proportion of continued words; and bytes per token, whose
inverse is the sequence length of Xue et al. (2022), "ByT5". Sums are kept, never rows: memory depends on the vocabulary and
the number of groups, not on the length of the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.tokens.cutting import row_buffers
from wordpipe.tokens.encoding import Encoder
from wordpipe.tokens.judge.word_pieces import WordPieces
from wordpipe.tokens.vocabulary import Vocabulary, vocabulary_of

__all__ = ["OTHERS", "Figures", "Judge"]

OTHERS = "(others)"
_NONE = "(none)"
_MAX_GROUPS = 256  # each has a map of the vocabulary; what comes later is added up under OTHERS
_EXAMPLES = 5
_EXAMPLE_CHARS = 300
_SUMS = (
    "texts", "bytes", "characters", "tokens", "unknown_tokens", "words", "word_tokens", "split_words", "unspaced_runs",
    "round_trip_failures", "text_failures",
)  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """What was found in a group of texts, or in all.

    Attributes:
        counts: texts, bytes, characters, tokens, unknown_tokens, words (where spaces mark them), word_tokens (tokens of these
            words), split_words (words of more than one token), unspaced_runs (runs of Chinese, Thai, …, in which nothing
            marks words), round_trip_failures, text_failures (those in which more than white space differs), vocabulary_used.
        vocabulary_size: tokens that text can be made of, special tokens left out.
    """

    counts: dict[str, int]
    vocabulary_size: int

    @property
    def metrics(self) -> dict[str, float | None]:
        """The measures; None where there is nothing to divide by.

        bytes_per_token, characters_per_token: of the text as it came in.
        tokens_per_word: fertility, at least 1 (Rust et al. 2021, section 3.1).
        split_words: share of words of more than one token, their "proportion of continued words".
        unknown_rate: share of tokens that stand for what the vocabulary cannot spell.
        vocabulary_used: share of the vocabulary that occurs.
        round_trip_failures: share of texts that decoding does not give back (see `Judge`).
        text_failures: share of texts of which it does not give back even what is no white space.
        """
        of = self.counts
        pairs = {
            "bytes_per_token": (of["bytes"], of["tokens"]),
            "characters_per_token": (of["characters"], of["tokens"]),
            "tokens_per_word": (of["word_tokens"], of["words"]),
            "split_words": (of["split_words"], of["words"]),
            "unknown_rate": (of["unknown_tokens"], of["tokens"]),
            "vocabulary_used": (of["vocabulary_used"], self.vocabulary_size),
            "round_trip_failures": (of["round_trip_failures"], of["texts"]),
            "text_failures": (of["text_failures"], of["texts"]),
        }
        return {name: round(part / whole, 6) if whole else None for name, (part, whole) in pairs.items()}


@dataclass
class _Group:
    sums: NDArray[np.int64]  # in the order of _SUMS
    used: NDArray[np.bool_]  # [vocabulary]


@dataclass
class Judge:
    """Measures one tokenizer on rows of text.

    A round trip fails where `decode(encode(x))` is not the text as the tokenizer normalises it. What a normalizer does to a
    decoded text is done before the comparison (the prefix space of sentencepiece tokenizers is no failure, lost spaces are).

    Args:
        tokenizer: truncation and padding switched off.

    Attributes:
        vocabulary: its tokens.
        failures: the first texts that did not come back: text, decoded, group.
        merged_groups: texts added up under OTHERS, as there were too many groups.
    """

    tokenizer: Tokenizer
    vocabulary: Vocabulary = field(init=False)
    failures: list[dict[str, str]] = field(init=False, default_factory=list)
    merged_groups: int = field(init=False, default=0)
    _groups: dict[str, _Group] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.vocabulary = vocabulary_of(self.tokenizer)
        self._encoder = Encoder(self.tokenizer).for_thread()
        self._words = WordPieces(self.tokenizer)

    def add(self, texts: pa.Array, groups: pa.Array | None = None) -> None:
        """Measure rows of text.

        Args:
            texts: strings without nulls.
            groups: strings, the group of each row; nulls are a group of their own. Without it there are only totals.
        """
        if not len(texts):
            return
        names, group_of_row = self._numbered(groups, len(texts))
        ids, offsets = self._encoder.encode(texts)
        failed = self._failed(texts, ids, offsets, names, group_of_row)
        words = self._words.count(texts)
        row_of_token = np.repeat(np.arange(len(texts)), np.diff(offsets))
        unknown = np.isin(ids, self.vocabulary.unknown)
        columns = [
            np.ones(len(texts), np.int64),
            np.diff(row_buffers(texts)[1]),
            pc.utf8_length(texts).to_numpy(zero_copy_only=False),
            np.diff(offsets),
            np.bincount(row_of_token[unknown], minlength=len(texts)),
            *words,
            *failed,
        ]
        rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
        group_of_token = group_of_row[row_of_token]
        for number, name in enumerate(names):
            group = self._group(name)
            group.sums += rows[group_of_row == number].sum(axis=0)
            group.used[ids[group_of_token == number]] = True

    @property
    def total(self) -> Figures:
        """Over all texts."""
        sums = sum((group.sums for group in self._groups.values()), np.zeros(len(_SUMS), np.int64))
        return self._figures(_Group(sums, self._used()))

    @property
    def groups(self) -> dict[str, Figures]:
        """Each group by its name; the one with most bytes first."""
        at = _SUMS.index("bytes")
        ordered = sorted(self._groups.items(), key=lambda item: (-int(item[1].sums[at]), item[0]))
        return {name: self._figures(group) for name, group in ordered}

    def never_used(self) -> list[str]:
        """The tokens that did not occur, in the order of their ids; special tokens left out."""
        missing = self.vocabulary.ordinary & ~self._used()
        return [self.vocabulary.tokens[number] or "" for number in np.flatnonzero(missing)]

    def _used(self) -> NDArray[np.bool_]:
        used = np.zeros(len(self.vocabulary.tokens), np.bool_)
        for group in self._groups.values():
            used |= group.used
        return used

    def _figures(self, group: _Group) -> Figures:
        counts = dict(zip(_SUMS, group.sums.tolist(), strict=True))
        counts["vocabulary_used"] = int(np.count_nonzero(group.used & self.vocabulary.ordinary))
        return Figures(counts, int(np.count_nonzero(self.vocabulary.ordinary)))

    def _group(self, name: str) -> _Group:
        if name not in self._groups:
            empty = _Group(np.zeros(len(_SUMS), np.int64), np.zeros(len(self.vocabulary.tokens), np.bool_))
            self._groups[name] = empty
        return self._groups[name]

    def _numbered(self, groups: pa.Array | None, rows: int) -> tuple[list[str], NDArray[np.int64]]:
        """The groups of a batch by name, and the number of each row's."""
        if groups is None:
            return [""], np.zeros(rows, np.int64)
        encoded = pc.fill_null(groups, _NONE).dictionary_encode()
        names: list[str] = []
        numbers = []
        for name in encoded.dictionary.to_pylist():
            known = name if name in self._groups or len({*self._groups, *names}) < _MAX_GROUPS else OTHERS
            if known not in names:
                names.append(known)
            numbers.append(names.index(known))
        group_of_row = np.array(numbers, np.int64)[encoded.indices.to_numpy()]
        if OTHERS in names:
            self.merged_groups += int(np.count_nonzero(group_of_row == names.index(OTHERS)))
        return names, group_of_row

    def _failed(
        self,
        texts: pa.Array,
        ids: NDArray[np.uint32],
        offsets: NDArray[np.int64],
        names: Sequence[str],
        group_of_row: NDArray[np.int64],
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Bool [rows] twice: decoding gives another text back, and not in its white space alone; notes the first examples."""
        flat = ids.tolist()
        rows = [flat[start:end] for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
        decoded = self.tokenizer.decode_batch(rows, skip_special_tokens=False)
        failed, lost = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        for row, (text, back) in enumerate(zip(texts.to_pylist(), decoded, strict=True)):
            if self._same(text, back):
                continue
            failed[row] = True
            lost[row] = not self._same(_without_space(text), _without_space(back))
            if len(self.failures) < _EXAMPLES:
                example = {"text": text[:_EXAMPLE_CHARS], "decoded": back[:_EXAMPLE_CHARS]}
                self.failures.append({**example, "group": names[group_of_row[row]]})
        return failed, lost

    def _same(self, text: str, back: str) -> bool:
        normalizer = self.tokenizer.normalizer
        if text == back or normalizer is None:
            return text == back
        expected = normalizer.normalize_str(text)
        return bool(back == expected or normalizer.normalize_str(back) == expected)


def _without_space(text: str) -> str:
    return "".join(text.split())
