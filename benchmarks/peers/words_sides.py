"""One side of `words_search.py` in its own process: `python -m peers.words_sides TASK.json` indexes texts, answers questions.

A side is a function that makes an index of texts in a folder, where the texts lie too, and returns what answers a question:
the rows of the ten best texts with their scores; the texts are read, too. Times are seconds of the processor, of one thread
where a library lets one choose; imports are left out.
"""

import json
import re
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

K = 10
Answer = list[tuple[int, float]]
Ask = Callable[[str], Answer]


def cpu_s() -> float:
    """Seconds of the processor so far, of this process and the ones it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def wordpipe_side(texts: list[str], folder: Path) -> Ask:
    """The words of a corpus as `LexicalIndex` counts and stores them, its stems chosen by the language; texts beside it."""
    from wordpipe.search import LexicalIndex
    from wordpipe.search.settings import LexicalSettings

    built = LexicalIndex.build(iter(texts), LexicalSettings())
    for name, data in built.files():
        (folder / name).write_bytes(data)
    (folder / "texts.json").write_text(json.dumps(texts, ensure_ascii=False), encoding="utf-8")
    index = LexicalIndex.load({path.name: path.read_bytes() for path in folder.iterdir() if path.name != "texts.json"})
    index.compile()  # as `serve` does

    def ask(question: str) -> Answer:
        (hits,) = index.search([question], K)
        assert all(texts[row] for row in hits.rows.tolist())
        return list(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))

    return ask


def fts5_side(texts: list[str], folder: Path) -> Ask:
    """SQLite's FTS5 with Porter's stems, as ten lines of Python use it: words joined by OR, in the order of its bm25()."""
    base = sqlite3.connect(folder / "texts.db")
    base.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')")
    base.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts, start=1))
    base.commit()
    sql = "SELECT rowid, bm25(texts), text FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT ?"

    def ask(question: str) -> Answer:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        return [(row - 1, -score) for row, score, _ in base.execute(sql, (words, K))] if words else []

    return ask


def bm25s_side(texts: list[str], folder: Path) -> Ask:
    """The library bm25s with Snowball's stems and its stop words of English, with its own defaults."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    tokens = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    index = bm25s.BM25()
    index.index(tokens, show_progress=False)
    index.save(folder, corpus=texts, show_progress=False)

    def ask(question: str) -> Answer:
        words = bm25s.tokenize([question], stopwords="en", stemmer=stemmer, show_progress=False)
        rows, scores = index.retrieve(words, k=min(K, len(texts)), show_progress=False)
        found = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
        return [(row, score) for row, score in found if score > 0 and texts[row]]

    return ask


def tantivy_side(texts: list[str], folder: Path) -> Ask:
    """The library tantivy with its stems of English, one writing thread, words joined by OR."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=True, tokenizer_name="en_stem")
    builder.add_unsigned_field("row", stored=True)
    index = tantivy.Index(builder.build(), path=str(folder))
    writer = index.writer(128_000_000, 1)
    for row, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=text, row=row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def ask(question: str) -> Answer:
        words = " ".join(re.findall(r"\w+", question.lower()))  # IN and OR in capitals are operators
        hits = searcher.search(index.parse_query(words, ["text"]), K).hits if words else []
        return [(searcher.doc(address)["row"][0], score) for score, address in hits]

    return ask


SIDES: dict[str, tuple[Callable[[list[str], Path], Ask], tuple[str, ...]]] = {
    "wordpipe": (wordpipe_side, ("wordpipe.search", "pyarrow.compute", "Stemmer", "regex")),
    "fts5": (fts5_side, ()),
    "bm25s": (bm25s_side, ("bm25s", "Stemmer")),
    "tantivy": (tantivy_side, ("tantivy",)),
}
"""Side → what builds and asks, and what it imports."""


def measured(ask: Ask, questions: list[str]) -> dict[str, Any]:
    """Milliseconds of the processor that a warm question takes: the median of questions, each the best of three."""
    for question in questions[:20]:
        ask(question)
    best = []
    for question in questions:
        times = []
        for _ in range(3):
            begun = time.process_time()
            ask(question)
            times.append(1000 * (time.process_time() - begun))
        best.append(min(times))
    return {"ms": round(float(np.median(best)), 3), "ms_p95": round(float(np.percentile(best, 95)), 3)}


def main() -> None:
    """Do the task."""
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    side, imports = SIDES[task["side"]]
    for name in imports:
        __import__(name)
    folder = Path(task["folder"])
    folder.mkdir()
    texts, questions = (json.loads(Path(task[name]).read_text(encoding="utf-8")) for name in ("texts", "questions"))
    if task["warm_up"]:  # what is compiled or read at first use is no work on these texts
        (folder / "warm").mkdir()
        side(texts[:10], folder / "warm")
    begun = cpu_s()
    (index := folder / "index").mkdir()
    ask = side(texts, index)
    found: dict[str, Any] = {"build_cpu_s": round(cpu_s() - begun, 3)}
    if task["answers"]:
        found["answers"] = [ask(question) for question in questions]
    else:
        size = sum(len(text.encode()) for text in texts)
        found["disk_of_text"] = round(sum(path.stat().st_size for path in index.rglob("*") if path.is_file()) / size, 3)
        found |= measured(ask, questions)
    Path(task["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
