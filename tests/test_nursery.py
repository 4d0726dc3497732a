"""The server that processes are forked from: it outlives whatever they do."""

import signal

import pytest

from tests.support.nursery import Nursery


@pytest.fixture(scope="module")
def nursery():
    with Nursery(()) as made:
        yield made


def test_a_process_that_never_ends_is_killed(nursery):
    child = nursery.start("signal:pause")
    assert child.wait(seconds=0.1) == -signal.SIGKILL
    assert child.signal(signal.SIGTERM) == -signal.SIGKILL  # nobody else is sent it
    assert not nursery.alive


def test_what_fails_is_told_and_the_next_one_starts(nursery):
    failed = nursery.start("builtins:int", "three")
    assert failed.wait() == 1
    assert "ValueError" in failed.err.read_text()
    assert nursery.start("builtins:int", "3").wait() == 3
