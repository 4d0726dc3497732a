"""The cost of `wordpipe index --update` against a rebuild: processor time of the whole command, and what both then find.

    python benchmarks/index_update.py                              200,000 rows of width 384, a hundredth of them changed
    python benchmarks/index_update.py --n 1000000 --scratch /big   needs 12 GB there
    python benchmarks/index_update.py --n 20000 --dim 64 --type ivf-pq --out result.json

Made by chance are texts of ten rows each, vectors around centres, and a table of word vectors to ask with. Of the documents
that change a third is written anew, a third goes and a third comes, anywhere in the table. Each figure is of a process of its
own, from its start to its end: hashing of inputs, keys, lists, words, writing. Processor time is what counts where others
work on the same machine; the seconds by the clock stand beside it. Both indexes are then asked 1,000 queries that are no rows
of theirs. Exit code 0: every update took at most a twentieth of its rebuild and finds as much, to 0.01.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from peers.measure import versions
from search import QUERIES, RESULTS, K, made_vectors
from tokens import machine

import wordpipe
from wordpipe.artifacts import Artifact, sentences_schema, vector_column, words_schema
from wordpipe.settings import Settings
from wordpipe.stages import open_job

ROWS_PER_DOCUMENT, WORDS_PER_ROW, VOCABULARY = 10, 14, 50_000
BLOCK = 20_000
SHARE, NEAR = 0.05, 0.01  # of a rebuild's time; of the recall


def made_encoder(folder: Path, dim: int) -> Path:
    """A few sentences embedded with word vectors made by chance: what encodes them is what the large tables carry."""
    vectors_VD = np.random.default_rng(2).standard_normal((VOCABULARY, dim), dtype=np.float32)
    names = [f"w{word}" for word in range(VOCABULARY)]
    counts = np.maximum(1, 10_000_000 // np.arange(1, VOCABULARY + 1))
    with open_job("words", folder / "words", Settings(), None) as job:
        with job.table("words", words_schema(dim)) as table:
            columns = [pa.array(names), pa.array(counts, pa.int64()), vector_column(vectors_VD)]
            table.write(pa.RecordBatch.from_arrays(columns, schema=words_schema(dim)))
        job.facts = {"dim": dim}
    text = folder / "few.txt"
    text.write_text("".join(f"w{row} w{row + 1}.\n" for row in range(20)))
    wordpipe.embed(folder / "words", text, output=folder / "few")
    return folder / "few"


def made_texts(n: int, seed: int) -> list[str]:
    """Rows of words, the common ones as common as in English (1 / rank)."""
    rng = np.random.default_rng(seed)
    upto = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    words_NW = np.searchsorted(upto / upto[-1], rng.random((n, WORDS_PER_ROW)))
    return [" ".join(f"w{word}" for word in row) for row in words_NW.tolist()]


def changed_documents(n: int, share: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows of the table before and after, as numbers of all rows ever made: 0 to n - 1, then those that come."""
    rng = np.random.default_rng(3)
    documents = np.arange(n).reshape(-1, ROWS_PER_DOCUMENT)
    anew, gone, before = np.array_split(
        rng.choice(len(documents), max(3, int(share * len(documents))), replace=False), 3
    )
    coming = n + np.arange((len(anew) + len(before)) * ROWS_PER_DOCUMENT).reshape(-1, ROWS_PER_DOCUMENT)
    after = documents.copy()
    after[anew] = coming[: len(anew)]
    places = np.sort(before)
    after = np.insert(after, places, coming[len(anew) :], axis=0)
    keep = np.ones(len(after), dtype=bool)
    keep[gone + np.searchsorted(places, gone, side="right")] = False
    return documents.ravel(), after[keep].ravel()


def write_sentences(
    path: Path,
    rows: npt.NDArray[np.int64],
    vectors_MD: npt.NDArray[np.float32],
    texts: list[str],
    encoder: Path,
    fields: pa.RecordBatch | None = None,
) -> None:
    """The sentences of these rows, stored as `embed` does, with the encoder of others and, where given, fields of records."""
    schema = sentences_schema(vectors_MD.shape[1], None if fields is None else fields.schema, "int8")
    with Artifact(encoder) as few, open_job("sentences", path, Settings(), None) as job:
        with job.table("sentences", schema) as table:
            for first in range(0, len(rows), BLOCK):
                some = rows[first : first + BLOCK]
                documents = [f"d{row // ROWS_PER_DOCUMENT}" for row in some.tolist()]
                arrays = [
                    pa.array(np.arange(first, first + len(some))), pa.array(documents), pa.nulls(len(some), pa.string()),
                    pa.array([texts[row] for row in some.tolist()]), pa.array(["made.txt"] * len(some)),
                    pa.array(np.arange(first + 1, first + 1 + len(some))), vector_column(vectors_MD[some], "int8"),
                    *(fields.slice(first, len(some)).columns if fields is not None else ()),
                ]  # fmt: skip
                table.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        for name in few.names("encoder/"):
            job.write(name, few.read(name))
        job.facts = dict(few.manifest.facts)


def timed(options: list[str], scratch: Path, threads: int) -> dict[str, Any]:
    """Run `wordpipe index` in its own process."""
    limits = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL")}
    result, errors = scratch / "result.json", scratch / "errors.txt"
    command = [sys.executable, "-m", "wordpipe", "index", *options, "--threads", str(threads), "--json", "-q"]
    with result.open("wb") as out, errors.open("wb") as err:
        begun = time.monotonic()
        pid = os.posix_spawn(
            sys.executable, command, {**os.environ, **limits, "XDG_CACHE_HOME": str(scratch / "cache")},
            file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, err.fileno(), 2)],
        )  # fmt: skip
        _, status, used = os.wait4(pid, 0)
        seconds = time.monotonic() - begun
    if status:
        raise SystemExit(errors.read_text())
    made = json.loads(result.read_text())
    return {
        "processor_s": round(used.ru_utime + used.ru_stime, 2), "seconds": round(seconds, 2),
        "peak_memory_bytes": made["peak_memory_bytes"], "counts": made["counts"],
        "recall_at_10": made["metrics"]["recall_at_10"],
    }  # fmt: skip


def recall_of(index: Path, queries_QD: npt.NDArray[np.float32], vectors_ND: npt.NDArray[np.float32]) -> float:
    """The share of the true ten nearest that an index finds of queries it does not hold."""
    import faiss

    true_QK, _ = faiss.knn(queries_QD, vectors_ND, K, metric=faiss.METRIC_INNER_PRODUCT)
    with wordpipe.open(index, "index", verify=False) as opened:
        found_QK, _ = opened.index.search(queries_QD, K)
    return round(float((found_QK >= true_QK[:, -1:] - 1e-6).mean()), 4)


def size_row(n: int, args: argparse.Namespace) -> dict[str, Any]:
    """Build, change, update and rebuild at one size."""
    n -= n % ROWS_PER_DOCUMENT
    before, after = changed_documents(n, args.share)
    ever = int(max(before.max(), after.max())) + 1
    with tempfile.TemporaryDirectory(dir=args.scratch) as path:
        folder = Path(path)
        everything = made_vectors(ever + QUERIES, args.dim, 1)
        vectors_MD, queries_QD = np.split(np.random.default_rng(4).permutation(everything), [ever])
        del everything
        texts, encoder = made_texts(ever, 5), made_encoder(folder, args.dim)
        for name, rows in (("before", before), ("after", after)):
            write_sentences(folder / name, rows, vectors_MD, texts, encoder)
        del texts
        kind = ["--type", args.type]
        timed([str(folder / "before"), "-o", str(folder / "updated"), *kind], folder, args.threads)
        update = timed([str(folder / "after"), "-o", str(folder / "updated"), "--update", *kind], folder, args.threads)
        rebuild = timed([str(folder / "after"), "-o", str(folder / "rebuilt"), "--fresh", *kind], folder, args.threads)
        vectors_ND = vectors_MD[after]
        del vectors_MD
        for name, figures in (("updated", update), ("rebuilt", rebuild)):
            figures["recall_of_foreign_queries"] = recall_of(folder / name, queries_QD, vectors_ND)
            shutil.rmtree(folder / name)
    row = {"n": n, "dim": args.dim, "load": round(os.getloadavg()[0], 1), "update": update, "rebuild": rebuild}
    row["share_of_processor_time"] = round(update["processor_s"] / rebuild["processor_s"], 4)
    row["share_of_seconds"] = round(update["seconds"] / rebuild["seconds"], 4)
    print(json.dumps(row), flush=True)
    return row


def kept(row: dict[str, Any]) -> bool:
    """Whether an update is as cheap and as good as promised."""
    less = row["rebuild"]["recall_of_foreign_queries"] - row["update"]["recall_of_foreign_queries"]
    return bool(row["share_of_processor_time"] <= SHARE and less <= NEAR)


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[200_000], help="rows")
    parser.add_argument("--dim", type=int, default=384, help="width of the vectors")
    parser.add_argument("--share", type=float, default=0.01, help="of the documents that change")
    parser.add_argument("--type", default="auto", help="kind of index")
    parser.add_argument("--threads", type=int, default=1, help="of both")
    parser.add_argument(
        "--scratch", type=Path, help="a folder for tables and indexes; the system's where it is not given"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "index_update.json", help="where the figures go")
    args = parser.parse_args()
    rows = [size_row(n, args) for n in args.n]
    body = {
        "machine": machine(), "libraries": versions(["faiss-cpu", "numpy", "pyarrow"]), "threads": args.threads,
        "type": args.type, "share": args.share, "sizes": rows,
    }  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(body, indent=1) + "\n")
    return 0 if all(kept(row) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
