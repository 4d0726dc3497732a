"""Compiled loops: reported once when they are compiled, and not when they were; the mixing hash and UTF-8 in them."""

import os

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kernels import remove_outdated
from wordpipe.compiled import character, kernel, load_eight, mixed_bits, read_only, scrambled, watch_compilation


def test_compiling_is_reported_once_and_only_where_it_happens():
    @numba.njit
    def twice(numbers):
        return numbers[0] * 2

    reported = []
    with watch_compilation(lambda: reported.append("compiling")):
        assert not reported
        twice(np.ones(1))
        twice(np.ones(1, np.float32))
    assert reported == ["compiling"]
    with watch_compilation(lambda: reported.append("again")):
        twice(np.ones(1))
    assert reported == ["compiling"]


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


@kernel
def code_points(data):
    found, at = [], 0
    while at < len(data):
        point, at = character(data, at)
        found.append(point)
    return found


@given(st.text(min_size=1))
def test_characters_are_those_that_python_decodes(text):
    text = text.encode(errors="replace").decode()
    assert list(code_points(np.frombuffer(text.encode(), np.uint8))) == [*map(ord, text)]


def test_the_mixing_hash_is_that_of_splitmix64():
    """The first numbers that the reference implementation (Vigna 2015, splitmix64.c) gives for the seed 0."""
    step, state = 0x9E3779B97F4A7C15, 0
    for expected in (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F):
        state = (state + step) % (1 << 64)
        assert int(scrambled(np.uint64(state))) == expected
        assert mixed_bits(np.array([state, 0], np.uint64)).tolist() == [expected, 0]


def test_kernels_are_outdated_by_the_content_of_what_they_call(tmp_path):
    """An edit below a kernel removes its machine code; other times of files, and other files, do not."""
    package = tmp_path / "package"
    (package / "room" / "__pycache__").mkdir(parents=True)
    for name, text in {
        "compiled": "",
        "room/part": "from package.compiled import inlined",
        "room/loop": "from package.compiled import kernel\nfrom package.room.part import add",
        "room/other": "from package.compiled import kernel",
        "room/plain": "from package.room.part import add",
    }.items():
        (package / f"{name}.py").write_text(text)

    def kept() -> set[str]:
        return {path.name.partition(".")[0] for path in package.rglob("*.nbi")}

    def compile_all() -> None:
        for name in ("loop", "other", "part"):
            (package / "room" / "__pycache__" / f"{name}.run-1.py311.nbi").touch()

    compile_all()
    assert remove_outdated(package) == [
        "package.compiled",
        "package.room.loop",
        "package.room.other",
        "package.room.part",
    ]
    assert kept() == set()  # nothing is remembered yet: compiled of unknown contents
    compile_all()
    for path in package.rglob("*.py"):
        os.utime(path)
    assert remove_outdated(package) == []
    (package / "room" / "part.py").write_text("from package.compiled import inlined  # edited")
    assert remove_outdated(package) == ["package.room.loop", "package.room.part"]
    assert kept() == {"other"}
