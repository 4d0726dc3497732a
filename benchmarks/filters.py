"""What a new condition costs beside the question that it narrows, and what counting the values of fields costs.

    python benchmarks/filters.py                                  1,000,000 rows; needs 2 GB in the scratch folder
    python benchmarks/filters.py --rows 100000 --scratch /tmp/f   what was made there is used again
    python benchmarks/filters.py --rows 20000 --dim 16 --out result.json

Texts, fields and vectors are made by chance (see index_update.py). One process holds the index open. In each mode of search
the same questions are asked without a condition, which is the control, and each with a condition that was not asked before;
conditions are of several kinds. Figures are medians of milliseconds of processor time of all threads, which other programs on
the machine disturb less than the clock; `load_before` says how many wanted to run. The first condition on a field reads the
field's column: these are timed apart. Exit code 0: no kind of condition adds more than 50 ms to the question, in any mode.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from index_update import made_encoder, made_texts, write_sentences
from peers.measure import versions
from search import RESULTS, made_vectors
from tokens import machine

import wordpipe
from wordpipe.search.settings import QueryOptions
from wordpipe.stages import OpenIndex
from wordpipe.web import Facets

MOST_MS, K, TIMES = 50, 10, 9
MODES = ("lexical", "dense", "hybrid")
LANGS = ("de", "en", "fr", "es", "it", "ru", "zh", "ja", "pt", None)
MONTHS = [f"{year}-{month:02d}" for year in range(2005, 2026) for month in range(1, 13)]
LABELS = [f"label{number}" for number in range(200)]

CONDITIONS: dict[str, Callable[[int], str]] = {
    "equal": lambda n: f"month = '{MONTHS[n]}'",
    "range, wide": lambda n: f"year between {1950 + n} and {1990 + n}",
    "range, narrow": lambda n: f"rank < {1000 + n}",
    "range of text": lambda n: f"month >= '{MONTHS[100 + n]}'",
    "like": lambda n: f"name like '%{700 + n}x%'",
    "in": lambda n: f"month in ('{MONTHS[n]}', '{MONTHS[50 + n]}', '{MONTHS[100 + n]}', '{MONTHS[150 + n]}')",
    "and": lambda n: f"lang = 'de' and year > {2000 + n}",
    "or": lambda n: f"lang = 'fr' or month like '{MONTHS[8 * n]}%'",
    "not": lambda n: f"not (lang = 'en' or year = {1960 + n})",
    "null": lambda n: f"lang is null and year <> {1950 + n}",
    "in a list": lambda n: f"'{LABELS[n]}' in labels",
    "with a function": lambda n: f"lower(lang) = 'ru' and year % 100 = {n}",
}
FIELD_VALUES: dict[str, Callable[[int], str]] = {
    "month:VALUE": lambda n: f"month:{MONTHS[30 + n]}",
    "labels:VALUE": lambda n: f"labels:{LABELS[30 + n]}",
    "year:LOW..HIGH": lambda n: f"year:{1950 + n}..{1980 + n}",
}


def made_fields(n: int) -> pa.RecordBatch:
    """Fields of rows, made by chance."""
    rng = np.random.default_rng(6)
    ends_N = np.cumsum(np.concatenate([[0], rng.integers(0, 4, n)])).astype(np.int32)
    labels = np.array(LABELS)[rng.integers(0, len(LABELS), int(ends_N[-1]))]
    names = [f"{one}x name {one % 977} of {row}" for row, one in enumerate(rng.integers(0, 100_000, n).tolist())]
    columns = {
        "year": pa.array(rng.integers(1950, 2026, n), mask=rng.random(n) < 0.02),
        "month": pa.array(np.array(MONTHS)[rng.integers(0, len(MONTHS), n)]),
        "lang": pa.array(np.array(LANGS, dtype=object)[rng.integers(0, len(LANGS), n)], pa.string()),
        "name": pa.array(names), "rank": pa.array(rng.permutation(n)), "score": pa.array(rng.random(n)),
        "labels": pa.ListArray.from_arrays(pa.array(ends_N), pa.array(labels)),
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(columns)


def made_index(folder: Path, n: int, dim: int, kind: str) -> Path:
    """An index over texts, vectors and fields made by chance; the one that is there is used again."""
    path = folder / f"filters-{n}-{dim}-{kind}"
    if not (path / "manifest.json").is_file():
        texts, vectors_ND, encoder = made_texts(n, 1), made_vectors(n, dim, 1), made_encoder(folder, dim)
        write_sentences(folder / "sentences", np.arange(n), vectors_ND, texts, encoder, made_fields(n))
        wordpipe.index(folder / "sentences", output=path, type=kind)
    return path


def processor_ms(work: Callable[[], object]) -> float:
    """Milliseconds of processor time of all threads that a call takes."""
    begun = time.process_time()
    work()
    return 1e3 * (time.process_time() - begun)


def median_ms(works: Iterable[Callable[[], object]]) -> float:
    """The median of several calls."""
    return round(statistics.median(map(processor_ms, works)), 2)


def conditions_row(index: OpenIndex, mode: str, kind: str, written: Callable[[int], str], turn: int) -> dict[str, Any]:
    """One kind of condition in one mode of search: the questions without it, then each with a new condition."""
    questions = [" ".join(text.split()[:4]) for text in made_texts(TIMES, 9)]
    numbers = [TIMES * turn + number for number in range(TIMES)]
    plain = median_ms([lambda q=q: index.query(q, K, mode=mode) for _ in range(2) for q in questions])  # type: ignore[misc, arg-type]
    if kind in FIELD_VALUES:
        works = [
            lambda q=q, n=n: index.query(f"{q} {written(n)}", K, mode=mode)  # type: ignore[misc, arg-type]
            for q, n in zip(questions, numbers, strict=True)
        ]
    else:
        works = [
            lambda q=q, n=n: index.query(q, K, mode=mode, where=written(n))  # type: ignore[misc, arg-type]
            for q, n in zip(questions, numbers, strict=True)
        ]
    narrowed = median_ms(works)
    row = {
        "mode": mode,
        "kind": kind,
        "example": written(numbers[0]),
        "question_ms": plain,
        "with_condition_ms": narrowed,
    }
    return row | {"condition_ms": round(narrowed - plain, 2)}


def first_uses(index: OpenIndex, names: list[str]) -> dict[str, float]:
    """Milliseconds of the first condition on each field."""
    return {
        name: round(processor_ms(lambda name=name: index.fulfilling(QueryOptions(where=f"{name} is null"), 1)), 1)  # type: ignore[misc]
        for name in names
    }


def facets_row(index: OpenIndex) -> dict[str, float]:
    """Milliseconds of counting the values of all fields: the first time, under a question, and under choices."""
    made: list[Facets] = []
    first = processor_ms(lambda: made.append(Facets(index)))
    facets, questions = made[0], [" ".join(text.split()[:4]) for text in made_texts(TIMES, 10)]
    months, labels = MONTHS[200:], LABELS[150:]
    kinds: dict[str, Callable[[int], object]] = {
        "all rows": lambda _: facets.count(index, QueryOptions(), [], None, 20),
        "under a question": lambda n: facets.count(index, QueryOptions(), [], questions[n], 20),
        "under a new condition": lambda n: facets.count(
            index, QueryOptions(where=f"rank < {500_000 + n}"), [], questions[n], 20
        ),
        "under choices": lambda n: facets.count(
            index,
            QueryOptions(),
            [("month", months[n]), ("month", months[n + 9]), ("labels", labels[n])],
            questions[n],
            20,
        ),
    }
    figures = {kind: median_ms([partial(work, n) for n in range(TIMES)]) for kind, work in kinds.items()}
    return {"first": round(first, 1), **figures}


def measured(path: Path) -> dict[str, Any]:
    """All figures of one index."""
    load = round(os.getloadavg()[0], 2)
    with wordpipe.open(path, "index") as index:
        for mode in MODES:
            for text in made_texts(TIMES, 9):  # what is read and compiled once
                index.query(" ".join(text.split()[:4]), K, mode=mode)  # type: ignore[arg-type]
        firsts = first_uses(index, made_fields(1).schema.names)
        rows = []
        for turn, mode in enumerate(MODES):
            for kind, written in (CONDITIONS | FIELD_VALUES).items():
                row = conditions_row(index, mode, kind, written, turn)
                print(json.dumps(row), flush=True)
                rows.append(row)
        facets = facets_row(index)
        print(json.dumps(facets), flush=True)
        kind = index.artifact.manifest.facts["type"]
    return {"type": kind, "load_before": load, "first_use_ms": firsts, "conditions": rows, "facets_ms": facets}


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows")
    parser.add_argument("--dim", type=int, default=64, help="width of the vectors")
    parser.add_argument("--type", default="auto", help="kind of index")
    parser.add_argument("--scratch", type=Path, help="a folder for the index; the system's where it is not given")
    parser.add_argument("--out", type=Path, default=RESULTS / "filters.json", help="where the figures go")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.scratch or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = measured(made_index(folder, args.rows, args.dim, args.type))
    body = {
        "machine": machine(), "libraries": versions(["duckdb", "faiss-cpu", "numpy", "pyarrow"]), "rows": args.rows,
        "dim": args.dim, **figures,
    }  # fmt: skip
    print(body["machine"]["cpu"])
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(body, indent=1) + "\n")
    return 0 if max(row["condition_ms"] for row in figures["conditions"]) <= MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
