"""Counts of what a server does, for Prometheus; a registry of its own for each server."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wordpipe import __version__
from wordpipe.web.served_artifacts import ServedArtifacts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The counts of a server; `text` writes all."""

    def __init__(self) -> None:
        self.started = time.time()
        self.at_work = 0  # requests
        self.connections = 0
        self.lost_lines = 0  # of the log, which could not be written
        self.cut: dict[str, int] = defaultdict(int)  # reason → connections that were closed
        self._registry = registry = CollectorRegistry()
        Info("wordpipe", "The version of wordpipe that runs.", registry=registry).info({"version": __version__})
        for name, text, value in (
            ("start_time_seconds", "Start time of the server as Unix time, in seconds.", lambda: self.started),
            ("requests_at_work", "Requests that are being answered or are waiting.", lambda: self.at_work),
            ("connections", "Open connections.", lambda: self.connections),
        ):
            Gauge(f"wordpipe_{name}", text, registry=registry).set_function(value)
        self._requests = Counter("wordpipe_requests", "Requests answered.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "wordpipe_request_seconds", "Seconds from the headers of a request to the last byte of the answer.", ["route"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._batches = Histogram(
            "wordpipe_batch_requests", "Number of requests in a batch that an artifact answers together.", ["artifact"],
            buckets=_BATCHES, registry=registry,
        )  # fmt: skip
        ProcessCollector(registry=registry)  # memory, time and descriptors of the process, where the system says them

    def add_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has been answered."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def add_batch(self, name: str, size: int) -> None:
        """Count requests of an artifact that were answered together; called in its thread."""
        self._batches.labels(name).observe(size)

    def text(self, artifacts: ServedArtifacts) -> bytes:
        """Return all metrics of the server in Prometheus' text format."""
        return generate_latest(_Together(self._registry.collect, partial(self._kept, artifacts)))

    def _kept(self, artifacts: ServedArtifacts) -> Iterator[Metric]:
        """Yield the metrics that are counted elsewhere: connections, lost lines, and generations."""
        yield CounterMetricFamily(
            "wordpipe_log_lines_lost", "Log lines that could not be written.", value=self.lost_lines
        )
        cut = CounterMetricFamily(
            "wordpipe_connections_cut", "Connections that the server closed, by reason.", labels=["reason"]
        )
        for reason, count in sorted(self.cut.items()):
            cut.add_metric([reason], count)
        swaps = CounterMetricFamily(
            "wordpipe_artifact_swaps",
            "Number of times that a newer version of the artifact was opened.",
            labels=["artifact"],
        )
        text = "1 if the newest version of the artifact cannot be opened, otherwise 0."
        stale = GaugeMetricFamily("wordpipe_artifact_stale", text, labels=["artifact"])
        for one in artifacts.by_name.values():
            swaps.add_metric([one.name], one.swaps)
            stale.add_metric([one.name], one.error is not None)
        yield from (cut, swaps, stale)


class _Together(Collector):
    """A collector of the metrics of several functions."""

    def __init__(self, *parts: Callable[[], Iterable[Metric]]) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of all functions."""
        return chain.from_iterable(part() for part in self._parts)
