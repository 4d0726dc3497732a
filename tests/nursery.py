"""The old place of `tests.support.nursery`."""

from tests.support.nursery import Child as Child
from tests.support.nursery import Nursery as Nursery
