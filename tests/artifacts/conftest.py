"""What all tests of the artifacts share."""

import os

import pytest

from wordpipe.artifacts import tables


@pytest.fixture(autouse=True, scope="module")
def _no_waiting():
    """Only a loss of power tells whether data has reached the disk; that it is forced there is tested by the calls made.

    Jobs that run as programs of their own wait for the disk as they always do.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture
def small(monkeypatch) -> None:
    """Row groups and parts so small that a few rows make several."""
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 200)
    monkeypatch.setattr(tables, "PART_BYTES", 1500)
