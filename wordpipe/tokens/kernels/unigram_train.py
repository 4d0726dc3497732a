"""A unigram language model of pieces, trained from counted pre-tokens.

Begins with many pieces, fits their probabilities by expectation maximisation, and takes those away that the likelihood misses
least, until the wished number is left (Kudo, Subword Regularization: Improving Neural Network Translation Models with Multiple
Subword Candidates, 2018, section 3.2), in the steps and with the constants of sentencepiece, so that vocabularies are as good.

A word's segmentations are the paths through its places along edges, one edge for each piece that fits there. Sums over all
paths are taken with probabilities, not logarithms (an exponential for each edge would cost most of the time); where they get
too small for a float they are lifted by a power of two, which is counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wordpipe.compiled import kernel
from wordpipe.errors import BudgetError
from wordpipe.tokens.counting import StringCounts
from wordpipe.tokens.kernels.bpe_train import Alphabet, Report, alphabet_of
from wordpipe.tokens.kernels.seed_pieces import LENGTH_BITS, Pieces, Symbols, seed_pieces, symbols_of
from wordpipe.tokens.vocabulary import F64, I32, I64, U32, Flags, byte_letters

_LENGTH = (1 << LENGTH_BITS) - 1
_SMALL = 2.0**-300
_LIFT = 2.0**300


@kernel
def expected_counts(starts: I64, counts: I64, edge_starts: I64, edges: U32, chances: F64, expected: F64) -> float:
    """How often each piece is used on average over all segmentations, and the log likelihood: forward-backward.

    Args:
        starts: int64 [words + 1], places where words begin.
        counts: int64 [words].
        edge_starts: int64 [places + 1]. Every place has the edge of its letter.
        edges: uint32, piece << LENGTH_BITS | length.
        chances: float64 [pieces], probabilities.
        expected: float64 [pieces], zeros; out: expected counts in the text.

    Returns:
        Natural logarithm of the probability of all words together.

    Source: Kudo, Subword Regularization, 2018, section 3.2; Rabiner, A Tutorial on Hidden Markov Models, 1989, section V.A.
    """
    longest = 0
    for word in range(len(counts)):
        longest = max(longest, starts[word + 1] - starts[word])
    forward, backward = np.zeros(longest + 1), np.zeros(longest + 1)
    lifts = np.zeros(longest + 1, np.int32)
    log_likelihood = 0.0
    for word in range(len(counts)):
        begin, size = starts[word], starts[word + 1] - starts[word]
        forward[: size + 1] = 0.0
        forward[0] = 1.0
        lifted = 0
        for i in range(size):
            if forward[i] < _SMALL:
                forward[i : min(i + _LENGTH, size) + 1] *= _LIFT
                lifted += 1
            lifts[i] = lifted
            for e in range(edge_starts[begin + i], edge_starts[begin + i + 1]):
                edge = np.int64(edges[e])
                end = i + (edge & _LENGTH)
                if end <= size:
                    forward[end] += forward[i] * chances[edge >> LENGTH_BITS]
        whole = forward[size]
        log_likelihood += counts[word] * (np.log(whole) - lifted * np.log(_LIFT))

        backward[size] = 1.0
        back = 0
        for i in range(size - 1, -1, -1):
            if backward[i + 1] < _SMALL:
                backward[i + 1 : min(i + 1 + _LENGTH, size) + 1] *= _LIFT
                back += 1
            share = counts[word] * (forward[i] / whole)
            if lifts[i] + back != lifted:
                share *= _LIFT ** np.float64(lifted - lifts[i] - back)
            total = 0.0
            for e in range(edge_starts[begin + i], edge_starts[begin + i + 1]):
                edge = np.int64(edges[e])
                piece = edge >> LENGTH_BITS
                onward = chances[piece] * backward[i + (edge & _LENGTH)]
                expected[piece] += share * onward
                total += onward
            backward[i] = total
    return log_likelihood


@kernel
def best_counts(starts: I64, counts: I64, edge_starts: I64, edges: U32, scores: F64, used: I64) -> None:
    """How often each piece is used when every word is segmented in its most probable way (Viterbi).

    Args:
        starts: int64 [words + 1], places where words begin.
        counts: int64 [words].
        edge_starts: int64 [places + 1].
        edges: uint32, as in `expected_counts`.
        scores: float64 [pieces], logarithms of probabilities.
        used: int64 [pieces], zeros; out: occurrences in the text.
    """
    longest = 0
    for word in range(len(counts)):
        longest = max(longest, starts[word + 1] - starts[word])
    best, last = np.empty(longest + 1), np.empty(longest + 1, np.int64)
    for word in range(len(counts)):
        begin, size = starts[word], starts[word + 1] - starts[word]
        best[: size + 1] = -np.inf
        best[0] = 0.0
        for i in range(size):
            for e in range(edge_starts[begin + i], edge_starts[begin + i + 1]):
                edge = np.int64(edges[e])
                score = best[i] + scores[edge >> LENGTH_BITS]
                end = i + (edge & _LENGTH)
                if score > best[end]:
                    best[end] = score
                    last[end] = edge
        i = size
        while i > 0:
            used[last[i] >> LENGTH_BITS] += counts[word]
            i -= last[i] & _LENGTH


@kernel
def removal_losses(
    places: I32, lengths: I32, edge_starts: I64, edges: U32, scores: F64, used: I64,
    losses: F64,
) -> None:  # fmt: skip
    """What the log likelihood of the text would lose without each piece, were its uses spelled in the next best way.

    Args:
        places: int32 [pieces], where one occurrence of each piece begins.
        lengths: int32 [pieces], in symbols.
        edge_starts: int64 [places + 1].
        edges: uint32, as in `expected_counts`.
        scores: float64 [pieces], logarithms of probabilities.
        used: int64 [pieces], from `best_counts`.
        losses: float64 [pieces], out: infinite for letters, minus infinity for pieces that no best segmentation uses.

    Source: Kudo 2018, section 3.2, step 3, approximated as in sentencepiece: new counts are the old ones plus those moved.
    """
    total = float(used.sum())
    best, last = np.empty(_LENGTH + 1), np.empty(_LENGTH + 1, np.int64)
    for piece in range(len(lengths)):
        size, place = lengths[piece], places[piece]
        if size == 1 or used[piece] == 0:
            losses[piece] = np.inf if size == 1 else -np.inf
            continue
        best[: size + 1] = -np.inf
        best[0] = 0.0
        for i in range(size):
            for e in range(edge_starts[place + i], edge_starts[place + i + 1]):
                edge = np.int64(edges[e])
                end = i + (edge & _LENGTH)
                score = best[i] + scores[edge >> LENGTH_BITS]
                if end <= size and edge >> LENGTH_BITS != piece and score > best[end]:
                    best[end] = score
                    last[end] = edge
        moved = float(used[piece])
        spelled, parts, i = 0.0, 0, int(size)
        while i > 0:
            spelled += np.log(used[last[i] >> LENGTH_BITS] + moved)
            parts += 1
            i -= int(last[i] & _LENGTH)
        spelled -= parts * np.log(total + moved * (parts - 1))
        losses[piece] = moved * (np.log(moved) - np.log(total) - spelled)


LEAST_EXPECTED = 0.5  # pieces used less often on average are forgotten
SPARE = 1.1  # pieces kept until the last choice, for each one wished
SEED_SIZE = 1_000_000  # pieces to begin with
LONGEST = 16  # letters of a piece
SHRINKING = 0.75  # share of the pieces that a round leaves
STEPS = 2  # of expectation maximisation in a round
SPECIAL_SCORE = -1000.0  # below any segmentation of its letters: text never becomes a special token by itself


@dataclass(frozen=True)
class UnigramResult:
    """A trained vocabulary.

    Attributes:
        vocab: (token, natural logarithm of its probability); special tokens, then the others by falling score. The place of a
            token is its id.
        dropped_letters: distinct characters that `limit_alphabet` left out.
        dropped_occurrences: how often these occur in the text.
    """

    vocab: list[tuple[str, float]]
    dropped_letters: int
    dropped_occurrences: int


def train_unigram(
    pretokens: StringCounts,
    *,
    vocab_size: int,
    special_tokens: Sequence[str],
    byte_level: bool,
    limit_alphabet: int | None = None,
    report: Report | None = None,
) -> UnigramResult:
    """Learn a vocabulary of `vocab_size` tokens; fewer when the text has not enough substrings that recur.

    Args:
        pretokens: distinct pre-tokens and their counts.
        vocab_size: tokens wanted, special tokens and letters included.
        special_tokens: the first tokens; doubles count once.
        byte_level: pre-tokens are bytes, and letters are all 256 of `byte_letters`; otherwise letters are characters.
        limit_alphabet: at most so many letters, the commonest first; as many as fit where it is not given.
        report: called with (rounds done, rounds expected); may raise to stop.

    Raises:
        BudgetError: 2**31 bytes of pre-tokens or more.
    """
    special_tokens = list(dict.fromkeys(special_tokens))
    room = vocab_size - len(special_tokens)
    if len(pretokens.data) >= 1 << 31:
        raise BudgetError("too many pre-tokens to train on", got=len(pretokens.data), expected="fewer than 2**31 bytes")
    alphabet = alphabet_of(
        pretokens,
        initial_alphabet=byte_letters() if byte_level else (),
        byte_level=byte_level,
        limit_alphabet=None if byte_level else min(room, room if limit_alphabet is None else limit_alphabet),
    )
    if not alphabet.tokens:
        return UnigramResult([(token, SPECIAL_SCORE) for token in special_tokens], 0, 0)
    symbols = symbols_of(pretokens, alphabet)
    pieces = seed_pieces(symbols, len(alphabet.tokens), seed_size=SEED_SIZE, max_length=LONGEST)
    scores = _fit(symbols, pieces, int(SPARE * room), report or (lambda done, total: None))
    found = _named(symbols, pieces, alphabet, scores, room, set(special_tokens))
    return UnigramResult(
        vocab=[(token, SPECIAL_SCORE) for token in special_tokens] + found,
        dropped_letters=alphabet.dropped_letters,
        dropped_occurrences=alphabet.dropped_occurrences,
    )


def training_bytes(pretokens_bytes: int, n: int) -> int:
    """Memory that training takes at most for `n` pre-tokens of so many bytes together, themselves not counted."""
    return 72 * pretokens_bytes + 24 * n + (96 << 20)


def digamma(x: F64) -> F64:
    """The derivative of the logarithm of the gamma function, for x > 0, to 1e-10 or better.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.3.5 (recurrence) and 6.3.18 (expansion).
    """
    x, total = x.astype(np.float64), np.zeros(len(x))
    for _ in range(10):  # each step takes x one up; from 10 on the expansion is exact enough
        low = x < 10
        total[low] -= 1 / x[low]
        x[low] += 1
    square = 1 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    result: F64 = total + np.log(x) - 0.5 / x - series
    return result


def _fit(symbols: Symbols, pieces: Pieces, target: int, report: Report) -> F64:
    """Rounds of fitting and pruning until `target` pieces are left: the scores of these."""
    rounds = 1 + max(0, math.ceil(math.log(target / len(pieces)) / math.log(SHRINKING)))
    weights = np.maximum(pieces.weights, LEAST_EXPECTED)
    scores: F64 = np.log(weights / weights.sum())
    done = 0
    while True:
        for _ in range(STEPS):
            scores = _step(symbols, pieces, scores)
        done += 1
        report(min(done, rounds), rounds)
        if len(pieces) <= target:
            return scores
        kept = _worth_keeping(symbols, pieces, scores, max(target, int(SHRINKING * len(pieces))))
        pieces.keep(kept)
        scores = scores[kept]


def _step(symbols: Symbols, pieces: Pieces, scores: F64) -> F64:
    """One step of expectation maximisation. Pieces that are hardly used are forgotten; letters stay.

    Expected counts go through the digamma function: what a sparse prior makes of them (Liang and Klein, Structured Bayesian
    Nonparametric Models with Variational Inference, 2007).
    """
    expected = np.zeros(len(pieces))
    expected_counts(symbols.starts, symbols.counts, pieces.edge_starts, pieces.edges, np.exp(scores), expected)
    pieces.weights = expected
    kept = (expected >= LEAST_EXPECTED) | (pieces.lengths == 1)
    if not kept.all():
        pieces.keep(kept)
    weights = np.maximum(pieces.weights, LEAST_EXPECTED)
    fitted: F64 = digamma(weights) - digamma(weights.sum(keepdims=True))
    return fitted


def _worth_keeping(symbols: Symbols, pieces: Pieces, scores: F64, size: int) -> Flags:
    """Which pieces stay: letters, and those whose loss would cost most; of equal ones the first."""
    used, losses = np.zeros(len(pieces), np.int64), np.empty(len(pieces))
    best_counts(symbols.starts, symbols.counts, pieces.edge_starts, pieces.edges, scores, used)
    removal_losses(pieces.places, pieces.lengths, pieces.edge_starts, pieces.edges, scores, used, losses)
    kept = np.zeros(len(pieces), np.bool_)
    kept[np.argsort(-losses, kind="stable")[:size]] = True
    kept &= losses > -np.inf
    kept |= pieces.lengths == 1
    return kept


def _named(
    symbols: Symbols, pieces: Pieces, alphabet: Alphabet, scores: F64, room: int, special_tokens: set[str]
) -> list[tuple[str, float]]:
    """At most `room` pieces as text, with their scores: all letters, then the most probable; those by falling score."""
    letters = len(alphabet.tokens)
    best = letters + np.argsort(-scores[letters:], kind="stable")
    named = list(zip(alphabet.tokens, scores[:letters].tolist(), strict=True))
    for piece in best[: room - letters + len(special_tokens)].tolist():
        place = pieces.places[piece]
        text = symbols.text[place : place + pieces.lengths[piece]].tolist()
        named.append(("".join(alphabet.tokens[symbol] for symbol in text), float(scores[piece])))
    named = [(token, score) for token, score in named if token not in special_tokens][:room]
    return sorted(named, key=lambda item: (-item[1], item[0]))
