"""Training gives Hugging Face's vocabulary, ids and merges; where that leaves a choice open, those of a slow twin."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests.support.pretoken_tables import table_of, text_of
from wordpipe.errors import BudgetError
from wordpipe.tokens import StringCounts, byte_letters
from wordpipe.tokens.kernels.bpe_train import BpeResult, _Training, alphabet_of, train_bpe, training_bytes
from wordpipe.tokens.kernels.bpe_train_loop import State

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
Words = dict[str, int]
Trained = tuple[dict[str, int], list[tuple[str, str]]]


def ours(words: Words, **options: Any) -> BpeResult:
    options = {"min_frequency": 0, "special_tokens": [], "byte_level": False} | options
    return train_bpe(table_of(words), **options)


def trained(result: BpeResult) -> Trained:
    return result.vocab, result.merges


def theirs(words: Words, *, byte_level: bool = False, continuing_prefix: str = "", **options: Any) -> Trained:
    """What Hugging Face learns from each word as often as it counts; every word stays one pre-token."""
    tokenizer = Tokenizer(models.BPE())
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if continuing_prefix:
        options["continuing_subword_prefix"] = continuing_prefix
    trainer = trainers.BpeTrainer(**({"min_frequency": 0, "special_tokens": [], "show_progress": False} | options))
    tokenizer.train_from_iterator((word for word, count in words.items() for _ in range(count)), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def recounted(words: Words, *, vocab_size: int, min_frequency: int, special_tokens: list[str], prefix: str) -> Trained:
    """The textbook: count all pairs anew before each merge. Right where no string is made in two ways."""
    vocab = {token: row for row, token in enumerate(dict.fromkeys(special_tokens))}
    for letters in ({c for word in words for c in word}, {prefix + c for word in words for c in word[1:]}):
        for letter in sorted(letters):
            vocab.setdefault(letter, len(vocab))
    split = {word: [vocab[prefix + c if i else c] for i, c in enumerate(word)] for word in words}
    merges = []
    while len(vocab) < vocab_size:
        counts: Counter[tuple[int, int]] = Counter()
        for word, ids in split.items():
            for pair in pairwise(ids):
                counts[pair] += words[word]
        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=(0, 0))
        if counts[pair] < max(1, min_frequency):
            break
        left, right = (list(vocab)[i] for i in pair)
        merges.append((left, right))
        new = vocab.setdefault(left + right.removeprefix(prefix), len(vocab))
        for ids in split.values():
            at = 0
            while at < len(ids) - 1:
                if (ids[at], ids[at + 1]) == pair:
                    ids[at : at + 2] = [new]
                at += 1
    return vocab, merges


@st.composite
def word_counts(draw: st.DrawFn, alphabets: tuple[str, ...] = ("ab", "abc", "abcd", "aé漢😀")) -> Words:
    word = st.text(draw(st.sampled_from(alphabets)), min_size=1, max_size=draw(st.sampled_from([3, 8, 20])))
    return draw(st.dictionaries(word, st.integers(1, draw(st.sampled_from([1, 4, 30]))), min_size=1, max_size=40))


OPTIONS = st.fixed_dictionaries(
    {
        "vocab_size": st.sampled_from([1, 5, 10, 30, 300]),
        "min_frequency": st.integers(0, 3),
        "special_tokens": st.sampled_from([[], ["<s>", "<s>"], ["ab", "aba", "a"], ["bab", "abb", "aab", "ba"]]),
    }
)
LETTERS = st.sampled_from([[], ["z"], ["z", "b"]])


@given(word_counts(), OPTIONS, LETTERS)
def test_characters_as_hugging_face(words: Words, options: dict[str, Any], letters: list[str]) -> None:
    assert trained(ours(words, initial_alphabet=letters, **options)) == theirs(
        words, initial_alphabet=letters, **options
    )


@given(word_counts((" a", "aé漢😀", "ab\n\x00", "ġĠ ")), OPTIONS, st.booleans())
def test_bytes_as_hugging_face(words: Words, options: dict[str, Any], all_letters: bool) -> None:
    options["initial_alphabet"] = byte_letters() if all_letters else []
    assert trained(ours(words, byte_level=True, **options)) == theirs(words, byte_level=True, **options)


@given(word_counts(), OPTIONS)
def test_wordpiece_as_hugging_face(words: Words, options: dict[str, Any]) -> None:
    """Their ids of continuing letters follow a hash table; given as special tokens, they have the order that ours have."""
    letters = sorted({"##" + c for word in words for c in word[1:]})
    options["special_tokens"] = [*options["special_tokens"], *letters]
    options["continuing_prefix"] = "##"
    assert trained(ours(words, **options)) == theirs(words, **options)


@given(word_counts(), OPTIONS, st.sampled_from(["", "##"]))
def test_counting_anew_before_each_merge(words: Words, options: dict[str, Any], prefix: str) -> None:
    assert trained(ours(words, continuing_prefix=prefix, **options)) == recounted(words, prefix=prefix, **options)


def queued(words: Words, *, vocab_size: int, min_frequency: int, special_tokens: list[str]) -> tuple[Trained, bool]:
    """Hugging Face's queue with `##`, step by step, and whether it had to choose between two entries of one pair.

    With "#" among the letters, "#" + "###" is "##" and "##" + "##b" is "##b": tokens are made in two ways, pairs are
    queued twice, and counts of pairs that were merged already are never taken back.
    """
    vocab = {token: row for row, token in enumerate(dict.fromkeys(special_tokens))}
    for letter in sorted({c for word in words for c in word}):
        vocab.setdefault(letter, len(vocab))
    split = {word: [vocab["##" + c if i else c] for i, c in enumerate(word)] for word in words}
    counts: Counter[tuple[int, int]] = Counter()
    where: dict[tuple[int, int], set[str]] = {}
    for word, ids in split.items():
        for pair in pairwise(ids):
            counts[pair] += words[word]
            where.setdefault(pair, set()).add(word)
    queue = [(-counts[pair], pair, places) for pair, places in where.items()]
    rank: dict[Any, None] = {}
    chosen = False
    while len(vocab) < vocab_size and queue:
        top = min(queue, key=lambda entry: entry[:2])
        queue.remove(top)
        count, pair, places = top
        if -count != counts[pair]:
            queue.append((-counts[pair], pair, places))
            continue
        if -count < max(1, min_frequency):
            break
        chosen |= any(entry[:2] == top[:2] for entry in queue)
        parts = tuple(list(vocab)[i] for i in pair)
        rank.pop(parts, None)
        rank[parts] = None
        new = vocab.setdefault(parts[0] + parts[1].removeprefix("##"), len(vocab))
        where = {}
        for word in places:
            at, ids = 0, split[word]
            while at < len(ids):
                if ids[at : at + 2] == list(pair):
                    ids[at : at + 2] = [new]
                    around = [((ids[i], pair[0]), (ids[i], new)) for i in (at - 1,) if i >= 0]
                    around += [((pair[1], right), (new, right)) for right in ids[at + 1 : at + 2]]
                    for old, now in around:
                        counts[old] -= words[word]
                        counts[now] += words[word]
                        where.setdefault(now, set()).add(word)
                at += 1
        queue += [(-counts[pair], pair, places) for pair, places in where.items() if counts[pair] > 0]
    return (vocab, list(rank)), chosen


@pytest.mark.slow
def test_tokens_made_in_two_ways() -> None:
    """Random words of "#", "a" and "b"; seeds are printed by the assertion."""
    compared = twice = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 9, rng.integers(2, 20))
        words = {"".join(rng.choice(list("#ab"), size)): int(rng.integers(1, 5)) for size in sizes}
        options: dict[str, Any] = {"vocab_size": 40, "min_frequency": 1, "special_tokens": ["###", "##a", "##b"]}
        result = ours(words, continuing_prefix="##", **options)
        twin, chosen = queued(words, **options)
        twice += len(result.merges) < len(result.history)
        if not chosen:
            assert trained(result) == twin == theirs(words, continuing_prefix="##", **options), seed
            compared += 1
    assert compared > 200
    assert twice > 10


def pretokenized(text: str, splitter: Any) -> Words:
    return Counter(piece for line in text.splitlines() for piece, _ in splitter.pre_tokenize_str(line))


@pytest.mark.landing
@pytest.mark.parametrize("size", [500, 4000])
def test_real_text_as_hugging_face(size: int) -> None:
    text = "".join((SAMPLE / name).read_text() for name in ("handbook.txt", "odd.txt", "languages.jsonl"))
    words = pretokenized(text, pre_tokenizers.BertPreTokenizer())
    options: dict[str, Any] = {"vocab_size": size, "min_frequency": 2, "special_tokens": ["[UNK]", "[MASK]"]}
    assert trained(ours(words, byte_level=True, **options)) == theirs(words, byte_level=True, **options)
    assert trained(ours(words, **options)) == theirs(words, **options)
    options["special_tokens"] += sorted({"##" + c for word in words for c in word[1:]})
    options["continuing_prefix"] = "##"
    assert trained(ours(words, **options)) == theirs(words, **options)


def test_wordpiece_trainer_within_its_own_spread() -> None:
    """WordPieceTrainer as it is used: two runs of it differ in ids and in ties; ours differs no more from either."""
    words = pretokenized((SAMPLE / "handbook.txt").read_text(), pre_tokenizers.BertPreTokenizer())

    def vocabulary() -> set[str]:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        trainer = trainers.WordPieceTrainer(
            vocab_size=1000, min_frequency=2, special_tokens=["[UNK]"], show_progress=False
        )
        tokenizer.train_from_iterator((word for word, count in words.items() for _ in range(count)), trainer)
        return set(tokenizer.get_vocab())

    runs = [vocabulary() for _ in range(8)]
    mine = set(ours(words, vocab_size=1000, min_frequency=2, special_tokens=["[UNK]"], continuing_prefix="##").tokens)
    spread = max(len(one - other) for one in runs for other in runs)
    assert len(mine) == 1000
    assert min(len(mine - run) for run in runs) <= spread < 50


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_limited_alphabet(limit: int) -> None:
    words = {"abc": 5, "bdb": 3, "caab": 2, "a": 7}
    counts = Counter({c: sum(n * word.count(c) for word, n in words.items()) for c in "abcd"})
    assert len(set(counts.values())) == 4  # no two letters as often: nothing hangs on a hash table
    options: dict[str, Any] = {"vocab_size": 20, "limit_alphabet": limit}
    result = ours(words, **options)
    assert trained(result) == theirs(words, **options)
    lost = counts.most_common()[limit:]
    assert result.dropped_letters == len(lost)
    assert result.dropped_occurrences == sum(count for _, count in lost)


def test_ties_of_the_limit_keep_the_lower_code_points() -> None:
    result = ours({"dcba": 2, "e": 3}, vocab_size=3, limit_alphabet=3, initial_alphabet=["z"])
    assert result.tokens == ["a", "e", "z"]
    assert (result.dropped_letters, result.dropped_occurrences) == (3, 6)


@pytest.mark.parametrize("prefix", ["", "##"])
def test_runs_of_one_letter(prefix: str) -> None:
    words = {"a" * size: 1 + size % 3 for size in range(1, 120)} | {"ba" * 30: 2, "a" * 1024: 1}
    options: dict[str, Any] = {"vocab_size": 60, "special_tokens": ["##a"] if prefix else []}
    options["continuing_prefix"] = prefix
    assert trained(ours(words, **options)) == theirs(words, **options)


def test_long_pretokens_without_pattern() -> None:
    """Tokens of many lengths side by side in one pre-token; most merges touch it once or twice."""
    rng = np.random.default_rng(7)
    words = {"".join(rng.choice(list("abcdefgh"), 1024)): 1 for _ in range(20)}
    options: dict[str, Any] = {"vocab_size": 3000, "min_frequency": 2}
    assert trained(ours(words, **options)) == theirs(words, **options)


def test_counts_beyond_32_bits() -> None:
    words = {"ab": 2**40, "cd": 2**40 + 1, "xcd": 2**33}
    result = ours(words, vocab_size=100)
    assert result.merges == [("c", "d"), ("a", "b"), ("x", "cd")]


def test_order_of_rows_does_not_matter() -> None:
    words = {"".join(chars): 1 + len(chars) for chars in np.random.default_rng(3).choice(list("abc"), (50, 7))}
    table = table_of(words)
    texts = [text_of(table, row).encode() for row in range(len(table))]
    mirrored = StringCounts.from_sorted(texts[::-1], table.counts[::-1])
    results = [
        train_bpe(rows, vocab_size=60, min_frequency=1, special_tokens=[], byte_level=False, continuing_prefix="##")
        for rows in (table, mirrored)
    ]
    assert trained(results[0]) == trained(results[1])


def test_early_end() -> None:
    result = ours({"abab": 3, "xyz": 1}, vocab_size=1000, min_frequency=2)
    assert result.merges == [("a", "b"), ("ab", "ab")]


def test_nothing_to_learn() -> None:
    result = ours({}, vocab_size=10, special_tokens=["<s>"])
    assert (result.tokens, result.merges) == (["<s>"], [])


def test_report_counts_up_and_can_stop() -> None:
    rng = np.random.default_rng(1)
    words = {"".join(rng.choice(list("abcdefgh"), 30)): 1 for _ in range(300)}
    seen: list[tuple[int, int]] = []
    result = ours(words, vocab_size=2008, report=lambda done, total: seen.append((done, total)))
    assert [total for _, total in seen] == [2000] * len(seen)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == len(result.tokens) - 8
    assert len(seen) > 3

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ours(words, vocab_size=2008, report=stop)


def test_too_many_bytes() -> None:
    endless = StringCounts(np.empty(2**31, np.uint8), np.array([0, 2**31]), np.ones(1, np.int64))
    with pytest.raises(BudgetError, match="too many"):
        train_bpe(endless, vocab_size=300, min_frequency=2, special_tokens=[], byte_level=True)


def test_memory_is_as_foretold() -> None:
    """Pages written by a training whose every merge finds new pairs: random bytes."""
    rng = np.random.default_rng(5)
    rows = StringCounts(rng.integers(0, 256, 1 << 20, np.uint8), np.arange(1025) << 10, np.ones(1024, np.int64))
    training = _Training(rows, alphabet_of(rows, byte_level=True), 16_000, 2, "")
    training.run(lambda done, total: None)
    arrays = {name: value for name, value in vars(training).items() if isinstance(value, np.ndarray)}
    arrays["positions"] = arrays["positions"][: training.state[State.POSITIONS]]
    taken = sum(array.nbytes for array in arrays.values())
    assert 0.1 < taken / training_bytes(1 << 20, 1024, 16_000) < 1


def test_letters_of_bytes() -> None:
    assert sorted(byte_letters()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    piece = "".join(chr(i) for i in range(256)) + "漢😀"
    written = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(piece)[0][0]
    assert written == "".join(byte_letters()[byte] for byte in piece.encode())
