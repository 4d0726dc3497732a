"""Compiled loops over texts: the sums of their rows, and their keys."""

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, kernel, load_eight


@kernel
def sum_texts(
    table_VD: npt.NDArray[np.float32],
    ids: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    first: int,
    last: int,
    sums_ND: npt.NDArray[np.float32],
) -> None:
    """Write the sums of the rows of texts (compiled kernel); negative ids are passed over.

    Args:
        table_VD: the rows.
        ids: of all texts.
        offsets: (N + 1,) where each text begins in `ids`.
        first: the first text.
        last: the one after the last.
        sums_ND: out.
    """
    dim = table_VD.shape[1]
    for text in range(first, last):
        total = sums_ND[text]
        total[:] = np.float32(0)
        for at in range(offsets[text], offsets[text + 1]):
            if ids[at] >= 0:
                row = table_VD[ids[at]]
                for d in range(dim):
                    total[d] += row[d]


@kernel
def unit_texts(
    table_VD: npt.NDArray[np.float32],
    ids: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    unit_ND: npt.NDArray[np.float32],
    norms_N: npt.NDArray[np.float32],
) -> None:
    """Write the sums of all texts at length 1, zero for an empty one (compiled kernel).

    One pass while a sum lies in the cache: by NumPy the sum, its square, the root and the division took a third of the time of
    encoding.
    """
    dim = table_VD.shape[1]
    for text in range(len(norms_N)):
        sum_texts(table_VD, ids, offsets, text, text + 1, unit_ND)
        total = unit_ND[text]
        square = np.float32(0)
        for d in range(dim):
            square += total[d] * total[d]
        norms_N[text] = np.sqrt(square)
        if square > 0:
            scale = np.float32(1) / norms_N[text]
            for d in range(dim):
                total[d] *= scale


@inlined
def _round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Do one round of SipHash (compiled kernel)."""
    a += b
    c += d
    b = (b << np.uint64(13) | b >> np.uint64(51)) ^ a
    d = (d << np.uint64(16) | d >> np.uint64(48)) ^ c
    a = (a << np.uint64(32) | a >> np.uint64(32)) + d
    c += b
    d = (d << np.uint64(21) | d >> np.uint64(43)) ^ a
    b = (b << np.uint64(17) | b >> np.uint64(47)) ^ c
    return a, b, c << np.uint64(32) | c >> np.uint64(32), d


@kernel
def hash_texts(
    data_B: npt.NDArray[np.uint8],
    starts_N1: npt.NDArray[np.int64],
    secret: npt.NDArray[np.uint64],
    keys_N2: npt.NDArray[np.uint64],
) -> None:
    """Write the keys of texts (compiled kernel); see `text_keys`.

    Args:
        data_B: all texts.
        starts_N1: where each begins, and where the last ends.
        secret: (2,).
        keys_N2: out.
    """
    for text in range(len(keys_N2)):
        # the state begins with the secret
        at, stop = starts_N1[text], starts_N1[text + 1]
        last = np.uint64(stop - at) << np.uint64(56)
        a, b = secret[0] ^ np.uint64(0x736F6D6570736575), secret[1] ^ np.uint64(0x646F72616E646F6D ^ 0xEE)
        c, d = secret[0] ^ np.uint64(0x6C7967656E657261), secret[1] ^ np.uint64(0x7465646279746573)
        # eight bytes at a time, the last ones with the length: two rounds each
        while at <= stop:
            if stop - at >= 8:
                word = load_eight(data_B, at)
            else:
                word = last
                for n in range(stop - at):
                    word |= np.uint64(data_B[at + n]) << np.uint64(8 * n)
            d ^= word
            a, b, c, d = _round(a, b, c, d)
            a, b, c, d = _round(a, b, c, d)
            a ^= word
            at += 8
        # four rounds for each half of the key
        for half in range(2):
            if half:
                b ^= np.uint64(0xDD)
            else:
                c ^= np.uint64(0xEE)
            for _ in range(4):
                a, b, c, d = _round(a, b, c, d)
            keys_N2[text, half] = a ^ b ^ c ^ d
