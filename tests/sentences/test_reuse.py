"""Which texts are encoded: against a dict."""

import numpy as np
import pyarrow as pa
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.sentences import no_keys, plan_vectors, text_keys

TEXTS = st.lists(st.sampled_from(["", "a", "b", "ab", "日本", "a" * 1000, "c"]), max_size=30)


def test_a_key_is_the_hash_of_the_text() -> None:
    texts = ["", "a", "日本語 text", "x" * 10_000]
    keys = text_keys(pa.array(["before", *texts], pa.string()).slice(1))
    assert [row.astype("<u8").tobytes() for row in keys] == [blake3(text.encode()).digest(16) for text in texts]
    assert text_keys(pa.array([], pa.string())).shape == no_keys().shape == (0, 2)


@given(TEXTS, TEXTS)
def test_each_text_is_encoded_once_and_none_that_is_known(previous, texts) -> None:
    plan = plan_vectors(*(text_keys(pa.array(some, pa.string())) for some in (previous, texts)))
    known = {text: row for row, text in reversed(list(enumerate(previous)))}
    encoded: dict[str, int] = {}
    for number, text in enumerate(texts):
        first = text not in known and text not in encoded
        if first:
            encoded[text] = len(encoded)
        assert plan.encode[number] == first
        assert plan.previous[number] == known.get(text, -1)
        assert plan.new[number] == (-1 if text in known else encoded[text])
    assert plan.to_encode == len(encoded)
    assert plan.reused == sum(text in known for text in texts)
    assert plan.to_encode + plan.reused + plan.repeated == len(texts)
    assert plan.gone == sum(text not in texts for text in previous)


def test_keys_that_share_a_half_are_two_texts() -> None:
    keys = np.array([[1, 2], [1, 3], [2, 2], [1, 2]], np.uint64)
    assert plan_vectors(keys[:1], keys[1:]).new.tolist() == [0, 1, -1]
