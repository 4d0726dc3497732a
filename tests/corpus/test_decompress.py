"""Compressed streams: any cutting into blocks gives the same bytes; damage, early ends and bombs are refused."""

import bz2
import gzip
import io
import lzma
import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.corpus import BLOCK, ExpansionLimit, compression_of, decompress_blocks, read_blocks
from wordpipe.errors import InputError, StorageError

PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
KINDS = sorted(PACK)


def unpack(blocks, kind, max_expand=200):
    return list(decompress_blocks(iter(blocks), kind, ExpansionLimit("a.txt", max_expand)))


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.sampled_from(KINDS), st.integers(1, 50), st.data())
def test_members_in_any_blocks_give_their_bytes_in_order(members, kind, size, data):
    packed = b"".join(PACK[kind](member) for member in members)
    if kind == "xz":
        packed += bytes(4 * data.draw(st.integers(0, 3)))  # xz may be padded by zeros
    blocks = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert b"".join(unpack(blocks, kind)) == b"".join(members)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_stream_cut_anywhere_is_refused(kind, seed):
    rng = random.Random(seed)
    packed = PACK[kind](bytes(rng.choices(b"abcdef \n", k=5000)))
    for cut in [0, 1, len(packed) - 1, *(rng.randrange(len(packed)) for _ in range(10))]:
        with pytest.raises(InputError, match="is incomplete"):
            unpack([packed[:cut]] if cut else [], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_and_garbage_are_refused(kind):
    packed = bytearray(PACK[kind](bytes(random.Random(1).choices(range(256), k=5000))))
    with pytest.raises(InputError, match="damaged"):
        unpack([bytes(packed) + b"this is not a member of anything"], kind)
    packed[len(packed) // 2] ^= 1
    if kind != "zst":  # a zstd frame need not carry a checksum
        with pytest.raises(InputError, match="damaged"):
            unpack([bytes(packed)], kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused_while_it_grows(kind):
    packed = PACK[kind](bytes(70 << 20))
    limit = ExpansionLimit("a.txt", 200)
    sizes: list[int] = []
    with pytest.raises(InputError, match="bomb") as caught:
        sizes.extend(len(block) for block in decompress_blocks(iter([packed]), kind, limit))
    assert "--max-expand" in caught.value.hint
    assert 0 < sum(sizes) <= 64 << 20
    assert max(sizes) <= 32 << 20
    assert limit.given <= 97 << 20


def test_a_ratio_that_is_allowed_passes():
    packed = gzip.compress(bytes(80 << 20))
    assert sum(map(len, unpack([packed], "gz", max_expand=5000))) == 80 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_bytes_tell_the_kind(kind):
    assert compression_of(PACK[kind](b"some text")) == kind
    assert compression_of(PACK[kind](b"")) == kind


@pytest.mark.parametrize("head", [b"", b"BZh is how it begins", b"some text", b"\x1e\x8b"])
def test_text_is_not_taken_for_compressed(head):
    assert compression_of(head) == "none"


def test_plain_blocks_pass_unchanged():
    assert unpack([b"ab", b"", b"c"], "none") == [b"ab", b"", b"c"]


def test_read_blocks_gives_the_whole_file_and_tells_of_each_block():
    data = bytes(random.Random(2).choices(range(256), k=BLOCK + 100))
    seen = []
    assert b"".join(read_blocks(io.BytesIO(data), "f", seen.append)) == b"".join(seen) == data
    assert [len(block) for block in seen] == [BLOCK, 100]


def test_a_read_error_names_the_file_and_the_byte():
    class Broken(io.BytesIO):
        def read(self, size=-1):
            data = super().read(10)
            if not data:
                raise OSError(5, "Input/output error")
            return data

    blocks = read_blocks(Broken(b"x" * 10), "f.txt", lambda block: None)
    assert next(blocks) == b"x" * 10
    with pytest.raises(StorageError, match=r"f\.txt, byte 10"):
        next(blocks)
