"""The vectors of an index in the making, and the keys that its rows are found again by."""

import numpy as np
import pytest

import wordpipe
from tests.support.forged import forge_file, saved
from tests.support.word_artifacts import notes_of, texts, words
from wordpipe.artifacts import Artifact
from wordpipe.errors import ArtifactError
from wordpipe.stages import IndexVectors, bundled_keys
from wordpipe.stages.search import previous_index


@pytest.mark.parametrize("keys_first", [True, False])
def test_vectors_and_keys_are_the_same_in_whatever_order_they_are_asked_for(keys_first, tmp_path):
    rows = texts(60, 1)
    with Artifact(words(tmp_path / "s", rows)) as source:
        table = IndexVectors(source)
        keys = [table.keys()] if keys_first else []
        for _ in range(3):
            np.testing.assert_array_equal(np.concatenate(list(table.blocks())), np.array(list(rows.values())))
            keys.append(table.keys())
        assert (table.count, table.dim) == (60, 16)
        assert len(np.unique(keys[0])) == 60
        assert all((other == keys[0]).all() for other in keys)


def test_an_update_reads_the_texts_once(tmp_path, monkeypatch):
    rows = texts(1_100, 1)
    source, output = words(tmp_path / "s", rows), tmp_path / "i"
    wordpipe.index(source, output=output, type="ivf-pq", threads=1)
    reads: list[list[str]] = []
    monkeypatch.setattr(
        previous_index,
        "read_vectors",
        lambda *given, read=previous_index.read_vectors: reads.append(given[2:]) or read(*given),
    )
    notes_of(source, output=output, type="ivf-pq", threads=1, update=True)
    assert reads[0] == (["word"],)
    assert set(reads[1:]) == {()}


def test_an_index_carries_the_keys_of_its_rows(tmp_path):
    source = words(tmp_path / "s", texts(40, 1))
    wordpipe.index(source, output=tmp_path / "i")
    with Artifact(tmp_path / "i") as index, Artifact(source) as table:
        np.testing.assert_array_equal(bundled_keys(index), IndexVectors(table).keys())
        keys = index.read_array("row_keys.npy")
    forge_file(tmp_path / "i", "row_keys.npy", saved(keys[:-1]))
    with Artifact(tmp_path / "i") as index, pytest.raises(ArtifactError, match="do not match the index"):
        bundled_keys(index)
