"""Search by words against SQLite's FTS5, bm25s and tantivy, on the same texts in one run: time, disk and nDCG@10.

    python benchmarks/words_search.py --data DIR
    python benchmarks/words_search.py --data DIR --records 20000 --only wordpipe fts5 --json result.json

DIR has `wiki/train.txt`, plain text with a paragraph in each line, and `retrieval/`, collections in the layout of BEIR.
Three things are measured. `records`: the first 100,000 sentences of the text of 40 to 160 characters, each with its first
three words as a title. `prose`: the paragraphs of the first 10 MB. `collections`: documents and judged questions. Every
side is a process of its own, indexes the texts with its stems of English and answers a question by any of its words (OR):
the ten best texts, which it also reads. The 200 questions for times are two to four words in a row out of a text each.

`command` is all of `wordpipe index CORPUS` with the start of Python, over a corpus that `wordpipe ingest` made before, as
it is and with `--endings remove`, which measures nothing; and what a warm question takes in the opened index with all that
belongs to an answer, as `serve` answers it. Times are seconds and milliseconds of the processor, so that other work on the
machine matters little; disk is all that a side stores, the texts included. bm25s and tantivy are optional: what is missing
is named and left out. Exit code 0: in the mean of the collections nDCG@10 is that of FTS5 at least, and a question over the
records takes at most 5 ms.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from peers.measure import run_task, threads_of, versions
from peers.words_sides import SIDES
from tokens import machine

RESULTS = Path(__file__).parent.absolute() / "results"
QUESTIONS, PROSE_BYTES, MOST_MS = 200, 10_000_000, 5.0
COLLECTIONS = ("cranfield", "cisi", "npl", "cacm")
LIBRARIES = {"bm25s": "bm25s", "tantivy": "tantivy"}
Titled = list[tuple[str, str]]  # title, which may be empty, and text


def records_of(text: Path, most: int) -> Titled:
    """Short records made of sentences."""
    found: Titled = []
    with text.open(encoding="utf-8") as lines:
        for line in lines:
            for sentence in re.split(r"(?<=[.!?]) ", line.strip()):
                if 40 <= len(sentence) <= 160:
                    found.append((" ".join(sentence.split()[:3]), sentence))
            if len(found) >= most:
                break
    return found[:most]


def prose_of(text: Path, most: int) -> Titled:
    """Paragraphs."""
    with text.open("rb") as file:
        lines = file.read(most).decode("utf-8", "ignore").splitlines()
    return [("", line) for line in lines if line.strip()]


def questions_of(texts: Sequence[str]) -> list[str]:
    """Two to four words in a row, each out of another text; the same each time."""
    draw = random.Random(1)
    found = []
    while len(found) < QUESTIONS:
        words = re.findall(r"\w+", draw.choice(texts))
        size = draw.randint(2, 4)
        if len(words) > size:
            at = draw.randrange(len(words) - size)
            found.append(" ".join(words[at : at + size]))
    return found


def run_side(
    name: str, texts: Sequence[str], questions: Sequence[str], folder: Path, *, answers: bool
) -> dict[str, Any]:
    """Measure one side in its own process, or take its answers; an error is its result."""
    task: dict[str, Any] = {"side": name, "answers": answers, "warm_up": not answers, "folder": str(folder / name)}
    for part, value in (("texts", texts), ("questions", questions)):
        task[part] = str(folder / f"{name}-{part}.json")
        Path(task[part]).write_text(json.dumps(list(value), ensure_ascii=False), encoding="utf-8")
    task["result"] = str(folder / f"{name}-result.json")
    return run_task("words_sides", task, folder, 1)


def of_command(titled: Titled, questions: Sequence[str], folder: Path) -> dict[str, Any]:
    """The whole command over a corpus of these texts, and what a question takes in the opened index."""
    import wordpipe

    with (folder / "records.jsonl").open("w", encoding="utf-8") as file:
        for title, text in titled:
            file.write(json.dumps(({"title": title} if title else {}) | {"text": text}, ensure_ascii=False) + "\n")
    wordpipe.ingest(folder / "records.jsonl", output=folder / "corpus", valid=0, deduplicate=False)
    found: dict[str, Any] = {}
    for name, more in (("index_cpu_s", []), ("index_unmeasured_cpu_s", ["--endings", "remove"])):
        command = [
            sys.executable,
            "-m",
            "wordpipe",
            "index",
            str(folder / "corpus"),
            "-o",
            str(folder / name),
            "-q",
            *more,
        ]
        begun = os.times()
        subprocess.run(command, env=threads_of(1), check=True)
        ended = os.times()
        used = ended.children_user + ended.children_system - begun.children_user - begun.children_system
        found[name] = round(used, 2)
    index = folder / "index_unmeasured_cpu_s"
    size = sum(len(f"{title}{text}".encode()) for title, text in titled)
    stored = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    found["disk_of_text"] = round(stored / size, 3)
    with wordpipe.open(index, "index") as opened:
        opened.lexical.compile()
        times = []
        for question in [*questions[:20], *questions]:
            begun_s = time.process_time()
            opened.query(question, 10)
            times.append(1000 * (time.process_time() - begun_s))
    found |= {"ms": round(float(np.median(times[20:])), 3), "ms_p95": round(float(np.percentile(times[20:], 95)), 3)}
    return found


def of_collection(folder: Path, sides: Sequence[str]) -> dict[str, float]:
    """The nDCG@10 of each side on a collection."""
    from wordpipe.metrics import QueryFigures
    from wordpipe.search import Hits, beir
    from wordpipe.stages import open_collection

    collection, found = open_collection(folder), {}
    for name in sides:
        with tempfile.TemporaryDirectory(prefix="wordpipe-") as scratch:
            side = run_side(name, collection.passages, collection.questions, Path(scratch), answers=True)
        if "error" in side:
            raise SystemExit(f"{name} on {folder.name}: {side['error']}")
        hits = [
            Hits(np.array([row for row, _ in one], np.int64), np.array([score for _, score in one], np.float32))
            for one in side["answers"]
        ]
        scores = beir.scores(collection, beir.rankings(collection, hits, drop_identical=False))
        found[name] = round(float(scores[:, QueryFigures._fields.index("ndcg_at_10")].mean()), 6)
    return found


def timed(asked: argparse.Namespace, sides: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The times and sizes of all sides on the two kinds of texts."""
    wiki = asked.data / "wiki" / "train.txt"
    kinds = {
        "records": (
            records_of(wiki, asked.records),
            "sentences of 40 to 160 characters out of wiki/train.txt, with titles",
        ),
        "prose": (prose_of(wiki, asked.prose), "paragraphs of wiki/train.txt"),
    }
    for kind, (titled, what) in kinds.items():
        texts = [f"{title}\n{text}" if title else text for title, text in titled]
        questions, found = questions_of(texts), dict[str, Any]()
        with tempfile.TemporaryDirectory(prefix="wordpipe-") as scratch:
            for name in sides:
                found[name] = run_side(name, texts, questions, Path(scratch), answers=False)
                print(f"{kind:8} {name:10} {json.dumps(found[name])}", flush=True)
            command = of_command(titled, questions, Path(scratch))
            print(f"{kind:8} {'command':10} {json.dumps(command)}", flush=True)
        megabytes = round(sum(len(text.encode()) for text in texts) / 1e6, 2)
        yield kind, {"what": what, "texts": len(texts), "mb": megabytes, "sides": found, "command": command}


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wiki/train.txt and retrieval/")
    parser.add_argument("--records", type=int, default=100_000, help="short records")
    parser.add_argument("--prose", type=int, default=PROSE_BYTES, help="bytes of prose")
    parser.add_argument("--only", nargs="+", choices=SIDES, default=list(SIDES), help="sides to measure")
    parser.add_argument("--json", type=Path, default=RESULTS / "words_search.json", help="where the figures go")
    asked = parser.parse_args()
    missing = [name for name in asked.only if find_spec(LIBRARIES.get(name, "json")) is None]
    if missing:
        print(f"not installed, and left out: {', '.join(missing)}")
    sides = [name for name in asked.only if name not in missing]
    print(machine()["cpu"], flush=True)
    texts, collections = dict(timed(asked, sides)), {}
    for name in COLLECTIONS:
        if (folder := asked.data / "retrieval" / name).is_dir():
            collections[name] = of_collection(folder, sides)
            print(f"{name:10}", *(f"{side} {100 * value:.1f}" for side, value in collections[name].items()), flush=True)
    mean = {
        name: round(float(np.mean([one[name] for one in collections.values()])), 6) for name in sides if collections
    }
    print(f"{'mean':10}", *(f"{side} {100 * value:.1f}" for side, value in mean.items()))
    libraries = ["wordpipe", "numpy", "pyarrow", "PyStemmer", *(name for name in LIBRARIES if name in sides)]
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "texts": texts, "ndcg_at_10": {"mean": mean, "collections": collections}, "missing": missing,
        "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)}, "versions": versions(libraries),
    }  # fmt: skip
    asked.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    is_quick = texts["records"]["command"]["ms"] <= MOST_MS
    return 0 if is_quick and mean.get("wordpipe", 0.0) >= mean.get("fts5", 0.0) else 1


if __name__ == "__main__":
    sys.exit(main())
