"""The set of digests against Python's."""

import random

import pytest

from wordpipe.corpus import Digests


@pytest.mark.parametrize("seed", range(3))
def test_it_knows_what_a_set_knows(seed):
    rng = random.Random(seed)
    known, digests = set(), Digests()
    pool = [rng.randbytes(10) for _ in range(9000)]
    for digest in rng.choices(pool, k=20_000):
        assert digests.add(digest) == (digest not in known)
        known.add(digest)
    assert len(digests) == len(known)


def test_digests_that_want_the_same_slot_are_kept_apart():
    digests = Digests()
    same_slot = [b"\1\0\0\0" + bytes([n]) * 6 for n in range(1, 200)]
    assert all(digests.add(digest) for digest in same_slot)
    assert not any(digests.add(digest) for digest in same_slot)
