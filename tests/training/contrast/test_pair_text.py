"""Rows of tokens as flat files: what is kept, what is left out and counted."""

from pathlib import Path

import numpy as np
import pytest

from tests.training.contrast.pair_texts import made_text, random_documents, title_batches, token_batches
from wordpipe.errors import ArtifactError, InputError
from wordpipe.training.contrastive import rows_of, write_pair_text


@pytest.mark.parametrize("rows_per_batch", [1, 7, 1000])
def test_documents_come_back_whatever_the_batches(tmp_path: Path, rows_per_batch: int) -> None:
    documents = random_documents()
    text = write_pair_text(token_batches(documents, rows_per_batch), tmp_path, vocab_size=50)
    rows = np.split(text.rows.ids, text.rows.offsets[1:-1])
    for number, (_, split, sentences) in enumerate(documents):
        mine = rows[text.documents[number] : text.documents[number + 1]]
        assert [row.tolist() for row in mine] == sentences
        assert text.splits[number] == ["train", "valid"].index(split)
    train = [word for _, split, sentences in documents if split == "train" for ids in sentences for word in ids]
    assert (text.counts == np.bincount(train, minlength=50)).all()
    assert text.ledger == {"rows": len(rows), "ids_left_out": 0, "rows_without_ids": 0}


def test_rare_ids_are_left_out_and_counted(tmp_path: Path) -> None:
    documents = [("a", "train", [[1, 60, 2], [70]]), ("b", "train", [[70], [3]]), ("c", "train", [[90]])]
    text = write_pair_text(token_batches(documents), tmp_path, vocab_size=50)
    assert [row.tolist() for row in np.split(text.rows.ids, text.rows.offsets[1:-1])] == [[1, 2], [3]]
    assert text.documents.tolist() == [0, 1, 2, 2]
    assert text.ledger == {"rows": 2, "ids_left_out": 4, "rows_without_ids": 3}
    assert rows_of(text.documents, np.array([False, True, True])).tolist() == [1]


def test_the_same_text_twice_is_two_documents(tmp_path: Path) -> None:
    text = made_text(tmp_path, [("a", "train", [[1], [2]]), ("a", "train", [[1], [2]])])
    assert text.documents.tolist() == [0, 2, 4]


def test_titles_follow_their_documents(tmp_path: Path) -> None:
    documents = random_documents(10)
    text = made_text(tmp_path, documents, titles=True)
    assert text.titles is not None
    assert np.diff(text.titles.offsets).tolist() == [0, 2] * 5


def test_titles_of_other_documents_are_refused(tmp_path: Path) -> None:
    documents = random_documents(4)
    for titles in ([("d0", [1])], [(f"e{i}", [1]) for i in range(4)], [(f"d{i}", [1]) for i in range(5)]):
        with pytest.raises(ArtifactError, match="other documents"):
            write_pair_text(token_batches(documents), tmp_path, vocab_size=50, titles=title_batches(titles))


def test_no_known_word_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="known word"):
        made_text(tmp_path, [("a", "train", [[60], []])])
