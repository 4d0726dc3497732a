"""Evaluation: how well a tokenizer fits a text, by measures over streams of rows, for all of it and for each group.

The longer its tokens are in bytes and characters, the shorter the sequences; words that are split into many tokens are hard on
a model. The measures are those of Rust et al. (2021), "How Good is Your Tokenizer? On the Monolingual Performance of
Multilingual Language Models", section 3: fertility (subwords per word) and the proportion of continued words; and bytes per
token, whose inverse is the sequence length of Xue et al. (2022), "ByT5". Sums are kept, never rows: memory depends on the
vocabulary and the number of groups, not on the length of the text.
"""

from dataclasses import dataclass
from itertools import takewhile
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.tokens.counting import Spans, cut_words, row_buffers
from wordpipe.tokens.encoding import Encoder, SpanEncoder
from wordpipe.tokens.vocabulary import vocabulary_of
from wordpipe.tokens.words import WordSplitter

OTHERS = "(others)"
_NONE = "(none)"
_MAX_GROUPS = 256  # each has a map of the vocabulary; what comes later is added up under OTHERS
_EXAMPLES = 5
_EXAMPLE_CHARS = 300
_CACHE_BYTES = 64 << 20  # for distinct words
_SPACE = 0x20
_SUMS = (
    "texts", "bytes", "characters", "tokens", "unknown_tokens", "words", "word_tokens", "split_words", "unspaced_runs",
    "round_trip_failures", "text_failures",
)  # fmt: skip
_METRICS = {  # what is divided by what
    "bytes_per_token": ("bytes", "tokens"),
    "characters_per_token": ("characters", "tokens"),
    "tokens_per_word": ("word_tokens", "words"),
    "split_words": ("split_words", "words"),
    "unknown_rate": ("unknown_tokens", "tokens"),
    "vocabulary_used": ("vocabulary_used", "vocabulary"),
    "round_trip_failures": ("round_trip_failures", "texts"),
    "text_failures": ("text_failures", "texts"),
}


@dataclass(frozen=True)
class Figures:
    """The figures of a tokenizer on a group of texts, or on all.

    Attributes:
        counts: texts, bytes, characters, tokens, unknown_tokens, words (where spaces mark them), word_tokens (tokens of these
            words), split_words (words of more than one token), unspaced_runs (runs of Chinese, Thai, …, in which nothing
            marks words), round_trip_failures, text_failures (those in which more than white space differs), vocabulary_used.
        metrics: None where there is nothing to divide by. bytes_per_token, characters_per_token: of the text as it came in.
            tokens_per_word: fertility, at least 1 (Rust et al. 2021, section 3.1). split_words: share of words of more than
            one token, their "proportion of continued words". unknown_rate: share of unknown tokens. vocabulary_used: share
            of the tokens that text can be made of, special ones left out. round_trip_failures: share of texts that decoding
            does not give back. text_failures: share of texts of which it does not give back even what is no white space.
    """

    metrics: dict[str, float | None]
    counts: dict[str, int]


class TokenizerEvaluation:
    """Measures one tokenizer, of which truncation and padding are switched off, on rows of text.

    A round trip fails where `decode(encode(x))` is not the text as the tokenizer normalises it. What a normalizer does to a
    decoded text is done before the comparison (the prefix space of sentencepiece tokenizers is no failure, lost spaces are).
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self._vocabulary = tokenizer, vocabulary_of(tokenizer)
        self.failures: list[dict[str, str]] = []  # the first texts that did not come back: text, decoded, group
        self.merged_groups = 0  # texts added up under OTHERS, as there were too many groups
        self._encoder, self._words = Encoder(tokenizer).for_thread(), WordFertility(tokenizer)
        # of each group: sums in the order of _SUMS, and bool [vocabulary], which tokens occur
        self._groups: dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]] = {}

    def add(self, texts: pa.Array, groups: pa.Array | None = None) -> None:
        """Measure a tokenizer on rows of text (without nulls), and their groups by name; else only totals."""
        if not len(texts):
            return
        names, group_of_row = self._numbered(groups, len(texts))
        ids, offsets = self._encoder.encode(texts)
        row_of_token = np.repeat(np.arange(len(texts)), np.diff(offsets))
        unknown = np.isin(ids, self._vocabulary.unknown)
        # the figures of each row, in the order of _SUMS
        columns = [
            np.ones(len(texts), np.int64),
            np.diff(row_buffers(texts)[1]),
            pc.utf8_length(texts).to_numpy(zero_copy_only=False),
            np.diff(offsets),
            np.bincount(row_of_token[unknown], minlength=len(texts)),
            *self._words.count(texts),
            *self._failed(texts, ids, offsets, [names[number] for number in group_of_row]),
        ]
        rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
        # added to those of its group
        group_of_token = group_of_row[row_of_token]
        for number, name in enumerate(names):
            sums, used = self._groups.setdefault(name, self._empty())
            sums += rows[group_of_row == number].sum(axis=0)
            used[ids[group_of_token == number]] = True

    @property
    def total(self) -> Figures:
        """Return the figures of the tokenizer over all texts."""
        whole, whole_used = self._empty()
        for sums, used in self._groups.values():
            whole += sums
            whole_used |= used
        return self._figures(whole, whole_used)

    @property
    def groups(self) -> dict[str, Figures]:
        """Return the figures of each group by its name; the one with most bytes first."""
        at = _SUMS.index("bytes")
        ordered = sorted(self._groups.items(), key=lambda item: (-int(item[1][0][at]), item[0]))
        return {name: self._figures(*group) for name, group in ordered}

    def never_used(self) -> list[str]:
        """Return the tokens that did not occur, in the order of their ids; special tokens left out."""
        missing = self._vocabulary.ordinary.copy()
        for _, used in self._groups.values():
            missing &= ~used
        return [self._vocabulary.tokens[number] or "" for number in np.flatnonzero(missing)]

    def _empty(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the sums of a group without texts."""
        return np.zeros(len(_SUMS), np.int64), np.zeros(len(self._vocabulary.tokens), np.bool_)

    def _figures(self, sums: NDArray[np.int64], used: NDArray[np.bool_]) -> Figures:
        """Return the figures of a tokenizer for a group from its sums."""
        ordinary = self._vocabulary.ordinary
        counts = dict(zip(_SUMS, sums.tolist(), strict=True)) | {"vocabulary_used": int(np.sum(used & ordinary))}
        of = counts | {"vocabulary": int(np.sum(ordinary))}
        metrics = {
            name: round(of[part] / of[whole], 6) if of[whole] else None for name, (part, whole) in _METRICS.items()
        }
        return Figures(metrics, counts)

    def _numbered(self, groups: pa.Array | None, rows: int) -> tuple[list[str], NDArray[np.int64]]:
        """Return the groups of a batch of evaluated rows by name, and the number of each row's."""
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
        self, texts: pa.Array, ids: NDArray[np.uint32], offsets: NDArray[np.int64], group_of_row: list[str]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return bool [rows] twice: the tokenizer's decoding gives another text, and not in white space alone.

        Note the first examples.
        """
        rows = [part.tolist() for part in np.split(ids, offsets[1:-1])]
        decoded = self.tokenizer.decode_batch(rows, skip_special_tokens=False)
        failed, lost = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        for row, (text, back) in enumerate(zip(texts.to_pylist(), decoded, strict=True)):
            text, back = text.rstrip(), back.rstrip()  # white space at its end is no part of it
            if self._same(text, back):
                continue
            failed[row] = True
            lost[row] = not self._same("".join(text.split()), "".join(back.split()))
            if len(self.failures) < _EXAMPLES:
                example = {"text": text[:_EXAMPLE_CHARS], "decoded": back[:_EXAMPLE_CHARS], "group": group_of_row[row]}
                was, became = difference(text, back)
                self.failures.append(example | {"was": was, "became": became})
        return failed, lost

    def _same(self, text: str, back: str) -> bool:
        """True if the evaluated tokenizer's decoding gave the normalised text back."""
        normalizer = self.tokenizer.normalizer
        if text == back or normalizer is None:
            return text == back
        expected = normalizer.normalize_str(text)
        return bool(back == expected or normalizer.normalize_str(back) == expected)


def difference(text: str, back: str) -> tuple[str, str]:
    r"""Return the part in which a text and its decoding by an evaluated tokenizer differ.

    >>> difference("a\u00a0b", "a b"), difference("caf\u00e9", "cafe\u0301")
    (("'\\xa0'", "' '"), ("'\\xe9'", "'e\\u0301'"))
    """
    begin = _alike(text, back)
    end = _alike(text[begin:][::-1], back[begin:][::-1])
    parts = [one[begin : len(one) - end][:_EXAMPLE_CHARS] for one in (text, back)]
    as_shown = repr if normalize("NFKC", parts[0]) != normalize("NFKC", parts[1]) else ascii
    return as_shown(parts[0]), as_shown(parts[1])


def _alike(text: str, other: str) -> int:
    """Return how many characters at the beginning of two texts are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))


class WordFertility:
    """Counts words, their tokens, and the words that are split. A word is one of `words`, as written, in scripts with spaces.

    Each distinct word is encoded once, by itself and with the space that stands before it, if one does: tokens that span a
    word's edge are its own, and what follows it does not matter.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._cut = cut_words(as_written=True)
        self._spans = SpanEncoder(_TokenCounts(tokenizer), _CACHE_BYTES)

    def count(self, texts: pa.Array) -> tuple[NDArray[np.int64], ...]:
        """Count for an evaluation: words, their tokens, words of several tokens, unspaced runs; int64 [rows]."""
        spans = _with_space(self._cut(texts), row_buffers(texts)[1])
        tokens, _ = self._spans.encode(spans)
        row = np.repeat(np.arange(len(texts)), np.diff(spans.row_ends, prepend=0))
        spaced = tokens > 0

        def per_row(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.bincount(row[chosen], minlength=len(texts))

        of_words = np.bincount(row, weights=tokens, minlength=len(texts)).astype(np.int64)
        return per_row(spaced), of_words, per_row(tokens > 1), per_row(~spaced)


class _TokenCounts:
    """Counts the tokens of words. It holds no reference to its `SpanEncoder`: a cycle would stay in memory."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._split = WordSplitter(lambda run: [], keep_case=True)  # a run without spaces has no words then

    def __call__(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The number of tokens of each word, 0 for a run of a script without spaces: one number for each."""
        whole = data.tobytes()
        words = [whole[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        leads = [len(word) - len(word.lstrip(" ")) for word in words]
        counts = np.zeros(len(words), np.uint32)
        places = [n for n, word in enumerate(words) if self._split.of_run(word[leads[n] :])]
        encodings = self._tokenizer.encode_batch([words[n] for n in places], add_special_tokens=False)
        for place, encoding in zip(places, encodings, strict=True):
            # a space alone, which some tokenizers part from its word, is none of the word's tokens
            counts[place] = max(1, sum(end > leads[place] for _, end in encoding.offsets))
        return counts, np.arange(len(words) + 1, dtype=np.int64)


def _with_space(spans: Spans, row_offsets: NDArray[np.int64]) -> Spans:
    """Return the words with the space before each, where there is one in the same row."""
    row = np.repeat(np.arange(len(spans.row_ends)), np.diff(spans.row_ends, prepend=0))
    before = np.maximum(spans.starts - 1, 0)
    spaced = (spans.starts > row_offsets[row]) & (spans.data[before] == _SPACE) if len(spans.data) else row > 0
    return Spans(spans.data, spans.starts - spaced.astype(np.int32), spans.ends, spans.row_ends)
