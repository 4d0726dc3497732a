"""Batches of pairs, as a pure function of (seed, step): there is no iterator whose state would have to be saved.

Every sentence is the beginning of one pair in each pass over the text, in a new order each time.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import read_only
from wordpipe.errors import InputError
from wordpipe.model.seeds import seed_of
from wordpipe.training.contrast.batch import PairBatch, Ragged
from wordpipe.training.contrast.cutting import LEAST_CROP, copy_pieces, plan_pairs
from wordpipe.training.contrast.pair_text import SPLITS, PairText, RaggedFile, rows_of
from wordpipe.training.contrast.settings import KINDS, ContrastSettings
from wordpipe.training.permutation import permute

__all__ = ["FilePairs", "PairBatch", "Pairs", "Ragged"]

Int64s = npt.NDArray[np.int64]
_NOTHING = RaggedFile(np.zeros(0, np.int32), np.zeros(0, np.int64))
_MOST_LEFT_OUT = 0.5  # of the negatives


@dataclass(frozen=True, slots=True)
class FilePairs:
    """Pairs that the user gave.

    Attributes:
        texts: 2 P texts, those of a pair one after the other.
        usable: (U,) int64, the pairs of which both texts have an id.
    """

    texts: RaggedFile
    usable: Int64s

    @classmethod
    def of(cls, texts: RaggedFile) -> "FilePairs":
        """Find the usable pairs.

        Raises:
            InputError: there is none.
        """
        filled = (np.diff(texts.offsets).reshape(-1, 2) > 0).all(axis=1)
        if not filled.any():
            raise InputError(
                "no pair of the file has known words on both sides", where="pairs", got=f"{len(texts) // 2} pairs"
            )
        return cls(texts, np.flatnonzero(filled))


class Pairs:
    """Pairs out of a text on disk.

    Args:
        text: documents as rows of ids.
        settings: shares of the kinds, deletion rate, batch size, seed.
        split: which documents.
        given: the user's own pairs; their documents' numbers follow those of the text.
        batch_size: else the settings'.

    Attributes:
        n_pairs: pairs of one pass: rows of the split.
        counts: what the split has, and what it cannot give: sentences, documents, documents_of_one_sentence,
            documents_too_short_to_crop, documents_without_title, sentences_cut, file_pairs, file_pairs_left_out.
        notes: fall-backs that the user should know.

    Raises:
        InputError: the split has no sentence; or all are of one document, so that none is a negative of another.
    """

    def __init__(
        self,
        text: PairText,
        settings: ContrastSettings,
        *,
        split: str = "train",
        given: FilePairs | None = None,
        batch_size: int | None = None,
    ) -> None:
        chosen = text.splits == SPLITS.index(split)
        self._rows = rows_of(text.documents, chosen)
        if not len(self._rows):
            raise InputError("no sentence to make pairs of", where=split, hint="give more text, or another split of it")
        self._text, self._settings, self._given = text, settings, given
        self._document_of_row = np.repeat(np.arange(len(chosen), dtype=np.int32), np.diff(text.documents))
        self._batch_size = batch_size or settings.pairs_per_step
        self._seed = seed_of(settings.seed, "pairs", split)
        self.n_pairs = len(self._rows)
        self.counts = _counts(text, chosen, self._rows, given, settings)
        self.notes = _notes(self.counts, settings)
        if split == "train" and given is None and settings.false_negatives == "drop":
            self.notes += _few_negatives(self._document_of_row[self._rows])

    def batch(self, step: int) -> PairBatch:
        """The pairs of a step, counted from 0."""
        numbers = np.arange(step * self._batch_size, (step + 1) * self._batch_size, dtype=np.int64)
        rows = self._rows[_shuffled(numbers, self.n_pairs, self._seed, "order")]
        pieces = np.empty((2, len(rows), 3), np.int64)
        kinds = np.empty(len(rows), np.int8)
        text, titles = self._text, self._text.titles or _NOTHING
        file_numbers, texts = np.zeros(len(rows), np.int64), _NOTHING
        if self._given is not None:
            usable, texts = self._given.usable, self._given.texts
            file_numbers = usable[_shuffled(numbers, len(usable), self._seed, "file")]
        plan_pairs(
            rows,
            numbers,
            np.uint64(self._seed),
            self._bounds(),
            read_only(text.rows.offsets),
            self._document_of_row,
            text.documents,
            read_only(titles.offsets),
            read_only(texts.offsets),
            file_numbers,
            self._settings.max_words,
            pieces,
            kinds,
        )
        sides = [self._copied(pieces[side], kinds, numbers, side, titles, texts) for side in range(2)]
        from_file = kinds == KINDS.index("pairs")
        document = np.where(from_file, len(text.splits) + file_numbers, self._document_of_row[rows])
        return PairBatch(sides[0], sides[1], document.astype(np.int64), kinds)

    def _bounds(self) -> npt.NDArray[np.float64]:
        """Where in [0, 1] the share of each kind ends; without a file the others share its part."""
        shares = np.array([*self._settings.shares.values()])
        if self._given is None:
            shares[KINDS.index("pairs")] = 0.0
            shares[KINDS.index("deletion")] += not shares.any()
        bounds = np.cumsum(shares / shares.sum())
        bounds[np.flatnonzero(shares)[-1] :] = 1.0  # never beyond the last kind by rounding
        return bounds

    def _copied(
        self,
        pieces: Int64s,
        kinds: npt.NDArray[np.int8],
        numbers: Int64s,
        side: int,
        titles: RaggedFile,
        texts: RaggedFile,
    ) -> Ragged:
        ids = np.empty(int((pieces[:, 2] - pieces[:, 1]).sum()), np.int32)
        lengths = np.empty(len(kinds), np.int64)
        written = copy_pieces(
            pieces,
            kinds,
            numbers,
            np.uint64(seed_of(self._seed, "deletion", side)),
            self._settings.deletion_rate,
            read_only(self._text.rows.ids),
            read_only(titles.ids),
            read_only(texts.ids),
            ids,
            lengths,
        )
        return Ragged(ids[:written], lengths)


def _shuffled(numbers: Int64s, n: int, seed: int, purpose: str) -> Int64s:
    """Each pass over 0 … n-1 in an order of its own."""
    passes, places = numbers // n, numbers % n
    out = np.empty_like(numbers)
    for number in np.unique(passes):
        here = passes == number
        out[here] = permute(places[here], n, seed_of(seed, purpose, int(number)))
    return out


def _counts(
    text: PairText, chosen: npt.NDArray[np.bool_], rows: Int64s, given: FilePairs | None, settings: ContrastSettings
) -> dict[str, int]:
    begins, ends = text.documents[:-1][chosen], text.documents[1:][chosen]
    filled = ends > begins
    begins, ends = begins[filled], ends[filled]
    offsets = text.rows.offsets
    counts = {
        "sentences": len(rows),
        "documents": len(begins),
        "documents_of_one_sentence": int((ends - begins == 1).sum()),
        "documents_too_short_to_crop": int((offsets[ends] - offsets[begins] < LEAST_CROP).sum()),
        "sentences_cut": int((offsets[rows + 1] - offsets[rows] > settings.max_words).sum()),
    }
    if settings.shares["title"]:  # else nobody has read the titles
        titled = (
            np.zeros(len(begins), np.bool_) if text.titles is None else np.diff(text.titles.offsets)[chosen][filled] > 0
        )
        counts["documents_without_title"] = int((~titled).sum())
    if given is not None:
        counts["file_pairs"] = len(given.usable)
        counts["file_pairs_left_out"] = len(given.texts) // 2 - len(given.usable)
    return counts


def _notes(counts: dict[str, int], settings: ContrastSettings) -> list[str]:
    """What cannot be had of these documents, and what is taken instead, where half of them or more are concerned."""
    instead = {
        "title": ("documents_without_title", "have no title", "two spans of their text"),
        "neighbour": (
            "documents_of_one_sentence",
            "are a single sentence",
            "their sentence twice, other words left out",
        ),
        "crop": (
            "documents_too_short_to_crop",
            f"are shorter than {LEAST_CROP} words",
            "a sentence twice, other words left out",
        ),
    }
    return [
        f"{counts[name]:,} of {counts['documents']:,} documents {fault}: pairs are made of {stand_in} instead"
        for kind, (name, fault, stand_in) in instead.items()
        if settings.shares[kind] > 0 and 2 * counts[name] >= counts["documents"]  # type: ignore[index]
    ]


def _few_negatives(document_N: npt.NDArray[np.int32]) -> list[str]:
    """What the user should know where most sentences are of the same document, and so no negatives of each other.

    Raises:
        InputError: all are: every loss would be 0.
    """
    share_D = np.unique(document_N, return_counts=True)[1] / len(document_N)
    if len(share_D) == 1:
        raise InputError(
            "all sentences are of one document, and those of one document are no negatives of each other",
            hint="give --false-negatives keep, or cut the text into documents with wordpipe ingest --documents",
        )
    left_out = float(np.square(share_D).sum())
    if left_out <= _MOST_LEFT_OUT:
        return []
    return [
        f"{left_out:.0%} of the negatives are left out: they are of the same document as the text itself. Cut the text into "
        "more documents (wordpipe ingest --documents), or give --false-negatives keep"
    ]
