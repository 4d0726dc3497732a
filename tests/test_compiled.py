"""Compiled loops: told of once when they are compiled, and not when they were."""

import numba
import numpy as np

from wordpipe.compiled import kernel, load_eight, read_only, telling_of_compilation


def test_compiling_is_told_once_and_only_where_it_happens():
    @numba.njit
    def twice(numbers):
        return numbers[0] * 2

    told = []
    with telling_of_compilation(lambda: told.append("compiling")):
        assert not told
        twice(np.ones(1))
        twice(np.ones(1, np.float32))
    assert told == ["compiling"]
    with telling_of_compilation(lambda: told.append("again")):
        twice(np.ones(1))
    assert told == ["compiling"]


def test_eight_bytes_are_read_from_any_place():
    @kernel
    def at(data, place):
        return load_eight(data, place)

    data = np.arange(20, dtype=np.uint8)
    for place in range(13):
        assert int(at(data, place)) == int.from_bytes(data[place : place + 8].tobytes(), "little")


def test_read_only_arrays_share_memory_and_are_not_written():
    array = np.zeros(3, np.uint8)
    view = read_only(array)
    assert np.shares_memory(view, array)
    assert not view.flags.writeable
    assert array.flags.writeable
    assert read_only(view) is view
