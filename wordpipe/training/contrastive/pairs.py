"""Pairs of texts, as a pure function of (seed, step), and the text on disk that they are cut from.

Every sentence is the beginning of one pair in each pass over the text, in a new order each time; there is no iterator whose
state would have to be saved. On the disk are ids of all rows one after the other, and where they begin:

    rows.i32, rows.i64       ids of all rows, and where each row begins (R + 1)
    titles.i32, titles.i64   ids of all titles, and where each document's begins (N + 1), where there are titles

Everything is read through memory maps; what is kept in memory is a split and a first row per document.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import DocumentStarts
from wordpipe.compiled import read_only
from wordpipe.errors import ArtifactError, InputError
from wordpipe.model import seed_of
from wordpipe.tokens import offsets_of
from wordpipe.training.contrastive.pair_kernels import LEAST_CROP, copy_pieces, hash_texts, plan_pairs
from wordpipe.training.contrastive.settings import KINDS, ContrastiveSettings, PairKind
from wordpipe.training.sequences import shuffled

SPLITS = ("train", "valid", "test")

Int64s = npt.NDArray[np.int64]
_MOST_LEFT_OUT = 0.5  # of the negatives


@dataclass(frozen=True, slots=True)
class Ragged:
    """B texts, one after the other.

    Attributes:
        ids: (S,) int32; tokens without special ones, or rows of a table of words.
        lengths: (B,) int64, how many of them are each text's; none is empty, and they sum to S.
    """

    ids: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]

    def hashes(self) -> npt.NDArray[np.int64]:
        """A number for each text, (B,): the same for the same ids in the same order."""
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


@dataclass(frozen=True, slots=True)
class RaggedFile:
    """Texts as ids, memory-mapped.

    Attributes:
        ids: (S,) int32.
        offsets: (R + 1,) int64, where in `ids` each text begins and the last ends.
    """

    ids: npt.NDArray[np.int32]
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class PairText:
    """Documents as rows of ids.

    Attributes:
        rows: the R rows (sentences) that have any id.
        documents: (N + 1,) int64, the first row of each document; one without rows ends where it begins.
        splits: (N,) int8, a place in `SPLITS`.
        titles: N titles, an empty one where a document has none; None where nobody gave any.
        counts: (V,) int64, how often each id occurs in the rows of train.
        ledger: what became of what was read: rows kept, rows without any id, ids outside the vocabulary.
    """

    rows: RaggedFile
    documents: Int64s
    splits: npt.NDArray[np.int8]
    titles: RaggedFile | None
    counts: Int64s
    ledger: dict[str, int]


def write_pair_text(
    batches: Iterable[pa.RecordBatch], folder: Path, *, vocab_size: int, column: Literal["ids", "word_ids"] = "ids",
    titles: Iterable[pa.RecordBatch] | None = None,
) -> PairText:  # fmt: skip
    """Write rows of tokens to `folder`, in one pass.

    Args:
        batches: rows of the `tokens` schema, in order.
        folder: empty; stays as long as the text is used.
        vocab_size: ids from this on are left out, and counted.
        column: the subword ids, or the numbers of words.
        titles: columns doc_id and ids: one row for each document, in their order.

    Raises:
        InputError: no row has an id.
        ArtifactError: the titles are those of other documents.
    """
    starts, ledger, counts = DocumentStarts(), Counter[str](), np.zeros(vocab_size, np.int64)
    names: list[pa.Array] = []
    begins: list[int] = []
    splits: list[int] = []

    def lists() -> Iterator[pa.Array]:
        """Lists of ids; rows without any leave no trace but a count."""
        for batch in batches:
            if batch.num_rows == 0:
                continue
            opens = np.flatnonzero(starts.of(batch))
            split_N = pc.index_in(batch["split"], pa.array(SPLITS)).to_numpy(zero_copy_only=False).astype(np.int8)
            ids, lengths = _known(batch[column], vocab_size)
            ledger["ids_left_out"] += len(batch[column].flatten()) - len(ids)
            ledger["rows_without_ids"] += int((lengths == 0).sum())
            kept_before = offsets_of(lengths > 0)
            names.append(batch["doc_id"].take(pa.array(opens)))
            begins.extend((kept_before[opens] + ledger["rows"]).tolist())
            splits.extend(split_N[opens].tolist())
            counts[:] += np.bincount(ids[np.repeat(split_N == 0, lengths)], minlength=vocab_size)
            ledger["rows"] += int(kept_before[-1])
            yield pa.LargeListArray.from_arrays(offsets_of(lengths[lengths > 0]), ids)

    rows = write_ragged(lists(), folder / "rows", vocab_size=vocab_size)
    if not len(rows):
        raise InputError("no sentence has a known word", hint="give more text, or lower --min-count")
    found = None
    if titles is not None:
        checked = _checked_titles(titles, pa.chunked_array(names, pa.string()))
        found = write_ragged(checked, folder / "titles", vocab_size=vocab_size)
    return PairText(
        rows=rows, documents=np.array([*begins, len(rows)], np.int64), splits=np.array(splits, np.int8), titles=found,
        counts=counts, ledger=dict(ledger),
    )  # fmt: skip


def write_ragged(batches: Iterable[pa.Array], stem: Path, *, vocab_size: int) -> RaggedFile:
    """Write lists of ids to STEM.i32 and STEM.i64; ids outside the vocabulary are left out, empty lists stay."""
    ids_path, offsets_path = stem.with_suffix(".i32"), stem.with_suffix(".i64")
    total = 0
    with ids_path.open("wb") as ids_file, offsets_path.open("wb") as offsets_file:
        offsets_file.write(np.zeros(1, "<i8").data)
        for lists in batches:
            ids, lengths = _known(lists, vocab_size)
            ids_file.write(ids.data)
            offsets_file.write((np.cumsum(lengths) + total).astype("<i8").data)
            total += len(ids)
    return RaggedFile(_mapped(ids_path, "<i4"), _mapped(offsets_path, "<i8"))


def _known(lists: pa.Array, vocab_size: int) -> tuple[npt.NDArray[np.int32], Int64s]:
    """The ids of lists that are below `vocab_size`, and how many each list has of them."""
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    ids = lists.flatten().to_numpy(zero_copy_only=False)
    known = ids < vocab_size
    if not known.all():
        before = offsets_of(known)
        lengths = np.diff(before[offsets_of(lengths)])
        ids = ids[known]
    return ids.astype("<i4"), lengths


def _checked_titles(titles: Iterable[pa.RecordBatch], names: pa.ChunkedArray) -> Iterable[pa.Array]:
    done = 0
    for batch in titles:
        here = names.slice(done, batch.num_rows)
        if not pa.chunked_array([batch["doc_id"]], pa.string()).equals(here):
            break
        done += batch.num_rows
        yield batch["ids"]
    if done != len(names):
        raise ArtifactError(
            "the titles are those of other documents", got=f"{done} of {len(names)} documents in the same order",
            hint="tokenize the corpus again",
        )  # fmt: skip


def _mapped(path: Path, dtype: str) -> npt.NDArray[Any]:
    size = path.stat().st_size // np.dtype(dtype).itemsize
    if size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r", shape=(size,)).view(np.ndarray)


def rows_of(documents: Int64s, chosen: npt.NDArray[np.bool_]) -> Int64s:
    """The rows of some documents, in order."""
    return np.flatnonzero(np.repeat(chosen, np.diff(documents)))


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
            got = f"{len(texts) // 2} pairs"
            raise InputError("no pair of the file has known words on both sides", where="pairs", got=got)
        return cls(texts, np.flatnonzero(filled))


class Pairs:
    """Pairs out of a text on disk.

    Args:
        text: documents as rows of ids.
        settings: shares of the kinds, deletion rate, batch size, seed.
        split: which documents.
        given: the user's own pairs; their documents' numbers follow those of the text.
        batch_size: else the settings'; no more than there are are taken of a split that is not trained on.

    Attributes:
        n_pairs: pairs of one pass: rows of the split.
        counts: what the split has, and what it cannot give: sentences, documents, documents_of_one_sentence,
            documents_too_short_to_crop, documents_without_title, sentences_cut, file_pairs, file_pairs_left_out.
        notes: fall-backs that the user should know.

    Raises:
        InputError: the split has no sentence; or all are of one document, so that none is a negative of another.
    """

    def __init__(
        self, text: PairText, settings: ContrastiveSettings, *, split: str = "train", given: FilePairs | None = None,
        batch_size: int | None = None,
    ) -> None:  # fmt: skip
        chosen = text.splits == SPLITS.index(split)
        self._rows = rows_of(text.documents, chosen)
        if not len(self._rows):
            raise InputError("no sentence to make pairs of", where=split, hint="give more text, or another split of it")
        self._text, self._settings, self._given = text, settings, given
        self._document_of_row = np.repeat(np.arange(len(chosen), dtype=np.int32), np.diff(text.documents))
        self._batch_size = min(batch_size, len(self._rows)) if batch_size else settings.pairs_per_step
        self._seed = seed_of(settings.seed, "pairs", split)
        self.n_pairs = len(self._rows)
        self.counts = _counts(text, chosen, self._rows, given, settings)
        self.notes = _notes(self.counts, settings)
        if split == "train" and given is None and settings.false_negatives == "drop":
            self.notes += _few_negatives(self._document_of_row[self._rows])

    def batch(self, step: int) -> PairBatch:
        """The pairs of a step, counted from 0."""
        numbers = np.arange(step * self._batch_size, (step + 1) * self._batch_size, dtype=np.int64)
        rows = self._rows[shuffled(numbers, self.n_pairs, self._seed, "order")]
        pieces = np.empty((2, len(rows), 3), np.int64)
        kinds, nothing = np.empty(len(rows), np.int8), RaggedFile(np.zeros(0, np.int32), np.zeros(0, np.int64))
        text, titles = self._text, self._text.titles or nothing
        file_numbers, texts = np.zeros(len(rows), np.int64), nothing
        if self._given is not None:
            usable, texts = self._given.usable, self._given.texts
            file_numbers = usable[shuffled(numbers, len(usable), self._seed, "file")]
        plan_pairs(
            rows, numbers, np.uint64(self._seed), self._bounds(), read_only(text.rows.offsets), self._document_of_row,
            text.documents, read_only(titles.offsets), read_only(texts.offsets), file_numbers, self._settings.max_words,
            pieces, kinds,
        )  # fmt: skip
        sides = []
        for side in range(2):
            ids = np.empty(int((pieces[side, :, 2] - pieces[side, :, 1]).sum()), np.int32)
            lengths = np.empty(len(kinds), np.int64)
            written = copy_pieces(
                pieces[side], kinds, numbers, np.uint64(seed_of(self._seed, "deletion", side)),
                self._settings.deletion_rate, read_only(text.rows.ids), read_only(titles.ids), read_only(texts.ids), ids,
                lengths,
            )  # fmt: skip
            sides.append(Ragged(ids[:written], lengths))
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


def _counts(
    text: PairText, chosen: npt.NDArray[np.bool_], rows: Int64s, given: FilePairs | None, settings: ContrastiveSettings
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
        titled = 0 if text.titles is None else int((np.diff(text.titles.offsets)[chosen][filled] > 0).sum())
        counts["documents_without_title"] = len(begins) - titled
    if given is not None:
        counts["file_pairs"] = len(given.usable)
        counts["file_pairs_left_out"] = len(given.texts) // 2 - len(given.usable)
    return counts


def _notes(counts: dict[str, int], settings: ContrastiveSettings) -> list[str]:
    """What cannot be had of these documents, and what is taken instead, where half of them or more are concerned."""
    deleted = "twice, other words left out"
    instead: tuple[tuple[PairKind, str, str, str], ...] = (
        ("title", "documents_without_title", "have no title", "two spans of their text"),
        ("neighbour", "documents_of_one_sentence", "are a single sentence", f"their sentence {deleted}"),
        ("crop", "documents_too_short_to_crop", f"are shorter than {LEAST_CROP} words", f"a sentence {deleted}"),
    )
    return [
        f"{counts[name]:,} of {counts['documents']:,} documents {fault}: pairs are made of {stand_in} instead"
        for kind, name, fault, stand_in in instead
        if settings.shares[kind] > 0 and 2 * counts[name] >= counts["documents"]
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


def held_out_pairs(settings: ContrastiveSettings, text: PairText) -> Pairs | None:
    """Neighbouring sentences of held-out documents, whatever is trained on, so that runs compare; None: there are too few.

    Sentences of one document are no negatives of each other, so that a single document would ask nothing at all. A sentence
    and itself, as in dropout pairs, would be known again by any encoder.
    """
    if (np.diff(text.documents)[text.splits == 1] > 0).sum() < 4:  # documents
        return None
    neighbours = settings.model_copy(
        update=dict.fromkeys(("pair_dropout", "pair_crop", "pair_title", "pair_deletion", "pair_file", "pairs"))
        | {"pair_neighbour": 1.0}
    )
    found = Pairs(text, neighbours, split="valid", batch_size=settings.valid_pairs)
    return found if found.n_pairs > 1 else None
