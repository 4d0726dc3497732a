"""Shares of the kinds of pairs, and settings that cannot stand together."""

import pytest

from wordpipe.errors import ConfigError
from wordpipe.training.contrastive import pairs
from wordpipe.training.contrastive.settings import KINDS, ContrastiveSettings


@pytest.mark.parametrize("goal", ["similarity", "search"])
@pytest.mark.parametrize("encoder", ["static", "transformer"])
@pytest.mark.parametrize("pairs", [None, "pairs.jsonl"])
def test_shares_add_up(goal: str, encoder: str, pairs: str | None) -> None:
    shares = ContrastiveSettings.make({"goal": goal, "encoder": encoder, "pairs": pairs}).shares
    assert [*shares] == [*KINDS]
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["pairs"] == (0.5 if pairs else 0)


def test_shares_that_are_given_replace_those_of_the_goal() -> None:
    shares = ContrastiveSettings.make({"pair_title": 0.6, "pair_crop": 0.2}).shares
    assert shares["title"] == pytest.approx(0.75)
    assert shares["crop"] == pytest.approx(0.25)
    assert shares["deletion"] == 0


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"steps": 5, "epochs": 1}, "both say how long"),
        ({"pair_file": 0.5}, "needs pairs"),
        ({"pair_crop": 0.0}, "no kind of pair"),
        ({"temperature": 0}, "temperature"),
        ({"pair_crop": 2}, "pair_crop"),
    ],
)
def test_what_cannot_stand_together_is_named(values: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        ContrastiveSettings.make(values)


def test_the_numbers_of_kinds_are_their_places() -> None:
    assert [getattr(pairs, kind.upper()) for kind in KINDS] == [*range(len(KINDS))]
