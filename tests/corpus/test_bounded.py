"""Parsers in child processes: what one meets costs its file, whatever it is, and the next file is read."""

import io
import os
import signal
import threading

import pytest

from wordpipe.corpus import Bounds, end_children, values_of
from wordpipe.errors import InputError

PARSERS = "tests.support.parsers:"


@pytest.fixture(autouse=True)
def _no_child_is_left():
    yield
    end_children()


def read(parser, data=b"a text", name="a.bin", **given):
    return [*values_of(PARSERS + parser, io.BytesIO(data), name, **given)]


def test_a_parser_reads_a_file_of_the_disk_or_of_the_memory(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"on disk")
    with path.open("rb") as file:
        file.read(3)  # it is read from its beginning
        (found,) = values_of(PARSERS + "says", file, "a.txt", options={"word": "w"})
        assert file.tell() in (0, 3, 7)  # and stays open
    assert (found["text"], found["word"]) == ("on disk", "w")
    assert found["process"] != os.getpid()
    assert read("says", b"in memory")[0]["text"] == "in memory"


def test_one_child_serves_many_files():
    assert len({read("says")[0]["process"] for _ in range(20)}) == 1


def test_a_fault_of_the_file_keeps_the_child():
    (before,) = read("says")
    with pytest.raises(InputError, match="letters are upside down; got ʇxǝʇ") as caught:
        read("refuses", name="b c.bin")
    assert caught.value.hint == "turn 'b c.bin' into 'b c.txt'"
    with pytest.raises(InputError, match="the file is damaged; got KeyError"):
        read("stumbles")
    with pytest.raises(InputError, match="nested too deeply"):
        read("digs")
    assert read("says")[0]["process"] == before["process"]


@pytest.mark.parametrize(
    ("parser", "said"),
    [
        ("crashes", "crashed; got SIGSEGV"), ("leaves", "crashed; got exit code 3"), ("loops", "takes too long"),
        ("eats", "memory"), ("floods", "looks like a bomb"),
    ],
)  # fmt: skip
def test_what_kills_a_parser_costs_its_file_alone(parser, said):
    (before,) = read("says")
    bounds = Bounds(memory_bytes=256 << 20, seconds=1, text_bytes=4 << 20)
    with pytest.raises(InputError, match=said) as caught:
        read(parser, bounds=bounds)
    assert caught.value.where == "a.bin"
    assert read("says")[0]["process"] != before["process"]


def test_a_child_that_does_nothing_is_ended(monkeypatch):
    monkeypatch.setattr("wordpipe.corpus.binary.bounded._SLOWER", 1)
    with pytest.raises(InputError, match="takes too long"):
        read("sleeps", bounds=Bounds(seconds=1))


def test_time_is_that_of_one_file():
    for _ in range(5):  # more than two seconds together
        assert read("works", bounds=Bounds(seconds=1), options={"seconds": 0.6}) == ["done"]


def test_a_larger_file_may_take_more():
    bounds = Bounds(seconds=1, seconds_per_mb=2, text_bytes=100, text_per_byte=3)
    assert (bounds.seconds_of(1000), bounds.seconds_of(3 << 20)) == (1, 5)
    assert (bounds.text_of(1000), bounds.text_of((1 << 20) + 10)) == (100, 130)


def test_a_child_writes_no_file(tmp_path):
    path = tmp_path / "made"
    assert read("writes", options={"path": str(path)}) != ["written"]
    assert not path.exists() or path.stat().st_size == 0


def test_a_child_that_was_killed_while_it_waited_is_replaced():
    process = read("says")[0]["process"]
    os.kill(process, signal.SIGKILL)
    assert read("says")[0]["process"] != process


def test_a_child_that_does_not_start_is_said(monkeypatch):
    monkeypatch.setattr("wordpipe.corpus.binary.bounded._CODE", "import sys; sys.exit(7)")
    with pytest.raises(InputError, match="does not start; got exit code 7"):
        read("says")


def test_what_is_not_read_to_its_end_ends_the_child():
    first = values_of(PARSERS + "many", io.BytesIO(b"line\n" * 100_000), "a.txt")
    assert next(first) == "line\n"
    first.close()
    assert len(read("many", b"a\nb\n")) == 2


def test_threads_have_children_of_their_own():
    found = []

    def some():
        found.extend(read("says", f"{number}".encode())[0]["text"] for number in range(10))

    threads = [threading.Thread(target=some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"{number}" for number in range(10) for _ in range(4))
