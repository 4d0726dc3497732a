import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.sentences import sif_weights, sum_segments, word_encoder


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=25), st.integers(0, 9_999), st.integers(1, 40))
def test_sums_match_a_loop_and_keep_their_bits_in_any_company(lengths: list[int], seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    table_VD = rng.standard_normal((50, 6)).astype(np.float32)
    rows = rng.integers(50, size=sum(lengths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_encoder, "_BLOCK", block)
        sums_ND = sum_segments(table_VD, rows, np.array(lengths, dtype=np.int64))
    ends = np.cumsum([0, *lengths])
    for number, length in enumerate(lengths):
        part = rows[ends[number] : ends[number + 1]]
        np.testing.assert_allclose(sums_ND[number], table_VD[part].astype(np.float64).sum(axis=0), atol=1e-5)
        np.testing.assert_array_equal(sums_ND[number], sum_segments(table_VD, part, np.array([length]))[0])


def test_weights_are_equation_3() -> None:
    counts = np.array([90, 9, 1])
    np.testing.assert_allclose(sif_weights(counts, 1e-3), [1e-3 / (1e-3 + p) for p in (0.9, 0.09, 0.01)], rtol=1e-6)


def test_uncounted_words_are_as_common_as_zipfs_law_says() -> None:
    harmonic = 1 + 1 / 2 + 1 / 3
    expected = [1e-3 / (1e-3 + 1 / rank / harmonic) for rank in (1, 2, 3)]
    np.testing.assert_allclose(sif_weights(np.zeros(3, np.int64), 1e-3), expected, rtol=1e-6)
