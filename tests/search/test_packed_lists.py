"""Packed lists: the bytes are those of a slow twin, all ways of reading give back what went in, and damage is named."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.errors import ArtifactError
from wordpipe.search import kernels
from wordpipe.search.lexical import packed_lists

numbers = st.one_of(st.integers(0, 300), st.integers(0, (1 << 31) - 1))
counts = st.one_of(st.integers(0, 5), st.integers(0, 1 << 20))
lists = st.lists(st.dictionaries(numbers, counts, max_size=12), max_size=12)


def leb128(number: int) -> bytes:
    """The slow twin, byte by byte."""
    made = bytearray()
    while number >= 128:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def bytes_of(one: dict[int, int]) -> bytes:
    """The slow twin of a list, as the format is described."""
    made, behind, before = b"", b"", -1
    for number, count in sorted(one.items()):
        made += leb128((number - before - 1) * 4 + min(count, 3))
        behind += leb128(count - 3) if count >= 3 else b""
        before = number
    return made + behind


def packed_of(made: list[dict[int, int]]) -> packed_lists.PackedLists:
    pairs = [pair for one in made for pair in sorted(one.items())]
    sizes, flat = np.array([*map(len, made)], np.int64), np.array(pairs, np.int64).reshape(-1, 2)
    return packed_lists.PackedLists.of(sizes, flat[:, 0], flat[:, 1])


@given(many=st.lists(st.integers(0, (1 << 33) - 1)))
def test_numbers_take_a_byte_for_every_seven_bits(many):
    data = packed_lists.packed(np.array(many, np.int64))
    assert data.tobytes() == b"".join(map(leb128, many))
    assert packed_lists.unpacked(data).tolist() == many


@settings(deadline=None)
@given(made=lists, seed=st.integers(0, 99), at_once=st.sampled_from([1, 5, 1 << 20]))
def test_every_reader_gives_back_the_pairs(made, seed, at_once):
    with pytest.MonkeyPatch.context() as patched:  # in blocks of some lists, too
        patched.setattr(packed_lists, "_AT_ONCE", at_once)
        found = packed_of(made)
        assert found.data.tobytes() == b"".join(map(bytes_of, made))
        stored = packed_lists.PackedLists.stored(found.largest, *found.arrays())
        assert stored.fits
        every, often = stored.all()
    assert list(zip(every.tolist(), often.tolist(), strict=True)) == [
        pair for one in made for pair in sorted(one.items())
    ]
    for loops in (packed_lists, kernels):
        for place, one in enumerate(made):
            some, times = stored.one(place, loops)
            assert dict(zip(some.tolist(), times.tolist(), strict=True)) == one
    drawn = np.random.default_rng(seed).integers(0, len(made), 7) if made else np.zeros(0, np.int64)
    for loops in (packed_lists, kernels):
        triples = zip(*(part.tolist() for part in stored.some(drawn, loops)), strict=True)
        read = {at: {number: count for _, number, count in group} for at, group in groupby(triples, lambda one: one[0])}
        assert [read.get(at, {}) for at in range(len(drawn))] == [made[place] for place in drawn.tolist()]


@settings(deadline=None)
@given(made=lists.filter(lambda made: any(made)), place=st.integers(0, 1 << 20), byte=st.integers(0, 255))
def test_damaged_bytes_are_named_or_read_within_bounds(made, place, byte):
    """Other bytes of the same number: an error, or pairs as many as there are; by NumPy and compiled alike."""
    found = packed_of(made)
    data = found.data.copy()
    data[place % len(data)] = byte
    damaged = packed_lists.PackedLists(found.sizes, found.ends, data, found.largest)
    for number in range(len(made)):
        answers = []
        for loops in (packed_lists, kernels):
            try:
                some, _ = damaged.one(number, loops)
                answers.append(some.tolist())
            except ArtifactError:
                answers.append(None)
        assert answers[0] == answers[1]
        assert answers[0] is None or len(answers[0]) == len(made[number])


def test_lists_that_do_not_fill_the_bytes_do_not_fit():
    found = packed_of([{1: 1, 5: 9}, {}, {0: 2}])
    assert found.fits
    more = found.sizes + np.array([0, 1, 0], np.int32)
    assert not packed_lists.PackedLists(more, found.ends, found.data, found.largest).fits
    assert not packed_lists.PackedLists(found.sizes, found.ends, found.data[:-1], found.largest).fits
    assert not packed_lists.PackedLists(found.sizes, found.ends[::-1], found.data, found.largest).fits
    for data in (b"\x80", b"\x01\x80", b"\xff" * 6 + b"\x01"):
        with pytest.raises(ArtifactError, match="do not match each other"):
            packed_lists.unpacked(np.frombuffer(data, np.uint8))
