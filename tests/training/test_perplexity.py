"""Perplexity and bits per byte, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.training import bits_per_byte, perplexity


def test_the_perplexity_of_a_fair_die_is_its_sides():
    assert perplexity(7 * math.log(6), 7) == perplexity(math.log(6)) == pytest.approx(6)
    assert bits_per_byte(7 * math.log(6), 7) == pytest.approx(math.log2(6))


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=40))
def test_it_is_the_inverse_of_the_geometric_mean_of_the_probabilities(probabilities):
    nats = -sum(map(math.log, probabilities))
    mean = np.prod(np.array(probabilities, dtype=np.longdouble)) ** (np.longdouble(1) / len(probabilities))
    assert perplexity(nats, len(probabilities)) == pytest.approx(float(1 / mean), rel=1e-9)


@given(st.floats(0, 1e4), st.integers(1, 50), st.integers(1, 50))
def test_tokens_do_not_matter_to_words_and_bytes(nats, words, letters):
    """A model that pays the same for a text in fewer tokens is as good; per token it seems worse."""
    n_bytes = words * letters
    assert bits_per_byte(nats, n_bytes) * n_bytes * math.log(2) == pytest.approx(nats)
    if nats / words < 700:
        assert math.log(perplexity(nats, words)) * words == pytest.approx(nats, abs=1e-6)


def test_what_has_no_figure():
    assert perplexity(0.0, 5) == 1.0
    assert perplexity(1.0, 0) is None
    assert perplexity(1e6) is None
    assert bits_per_byte(1.0, 0) is None
