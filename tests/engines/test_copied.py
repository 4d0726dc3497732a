"""A copy of this process: it gives what the work gives here, and whatever becomes of it, the work is done.

All in a process of its own: pytest has threads, which no copy has.
"""

import os
import subprocess
import sys

import pytest

BEGIN = """
import os, signal, sys, time
import pyarrow as pa
from wordpipe import runtime
from wordpipe.engines import CopiedProcess
runtime._ANSWERING.set()
os.sched_getaffinity = lambda pid: {0, 1}
batches = [pa.record_batch({"n": pa.array(range(first, first + 100_000))}) for first in range(0, 2_000_000, 100_000)]
def sums(batches):
    yield "sums", repr([sum(batch["n"].to_pylist()) for batch in batches]).encode()
    yield "nothing", b""
"""

EQUAL = """
with CopiedProcess.of(sums) as copy:
    for batch in batches:
        copy.send(batch)
    assert copy.result() == dict(sums(batches))
with CopiedProcess.of(sums) as copy:
    assert copy.result() == {"sums": b"[]", "nothing": b""}
"""

DEAD = """
def killed(batches):
    next(batches)
    yield "first", b"1" * 1_000_000
    os.kill(os.getpid(), signal.SIGKILL)
def wrong(batches):
    yield "first", b"1"
    raise ValueError("is not printed")
for work in (killed, wrong):
    with CopiedProcess.of(work) as copy:
        for batch in batches * 2:  # more than a pipe holds
            copy.send(batch)
        assert copy.result() is None
"""

LEFT = """
def endless(batches):
    next(batches)
    while True:
        time.sleep(1)
    yield "never", b""
try:
    with CopiedProcess.of(endless) as copy:
        for batch in batches[:5]:
            copy.send(batch)
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
"""

ALONE = """
read, write = os.pipe()
def finds_no_file(batches):
    os.set_inheritable(write, True)
    yield "never", b""
with CopiedProcess.of(finds_no_file) as copy:
    assert copy.result() is None
"""

END = """
try:
    os.waitpid(-1, 0)
    raise SystemExit("a copy is left")
except ChildProcessError:
    print("held")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="on Linux alone a process is copied")
def test_a_copy_gives_what_the_work_gives_or_nothing_and_leaves_nothing():
    script = "".join([BEGIN, EQUAL, DEAD, LEFT, ALONE, END])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "held\n", "")


def test_a_program_that_imports_us_is_not_copied():
    from wordpipe.engines import CopiedProcess

    before = os.getpid()
    assert CopiedProcess.of(lambda batches: iter(())) is None
    assert os.getpid() == before
