"""The planted faults: each can be planted, and changes code that still compiles."""

import ast

import pytest

from tests.support.planted import FAULTS, ROOT, file_of, plant


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_can_be_planted(fault, tmp_path):
    path = file_of(fault)
    copy = tmp_path / path.relative_to(ROOT)
    copy.parent.mkdir(parents=True)
    copy.write_text(path.read_text())
    plant(fault, tmp_path)
    ast.parse(copy.read_text())
    assert copy.read_text() != path.read_text()


def test_they_are_forty_of_different_names():
    assert len({fault.name for fault in FAULTS}) == 40
