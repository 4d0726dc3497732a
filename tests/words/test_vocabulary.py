"""The vocabulary, and the training text: read from a tokens artifact, written to disk, read back in chunks."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.token_batches import Doc, batches, documents
from wordpipe.errors import InputError
from wordpipe.words import TrainingText, Vocabulary, Words, count_ids, kept_rows, read_words, write_text


@settings(deadline=None)
@given(documents(), st.data())
def test_counting_matches_a_counter(docs: list[Doc], data: st.DataObject) -> None:
    splits = [data.draw(st.sampled_from(["train", "valid"])) for _ in docs]
    counts = count_ids(batches(docs, splits=splits), 12)
    expected = Counter(i for doc, split in zip(docs, splits, strict=True) if split == "train" for s in doc for i in s)
    assert counts.tolist() == [expected[i] for i in range(12)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(1, 7))
def test_keep_orders_by_count_then_id(counts: list[int], min_count: int) -> None:
    kept = sorted((i for i, c in enumerate(counts) if c >= min_count), key=lambda i: (-counts[i], i))
    if not kept:
        with pytest.raises(InputError):
            Vocabulary.keep(np.array(counts), min_count)
        return
    vocabulary = Vocabulary.keep(np.array(counts), min_count)
    assert vocabulary.ids.tolist() == kept
    assert vocabulary.counts.tolist() == [counts[i] for i in kept]
    assert [int(vocabulary.row_of_id[i]) for i in kept] == list(range(len(kept)))
    assert vocabulary.tokens + vocabulary.dropped_tokens == sum(counts)
    assert len(vocabulary) + vocabulary.dropped_kinds == sum(c > 0 for c in counts)


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="an id that is not in their vocabulary"):
        count_ids(batches([[[1, 12]]]), 12)


def test_all_words_too_rare_says_how_rare() -> None:
    with pytest.raises(InputError, match=r"none of the 3 words .*got 50; expected at most 7"):
        Vocabulary.keep(np.array([7, 0, 1, 2]), 50)


def texts_of(marked: np.ndarray) -> list[list[int]]:  # type: ignore[type-arg]
    """The texts of a chunk that begins with one."""
    texts: list[list[int]] = []
    for row in marked.tolist():
        if row < 0:
            texts.append([])
        texts[-1].append(~row if row < 0 else row)
    return texts


@pytest.mark.parametrize("context", ["sentence", "document"])
@given(docs=documents(), rows=st.integers(1, 4), dropped=st.sets(st.integers(1, 11)))
def test_text_is_the_kept_words_of_each_text(
    tmp_path_factory: pytest.TempPathFactory, context: str, docs: list[Doc], rows: int, dropped: set[int]
) -> None:
    vocabulary = Vocabulary.keep(np.array([0 if i in dropped else 20 - i for i in range(12)]), 1)
    words = read_words(batches(docs, rows=rows), column="word_ids", context=context, split="train")  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("text") / "rows"
    texts = [[w for s in doc for w in s] for doc in docs] if context == "document" else [s for doc in docs for s in doc]
    kept = [[int(vocabulary.row_of_id[w]) for w in text if w not in dropped] for text in texts]
    expected = [text for text in kept if text]
    if not expected:
        with pytest.raises(InputError, match="no words"):
            write_text(kept_rows(words, vocabulary.row_of_id), path)
        return
    text = write_text(kept_rows(words, vocabulary.row_of_id), path)
    assert text == TrainingText(path, sum(map(len, expected)), len(expected))
    assert texts_of(text.read(0, text.words)) == expected


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.sets(st.integers(0, 40)),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_blocks_may_end_anywhere(
    tmp_path_factory: pytest.TempPathFactory, ids: list[int], starts: set[int], cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("text")
    firsts = sorted({start for start in starts if start <= len(ids)})
    edges = sorted({0, *(cut for cut in cuts if cut < len(ids)), len(ids)})

    def block(first: int, last: int) -> Words:
        here = [s - first for s in firsts if first <= s < last or s == last == len(ids)]
        return Words(np.array(ids[first:last], dtype=np.int32), np.array(here, dtype=np.int64))

    whole = write_text([block(0, len(ids))], folder / "whole")
    chunks = write_text([block(a, b) for a, b in pairwise(edges)], folder / "chunks")
    assert (whole.words, whole.texts) == (chunks.words, chunks.texts)
    assert whole.path.read_bytes() == chunks.path.read_bytes()


def test_a_text_may_go_on_in_the_next_block(tmp_path: Path) -> None:
    none = np.zeros(0, dtype=np.int64)
    blocks = [Words(np.array([1, 2], dtype=np.int32), np.array([0])), Words(np.array([3], dtype=np.int32), none)]
    text = write_text(blocks, tmp_path / "rows")
    assert text.texts == 1
    assert text.read(-5, 99).tolist() == [~1, 2, 3]
    assert text.read(1, 2).tolist() == [2]


def test_only_the_split_asked_for_is_read() -> None:
    docs, splits = [[[0, 1]], [[2]], [[3, 4]]], ["train", "valid", "train"]
    read = list(read_words(batches(docs, splits=splits), column="word_ids", context="document", split="valid"))
    assert [block.ids.tolist() for block in read] == [[2]]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    (tmp_path / "rows").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_text([Words(np.arange(100_000, dtype=np.int32), np.zeros(1, dtype=np.int64))], tmp_path / "rows")


@pytest.mark.slow
def test_a_text_that_was_cut_is_reported(tmp_path: Path) -> None:
    text = write_text([Words(np.arange(100, dtype=np.int32), np.zeros(1, dtype=np.int64))], tmp_path / "rows")
    with text.path.open("r+b") as file:
        file.truncate(90)
    with pytest.raises(OSError, match="too short"):
        text.read(0, 100)
