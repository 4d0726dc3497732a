"""Pairs of texts, as a pure function of (seed, step): which spans of which documents, and which of their words are left out.

Every sentence is the beginning of one pair in each pass over the text, in a new order each time; there is no iterator whose
state would have to be saved. Every pair has a stream of random numbers of its own, which begins at (seed, number of the
pair), so a batch is the same in whatever order, and on whatever machine, it is made.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, kernel, read_only, scrambled
from wordpipe.errors import InputError
from wordpipe.model import seed_of
from wordpipe.training.contrastive.pair_text import SPLITS, FilePairs, Int64s, PairText, RaggedFile, rows_of
from wordpipe.training.contrastive.settings import KINDS, EncoderSettings, PairKind
from wordpipe.training.token_stream import shuffled

DROPOUT, NEIGHBOUR, CROP, TITLE, DELETION, PAIRS = range(6)
"""Places in `settings.KINDS`."""

_LEAST_CROP = 8  # ids of a document from which two different spans can be cut
_LEAST_SPAN = 4
_MOST_LEFT_OUT = 0.5  # of the negatives
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Ragged:
    """B texts as ids, one text after the other.

    Attributes:
        ids: (S,) int32; tokens without special ones, or rows of a table of words.
        lengths: (B,) int64, how many of them are each text's; none is empty, and they sum to S.
    """

    ids: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]

    def hashes(self) -> npt.NDArray[np.int64]:
        """Return a number for each text, (B,): the same for the same ids in the same order."""
        hashes = np.empty(len(self.lengths), np.int64)
        hash_texts(self.ids, self.lengths, hashes)
        return hashes


@dataclass(frozen=True, slots=True)
class PairBatch:
    """B pairs; `first` and `second` of one place belong together.

    Attributes:
        first: one text of each pair.
        second: the other.
        document: (B,) int64; pairs of one number are of one document, so that they are no good negatives of each other.
        kind: (B,) int8, where the pair came from: a place in `settings.KINDS`.
    """

    first: Ragged
    second: Ragged
    document: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int8]


def same_pairs(document_B: Any, first_B: Any, second_B: Any) -> Any:
    """Return which pairs are no negatives of each other: pairs of one document, or with a text in common.

    That first text i is second text j makes (i, j) and (j, i) no negatives, as if the same side had it twice.

    Args:
        document_B: a number for each pair's document, integers; an array of NumPy or a tensor.
        first_B: a number for each first text, likewise.
        second_B: a number for each second text, likewise.

    Returns:
        (B, B) bool, symmetric, True on the diagonal, of the same library and device.
    """
    same_BB = document_B[:, None] == document_B
    for mine_B, theirs_B in product((first_B, second_B), repeat=2):
        same_BB |= mine_B[:, None] == theirs_B
    return same_BB


class Pairs:
    """Pairs for contrastive learning, out of a text on disk.

    Args:
        text: documents as rows of ids.
        settings: shares of the kinds, deletion rate, batch size, seed.
        split: which documents.
        given: the user's own pairs; their documents' numbers follow those of the text.
        batch_size: else the settings'; no more than there are are taken of a split that is not trained on.

    Attributes:
        n_pairs: pairs of one pass: rows of the split.
        counts: what the split has, and what it cannot give: sentences, documents, documents_of_one_sentence,
            documents_too_short_to_crop, documents_without_known_title, sentences_cut, file_pairs, file_pairs_left_out.
        notes: fall-backs that the user should know.

    Raises:
        InputError: the split has no sentence; or all are of one document, so that none is a negative of another.
    """

    def __init__(
        self, text: PairText, settings: EncoderSettings, *, split: str = "train", given: FilePairs | None = None,
        batch_size: int | None = None,
    ) -> None:  # fmt: skip
        chosen = text.splits == SPLITS.index(split)
        self._rows = rows_of(text.documents, chosen)
        if not len(self._rows):
            raise InputError(
                "this split has no sentence for a pair",
                where=split,
                hint="add more text, or change the option --valid of wordpipe ingest",
            )
        self._text, self._settings, self._given = text, settings, given
        self._document_of_row = np.repeat(np.arange(len(chosen), dtype=np.int32), np.diff(text.documents))
        self.n_pairs = len(self._rows)
        self._batch_size = min(batch_size, self.n_pairs) if batch_size else settings.pairs_per_step(self.n_pairs)
        self._seed = seed_of(settings.seed, "pairs", split)
        self.counts = _pair_counts(text, chosen, self._rows, given, settings)
        self.notes = _pair_notes(self.counts, settings)
        if split == "train" and given is None and settings.false_negatives == "drop":
            self.notes += _few_negatives(self._document_of_row[self._rows])

    def batch(self, step: int) -> PairBatch:
        """Return the contrastive pairs of texts of a step, counted from 0."""
        numbers = np.arange(step * self._batch_size, (step + 1) * self._batch_size, dtype=np.int64)
        rows = self._rows[shuffled(numbers, self.n_pairs, self._seed, "order")]
        # which spans of which texts
        spans = np.empty((2, len(rows), 3), np.int64)
        kinds, nothing = np.empty(len(rows), np.int8), RaggedFile(np.zeros(0, np.int32), np.zeros(0, np.int64))
        text, titles = self._text, self._text.titles or nothing
        file_numbers, texts = np.zeros(len(rows), np.int64), nothing
        if self._given is not None:
            usable, texts = self._given.usable, self._given.texts
            file_numbers = usable[shuffled(numbers, len(usable), self._seed, "file")]
        plan_pairs(
            rows, numbers, np.uint64(self._seed), self._bounds(), read_only(text.rows.offsets), self._document_of_row,
            text.documents, read_only(titles.offsets), read_only(texts.offsets), file_numbers, self._settings.max_words,
            spans, kinds,
        )  # fmt: skip
        # their ids, but for the words that are left out
        sides = []
        for side in range(2):
            ids = np.empty(int((spans[side, :, 2] - spans[side, :, 1]).sum()), np.int32)
            lengths = np.empty(len(kinds), np.int64)
            written = copy_spans(
                spans[side], kinds, numbers, np.uint64(seed_of(self._seed, "deletion", side)),
                self._settings.deletion_rate, read_only(text.rows.ids), read_only(titles.ids), read_only(texts.ids), ids,
                lengths,
            )  # fmt: skip
            sides.append(Ragged(ids[:written], lengths))
        from_file = kinds == KINDS.index("pairs")
        document = np.where(from_file, len(text.splits) + file_numbers, self._document_of_row[rows])
        return PairBatch(sides[0], sides[1], document.astype(np.int64), kinds)

    def _bounds(self) -> npt.NDArray[np.float64]:
        """Return the end of the share of each kind of pairs in [0, 1].

        Without a file of pairs the other kinds share its part.
        """
        shares = np.array([*self._settings.shares.values()])
        if self._given is None:
            shares[KINDS.index("pairs")] = 0.0
            shares[KINDS.index("deletion")] += not shares.any()
        bounds = np.cumsum(shares / shares.sum())
        bounds[np.flatnonzero(shares)[-1] :] = 1.0  # never beyond the last kind by rounding
        return bounds


def _pair_counts(
    text: PairText, chosen: npt.NDArray[np.bool_], rows: Int64s, given: FilePairs | None, settings: EncoderSettings
) -> dict[str, int]:
    """Count the sentences and documents of a split, and the pairs that it cannot give."""
    begins, ends = text.documents[:-1][chosen], text.documents[1:][chosen]
    filled = ends > begins
    begins, ends = begins[filled], ends[filled]
    offsets = text.rows.offsets
    counts = {
        "sentences": len(rows),
        "documents": len(begins),
        "documents_of_one_sentence": int((ends - begins == 1).sum()),
        "documents_too_short_to_crop": int((offsets[ends] - offsets[begins] < _LEAST_CROP).sum()),
        "sentences_cut": int((offsets[rows + 1] - offsets[rows] > settings.max_words).sum()),
    }
    if settings.shares["title"]:  # else nobody has read the titles
        titled = 0 if text.titles is None else int((np.diff(text.titles.offsets)[chosen][filled] > 0).sum())
        counts["documents_without_known_title"] = len(begins) - titled
    if given is not None:
        counts["file_pairs"] = len(given.usable)
        counts["file_pairs_left_out"] = len(given.texts) // 2 - len(given.usable)
    return counts


def _pair_notes(counts: dict[str, int], settings: EncoderSettings) -> list[str]:
    """Return warnings of what half of the documents, or more, cannot give, and of what is taken instead."""
    instead: tuple[tuple[PairKind, str, str], ...] = (
        (
            "title",
            "documents_without_known_title",
            "{n:,} of {n_documents:,} documents have no title with a word of the vocabulary. For these documents, two "
            "spans of the text are used in place of title pairs.",
        ),
        (
            "neighbour",
            "documents_of_one_sentence",
            "{n:,} of {n_documents:,} documents have only one sentence. For these documents, two copies of the sentence, "
            "with different words removed, are used in place of neighbour pairs.",
        ),
        (
            "crop",
            "documents_too_short_to_crop",
            "{n:,} of {n_documents:,} documents have fewer than {least} words. For these documents, a pair is two "
            "copies of one sentence with different words removed.",
        ),
    )
    return [
        note.format(n=counts[name], n_documents=counts["documents"], least=_LEAST_CROP)
        for kind, name, note in instead
        if settings.shares[kind] > 0 and 2 * counts[name] >= counts["documents"]
    ]


def _few_negatives(document_N: npt.NDArray[np.int32]) -> list[str]:
    """Return a warning if most sentences of pairs are of one document, and so no negatives.

    Raises:
        InputError: all are: every loss would be 0.
    """
    share_D = np.unique(document_N, return_counts=True)[1] / len(document_N)
    if len(share_D) == 1:
        raise InputError(
            "all sentences belong to one document, but sentences of the same document are not used as negative "
            "examples",
            hint="use --false-negatives keep, or split the text into documents with wordpipe ingest --documents",
        )
    left_out = float(np.square(share_D).sum())
    if left_out <= _MOST_LEFT_OUT:
        return []
    return [
        f"{left_out:.0%} of the negative examples are not used, because a sentence and its negative examples must be "
        "from different documents. Split the text into more documents (wordpipe ingest --documents), or use "
        "--false-negatives keep"
    ]


def held_out_pairs(settings: EncoderSettings, text: PairText) -> Pairs | None:
    """Return pairs of neighbouring sentences of held-out documents, for any contrastive training; None: there are too few.

    Sentences of one document are no negatives of each other, so that a single document would ask nothing at all. A sentence
    and itself, as in dropout pairs, would be known again by any encoder.
    """
    if (np.diff(text.documents)[text.splits == 1] > 0).sum() < 4:  # documents
        return None
    others = [name for name in type(settings).model_fields if name.startswith("pair")]
    neighbours = settings.model_copy(update=dict.fromkeys(others) | {"pair_neighbour": 1.0})
    found = Pairs(text, neighbours, split="valid", batch_size=settings.valid_pairs)
    return found if found.n_pairs > 1 else None


@inlined
def _share(bits: np.uint64) -> float:
    """Return a number in [0, 1) of 53 bits."""
    return np.float64(bits >> np.uint64(11)) * (1.0 / (1 << 53))


@kernel
def plan_pairs(
    rows: Int64s, numbers: Int64s, seed: np.uint64, bounds: npt.NDArray[np.float64], offsets: Int64s,
    document_of_row: Int32s, documents: Int64s, title_offsets: Int64s, pair_offsets: Int64s, pair_numbers: Int64s,
    max_words: int, spans: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8],
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
        spans: (2, B, 3) out: source (0 rows, 1 titles, 2 file), begin and end.
        kinds: (B,) out; a document that cannot give the kind that was drawn gives another: without a title a crop, too short
            for crops or with a single sentence a deletion.
    """
    for pair in range(len(rows)):
        # the kind of the pair, drawn by the shares
        row = rows[pair]
        document = document_of_row[row]
        state = scrambled(seed ^ (np.uint64(numbers[pair]) * _GOLDEN))
        drawn = _share(state)
        kind = 0
        while kind < PAIRS and drawn >= bounds[kind]:
            kind += 1
        # another kind where the document cannot give this one
        first_row, last_row = documents[document], documents[document + 1]
        begin, end = offsets[first_row], offsets[last_row]
        if kind == TITLE and (len(title_offsets) == 0 or title_offsets[document] == title_offsets[document + 1]):
            kind = CROP
        if (kind == CROP and end - begin < _LEAST_CROP) or (kind == NEIGHBOUR and last_row - first_row < 2):
            kind = DELETION
        kinds[pair] = kind
        # begin and end of both texts
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
                # a span of the window, of random size at a random place
                drawn_size = _share(scrambled(state + np.uint64(2 + 2 * side) * _GOLDEN))
                drawn_place = _share(scrambled(state + np.uint64(3 + 2 * side) * _GOLDEN))
                size = least + np.int64(drawn_size * (most - least + 1))
                start = at + np.int64(drawn_place * (width - size + 1))
                stop = start + size
            spans[side, pair, 0], spans[side, pair, 1] = source, start
            spans[side, pair, 2] = min(stop, start + max_words)


@kernel
def copy_spans(
    spans: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8], numbers: Int64s, seed: np.uint64, deletion_rate: float,
    row_ids: Int32s, title_ids: Int32s, pair_ids: Int32s, ids: Int32s, lengths: Int64s,
) -> int:  # fmt: skip
    """Copy the texts of one side of pairs, without the words that are left out of deletions and crops; one word always stays.

    Args:
        spans: (B, 3), one side of what `plan_pairs` chose.
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
        source, start, stop = spans[pair]
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
    """Write a number for each text of pairs that depends on its ids and their order alone."""
    at = 0
    for text in range(len(lengths)):
        bits = _GOLDEN
        for place in range(at, at + lengths[text]):
            bits = scrambled(bits ^ np.uint64(ids[place]))
        hashes[text] = np.int64(bits)
        at += lengths[text]
