from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.words.texts import Doc, batches, documents
from wordpipe.errors import InputError
from wordpipe.words import Vocabulary, count_ids


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
    with pytest.raises(InputError, match="a number that their list of words has not"):
        count_ids(batches([[[1, 12]]]), 12)


def test_all_words_too_rare_says_how_rare() -> None:
    with pytest.raises(InputError, match=r"0 of 3 words.*got 50; expected at most 7"):
        Vocabulary.keep(np.array([7, 0, 1, 2]), 50)
