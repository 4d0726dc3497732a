"""The old place of `tests.support.small_shards`."""

from tests.support.small_shards import SMALL as SMALL
from tests.support.small_shards import tokenize as tokenize
