"""The world that faults are tried in: a text of some kB, every stage made once from it, and processes to run commands in.

Every stage is a row of `STAGES`. What stood at its output before is another artifact of its kind, so
that old and new can never be taken for each other.
"""

import json
import os
import shutil
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.support.nursery import Nursery

ROOT = Path(__file__).resolve().parents[2]
_HANDBOOK = ROOT / "data" / "sample" / "handbook.txt"
_PARAGRAPHS = 60

_TINY = """
dim = 32
n_layers = 1
n_heads = 1
ffn_dim = 64
seq_len = 64
threads = 1
device = "cpu"
steps = 3
checkpoint_steps = 1
"""
_PAIRS = [
    "--steps",
    "3",
    "--batch-size",
    "8",
    "--threads",
    "1",
    "--set",
    "valid_pairs=8",
    "--set",
    "checkpoint_steps=1",
]
_HEAD = ["--epochs", "1", "--batch-size", "8", "--threads", "1", "--set", "checkpoint_steps=1", "--set", "held_out=0.3"]
_WORDS = ["--dim", "16", "--epochs", "2", "--min-count", "2", "--threads", "1", "--deterministic"]


@dataclass(frozen=True)
class Stage:
    """A command that makes an artifact: `{world}` stands for the folder of inputs."""

    arguments: tuple[str, ...]
    kind: str
    older: str  # another artifact of its kind, which stands at the output before
    trains: bool = False  # keeps checkpoints
    quick: bool = False  # takes part in the fast part


STAGES = {
    "ingest": Stage(
        ("ingest", "{world}/text.txt", "--documents", "block", "--first-line-title", "--valid", "0.1"),
        "corpus",
        "pairs",
        quick=True,
    ),
    "import": Stage(("import", "{world}/vectors.txt"), "words", "word2vec", quick=True),
    "tokenize": Stage(("tokenize", "{world}/ingest", "--vocab-size", "400"), "tokens", "pair-tokens"),
    "word2vec": Stage(
        ("train", "word2vec", "{world}/tokenize", *_WORDS, "--checkpoint-seconds", "0.001"),
        "words",
        "import",
        trains=True,
    ),
    "mlm": Stage(("train", "mlm", "{world}/tokenize", "--config", "{world}/tiny.toml"), "model", "clm", trains=True),
    "clm": Stage(("train", "clm", "{world}/tokenize", "--config", "{world}/tiny.toml"), "model", "mlm", trains=True),
    "denoising": Stage(
        ("train", "denoising", "{world}/tokenize", "--config", "{world}/tiny.toml"), "model", "clm", trains=True
    ),
    "seq2seq": Stage(
        ("train", "seq2seq", "{world}/pair-tokens", "--prefix-field", "task", "--config", "{world}/tiny.toml"),
        "model",
        "mlm",
        trains=True,
    ),
    "static": Stage(
        ("train", "static", "{world}/tokenize", "--words", "{world}/word2vec", *_PAIRS),
        "model",
        "mlm",
        trains=True,
    ),
    "contrastive": Stage(
        (
            "train",
            "contrastive",
            "{world}/tokenize",
            "--init",
            "{world}/mlm",
            "--device",
            "cpu",
            *_PAIRS,
        ),
        "model",
        "clm",
        trains=True,
    ),
    "classifier": Stage(
        ("train", "classifier", "{world}/labelled", "--init", "{world}/mlm", "--device", "cpu", *_HEAD),
        "model",
        "mlm",
        trains=True,
    ),
    "tagger": Stage(
        ("train", "tagger", "{world}/labelled", "--init", "{world}/word2vec", *_HEAD), "model", "clm", trains=True
    ),
    "embed": Stage(
        ("embed", "{world}/mlm", "{world}/ingest", "--unit", "document", "--device", "cpu", "--threads", "1"),
        "sentences",
        "embed-words",
        quick=True,
    ),
    "embed-words": Stage(("embed", "{world}/word2vec", "{world}/ingest"), "sentences", "embed"),
    "index": Stage(("index", "{world}/embed", "--threads", "1"), "index", "index-words", quick=True),
    "index-words": Stage(("index", "{world}/word2vec", "--threads", "1"), "index", "index"),
}

_OF_PAIRS = {
    "pairs": ("ingest", "{world}/pairs.jsonl", "--text-b", "text_b", "--valid", "0.1"),
    "pair-tokens": ("tokenize", "{world}/pairs", "--vocab-size", "400"),
    "labelled": (
        "ingest", "{world}/labelled.jsonl", "--label-field", "label", "--tags-field", "tags", "--valid", "0.1",
    ),
}  # fmt: skip
"""Inputs of stages that are made before these, and not tried themselves: they are what `ingest` and `tokenize` always do."""

EXPORTS = {
    "word2vec-text": "word2vec", "word2vec-binary": "word2vec", "glove": "word2vec", "numpy": "word2vec", "npy": "embed",
    "projector": "word2vec", "sentence-transformers": "embed", "tokenizer-json": "tokenize", "transformers": "tokenize",
    "vocab-merges": "tokenize",
}  # fmt: skip
"""Format of `export` → the stage that makes what is exported."""

IN_FOLDERS = {"numpy", "projector", "sentence-transformers", "transformers", "vocab-merges"}


class World:
    """Inputs, undisturbed artifacts with their digests, and one nursery for each thread.

    Args:
        folder: an empty folder; stays as it is after it was made.
        seed: of everything that is drawn.
        fast: the fast part alone is tried.
    """

    def __init__(self, folder: Path, seed: int, *, fast: bool) -> None:
        self.folder, self.seed, self.fast = folder, seed, fast
        self.digests: dict[str, str] = {}
        self._nurseries: list[Nursery] = []
        self._idle: list[Nursery] = []
        self._own = threading.local()
        self._guard = threading.Lock()
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # the cache of hashes of the suite, not the user's
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.environ["RUST_BACKTRACE"] = "0"  # libraries in Rust print pages where it is 1

    def __enter__(self) -> "World":
        paragraphs = _HANDBOOK.read_text().split("\n\n")[:_PARAGRAPHS]
        (self.folder / "text.txt").write_text("\n\n".join(paragraphs) + "\n")
        lines = [f"word{n} " + " ".join(str(((n * 7 + k * 3) % 19) / 19) for k in range(8)) for n in range(50)]
        (self.folder / "vectors.txt").write_text("50 8\n" + "\n".join(lines) + "\n")
        (self.folder / "tiny.toml").write_text(_TINY)
        words = [line.split()[:6] for line in paragraphs if line.split()]
        pairs = [{"text": " ".join(some), "text_b": " ".join(some[::-1]), "task": "turn: "} for some in words]
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        labelled = [
            {"text": " ".join(some), "label": "long" if len(some[0]) > 3 else "short",
             "tags": ["B-x" if len(word) > 4 else "O" for word in some]} for some in words
        ]  # fmt: skip
        (self.folder / "labelled.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labelled))
        for name, arguments in {**_OF_PAIRS, **{name: row.arguments for name, row in STAGES.items()}}.items():
            command = [part.format(world=self.folder) for part in arguments]
            done = self.nursery.run(*command, "-o", self.folder / name)
            if done.returncode:
                raise RuntimeError(f"the undisturbed run of {name} failed:\n{done.stderr}")
            self.digests[name] = digest_at(self.folder / name)
        for kind in () if self.fast else ("ivf-pq", "hnsw"):
            index = ["index", self.folder / "word2vec", "-o", self.folder / f"index-{kind}", "--type", kind]
            if self.nursery.run(*index, "--threads", "1").returncode:
                raise RuntimeError(f"the undisturbed run of an index of kind {kind} failed")
        self.lend_nursery()
        return self

    def __exit__(self, *_: object) -> None:
        for nursery in self._nurseries:
            nursery.__exit__()

    @property
    def nursery(self) -> Nursery:
        """This thread's."""
        if not hasattr(self._own, "nursery"):
            with self._guard:
                taken = self._idle.pop() if self._idle else None
            self._own.nursery = taken or Nursery().__enter__()
            with self._guard:
                self._nurseries += [] if taken else [self._own.nursery]
        return self._own.nursery

    def lend_nursery(self) -> None:
        """This thread needs its own no more: another may have it."""
        if hasattr(self._own, "nursery"):
            self._idle.append(self._own.nursery)
            del self._own.nursery

    def command(self, stage: str) -> list[str]:
        """The arguments of a stage, without its output."""
        return [part.format(world=self.folder) for part in STAGES[stage].arguments]

    def lay_older(self, stage: str, target: Path) -> None:
        """Put what stood there before at the output of a stage."""
        shutil.copytree(self.folder / STAGES[stage].older, target)


def digest_at(artifact: Path) -> str:
    """The digest that the manifest there states."""
    return str(json.loads((artifact / "manifest.json").read_bytes())["digest"])


PROGRAM = [sys.executable, "-P", "-m", "wordpipe"]
