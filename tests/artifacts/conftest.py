"""What all tests of the artifacts share."""

import pytest

from wordpipe.artifacts import tables


@pytest.fixture
def small(monkeypatch) -> None:
    """Row groups and parts so small that a few rows make several."""
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 200)
    monkeypatch.setattr(tables, "PART_BYTES", 1500)
