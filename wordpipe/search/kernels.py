"""Compiled loops for an index that stays open for many queries: over postings, and over vectors that are stored as int8.

Those of `loops` do the same arithmetic, bit for bit; those over hits stand in `hit_kernels`.

Shapes: N texts, P postings of one term, C candidates; M stored vectors of D numbers, R of them, Q queries.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, kernel, short_kernel, summing_kernel
from wordpipe.search.hit_kernels import best_of as best_of
from wordpipe.search.hit_kernels import distinct as distinct
from wordpipe.search.hit_kernels import fuse as fuse
from wordpipe.search.hit_kernels import take_best
from wordpipe.search.hit_kernels import term_gains as term_gains

Rows = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@inlined
def _first_from(numbers: npt.NDArray[np.signedinteger], wanted: int, low: int, high: int) -> int:
    """Return the first place whose number is not below the wanted one (compiled kernel); `high` if none."""
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _gain(count: int, damping: np.float32, in_field: np.float32) -> np.float32:
    """Return what a term that stands so often in a text adds to its score, but for its weight (compiled kernel)."""
    tf = np.float32(count)
    return tf / (tf + damping) if tf > 0 else in_field


@inlined
def _sift(heap_K: Floats, at: int) -> None:
    """Move a score of a heap down to where none below it is less (compiled kernel)."""
    score, n = heap_K[at], len(heap_K)
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and heap_K[below + 1] < heap_K[below]:
            below += 1
        if heap_K[below] >= score:
            break
        heap_K[at] = heap_K[below]
        at = below
    heap_K[at] = score


@kernel
def add_gains(
    rows_P: Rows, counts_P: npt.NDArray[np.uint8], damping_N: Floats, in_field: np.float32, weight: np.float32,
    scores_N: Floats, new_P: Rows,
) -> int:  # fmt: skip
    """Add what a term adds to the score of each of its texts (compiled kernel).

    Args:
        rows_P: the texts, ascending.
        counts_P: how often the term stands in each, 0 in its fields alone; any unsigned integers.
        damping_N: what stands beside tf in the denominator.
        in_field: what takes the place of tf / (tf + damping) for a term that stands in fields alone.
        weight: what stands before it.
        scores_N: of all texts, so far.
        new_P: out, the texts whose score was 0.

    Returns:
        How many of these there are; -1 where a row is none of the N.
    """
    found = 0
    for at in range(len(rows_P)):
        row = rows_P[at]
        if row < 0 or row >= len(scores_N):
            return -1
        before = scores_N[row]
        scores_N[row] = before + weight * _gain(counts_P[at], damping_N[row], in_field)
        if before == 0:
            new_P[found] = row
            found += 1
    return found


@kernel
def add_looked_up(
    rows_C: Rows, scores_C: Floats, least: float, rows_P: Rows, counts_P: npt.NDArray[np.uint8], damping_N: Floats,
    in_field: np.float32, weight: np.float32,
) -> int:  # fmt: skip
    """Add what a term adds to the scores of some texts (compiled kernel); those below `least` are left out.

    Each text is looked for from where the one before was found, in steps that double, then by halves.

    Args:
        rows_C: the texts, in runs that ascend; afterwards those that are left, in their order.
        scores_C: their scores, likewise.
        least: a score, without this term, that is worth looking the text up.
        rows_P: the texts that the term stands in, ascending.
        counts_P: how often; any unsigned integers.
        damping_N: what stands beside tf in the denominator.
        in_field: as above.
        weight: what stands before it.

    Returns:
        How many are left.
    """
    low, last, n, kept = 0, -1, len(rows_P), 0
    for candidate in range(len(rows_C)):
        row, score = rows_C[candidate], scores_C[candidate]
        if score < least:
            continue
        if row < last:
            low = 0
        last, high, step = row, low, 1
        while high < n and rows_P[high] < row:
            low = high + 1
            high += step
            step *= 2
        high = min(high, n)
        low = _first_from(rows_P, row, low, high)
        if low < n and rows_P[low] == row:
            score += weight * _gain(counts_P[low], damping_N[row], in_field)
        rows_C[kept], scores_C[kept] = row, score
        kept += 1
    return kept


@kernel
def add_common(
    rows_C: Rows, scores_C: Floats, least: float, counts_N: npt.NDArray[np.uint8], damping_N: Floats,
    in_field: np.float32, weight: np.float32,
) -> int:  # fmt: skip
    """Add what a common term adds to the scores of some texts (compiled kernel), as `add_looked_up`.

    Args:
        rows_C: the texts; afterwards those that are left, in their order.
        scores_C: their scores, likewise.
        least: a score, without this term, that is worth looking the text up.
        counts_N: one more than how often the term stands in each text, 0 where it does not; any unsigned integers.
        damping_N: what stands beside tf in the denominator.
        in_field: as above.
        weight: what stands before it.

    Returns:
        How many are left.
    """
    kept = 0
    for candidate in range(len(rows_C)):
        row, score = rows_C[candidate], scores_C[candidate]
        if score < least:
            continue
        if counts_N[row] > 0:
            score += weight * _gain(counts_N[row] - 1, damping_N[row], in_field)
        rows_C[kept], scores_C[kept] = row, score
        kept += 1
    return kept


@kernel
def take_scores(
    rows_T: Rows, allowed_N: npt.NDArray[np.bool_], least: float, scores_N: Floats, rows_C: Rows, scores_C: Floats
) -> int:
    """Take the scores of texts that have one, and leave 0 there (compiled kernel).

    Args:
        rows_T: the texts, in runs that ascend.
        allowed_N: those that may be found; of length 0: all.
        least: a score that is worth keeping.
        scores_N: of all texts; 0 afterwards.
        rows_C: out, those that are allowed and have it, in runs that ascend.
        scores_C: out, their scores.

    Returns:
        How many these are.
    """
    kept = 0
    for at in range(len(rows_T)):
        row = rows_T[at]
        score = scores_N[row]
        scores_N[row] = np.float32(0)
        if score >= least and (len(allowed_N) == 0 or allowed_N[row]):
            rows_C[kept], scores_C[kept] = row, score
            kept += 1
    return kept


@inlined
def _packed_number(data_B: npt.NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """Return the number at a place of packed bytes, and where the next one begins (compiled kernel); -1: there is none."""
    number = -1
    if at < end:
        number = int(data_B[at])
        at += 1
        if number >= 128:
            number, shift, byte = number & 127, 7, 128
            while byte >= 128 and at < end and shift < 35:
                byte = int(data_B[at])
                number |= (byte & 127) << shift
                at += 1
                shift += 7
            if byte >= 128:
                number = -1
    return number, at


@inlined
def _behind(data_B: npt.NDArray[np.uint8], at: int, end: int, numbers: int) -> int:
    """Return the place behind so many packed numbers (compiled kernel), `end` if there are fewer."""
    while numbers > 0 and at < end:
        if data_B[at] < 128:
            numbers -= 1
        at += 1
    return at


@inlined
def _unpacked(
    data_B: npt.NDArray[np.uint8], begin: int, end: int, numbers_P: Rows, counts_P: Any, first: int, last: int
) -> bool:
    """Write the pairs of a packed list that lies in some bytes to a stretch of arrays (compiled kernel); see `unpack`."""
    pairs_end = _behind(data_B, begin, end, last - first)
    at, large, number = begin, pairs_end, -1
    for pair in range(first, last):
        value, at = _packed_number(data_B, at, pairs_end)
        if value < 0:
            return False
        number += (value >> 2) + 1
        count = value & 3
        if count == 3:
            more, large = _packed_number(data_B, large, end)
            if more < 0:
                return False
            count += more
        numbers_P[pair], counts_P[pair] = number, count
    return large == end


@kernel
def unpack(data_B: npt.NDArray[np.uint8], numbers_P: Rows, counts_P: npt.NDArray[np.uint8]) -> bool:
    """Write the pairs of one packed list (compiled kernel).

    Args:
        data_B: its bytes, see `packed_lists`.
        numbers_P: out, ascending.
        counts_P: out; any unsigned integers.

    Returns:
        False where the bytes are none of so many pairs.
    """
    return _unpacked(data_B, 0, len(data_B), numbers_P, counts_P, 0, len(numbers_P))


@short_kernel
def unpack_some(
    lists_R: Ints, sizes_L: Rows, ends_L: Ints, data_B: npt.NDArray[np.uint8], of_pairs_P: Ints, numbers_P: Rows,
    counts_P: npt.NDArray[np.uint8],
) -> bool:  # fmt: skip
    """Write the pairs of some of L lists, one list after the other (compiled kernel).

    Args:
        lists_R: which lists.
        sizes_L: the pairs of each list.
        ends_L: where the bytes of each end.
        data_B: the bytes of all.
        of_pairs_P: out, at which of the R each pair stands.
        numbers_P: out.
        counts_P: out; any unsigned integers.

    Returns:
        False where the bytes of a list are none of so many pairs.
    """
    first = 0
    for at in range(len(lists_R)):
        number = lists_R[at]
        last = first + sizes_L[number]
        if not _unpacked(data_B, ends_L[number - 1] if number else 0, ends_L[number], numbers_P, counts_P, first, last):
            return False
        of_pairs_P[first:last] = at
        first = last
    return True


@kernel
def score_rows(
    rows_R: npt.NDArray[np.int64], sizes_N: Rows, ends_N: npt.NDArray[np.int64], data_B: npt.NDArray[np.uint8],
    numbers_T: npt.NDArray[np.int64], weights_T: Floats, damping_N: Floats, in_field: np.float32, n_terms: int,
    scores_R: Floats,
) -> bool:  # fmt: skip
    """Write the scores of some texts by what each consists of (compiled kernel).

    Args:
        rows_R: the texts.
        sizes_N: the number of terms of each text.
        ends_N: where the bytes of each end.
        data_B: the terms of all texts with how often each stands there, 0 in its fields alone; see `packed_lists`.
        numbers_T: the terms of the query, ascending.
        weights_T: what stands before each.
        damping_N: what stands beside tf in the denominator.
        in_field: as above.
        n_terms: V.
        scores_R: out, summed in float64.

    Returns:
        False where a text is none of the N, or a term none of the V.
    """
    for text in range(len(rows_R)):
        row, total = rows_R[text], 0.0
        if row < 0 or row >= len(sizes_N) or row >= len(damping_N):
            return False
        at, end, term = ends_N[row - 1] if row else 0, ends_N[row], -1
        left, large, low = sizes_N[row], 0, 0  # pairs to come, large counts so far, the next term of the query
        while left > 0 and low < len(numbers_T):
            value, at = _packed_number(data_B, at, end)
            if value < 0:
                return False
            left -= 1
            term += (value >> 2) + 1
            count = value & 3
            if term >= n_terms:
                return False
            while low < len(numbers_T) and numbers_T[low] < term:
                low += 1
            if low < len(numbers_T) and numbers_T[low] == term:
                if count == 3:  # the large counts stand behind all pairs
                    more, _ = _packed_number(data_B, _behind(data_B, at, end, left + large), end)
                    if more < 0:
                        return False
                    count += more
                total += weights_T[low] * _gain(count, damping_N[row], in_field)
            large += (value & 3) == 3
        scores_R[text] = total
    return True


@short_kernel
def mark_words(
    rows_R: Ints, sizes_N: Rows, ends_N: Ints, data_B: npt.NDArray[np.uint8], numbers_M: Ints, words_M: Ints,
    has_RW: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Write which texts have a term of which words (compiled kernel).

    Args:
        rows_R: the texts.
        sizes_N: the number of terms of each text.
        ends_N: where the bytes of each end.
        data_B: the terms of all texts; see `packed_lists`.
        numbers_M: the terms of all words, ascending.
        words_M: of which word each is.
        has_RW: out, False before.
    """
    for text in range(len(rows_R)):
        row = rows_R[text]
        at, end, term, low = ends_N[row - 1] if row else 0, ends_N[row], -1, 0
        for _ in range(sizes_N[row]):
            value, at = _packed_number(data_B, at, end)
            if value < 0:
                break
            term += (value >> 2) + 1
            while low < len(numbers_M) and numbers_M[low] <= term:
                if numbers_M[low] == term:
                    has_RW[text, words_M[low]] = True
                low += 1


@kernel
def border_of(scores_C: Floats, k: int) -> float:
    """Return the k-th best of some scores, 0 where there are fewer (compiled kernel).

    The k best so far stand in a heap with the least at its root, which most scores do not reach: of 50,000 the hundredth is
    found in a tenth of the time that a partition of all takes.
    """
    if len(scores_C) < k:
        return 0.0
    heap_K = scores_C[:k].copy()
    for root in range(k // 2 - 1, -1, -1):
        _sift(heap_K, root)
    for at in range(k, len(scores_C)):
        if scores_C[at] > heap_K[0]:
            heap_K[0] = scores_C[at]
            _sift(heap_K, 0)
    return float(heap_K[0])


@inlined
def _product(stored_MB: npt.NDArray[np.uint8], scale_M: Floats, row: int, queries_QD: Floats, query: int) -> np.float32:
    """Return the product of a query with a stored vector (compiled kernel)."""
    total = np.float32(0)
    for d in range(queries_QD.shape[1]):
        total += np.float32(np.int8(stored_MB[row, 4 + d])) * queries_QD[query, d]
    product: np.float32 = total * scale_M[row]
    return product


@summing_kernel
def add_up(
    stored_MB: npt.NDArray[np.uint8],
    scale_M: Floats,
    rows_R: npt.NDArray[np.int64],
    queries_QD: Floats,
    scores_QR: Floats,
) -> None:
    """Write the products of queries with stored vectors (compiled kernel).

    Each is summed up alone, so that equal vectors have equal scores, and a query has the same ones alone and among others.

    Args:
        stored_MB: (M, 4 + D), the scale and the numbers of each; see `artifacts.vectors`.
        scale_M: the scale of each.
        rows_R: from 0 to M - 1.
        queries_QD: of length 1.
        scores_QR: out.
    """
    for at in range(len(rows_R)):
        for query in range(len(queries_QD)):
            scores_QR[query, at] = _product(stored_MB, scale_M, rows_R[at], queries_QD, query)


@summing_kernel
def nearest_of_each(
    stored_MB: npt.NDArray[np.uint8], scale_M: Floats, rows_QR: Ints, queries_QD: Floats, found_QK: Ints, scores_QK: Floats,
    kept_Q: Ints,
) -> None:  # fmt: skip
    """Write the nearest of some stored vectors of each query, in order (compiled kernel).

    Args:
        stored_MB: as for `add_up`, with the same products.
        scale_M: the scale of each.
        rows_QR: which vectors each query is compared with; -1: none.
        queries_QD: of length 1.
        found_QK: out, the K nearest.
        scores_QK: out, their products, from -1 to 1.
        kept_Q: out, how many of the K there are.
    """
    most, no_ranks = rows_QR.shape[1], np.empty(0, np.int64)
    own_R, scores_R = np.empty(most, np.int64), np.empty(most, np.float32)
    for query in range(len(queries_QD)):
        n = 0
        for at in range(most):
            if rows_QR[query, at] >= 0:
                product = _product(stored_MB, scale_M, rows_QR[query, at], queries_QD, query)
                own_R[n], scores_R[n] = rows_QR[query, at], min(max(product, np.float32(-1)), np.float32(1))
                n += 1
        kept = min(n, found_QK.shape[1])
        take_best(own_R, scores_R, no_ranks, n, found_QK[query, :kept], scores_QK[query, :kept])
        kept_Q[query] = kept
