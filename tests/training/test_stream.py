from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.artifacts import TOKENS_16, TOKENS_32
from wordpipe.errors import ArtifactError
from wordpipe.training import unigram_entropy, write_streams

rows = st.lists(  # documents of sentences of ids, each document in one split
    st.tuples(
        st.sampled_from(["train", "valid", "test"]), st.lists(st.lists(st.integers(7, 99), max_size=5), max_size=4)
    ),
    max_size=8,
)


def record_batches(documents, size, schema=TOKENS_16, same_id=False):
    flat = [
        ("d" if same_id else f"d{d}", s, split, ids)
        for d, (split, sentences) in enumerate(documents)
        for s, ids in enumerate(sentences)
    ]
    for first in range(0, len(flat), size):
        columns = list(zip(*flat[first : first + size], strict=True))
        columns.append([[]] * len(columns[0]))
        yield pa.record_batch(
            [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)], schema=schema
        )


def expected_stream(documents, wanted, before, after):
    out = []
    for split, sentences in documents:
        ids = [token_id for sentence in sentences for token_id in sentence]
        if split == wanted and ids:
            out += [*before, *ids, *after]
    return out


@given(
    documents=rows,
    size=st.integers(1, 6),
    boundaries=st.sampled_from([((), (3,)), ((5,), (6,)), ((), ()), ((5, 5), (6, 3))]),
    same_id=st.booleans(),
)
def test_documents_are_joined_in_order_whatever_the_batches(documents, size, boundaries, same_id, tmp_path_factory):
    before, after = boundaries
    folder = tmp_path_factory.mktemp("stream")
    if same_id:  # the same text twice in a row is two documents; without its first sentence that cannot be seen
        documents = [(split, [s or [7] for s in sentences]) for split, sentences in documents]
    streams = write_streams(
        record_batches(documents, size, same_id=same_id),
        {"train": folder / "train.ids", "valid": folder / "valid.ids"},
        vocab_size=100, before=before, after=after,
    )  # fmt: skip
    for split, stream in streams.items():
        want = expected_stream(documents, split, before, after)
        assert stream.open().tolist() == want
        mine = [sentence for name, sentences in documents if name == split for sentence in sentences]
        assert stream.n_ids == len(want)
        assert stream.n_tokens == sum(map(len, mine))
        assert stream.n_sentences == sum(1 for sentence in mine if sentence)
        assert stream.n_empty == sum(1 for sentence in mine if not sentence)
        assert stream.n_documents == sum(1 for name, sentences in documents if name == split and any(sentences))
        assert stream.counts.tolist() == np.bincount([i for s in mine for i in s], minlength=100).tolist()
    assert sorted(path.name for path in folder.iterdir()) == ["train.ids", "valid.ids"]


def even_starts(ids, lengths):
    """A stand-in for words: an even id begins one, and so does the first id of a row."""
    first = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    starts = ids % 2 == 0
    starts[first] = True
    return starts


@given(documents=rows, size=st.integers(1, 6), boundaries=st.sampled_from([((), (3,)), ((5,), (6,)), ((), ())]))
def test_word_starts_lie_beside_the_ids(documents, size, boundaries, tmp_path_factory):
    before, after = boundaries
    folder = tmp_path_factory.mktemp("stream")
    streams = write_streams(
        record_batches(documents, size),
        {"train": folder / "train.ids", "valid": folder / "valid.ids"},
        vocab_size=100, before=before, after=after, find_starts=even_starts,
    )  # fmt: skip
    for split, stream in streams.items():
        want = []
        for name, sentences in documents:
            flags = [t == 0 or i % 2 == 0 for sentence in sentences for t, i in enumerate(sentence)]
            if name == split and flags:
                want += [True] * len(before) + flags + [True] * len(after)
        starts = stream.open_starts()
        assert starts.dtype == np.bool_
        assert starts.tolist() == want
        assert len(starts) == stream.n_ids == len(stream.open())
    assert sorted(path.name for path in folder.iterdir()) == [
        "train.ids", "train.ids.starts", "valid.ids", "valid.ids.starts",
    ]  # fmt: skip


def test_nobody_asks_for_word_starts_in_vain(tmp_path):
    stream = write_streams(record_batches([("train", [[7]])], 9), {"train": tmp_path / "ids"}, vocab_size=50)["train"]
    assert stream.open_starts() is None
    assert [path.name for path in tmp_path.iterdir()] == ["ids"]


@pytest.mark.parametrize(
    ("schema", "vocab_size", "dtype"), [(TOKENS_16, 1 << 16, "<u2"), (TOKENS_32, (1 << 16) + 1, "<u4")]
)
def test_large_vocabularies_get_wider_ids(schema, vocab_size, dtype, tmp_path):
    top = vocab_size - 1
    batches = record_batches([("train", [[7, top]])], 9, schema)
    stream = write_streams(batches, {"train": tmp_path / "ids"}, vocab_size=vocab_size)["train"]
    assert stream.dtype == dtype
    assert (tmp_path / "ids").read_bytes() == np.array([7, top], dtype=dtype).tobytes()
    assert isinstance(stream.open(), np.memmap)


def test_an_id_outside_the_vocabulary_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(ArtifactError, match="got 99; expected 0 to 49"):
        write_streams(record_batches([("train", [[7, 99]])], 9), {"train": tmp_path / "ids"}, vocab_size=50)
    assert not (tmp_path / "ids").exists()


def test_a_file_that_is_there_is_replaced(tmp_path):
    path: Path = tmp_path / "ids"
    for ids in ([7, 8, 9], [10]):
        write_streams(record_batches([("train", [ids])], 9), {"train": path}, vocab_size=50)
    assert np.fromfile(path, dtype="<u2").tolist() == [10]


def test_entropy_of_single_tokens():
    assert unigram_entropy(np.array([5, 5, 5, 5])) == pytest.approx(np.log(4))
    assert unigram_entropy(np.array([9, 0, 0])) == 0
    assert unigram_entropy(np.zeros(4, dtype=np.int64)) == 0
