"""The stream of ids, and where words begin in it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import regex
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from tests.tokens.test_training import trained
from wordpipe.artifacts import TOKENS_16, TOKENS_32
from wordpipe.errors import ArtifactError
from wordpipe.tokens import WordSplitter, byte_letters
from wordpipe.training import SpecialIds, WordStarts, open_starts, unigram_entropy, write_streams
from wordpipe.training.recipes import Opened, recipe_named

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
        starts = open_starts(stream.path)
        assert starts.dtype == np.bool_
        assert starts.tolist() == want
        assert len(starts) == stream.n_ids == len(stream.open())
    assert sorted(path.name for path in folder.iterdir()) == [
        "train.ids", "train.ids.starts", "valid.ids", "valid.ids.starts",
    ]  # fmt: skip


def test_nobody_asks_for_word_starts_in_vain(tmp_path):
    write_streams(record_batches([("train", [[7]])], 9), {"train": tmp_path / "ids"}, vocab_size=50)
    assert [path.name for path in tmp_path.iterdir()] == ["ids"]


@pytest.mark.parametrize(
    ("schema", "vocab_size", "dtype"), [(TOKENS_16, 1 << 16, "<u2"), (TOKENS_32, (1 << 16) + 1, "<u4")]
)
def test_large_vocabularies_get_wider_ids(schema, vocab_size, dtype, tmp_path):
    top = vocab_size - 1
    batches = record_batches([("train", [[7, top]])], 9, schema)
    stream = write_streams(batches, {"train": tmp_path / "ids"}, vocab_size=vocab_size)["train"]
    assert (tmp_path / "ids").read_bytes() == np.array([7, top], dtype=dtype).tobytes()
    assert isinstance(stream.open(), np.memmap)


def test_an_id_outside_the_vocabulary_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match="got 99; expected 0 to 49"):
        write_streams(record_batches([("train", [[7, 99]])], 9), {"train": tmp_path / "ids"}, vocab_size=50)


def test_a_file_that_is_there_is_replaced(tmp_path):
    path: Path = tmp_path / "ids"
    for ids in ([7, 8, 9], [10]):
        write_streams(record_batches([("train", [ids])], 9), {"train": path}, vocab_size=50)
    assert np.fromfile(path, dtype="<u2").tolist() == [10]


def test_entropy_of_single_tokens():
    assert unigram_entropy(np.array([5, 5, 5, 5])) == pytest.approx(np.log(4))
    assert unigram_entropy(np.array([9, 0, 0])) == 0
    assert unigram_entropy(np.zeros(4, dtype=np.int64)) == 0


UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
LETTERS = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]"
WORD = regex.compile(rf"(?V1)[{UNSPACED}ー々]+|\p{{N}}+(?:[.,]\p{{N}}+)+|{LETTERS}+(?:['’\-‐]{LETTERS}+)*")
BYTES = {letter: byte for byte, letter in enumerate(byte_letters())}
TEXT = "The sea-bed isn't at 3.5 km, 1,000 m; Grüße! Thecatsat"
some_text = st.text(st.sampled_from("abthe sat'-’‐.,1é😀漢字かー一ก\n"), max_size=40) | st.text(max_size=20)


@pytest.fixture(scope="module")
def byte_level():
    return trained(vocab_size=320)


def starts_of(tokenizer, texts):
    """Ids of all rows, the rows' lengths, and the starts found."""
    rows = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    ids = np.array([i for row in rows for i in row], dtype=np.uint16)
    return rows, WordStarts(tokenizer)(ids, lengths)


def grouped(tokenizer, text):
    """The tokens of a text, those of a word joined."""
    (row,), starts = starts_of(tokenizer, [text])
    out = []
    for token_id, start in zip(row, starts, strict=True):
        token = tokenizer.id_to_token(token_id)
        out = [*out, token] if start else [*out[:-1], out[-1] + token]
    return out


def slow_starts(pieces):
    """Twin: the regular expression over the text of one row, token by token."""
    text, want, at = b"".join(pieces).decode(), [], 0
    words = []
    for match in WORD.finditer(text):
        begin, end = (len(text[:place].encode()) for place in match.span())
        words.append((begin, end, bool(regex.match(rf"[{UNSPACED}ー々]", match.group()))))
    for piece in pieces:
        inside = [unspaced for begin, end, unspaced in words if begin < at < end]
        in_character = text.encode()[at] & 0xC0 == 0x80
        want.append(not inside or (inside[0] and not in_character))
        at += len(piece)
    return want


@given(texts=st.lists(some_text, min_size=1, max_size=4))
def test_words_are_those_of_the_pattern_in_every_script(texts, byte_level):
    rows, starts = starts_of(byte_level, texts)
    want = []
    for row in rows:
        want += slow_starts([bytes(BYTES[c] for c in byte_level.id_to_token(i)) for i in row])
    assert starts.tolist() == want
    assert starts.dtype == np.bool_


@given(text=st.text(st.sampled_from("abthe sat'-’‐.,1é😀\n"), max_size=40))
def test_no_word_is_cut_and_none_are_joined(text, byte_level):
    split = WordSplitter(keep_case=True)
    groups = [bytes(BYTES[c] for c in group).decode(errors="replace") for group in grouped(byte_level, text)]
    assert [word for group in groups for word in split(group)] == split(text)


def test_a_word_keeps_its_hyphens_and_apostrophes_and_its_number_its_point(byte_level):
    groups = [bytes(BYTES[c] for c in group).decode() for group in grouped(byte_level, TEXT)]
    assert "".join(groups) == TEXT
    words = [group.strip() for group in groups if group.strip(" ,;!")]
    assert words == ["The", "sea-bed", "isn't", "at", "3.5", "km", "1,000", "m", "Grüße", "Thecatsat"]


def test_marks_of_spaces_tell_words_apart():
    tokenizer = trained(algorithm="unigram", pretokenizer="metaspace")
    groups = grouped(tokenizer, "the cats sat on the-mats.")
    assert [group.strip("▁.") for group in groups if group.strip("▁.")] == [
        "the", "cats", "sat", "on", "the", "[UNK]", "mats",
    ]  # fmt: skip


def test_a_wordpiece_word_is_what_its_marks_hold_together():
    tokenizer = trained(algorithm="wordpiece")
    text = "the hatcat sat ontwo cats. t"
    (row,), starts = starts_of(tokenizer, [text])
    tokens = [tokenizer.id_to_token(i) for i in row]
    assert any(token.startswith("##") for token in tokens)
    assert starts.tolist() == [not token.startswith("##") for token in tokens]


def test_whole_words_and_ends_of_words_count_too():
    words = trained(algorithm="word", pretokenizer="whitespace")
    assert starts_of(words, ["the cat sat"])[1].all()
    ending = Tokenizer(models.BPE({"a": 0, "b</w>": 1, "b": 2}, [], end_of_word_suffix="</w>"))
    assert WordStarts(ending)(np.array([0, 1, 0, 2, 1], dtype=np.uint16), np.array([5])).tolist() == [
        True, False, True, False, False,
    ]  # fmt: skip


def test_special_tokens_and_rows_end_words(byte_level):
    special = byte_level.token_to_id("[MASK]")
    a, b = byte_level.token_to_id("a"), byte_level.token_to_id("b")
    ids = np.array([a, b, special, b, a, b], dtype=np.uint32)
    assert WordStarts(byte_level)(ids, np.array([4, 2])).tolist() == [True, False, True, True, True, False]
    assert WordStarts(byte_level)(ids[:0], np.zeros(0, dtype=np.int64)).tolist() == []


def test_broken_text_is_read_without_harm(byte_level):
    """What no text has: a row that ends inside a character, and bytes that are none."""
    letters = [byte_letters()[byte] for byte in (0xE6, 0xBC, 0xFF, 0xF4, 0xBF, 0xBF, 0xBF, 0xF7)]
    ids = np.array([byte_level.token_to_id(letter) for letter in letters], dtype=np.uint16)
    assert WordStarts(byte_level)(ids, np.array([2, 5, 1])).shape == (8,)


def test_tokens_that_do_not_tell_where_words_begin_are_refused():
    with pytest.raises(ArtifactError, match="do not show where words begin") as caught:
        WordStarts(trained(algorithm="unigram", pretokenizer="whitespace"))
    assert "--mask-unit token" in caught.value.hint


def test_words_of_a_text_are_hidden_whole(byte_level, tmp_path):
    """From rows of text to masked sequences: in every block a word is all [MASK] or all there."""
    texts = [
        "the sea-bed isn't at 3.5 km, is it? ",
        "Thecatsat and thedog sat on mats; ",
        "wherever onomatopoeia's heard.",
    ]
    ids = [byte_level.encode(text, add_special_tokens=False).ids for text in texts * 20]
    columns = [["d"] * 60, list(range(60)), ["train"] * 60, ids, [[]] * 60]
    batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, TOKENS_16, strict=True)], schema=TOKENS_16)
    special = SpecialIds(**{name: i for i, name in enumerate(("pad", "unk", "cls", "sep", "mask", "bos", "eos"))})
    recipe = recipe_named("mlm")
    settings = recipe.settings.make({"mask_unit": "word", "mask_share": 1.0, "random_share": 0.0})
    opened = Opened(special=special, n_tokens=byte_level.get_vocab_size(), tokenizer=byte_level)
    data = recipe.data(opened, settings)
    stream = write_streams(
        [batch], {"train": tmp_path / "ids"}, vocab_size=400, after=data.after, find_starts=data.find_starts()
    )["train"]
    blocks = data.blocks(stream.open(), 64, open_starts(stream.path))  # 19 of 62: more than any word has
    rows = blocks.rows(np.arange(len(blocks)))
    targets = recipe.objective(settings, opened, torch.device("cpu")).targets(
        rows, torch.Generator().manual_seed(1), 0.0
    )
    for before, after in zip(rows.ids_BT.tolist(), targets.inputs.tolist(), strict=True):
        pieces = [bytes(BYTES[c] for c in byte_level.id_to_token(i)) if i > 6 else b"\n" for i in before]
        groups: list[set[bool]] = []
        for start, is_hidden in zip(slow_starts(pieces), (i == special.mask for i in after), strict=True):
            groups = [*groups, {is_hidden}] if start else [*groups[:-1], groups[-1] | {is_hidden}]
        assert all(len(group) == 1 for group in groups)
        assert {True} in groups
        assert len(groups) < len(pieces)
