import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.search import matched_rows, row_keys


def keys(texts: list[str], vectors: list[list[float]]) -> np.ndarray:
    return row_keys([pa.array(texts, pa.string())], np.array(vectors, dtype=np.float32))


@given(st.lists(st.tuples(st.text(max_size=6), st.sampled_from([0.0, -0.0, 1.0, 0.5])), min_size=1, max_size=60))
def test_keys_are_equal_where_text_and_bits_are(rows: list[tuple[str, float]]) -> None:
    rows = [(text.encode("utf-8", "replace").decode(), number) for text, number in rows]
    found = keys([text for text, _ in rows], [[number, 1.0] for _, number in rows])
    bits = [(text, np.float32(number).tobytes()) for text, number in rows]
    assert len(set(found.tolist())) == len(set(bits))
    for one, key in zip(bits, found, strict=True):
        assert key == found[bits.index(one)]


def test_a_key_does_not_depend_on_the_rows_around_it() -> None:
    texts = ["", "a", "ab", "b" * 40_000, "", "ä"]
    vectors_ND = np.random.default_rng(1).standard_normal((6, 3)).astype(np.float32)
    column = pa.array(texts, pa.string())
    whole = row_keys([column], vectors_ND)
    for row in range(6):
        np.testing.assert_array_equal(row_keys([column.slice(row, 1)], vectors_ND[row : row + 1]), whole[row : row + 1])


def test_two_columns_are_not_one() -> None:
    vectors_ND = np.ones((2, 2), dtype=np.float32)
    one, other = row_keys([pa.array(["ab", "a"]), pa.array(["c", "bc"])], vectors_ND)
    assert one != other


@given(st.lists(st.integers(0, 8), max_size=40), st.lists(st.integers(0, 8), max_size=40))
def test_rows_are_matched_as_a_loop_matches_them(old: list[int], new: list[int]) -> None:
    free: dict[int, list[int]] = {}
    for row, key in enumerate(old):
        free.setdefault(key, []).append(row)
    expected = [free[key].pop(0) if free.get(key) else -1 for key in new]
    found = matched_rows(np.array(old, dtype=np.uint64), np.array(new, dtype=np.uint64))
    assert found.tolist() == expected
