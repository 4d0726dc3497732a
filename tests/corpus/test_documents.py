"""Records cut where they are too long, and the set of digests against Python's."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import Digests, Record, cut_point, split_oversize, split_record
from wordpipe.corpus import digests as digests_of_documents

TEXT = st.text(st.sampled_from(list("aé你😀 \n\t")), max_size=120)


def slow_split(text, limit):
    """Characters one by one; back to the last space when the next does not fit."""
    pieces, piece = [], ""
    for char in text:
        while len((piece + char).encode()) > limit:
            space = max(piece.rfind(mark) for mark in " \n\t")
            cut = space + 1 if space >= 0 else len(piece)
            pieces.append(piece[:cut])
            piece = piece[cut:]
        piece += char
    return [*pieces, piece]


@given(TEXT, st.integers(4, 40))
def test_pieces_are_those_of_the_slow_twin(text, limit):
    pieces = split_oversize(text, limit)
    assert pieces == slow_split(text, limit)
    assert "".join(pieces) == text
    assert all(len(piece.encode()) <= limit for piece in pieces)


def test_bytes_that_are_no_utf8_are_cut_near_the_limit():
    assert 5 <= cut_point(b"\x80" * 50, 8) <= 8


@pytest.mark.parametrize(("lines_follow", "lines"), [(True, [5, 6, 7]), (False, [5, 5, 5])])
def test_parts_are_numbered_and_know_their_line(lines_follow, lines):
    record = Record("abcdefgh\nabcdefgh\nabc", "f", 5, title="t", lines_follow=lines_follow)
    parts = list(split_record(record, 9))
    assert [part.part for part in parts] == [0, 1, 2]
    assert [part.line for part in parts] == lines
    assert {part.title for part in parts} == {"t"}


def test_a_short_record_is_itself():
    record = Record("short", "f", 1)
    assert list(split_record(record, 1000)) == [record]


@pytest.fixture(params=[1, 100, 1 << 17], ids=lambda most: f"{most} in the dict")
def few_recent(request, monkeypatch):
    """The digests go into the packed table so many at a time; of the last number none does in these tests."""
    monkeypatch.setattr(digests_of_documents, "_MOST_RECENT", request.param)


@pytest.mark.parametrize("seed", range(3))
def test_it_knows_what_a_set_knows(seed, few_recent):
    rng = random.Random(seed)
    known, digests = {}, Digests(4)
    pool = [rng.randbytes(10) for _ in range(2000)]
    for number, digest in enumerate(rng.choices(pool, k=5000)):
        assert digests.add(digest, number.to_bytes(4, "big")) == (digest not in known)
        known.setdefault(digest, number.to_bytes(4, "big"))
    assert all((digest in digests) == (digest in known) for digest in pool)
    assert all(digests.note(digest) == known.get(digest) for digest in pool)


def test_digests_that_want_the_same_slot_are_kept_apart(few_recent):
    digests = Digests()
    same_slot = [b"\1\0\0\0" + bytes([n]) * 6 for n in range(1, 200)]
    assert all(digests.add(digest) for digest in same_slot)
    assert not any(digests.add(digest) for digest in same_slot)
