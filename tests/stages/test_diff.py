from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.turned_tables import clustered, random_rotation
from wordpipe import RunOptions, diff
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
    found = diff(*pair, words=100, min_count=800)
    assert (found["compared"], found["left_out_rare"], found["left_out_beyond"]) == (100, 99, 101)
    assert (found["only_in_a"], found["new"]) == (0, [])


def test_a_table_and_itself(pair: tuple[Path, Path]) -> None:
    found = diff(pair[0], pair[0])
    assert found["words"] == found["new"] == found["gone"] == []
    assert found["alignment_cosine"] == pytest.approx(1)
    assert found["neighbours_kept"] == 1


def test_just_some_words(pair: tuple[Path, Path]) -> None:
    found = diff(*pair, only=["WORD7", "word250", "word40", "x", "q", "wurd7", "z"], words=20, min_count=900)
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


def test_other_dimensions_are_compared_by_neighbours(pair: tuple[Path, Path], tmp_path: Path) -> None:
    vectors = np.concatenate([clustered(N, DIM, 6), np.zeros((N, 2))], axis=1)
    vectors[[40, 91]] = vectors[[91, 40]]
    found = diff(pair[0], write(tmp_path / "c", names(), np.arange(1000, 1000 - N, -1), vectors), n=2)
    assert found["alignment_cosine"] is None
    assert {one["word"] for one in found["words"]} == {"word40", "word91"}
    assert all(one["moved"] is None for one in found["words"])


def test_words_without_a_direction_are_left_out_and_counted(pair: tuple[Path, Path], tmp_path: Path) -> None:
    vectors = clustered(N, DIM, 6)
    vectors[[3, 5]] = 0
    c = write(tmp_path / "c", names(), np.arange(1000, 1000 - N, -1), vectors)
    found = diff(pair[0], c, only=["word3", "word4"])
    assert (found["compared"], found["left_out_zero"]) == (N - 2, 2)
    assert [one["word"] for one in found["words"]] == ["word4"]
    assert found["unknown"] == {"word3": {"only_in": None, "near": []}}


def test_few_words_have_few_neighbours(tmp_path: Path) -> None:
    a = write(tmp_path / "a", ["x", "y", "z"], [3, 2, 1], np.eye(3))
    found = diff(a, a, only="xyz")
    assert [len(one["neighbours_a"]) for one in found["words"]] == [2, 2, 2]


def test_what_cannot_be_compared_is_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    tokens = write(tmp_path / "tokens", names(), np.ones(N), clustered(N, DIM, 6), unit="token")
    with pytest.raises(ArtifactError, match="vectors of tokens") as refused:
        diff(pair[0], tokens)
    assert refused.value.hint == "train both with --unit word"
    other = write(tmp_path / "other", ["één", "twee", "word3"], [3, 2, 1], np.eye(3))
    with pytest.raises(InputError, match="1 of 1 shared"):
        diff(pair[0], other)
    with pytest.raises(InputError, match="0 of 300 shared"):
        diff(*pair, min_count=10_000)
    with pytest.raises(ConfigError, match="words: too small; got 1; expected 2 or more"):
        diff(*pair, words=1)
    with pytest.raises(ConfigError, match="k: too small"):
        diff(*pair, k=0)


def test_another_case_is_reported(pair: tuple[Path, Path], tmp_path: Path) -> None:
    notes: list[str | None] = []
    cased = write(tmp_path / "cased", names(), np.ones(N), clustered(N, DIM, 6), keep_case=True)
    diff(pair[0], cased, run=RunOptions(report=lambda progress: notes.append(progress.note)))
    assert [note for note in notes if note] == [
        f"only {cased} keeps capitals: its words that have them are not in the other table"
    ]
