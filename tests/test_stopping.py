"""Stop signals in programs and notebooks: Ctrl-C is a KeyboardInterrupt, and handlers are as they were before."""

import os
import signal
import threading

import pytest

import wordpipe
from wordpipe.runtime import Stopped, StopRequest, stop_signal

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", STOPS)
def test_only_ctrl_c_is_a_keyboard_interrupt(number):
    with stop_signal() as flag:
        os.kill(os.getpid(), number)
        with pytest.raises(Stopped) as caught:
            flag.raise_if_set("there")
    assert isinstance(caught.value, KeyboardInterrupt) == (number == signal.SIGINT)
    assert (caught.value.signum, caught.value.saved) == (number, "there")
    assert not isinstance(caught.value, Exception)
    assert not isinstance(StopRequest(number), KeyboardInterrupt)


def test_handlers_are_put_back_and_the_second_signal_is_the_programs_own():
    heard, before = [], {number: signal.getsignal(number) for number in STOPS}
    try:
        signal.signal(signal.SIGTERM, lambda *_: heard.append("own"))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        own = {number: signal.getsignal(number) for number in STOPS}
        with stop_signal() as flag:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
            assert (flag.signum, heard) == (signal.SIGTERM, [])
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == ["own"]
        assert {number: signal.getsignal(number) for number in STOPS} == own
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_other_threads_set_no_handlers():
    found = []

    def work():
        with stop_signal() as flag:
            found.append((signal.getsignal(signal.SIGINT), flag.signum))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert found == [(before, None)]


def test_a_training_that_is_interrupted_is_saved_and_goes_on(built, tmp_path):
    """As a notebook does it: the cell is interrupted, and run again."""
    before, notes = signal.getsignal(signal.SIGINT), []

    def interrupt(progress):
        notes.append(progress.note or "")
        if progress.phase == "training" and progress.done and not any("stopping" in note for note in notes):
            os.kill(os.getpid(), signal.SIGINT)

    def train():
        shape = {"dim": 32, "n_layers": 1, "n_heads": 1, "ffn_dim": 64, "seq_len": 32, "threads": 1, "device": "cpu"}
        run = wordpipe.RunOptions(report=interrupt)
        wordpipe.train_mlm(built / "tokens", output=tmp_path / "model", run=run, steps=10**6, dtype="float32", **shape)

    for again in (False, True):
        notes.clear()
        with pytest.raises(KeyboardInterrupt) as caught:
            train()
        assert caught.value.saved
        assert signal.getsignal(signal.SIGINT) is before
        assert any("continuing a stopped run" in note for note in notes) == again
