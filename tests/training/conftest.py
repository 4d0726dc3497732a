"""One nursery for all tests of this folder: it takes seconds to start."""

import pytest

from tests.support.training_nursery import Nursery


@pytest.fixture(scope="session")
def nursery():
    with Nursery() as nursery:
        yield nursery
