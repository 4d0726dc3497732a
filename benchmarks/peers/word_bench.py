"""A run of the benchmark of word vectors: its libraries, its texts, and a process for each piece of work."""

import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokens import Bench, Peer, environment_of, without_paths

from peers.figures import HERE

SUBSAMPLE = 1e-3
GENSIM = "gensim-file"
LIBRARIES = {HERE: "wordpipe", GENSIM: "gensim", "gensim-iterable": "gensim", "fasttext": "fasttext"}
WAYS = {GENSIM: ", corpus_file", "gensim-iterable": ", iterable"}

Line = dict[str, Any]


@dataclass
class WordBench(Bench):
    """One run of the benchmark.

    Attributes:
        prepared: the words of each size and least count: where they lie, and how many they are.
        took: seconds of each part.
    """

    prepared: dict[tuple[float, int], Line] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)

    def child(self, peer: str, work: str, **task: Any) -> Line:
        """One task in a fresh process of the peer's environment."""
        task_file, result = self.work / "task.json", self.work / "result.json"
        result.unlink(missing_ok=True)
        task_file.write_text(json.dumps({"peer": peer, "work": work, "result": str(result), **task}))
        python = self.pythons.get(peer, Path(sys.executable))
        seconds, peak = self.process([str(python), "-m", "peers.word_measure", str(task_file)])
        return {"process_seconds": seconds, "process_peak_memory_bytes": peak, **json.loads(result.read_text())}

    def wordpipe(self, *words: object) -> tuple[float, int]:
        """A command of ours: its seconds and peak memory."""
        return self.process([sys.executable, "-m", "wordpipe", *map(str, words), "-q"])

    def tokens(self, name: str) -> Path:
        """The tokens artifact of a text."""
        return self.work / f"tokens-{name}"

    def tokenize(self, text: Path, name: str, *options: str) -> None:
        """Make the tokens of a text; the tokenizer is of no concern here, so it is one that needs no training."""
        corpus = self.work / "corpus"
        self.wordpipe("ingest", text, "-o", corpus, *options)
        self.wordpipe("tokenize", corpus, "-o", self.tokens(name), "--algorithm", "char")
        shutil.rmtree(corpus)

    def text(self, mb: float, min_count: int) -> Line:
        """The first MB as words that occur often enough; made when first asked for."""
        if (mb, min_count) not in self.prepared:
            name = f"{mb:g}"
            if not self.tokens(name).exists():
                self.tokenize(self.texts[mb], name, "--documents", "block")
            task = {"tokens": str(self.tokens(name)), "text": str(self.work / f"words-{name}-{min_count}.txt")}
            found = self.child(HERE, "prepare", min_count=min_count, subsample=SUBSAMPLE, **task)
            self.prepared[mb, min_count] = found | task | {"min_count": min_count}
            print(
                f"{mb:g} MB: {found['words']:,} words, {found['distinct']:,} different (not counted)", file=sys.stderr
            )
        return self.prepared[mb, min_count]


def prepare_peers(bench: WordBench, names: list[str]) -> list[str]:
    """See which libraries are there; the names of those that are."""
    ready = []
    for name in names:
        library = LIBRARIES[name]
        try:
            bench.pythons[name] = python_of(bench, name, library)
            found = bench.child(name, "versions", libraries=[library], modules=[library])
            bench.versions[name] = f"{library} {found[library]}{WAYS.get(name, '')}"
            ready.append(name)
        except (RuntimeError, OSError) as error:
            print(f"skipped {name}: {error}", file=sys.stderr)
            bench.skipped.append({"peer": name, "why": without_paths(str(error), bench)})
    return ready


def python_of(bench: WordBench, name: str, library: str) -> Path:
    """This Python, or for fastText, where it is not installed here, one of its own."""
    here = Path(sys.executable)
    if name != "fasttext":
        return here
    try:
        bench.child(HERE, "versions", libraries=[library], modules=[library])
    except RuntimeError:
        return environment_of(bench, Peer(name, library, {}, (library, "numpy")))
    return here
