"""The table of word vectors: the list of its words, neighbours, queries, batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wordpipe.artifacts import words_schema
from wordpipe.errors import ConfigError, InputError
from wordpipe.words import WordList, WordVectors, vectors

texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=6)


@pytest.mark.parametrize("scans", [0, 5, 1_000])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some=st.lists(texts, unique=True, max_size=30), others=st.lists(texts, max_size=10))
def test_it_behaves_as_the_list_of_its_words(
    monkeypatch: pytest.MonkeyPatch, scans: int, some: list[str], others: list[str]
) -> None:
    monkeypatch.setattr(vectors, "_SCANS", scans)  # of which words are found without hashes
    for words in (WordList(some), WordList(pa.array(some, pa.string())), WordList(WordList(some))):
        assert list(words) == some
        assert len(words) == len(some)
        assert [words[np.int64(row)] for row in range(-len(some), len(some))] == some * 2
        assert [words.row_of(word) for word in some] == list(range(len(some)))
        asked = some + others
        assert words.rows_of(asked).tolist() == [some.index(word) if word in some else -1 for word in asked]
        assert [word in words for word in asked] == [word in some for word in asked]
        assert [*reversed(words)] == some[::-1]
        part = words[1:7:2]
        assert isinstance(part, WordList)
        assert list(part) == some[1:7:2]
        assert [part.row_of(word) for word in some[1:7:2]] == list(range(len(part)))


def test_what_is_no_word_of_it() -> None:
    words = WordList(["a", "b"])
    assert [words.row_of("\ud800") for _ in range(20)] == [None] * 20
    assert words.rows_of(["\ud800", "b"]).tolist() == [-1, 1]
    assert 7 not in words
    assert words.index("b") == 1
    with pytest.raises(IndexError):
        words[2]
    with pytest.raises(AssertionError, match="must be strings"):
        WordList(["\ud800"])


def test_many_words_are_iterated_and_found() -> None:
    words = [f"{number:x}" for number in range(50_000)]
    table = WordList(words)
    assert list(table) == words
    np.testing.assert_array_equal(table.rows_of(words[::-1]), np.arange(50_000)[::-1])


def table(size: int, seed: int, dim: int = 8, words: Sequence[str] | None = None) -> WordVectors:
    rng = np.random.default_rng(seed)
    vectors_VD = rng.standard_normal((size, dim)).astype(np.float32) * rng.uniform(0.1, 5, (size, 1)).astype(np.float32)
    names = words or [f"w{i}" for i in range(size)]
    return WordVectors(names, np.arange(size, 0, -1, dtype=np.int64), vectors_VD)


def as_gensim(words: WordVectors) -> Any:
    models = pytest.importorskip("gensim.models")

    vectors = models.KeyedVectors(words.dim)
    vectors.add_vectors(list(words.words), words.vectors)
    return vectors


@pytest.mark.landing
@settings(deadline=None)
@given(seed=st.integers(0, 10_000), data=st.data())
def test_neighbours_are_those_of_gensim(seed: int, data: st.DataObject) -> None:
    words = table(40, seed)
    asked = data.draw(st.lists(st.integers(0, 39), min_size=1, max_size=4, unique=True))
    cut = data.draw(st.integers(1, len(asked)))
    positive, negative = [f"w{i}" for i in asked[:cut]], [f"w{i}" for i in asked[cut:]]
    expected = as_gensim(words).most_similar(positive=positive, negative=negative, topn=7)
    found = words.neighbours(positive, negative, k=7)
    np.testing.assert_allclose([n.score for n in found], [score for _, score in expected], atol=1e-5)
    theirs = dict(as_gensim(words).most_similar(positive=positive, negative=negative, topn=40))
    # cosines of eight dimensions in single precision, rounded here and there: those nearer than that may change places
    assert [theirs[n.word] for n in found] == pytest.approx([score for _, score in expected], abs=8 * 2**-22)
    assert [words.words[n.row] for n in found] == [n.word for n in found]


def test_ties_come_in_the_order_of_rows_and_k_is_cut_to_what_there_is() -> None:
    words = WordVectors(list("abcdef"), np.ones(6, np.int64), np.ones((6, 3), np.float32))
    assert [n.word for n in words.neighbours(["c"], k=3)] == ["a", "b", "d"]
    assert [n.word for n in words.neighbours(["c"], k=99)] == ["a", "b", "d", "e", "f"]
    assert words.neighbours(["c"], k=0) == []


def test_vectors_without_a_direction_are_never_an_answer() -> None:
    words = table(5, 1)
    words.vectors[1], words.vectors[2, 0] = 0, np.nan
    found = words.neighbours(["w0"], k=10)
    assert {n.word for n in found} == {"w3", "w4"}
    assert all(-1 <= n.score <= 1 for n in found)
    assert words.neighbours(["w1"], k=3) == []
    assert words.neighbours(["w0"], ["w0"], k=3) == []


def test_unknown_words_are_named_with_suggestions() -> None:
    words = table(4, 2, words=["king", "queen", "man", "woman"])
    questions = [words.understand(text) for text in ("kingg queen", "kingg - man", "zzzz", "KING - man + woman")]
    found = words.nearest(questions)
    assert questions[0].unknown == {"kingg": ["king"]}
    assert "queen" not in [n.word for n in found[0]]
    assert len(found[0]) == 3
    assert found[1] == []
    assert questions[2].unknown == {"zzzz": []}
    assert found[3][0].word == "queen"
    with pytest.raises(InputError, match="'kingg' has no vector") as error:
        words.neighbours(["kingg"])
    assert error.value.hint == "did you mean king?"
    with pytest.raises(ConfigError):
        words.understand("king -")


def test_a_question_is_the_direction_to_look_in() -> None:
    words = table(6, 4)
    question = words.understand("w1 - w2 + w5")
    assert question.rows.tolist() == [1, 5, 2]
    (near,) = words.nearest([question], 3)
    assert near == words.neighbours(["w1", "w5"], ["w2"], 3)
    nothing = words.understand("w1 - zzzz")
    assert not nothing.query.any()
    assert [*nothing.unknown] == ["zzzz"]


def test_an_exact_word_comes_before_its_lower_case() -> None:
    words = table(3, 3, words=["Polish", "polish", "us"])
    assert [words.find(w) for w in ("Polish", "polish", "US", "POLISH", "none")] == [0, 1, 2, 1, None]
    assert [words.find(w) for w in ("Pol\u00adish", "u\u200bs", "\ufeffpolish", "u s")] == [1, 2, 1, None]


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 12))
def test_batches_have_the_schema_and_come_back(size: int, rows: int) -> None:
    words = table(size, size)
    batches = list(words.to_batches(rows))
    assert all(batch.schema == words_schema(words.dim) for batch in batches)
    back = WordVectors.from_batches(batches)
    assert list(back.words) == list(words.words)
    np.testing.assert_array_equal(back.vectors, words.vectors)
    np.testing.assert_array_equal(back.counts, words.counts)
    last = WordVectors.from_batches([batches[0].slice(len(batches[0]) - 1)])  # a view into the middle of the buffers
    np.testing.assert_array_equal(last.vectors, words.vectors[min(rows, size) - 1 :][:1])


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        WordVectors.from_batches([])


def test_a_sign_that_sticks_to_a_known_word_is_an_operator() -> None:
    table = WordVectors(["king", "man", "woman", "-x"], np.ones(4, dtype=np.int64), np.eye(4, dtype=np.float32))
    glued, parted = table.understand("king -man +woman"), table.understand("king - man + woman")
    np.testing.assert_array_equal(glued.query, parted.query)
    assert table.understand("-x").rows.tolist() == [3]
