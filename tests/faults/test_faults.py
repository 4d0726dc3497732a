"""The fast part of the fault suite, and that the suite finds what is broken.

The whole of it is `make faults`; here some cases of every group run, once, in a process of their own.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import GROUPS, all_cases
from tests.faults.__main__ import _try, _try_all
from tests.faults.case import Case
from tests.faults.forge import forge
from tests.faults.forty import CLASSES, FORTY, PROMISES, listing
from tests.faults.kinds import KINDS
from tests.faults.room import Broken, Done, OutOfTime, Room
from tests.faults.world import ROOT, World
from wordpipe import verify


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> list[Case]:
    with pytest.MonkeyPatch.context() as patch:  # a world sets variables of its own
        for name in ("XDG_CACHE_HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "RUST_BACKTRACE"):
            patch.setenv(name, "")
        return all_cases(World(tmp_path_factory.mktemp("nowhere"), 1, fast=False))


@pytest.mark.slow
@pytest.mark.timeout(900)  # half a minute on two cores that do nothing else
def test_the_fast_part_holds(tmp_path):
    report = tmp_path / "report.jsonl"
    done = subprocess.run(
        # one at once: a second would import everything once more, beside other tests that want the cores
        [sys.executable, "-m", "tests.faults", "--fast", "--jobs", "1", "--json", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert report.exists(), done.stderr
    results = [json.loads(line) for line in report.read_text().splitlines()]
    broken = [f"{result['case']}: {result['reason']}" for result in results if result["verdict"] == "broken"]
    assert not broken, "\n".join(broken)
    assert done.returncode == 0, done.stdout
    assert len(results) > 40


def test_every_group_has_cases_in_the_fast_part(cases):
    assert {case.group for case in cases if case.fast} == set(GROUPS)


def test_every_fault_class_and_promise_is_checked_somewhere(cases):
    covered = {number for case in cases for number in case.covers}
    assert [
        number for number, fault in FORTY.items() if str(number) not in covered and not fault.tests and not fault.note
    ] == []
    assert [number for number in CLASSES if f"C{number}" not in covered] == []
    assert [number for number in PROMISES if f"P{number}" not in covered] == []
    assert list(FORTY) == list(range(1, 41))
    known = {*map(str, FORTY), *KINDS, *(f"C{number}" for number in CLASSES), *(f"P{number}" for number in PROMISES)}
    assert [kind for kind, fault in KINDS.items() if kind not in covered and not fault.tests] == []
    assert covered <= known


def test_the_tests_that_are_named_are_there():
    for fault in (*FORTY.values(), *KINDS.values()):
        for test in fault.tests:
            path, name = test.split("::")
            assert f"def {name}(" in (ROOT / "tests" / path).read_text(), test


def test_the_list_names_all(cases):
    shown = listing(cases)
    assert all(case.name in shown for case in cases)
    assert " 39 the web page (does not apply" in shown


@pytest.fixture
def room(tmp_path) -> Room:
    class Nowhere:
        folder, seed = tmp_path, 1

    return Room(Nowhere(), tmp_path / "room")  # type: ignore[arg-type]


def finished(code: int, err: str = "", out: str = "") -> Done:
    return Done(code, out, err, "wordpipe …")


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (finished(1, "Traceback (most recent call last):\nValueError: x"), "Traceback"),
        (finished(0, out="Traceback (most recent call last):"), "Traceback"),
        (finished(0), "allowed"),
        (finished(4, "wordpipe: error: x"), "allowed"),
        (finished(3), "0 errors"),
        (finished(3, "wordpipe: error: a\nwordpipe: error: b"), "2 errors"),
        (finished(3, "wordpipe: error: " + "x" * 9_000), "characters"),
        (finished(3, "wordpipe: error: something"), "does not name"),
        (Done(-9, "", "", "", seconds=60, hung=True), "had not ended"),
        (Done(-9, "", "", "", peak_mb=2_000, swollen=True), "more than"),
        (finished(-6, "terminate called after throwing std::bad_alloc"), "terminate"),
    ],
)
def test_the_oracle_finds_what_is_said_wrongly(room, done, reason):
    with pytest.raises(Broken, match=reason):
        room.said(done, {3}, names=["a.txt"])


def test_the_oracle_lets_pass_what_is_said_well(room):
    room.said(finished(3, "reading\nwordpipe: error: a.txt: empty\n  hint: x"), {3}, names=["a.txt"])
    room.said(finished(0), {0})


def test_the_oracle_finds_what_changed_or_was_left(room):
    (room.work / "mine.txt").write_text("mine")
    room.hold()
    (room.work / ".out.lock").touch()
    room.as_before()
    (room.work / "new.txt").touch()
    with pytest.raises(Broken, match="left"):
        room.as_before()
    (room.work / "new.txt").unlink()
    (room.work / "mine.txt").write_text("other")
    with pytest.raises(Broken, match="changed"):
        room.as_before()


def test_the_oracle_finds_what_still_runs(room, monkeypatch):
    child = subprocess.Popen(["sleep", "30"], cwd=room.work)
    try:
        monkeypatch.setattr("time.monotonic", iter(range(0, 10_000, 3)).__next__)
        with pytest.raises(Broken, match=str(child.pid)):
            room.nothing_runs()
    finally:
        child.kill()
        child.wait()


class _World:
    """A world without a nursery."""

    def __init__(self) -> None:
        self.nursery, self.folder, self.seed = self, Path(), 1

    def kill_all(self) -> None:
        """There is nothing to kill."""


@pytest.mark.parametrize(
    ("act", "prepared", "verdict", "reason"),
    [
        (lambda room: None, False, "broken", "the fault never happened"),
        (lambda room: None, True, "held", ""),
        (lambda room: setattr(room, "fired", 1), False, "held", ""),
        (lambda room: 1 / 0, True, "broken", "the case itself failed"),
        (lambda room: room.said(finished(1), {0}), True, "broken", "exit 1"),
    ],
)
def test_a_fault_that_never_happened_is_no_success(tmp_path, act, prepared, verdict, reason):
    found = _try(Case("group/name", act, prepared=prepared), "", act, _World(), tmp_path, None)  # type: ignore[arg-type]
    assert found is not None
    assert found.verdict == verdict
    assert found.reason.startswith(reason)


def test_a_forged_artifact_is_whole_to_verify(built, tmp_path):
    forge(
        built / "words", tmp_path / "words", change=lambda body: body["facts"].clear(), files={"tokenizer.json": b"{}"}
    )
    assert verify(tmp_path / "words")["ok"]


@pytest.mark.parametrize(("times", "verdict"), [(1, "held"), (2, "broken")])
def test_what_had_no_time_beside_others_is_tried_again_alone(tmp_path, times, verdict):
    tries = []

    def act(room: Room) -> None:
        tries.append(room)
        room.fired += 1
        if len(tries) <= times:
            raise OutOfTime("it had not ended after 40 s")

    asked = argparse.Namespace(jobs=1, keep=None)
    found = _try_all([Case("group/name", act)], _World(), tmp_path, asked)  # type: ignore[arg-type]
    assert [result.verdict for result in found] == [verdict]
    assert len(tries) == 2
