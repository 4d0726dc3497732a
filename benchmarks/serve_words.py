"""A question over HTTP: milliseconds that `wordpipe serve` takes over 100,000 short records, by words, on one kept connection.

    python benchmarks/serve_words.py --text wiki/train.txt            writes benchmarks/results/serve_words.json

The records are those of `words_search.py`, the first sentences of 40 to 160 characters, and so are the 200 questions of two to
four words. A server in a process of its own answers them one after the other, each twice: as lines, as one JSON object, and as
the page asks while somebody types (`prefix` and passages), where the last two letters of the question are missing. `ms` is the
time until the whole answer was read; `cpu_ms` is the processor time of the server for a question, which other work on the
machine does not change. Beside it stands SQLite's FTS5 in the process that asks (`peers/words_sides.py`), without HTTP.

Exit code 0: a question takes the server at most 5 ms of the processor, as lines and as one object.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

import numpy as np
from tokens import machine
from words_search import MOST_MS, Titled, questions_of, records_of, run_side

import wordpipe

RESULTS = Path(__file__).parent.absolute() / "results"
WARM_UP, REPEATS = 50, 2
WAYS: dict[str, dict[str, Any]] = {
    "lines": {},
    "json": {"format": "json"},
    "page": {"format": "json", "prefix": 1, "passage": 320},
}


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="a text with a paragraph in each line")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "serve_words.json")
    args = parser.parse_args()
    titled = records_of(args.text, args.records)
    texts = [f"{title}\n{text}" for title, text in titled]
    questions = questions_of(texts)
    found: dict[str, Any] = {"records": len(titled), "questions": len(questions), "ways": {}}
    with tempfile.TemporaryDirectory(prefix="wordpipe-") as scratch:
        index = made_index(titled, Path(scratch))
        command = [sys.executable, "-m", "wordpipe", "serve", str(index), "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            assert server.stdout is not None
            address = str(json.loads(server.stdout.readline())["url"]).partition("//")[2]
            for name, params in WAYS.items():
                found["ways"][name] = asked(address, server.pid, questions, params)
                print(name, found["ways"][name], flush=True)
            server.terminate()
        found["fts5_in_process"] = run_side("fts5", texts, questions, Path(scratch), answers=False)
        print("fts5", found["fts5_in_process"], flush=True)
    found["machine"] = machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)}
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if max(found["ways"][name]["cpu_ms"] for name in ("lines", "json")) <= MOST_MS else 1


def made_index(titled: Titled, folder: Path) -> Path:
    """Return an index of the words of some records."""
    with (folder / "records.jsonl").open("w", encoding="utf-8") as file:
        for title, text in titled:
            file.write(json.dumps({"title": title, "text": text}, ensure_ascii=False) + "\n")
    corpus = wordpipe.ingest(folder / "records.jsonl", output=folder / "corpus", valid=0, deduplicate=False)
    return Path(wordpipe.index(corpus, output=folder / "index", unit="document", endings="remove").path)


def asked(address: str, server: int, questions: list[str], params: dict[str, Any]) -> dict[str, float]:
    """Return what questions take, one after the other, on one connection."""
    connection = http.client.HTTPConnection(address)
    typed = [question[:-2] if "prefix" in params and len(question) > 4 else question for question in questions]
    paths = [f"/search?{urlencode({'q': text, 'k': 10, **params})}" for text in typed if text.strip()]
    times, before = [], 0.0
    for number, path in enumerate([*paths[:WARM_UP], *paths * REPEATS]):
        if number == WARM_UP:
            before = cpu_s(server)
        begun = perf_counter()
        connection.request("GET", path)
        reply = connection.getresponse()
        reply.read()
        times.append(1000 * (perf_counter() - begun))
        if reply.status != 200:
            raise SystemExit(f"{path}: {reply.status}")
    connection.close()
    used = 1000 * (cpu_s(server) - before) / (len(times) - WARM_UP)
    p50, p95 = np.percentile(times[WARM_UP:], [50, 95]).tolist()
    return {"ms": round(p50, 2), "ms_p95": round(p95, 2), "cpu_ms": round(used, 2)}


def cpu_s(process: int) -> float:
    """Return the seconds of the processor that a process has used (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    raise SystemExit(main())
