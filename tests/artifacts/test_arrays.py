"""The bytes of arrays: those that numpy itself would write, and no copies of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from wordpipe.artifacts import array_blocks
from wordpipe.artifacts import checkpoints as arrays

NUMBERS = st.one_of(hn.floating_dtypes(), hn.integer_dtypes(), hn.boolean_dtypes())
SHAPES = hn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7)


@given(hn.arrays(NUMBERS, SHAPES), st.integers(1, 50))
def test_the_blocks_are_the_bytes_of_the_array(array, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_BLOCK", size)
        blocks = list(array_blocks(array))
    assert b"".join(blocks) == array.tobytes()
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks)


def test_what_is_written_into_a_block_is_in_the_array():
    array = np.zeros((300_000, 2), np.float32)
    wanted = np.random.default_rng().random(array.shape, np.float32)
    data = wanted.tobytes()
    blocks = list(array_blocks(array))
    assert [len(block) for block in blocks] == [1 << 20, 1 << 20, 2_400_000 - (2 << 20)]
    for number, block in enumerate(blocks):
        block[:] = data[number << 20 : (number + 1) << 20]
    assert np.array_equal(array, wanted)


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros((4, 4), np.float32).T[:, :2], "one after the other"),
        (np.zeros((4, 4), np.float32, order="F"), "one after the other"),
        (np.array(["text", None]), "addresses"),
    ],
)
def test_an_array_whose_memory_is_not_its_values_is_a_mistake(array, why):
    with pytest.raises(AssertionError, match=why):
        list(array_blocks(array))
