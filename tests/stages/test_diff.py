from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.turned_tables import clustered, random_rotation
from wordpipe import diff
from wordpipe.artifacts import words_schema
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.settings import Settings
from wordpipe.stages import open_job
from wordpipe.words import WordVectors

N, DIM = 300, 12


def write(path: Path, words: list[str], counts: Any, vectors: np.ndarray, **facts: Any) -> Path:
    """A words artifact, the commonest word first."""
    counts = np.asarray(counts, dtype=np.int64)
    order = np.argsort(-counts, kind="stable")
    table = WordVectors([words[row] for row in order], counts[order], vectors[order].astype(np.float32))
    with open_job("words", path, Settings(), None) as job:
        with job.table("words", words_schema(table.dim)) as writer:
            for batch in table.to_batches():
                writer.write(batch)
        job.facts |= {"dim": table.dim, "unit": "word", "keep_case": False, **facts}
    return path


def names(n: int = N) -> list[str]:
    return [f"word{row}" for row in range(n)]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two tables of 300 words; words 40 and 41 changed places, and each table has words of its own."""
    rng = np.random.default_rng(5)
    vectors = clustered(N, DIM, 6)
    later = (vectors + 0.02 * rng.standard_normal((N, DIM))) @ random_rotation(DIM, 7)
    later[[40, 91]] = later[[91, 40]]
    own = rng.standard_normal((3, DIM))
    counts = np.arange(1000, 1000 - N, -1)
    a = write(tmp_path / "a", [*names(), "x", "y", "Z"], [*counts, 7, 9, 5], np.concatenate([vectors, own]))
    b = write(tmp_path / "b", [*names(), "p", "q", "r"], [*counts + 3, 1, 70, 8], np.concatenate([later, own]))
    return a, b


def test_what_changed_places_comes_first(pair: tuple[Path, Path]) -> None:
    found = diff(*pair, n=2, k=5)
    assert {one["word"] for one in found["words"]} == {"word40", "word91"}
    first = next(one for one in found["words"] if one["word"] == "word40")
    assert (first["count_a"], first["count_b"]) == (960, 963)
    assert first["kept"] < 0.5
    assert first["moved"] > 0.1
    assert len(first["neighbours_a"]) == len(first["neighbours_b"]) == 5
    assert {int(near[4:]) // 10 for near in first["neighbours_a"]} == {4}
    assert {int(near[4:]) // 10 for near in first["neighbours_b"]} <= {9, 4}
    assert found["alignment_cosine"] > 0.9
    assert found["neighbours_kept"] > 0.8


def test_every_word_is_accounted_for(pair: tuple[Path, Path]) -> None:
    found = diff(*pair, n=2)
    assert (found["compared"], found["shared"], found["only_in_a"], found["only_in_b"]) == (N, N, 3, 3)
    assert found["gone"] == [{"word": "y", "count": 9}, {"word": "x", "count": 7}]
    assert found["new"] == [{"word": "q", "count": 70}, {"word": "r", "count": 8}]
    assert (diff(*pair, words=100)["compared"], diff(*pair, words=100)["shared"]) == (100, N)


def test_a_table_and_itself(pair: tuple[Path, Path]) -> None:
    found = diff(pair[0], pair[0])
    assert found["words"] == found["new"] == found["gone"] == []
    assert found["alignment_cosine"] == pytest.approx(1)
    assert found["neighbours_kept"] == 1


def test_just_some_words(pair: tuple[Path, Path]) -> None:
    found = diff(*pair, only=["word7", "word250", "word40", "x", "q", "wurd7", "z"], words=20)
    assert found["compared"] == 22  # 40 and 250 are not among the first 20
    assert found["words"][0]["word"] == "word40"
    assert {one["word"] for one in found["words"]} == {"word7", "word250", "word40"}
    assert {word: about["only_in"] for word, about in found["unknown"].items()} == {
        "x": "a",
        "q": "b",
        "wurd7": None,
        "z": None,
    }
    assert "word7" in found["unknown"]["wurd7"]["near"]


def test_words_without_a_direction_are_left_out(pair: tuple[Path, Path], tmp_path: Path) -> None:
    vectors = clustered(N, DIM, 6)
    vectors[[3, 5]] = 0
    c = write(tmp_path / "c", names(), np.arange(1000, 1000 - N, -1), vectors)
    found = diff(pair[0], c, only=["word3", "word4"])
    assert (found["compared"], found["shared"]) == (N - 2, N)
    assert [one["word"] for one in found["words"]] == ["word4"]
    assert found["unknown"] == {"word3": {"only_in": None, "near": []}}


def test_few_words_have_few_neighbours(tmp_path: Path) -> None:
    a = write(tmp_path / "a", ["x", "y", "z"], [3, 2, 1], np.eye(3))
    found = diff(a, a, only="xyz")
    assert [len(one["neighbours_a"]) for one in found["words"]] == [2, 2, 2]


def test_what_cannot_be_compared_is_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    tokens = write(tmp_path / "tokens", names(), np.ones(N), clustered(N, DIM, 6), unit="token")
    with pytest.raises(ArtifactError, match="differ in unit; got token") as refused:
        diff(pair[0], tokens)
    assert refused.value.hint == "train both tables with --unit word"
    narrow = write(tmp_path / "narrow", names(), np.ones(N), clustered(N, 5, 6))
    with pytest.raises(ArtifactError, match="differ in dim; got 5; expected 12"):
        diff(pair[0], narrow)
    other = write(tmp_path / "other", ["één", "twee", "word3"], [3, 2, 1], np.eye(3, DIM))
    with pytest.raises(InputError, match="1 of 1 shared"):
        diff(pair[0], other)
    with pytest.raises(ConfigError, match="words: out of bounds; got 1; expected 2 to"):
        diff(*pair, words=1)
    with pytest.raises(ConfigError, match="k: out of bounds"):
        diff(*pair, k=0)
