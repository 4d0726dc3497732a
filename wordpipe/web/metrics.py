"""Counts of what a server does, in Prometheus' text format (version 0.0.4)."""

import os
import time
from bisect import bisect_left
from collections import defaultdict
from threading import Lock

from wordpipe import __version__
from wordpipe.web.served import ServedArtifacts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)


class _Histogram:
    """Counts of values up to each of some bounds, for one set of labels."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        total, found = 0, []
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{{labels},le="{bound}"}} {total}')
        return [*found, f"{name}_sum{{{labels}}} {self._sum:.6f}", f"{name}_count{{{labels}}} {total}"]


class Metrics:
    """The counts; `text` shows them."""

    def __init__(self) -> None:
        self.started = time.time()
        self.at_work = 0  # requests
        self.connections = 0
        self.lost_lines = 0  # of the log, which could not be written
        self.cut: dict[str, int] = defaultdict(int)  # reason → connections that were closed
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._seconds: dict[str, _Histogram] = defaultdict(lambda: _Histogram(_SECONDS))
        self._batches: dict[str, _Histogram] = defaultdict(lambda: _Histogram(_BATCHES))
        self._lock = Lock()  # of the batches, which threads add to

    def add_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has been answered."""
        self._requests[route, status] += 1
        self._seconds[route].add(seconds)

    def add_batch(self, name: str, size: int) -> None:
        """Count requests of an artifact that were answered together; called in its thread."""
        with self._lock:
            self._batches[name].add(size)

    def text(self, artifacts: ServedArtifacts) -> str:
        """All counts."""
        found = _Text()
        found.add("wordpipe_info", "gauge", "The version that answers.", [f'{{version="{__version__}"}} 1'])
        found.add("wordpipe_start_time_seconds", "gauge", "When the server began.", [f" {self.started:.3f}"])
        found.add("wordpipe_requests_total", "counter", "Requests answered.", [
            f'{{route="{_label(route)}",status="{status}"}} {count}'
            for (route, status), count in sorted(self._requests.items())
        ])  # fmt: skip
        found.add(
            "wordpipe_requests_at_work", "gauge", "Requests that are being answered or wait.", [f" {self.at_work}"]
        )
        found.add("wordpipe_connections", "gauge", "Connections that are open.", [f" {self.connections}"])
        found.add("wordpipe_connections_cut_total", "counter", "Connections closed on a client.", [
            f'{{reason="{_label(reason)}"}} {count}' for reason, count in sorted(self.cut.items())
        ])  # fmt: skip
        found.add("wordpipe_log_lines_lost_total", "counter", "Lines of the log not written.", [f" {self.lost_lines}"])
        served = artifacts.by_name.values()
        found.add("wordpipe_artifact_swaps_total", "counter", "New generations taken.", [
            f'{{artifact="{_label(one.name)}"}} {one.swaps}' for one in served
        ])  # fmt: skip
        found.add("wordpipe_artifact_stale", "gauge", "1 where a new generation cannot be opened.", [
            f'{{artifact="{_label(one.name)}"}} {int(one.error is not None)}' for one in served
        ])  # fmt: skip
        seconds, batches = "wordpipe_request_seconds", "wordpipe_batch_requests"
        found.head(seconds, "histogram", "Seconds from the headers of a request to its last byte.")
        for route, histogram in sorted(self._seconds.items()):
            found.lines += histogram.lines(seconds, f'route="{_label(route)}"')
        found.head(batches, "histogram", "Requests of one artifact answered together.")
        with self._lock:
            for name, histogram in sorted(self._batches.items()):
                found.lines += histogram.lines(batches, f'artifact="{_label(name)}"')
        if memory := resident_bytes():
            found.add("process_resident_memory_bytes", "gauge", "Memory in use.", [f" {memory}"])
        return "\n".join(found.lines) + "\n"


class _Text:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def head(self, name: str, kind: str, text: str) -> None:
        self.lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

    def add(self, name: str, kind: str, text: str, samples: list[str]) -> None:
        self.head(name, kind, text)
        self.lines += [name + sample for sample in samples]


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def resident_bytes() -> int:
    """The memory that the process holds now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
