"""The queue of merge training: a lazy heap of records, commonest pair first.

Hugging Face's queue may hold several entries of one pair with one count, and which comes first there hangs on how its
heap happens to lie. Here it is the one that was queued first, as there in nearly all cases: of 12,000 random sets of words
made of "#" and letters, with `##`, in which a third of all results had such pairs, six were different.
"""

from wordpipe.compiled import kernel
from wordpipe.tokens.train.pair_table import Ints, Longs, State

__all__ = ["push_records", "sift_down"]


@kernel
def precedes(count: int, record: int, other_count: int, other: int, pairs: Longs, queued: Ints) -> bool:
    """Whether a heap entry comes before another: higher count, then lower pair, then queued earlier."""
    if count != other_count:
        return count > other_count
    key, other_key = pairs[record, 0], pairs[other, 0]
    if key != other_key:
        return bool(key < other_key)
    return bool(queued[record] < queued[other])


@kernel
def sift_up(heap_count: Longs, heap_record: Ints, at: int, pairs: Longs, queued: Ints) -> None:
    """Let the entry at the end of the heap rise."""
    count, record = heap_count[at], heap_record[at]
    while at > 0:
        parent = (at - 1) >> 2
        if not precedes(count, record, heap_count[parent], heap_record[parent], pairs, queued):
            break
        heap_count[at], heap_record[at] = heap_count[parent], heap_record[parent]
        at = parent
    heap_count[at], heap_record[at] = count, record


@kernel
def sift_down(
    heap_count: Longs, heap_record: Ints, size: int, count: int, record: int, pairs: Longs, queued: Ints
) -> None:
    """Put an entry at the top of a heap whose top is free, and let it sink."""
    at = 0
    while 4 * at + 1 < size:
        best = 4 * at + 1
        for child in range(best + 1, min(best + 4, size)):
            if precedes(heap_count[child], heap_record[child], heap_count[best], heap_record[best], pairs, queued):
                best = child
        if not precedes(heap_count[best], heap_record[best], count, record, pairs, queued):
            break
        heap_count[at], heap_record[at] = heap_count[best], heap_record[best]
        at = best
    heap_count[at], heap_record[at] = count, record


@kernel
def push_records(
    heap_count: Longs, heap_record: Ints, pairs: Longs, owner: Ints, queued: Ints, first: int, state: Longs
) -> None:
    """Queue the records from `first` on with what their pairs count now; pairs that have gone already are left out."""
    size = state[State.HEAP]
    for record in range(first, state[State.RECORDS]):
        count = pairs[owner[record], 1]
        if count > 0:
            heap_count[size], heap_record[size] = count, record
            queued[record] = state[State.TICKS]
            state[State.TICKS] += 1
            sift_up(heap_count, heap_record, size, pairs, queued)
            size += 1
    state[State.HEAP] = size
