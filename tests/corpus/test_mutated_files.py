"""Mutated files: each is read or refused by name, in its time, and the process that asked goes on."""

import os

import pytest

from tests.support.mutated import added, try_all


def test_some_mutated_files_are_read_or_refused(tmp_path):
    outcomes, longest = try_all(120, tmp_path, seed=1)
    assert outcomes.total() == 120
    figures = added(added({}, outcomes, longest, 1), outcomes, longest, 3)
    assert (figures["files"], figures["read"] + figures["refused"], figures["seeds"]) == (240, 240, [1, 3])
    assert 0 < figures["refused"] < 240


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_five_thousand_mutated_files_are_read_or_refused(tmp_path):
    count = int(os.environ.get("WORDPIPE_MUTATIONS", "5000"))
    outcomes, _ = try_all(count, tmp_path, seed=2)
    assert outcomes.total() == count
