"""The compiled choice of pairs: which pieces of which documents, and which words of them are left out.

Every pair has a stream of random numbers of its own, which begins at (seed, number of the pair), so a batch is the same in
whatever order, and on whatever machine, it is made.
"""

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, kernel, scrambled

DROPOUT, NEIGHBOUR, CROP, TITLE, DELETION, PAIRS = range(6)
"""Places in `settings.KINDS`."""

LEAST_CROP = 8  # ids of a document from which two different spans can be cut
_LEAST_SPAN = 4
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


@inlined
def _share(bits: np.uint64) -> float:
    """A number in [0, 1) of 53 bits."""
    return np.float64(bits >> np.uint64(11)) * (1.0 / (1 << 53))


@kernel
def plan_pairs(
    rows: Int64s, numbers: Int64s, seed: np.uint64, bounds: npt.NDArray[np.float64], offsets: Int64s,
    document_of_row: Int32s, documents: Int64s, title_offsets: Int64s, pair_offsets: Int64s, pair_numbers: Int64s,
    max_words: int, pieces: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8],
) -> None:  # fmt: skip
    """Choose what the two texts of each pair are.

    Args:
        rows: (B,) the row that each pair begins from.
        numbers: (B,) of the pairs, from 0 to the end of the training.
        seed: of all.
        bounds: (6,) where in [0, 1] the share of each kind ends.
        offsets: (R + 1,) where each row begins.
        document_of_row: (R,) int32.
        documents: (N + 1,) the first row of each document.
        title_offsets: (N + 1,), or empty: no titles.
        pair_offsets: (2 P + 1,) of the texts of the file of pairs, or empty.
        pair_numbers: (B,) which pair of the file it is, where it is one of these.
        max_words: longer texts are cut.
        pieces: (2, B, 3) out: source (0 rows, 1 titles, 2 file), begin and end.
        kinds: (B,) out; a document that cannot give the kind that was drawn gives another: without a title a crop, too short
            for crops or with a single sentence a deletion.
    """
    for pair in range(len(rows)):
        row = rows[pair]
        document = document_of_row[row]
        state = scrambled(seed ^ (np.uint64(numbers[pair]) * _GOLDEN))
        drawn = _share(state)
        kind = 0
        while kind < PAIRS and drawn >= bounds[kind]:
            kind += 1
        first_row, last_row = documents[document], documents[document + 1]
        begin, end = offsets[first_row], offsets[last_row]
        if kind == TITLE and (len(title_offsets) == 0 or title_offsets[document] == title_offsets[document + 1]):
            kind = CROP
        if (kind == CROP and end - begin < LEAST_CROP) or (kind == NEIGHBOUR and last_row - first_row < 2):
            kind = DELETION
        kinds[pair] = kind
        for side in range(2):
            source, start, stop = 0, offsets[row], offsets[row + 1]
            if kind == NEIGHBOUR and side == 1:
                other = row + 1 if row + 1 < last_row else row - 1
                start, stop = offsets[other], offsets[other + 1]
            elif kind == PAIRS:
                text = 2 * pair_numbers[pair] + side
                source, start, stop = 2, pair_offsets[text], pair_offsets[text + 1]
            elif kind == TITLE and side == 0:
                source, start, stop = 1, title_offsets[document], title_offsets[document + 1]
            elif kind in (CROP, TITLE):
                # a window of at most max_words that holds the row's first id; the same for both sides
                width = min(max_words, end - begin)
                low, high = max(begin, offsets[row] - width + 1), min(offsets[row], end - width)
                at = low + np.int64(_share(scrambled(state + _GOLDEN)) * (high - low + 1))
                least, most = max(_LEAST_SPAN, width // 20), max(_LEAST_SPAN, width // 2)
                if kind == TITLE:
                    least, most = max(1, width // 4), width
                drawn_size = _share(scrambled(state + np.uint64(2 + 2 * side) * _GOLDEN))
                drawn_place = _share(scrambled(state + np.uint64(3 + 2 * side) * _GOLDEN))
                size = least + np.int64(drawn_size * (most - least + 1))
                start = at + np.int64(drawn_place * (width - size + 1))
                stop = start + size
            pieces[side, pair, 0], pieces[side, pair, 1] = source, start
            pieces[side, pair, 2] = min(stop, start + max_words)


@kernel
def copy_pieces(
    pieces: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8], numbers: Int64s, seed: np.uint64, deletion_rate: float,
    row_ids: Int32s, title_ids: Int32s, pair_ids: Int32s, ids: Int32s, lengths: Int64s,
) -> int:  # fmt: skip
    """Copy the texts of one side, without the words that are left out of deletions and crops; one word always stays.

    Args:
        pieces: (B, 3), one side of what `plan_pairs` chose.
        kinds: (B,).
        numbers: (B,) of the pairs.
        seed: of this side.
        deletion_rate: share of words left out.
        row_ids: source 0.
        title_ids: source 1.
        pair_ids: source 2.
        ids: out, with room for all.
        lengths: (B,) out.

    Returns:
        How many ids were written.
    """
    n = 0
    for pair in range(len(kinds)):
        source, start, stop = pieces[pair]
        begun = n
        deletes = deletion_rate > 0 and (kinds[pair] == CROP or kinds[pair] == DELETION)
        state = scrambled(seed ^ (np.uint64(numbers[pair]) * _GOLDEN))
        spared = start + np.int64(_share(state) * (stop - start))
        for at in range(start, stop):
            state += _GOLDEN
            if deletes and at != spared and _share(scrambled(state)) < deletion_rate:
                continue
            if source == 0:
                ids[n] = row_ids[at]
            elif source == 1:
                ids[n] = title_ids[at]
            else:
                ids[n] = pair_ids[at]
            n += 1
        lengths[pair] = n - begun
    return n


@kernel
def hash_texts(ids: Int32s, lengths: Int64s, hashes: Int64s) -> None:
    """Write a number for each text that depends on its ids and their order alone."""
    at = 0
    for text in range(len(lengths)):
        bits = _GOLDEN
        for place in range(at, at + lengths[text]):
            bits = scrambled(bits ^ np.uint64(ids[place]))
        hashes[text] = np.int64(bits)
        at += lengths[text]
