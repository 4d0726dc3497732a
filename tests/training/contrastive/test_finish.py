"""The last step of a table for similarity: which words it weighs in which kind of vocabulary, what it does, and undoes."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.pair_texts import made_text, random_documents
from wordpipe.errors import ConfigError
from wordpipe.training.contrastive import Finish, lexical_part
from wordpipe.training.contrastive.settings import StaticSettings

WEIGHTS = {"number_weight": 2.0, "punctuation_weight": 0.5, "piece_weight": 0.25, "negation_weight": 0.3}


def kinds(words: list[str], *, byte_level: bool = False) -> str:
    """One letter a word: number, mark, piece, denial, or other."""
    made = Finish.of(words, WEIGHTS, byte_level=byte_level)
    letter = {2.0: "n", 0.5: "m", 0.25: "p", 1.0: "o"}
    return "".join(
        "d" if shift else letter[float(factor)] for factor, shift in zip(made.factors, made.shifts, strict=True)
    )


@pytest.mark.parametrize(
    ("byte_level", "words", "expected"),
    [
        (False, ["dog", "12", "3.5", "1,000", "b2b", "not", "isn't", "doesn’t", "notion", "cannot"], "onnnodddod"),
        (False, ["dog", "##s", "##12", "12", "-", "##-", "##", "not", "##not", "isn", "国", "##国"], "opnnmmmdpdoo"),
        (False, ["▁dog", "dog", "s", "▁12", "12", "▁", "▁-", "-", "not", "▁not", "国"], "oopnnmmmddo"),
        (True, ["Ġdog", "dog", "s", "Ġ12", "7", "Ġ", "Ġ(", ".", "not", "ĠNot", "Ġcaf"], "oopnnmmmpdo"),
        (True, ["Ġcaf", "Ã", "©s", "åĽ½", "åĽ"], "ooooo"),  # parts of a character may be those of any script
        (True, ["Ġnot", "not", "Ġcaf", "Ã©"], "ddop"),
        (False, ["a", "b", "1", " ", "国"], "oonmo"),  # characters: no marks, no pieces
    ],
)  # fmt: skip
def test_every_kind_of_vocabulary_says_in_its_way_what_a_token_is(
    byte_level: bool, words: list[str], expected: str
) -> None:
    assert kinds(words, byte_level=byte_level) == expected


def test_a_finished_table_is_that_of_a_slow_twin(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    words = ["dog", "##s", "12", "-", "not", *(f"w{i}" for i in range(45))]
    text = made_text(tmp_path, documents := random_documents(seed=int(rng.integers(1 << 30))))
    table = rng.standard_normal((50, 24)).astype(np.float32)
    before = table.copy()
    finish = Finish.of(words, WEIGHTS)
    found = finish.apply(table, text)
    assert (table == before).all()
    weighed = [
        [float(x) * {"##s": 0.25, "12": 2, "-": 0.5}.get(word, 1) for x in row]
        for word, row in zip(words, table, strict=True)
    ]
    squares = [
        sum(sum(weighed[one][d] for one in ids) ** 2 for d in range(24))
        for _, split, sentences in documents if split == "train" for ids in sentences
    ]  # fmt: skip
    length = (sum(squares) / len(squares)) ** 0.5
    expected = np.array(weighed) / length
    along = found[4] - expected[4]
    assert np.linalg.norm(along) == pytest.approx(0.3, rel=1e-5)
    expected[4] += along
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(finish.undo(found) * length, table, rtol=1e-4, atol=1e-5)


def test_the_direction_of_negation_is_always_the_same_and_no_stems() -> None:
    finish = Finish.of(["not", "never", "dog"], WEIGHTS)
    nothing = np.zeros((3, 512), np.float32)
    one, other, none = -finish.undo(nothing)
    assert (one == other).all()
    assert not none.any()
    stems = lexical_part([f"w{i}" for i in range(50)], 512, 1)
    assert abs(stems @ (one / np.linalg.norm(one))).max() < 0.2


def test_weights_are_those_given_else_the_usual_ones() -> None:
    settings = StaticSettings.make({"number_weight": 3.0, "negation_weight": 0.0})
    assert settings.finish == {
        "number_weight": 3.0, "punctuation_weight": 0.5, "piece_weight": 0.5, "negation_weight": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"goal": "search", "number_weight": 3.0}, "with goal = search, the table does not change after the training"),
        ({"piece_weight": 1.0}, "with unit = word, the table has no punctuation"),
    ],
)
def test_weights_that_would_do_nothing_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        StaticSettings.make(given)
