"""The kernel that trains a chunk of the text: from window to window, what each word predicts or is predicted by.

Skip-gram: each word of the window predicts the centre, by itself. CBOW: their mean predicts it. What is predicted is
discriminated from noise words (negative sampling), at every turn of a path through a tree (hierarchical softmax), or from all
words (softmax).

All words of one window meet the same noise words, so a window is one small matrix product of its vectors (C, D) with those of
the centre and the noise (1 + K, D), and one update of both: that is what makes it fast. The expected loss and gradient are the
same as with noise drawn for each pair.

The vectors of the words in reach stand in a ring of slots while the window passes over them: a vector is fetched when its word
comes into reach, and what changed is added back when it leaves. So it is read and written once for the ten or so windows it
takes part in, and other threads see it change once. Where a word is made of parts (itself and its character n-grams), the slot
holds the mean of the parts, and the change is added to each of them, as fastText does.

Source: Mikolov et al. 2013, "Efficient Estimation of Word Representations in Vector Space" and "Distributed Representations of
Words and Phrases and their Compositionality"; sharing noise: Ji et al. 2016, "Parallelizing Word2Vec in Shared and Distributed
Memory"; the ring: Randall et al. 2021, FULL-W2V, which calls the same on a GPU "lifetime reuse of context words".
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, kernel
from wordpipe.words.kernels.draws_and_huffman import draw_noise, mixed, subsample
from wordpipe.words.kernels.simd import (
    WIDE,
    add_difference,
    add_row,
    copy_row,
    dots,
    exponential,
    fetch,
    gradients,
    mean_row,
    update,
)

NEGATIVE, TREE, SOFTMAX = 0, 1, 2
LINES = 32
"""Words of a skip-gram window that push the columns together, an even number: the sum of the pushes of hundreds overshoots."""

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]


class Windows(NamedTuple):
    """The windows: settings that say which words meet."""

    skipgram: bool  # or CBOW
    size: int  # words looked at on each side
    dynamic: bool  # each centre draws its own reach from 1 to `size`
    keep: npt.NDArray[np.uint32]  # for each row, the largest 32-bit draw that keeps the word
    keys: npt.NDArray[np.uint64]  # of this epoch's skipping, reaches and noise


class Objective(NamedTuple):
    """The objective: settings that say what is predicted."""

    kind: int  # NEGATIVE, TREE or SOFTMAX
    negatives: int  # noise words per window
    limits: npt.NDArray[np.uint32]  # the cells that noise is drawn from, see `Noise`
    others: Ints  # the cells that noise is drawn from, see `Noise`
    path_starts: Offsets  # the paths of the tree, see `Tree`
    path_nodes: Ints  # the paths of the tree, see `Tree`
    path_signs: Floats  # the paths of the tree, see `Tree`
    most: int  # the most columns that a window can have


class Rows(NamedTuple):
    """The rows that training changes, padded with zeros.

    Attributes:
        inputs: (V, D) the words' vectors.
        outputs: (V, D) or (nodes, D).
        part_starts, parts, part_vectors: n-grams of the words, see `_enter`.
        hot: of `outputs`, the first so many rows, the commonest, are changed in a copy, as threads that change the same rows
            wait for each other's caches; 0 for none.
        share_after: a row's changes are added back, and those of others seen, whenever so many windows have changed it: a sum
            of many threads' changes that did not know of each other overshoots.
    """

    inputs: Floats
    outputs: Floats
    part_starts: Offsets
    parts: Ints
    part_vectors: Floats
    hot: int
    share_after: int


def scratch_size(window: int, dim: int, hot: int) -> int:
    """Count the numbers `train_chunk` needs: slots twice, hidden layer, an unused row, a window's changes, hot rows twice."""
    return (2 * (2 * window + 1) + 2 + min(2 * window + 1, LINES) + 2 * hot) * dim


@inlined
def _noise_columns(
    target: int, place: int, key: np.uint64, negatives: int, limits: npt.NDArray[np.uint32], others: Ints, first: int,
    chosen: Ints, counts: Floats,
) -> int:  # fmt: skip
    """Write skip-gram's or CBOW's target and its noise, each row once with its number of draws.

    Noise that is the target is left out.
    """
    chosen[first], counts[first] = target, 1
    n = 1
    for draw in range(negatives):
        row = draw_noise(mixed(key, place * negatives + draw), limits, others)
        if row == target:
            continue
        seen = 1
        while seen < n and chosen[first + seen] != row:
            seen += 1
        if seen == n:
            chosen[first + n], counts[first + n] = row, 0
            n += 1
        counts[first + seen] += 1
    return n


@inlined
def _context(
    centre: int, first: int, end: int, reach: int, begins: npt.NDArray[np.bool_], held: Ints, now: int, dim: int, near: Offsets
) -> int:  # fmt: skip
    """Write the addresses of the vectors in the window around a centre, nearest to the left first; return how many."""
    n = 0
    at = centre
    while at > first and centre - at < reach and not begins[at]:
        at -= 1
        near[n] = now + 4 * np.int64(held[at % len(held)]) * dim
        n += 1
    at = centre + 1
    while at < end and at - centre <= reach and not begins[at]:
        near[n] = now + 4 * np.int64(held[at % len(held)]) * dim
        n += 1
        at += 1
    return n


@inlined
def _score_losses(likelihoods: Floats, n_rows: int, stride: int, n: int, counts: Floats, first: int) -> float:
    """Return the sum of skip-gram's or CBOW's losses over rows and columns.

    Up to 20 are multiplied before a logarithm is taken.
    """
    loss = 0.0
    for row in range(n_rows):
        product = 1.0
        for column in range(n):
            likelihood = float(likelihoods[row * stride + column])
            product *= likelihood
            if counts[first + column] > 1:
                loss -= (counts[first + column] - 1) * math.log(likelihood)
            if column % 20 == 19:
                loss -= math.log(product)
                product = 1.0
        loss -= math.log(product)
    return loss


@inlined
def _softmax_gradients(scores: Floats, n_rows: int, stride: int, n: int, target: np.int64, rate: np.float32) -> float:
    """Turn skip-gram's or CBOW's scores into softmax gradients, in place; returns the loss."""
    loss = 0.0
    for row in range(n_rows):
        first = row * stride
        largest = np.float32(scores[first])
        for column in range(n):
            largest = max(largest, scores[first + column])
        loss += float(largest) - float(scores[first + target])
        total = 0.0
        for column in range(n):
            e = exponential(max(scores[first + column] - largest, np.float32(-80)))
            scores[first + column] = e
            total += float(e)
        loss += math.log(total)
        scale = np.float32(-rate / total)
        for column in range(n):
            scores[first + column] *= scale
        scores[first + target] += rate
        for column in range(n, stride):
            scores[first + column] = 0
    return loss


@inlined
def _enter(
    row: int, slots: Ints, users: Ints, now: int, before: int, inputs: int, dim: int, part_starts: Offsets, parts: Ints,
    part_vectors: int,
) -> int:  # fmt: skip
    """Give a word a slot in the window of skip-gram or CBOW, or another use of its slot; returns the slot.

    Args:
        row: the word.
        slots: the row in each slot, -1 where it is free.
        users: positions that use each slot.
        now: address of the slots' vectors as they are.
        before: address of the slots' vectors as they were fetched.
        inputs: address of the words' vectors.
        dim: padded length of a vector.
        part_starts: where the n-grams of each row begin in `parts`, (V + 1,); no element where words have no parts.
        parts: rows of `part_vectors`.
        part_vectors: address of the n-grams' vectors.
    """
    free = -1
    for slot in range(len(slots)):
        if slots[slot] == row:
            users[slot] += 1
            return slot
        if slots[slot] < 0:
            free = slot
    slots[free], users[free] = row, 1
    vector = now + 4 * free * dim
    copy_row(vector, inputs + 4 * row * dim, dim)
    if len(part_starts):
        for at in range(part_starts[row], part_starts[row + 1]):
            add_row(vector, part_vectors + 4 * np.int64(parts[at]) * dim, np.float32(1), dim)
        share = np.float32(1 / (1 + part_starts[row + 1] - part_starts[row]))
        add_row(vector, vector, share - np.float32(1), dim)
    copy_row(before + 4 * free * dim, vector, dim)
    return free


@inlined
def _leave(
    slot: int, slots: Ints, users: Ints, now: int, before: int, inputs: int, dim: int, part_starts: Offsets, parts: Ints,
    part_vectors: int,
) -> None:  # fmt: skip
    """Leave a slot of the window; after its last use the change is added to the word's vector, or its parts."""
    users[slot] -= 1
    if users[slot]:
        return
    row = np.int64(slots[slot])
    new, old = now + 4 * slot * dim, before + 4 * slot * dim
    add_difference(inputs + 4 * row * dim, new, old, dim)
    if len(part_starts):
        for at in range(part_starts[row], part_starts[row + 1]):
            add_difference(part_vectors + 4 * np.int64(parts[at]) * dim, new, old, dim)
    slots[slot] = -1


@inlined
def _share(outputs: int, now: int, before: int, offset: int, dim: int) -> None:
    """Add what a row's copy changed to the row, and begin the copy anew; all three begin at addresses, and at one offset."""
    add_difference(outputs + offset, now + offset, before + offset, dim)
    copy_row(now + offset, outputs + offset, dim)
    copy_row(before + offset, now + offset, dim)


@kernel
def train_chunk(  # noqa: C901  (one thought: a window after the other)
    text: Ints, position: int, begin: int, end: int, lr: tuple[float, float],
    windows: Windows, objective: Objective, weights: Rows, scratch: Floats, sums: npt.NDArray[np.float64],
) -> None:  # fmt: skip
    """Train skip-gram or CBOW on the text from `begin` to `end`, each word with the words around.

    Args:
        text: a chunk of the text that reaches beyond `begin` and `end`, the first word of each text as `~row`.
        position: where the chunk begins in the whole text.
        begin: first word to train, counted in the whole text.
        end: the word after the last.
        lr: learning rates at `begin` and at `end`, linear in between.
        windows: which words meet.
        objective: what is predicted.
        weights: changed.
        scratch: room of `scratch_size` numbers. The caller's, as an array of the kernel's own is freed after its last use by
            name, and these are used by their addresses.
        sums: to which the loss in nats and the number of predictions are added.
    """
    # the words that subsampling leaves
    inputs, outputs, part_starts, parts, part_vectors, hot, share_after = weights
    skipgram, size, dynamic, keep, keys = windows
    kind, negatives, limits, others, path_starts, path_nodes, path_signs, most = objective
    dim = inputs.shape[1]
    rows = np.empty(len(text), dtype=np.int32)
    places = np.empty(len(text), dtype=np.int64)
    begins = np.empty(len(text), dtype=np.bool_)
    kept = subsample(text, position, keep, keys[0], rows, places, begins)
    centre = 0
    while centre < kept and places[centre] < begin:
        centre += 1

    # the ring, then rows for the hidden layer, for what no column asked for, and for the changes of a window
    n_slots = 2 * size + 1
    slots = np.full(n_slots, -1, dtype=np.int32)
    users = np.zeros(n_slots, dtype=np.int32)
    held = np.empty(n_slots, dtype=np.int32)
    now = scratch.ctypes.data
    before = now + 4 * n_slots * dim
    hidden = before + 4 * n_slots * dim
    unused = hidden + 4 * dim
    changes = unused + 4 * dim
    scratch[(2 * n_slots + 1) * dim : (2 * n_slots + 2) * dim] = 0  # the unused row
    in_vectors, out_vectors, gram_vectors = inputs.ctypes.data, outputs.ctypes.data, part_vectors.ctypes.data
    hot_now = changes + 4 * min(n_slots, LINES) * dim
    hot_before = hot_now + 4 * hot * dim
    copy_row(hot_now, out_vectors, hot * dim)
    copy_row(hot_before, hot_now, hot * dim)
    changed = np.zeros(hot, dtype=np.int32)

    # what is predicted; noise for this window and for the next, whose vectors are already on their way
    stride = (most + WIDE - 1) // WIDE * WIDE
    chosen = np.zeros(2 * stride, dtype=np.int32)
    counts = np.ones(2 * stride, dtype=np.float32)
    signs = np.full(stride, -1, dtype=np.float32)
    signs[0] = 1  # the target
    rates = np.zeros(stride, dtype=np.float32)
    columns = np.full(stride, unused, dtype=np.int64)
    if kind == SOFTMAX:
        for row in range(most):
            columns[row] = out_vectors + 4 * row * dim

    # lines of scores, for words of the window or for their mean
    n_lines = min(2 * size + 1, LINES) if skipgram else 2
    near = np.full(n_slots + 1, now, dtype=np.int64)
    mean = np.full(2, hidden, dtype=np.int64)
    scores = np.zeros(n_lines * stride, dtype=np.float32)
    likelihoods = np.ones(n_lines * stride, dtype=np.float32)
    in_place = skipgram and stride == WIDE
    change_of = np.empty(n_lines, dtype=np.int64)
    for line in range(n_lines):
        change_of[line] = changes + 4 * line * dim

    # the first window's noise
    left = entered = max(0, centre - size)
    flip, n_chosen, n_next = 0, most, 0
    if centre < kept and kind == NEGATIVE:
        n_next = _noise_columns(
            rows[centre], places[centre], keys[2], negatives, limits, others, stride, chosen, counts
        )
    loss, predictions = 0.0, 0
    slope = (lr[1] - lr[0]) / max(end - begin, 1)
    while centre < kept and places[centre] < end:
        # the ring moves on: words out of reach leave, words in reach enter
        while left < centre - size:
            _leave(held[left % n_slots], slots, users, now, before, in_vectors, dim, part_starts, parts, gram_vectors)
            left += 1
        while entered < kept and entered <= centre + size:
            held[entered % n_slots] = _enter(
                rows[entered], slots, users, now, before, in_vectors, dim, part_starts, parts, gram_vectors
            )
            entered += 1
            if entered < kept:
                fetch(in_vectors + 4 * np.int64(rows[entered]) * dim, dim)
        # the window of the centre
        reach = size
        if dynamic:
            drawn = (mixed(keys[1], places[centre]) >> np.uint64(32)) * np.uint64(size)
            reach = 1 + int(drawn >> np.uint64(32))
        n = _context(centre, left, entered, reach, begins, held, now, dim, near)

        # the columns
        target = np.int64(rows[centre])
        rate = np.float32(lr[0] + slope * (places[centre] - begin))
        if kind == NEGATIVE:
            flip, n_chosen = stride - flip, n_next
            if centre + 1 < kept:
                n_next = _noise_columns(
                    rows[centre + 1], places[centre + 1], keys[2], negatives, limits, others, stride - flip, chosen, counts
                )  # fmt: skip
                for column in range(n_next):
                    output = np.int64(chosen[stride - flip + column])
                    if output >= hot:
                        fetch(out_vectors + 4 * output * dim, dim)
        # of a tree: the turns of the target's path
        elif kind == TREE:
            turn = path_starts[target]
            n_chosen = path_starts[target + 1] - turn
            for column in range(n_chosen):
                chosen[column], signs[column] = path_nodes[turn + column], path_signs[turn + column]
        # their addresses and rates, filled up to whole registers
        used = (n_chosen + WIDE - 1) // WIDE * WIDE
        if kind != SOFTMAX:
            for column in range(used):
                columns[column], rates[column] = unused, 0
                if column < n_chosen:
                    output = np.int64(chosen[flip + column])
                    columns[column] = (hot_now if output < hot else out_vectors) + 4 * output * dim
                    rates[column] = rate * counts[flip + column]
        centre += 1
        if not n:
            continue

        # the scores, their gradients, and the update of both sides
        near[n] = now  # lines are scored two by two
        n_predictions = n if skipgram else 1
        if not skipgram:
            mean_row(hidden, near.ctypes.data, n, np.float32(1 / n), dim)
        for first in range(0, n_predictions, LINES):
            n_rows = min(n_predictions - first, LINES)
            lines = (near.ctypes.data if skipgram else mean.ctypes.data) + 8 * first
            dots(lines, n_rows, columns.ctypes.data, used, dim, scores.ctypes.data, stride)
            if kind == SOFTMAX:
                loss += _softmax_gradients(scores, n_rows, stride, n_chosen, target, rate)
            else:
                gradients(scores, n_rows, stride, used, signs, rates, likelihoods)
                loss += _score_losses(likelihoods, n_rows, stride, n_chosen, counts, flip)
            # one update changes both sides in place, or the changes of a window are added up first
            if in_place:
                update(lines, lines, n_rows, columns.ctypes.data, scores.ctypes.data, stride, dim)
                continue
            scratch[(2 * n_slots + 2) * dim : (2 * n_slots + 2 + n_rows) * dim] = 0
            for column in range(0, used, WIDE):
                update(
                    lines, change_of.ctypes.data, n_rows,
                    columns.ctypes.data + 8 * column, scores.ctypes.data + 4 * column, stride, dim,
                )  # fmt: skip
            for line in range(n_rows if skipgram else n):
                add_row(near[first + line], change_of[line if skipgram else 0], np.float32(1), dim)
        # copies of common rows are shared now and then
        predictions += n_predictions
        for column in range(n_chosen if hot else 0):
            output = np.int64(chosen[flip + column])
            if output < hot:
                changed[output] += 1
                if changed[output] == share_after:
                    changed[output] = 0
                    _share(out_vectors, hot_now, hot_before, 4 * output * dim, dim)
    # what is left in the ring and in the copies
    while left < entered:
        _leave(held[left % n_slots], slots, users, now, before, in_vectors, dim, part_starts, parts, gram_vectors)
        left += 1
    for row in range(hot):
        if changed[row]:
            _share(out_vectors, hot_now, hot_before, 4 * row * dim, dim)
    sums[0] += loss
    sums[1] += predictions
