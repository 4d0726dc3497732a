"""`wordpipe serve`: its start, its memory, answers under load, hostile requests.

    python benchmarks/serve.py                                  1,000,000 rows of width 384; needs 8 GB in the scratch folder
    python benchmarks/serve.py --n 100000 --scratch /tmp/serve  what was made there is used again
    python benchmarks/serve.py --n 20000 --hostile 100000 --out result.json
    python benchmarks/serve.py --before FOLDER --hostile 0      beside an earlier version, of which FOLDER is a checkout

Made by chance are texts, vectors around centres, and a table of word vectors to ask with (see index_update.py). Eight
connections of `wrk` ask one query after the other, each another one: by vectors alone, by words and vectors with feedback (the
share of the vectors is given, as vectors made by chance get none by themselves), and, beside them, a plain server of twenty
lines over the same FAISS index (peers/faiss_server.py). All of it is on 127.0.0.1, and wrk takes its share of the same cores.
`processor_ms` is the processor time of the server for an answer, which other programs disturb less. Values of fields are
counted within the answers of a question (`facets`) over an index of its own. Starts, of servers over three sizes, last until
the server says its address; memory is looked at then, and after the load, and of it `file_bytes` are pages of files, most of
them of libraries, which other processes share. With an earlier version, both take turns, round by round; a figure is the
median of the rounds. Hostile requests are damaged bodies, headers, paths and parameters on raw connections, by four
processes, beside clients that send a letter a second; each must end in an answer that is not 500 or in a closed connection,
and the server must answer afterwards. `load_before` is the mean number of processes that wanted to run in the minute before:
above the number of cores the times say little. Exit code 0: p50 is below 30 ms, by vectors p95 below 100 ms, memory grows by
less than 5 %, and no hostile request ends in 500, as far as they were measured. With `--hostile 0`, growth and hostile
requests are not measured, with `--rounds 0` they alone are; what the file has of the others stays.
"""

import argparse
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from filters import made_fields
from index_update import made_encoder, made_texts, write_sentences
from peers.measure import versions
from search import RESULTS, made_vectors
from tokens import machine

import wordpipe

QUERIES, WARM_UP = 5_000, 300
_ATTACKERS, _SLOW = 4, 20  # processes that send hostile requests one after the other, and slow connections beside them
P50_MS, P95_MS, GROWTH = 30, 100, 0.05
WAYS = {"vectors": "&k=10&mode=dense", "hybrid": "&k=10&mode=hybrid&weight=0.4"}
_LUA = """
local paths = {}
for line in io.lines("PATHS") do paths[#paths + 1] = line end
local at = 0
request = function() at = at % #paths + 1; return wrk.format("GET", paths[at]) end
done = function(summary, latency)
  local e, ms = summary.errors, function(p) return latency:percentile(p) / 1000 end
  io.write(string.format("RESULT %d %.6f %.3f %.3f %.3f %.3f %d\\n", summary.requests, summary.duration / 1e6,
    ms(50), ms(95), ms(99), latency.max / 1000, e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def made_index(folder: Path, n: int, dim: int, kind: str, *, fields: bool = False) -> Path:
    """An index over texts and vectors made by chance, with fields where these are asked for; what is there is used again."""
    path = folder / f"index-{n}-{dim}-{kind}{'-fields' if fields else ''}"
    if not (path / "manifest.json").is_file():
        encoder, vectors_ND = made_encoder(folder, dim), made_vectors(n, dim, 1)
        columns = made_fields(n) if fields else None
        write_sentences(folder / "sentences", np.arange(n), vectors_ND, made_texts(n, 1), encoder, columns)
        wordpipe.index(folder / "sentences", output=path, type=kind)
    return path


def paths_of_queries(options: str, endpoint: str = "/search") -> list[str]:
    """So many different queries of five words."""
    words = " ".join(made_texts(QUERIES // 2, 7)).split()
    random.Random(1).shuffle(words)
    return [f"{endpoint}?q={'+'.join(words[first : first + 5])}{options}" for first in range(0, 5 * QUERIES, 5)]


class Running:
    """A server in a process of its own, bound to 127.0.0.1."""

    def __init__(self, command: list[str], port: int | None, version: Path | None = None) -> None:
        place, begun = os.environ if version is None else {**os.environ, "PYTHONPATH": str(version)}, time.monotonic()
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent, env=place)
        assert self.child.stdout is not None
        if port is None:
            self.url = str(json.loads(self.child.stdout.readline())["url"])
            self.start = {
                "processor_s": round(self.processor(), 2), "seconds": round(time.monotonic() - begun, 2), **self.memory(),
            }  # fmt: skip
            return
        self.url = f"http://127.0.0.1:{port}"
        while self.child.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.2)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.child.terminate()
        self.child.wait(60)

    def processor(self) -> float:
        """Seconds of processor time of all its threads so far."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> dict[str, int]:
        """Bytes in use now, and how many of these are pages of files."""
        pages = [int(field) for field in Path(f"/proc/{self.child.pid}/statm").read_text().split()]
        return dict(
            zip(("memory_bytes", "file_bytes"), (n * os.sysconf("SC_PAGE_SIZE") for n in pages[1:3]), strict=True)
        )


def load(server: Running, paths: list[str], clients: int, seconds: int, scratch: Path) -> dict[str, float]:
    """Ask with so many connections for so long: requests per second and milliseconds."""
    if shutil.which("wrk") is None:
        raise SystemExit("this needs wrk: apt-get install wrk")
    (scratch / "paths.txt").write_text("\n".join(paths) + "\n")
    (scratch / "ask.lua").write_text(_LUA.replace("PATHS", str(scratch / "paths.txt")))
    command = [
        "wrk",
        "-t1",
        f"-c{clients}",
        f"-d{seconds}s",
        "--timeout",
        "30s",
        "-s",
        str(scratch / "ask.lua"),
        server.url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"^RESULT (.+)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    requests, took, p50, p95, p99, most, errors = map(float, found[1].split())
    return {
        "requests": int(requests), "requests_per_s": round(requests / took, 1), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99,
        "max_ms": most, "errors": int(errors),
    }  # fmt: skip


def ask(url: str, path: str) -> bytes:
    """The body of one answer."""
    with urlopen(url + path, timeout=60) as reply:
        found: bytes = reply.read()
    return found


def measured(server: Running, paths: list[str], args: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Milliseconds and memory of one server."""
    for path in paths[:WARM_UP]:
        ask(server.url, path)
    waiting, before = round(os.getloadavg()[0], 2), server.processor()
    figures = load(server, paths[WARM_UP:], args.clients, args.seconds, scratch)
    taken = round(1e3 * (server.processor() - before) / max(1, figures["requests"]), 2)
    return {**figures, "processor_ms": taken, **server.memory(), "load_before": waiting}


def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure over some rounds."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def in_turns(versions: dict[str, Path | None], args: argparse.Namespace, scratch: Path) -> dict[str, dict[str, Any]]:
    """What each version takes to start and to answer."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in versions}
    indexes = {n: made_index(scratch, n, args.dim, args.type) for n in sorted({20_000, 100_000, args.n})}
    with_fields = made_index(scratch, args.facets, args.dim, args.type, fields=True)
    for _, (name, version) in product(range(args.rounds), versions.items()):
        for n, index in indexes.items():
            with Running(ours(index), None, version) as server:
                found[name].setdefault(f"start_{n}", []).append(server.start)
                for way, options in WAYS.items() if n == args.n else ():
                    figures = measured(server, paths_of_queries(options), args, scratch)
                    found[name].setdefault(way, []).append(figures)
        with Running(ours(with_fields), None, version) as server:
            figures = measured(server, paths_of_queries("", "/facets"), args, scratch)
            found[name].setdefault("facets", []).append(figures)
        print(name, json.dumps({way: rounds[-1] for way, rounds in found[name].items()}), flush=True)
    sizes = {f"start_{n}": {"disk_bytes": bytes_of(index)} for n, index in indexes.items()}
    return {
        name: {way: medians(some) | sizes.get(way, {}) for way, some in ways.items()} for name, ways in found.items()
    }


def bytes_of(folder: Path) -> int:
    """Bytes of an artifact on the disk."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def ours(index: Path) -> list[str]:
    """The command that serves an index."""
    options = ["--port", "0", "--json", "-q", "--no-verify"]
    return [sys.executable, "-m", "wordpipe", "serve", str(index.absolute()), *options]


def steady_memory(server: Running, requests: int, scratch: Path, args: argparse.Namespace) -> dict[str, int]:
    """Memory before and after at least so many requests of several kinds."""
    kinds = (
        "&k=10&mode=dense",
        "&k=10&mode=hybrid&explain=1&format=json&passage=200",
        "&k=10&mode=lexical&where=line+<+5000",
    )
    paths = [path for some in zip(*(paths_of_queries(options) for options in kinds), strict=True) for path in some]
    asked, before = 0, 0
    while asked < requests:
        asked += int(load(server, paths, args.clients, 10, scratch)["requests"])
        before = before or server.memory()["memory_bytes"]
    return {"requests": asked, "before_bytes": before, "after_bytes": server.memory()["memory_bytes"]}


def hostile_request(random_: random.Random) -> bytes:
    """A request that is damaged in one of many ways."""
    noise = random_.randbytes(random_.randrange(1, 200))
    paths = ("/search", "/v1/embeddings", "/embed", "/v1/vector_stores/index/search", "/similar", "/facets", "/")
    path = random_.choice(paths)
    body = random_.choice([
        noise, b"[" * 5_000, b'{"input": ' + noise + b"}", b'{"query": "a", "filters": {"type": "eq", "key": "x"}}',
        b'{"input": ["' + b"a" * random_.randrange(5_000) + b'"]}', b'{"inputs": ' + b'{"a":' * 300 + b"1",
    ])  # fmt: skip
    query = "".join(random_.choice("qk=&%'\"();/.\\0123456789abcé+-") for _ in range(random_.randrange(60)))
    host = b"Host: 127.0.0.1\r\n"
    kind = random_.randrange(8)
    if kind == 0:
        return noise + b"\r\n\r\n"
    if kind == 1:
        return f"GET {path}?{query} HTTP/1.1\r\n".encode() + host + b"Connection: close\r\n\r\n"
    if kind == 2:
        return f"GET {path}/../..//%2e%2e/etc/passwd%00 HTTP/1.1\r\n".encode() + host + b"Connection: close\r\n\r\n"
    if kind == 3:
        return f"GET {path} HTTP/1.1\r\n".encode() + host + b"X: " + b"a" * random_.randrange(60_000) + b"\r\n\r\n"
    if kind == 4:
        return f"GET {path}?q=a HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode()
    if kind == 5:
        head = f"POST {path} HTTP/1.1\r\nContent-Length: 99999999999\r\nConnection: close\r\n"
        return head.encode() + host + b"\r\n" + noise
    length = len(body) + random_.choice([0, 0, 0, -3])
    head = f"POST {path} HTTP/1.1\r\nContent-Length: {max(0, length)}\r\nConnection: close\r\n".encode()
    return head + host + b"\r\n" + body


def hostile(server: Running, requests: int) -> dict[str, Any]:
    """How hostile requests ended, by status; `closed` where the connection was closed without an answer, `hung` without end.

    Beside them connections stay open that send a header's letter a second: how long the server let the oldest of them live.
    """
    port, begun, ended = int(server.url.rpartition(":")[2]), time.monotonic(), threading.Event()
    with ProcessPoolExecutor(_ATTACKERS) as pool, ThreadPoolExecutor(_SLOW) as slow:
        lives = [slow.submit(slow_client, port, ended) for _ in range(_SLOW)]
        parts = [len(range(part, requests, 10 * _ATTACKERS)) for part in range(10 * _ATTACKERS)]
        found = Counter[str]()
        for some in pool.map(attack, [port] * len(parts), parts, range(len(parts))):
            found.update(some)
        ended.set()
    ask(server.url, "/health")
    seconds = time.monotonic() - begun
    return {
        "requests": found.total(), "requests_per_s": round(found.total() / seconds, 1), "ended": dict(sorted(found.items())),
        "slow_clients": _SLOW, "slow_clients_longest_s": round(max(one.result() for one in lives), 1),
        "memory_bytes": server.memory()["memory_bytes"],
    }  # fmt: skip


def attack(port: int, requests: int, seed: int) -> Counter[str]:
    """Send so many hostile requests, each on a connection of its own; how they ended."""
    random_, found = random.Random(seed), Counter[str]()
    for _ in range(requests):
        answer = b""
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(hostile_request(random_))
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(64)
        except TimeoutError:
            answer = b"         hung"
        except OSError:
            pass
        found[answer[9:13].decode("latin-1").strip() or "closed"] += 1
    return found


def slow_client(port: int, ended: threading.Event) -> float:
    """Send a letter of a header a second, on one connection after the other; seconds that the longest was let live."""
    longest = 0.0
    while not ended.is_set():
        begun = time.monotonic()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
            while not ended.wait(1):
                connection.sendall(b"a")
                longest = max(longest, time.monotonic() - begun)
    return longest


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000, help="rows")
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--type", default="auto", help="of the index")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=20, help="of each load")
    parser.add_argument("--rounds", type=int, default=3, help="of starts and loads")
    parser.add_argument("--facets", type=int, default=200_000, help="rows in which values of fields are counted")
    parser.add_argument(
        "--before", type=Path, help="a checkout of an earlier version, to be measured in turns with this one"
    )
    parser.add_argument("--requests", type=int, default=10_000, help="over which memory is looked at")
    parser.add_argument("--hostile", type=int, default=100_000, help="hostile requests")
    parser.add_argument("--scratch", type=Path, help="folder in which what is made stays")
    parser.add_argument("--out", type=Path, default=RESULTS / "serve.json")
    return parser.parse_args()


def main() -> int:
    """Measure, write the figures, and say whether they are good."""
    args = parsed()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = args.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        index = made_index(scratch, args.n, args.dim, args.type)
        facts = json.loads((index / "manifest.json").read_text())["facts"]
        about = {"n": args.n, "dim": args.dim} | {name: facts[name] for name in ("type", "search_width", "refine")}
        is_part = args.out.is_file() and not (args.hostile and args.rounds)
        found: dict[str, Any] = (json.loads(args.out.read_text()) if is_part else {}) | {
            "machine": machine(), "versions": versions(["faiss-cpu", "starlette", "uvicorn", "numpy"]), "index": about,
            "clients": args.clients, "seconds": args.seconds,
        }  # fmt: skip

        def keep(name: str, figures: dict[str, Any]) -> None:
            found[name] = figures
            args.out.write_text(json.dumps(found, indent=1) + "\n")
            print(name, json.dumps(figures), flush=True)

        if args.rounds:
            found |= {"facets_n": args.facets, "rounds": args.rounds}
            port = _free_port()
            plain = [sys.executable, "-m", "peers.faiss_server", str(index.absolute()), str(port)]
            with Running(plain, port) as server:
                keep("plain_faiss_server", measured(server, paths_of_queries(""), args, scratch))
            before = {} if args.before is None else {"before": args.before.absolute()}
            for name, ways in in_turns({**before, "now": None}, args, scratch).items():
                keep(name, ways)
        if args.hostile:
            with Running(ours(index), None) as server:
                keep("memory", steady_memory(server, args.requests, scratch, args))
                keep("hostile", hostile(server, args.hostile))
    memory, ended = found.get("memory"), found.get("hostile", {}).get("ended", ())
    grown = memory["after_bytes"] / memory["before_bytes"] - 1 if memory else 0.0
    bad = {status for status in ended if status == "hung" or (status.startswith("50") and status != "503")}
    good = grown < GROWTH and not bad
    if ways := found.get("now"):
        by_vectors, default = ways["vectors"], ways["hybrid"]
        good &= max(by_vectors["p50_ms"], default["p50_ms"]) < P50_MS and by_vectors["p95_ms"] < P95_MS
    return 0 if good else 1


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
