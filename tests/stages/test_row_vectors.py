"""The vectors of the rows that a condition allows: at length 1, read once, and no more than is needed."""

import numpy as np
import pytest

import wordpipe
from tests.support.word_artifacts import texts, words
from wordpipe.artifacts import Artifact, tables
from wordpipe.errors import ArtifactError
from wordpipe.stages import RowVectors
from wordpipe.stages.search import row_vectors


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An IVF index over words whose vectors have lengths from 1 to 50, in many row groups; and these vectors."""
    root = tmp_path_factory.mktemp("rows")
    lengths = np.random.default_rng(3).uniform(1, 50, 1_200).astype(np.float32)
    rows = {word: vector * length for (word, vector), length in zip(texts(1_200, 1).items(), lengths, strict=True)}
    rows = {word.replace(" ", "_"): vector for word, vector in rows.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROW_GROUP_BYTES", 10_000)
        wordpipe.index(words(root / "words", rows), output=root / "index", type="ivf-pq", threads=1)
    return root / "index", np.array([*rows.values()])


@pytest.mark.parametrize("some", [[0], [1_199], [5, 6, 700], [*range(0, 1_200, 7)]])
def test_the_vectors_are_those_of_the_table_at_length_one(made, some):
    path, vectors = made
    with Artifact(path) as index:
        found = RowVectors(index, "index")(np.array(some))
    expected = vectors[some] / np.linalg.norm(vectors[some], axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_only_the_row_groups_of_the_rows_are_read_and_these_once(made, monkeypatch):
    read: list[int] = []

    def counting(artifact, name):
        part = tables.open_part(artifact, name)
        group = part.read_row_group
        monkeypatch.setattr(part, "read_row_group", lambda number, **how: read.append(number) or group(number, **how))
        return part

    monkeypatch.setattr(row_vectors, "open_part", counting)
    with Artifact(made[0]) as index:
        vectors_of = RowVectors(index, "index")
        first = vectors_of(np.array([3, 1_190]))
        assert len(read) == 2
        vectors_of(np.array([4]))
        assert vectors_of(np.array([3, 1_190])) is first
        assert len(read) == 3


def test_words_under_a_condition_are_those_of_brute_force(made):
    path, vectors = made
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    with wordpipe.open(path) as index:
        asked = index.table.words[30]
        allowed = [row for row, word in enumerate(index.table.words) if word < "k" and row != 30]
        scores = units[allowed] @ units[30]
        best = np.argsort(-scores)[:12]
        found = index.query(asked, 12, where="word < 'k'")
    assert [hit["id"] for hit in found] == [allowed[at] for at in best]
    np.testing.assert_allclose([hit["score"] for hit in found], scores[best], atol=1e-5)


def test_a_damaged_table_is_named(made, monkeypatch):
    def broken(*_):
        raise OSError("bad page")

    monkeypatch.setattr(row_vectors, "matrix_of", broken)
    with Artifact(made[0]) as index, pytest.raises(ArtifactError, match="damaged Parquet"):
        RowVectors(index, "index")(np.array([1]))
