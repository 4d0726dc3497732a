"""A unigram language model of pieces, trained from counted pre-tokens.

Begins with many pieces, fits their probabilities by expectation maximisation, and takes those away that the likelihood misses
least, until the wished number is left (Kudo, Subword Regularization: Improving Neural Network Translation Models with Multiple
Subword Candidates, 2018, section 3.2), in the steps and with the constants of sentencepiece, so that vocabularies are as good.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wordpipe.errors import BudgetError, ConfigError
from wordpipe.tokens.letters import byte_letters
from wordpipe.tokens.pretokens import Pretokens
from wordpipe.tokens.train.alphabet import Alphabet, alphabet_of
from wordpipe.tokens.train.lattice import best_counts, expected_counts, removal_losses
from wordpipe.tokens.train.seed_pieces import LENGTH_BITS, Pieces, Symbols, seed_pieces, symbols_of

__all__ = ["UnigramResult", "digamma", "train_unigram", "training_bytes"]

Report = Callable[[int, int], None]
Floats = NDArray[np.float64]

LEAST_EXPECTED = 0.5  # pieces used less often on average are forgotten
SPARE = 1.1  # pieces kept until the last choice, for each one wished
BOUNDS = {
    "limit_alphabet": (1, math.inf),
    "seed_size": (1, 1 << 26),
    "max_piece_length": (1, (1 << LENGTH_BITS) - 1),
    "shrinking_factor": (0.01, 0.99),
    "n_sub_iterations": (1, 1000),
}
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
    pretokens: Pretokens,
    *,
    vocab_size: int,
    special_tokens: Sequence[str],
    byte_level: bool,
    unk_token: str | None = None,
    limit_alphabet: int | None = None,
    seed_size: int = 1_000_000,
    max_piece_length: int = 16,
    shrinking_factor: float = 0.75,
    n_sub_iterations: int = 2,
    report: Report | None = None,
) -> UnigramResult:
    """Learn a vocabulary of `vocab_size` tokens; fewer when the text has not enough substrings that recur.

    Args:
        pretokens: distinct pre-tokens and their counts.
        vocab_size: tokens wanted, special tokens and letters included.
        special_tokens: the first tokens; doubles count once.
        byte_level: pre-tokens are bytes, and letters are all 256 of `byte_letters`; otherwise letters are characters.
        unk_token: a special token for what the vocabulary cannot spell; byte-level vocabularies spell everything.
        limit_alphabet: at most so many letters, the commonest first; as many as fit where it is not given.
        seed_size: pieces to begin with.
        max_piece_length: in letters.
        shrinking_factor: share of the pieces that a round leaves.
        n_sub_iterations: steps of expectation maximisation in a round.
        report: called with (rounds done, rounds expected); may raise to stop.

    Raises:
        ConfigError: an unknown token that is no special token, or a number out of bounds.
        BudgetError: 2**31 bytes of pre-tokens or more.
    """
    special_tokens = list(dict.fromkeys(special_tokens))
    room = vocab_size - len(special_tokens)
    numbers = {
        "limit_alphabet": 1 if limit_alphabet is None else limit_alphabet,
        "seed_size": seed_size,
        "max_piece_length": max_piece_length,
        "shrinking_factor": shrinking_factor,
        "n_sub_iterations": n_sub_iterations,
    }
    _check(special_tokens, unk_token, room, byte_level, numbers)
    if len(pretokens.data) >= 1 << 31:
        raise BudgetError("too many pre-tokens to train on", got=len(pretokens.data), expected="fewer than 2**31 bytes")
    alphabet = alphabet_of(
        pretokens,
        special_tokens=(),
        initial_alphabet=byte_letters() if byte_level else (),
        byte_level=byte_level,
        limit_alphabet=None if byte_level else min(room, room if limit_alphabet is None else limit_alphabet),
        continuing_prefix="",
    )
    if not alphabet.tokens:
        return UnigramResult([(token, SPECIAL_SCORE) for token in special_tokens], 0, 0)
    symbols = symbols_of(pretokens, alphabet)
    pieces = seed_pieces(symbols, len(alphabet.tokens), seed_size=seed_size, max_length=max_piece_length)
    scores = _fit(
        symbols, pieces, int(SPARE * room), shrinking_factor, n_sub_iterations, report or (lambda done, total: None)
    )
    found = _named(symbols, pieces, alphabet, scores, room, set(special_tokens))
    return UnigramResult(
        vocab=[(token, SPECIAL_SCORE) for token in special_tokens] + found,
        dropped_letters=alphabet.dropped_letters,
        dropped_occurrences=alphabet.dropped_occurrences,
    )


def training_bytes(pretokens_bytes: int, n: int) -> int:
    """Memory that training takes at most for `n` pre-tokens of so many bytes together, themselves not counted."""
    return 72 * pretokens_bytes + 24 * n + (96 << 20)


def digamma(x: Floats) -> Floats:
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
    result: Floats = total + np.log(x) - 0.5 / x - series
    return result


def _check(
    special_tokens: list[str], unk_token: str | None, room: int, byte_level: bool, numbers: dict[str, float]
) -> None:
    if unk_token is not None and unk_token not in special_tokens:
        raise ConfigError("the unknown token is a special token", got=unk_token, expected=", ".join(special_tokens))
    if room < (least := 256 if byte_level else 1):
        got, expected = room + len(special_tokens), f"at least {least + len(special_tokens)}"
        raise ConfigError("no room for letters", where="vocab_size", got=got, expected=expected)
    for name, (low, high) in BOUNDS.items():
        if not low <= numbers[name] <= high:
            raise ConfigError("out of bounds", where=name, got=numbers[name], expected=f"{low} to {high}")


def _fit(symbols: Symbols, pieces: Pieces, target: int, shrink: float, steps: int, report: Report) -> Floats:
    """Rounds of fitting and pruning until `target` pieces are left: the scores of these."""
    rounds = 1 + max(0, math.ceil(math.log(target / len(pieces)) / math.log(shrink)))
    weights = np.maximum(pieces.weights, LEAST_EXPECTED)
    scores: Floats = np.log(weights / weights.sum())
    done = 0
    while True:
        for _ in range(steps):
            scores = _step(symbols, pieces, scores)
        done += 1
        report(min(done, rounds), rounds)
        if len(pieces) <= target:
            return scores
        kept = _worth_keeping(symbols, pieces, scores, max(target, int(shrink * len(pieces))))
        pieces.keep(kept)
        scores = scores[kept]


def _step(symbols: Symbols, pieces: Pieces, scores: Floats) -> Floats:
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
    fitted: Floats = digamma(weights) - digamma(weights.sum(keepdims=True))
    return fitted


def _worth_keeping(symbols: Symbols, pieces: Pieces, scores: Floats, size: int) -> NDArray[np.bool_]:
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
    symbols: Symbols, pieces: Pieces, alphabet: Alphabet, scores: Floats, room: int, special_tokens: set[str]
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
