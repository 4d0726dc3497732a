"""Choosing the next token: against transformers' logits processors, by count, and at the edges."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from transformers import (
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from wordpipe.errors import ConfigError
from wordpipe.model import choose, forbid_repeated_ngrams, keep_top_k, keep_top_p, penalise_repeats, sample_tokens
from wordpipe.model.settings import FillSettings, GenerateSettings

PLAIN = {"temperature": 1.0, "top_p": 1.0}
SEEDS = st.integers(0, 2**32)


def random_logits(seed: int, n_rows: int = 6, n_tokens: int = 40) -> torch.Tensor:
    return torch.randn(n_rows, n_tokens, generator=torch.Generator().manual_seed(seed)) * 3


def random_ids(seed: int, n_rows: int = 6, length: int = 30, n_tokens: int = 40) -> torch.Tensor:
    return torch.randint(n_tokens, (n_rows, length), generator=torch.Generator().manual_seed(seed))


@given(SEEDS, st.floats(0.3, 3.0))
def test_repeats_are_penalised_as_transformers_does(seed, penalty):
    logits, ids = random_logits(seed), random_ids(seed)
    want = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.clone())
    torch.testing.assert_close(penalise_repeats(logits, ids, penalty), want)


@given(SEEDS, st.integers(1, 5), st.integers(1, 40))
def test_ngrams_are_forbidden_as_transformers_does(seed, size, length):
    logits, ids = random_logits(seed, n_tokens=9), random_ids(seed, length=length, n_tokens=4)
    want = NoRepeatNGramLogitsProcessor(size)(ids, logits.clone())
    torch.testing.assert_close(forbid_repeated_ngrams(logits, ids, size), want, rtol=0, atol=0)


@given(SEEDS, st.integers(1, 60))
def test_the_k_likeliest_are_kept_as_transformers_does(seed, k):
    logits = random_logits(seed).round()  # ties
    torch.testing.assert_close(keep_top_k(logits, k), TopKLogitsWarper(k)(None, logits.clone()), rtol=0, atol=0)


@given(SEEDS, st.floats(0.01, 0.99))
def test_the_nucleus_is_the_one_of_transformers(seed, p):
    logits = random_logits(seed)
    torch.testing.assert_close(keep_top_p(logits, p), TopPLogitsWarper(p)(None, logits.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_the_nucleus_of_a_large_vocabulary(spread):
    """Of nearly equal tokens most are needed, of unequal ones few."""
    logits = random_logits(7, n_tokens=6000) * spread
    kept = keep_top_p(logits, 0.9)
    torch.testing.assert_close(kept, TopPLogitsWarper(0.9)(None, logits.clone()), rtol=0, atol=0)
    assert (kept.isfinite().sum(-1) > 1024).all() == (spread < 1)


def test_tokens_that_equal_the_last_of_the_nucleus_are_kept():
    kept = keep_top_p(torch.tensor([[1.0, 0.0, 2.0, 1.0, 1.0]]), 0.7)
    assert kept.isfinite().tolist() == [[True, False, True, True, True]]


@given(SEEDS, st.floats(0.05, 5.0), st.integers(0, 20), st.floats(0.05, 1.0), st.floats(0.5, 2.0), st.integers(0, 3))
def test_the_whole_chain_is_the_one_of_transformers(seed, temperature, top_k, top_p, penalty, ngram):
    """The token drawn is the one that a walk along the sums of their probabilities reaches."""
    settings = GenerateSettings(
        temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=penalty, no_repeat_ngram=ngram
    )
    logits, ids = random_logits(seed), random_ids(seed)
    uniforms = torch.rand(6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    theirs = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.clone())
    if ngram:
        theirs = NoRepeatNGramLogitsProcessor(ngram)(ids, theirs)
    theirs = TemperatureLogitsWarper(temperature)(ids, theirs)
    if top_k:
        theirs = TopKLogitsWarper(top_k)(ids, theirs)
    if top_p < 1:
        theirs = TopPLogitsWarper(top_p)(ids, theirs)
    shares = theirs.double().softmax(-1).numpy()
    for row, chosen in enumerate(choose(logits, ids, settings, uniforms).tolist()):
        sums = shares[row].cumsum()
        assert shares[row, chosen] > 0
        assert sums[chosen] - shares[row, chosen] - 1e-5 <= uniforms[row] <= sums[chosen] + 1e-5


def test_draws_have_the_probabilities_of_the_logits():
    n = 20_000
    logits = random_logits(4, n_rows=1, n_tokens=12)
    uniforms = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    counts = np.bincount(sample_tokens(logits.expand(n, -1), uniforms).numpy(), minlength=12)
    expected = n * logits[0].double().softmax(-1).numpy()
    often = expected >= 5
    assert often.sum() >= 5
    seen, wanted = (np.append(values[often], values[~often].sum()) for values in (counts, expected))
    assert chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > 0.01


def test_a_wrong_temperature_would_be_seen_by_that_test():
    n = 20_000
    logits = random_logits(4, n_rows=1, n_tokens=12)
    uniforms = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    settings = GenerateSettings(temperature=1.1, top_p=1.0)
    drawn = choose(logits.expand(n, -1), torch.zeros(n, 1, dtype=torch.int64), settings, uniforms)
    expected = n * logits[0].double().softmax(-1).numpy()
    often = expected >= 5
    seen = np.bincount(drawn.numpy(), minlength=12)[often]
    assert chisquare(seen, expected[often] * seen.sum() / expected[often].sum()).pvalue < 1e-6


def test_the_ends_of_chance_reach_the_first_and_the_last_possible_token():
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, -torch.inf]]).expand(2, -1)
    last = float(np.nextafter(1.0, 0.0))
    assert sample_tokens(logits, torch.tensor([0.0, last], dtype=torch.float64)).tolist() == [1, 2]
    many = random_logits(8, n_rows=2000, n_tokens=30)
    many[:, -7:] = -torch.inf
    assert sample_tokens(many, torch.full((2000,), last, dtype=torch.float64)).max() < 23


def test_temperature_zero_takes_the_likeliest_token_that_is_left_and_of_equals_the_first():
    logits = torch.tensor([[1.0, 5.0, 5.0, 2.0]])
    none, start = torch.zeros(1, dtype=torch.float64), torch.tensor([[0]])
    assert choose(logits, start, GenerateSettings(temperature=0.0), none).tolist() == [1]
    seen = torch.tensor([[1, 2]])
    assert choose(logits, seen, GenerateSettings(temperature=0.0, no_repeat_ngram=1), none).tolist() == [3]
    assert choose(logits, seen, GenerateSettings(temperature=0.0, repetition_penalty=6.0), none).tolist() == [3]


@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 100.0])
def test_extreme_temperatures_give_numbers(temperature):
    logits = random_logits(5) * 1e4
    logits[:, 3] = -torch.inf
    settings = GenerateSettings(temperature=temperature, top_k=5)
    chosen = choose(logits, random_ids(5), settings, torch.full((6,), 0.5, dtype=torch.float64))
    if temperature < 1:
        assert chosen.tolist() == logits.argmax(-1).tolist()
    assert 3 not in chosen.tolist()


def test_a_rule_that_would_leave_no_token_does_not_hold():
    logits = torch.tensor([[1.0, 2.0, -torch.inf], [1.0, 2.0, -torch.inf]])
    ids = torch.tensor([[0, 1, 2], [0, 0, 2]])
    assert forbid_repeated_ngrams(logits, ids, 1).tolist() == [[1.0, 2.0, -np.inf], [-np.inf, 2.0, -np.inf]]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"samples": 0}, "samples"),
        ({"stop": ("a", "")}, "stop"),
        ({"topk": 3}, "did you mean top_k"),
    ],
)
def test_settings_out_of_bounds_are_refused_by_name(values, word):
    with pytest.raises(ConfigError) as error:
        GenerateSettings.make(values)
    assert word in f"{error.value.message} {error.value.hint}"
    with pytest.raises(ConfigError, match="top_k"):
        FillSettings.make({"top_k": 0})
