"""Figures of attention weights against slow twins; heads named by what they do; tokens joined to words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.metrics import (
    LOOKS,
    HeadLooks,
    join_words,
    name_head,
    rollout,
    words_of_tokens,
)


def some_weights(*shape, seed=0, causal=False):
    weights = np.random.default_rng(seed).gamma(0.4, size=shape) + 1e-9
    if causal:
        weights = np.tril(weights)
    return weights / weights.sum(-1, keepdims=True)


def test_rollout_is_the_sum_over_all_paths():
    """The slow twin walks every path through the layers: at each it stays, or goes where attention goes."""
    weights = some_weights(3, 2, 4, 4)
    found = rollout(weights)
    steps = [0.5 * (layer.mean(0) + np.eye(4)) for layer in weights]
    for start in range(4):
        for end in range(4):
            paths = sum(steps[2][start, a] * steps[1][a, b] * steps[0][b, end] for a in range(4) for b in range(4))
            assert found[2, start, end] == pytest.approx(paths)
    assert found.sum(-1) == pytest.approx(1.0)
    assert found[0] == pytest.approx(steps[0])


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_words_get_the_sum_of_their_parts_and_give_the_mean(n_queries, n_keys, seed):
    random = np.random.default_rng(seed)
    words_T, words_S = (np.cumsum(np.r_[0, random.integers(0, 2, n - 1)]) for n in (n_queries, n_keys))
    weights = some_weights(2, n_queries, n_keys, seed=seed)
    found = join_words(weights, words_T, words_S)
    for one in range(words_T.max() + 1):
        for other in range(words_S.max() + 1):
            slow = weights[:, words_T == one][:, :, words_S == other].sum(-1).mean(-1)
            assert found[:, one, other] == pytest.approx(slow)
    assert found.sum(-1) == pytest.approx(1.0)


def test_heads_are_named_by_what_they_do():
    n = 12
    heads = np.stack([np.eye(n, k=-1), np.eye(n, k=1), np.eye(n), np.tile(np.eye(n)[0], (n, 1)),
                      np.tile(np.eye(n)[-1], (n, 1)), np.full((n, n), 1 / n), np.zeros((n, n))])  # fmt: skip
    heads[0, 0, 0] = heads[1, -1, -1] = 1
    heads[6, :, :3] = 0.1
    heads[6, :, 5] = 0.7
    looks = HeadLooks()
    separators = np.zeros(n, bool)
    separators[[0, -1]] = True
    for _ in range(3):
        looks.add(heads[None], separators)
    shares = looks.shares()
    names = [name_head({name: values[0, head] for name, values in shares.items()}) for head in range(7)]
    assert names == ["previous", "next", "same", "first", "separators", "broad", "mixed"]
    assert looks.queries == 3 * (n - 2)
    assert shares["spread"][0, 5] == pytest.approx(1.0)
    assert shares["spread"][0, 2] == pytest.approx(0.0, abs=1e-6)
    assert shares["same"][0, 5] == pytest.approx(1 / n)
    assert {*shares} == {*LOOKS, "spread"}


def test_an_even_causal_head_is_broad_though_it_sees_few():
    even = np.tril(np.ones((10, 10)))
    looks = HeadLooks()
    looks.add((even / even.sum(-1, keepdims=True))[None, None], np.zeros(10, bool))
    assert looks.shares()["spread"][0, 0] == pytest.approx(1.0)


def test_cross_attention_has_other_keys_than_queries():
    looks = HeadLooks()
    looks.add(some_weights(1, 2, 9, 4), np.array([False, False, False, True]))
    shares = looks.shares()
    assert all(np.isfinite(values).all() for values in shares.values())
    assert (shares["separators"] > 0).all()


def test_tokens_are_joined_to_the_words_they_are_in():
    #        [CLS]  un      kind    ,       don    't      world  [SEP]
    places = [None, (0, 2), (2, 6), (6, 7), (8, 11), (11, 13), (14, 19), None]
    words = [(0, 6), (8, 13), (14, 19)]
    assert words_of_tokens(places, words) == [0, 1, 1, 2, 3, 3, 4, 5]
    assert words_of_tokens([(0, 5), (5, 9)], []) == [0, 1]
    assert words_of_tokens([], [(0, 1)]) == []
