"""Unigram training against enumeration of all segmentations, and against the trainer of tokenizers."""

import itertools
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.support.pretoken_tables import table_of
from wordpipe.tokens import SPECIAL_TOKENS, UNK, byte_letters
from wordpipe.tokens.kernels.bpe_train import alphabet_of
from wordpipe.tokens.kernels.unigram_train import (
    LENGTH_BITS,
    MOST_EDGES,
    best_counts,
    digamma,
    expected_counts,
    removal_losses,
    seed_pieces,
    symbols_of,
    train_unigram,
    training_bytes,
)

TEXT = (Path(__file__).parents[2] / "data" / "sample" / "handbook.txt").read_text(encoding="utf-8")
WORDS = Counter(f"▁{word}" for word in TEXT.split())


def laid_out(words, seed_size=1000, max_length=4):
    """Symbols, pieces and the pieces' names."""
    pretokens = table_of(words)
    alphabet = alphabet_of(pretokens, byte_level=False)
    symbols = symbols_of(pretokens, alphabet)
    pieces = seed_pieces(symbols, len(alphabet.tokens), seed_size=seed_size, max_length=max_length)
    names = list(alphabet.tokens)
    for place, length in zip(pieces.places[len(names) :], pieces.lengths[len(names) :], strict=True):
        names.append("".join(alphabet.tokens[i] for i in symbols.text[place : place + length]))
    return symbols, pieces, names


def random_words(seed, letters="abc", number=12, longest=7):
    draw = random.Random(seed)
    drawn = ("".join(draw.choices(letters, k=draw.randint(1, longest))) for _ in range(number))
    return {word: draw.randint(1, 5) for word in drawn}


def random_scores(seed, pieces):
    chances = np.random.default_rng(seed).dirichlet(np.ones(len(pieces)))
    return np.log(np.maximum(chances, 1e-6))


def segmentations(word, vocab):
    """All of them."""
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        ends = [i + 1 for i, cut in enumerate(cuts) if cut] + [len(word)]
        parts = [word[i:j] for i, j in zip([0, *ends], ends, strict=False)]
        if all(part in vocab for part in parts):
            yield parts


def train(words, size=40, **options):
    options = {"special_tokens": SPECIAL_TOKENS, "byte_level": False} | options
    return train_unigram(table_of(words), vocab_size=size, **options)


@pytest.mark.parametrize("seed", range(8))
def test_seeds_are_all_recurring_substrings_that_vary_on_both_sides(seed):
    depth, words = 4, random_words(seed)
    places = {}  # substring → what precedes and follows each occurrence, a border being like nothing else
    counts = Counter()
    for number, (word, count) in enumerate(words.items()):
        for i, j in itertools.combinations(range(len(word) + 1), 2):
            if 2 <= j - i <= depth:
                after = (number, i) if j == len(word) or j - i == depth else word[j]
                places.setdefault(word[i:j], []).append((word[i - 1] if i else number, after))
                counts[word[i:j]] += count
    expected = {
        text: counts[text] * len(text)
        for text, around in places.items()
        if len({before for before, _ in around}) > 1 and len({after for _, after in around}) > 1
    }
    expected |= {word: counts[word] * len(word) for word in words if 2 <= len(word) <= depth and counts[word] > 1}
    _, pieces, names = laid_out(words, max_length=depth)
    letters = int((pieces.lengths == 1).sum())
    assert dict(zip(names[letters:], pieces.weights[letters:].tolist(), strict=True)) == expected
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_seeds_are_taken(seed):
    words = random_words(seed, number=30)
    _, everything, _ = laid_out(words)
    _, few, names = laid_out(words, seed_size=20)
    assert len(few) == 20
    assert sorted(few.weights[3:]) == sorted(everything.weights[3:])[-17:]
    assert names[:3] == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(4))
def test_edges_are_the_pieces_that_fit(seed):
    symbols, pieces, names = laid_out(random_words(seed))
    kept = np.random.default_rng(seed).random(len(pieces)) < 0.7
    pieces.keep(kept)
    names = [name for name, stays in zip(names, kept, strict=True) if stays]
    text = "".join("abc"[s] for s in symbols.text)
    for begin, end in itertools.pairwise(symbols.starts.tolist()):
        for at in range(begin, end):
            edges = pieces.edges[pieces.edge_starts[at] : pieces.edge_starts[at + 1]].tolist()
            found = [(edge >> LENGTH_BITS, edge & 31) for edge in edges]
            assert [length for _, length in found] == sorted(length for _, length in found)
            fitting = {(i, len(name)) for i, name in enumerate(names) if text[at:end].startswith(name)}
            assert set(found) == fitting
            assert len(found) == len(fitting)


@pytest.mark.parametrize("seed", range(6))
def test_expected_counts_are_those_of_all_segmentations(seed):
    words = random_words(seed)
    symbols, pieces, names = laid_out(words)
    scores = random_scores(seed, pieces)
    chance = dict(zip(names, np.exp(scores).tolist(), strict=True))
    expected, log_likelihood = Counter(), 0.0
    for word, count in words.items():
        weights = [(parts, math.prod(chance[part] for part in parts)) for parts in segmentations(word, chance)]
        whole = sum(weight for _, weight in weights)
        log_likelihood += count * math.log(whole)
        for parts, weight in weights:
            for part in parts:
                expected[part] += count * weight / whole
    counted = np.zeros(len(pieces))
    total = expected_counts(symbols.starts, symbols.counts, pieces.edge_starts, pieces.edges, np.exp(scores), counted)
    assert total == pytest.approx(log_likelihood, rel=1e-12)
    assert counted == pytest.approx([expected[name] for name in names], rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_best_counts_and_losses_are_those_of_the_best_segmentations(seed):
    words = random_words(seed)
    symbols, pieces, names = laid_out(words)
    scores = random_scores(seed, pieces)
    score = dict(zip(names, scores.tolist(), strict=True))

    def best(word, vocab):
        return max(segmentations(word, vocab), key=lambda parts: sum(vocab[part] for part in parts))

    used = Counter()
    for word, count in words.items():
        for part in best(word, score):
            used[part] += count
    counted, losses = np.zeros(len(pieces), np.int64), np.empty(len(pieces))
    best_counts(symbols.starts, symbols.counts, pieces.edge_starts, pieces.edges, scores, counted)
    removal_losses(pieces.places, pieces.lengths, pieces.edge_starts, pieces.edges, scores, counted, losses)
    assert dict(zip(names, counted.tolist(), strict=True)) == {name: used[name] for name in names}
    for name, loss in zip(names, losses.tolist(), strict=True):
        if len(name) == 1 or not used[name]:
            assert loss == (math.inf if len(name) == 1 else -math.inf)
            continue
        parts = best(name, {other: value for other, value in score.items() if other != name})
        total = sum(used.values())
        after = total + used[name] * (len(parts) - 1)
        spelled = sum(math.log((used[part] + used[name]) / after) for part in parts)
        assert loss == pytest.approx(used[name] * (math.log(used[name] / total) - spelled))


@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_never_falls(seed):
    symbols, pieces, _ = laid_out(random_words(seed, number=40, longest=12))
    chances = pieces.weights / pieces.weights.sum()
    likelihoods = []
    for _ in range(15):
        expected = np.zeros(len(pieces))
        likelihoods.append(
            expected_counts(symbols.starts, symbols.counts, pieces.edge_starts, pieces.edges, chances, expected)
        )
        chances = expected / expected.sum()
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(likelihoods))
    assert likelihoods[-1] > likelihoods[0] + 1


def test_long_words_do_not_underflow():
    word = "".join(random.Random(3).choices("ab", k=4000))
    symbols, pieces, names = laid_out({word: 2})
    scores = random_scores(3, pieces) - 20  # far below what a float can hold after a few steps
    forward = np.full(len(word) + 1, -np.inf)
    forward[0] = 0.0
    score = dict(zip(names, scores.tolist(), strict=True))
    for i in range(len(word)):
        for j in range(i + 1, min(i + 4, len(word)) + 1):
            forward[j] = np.logaddexp(forward[j], forward[i] + score.get(word[i:j], -np.inf))
    expected = np.zeros(len(pieces))
    total = expected_counts(symbols.starts, symbols.counts, pieces.edge_starts, pieces.edges, np.exp(scores), expected)
    assert total == pytest.approx(2 * forward[-1], rel=1e-12)
    assert expected @ pieces.lengths == pytest.approx(2 * len(word))


def test_digamma_is_the_slope_of_the_logarithm_of_gamma():
    x = np.array([0.5, 1.0, 3.3, 9.99, 10.0, 250.0, 1e6])
    slopes = [(math.lgamma(v * 1.0001) - math.lgamma(v * 0.9999)) / (v * 0.0002) for v in x.tolist()]
    assert digamma(x) == pytest.approx(slopes, rel=1e-6)
    assert digamma(np.array([1.0]))[0] == pytest.approx(-0.5772156649015329, abs=1e-10)


def test_the_vocabulary_has_the_wished_size_and_order():
    made = train(WORDS, 700)
    tokens, scores = [token for token, _ in made.vocab], [score for _, score in made.vocab]
    assert len(tokens) == len(set(tokens)) == 700
    assert tuple(tokens[: len(SPECIAL_TOKENS)]) == SPECIAL_TOKENS
    assert set().union(*WORDS) <= set(tokens)
    assert max(map(len, tokens[7:])) <= 16
    learned = scores[7:]
    assert learned == sorted(learned, reverse=True)
    assert 0.9 < sum(map(math.exp, learned)) <= 1
    assert (made.dropped_letters, made.dropped_occurrences) == (0, 0)


def test_training_is_repeatable_and_reports():
    seen = []
    first = train(WORDS, 500, report=lambda done, rounds: seen.append((done, rounds)))
    assert first == train(dict(reversed(WORDS.items())), 500)
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert all(done <= rounds for done, rounds in seen)


def test_letters_beyond_the_limit_are_counted_and_unknown():
    words = {"ab": 10, "abx": 3, "yab": 2, "abab": 4}
    made = train(words, 20, limit_alphabet=2)
    assert (made.dropped_letters, made.dropped_occurrences) == (2, 5)
    tokens = {token for token, _ in made.vocab}
    assert {"a", "b", "ab"} <= tokens
    assert not tokens & {"x", "y"}
    model = models.Unigram(made.vocab, 1, False)
    assert [token.value for token in model.tokenize("abxab")] == ["ab", "x", "ab"]
    assert [token.id for token in model.tokenize("x")] == [1]


def test_text_spelled_like_a_special_token_stays_text():
    made = train({"[PAD]": 50, "[CLS]x": 9, "<s>": 20}, 30)
    tokens = [token for token, _ in made.vocab]
    assert len(tokens) == len(set(tokens))
    model = models.Unigram(made.vocab, 1, False)
    assert all(token.id >= len(SPECIAL_TOKENS) for word in SPECIAL_TOKENS[:1] for token in model.tokenize(word))
    assert all(token.id >= len(SPECIAL_TOKENS) for token in model.tokenize("<s>[CLS]x"))


@pytest.fixture(scope="module")
def byte_level():
    made = train(Counter(f" {word}" for word in TEXT.split()), 600, byte_level=True)
    assert set(byte_letters()) <= {token for token, _ in made.vocab}
    tokenizer = Tokenizer(models.Unigram(made.vocab, 1, False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_byte_level_pieces_give_every_text_back(byte_level, text):
    ids = byte_level.encode(text).ids
    assert not ids or min(ids) >= len(SPECIAL_TOKENS)
    assert byte_level.decode(ids) == text


def test_it_is_as_good_as_the_trainer_of_tokenizers():
    size, training = 1000, Counter(f"▁{word}" for word in TEXT[:80_000].split())
    held_out = Counter(f"▁{word}" for word in TEXT[80_000:].split())
    theirs = Tokenizer(models.Unigram())
    theirs.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size - 6, unk_token=UNK, special_tokens=[UNK], show_progress=False)
    theirs.train_from_iterator([TEXT[:80_000].replace("\n", " ")], trainer)
    ours = Tokenizer(models.Unigram(train(training, size).vocab, 1, False))

    def tokens(model):
        return sum(count * len(model.tokenize(word)) for word, count in held_out.items())

    assert tokens(ours.model) <= 1.01 * tokens(theirs.model)


def test_repeated_letters_take_bounded_memory_and_time():
    symbols, pieces, _ = laid_out({"a" * 300_000: 1}, seed_size=1_000_000, max_length=16)
    assert len(pieces.edges) <= MOST_EDGES * len(symbols.text)
    tokens = [token for token, _ in train({"a" * 300_000: 1, "b": 1}, 12).vocab]
    assert {"a", "b", "a" * 16} <= set(tokens)
    assert training_bytes(300_000, 1) < 128 << 20


def test_no_text_gives_special_tokens_alone():
    assert [token for token, _ in train({}).vocab] == list(SPECIAL_TOKENS)
    assert len(train({}, 300, byte_level=True).vocab) == 256 + len(SPECIAL_TOKENS)


@settings(deadline=None)
@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 2**40), min_size=1),
    st.integers(0, 60),
    st.booleans(),
)
def test_any_text_trains_a_vocabulary_that_spells_it(words, more, byte_level):
    letters = 256 if byte_level else len(set().union(*words))
    made = train(words, len(SPECIAL_TOKENS) + letters + more, byte_level=byte_level)
    tokens = [token for token, _ in made.vocab]
    assert len(SPECIAL_TOKENS) + letters <= len(tokens) <= len(SPECIAL_TOKENS) + letters + more
    assert len(set(tokens)) == len(tokens)
    assert all(math.isfinite(score) and score <= 0 for _, score in made.vocab)
    model = models.Unigram(made.vocab, 1, False)
    assert made.dropped_letters == 0
    if not byte_level:
        assert all(token.id != 1 for word in words for token in model.tokenize(word))
