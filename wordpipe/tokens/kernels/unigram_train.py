"""A unigram language model of pieces, trained from counted pre-tokens.

Begins with many pieces, fits their probabilities by expectation maximisation, and takes those away that the likelihood misses
least, until the wished number is left (Kudo, Subword Regularization: Improving Neural Network Translation Models with Multiple
Subword Candidates, 2018, section 3.2), in the steps and with the constants of sentencepiece, so that vocabularies are as good.

The pieces to begin with are substrings of the pre-tokens that recur, from a suffix array. Suffixes of all pre-tokens are
sorted as deep as a piece may be long, by doubling the sorted depth (Manber and Myers, Suffix Arrays, 1993). Runs of suffixes
that share a beginning are then the candidates: every substring that different symbols (or an end) follow and precede. Others,
such as `ylophon`, occur only inside of one longer candidate. A candidate's score is its occurrences in the text times its
length, as in sentencepiece (Kudo and Richardson, 2018).

A word's segmentations are the paths through its places along edges, one edge for each piece that fits there. Sums over all
paths are taken with probabilities, not logarithms (an exponential for each edge would cost most of the time); where they get
too small for a float they are lifted by a power of two, which is counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import character, kernel, read_only
from wordpipe.errors import BudgetError
from wordpipe.tokens.counting import StringCounts
from wordpipe.tokens.kernels.bpe_train import Alphabet, Report, alphabet_of
from wordpipe.tokens.vocabulary import F64, I32, I64, U8, U32, Flags, byte_letters

LENGTH_BITS = 5  # an edge is a piece's number, shifted, and its length
MOST_EDGES = 8  # for each symbol, on average, so that memory has a bound; English has 4


@dataclass(frozen=True)
class Symbols:
    """Pre-tokens as letters of an alphabet. One that holds letters outside of it is cut there.

    Attributes:
        text: int32 [symbols], places in the alphabet, all pre-tokens joined.
        starts: int64 [words + 1], where each begins in `text`.
        counts: int64 [words], how often each occurs.
    """

    text: I32
    starts: I64
    counts: I64

    def letter_counts(self, letters: int) -> F64:
        """Count each letter of the alphabet: float64 [letters], whole numbers up to 2**53."""
        weights = np.repeat(self.counts, np.diff(self.starts))
        counted: F64 = np.bincount(self.text, weights, letters).astype(np.float64)
        return counted


@dataclass
class Pieces:
    """Pieces, and where in the symbols each can be used. Piece number i < letters is letter i.

    Attributes:
        weights: float64 [pieces], occurrences times length at first, expected counts later.
        places: int32 [pieces], where one of its occurrences begins in the symbols.
        lengths: int32 [pieces], in symbols.
        edge_starts: int64 [symbols + 1], the pieces that begin at a symbol are `edges[edge_starts[i]:edge_starts[i + 1]]`.
        edges: uint32, piece << LENGTH_BITS | length, the shortest of each symbol first.
    """

    weights: F64
    places: I32
    lengths: I32
    edge_starts: I64
    edges: U32

    def __len__(self) -> int:
        return len(self.weights)

    def keep(self, kept: Flags) -> None:
        """Forget all other pieces of the unigram model; those that stay are numbered anew."""
        numbers = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        used = _renumber(self.edge_starts, self.edges, numbers)
        self.edges = self.edges[:used]
        self.weights, self.places, self.lengths = self.weights[kept], self.places[kept], self.lengths[kept]


def symbols_of(pretokens: StringCounts, alphabet: Alphabet) -> Symbols:
    """Read the pre-tokens for unigram training in letters of the alphabet."""
    text = np.empty(len(pretokens.data), np.int32)
    starts = np.empty(len(pretokens.data) + 1, np.int64)  # at most one word for each byte
    counts = np.empty(len(pretokens.data), np.int64)
    words = _spell(
        read_only(pretokens.data), pretokens.offsets, pretokens.counts, alphabet.letters, alphabet.first_ids, text,
        starts, counts,
    )  # fmt: skip
    return Symbols(text[: starts[words]].copy(), starts[: words + 1].copy(), counts[:words].copy())


def seed_pieces(symbols: Symbols, letters: int, *, seed_size: int, max_length: int) -> Pieces:
    """Return the seed of unigram training: all letters, and the best-scored recurring substrings.

    Of equal scores the substring that ends first in the order of all suffixes is taken first. Fewer are taken where they would
    overlap so much (one letter repeated for ever) that a symbol begins more than `MOST_EDGES` of them on average.

    Args:
        symbols: fewer than 2**31.
        letters: size of the alphabet.
        seed_size: at most 2**26.
        max_length: at most 31.
    """
    # recurring substrings, the best scores first
    ends = np.repeat(symbols.starts[1:], np.diff(symbols.starts))
    rest: I32 = (ends - np.arange(len(symbols.text))).astype(
        np.int32
    )  # symbols left of the word at each place, (symbols,)
    order = _suffixes(symbols.text, rest, max_length, max(1, letters.bit_length()))
    lefts, rights, lengths, scores = _candidates(symbols, rest, order, max_length)
    best = np.argsort(-scores, kind="stable")[: max(0, seed_size - letters)]
    # as many of these as have not too many edges together
    edge_starts = np.zeros(len(symbols.text) + 1, np.int64)
    while True:
        chosen = best[np.argsort((lefts[best].astype(np.int64) << LENGTH_BITS) | lengths[best], kind="stable")]
        runs = lefts[chosen], rights[chosen], lengths[chosen]
        _fill_edges(symbols.text, order, *runs, letters, edge_starts, np.empty(0, np.uint32))
        if edge_starts.sum() <= MOST_EDGES * len(symbols.text):
            break
        best = best[: len(best) * 3 // 4]
    # the edges themselves; a letter of no text has no place, and no edge asks for one
    np.cumsum(edge_starts, out=edge_starts)
    edges = np.empty(edge_starts[-1], np.uint32)
    _fill_edges(symbols.text, order, *runs, letters, edge_starts, edges)

    weights = symbols.letter_counts(letters)
    return Pieces(
        weights=np.concatenate([weights, scores[chosen].astype(np.float64)]),
        places=np.concatenate([np.zeros(letters, np.int32), order[lefts[chosen]].astype(np.int32)]),
        lengths=np.concatenate([np.ones(letters, np.int32), lengths[chosen]]),
        edge_starts=edge_starts,
        edges=edges,
    )


def _suffixes(text: I32, rest: I32, depth: int, bits: int) -> I64:
    """Return the places in the order of their suffixes, seen `depth` symbols deep, for unigram's seed.

    Equal ones in order of place.
    """
    sorted_depth = 62 // bits
    keys = np.empty(len(text), np.int64)
    _pack(text, rest, sorted_depth, bits, keys)
    order = np.argsort(keys, kind="stable")
    while sorted_depth < depth:
        ranks = np.empty(len(text), np.int32)
        _rank(keys, order, ranks)
        _pair_ranks(ranks, rest, sorted_depth, keys)
        order = np.argsort(keys, kind="stable")
        sorted_depth *= 2
    return order


def _candidates(symbols: Symbols, rest: I32, order: I64, depth: int) -> tuple[I32, I32, I32, I64]:
    """Return candidates for unigram's pieces: recurring substrings, their lengths and scores."""
    below = np.zeros(len(order) + 1, np.int64)  # occurrences of all suffixes before one
    np.cumsum(np.repeat(symbols.counts, np.diff(symbols.starts))[order], out=below[1:])
    shared = np.zeros(len(order) + 1, np.int8)
    changes = np.empty(len(order), np.int32)
    _compare(symbols.text, rest, order, depth, shared, changes)
    room = 1 << 16
    while True:
        found = np.empty((3, room), np.int32), np.empty(room, np.int64)
        number = _runs(shared, below, changes, rest, order, depth, *found)
        if number <= room:
            return found[0][0, :number], found[0][1, :number], found[0][2, :number], found[1][:number]
        room = number


@kernel
def _spell(
    data: U8, offsets: I64, row_counts: I64, letters: I32, ids: I32, text: I32, starts: I64,
    counts: I64,
) -> int:  # fmt: skip
    """Write the symbols and words for unigram training; returns the number of words."""
    used, words = 0, 0
    starts[0] = 0
    for row in range(len(row_counts)):
        at, end = offsets[row], offsets[row + 1]
        while at < end:
            if len(letters) > 0:
                symbol = ids[letters[data[at]]]
                at += 1
            else:
                point, at = character(data, at)
                symbol = ids[point]
            if symbol >= 0:
                text[used] = symbol
                used += 1
            if (symbol < 0 or at >= end) and used > starts[words]:
                counts[words] = row_counts[row]
                words += 1
                starts[words] = used
    return words


@kernel
def _pack(text: I32, rest: I32, depth: int, bits: int, keys: I64) -> None:
    """Write the first `depth` symbols of each suffix as one number, for unigram's seed.

    A shorter suffix is filled up with zeros.
    """
    for at in range(len(text)):
        key, here = 0, rest[at]
        for i in range(depth):
            key <<= bits
            if i < here:
                key |= text[at + i] + 1
        keys[at] = key


@kernel
def _rank(keys: I64, order: I64, ranks: I32) -> None:
    """Write the place of each suffix among the distinct keys, from 1, for unigram's seed."""
    rank, last = 0, np.int64(-1)
    for at in order:
        if keys[at] != last:
            rank += 1
            last = keys[at]
        ranks[at] = rank


@kernel
def _pair_ranks(ranks: I32, rest: I32, depth: int, keys: I64) -> None:
    """Write keys of twice the depth, for the suffixes of unigram's seed."""
    for at in range(len(ranks)):
        keys[at] = np.int64(ranks[at]) << 32
        if rest[at] > depth:
            keys[at] |= ranks[at + depth]


@kernel
def _compare(text: I32, rest: I32, order: I64, depth: int, shared: NDArray[np.int8], changes: I32) -> None:
    """Write for each suffix of unigram's seed the symbols shared with the suffix before."""
    changed = 0
    for j in range(len(order)):
        here, before = order[j], order[max(j - 1, 0)]
        if j > 0:
            most, same = min(depth, rest[here], rest[before]), 0
            while same < most and text[here + same] == text[before + same]:
                same += 1
            shared[j] = same
        opens = here == 0 or rest[here - 1] == 1
        if opens or before == 0 or rest[before - 1] == 1 or text[here - 1] != text[before - 1]:
            changed += 1
        changes[j] = changed
    shared[len(order)] = 0


@kernel
def _runs(
    shared: NDArray[np.int8], below: I64, changes: I32, rest: I32, order: I64, depth: int, runs: I32,
    scores: I64,
) -> int:  # fmt: skip
    """Write runs of suffixes of unigram's seed that share two symbols or more, and whole words; return how many there are."""
    lengths, lefts = np.zeros(depth + 2, np.int64), np.zeros(depth + 2, np.int64)
    top, number = 0, 0
    for j in range(1, len(order) + 1):
        # a whole word that is shared with no neighbour is a candidate by itself
        left, place = j - 1, order[j - 1]
        alone = np.int64(rest[place])
        opens = place == 0 or rest[place - 1] == 1
        if not (opens and 2 <= alone <= depth and alone > shared[j - 1] and alone > shared[j]):
            alone = np.int64(0)  # else the word is no part of another
        # the open runs that end here, the longest substring first
        while alone > 0 or lengths[top] > shared[j]:
            length, begin = (alone, left) if alone > 0 else (lengths[top], lefts[top])
            count = below[j] - below[begin]
            # a candidate recurs, and not always behind the same symbol
            if length > 1 and count > 1 and (alone > 0 or changes[j - 1] > changes[begin]):
                if number < len(scores):
                    runs[0, number], runs[1, number], runs[2, number] = begin, j, length
                    scores[number] = count * length
                number += 1
            if alone > 0:
                alone = np.int64(0)
            else:
                left = begin
                top -= 1
        # a longer substring opens a run
        if lengths[top] < shared[j]:
            top += 1
            lengths[top], lefts[top] = shared[j], left
    return number


@kernel
def _fill_edges(
    text: I32, order: I64, lefts: I32, rights: I32, lengths: I32, letters: int, edge_starts: I64,
    edges: U32,
) -> None:  # fmt: skip
    """Write the unigram pieces of each place; where `edges` is empty, their number."""
    open_pieces = np.zeros(64, np.int64)  # nested runs, the longest substring last
    depth, piece = 0, 0
    for j in range(len(order)):
        while depth > 0 and rights[open_pieces[depth - 1]] <= j:
            depth -= 1
        while piece < len(lefts) and lefts[piece] == j:
            open_pieces[depth] = piece
            depth += 1
            piece += 1
        place = order[j]
        if len(edges) == 0:
            edge_starts[place + 1] = depth + 1
            continue
        at = edge_starts[place]
        edges[at] = (np.int64(text[place]) << LENGTH_BITS) | 1
        for i in range(depth):
            edges[at + 1 + i] = ((open_pieces[i] + letters) << LENGTH_BITS) | lengths[open_pieces[i]]


@kernel
def _renumber(edge_starts: I64, edges: U32, numbers: I32) -> int:
    """Take edges of forgotten unigram pieces (number -1) out, in place; returns how many are left."""
    used, at = 0, 0
    for place in range(len(edge_starts) - 1):
        end = edge_starts[place + 1]
        for i in range(at, end):
            edge = np.int64(edges[i])
            number = np.int64(numbers[edge >> LENGTH_BITS])
            if number >= 0:
                edges[used] = (number << LENGTH_BITS) | (edge & ((1 << LENGTH_BITS) - 1))
                used += 1
        at = end
        edge_starts[place + 1] = used
    return used


_LENGTH = (1 << LENGTH_BITS) - 1
_SMALL = 2.0**-300
_LIFT = 2.0**300


@kernel
def expected_counts(starts: I64, counts: I64, edge_starts: I64, edges: U32, chances: F64, expected: F64) -> float:
    """Count how often each unigram piece is used on average over all segmentations: forward-backward.

    Return the log likelihood: forward-backward.

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
        # forward: the sum over all paths to each place
        begin, size = starts[word], starts[word + 1] - starts[word]
        forward[: size + 1] = 0.0
        forward[0] = 1.0
        lifted = 0
        for i in range(size):
            if forward[i] < _SMALL:
                forward[i : min(i + _LENGTH, size) + 1] *= _LIFT
                lifted += 1
            lifts[i] = lifted
            # along each edge; some lead beyond the word
            for e in range(edge_starts[begin + i], edge_starts[begin + i + 1]):
                edge = np.int64(edges[e])
                end = i + (edge & _LENGTH)
                if end <= size:
                    forward[end] += forward[i] * chances[edge >> LENGTH_BITS]
        whole = forward[size]
        log_likelihood += counts[word] * (np.log(whole) - lifted * np.log(_LIFT))

        # backward: the sum over all paths from each place on, and with both the share of each edge
        backward[size] = 1.0
        back = 0
        for i in range(size - 1, -1, -1):
            if backward[i + 1] < _SMALL:
                backward[i + 1 : min(i + 1 + _LENGTH, size) + 1] *= _LIFT
                back += 1
            # the share of all paths that pass this place, unlifted
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
    """Count how often each unigram piece is used in the most probable segmentation (Viterbi).

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
    """Compute the loss of the unigram model's likelihood without each piece, to prune pieces.

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
        # the best segmentation of the piece without itself
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
        # its uses move to the parts of that segmentation
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
    # the letters; they have a token each, as many as fit
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
    # the pieces to begin with, fitted and pruned
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
    """Return the most memory that training takes for `n` pre-tokens of so many bytes together, themselves not counted."""
    return 72 * pretokens_bytes + 24 * n + (96 << 20)


def digamma(x: F64) -> F64:
    """Compute the derivative of the logarithm of the gamma function, for the training of unigram.

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
    """Fit and prune the unigram model in rounds until `target` pieces are left; return their scores."""
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
    """Take one step of unigram's expectation maximisation. Pieces that are hardly used are forgotten; letters stay.

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
    """Return the unigram pieces that stay when pruned: letters, and those whose loss would cost most.

    Of equal ones the first.
    """
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
    """Return at most `room` unigram pieces as text, with their scores, by falling score."""
    letters = len(alphabet.tokens)
    best = letters + np.argsort(-scores[letters:], kind="stable")
    named = list(zip(alphabet.tokens, scores[:letters].tolist(), strict=True))
    for piece in best[: room - letters + len(special_tokens)].tolist():
        place = pieces.places[piece]
        text = symbols.text[place : place + pieces.lengths[piece]].tolist()
        named.append(("".join(alphabet.tokens[symbol] for symbol in text), float(scores[piece])))
    named = [(token, score) for token, score in named if token not in special_tokens][:room]
    return sorted(named, key=lambda item: (-item[1], item[0]))
