"""Settings that follow the size of the text."""

import pytest

from wordpipe.words.settings import Word2VecPlan, Word2VecSettings, defaults_for


def test_larger_texts_take_fewer_passes_and_ask_for_commoner_words() -> None:
    sizes = [10**n for n in range(10)]
    chosen = [defaults_for(words) for words in sizes]
    assert all(set(one) == {"window", "epochs", "min_count"} for one in chosen)
    epochs, min_count = ([one[name] for one in chosen] for name in ("epochs", "min_count"))
    assert epochs == sorted(epochs, reverse=True)
    assert min_count == sorted(min_count)


@pytest.mark.parametrize("name", ["window", "epochs", "min_count", "lr"])
def test_what_is_given_stays(name: str) -> None:
    given = {"window": 3, "epochs": 7, "min_count": 4, "lr": 0.01}[name]
    plan = Word2VecSettings.make({name: given}).plan(1_000_000)
    assert isinstance(plan, Word2VecPlan)
    assert getattr(plan, name) == given


def test_nothing_is_left_open() -> None:
    plan = Word2VecSettings.make({"architecture": "cbow", "dim": 7}).plan(50)
    assert plan.lr == 0.05
    assert plan.dim == 7
    assert None not in (plan.window, plan.epochs, plan.min_count)
    assert Word2VecSettings.make({}).plan(50).lr == 0.025
