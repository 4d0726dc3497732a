"""What the tests of several stages start from."""

from pathlib import Path

import pytest

import wordpipe
from tests.support.trained import TINY


@pytest.fixture(scope="session")
def base(built, tmp_path_factory) -> Path:
    """A model of two layers, which heads can learn from; never write into it."""
    output = tmp_path_factory.mktemp("base") / "model"
    wordpipe.train_mlm(built / "tokens", output=output, steps=3, **TINY | {"n_layers": 2})
    return output
