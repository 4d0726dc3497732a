"""Compiled merging: the commonest pair of tokens becomes a token, in all its places, again and again.

**Slots.** All pre-tokens lie in one int32 array, a separator `END` before, between and after them. A token of one
symbol is its id. A token of L >= 2 symbols is its id, then L - 1 negative slots of which the first and the last hold
-L, so that both neighbours of a token are found in one step and a merge rewrites three slots, however long the
pre-token is. One bit per slot says where separators are; counting bits gives the pre-token of a slot, and so its count.

**Records.** A record is what Hugging Face's queue holds: a pair and the places where one step of training made it
(`positions[start[r] : start[r + 1]]`). The count of a pair (`pairs[r, 1]`; `pairs[r, 0]` is the pair, left id << 32 | right
id) is kept by its first record, its `owner`, which a hash table finds by pair. Nearly every pair has one record. A pair gets a
second one when two pairs give one string and so one token ("#" + "###" is "##", and "##" + "##b" the "##b" that is
there already); `several` marks such pairs. Their records are merged pre-token by pre-token, as Hugging Face does, since places
of one record then lie in pre-tokens of another. Counts of pairs that were merged are never taken back there, and so not here.

**Queue.** A lazy heap of records, the commonest pair first. Hugging Face's queue may hold several entries of one pair with
one count, and which comes first there depends on how its heap happens to lie. Here it is the one that was queued first, as
there in nearly all cases: of 12,000 random sets of words made of "#" and letters, with `##`, in which a third of all results
had such pairs, six were different.

**Merges.** A merge (a, b) -> x first adds up what changes per neighbouring token, in arrays indexed by token: the left
neighbour `l` has place `l`, the right neighbour `r` place `half + r`. The table is then touched once per neighbour, not once
per occurrence.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel
from wordpipe.tokens.vocabulary import I32, I64, U8

END = np.int32(2**31 - 1)
ONE = np.uint64(1)
U64 = NDArray[np.uint64]


class State(IntEnum):
    """Places of the numbers that a paused training continues from, in one int64 array."""

    RECORDS = 0  # records made so far
    HEAP = 1  # entries of the heap
    POSITIONS = 2  # positions in use
    TOKENS = 3  # size of the vocabulary
    MERGES = 4  # merges made so far
    VOCAB_SIZE = 5  # stop at this vocabulary
    MIN_FREQUENCY = 6  # stop at pairs rarer than this
    PREFIX = 7  # bytes of the continuing prefix, which the spellings begin with
    NEED = 8  # occurrences that the next merge may touch, when it does not fit
    AT = 9  # slot, and
    WORD = 10  # pre-token, where counting pairs goes on
    TICKS = 11  # entries queued so far


@kernel
def find(table: I32, pairs: I64, key: int) -> np.int64:
    """Return the slot of the table that holds a pair's owner in the loop of BPE training, or the empty one."""
    mask = len(table) - 1
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64(mixed >> np.uint64(32)) & mask
    while table[at] >= 0 and pairs[table[at], 0] != key:
        at = (at + 1) & mask
    return at


@kernel
def rehash(table: I32, pairs: I64, owner: I32, records: int) -> None:
    """Fill the loop's table of pairs with the owners among the records."""
    table[:] = -1
    for record in range(records):
        if owner[record] == record:
            table[find(table, pairs, pairs[record, 0])] = record


@kernel
def count_pairs(slots: I32, used: int, counts: I64, table: I32, pairs: I64, owner: I32, found: I64, state: I64) -> bool:
    """Count the pairs of untouched symbols; False when records ran out: make room and call again.

    `found` receives how many places each pair has.
    """
    at, word, records = int(state[State.AT]), int(state[State.WORD]), int(state[State.RECORDS])
    done = True
    while at < used - 2:
        # the pair at this place; a separator ends the pre-token
        left, right = int(slots[at]), int(slots[at + 1])
        if right == END:
            at += 2
            word += 1
            continue
        key = (left << 32) | right
        place = find(table, pairs, key)
        record = table[place]
        # a new pair gets a record
        if record < 0:
            if records == len(owner):
                done = False
                break
            record = records
            records += 1
            table[place] = record
            owner[record] = record
            pairs[record, 0] = key
            pairs[record, 1] = 0
            found[record] = 0
        # one place more
        pairs[record, 1] += counts[word]
        found[record] += 1
        at += 1
    state[State.AT], state[State.WORD], state[State.RECORDS] = at, word, records
    return done


@kernel
def fill_positions(slots: I32, used: int, table: I32, pairs: I64, cursor: I64, positions: I32) -> None:
    """Write the places of each initial pair, ascending, from where its cursor stands."""
    for at in range(1, used - 1):
        if slots[at] != END and slots[at + 1] != END:
            record = table[find(table, pairs, (int(slots[at]) << 32) | int(slots[at + 1]))]
            positions[cursor[record]] = at
            cursor[record] += 1


@kernel
def precedes(count: int, record: int, other_count: int, other: int, pairs: I64, queued: I32) -> bool:
    """True if an entry of the training loop's heap comes before another: higher count, then lower pair."""
    if count != other_count:
        return count > other_count
    key, other_key = pairs[record, 0], pairs[other, 0]
    if key != other_key:
        return bool(key < other_key)
    return bool(queued[record] < queued[other])


@kernel
def sift_up(heap_count: I64, heap_record: I32, at: int, pairs: I64, queued: I32) -> None:
    """Let the entry at the end of the training loop's heap of pairs rise."""
    count, record = heap_count[at], heap_record[at]
    while at > 0:
        parent = (at - 1) >> 2
        if not precedes(count, record, heap_count[parent], heap_record[parent], pairs, queued):
            break
        heap_count[at], heap_record[at] = heap_count[parent], heap_record[parent]
        at = parent
    heap_count[at], heap_record[at] = count, record


@kernel
def sift_down(heap_count: I64, heap_record: I32, size: int, count: int, record: int, pairs: I64, queued: I32) -> None:
    """Put an entry at the top of the training loop's heap of pairs, and let it sink."""
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
    heap_count: I64, heap_record: I32, pairs: I64, owner: I32, queued: I32, first: int, state: I64
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


@kernel
def ones(x: np.uint64) -> np.int64:
    """Return the number of bits that are set, for places in the loop of BPE training."""
    x -= (x >> ONE) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def next_token(slots: I32, at: int) -> int:
    """Return where the token after the one at `at` begins."""
    jump = int(slots[at + 1])
    return at - jump if jump < 0 else at + 1


@kernel
def first_token(slots: I32, at: int) -> int:
    """Return where the pre-token around a slot begins. Places of a record always begin a token or lie in one."""
    while slots[at] != END:
        at -= 1
    return at + 1


@kernel
def reach(slots: I32, positions: I32, begin: int, end: int, whole: bool) -> int:
    """Return the most occurrences that merging a record in BPE's training loop can touch."""
    if not whole:
        return end - begin
    total, last = 0, -1
    for i in range(begin, end):
        at = first_token(slots, positions[i])
        if at != last:
            last = at
            while slots[at] != END:
                at = next_token(slots, at)
                total += 1
    return total


@kernel
def spell(spellings: U8, starts: I64, left: int, right: int, prefix: int, room: int) -> int:
    """Write the string of a pair that BPE's training loop has merged at `room`; returns its end."""
    for i in range(starts[left], starts[left + 1]):
        spellings[room] = spellings[i]
        room += 1
    begin, end = starts[right], starts[right + 1]
    same = 0
    while same < prefix and begin + same < end and spellings[begin + same] == spellings[same]:
        same += 1
    for i in range(begin + prefix if same == prefix else begin, end):
        spellings[room] = spellings[i]
        room += 1
    return room


@kernel
def find_string(spellings: U8, starts: I64, names: I32, begin: int, end: int) -> np.int64:
    """Return the slot of the training loop's table of names for the token `spellings[begin:end]`."""
    x = np.uint64(0xCBF29CE484222325)
    for i in range(begin, end):
        x = (x ^ np.uint64(spellings[i])) * np.uint64(0x100000001B3)
    mask = len(names) - 1
    at = np.int64(x >> np.uint64(32)) & mask
    while names[at] >= 0:
        token = int(names[at])
        size = starts[token + 1] - starts[token]
        i = 0
        while size == end - begin and i < size and spellings[starts[token] + i] == spellings[begin + i]:
            i += 1
        if i == size and size == end - begin:
            break
        at = (at + 1) & mask
    return at


@kernel
def name_tokens(spellings: U8, starts: I64, names: I32, tokens: int) -> None:
    """Fill the table of names with the tokens of the beginning."""
    names[:] = -1
    for token in range(tokens):
        names[find_string(spellings, starts, names, starts[token], starts[token + 1])] = token


@kernel
def merge_places(
    a: int, b: int, new: int, begin: int, stop: int, whole: bool, slots: I32, bits: U64, before: I32, counts: I64,
    positions: I32, changes: I64, found: I32, touched: I32, event_place: I32, event_position: I32,
) -> tuple[int, int]:  # fmt: skip
    """Merge a pair at the places of a record in the training loop, left to right.

    Notes each new pair (neighbour's place in `changes`, position) as an event, adds up the counts in `changes`, the number of
    events per pair in `found`, and lists the places in `touched`. Returns how many events and touched places there are.

    All in one function: with a function per merge and one per neighbour, each handing on a dozen arrays, ten million
    merges took 2.9 s, this way 0.24 s.
    """
    half = len(changes) >> 1
    events, touches = 0, 0
    last_word = -1
    for i in range(begin, stop):
        at = int(positions[i])
        # whole pre-tokens are gone through from their beginning, each once
        if whole:
            at = first_token(slots, at)
            if at == last_word:
                continue
            last_word = at
        while True:
            jump = int(slots[at + 1])
            right = at - jump if jump < 0 else at + 1
            if slots[at] == a and slots[right] == b:
                # the end of the pair, and the count of its pre-token
                jump = int(slots[right + 1])
                end = right - jump if jump < 0 else right + 1
                block = at >> 6
                ends_before = ones(bits[block] & ((ONE << np.uint64(at & 63)) - ONE))
                count = counts[before[block] + ends_before - 1]
                # the new pair with the left neighbour
                jump = int(slots[at - 1])
                previous = at + jump if jump < 0 else at - 1
                place = int(slots[previous])
                if place != END:
                    if changes[place] == 0:
                        touched[touches] = place
                        touches += 1
                    changes[place] += count
                    found[place] += 1
                    event_place[events], event_position[events] = place, previous
                    events += 1
                # the new pair with the right neighbour
                place = int(slots[end])
                if place != END:
                    listed = place if place == new else half + place  # (new, new) is one pair, however it came about
                    if changes[half + place] == 0:
                        touched[touches] = half + place
                        touches += 1
                    changes[half + place] += count
                    found[listed] += 1
                    event_place[events], event_position[events] = listed, at
                    events += 1
                # one token in the place of two
                slots[right] = -1
                slots[at] = new
                slots[at + 1] = at - end
                slots[end - 1] = at - end
            # the next token of a whole pre-token
            if not whole:
                break
            jump = int(slots[at + 1])
            at = at - jump if jump < 0 else at + 1
            if slots[at] == END:
                break
    return events, touches


@kernel
def commonest(state: I64, pairs: I64, owner: I32, queued: I32, heap_count: I64, heap_record: I32) -> int:
    """Return the record at the top of the training loop's heap once its count is up to date; -1: none.

    -1: no pair is common enough, or all are made.

    Counts in the heap may be out of date; such an entry is queued again with the present count.
    """
    while state[State.HEAP] > 0 and state[State.TOKENS] < state[State.VOCAB_SIZE]:
        top = int(heap_record[0])
        count = pairs[owner[top], 1]
        if count == heap_count[0]:
            return top if count >= max(1, state[State.MIN_FREQUENCY]) else -1
        queued[top] = state[State.TICKS]
        state[State.TICKS] += 1
        sift_down(heap_count, heap_record, state[State.HEAP], count, top, pairs, queued)
    return -1


@kernel
def add_pairs(
    new: int, touches: int, events: int, state: I64,
    table: I32, pairs: I64, owner: I32, several: U8, start: I64, positions: I32,
    changes: I64, found: I32, cursor: I64, touched: I32, event_place: I32, event_position: I32,
) -> None:  # fmt: skip
    """Count the pairs that a merge of the training loop made, and give each a record with its places."""
    # a record for each new pair; its count goes to the owner
    half = len(changes) >> 1
    records, room = state[State.RECORDS], state[State.POSITIONS]
    for i in range(touches):
        place = int(touched[i])
        listed = new if place == half + new else place
        key = (place << 32) | new if place < half else (new << 32) | (place - half)
        at = find(table, pairs, key)
        keeper = int(table[at])
        if found[listed] > 0:  # else the other side of (new, new) had its turn
            pairs[records, 0] = key
            several[records] = 0
            if keeper < 0:
                keeper = records
                table[at] = records
                pairs[records, 1] = 0
            else:
                several[keeper] = 1
            # room for its places
            owner[records] = keeper
            start[records] = cursor[listed] = room
            room += found[listed]
            found[listed] = 0
            records += 1
        pairs[keeper, 1] += changes[place]
    # the places of each record, in the order of the events
    start[records] = room
    state[State.RECORDS], state[State.POSITIONS] = records, room
    for i in range(events):
        listed = event_place[i]
        positions[cursor[listed]] = event_position[i]
        cursor[listed] += 1


@kernel
def merge_pairs(
    chunk: int, state: I64, slots: I32, bits: U64, before: I32, counts: I64,
    table: I32, pairs: I64, owner: I32, queued: I32, several: U8, start: I64, positions: I32,
    heap_count: I64, heap_record: I32, spellings: U8, starts: I64, names: I32, history: I32,
    changes: I64, found: I32, cursor: I64, touched: I32, event_place: I32, event_position: I32,
) -> int:  # fmt: skip
    """Make up to `chunk` merges: the loop of BPE training.

    Returns:
        0: training is over; 1: go on; 2: make room for state[State.NEED] occurrences, then go on. Nothing is half done.
    """
    half = len(changes) >> 1
    for _ in range(chunk):
        # the pair to merge, if everything that it may touch fits
        top = commonest(state, pairs, owner, queued, heap_count, heap_record)
        if top < 0:
            return 0
        key = int(pairs[top, 0])
        a, b = key >> 32, key & 0xFFFFFFFF
        whole = several[owner[top]] != 0
        # room for its occurrences, records, history and spelling
        most = reach(slots, positions, start[top], start[top + 1], whole)
        fresh_records = 2 * min(most, state[State.TOKENS] + 1)
        if (
            2 * most > len(event_place)
            or state[State.RECORDS] + fresh_records > len(owner)
            or state[State.MERGES] == len(history)
            or starts[state[State.TOKENS]] + starts[a + 1] - starts[a] + starts[b + 1] - starts[b] > len(spellings)
        ):
            state[State.NEED] = most
            return 2
        # it leaves the heap
        state[State.HEAP] -= 1
        last = state[State.HEAP]
        if last > 0:
            sift_down(heap_count, heap_record, last, heap_count[last], int(heap_record[last]), pairs, queued)

        # the token that the pair becomes: a new one, or the one that has this string already
        begin = starts[state[State.TOKENS]]
        end = spell(spellings, starts, a, b, state[State.PREFIX], begin)
        name = find_string(spellings, starts, names, begin, end)
        new = int(names[name])
        if new < 0:
            new = int(state[State.TOKENS])
            names[name] = new
            starts[new + 1] = end
            state[State.TOKENS] += 1
        history[state[State.MERGES], 0], history[state[State.MERGES], 1], history[state[State.MERGES], 2] = a, b, new
        state[State.MERGES] += 1

        # the occurrences, left to right
        events, touches = merge_places(
            a, b, new, start[top], start[top + 1], whole, slots, bits, before, counts,
            positions, changes, found, touched, event_place, event_position,
        )  # fmt: skip

        first_record = state[State.RECORDS]
        add_pairs(new, touches, events, state, table, pairs, owner, several, start, positions,
                  changes, found, cursor, touched, event_place, event_position)  # fmt: skip
        # pairs with the parts: only their counts; the places are found out of date when their turn comes
        for i in range(touches):
            place = int(touched[i])
            key = (place << 32) | a if place < half else (b << 32) | (place - half)
            pairs[table[find(table, pairs, key)], 1] -= changes[place]
            changes[place] = 0
        push_records(heap_count, heap_record, pairs, owner, queued, first_record, state)
    return 1
