"""A store for the tests of this folder: moto's server on the loopback, one for all, with a bucket for each test."""

import os
import secrets

import pytest

from tests.support.object_stores import KEYS, REGION, make_bucket, start_proxy, start_server
from wordpipe.storage import buckets


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a store is tried against another program; the few that landing needs say so."""
    for item in items:
        if "store_url" in getattr(item, "fixturenames", ()) and item.get_closest_marker("landing") is None:
            item.add_marker(pytest.mark.oracle)


@pytest.fixture(scope="session")
def store_url():
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'wordpipe[s3]'")
    pytest.importorskip(
        "moto.server", reason="moto is not installed: pip install moto flask flask-cors py-partiql-parser"
    )
    url, stop = start_server()
    yield url
    stop()


@pytest.fixture(autouse=True)
def _no_keys_of_the_user(monkeypatch, tmp_path):
    """Neither the keys nor the cache of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def bucket(store_url, monkeypatch) -> str:
    """The name of an empty bucket of the store that the environment names, with keys."""
    name = f"bucket-{secrets.token_hex(6)}"
    make_bucket(store_url, name)
    for variable, value in {**KEYS, "AWS_ENDPOINT_URL": store_url, "AWS_REGION": REGION}.items():
        monkeypatch.setenv(variable, value)
    return name


@pytest.fixture
def proxy(bucket, store_url, monkeypatch):
    """A server before the store, which fails as a test says; requests are tried again at once."""
    found, stop = start_proxy(store_url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", found.url)
    monkeypatch.setattr(buckets, "PAUSES_S", (0.01, 0.02))
    monkeypatch.setattr(buckets, "TIMEOUT_S", 3.0)
    yield found
    stop()
