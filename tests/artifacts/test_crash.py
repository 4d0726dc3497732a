"""kill -9 at every system call that changes the disk: the artifact is the old one or the new one, whole, and the next run
gives what an undisturbed run gives."""

import json
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.generations import beside, generation_of, publish
from tests.support.tracing import Call, inject, job, mutating_calls, needs_tracer, prepare, run

TWO_RENAMES = "--two-renames"
KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> str:
    """The digest of generation 2."""
    return publish(tmp_path_factory.mktemp("undisturbed") / "corpus", 2)


def check_after_kill(target: Path, undisturbed: str) -> int:
    """The invariants; returns the generation that was found."""
    found = generation_of(target)
    assert found in (1, 2)
    assert publish(target, 2) == undisturbed
    assert generation_of(target) == 2
    assert beside(target) == []
    return found


def sweep(calls: list[Call], folder: Path, undisturbed: str, *options: str) -> list[int]:
    """Kill a job at each of the calls; returns the generations found, in the calls' order."""

    def try_one(number_and_call: tuple[int, Call]) -> int:
        number, call = number_and_call
        target = folder / str(number) / "corpus"
        prepare(target)
        done = inject(call, "signal=KILL", target, 2, *options)
        assert done.returncode == KILLED, f"the kill never came: {call} {done.stderr}"
        return check_after_kill(target, undisturbed)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(try_one, enumerate(calls)))


@pytest.mark.landing
@needs_tracer
def test_kill_at_every_mutating_call(tmp_path, undisturbed):
    calls = mutating_calls()
    found = sweep(calls, tmp_path, undisturbed)
    exchanges = [number for number, call in enumerate(calls) if "RENAME_EXCHANGE" in call.text]
    assert found == sorted(found)  # once it is the new one, it stays the new one
    if exchanges:
        assert found.index(2) == exchanges[-1] + 1  # a kill comes before its call is carried out


@pytest.mark.slow
@needs_tracer
def test_kill_at_every_mutating_call_of_two_renames(tmp_path, undisturbed):
    calls = mutating_calls(TWO_RENAMES)
    start = next(number for number, call in enumerate(calls) if ".old" in call.text)
    found = sweep(calls[start:], tmp_path, undisturbed, TWO_RENAMES)
    assert found[:2] == [1, 2]  # between the renames, the whole new one is preferred
    assert set(found[1:]) == {2}


@pytest.mark.landing
@needs_tracer
def test_a_job_with_more_calls_than_counted_runs_to_its_end(tmp_path, undisturbed):
    for name in ("write", "rmdir"):
        last = [call for call in mutating_calls() if call.name == name][-1]
        target = tmp_path / name / "corpus"
        prepare(target)
        done = inject(Call(name, last.nth + 1, "beyond the last"), "signal=KILL", target, 2)
        assert done.returncode == 0, done.stderr
        assert check_after_kill(target, undisturbed) == 2


@pytest.mark.landing
@pytest.mark.parametrize("options", [(), (TWO_RENAMES,)], ids=["exchange", "two renames"])
def test_kill_at_every_failpoint(tmp_path, undisturbed, options):
    """The same, on machines without a tracer."""
    done = run([sys.executable, "-m", "tests.support.forking", str(tmp_path), *options])
    assert done.returncode == 0, done.stderr
    *killed, last = json.loads(done.stdout)
    assert set(killed) == {KILLED}
    assert last == 0
    assert generation_of(tmp_path / str(len(killed) + 1) / "corpus") == 2
    found = [check_after_kill(tmp_path / str(nth + 1) / "corpus", undisturbed) for nth in range(len(killed))]
    assert len(found) > 15
    assert found == sorted(found)
    assert set(found) == {1, 2}


def test_kill_of_the_very_first_publication(tmp_path, undisturbed):
    target = tmp_path / "corpus"
    done = run(job(target, 2, failpoint="publish.before_exchange:kill"))
    assert done.returncode == KILLED, done.stderr
    assert not target.exists()
    assert len(beside(target)) == 1
    assert publish(target, 2) == undisturbed
    assert beside(target) == []


def test_a_failpoint_that_is_never_passed_changes_nothing(tmp_path):
    done = run(job(tmp_path / "corpus", 1, failpoint="no.such.place:kill"))
    assert done.returncode == 0, done.stderr
    assert generation_of(tmp_path / "corpus") == 1
