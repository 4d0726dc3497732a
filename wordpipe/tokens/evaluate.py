"""Evaluation: how well a tokenizer fits a text, by measures over streams of rows.

The longer its tokens are in bytes and characters, the shorter the sequences; words that are split into many tokens are hard on
a model. The measures are those of Rust et al. (2021), "How Good is Your Tokenizer? On the Monolingual Performance of
Multilingual Language Models", section 3: fertility (subwords per word) and the proportion of continued words; and bytes per
token, whose inverse is the sequence length of Xue et al. (2022), "ByT5". Sums are kept, never rows: memory depends on the
vocabulary, not on the length of the text.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.tokens.counting import Spans, cut_words, row_buffers
from wordpipe.tokens.encoding import Encoder, SpanEncoder
from wordpipe.tokens.vocabulary import vocabulary_of
from wordpipe.tokens.words import WordSplitter

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
    """What was found in the texts.

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
        self.failures: list[dict[str, str]] = []  # the first texts that did not come back: text, decoded
        self._encoder, self._words = Encoder(tokenizer).for_thread(), WordFertility(tokenizer)
        self._sums = np.zeros(len(_SUMS), np.int64)
        self._used = np.zeros(len(self._vocabulary.tokens), np.bool_)  # which tokens occur

    def add(self, texts: pa.Array) -> None:
        """Measure rows of text (without nulls)."""
        if not len(texts):
            return
        ids, offsets = self._encoder.encode(texts)
        self._sums += [
            len(texts), len(row_buffers(texts)[0]), pc.sum(pc.utf8_length(texts)).as_py(),
            len(ids), int(np.isin(ids, self._vocabulary.unknown).sum()),
            *self._words.count(texts), *self._failed(texts, ids, offsets),
        ]  # fmt: skip
        self._used[ids] = True

    @property
    def total(self) -> Figures:
        """Over all texts."""
        ordinary = self._vocabulary.ordinary
        counts = dict(zip(_SUMS, self._sums.tolist(), strict=True))
        counts["vocabulary_used"] = int(np.sum(self._used & ordinary))
        of = counts | {"vocabulary": int(np.sum(ordinary))}
        metrics = {
            name: round(of[part] / of[whole], 6) if of[whole] else None for name, (part, whole) in _METRICS.items()
        }
        return Figures(metrics, counts)

    def never_used(self) -> list[str]:
        """The tokens that did not occur, in the order of their ids; special tokens left out."""
        missing = self._vocabulary.ordinary & ~self._used
        return [self._vocabulary.tokens[number] or "" for number in np.flatnonzero(missing)]

    def _failed(self, texts: pa.Array, ids: NDArray[np.uint32], offsets: NDArray[np.int64]) -> tuple[int, int]:
        """How many texts decoding gives back as others, and not in their white space alone; notes the first examples."""
        rows = [part.tolist() for part in np.split(ids, offsets[1:-1])]
        decoded = self.tokenizer.decode_batch(rows, skip_special_tokens=False)
        failed = lost = 0
        for text, back in zip(texts.to_pylist(), decoded, strict=True):
            if self._same(text, back):
                continue
            failed += 1
            lost += not self._same("".join(text.split()), "".join(back.split()))
            if len(self.failures) < _EXAMPLES:
                self.failures.append({"text": text[:_EXAMPLE_CHARS], "decoded": back[:_EXAMPLE_CHARS]})
        return failed, lost

    def _same(self, text: str, back: str) -> bool:
        normalizer = self.tokenizer.normalizer
        if text == back or normalizer is None:
            return text == back
        expected = normalizer.normalize_str(text)
        return bool(back == expected or normalizer.normalize_str(back) == expected)


class WordFertility:
    """Counts words, their tokens, and the words that are split. Words are ours (`words`), as written, where spaces mark them.

    Each distinct word is encoded once, by itself and with the space that stands before it, if one does: tokens that span a
    word's edge are its own, and what follows it does not matter.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cut = cut_words()
        self._spans = SpanEncoder(self._token_counts, _CACHE_BYTES)
        self._split = WordSplitter(lambda run: [], keep_case=True)  # a run without spaces has no words then

    def count(self, texts: pa.Array) -> tuple[int, int, int, int]:
        """Words, tokens of these words, words of several tokens, runs in scripts without spaces."""
        tokens, _ = self._spans.encode(_with_space(self._cut(texts), row_buffers(texts)[1]))
        return int((tokens > 0).sum()), int(tokens.sum()), int((tokens > 1).sum()), int((tokens == 0).sum())

    def _token_counts(
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
    """Words with the space before them, where there is one in the same row."""
    row = np.repeat(np.arange(len(spans.row_ends)), np.diff(spans.row_ends, prepend=0))
    before = np.maximum(spans.starts - 1, 0)
    spaced = (spans.starts > row_offsets[row]) & (spans.data[before] == _SPACE) if len(spans.data) else row > 0
    return Spans(spans.data, spans.starts - spaced.astype(np.int32), spans.ends, spans.row_ends)
