"""The differences between two versions: the bytes of every stage, answers, help, imports, start-up; and the speed.

    python benchmarks/compare.py record before.json --code CLONE      CLONE: another checkout, whose package is run
    python benchmarks/compare.py record after.json                    this one
    python benchmarks/compare.py differences before.json after.json
    python benchmarks/compare.py speed --before CLONE --data DIR --out benchmarks/results/compare.json

`record` runs each stage in each of its ways on the texts of data/, small, seeded and on one thread, in processes of
their own, and writes down: the digest and the recipe of every artifact, what every other command answers as JSON, the hash
of every exported file, the help of every command, the modules that `--help` and a query load, and how long both take (median
of --cold processes). `differences` prints what is not the same; exit code 1 if anything is, but for times, help and imports
of our own modules, which are shown for people to decide. A stage or an answer that fails is written down as failed.
`speed` runs the benchmarks of this folder on both checkouts in turn, each against its peer, on texts of a few MB.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
HEAVY = (
    "numpy",
    "pyarrow",
    "torch",
    "faiss",
    "gensim",
    "tokenizers",
    "numba",
    "scipy",
    "safetensors",
    "rich",
    "duckdb",
)
TIMES = {"seconds", "peak_memory_bytes", "memory_bytes", "rates", "path", "wordpipe", "versions", "blake3", "threads"}
ONE = ["--threads", "1"]
TINY = ["--dim", "32", "--n-layers", "2", "--n-heads", "2", "--ffn-dim", "64", "--seq-len", "64", "--steps", "6", *ONE]
SMALL = ["--dim", "16", "--epochs", "2", "--min-count", "2", "--deterministic"]

STAGES: dict[str, list[str]] = {
    "corpus": ["ingest", "text/handbook.txt", "--documents", "block", "--first-line-title", "--valid", "0.1"],
    "corpus-mixed": ["ingest", "text", "--metadata", "lang", "--metadata", "year:int"],
    "corpus-docstrings": ["ingest", "python:json", "python:email"],
    "tokens": ["tokenize", "corpus", "--vocab-size", "1000"],
    "tokens-mixed": ["tokenize", "corpus-mixed", "--vocab-size", "800", "--normalization", "nfc", "--lowercase"],
    "tokens-wordpiece": ["tokenize", "corpus", "--vocab-size", "900", "--algorithm", "wordpiece", "--lowercase"],
    "tokens-unigram": ["tokenize", "corpus", "--vocab-size", "800", "--algorithm", "unigram"],
    "tokens-word": ["tokenize", "corpus", "--vocab-size", "700", "--algorithm", "word"],
    "tokens-char": ["tokenize", "corpus", "--algorithm", "char"],
    "tokens-again": ["tokenize", "corpus-mixed", "--tokenizer", "tokens"],
    "tokens-counts": ["tokenize", "corpus", "--counts", "tokens", "--vocab-size", "600"],
    "words": ["train", "word2vec", "tokens", *SMALL],
    "words-cbow": ["train", "word2vec", "tokens", *SMALL, "--architecture", "cbow", "--vectors", "sum"],
    "words-hs": ["train", "word2vec", "tokens", *SMALL, "--loss", "hs", "--remove-components", "1"],
    "words-softmax": ["train", "word2vec", "tokens", *SMALL, "--loss", "softmax", "--no-dynamic-window"],
    "words-ngrams": ["train", "word2vec", "tokens", *SMALL, "--max-n", "5"],
    "words-tokens": ["train", "word2vec", "tokens", *SMALL, "--unit", "token", "--dim", "32"],
    "words-again": ["train", "word2vec", "tokens", *SMALL, "--init", "words"],
    "mlm": ["train", "mlm", "tokens", *TINY],
    "mlm-classic": ["train", "mlm", "tokens-wordpiece", *TINY, "--style", "classic", "--mask-unit", "word",
                    "--optimiser", "adamw"],
    "mlm-window": ["train", "mlm", "tokens", *TINY, "--window", "16", "--global-every", "2", "--dropout", "0.1",
                   "--schedule", "wsd"],
    "mlm-words": ["train", "mlm", "tokens", *TINY, "--init-embeddings", "words-tokens", "--mask-unit", "span"],
    "mlm-additive": ["train", "mlm", "tokens", *TINY, "--attention", "additive"],
    "mlm-linear": ["train", "mlm", "tokens", *TINY, "--attention", "linear"],
    "mlm-alibi": ["train", "mlm", "tokens", *TINY, "--positions", "alibi", "--keep-state"],
    "mlm-extended": ["train", "mlm", "tokens", *TINY, "--positions", "alibi", "--steps", "9", "--extend", "mlm-alibi"],
    "mlm-init": ["train", "mlm", "tokens", "--init", "mlm", "--steps", "3", "--seq-len", "64", *ONE],
    "clm": ["train", "clm", "tokens", *TINY],
    "clm-classic": ["train", "clm", "tokens", *TINY, "--style", "classic"],
    "clm-window": ["train", "clm", "tokens", *TINY, "--window", "16", "--n-kv-heads", "1"],
    "static": ["train", "static", "tokens", "--steps", "10", "--batch-size", "32", *ONE, "--words", "words"],
    "static-tokens": ["train", "static", "tokens-wordpiece", "--unit", "token", "--steps", "10", "--batch-size", "32",
                      *ONE],
    "contrastive": ["train", "contrastive", "tokens", "--init", "mlm", "--steps", "6", "--batch-size", "16", *ONE],
    "contrastive-table": ["train", "contrastive", "tokens-wordpiece", "--init-embeddings", "static-tokens",
                          "--n-layers", "1", "--steps", "6", "--batch-size", "16", "--teacher", "static-tokens", *ONE],
    "electra": ["train", "electra", "tokens", *TINY],
    "electra-classic": ["train", "electra", "tokens-wordpiece", *TINY, "--style", "classic", "--mask-unit", "word"],
    "permutation": ["train", "permutation", "tokens", *TINY],
    "permutation-dropout": ["train", "permutation", "tokens-unigram", *TINY, "--dropout", "0.1"],
    "mlm-pairs": ["train", "mlm", "tokens", *TINY, "--pair", "nsp", "--style", "classic"],
    "mlm-distilled": ["train", "mlm", "tokens", "--teacher", "mlm", "--n-layers", "1", "--seq-len", "64",
                      "--steps", "6", *ONE],
    "denoising": ["train", "denoising", "tokens", *TINY],
    "denoising-bart": ["train", "denoising", "tokens", *TINY, "--style", "bart"],
    "pairs": ["ingest", "made/pairs.jsonl", "--text-b", "text_b", "--valid", "0.1"],
    "pair-tokens": ["tokenize", "pairs", "--vocab-size", "500"],
    "seq2seq": ["train", "seq2seq", "pair-tokens", *TINY],
    "pair-tokens-again": ["tokenize", "pairs", "--tokenizer", "denoising"],
    "seq2seq-init": ["train", "seq2seq", "pair-tokens-again", "--init", "denoising", "--steps", "3", *ONE],
    "labelled": ["ingest", "made/labelled.jsonl", "--label-field", "label", "--tags-field", "tags", "--valid", "0.2"],
    "classifier": ["train", "classifier", "labelled", "--init", "mlm", "--epochs", "2", *ONE],
    "classifier-words": ["train", "classifier", "labelled", "--init", "words", "--epochs", "3", *ONE],
    "tagger": ["train", "tagger", "labelled", "--init", "mlm", "--epochs", "2", *ONE],
    "tagger-words": ["train", "tagger", "labelled", "--init", "words", "--epochs", "3", *ONE],
    "reader": ["train", "reader", "made/questions.json", "--init", "mlm", "--epochs", "2", *ONE],
    "reader-frozen": ["train", "reader", "made/questions.json", "--init", "mlm", "--epochs", "1", "--freeze", "1", *ONE],
    "predicted": ["predict", "classifier", "corpus", *ONE],
    "predicted-tags": ["predict", "tagger-words", "corpus", *ONE],
    "sentences": ["embed", "mlm", "corpus", "--unit", "document", *ONE],
    "sentences-window": ["embed", "mlm-classic", "corpus", "--unit", "window", "--pooling", "first-last",
                         "--transform", "none", *ONE],
    "sentences-words": ["embed", "words", "corpus", "--unit", "document"],
    "sentences-mean": ["embed", "words-ngrams", "corpus", "--pooling", "mean", "--transform", "remove-components"],
    "sentences-static": ["embed", "static", "corpus", "--unit", "document"],
    "sentences-contrastive": ["embed", "contrastive", "corpus", "--unit", "document", *ONE],
    "sentences-alibi": ["embed", "mlm-alibi", "corpus", "--unit", "document", "--pooling", "max", *ONE],
    "clusters": ["cluster", "sentences-static", "-k", "5", *ONE],
    "clusters-auto": ["cluster", "sentences-words", *ONE],
    "index": ["index", "sentences-static", *ONE],
    "index-flat": ["index", "sentences-mean", "--type", "flat", *ONE],
    "index-hnsw": ["index", "sentences-mean", "--type", "hnsw", *ONE],
    "index-ivf-pq": ["index", "sentences-mean", "--type", "ivf-pq", *ONE],
    "index-mlm": ["index", "sentences", *ONE],
    "index-words": ["index", "words", "--type", "flat", *ONE],
}  # fmt: skip
"""Artifact → the command that makes it; names of artifacts made before stand for their folders."""

FORMATS = {
    "words": ("word2vec-text", "word2vec-binary", "glove", "numpy", "projector"),
    "sentences-static": ("npy", "sentence-transformers"),
    "sentences": ("sentence-transformers",),
    "tokens": ("tokenizer-json", "vocab-merges", "tiktoken", "transformers"),
    "tokens-wordpiece": ("vocab-txt",),
}
IMPORTED = ("word2vec-text", "word2vec-binary", "glove", "numpy")

ANSWERS: dict[str, list[str]] = {
    "query": ["query", "index", "salt water in the sea"],
    "query dense": ["query", "index", "salt water in the sea", "--mode", "dense"],
    "query lexical": ["query", "index", "salt water in the sea", "--mode", "lexical"],
    "query hybrid": ["query", "index", "salt water in the sea", "--mode", "hybrid", "--where", "text like '%sea%'"],
    "query explained": ["query", "index-mlm", "salt water in the sea", "--explain", "--mode", "dense", "-k", "3"],
    "query hybrid explained": ["query", "index", "salt water in the sea", "--explain", "--mode", "hybrid", "-k", "3"],
    "query hnsw": ["query", "index-hnsw", "salt water in the sea", "--per-document"],
    "query ivf-pq": ["query", "index-ivf-pq", "salt water in the sea"],
    "query words": ["query", "words", "sea", "+", "moon", "-", "sun"],
    "query index of words": ["query", "index-words", "sea"],
    "fill": ["fill", "mlm", "the high [MASK] of the day", *ONE],
    "generate": ["generate", "clm", "The sea", "--max-tokens", "20", *ONE],
    "generate greedy": ["generate", "clm-window", "The sea", "--max-tokens", "20", "--temperature", "0", *ONE],
    "doctor": ["doctor", "sentences"],
    "doctor words": ["doctor", "words"],
    "duplicates": ["duplicates", "sentences-static", "--threshold", "0.8"],
    "diff": ["diff", "words", "words-again"],
    "evaluate tokenizer": ["evaluate", "tokenizer", "tokens", "tokens-unigram", "--data", "corpus"],
    "evaluate tokenizer by": ["evaluate", "tokenizer", "tokens-mixed", "--data", "corpus-mixed", "--by", "lang"],
    "evaluate words": ["evaluate", "words", "words", "words-cbow", "--data", "judged/pairs.tsv",
                       "--data", "judged/analogies.txt"],
    "evaluate mlm": ["evaluate", "model", "mlm", "mlm-classic", "--data", "corpus", *ONE],
    "evaluate clm": ["evaluate", "model", "clm", "--data", "corpus", *ONE],
    "evaluate sts": ["evaluate", "sts", "static", "mlm", "--words", "words", "--data", "judged/sts.tsv", *ONE],
    "evaluate retrieval": ["evaluate", "retrieval", "static", "--words", "words", "--data", "judged/retrieval", *ONE],
    "evaluate predictions": ["evaluate", "predictions", "classifier", "classifier-words", "--data", "labelled"],
    "evaluate predictions of tags": ["evaluate", "predictions", "tagger", "tagger-words", "--data", "labelled"],
    "evaluate seq2seq": ["evaluate", "seq2seq", "seq2seq", "--data", "pairs", "--max-tokens", "8"],
    "evaluate search": ["evaluate", "search", "index", "--data", "judged/questions.tsv"],
    "predict": ["predict", "classifier", "The sea is blue and wide.", "A red kettle."],
    "predict tags": ["predict", "tagger", "Bridge 7 is red like the sea."],
    "predict answers": ["predict", "reader", "How many bees?", "--passages", "made/passages.txt"],
    "generate of pairs": ["generate", "seq2seq", "one 5 two", "--max-tokens", "8", *ONE],
    "attention": ["attention", "mlm", "The sea-bed is muddy.", "-o", "attention.html"],
    "report": ["report", ".", "-o", "report.html"],
    "show": ["show", "index", "--rows", "2"],
    "show text": ["show", "tokens", "--text", "The sea-bed is muddy."],
    "verify": ["verify", "corpus", "tokens", "words", "mlm", "sentences", "index"],
    "plot": ["plot", "mlm", "clm"],
}  # fmt: skip

SERVED = ("index", "words", "mlm", "clm", "classifier")
REQUESTS: dict[str, tuple[str, Any]] = {
    "hits": ("/search?q=salt+water&k=5&index=index", None),
    "hits of a condition": ("/search?q=salt+water&k=5&mode=lexical&where=text+like+%27%25sea%25%27&index=index", None),
    "hits by vectors": ("/search?q=bees&k=3&mode=dense&index=index", None),
    "passages": ("/search?q=salt+water&k=3&passage=200&index=index", None),
    "similar": ("/similar?row=0&k=3&index=index", None),
    "neighbours": ("/neighbours?word=sea&k=5", None),
    "facets": ("/facets?index=index", None),
    "vector store": ("/v1/vector_stores/index/search", {"query": "salt water", "max_num_results": 3}),
    "heads": ("/attention?model=mlm&text=the+sea+is+wide", None),
    "embeddings": ("/v1/embeddings", {"input": ["the sea", "bees"], "model": "index"}),
    "fill": ("/fill?text=the+high+%5BMASK%5D+of+the+day&model=mlm", None),
    "completions": ("/v1/completions", {"prompt": "The sea", "max_tokens": 9, "temperature": 0, "model": "clm"}),
    "predict": ("/predict?text=The+sea+is+blue.&model=classifier", None),
    "info": ("/info", None),
    "openapi": ("/openapi.json", None),
}
"""What a server of these artifacts is asked: a path, and the JSON of a POST."""

RENAMED: dict[str, tuple[str, dict[str, str], str]] = {
    "train static": ("train contrastive", {}, "train static"),
    "train contrastive": ("train contrastive", {"encoder": "transformer"}, "train static"),
}
"""Command of today → what it was called before, with the settings that stood for its name, where there was no such command."""

SPEED: dict[str, list[str]] = {
    "tokens": ["tokens.py", "--sizes", "20", "--only", "train,encode", "--peers", "hf", "--repeat", "3"],
    "words": ["words.py", "--sizes", "10", "--only", "speed", "--peers", "gensim-file", "--repeat", "3"],
    "model": ["model.py", "--only", "mlm", "--dtypes", "float32", "--repeat", "2"],
    "embed": ["embed.py", "--parts", "4x256", "static", "--texts", "1000", "--sentences", "50000", "--repeat", "3"],
}  # fmt: skip
"""Benchmark → its script and options; `speed` adds --data and --out."""


def main() -> int:
    """The three parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    record_ = parts.add_parser("record", help="run everything and write it down")
    record_.add_argument("out", type=Path)
    record_.add_argument("--code", type=Path, default=HERE, metavar="CLONE", help="the checkout that is run")
    record_.add_argument("--cold", type=int, default=10, help="processes timed (default 10)")
    record_.add_argument("--keep", type=Path, help="leave the artifacts in this folder")
    compare = parts.add_parser("differences", help="what two records do not share")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    compare.add_argument("--new-recipes", action="store_true", help="recipes may differ: settings have changed")
    timed = parts.add_parser("speed", help="the benchmarks of two checkouts in turn")
    timed.add_argument("--before", type=Path, required=True, metavar="CLONE")
    timed.add_argument("--data", type=Path, required=True, help="a folder with wiki/train.txt")
    timed.add_argument("--out", type=Path, required=True)
    timed.add_argument("--only", nargs="*", choices=SPEED, default=list(SPEED))
    given = parser.parse_args()
    if given.part == "record":
        with tempfile.TemporaryDirectory() as scratch:
            place = given.keep or Path(scratch)
            place.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(record(given.code.resolve(), place.resolve(), given.cold), indent=1) + "\n")
        return 0
    if given.part == "differences":
        records = [json.loads(path.read_text()) for path in (given.before, given.after)]
        return differences(*records, new_recipes=given.new_recipes)
    result = speed(given.before.resolve(), given.data.resolve(), given.only)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def record(code: Path, place: Path, cold: int) -> dict[str, Any]:
    """Everything about one checkout, as JSON values."""
    shutil.copytree(HERE / "data" / "sample", place / "text", dirs_exist_ok=True)
    make_evaluation_sets(place / "judged")
    make_labelled(place / "made")
    run = Runner(code, place)
    known = {*helps(run)}
    found: dict[str, Any] = {"cpu": cpu_name(), "artifacts": {}, "answers": {}, "exports": {}}
    for name, command in STAGES.items():
        try:
            run(*as_config(as_known(command, known), place / f"{name}.toml"), "-o", name, "-q")
        except FailedError as failed:
            found["artifacts"][name] = {"failed": str(failed).splitlines()[0]}
            continue
        manifest = json.loads((place / name / "manifest.json").read_text())
        found["artifacts"][name] = {"digest": manifest["digest"], "recipe": manifest["recipe"], "counts": manifest["counts"],
                                    "metrics": manifest["metrics"]}  # fmt: skip
    for name, formats in FORMATS.items():
        for to in formats:
            run("export", name, "--to", to, "-o", f"{name}.{to}", "-q")
            found["exports"][f"{name} {to}"] = hash_of(place / f"{name}.{to}")
    for to in IMPORTED:
        run("import", f"words.{to}", "-o", f"imported-{to}", "-q")
        found["artifacts"][f"import {to}"] = json.loads((place / f"imported-{to}/manifest.json").read_text())["digest"]
    for name, command in ANSWERS.items():
        try:
            found["answers"][name] = [without_times(json.loads(line)) for line in run.lines(*command, "--json")]
        except FailedError as failed:
            found["answers"][name] = {"failed": str(failed).splitlines()[0]}
    found["served"] = served(run)
    found["help"] = helps(run)
    found["loaded"] = {"help": run.loaded("--help"), "query": run.loaded("query", "index", "salt water", "-q"),
                       "train mlm": run.loaded("train", "mlm", "--help")}  # fmt: skip
    found["cold_s"] = {"help": run.seconds(cold, "--help"), "query": run.seconds(cold, "query", "index", "salt water"),
                       "query a transformer": run.seconds(cold, "query", "index-mlm", "salt water")}  # fmt: skip
    files = list((code / "wordpipe").rglob("*.py"))
    found["size"] = {"files": len(files), "lines": sum(len(path.read_text().splitlines()) for path in files)}
    return found


class FailedError(RuntimeError):
    """A command that failed: its line and exit code, then what it said."""


class Runner:
    """The command line of one checkout, in processes of its own, in one folder."""

    def __init__(self, code: Path, place: Path) -> None:
        self.place = place
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(code),
            "XDG_CACHE_HOME": str(place / "cache"),
            "COLUMNS": "100",
        }

    def __call__(self, *arguments: str, python: tuple[str, ...] = ("-m", "wordpipe")) -> str:
        """Return what a command prints on stdout.

        Raises:
            FailedError: the command ended with another exit code than 0.
        """
        done = subprocess.run(
            [sys.executable, *python, *arguments], cwd=self.place, env=self.environment, capture_output=True, text=True,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            raise FailedError(f"wordpipe {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout

    def lines(self, *arguments: str) -> list[str]:
        """What it prints, line by line; JSON over several lines counts as one."""
        out = self(*arguments)
        try:
            return [json.dumps(json.loads(out))]
        except ValueError:
            return out.splitlines()

    def loaded(self, *arguments: str) -> list[str]:
        """Our modules and heavy packages that a command has loaded at its end."""
        code = (
            "import sys, json; from wordpipe.cli import run; sys.argv = ['wordpipe', *sys.argv[1:]]; run();"
            "print('\\n' + json.dumps(sorted(sys.modules)))"
        )
        modules = json.loads(self(*arguments, python=("-c", code)).splitlines()[-1])
        return [name for name in modules if name.startswith("wordpipe") or name in HEAVY]

    def seconds(self, times: int, *arguments: str) -> float:
        """Median seconds from start to end."""
        taken = []
        for _ in range(times):
            begin = time.perf_counter()
            self(*arguments)
            taken.append(time.perf_counter() - begin)
        return round(statistics.median(taken), 3)


def cpu_name() -> str:
    """What the machine calls its processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def make_evaluation_sets(folder: Path) -> None:
    """Small sets to evaluate on, made by rule from words of the handbook."""
    words = ["sea", "moon", "water", "salt", "tide", "wind", "ice", "snow", "rain", "cloud", "bread", "bees", "honey",
             "bridge", "river", "stone", "iron", "glass", "wood", "fire"]  # fmt: skip
    (folder / "retrieval").mkdir(parents=True, exist_ok=True)
    pairs = [(a, b, (7 * i + 3 * k) % 11) for i, a in enumerate(words) for k, b in enumerate(words[i + 1 : i + 4])]
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in pairs))
    fours = [" ".join(words[i : i + 4]) for i in range(len(words) - 4)]
    (folder / "analogies.txt").write_text(": made\n" + "\n".join(fours) + "\n")
    blocks = [
        block.split("\n", 1) for block in (HERE / "data/sample/handbook.txt").read_text().split("\n\n") if "\n" in block
    ]
    texts = [(title, " ".join(body.split())) for title, body in blocks]
    scored = [(texts[i][1][:150], texts[(i * 7 + 1) % 60][1][:150], i % 6) for i in range(60)]
    (folder / "sts.tsv").write_text("".join(f"{score}\t{a}\t{b}\n" for a, b, score in scored))
    documents = [{"_id": f"d{i}", "title": "", "text": body} for i, (_, body) in enumerate(texts)]
    queries = [{"_id": f"q{i}", "text": title} for i, (title, _) in enumerate(texts[:40])]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (folder / "retrieval" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    qrels = "".join(f"q{i}\td{i}\t1\n" for i in range(len(queries)))
    (folder / "questions.tsv").write_text("".join(f"{title}\t{title}\n" for title, _ in texts[:40]))
    (folder / "retrieval" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)


def make_labelled(folder: Path) -> None:
    """Texts with labels and tags, pairs, and questions with answers, made by rule."""
    folder.mkdir()
    colours = ("red", "blue", "green")
    labelled = [
        {"text": f"Bridge {n} is {colour} like the {thing} .", "label": colour,
         "tags": ["B-bridge", "I-bridge", "O", f"B-{colour}", "O", "O", "O", "O"]}
        for n in range(30) for colour, thing in zip(colours, ("stone", "sea", "ice"), strict=True)
    ]  # fmt: skip
    pairs = [{"text": f"one {n} two", "text_b": f"two {n} one"} for n in range(80)]
    found = [{"context": f"The bridge has {n} bees in it.", "qas": [
        {"id": str(n), "question": "How many bees?", "answers": [{"text": str(n), "answer_start": 15}]}]}
        for n in range(10, 50)]  # fmt: skip
    for name, rows in (("labelled", labelled), ("pairs", pairs)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "questions.json").write_text(
        json.dumps({"version": "1", "data": [{"title": "Bees", "paragraphs": found}]})
    )
    (folder / "passages.txt").write_text("\n\n".join(str(row["context"]) for row in found[:5]) + "\n")


def served(run: Runner) -> dict[str, Any]:
    """What one server answers to each request: the status and the JSON."""
    server = subprocess.Popen(
        [sys.executable, "-m", "wordpipe", "serve", *SERVED, "--port", "0", "--json"], cwd=run.place,
        env=run.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    try:
        url = json.loads(server.stdout.readline())["url"].rstrip("/")
        return {name: [status, without_times(answer)] for name, (path, body) in REQUESTS.items()
                for status, answer in [asked(url + path, body)]}  # fmt: skip
    finally:
        server.terminate()
        server.wait()


def asked(url: str, body: Any) -> tuple[int, Any]:
    """The status of an answer, and its JSON: one value, or one a line."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, [json.loads(line) for line in answer.read().splitlines()]
    except urllib.error.HTTPError as refused:
        return refused.code, [json.loads(line) for line in refused.read().splitlines()]


def helps(run: Runner) -> dict[str, str]:
    """The help of every command."""
    code = (
        "import click, json\nfrom wordpipe.cli.app import app\n"
        "def walk(command, path):\n"
        "    yield path\n"
        "    for name in (command.list_commands(None) if isinstance(command, click.Group) else ()):\n"
        "        yield from walk(command.get_command(None, name), [*path, name])\n"
        "print(json.dumps(list(walk(app, []))))"
    )
    paths = json.loads(run(python=("-c", code)))
    return {" ".join(path) or "wordpipe": run(*path, "--help") for path in paths}


def as_known(command: list[str], known: set[str]) -> list[str]:
    """The command as this checkout calls it."""
    name = " ".join(command[:2])
    before, settings, since = RENAMED.get(name, (name, {}, name))
    if since in known:
        return command
    return [*before.split(), *command[2:], *(part for key, value in settings.items() for part in (f"--{key}", value))]


def as_config(command: list[str], path: Path) -> list[str]:
    """The command with its settings in a TOML file, which every version reads, whether they have an option there or not."""
    first = next((place for place, part in enumerate(command) if part.startswith("--")), len(command))
    given: dict[str, list[str]] = {}
    rest = command[first:]
    for place, part in enumerate(rest):
        if part.startswith("--"):
            value = rest[place + 1] if place + 1 < len(rest) and not rest[place + 1].startswith("--") else ""
            given.setdefault(part.removeprefix("--").replace("-", "_"), []).append(value)
    lines = []
    for name, values in given.items():
        if values == [""]:
            lines.append(f"{name.removeprefix('no_')} = {'false' if name.startswith('no_') else 'true'}")
        else:
            shown = [value if re.fullmatch(r"[0-9.]+", value) else json.dumps(value) for value in values]
            lines.append(f"{name} = {shown[-1] if name != 'metadata' else '[' + ', '.join(shown) + ']'}")
    path.write_text("\n".join(lines) + "\n")
    return [*command[:first], "--config", path.name]


def without_times(value: Any) -> Any:
    """JSON without what differs from run to run, and with numbers as they print to six digits."""
    if isinstance(value, dict):
        verified = {"bytes"} if "files" in value else set()  # a manifest is as long as its seconds have digits
        drawn = {"id", "created"} if str(value.get("id")).startswith("cmpl-") else set()  # of a completion
        return {name: without_times(item) for name, item in value.items() if name not in TIMES | verified | drawn}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def hash_of(path: Path) -> str:
    """Of a file, or of all files of a folder."""
    files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
    hashed = hashlib.sha256()
    for file in files:
        hashed.update(f"{file.relative_to(path)}\n".encode() + file.read_bytes())
    return hashed.hexdigest()


def differences(before: dict[str, Any], after: dict[str, Any], *, new_recipes: bool = False) -> int:
    """Print what two records do not share; 1 if it must be explained."""
    parts = ("artifacts", "exports", "answers", "served")
    wrong = [line for part in parts for line in unlike(before[part], after[part], part)]
    if new_recipes:
        wrong = [line for line in wrong if not re.match(r"artifacts\.\S+\.recipe:", line)]
    print("\n".join(wrong) or f"{', '.join(parts)}: the same")
    for name in before["help"] | after["help"]:
        sides = [record["help"].get(name, "") for record in (before, after)]
        if sides[0] != sides[1]:
            print(f"help of {name}: {' → '.join(f'{len(side.splitlines())} lines' for side in sides)}")
    for name, modules in before["loaded"].items():
        now = after["loaded"][name]
        heavy = sorted(set(now) & set(HEAVY) - set(modules))
        print(f"{name} loads {len(modules)} → {len(now)} modules" + (f", and now {', '.join(heavy)}" if heavy else ""))
        wrong += heavy
    for name, seconds in before["cold_s"].items():
        print(f"{name}: {seconds} → {after['cold_s'][name]} s ({before['cpu']}; {after['cpu']})")
    print(f"size: {before['size']} → {after['size']}")
    return 1 if wrong else 0


def unlike(before: Any, after: Any, where: str) -> Iterator[str]:
    """Where two JSON values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before | after:
            if name not in before or name not in after:
                yield f"{where}.{name}: {'new' if name in after else 'gone'}"
            else:
                yield from unlike(before[name], after[name], f"{where}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from unlike(old, new, f"{where}[{number}]")
    elif before != after:
        yield f"{where}: {str(before)[:90]} → {str(after)[:90]}"


def speed(before: Path, data: Path, names: list[str]) -> dict[str, Any]:
    """The results of each benchmark on both checkouts."""
    result: dict[str, Any] = {"cpu": cpu_name(), "before": {}, "after": {}}
    for name in names:
        script, *options = SPEED[name]
        text = data if name != "embed" else data / "wiki" / "valid.txt"
        for side, code in (("before", before), ("after", HERE)):
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder, "out.json")
                command = [
                    sys.executable,
                    f"{code}/benchmarks/{script}",
                    "--data",
                    str(text),
                    "--out",
                    str(out),
                    *options,
                ]
                subprocess.run(command, env={**os.environ, "PYTHONPATH": str(code)}, cwd=code, check=False)
                result[side][name] = json.loads(out.read_text())
    return result


if __name__ == "__main__":
    raise SystemExit(main())
