"""The vectors of the words around the current one, held close while the window passes over them.

A word's vector is fetched when it comes into reach and what changed is added back when it leaves: it is read and written once
for the ten or so windows it takes part in, and other threads see it change once. Where a word is made of parts (itself and its
character n-grams), the ring holds the mean of the parts, and the change is added to each of them, as fastText does.

Source: FULL-W2V (Randall et al. 2021) calls the same on a GPU "lifetime reuse of context words".
"""

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined
from wordpipe.words.kernels.vectors import add_difference, add_row, copy_row

Ints = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


@inlined
def enter(
    row: int, slots: Ints, users: Ints, now: int, before: int, inputs: int, dim: int, part_starts: Offsets, parts: Ints,
    part_vectors: int,
) -> int:  # fmt: skip
    """Give a word a slot, or another user of the slot it has; returns the slot.

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
def leave(
    slot: int, slots: Ints, users: Ints, now: int, before: int, inputs: int, dim: int, part_starts: Offsets, parts: Ints,
    part_vectors: int,
) -> None:  # fmt: skip
    """A position no longer uses its slot; after the last, the change is added to the word's vector, or to all its parts."""
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
