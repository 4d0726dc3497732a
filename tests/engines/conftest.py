"""A Ray for the tests of engines."""

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Ray is compared with another program; the few that landing needs say so."""
    for item in items:
        if "ray_here" in getattr(item, "fixturenames", ()) and item.get_closest_marker("landing") is None:
            item.add_marker(pytest.mark.oracle)


@pytest.fixture(scope="package")
def ray_here():
    """A Ray of two processes, for all tests here; they find it running."""
    ray = pytest.importorskip("ray")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), before]))  # noqa: PTH109
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
